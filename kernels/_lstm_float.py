"""LSTM layers in float32, with float or with integer ("hybrid") weights.

The gates lie side by side in one row: output, input, forget, cell; so one product makes all.
sigmoid(x) = tanh(x / 2) / 2 + 1/2: the inner halves are put into the weights, and one tanh serves
all gates. Source of the formulas: TensorFlow Lite's LSTM (Sak et al. 2014; layer norm: Ba et al.
2016).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ._activation import activation
from ._hybrid import HybridWeights
from ._lstm_layout import Layout, Sizes, all_constant, state_of
from ._recurrent import Weights, by_steps, multiply, quantizer, rows, stored
from .api import Binding
from .types import Array

# added to the variance in layer normalisation
_TINY = np.float32(1e-8)


@dataclass(frozen=True, slots=True)
class Packed:
    """The weights of one direction. Rows of matrices, and vectors, run over gates and cells."""

    inputs: Weights
    auxiliary: Weights | None
    recurrent: Weights | None
    diagonal: Array | None  # recurrent weights [gates, cells]
    bias: Array
    norm: Array
    peephole: Array  # [early gates, cells]
    output_peephole: Array
    projection: Weights | None
    projection_bias: Array | None


def _order(s: Sizes) -> tuple[int, ...]:
    return (3, 1, 2) if s.cifg else (3, 0, 1, 2)


def pack(b: Binding, at: Layout, s: Sizes) -> Packed:
    order = _order(s)
    half = np.array([1 if g == 2 else 0.5 for g in order], np.float32)
    # a normalisation undoes any factor before it
    before = np.ones_like(half) if s.norm else half

    def matrix(inputs: Sequence[int]) -> Weights:
        arrays = [stored(b, inputs[g]) for g in order]
        factors = np.repeat(before, s.cells)
        if arrays[0].dtype.kind == "f":
            return np.concatenate(arrays) * factors[:, None]
        scales = np.repeat([b.input(inputs[g]).scale for g in order], s.cells)
        return HybridWeights(np.concatenate(arrays), scales.astype(np.float32) * factors)

    def vectors(inputs: Sequence[int], factors: Array) -> Array:
        return np.stack([_real(b, inputs[g]) for g in order]) * factors[:, None]

    def diagonal(g: int) -> Array:
        if not s.peephole or (s.cifg and g == 0):
            return np.zeros(s.cells, np.float32)
        factor = np.float32(1 if s.norm else 0.5)
        return _real(b, at.peephole[{0: 0, 1: 1, 3: 2}[g]]) * factor

    projection: Weights | None = None
    if s.projection:
        raw = stored(b, at.projection)
        integer = raw.dtype.kind != "f"
        projection = HybridWeights(raw, b.input(at.projection).scale) if integer else raw.copy()
    return Packed(
        inputs=matrix(at.inputs),
        auxiliary=matrix(at.auxiliary)
        if at.auxiliary and b.optional(at.auxiliary[3]) is not None
        else None,
        recurrent=None if s.diagonal else matrix(at.recurrent),
        diagonal=vectors(at.recurrent, before) if s.diagonal else None,
        bias=vectors(at.bias, half),
        norm=vectors(at.norm, half) if s.norm else half,
        peephole=np.stack([diagonal(g) for g in order[1:-1]]),
        output_peephole=diagonal(3),
        projection=projection,
        projection_bias=None
        if b.optional(at.projection_bias) is None
        else b.xi(at.projection_bias).copy(),
    )


def _real(b: Binding, i: int) -> Array:
    """A vector of weights as float32."""
    raw = stored(b, i)
    if raw.dtype.kind == "f":
        return raw
    return raw * np.float32(b.input(i).scale)


def layer(
    b: Binding,
    at: Layout,
    s: Sizes,
    x: Array,
    auxiliary: Array | None,
    out: Array,
    backward: bool = False,
) -> Callable[[], None]:
    """A callable that runs one direction over all steps.

    `x` and `auxiliary` are [steps, batch, depth], `out` [steps, batch, outputs]; any of them may
    be a transposed or sliced view.
    """
    steps, batch, depth = x.shape
    n, gates = s.cells, s.gates
    wide = gates * n
    constant = all_constant(b, at)
    key = f"packed{at.output_state}"
    packed = b.once(key, lambda: pack(b, at, s)) if constant else None
    h, c = state_of(b, at.output_state, batch), state_of(b, at.cell_state, batch)
    weights = at.inputs[3]
    quantize_x = quantizer(b, weights, steps * batch, depth)
    quantize_auxiliary = None
    if auxiliary is not None:
        quantize_auxiliary = quantizer(b, weights, steps * batch, auxiliary.shape[2])
    quantize_h = None if s.diagonal else quantizer(b, weights, batch, s.outputs)
    quantize_cells = quantizer(b, weights, batch, n) if s.projection else None

    # what the inputs add to the gates, for all steps
    early = b.scratch((steps * batch, wide))
    added = b.scratch(early.shape) if auxiliary is not None else early
    each = by_steps(early, x)
    z, spare, product = b.scratch((batch, wide)), b.scratch((batch, n)), b.scratch((batch, n))
    z3 = z.reshape(batch, gates, n)
    # with peepholes the output gate waits for the new cell
    start = 1 if s.peephole else 0
    sooner, output = z3[:, start:], z3[:, :1]
    sigmoids, cell = z3[:, start:-1], z3[:, -1]
    peeped = z3[:, 1:-1]
    peep = b.scratch(peeped.shape)
    forget = z3[:, -2]
    act, tanh = activation(b.options.fused_activation_function), np.tanh
    plain_tanh = b.options.fused_activation_function == "TANH"
    squashed = sooner if plain_tanh else sigmoids
    cell_clip, proj_clip = b.options.cell_clip, b.options.proj_clip
    order = range(steps - 1, -1, -1) if backward else range(steps)

    def open_gates(v: Array) -> None:
        np.multiply(v, np.float32(0.5), out=v)
        np.add(v, np.float32(0.5), out=v)

    def run() -> None:
        w = packed if packed is not None else pack(b, at, s)
        multiply(w.inputs, rows(x), early, quantize_x)
        if auxiliary is not None and w.auxiliary is not None:
            multiply(w.auxiliary, rows(auxiliary), added, quantize_auxiliary)
            np.add(early, added, out=early)
        if not s.norm:
            np.add(early, w.bias.reshape(-1), out=early)
        for t in order:
            if w.diagonal is not None:
                np.multiply(h[:, None], w.diagonal, out=z3)
            elif w.recurrent is not None:
                multiply(w.recurrent, h, z, quantize_h)
            np.add(z, each[t], out=z)
            if s.peephole:
                np.multiply(c[:, None], w.peephole, out=peep)
                np.add(peeped, peep, out=peeped)
            if s.norm:
                _normalize(sooner, w.norm[start:], w.bias[start:])
            tanh(squashed, out=squashed)
            if not plain_tanh:
                act(cell)
            open_gates(sigmoids)
            np.multiply(c, forget, out=c)
            if s.cifg:
                np.subtract(np.float32(1), forget, out=product)
                np.multiply(product, cell, out=product)
            else:
                np.multiply(z3[:, 1], cell, out=product)
            np.add(c, product, out=c)
            if cell_clip > 0:
                np.clip(c, -cell_clip, cell_clip, out=c)
            if s.peephole:
                np.multiply(c, w.output_peephole, out=spare)
                np.add(output[:, 0], spare, out=output[:, 0])
                if s.norm:
                    _normalize(output, w.norm[:1], w.bias[:1])
                tanh(output, out=output)
                open_gates(output)
            np.copyto(spare, c)
            act(spare)
            if w.projection is None:
                np.multiply(spare, output[:, 0], out=h)
            else:
                np.multiply(spare, output[:, 0], out=spare)
                multiply(w.projection, spare, h, quantize_cells)
                if w.projection_bias is not None:
                    np.add(h, w.projection_bias, out=h)
                if proj_clip > 0:
                    np.clip(h, -proj_clip, proj_clip, out=h)
            np.copyto(out[t], h)

    return run


def _normalize(v: Array, scale: Array, bias: Array) -> None:
    """Layer normalisation over the last dimension, in place."""
    np.subtract(v, v.mean(axis=-1, keepdims=True, dtype=np.float32), out=v)
    variance = np.square(v).mean(axis=-1, keepdims=True, dtype=np.float32)
    np.divide(v, np.sqrt(variance + _TINY), out=v)
    np.multiply(v, scale, out=v)
    np.add(v, bias, out=v)
