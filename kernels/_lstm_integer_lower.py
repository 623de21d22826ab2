"""The device form of LSTM layers on int8 with 16-bit gates and cell, exact to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._fixedpoint16 import logistic_table, tanh_table
from ._lower import refuse, types, values
from ._lstm_fixed import Norm, Peephole
from ._lstm_integer import cell_exponent, gate_order, quantized_clip
from ._lstm_layout import Layout, Sizes
from ._quant import quantize_multiplier
from ._recurrent import stored
from ._recurrent_lower import (
    Builder,
    blocked,
    constants,
    dense_integers,
    group_of,
    local_floats,
    output_map,
    padded,
    series,
    vector_macros,
    work_group,
)
from .device import Capability, Kernel, Map, Read
from .types import Array, DType


class _Parts:
    """What `_lstm_integer` makes of the weights, as constants of a kernel."""

    def __init__(self, b: Builder, at: Layout, s: Sizes) -> None:
        self.node = node = constants(b.node)
        self.at, self.s = at, s
        self.order = gate_order(s)
        f32 = np.float32
        self.gate_scale = [
            f32(node.intermediates[g].scale) if s.norm else f32(2**-12) for g in self.order
        ]
        self.defines: dict[str, object] = {}
        self.reads: list[int | Array] = []

    def give(self, name: str, array: Any, dtype: Any = np.int32) -> None:
        """A constant of the kernel, as the macro `name`."""
        self.defines[name] = f"IN{len(self.reads)}"
        self.reads.append(np.ascontiguousarray(array, dtype).reshape(-1))

    def stacked(self, inputs: Sequence[int]) -> Array:
        return np.concatenate([stored(self.node, inputs[g]) for g in self.order])

    def multipliers(self, inputs: Sequence[int], source: float) -> list[tuple[int, int]]:
        f32 = np.float32
        return [
            quantize_multiplier(float(f32(self.node.input(inputs[g]).scale) * f32(source) / scale))
            for g, scale in zip(self.order, self.gate_scale, strict=True)
        ]


def add_layer(
    b: Builder,
    capability: Capability,
    at: Layout,
    s: Sizes,
    counts: tuple[int, int],
    time_major: bool,
) -> None:
    """Adds the steps of a layer over input 0; `counts`: steps and batch."""
    node, p = b.node, _Parts(b, at, s)
    types(node, node.input(at.output_state), DType.INT8)
    x, state, (steps, batch), n = node.input(0), node.input(at.output_state), counts, s.cells
    wide = s.gates * n
    early = b.add_scratch((steps * batch, wide), DType.INT16)
    bias = np.zeros(wide, np.int64)
    if not s.norm:
        bias += np.concatenate([values(node.input(at.bias[g])) for g in p.order])
    pairs = np.array(p.multipliers(at.inputs, x.scale), np.int64)
    scales = np.repeat(pairs, n, axis=0).astype(np.int32)
    b.steps.append(
        dense_integers(
            capability,
            0,
            steps * batch,
            p.stacked(at.inputs),
            x.zero_point,
            "clamp_to((i64)multiply_quantized((v) + LOAD3(n), LOAD4(2 * (n)), "
            "LOAD4(2 * (n) + 1)), -32768, 32767)",
            b.write(early),
            (bias.astype(np.int32), scales.reshape(-1)),
        )
    )
    p.reads = [b.read(early), at.output_state, at.cell_state]
    macros = vector_macros(capability, "i32", "i8", wide)
    recurrent = p.stacked(at.recurrent)
    p.give("RECURRENT", blocked(recurrent, macros, np.int8), np.int8)
    p.give("RECURRENT_OFFSET", -state.zero_point * recurrent.sum(axis=1, dtype=np.int64))
    p.give("RECURRENT_SCALE", p.multipliers(at.recurrent, state.scale))
    _add_cell(p)
    _add_output(p, macros)
    longest = max(padded(wide, macros), padded(s.outputs, macros))
    group = group_of(capability, wide)
    p.defines |= {
        **macros,
        **work_group(capability, group),
        "STEPS": steps,
        "OUTPUTS": s.outputs,
        "N": n,
        "GATES": s.gates,
        "WIDE": padded(wide, macros),
        "LONGEST": longest,
        "CIFG": int(s.cifg),
        "PROJECTED": int(s.projection),
        "LOAD_H(at)": "LOAD1(at)",
        "EARLY_ROW(t, row)": f"(t) * {batch} + (row)" if time_major else f"(row) * {steps} + (t)",
    }
    local_floats(capability, longest, s.outputs, 2 * n)
    row = steps * s.outputs + n
    result = b.add_scratch((batch, row), DType.INT16)
    uses = ("fixed", "inverse_sqrt", "recurrent")
    grid, out = (batch * group,), b.write(result)
    b.steps.append(Kernel("lstm_fixed", tuple(p.reads), grid, p.defines, uses, out, (group,)))
    shape, read = series(b.read(result), batch, steps, s.outputs, row, time_major)
    b.steps.append(output_map(shape, read, 0, s.outputs, 0))
    for i, units, offset in (
        (at.output_state, s.outputs, (steps - 1) * s.outputs),
        (at.cell_state, n, steps * s.outputs),
    ):
        kept = Read(b.read(result), strides=(row, 1), offset=offset)
        b.states.append((i, Map("$0", (kept,), shape=(batch, units))))


def _add_cell(p: _Parts) -> None:
    """Peepholes, norms and the tables of gates and cell."""
    node, at, s = p.node, p.at, p.s
    exponent = cell_exponent(node, at)
    p.defines |= {"PEEPS": s.gates - 1 if s.peephole else 0, "NORMS": int(s.norm)}
    if s.peephole:
        peephole = Peephole(node, at, s, exponent, p.gate_scale)
        p.give("PEEPHOLE", peephole.weights, np.int16)
        p.give("PEEPHOLE_SCALE", np.hstack([peephole.q, peephole.shift]))
    if s.norm:
        norm = Norm(node, at, p.order, s.cells)
        p.give("NORM", norm.weights)
        p.give("BIAS", norm.bias)
        p.give("NORM_SCALE", np.hstack([norm.q, norm.shift, norm.guard]))
    p.give("SIGMOID", logistic_table(), np.int16)
    p.give("TANH", tanh_table(3), np.int16)
    p.give("SQUASH", tanh_table(15 + exponent), np.int16)
    clip = quantized_clip(node.options.cell_clip, node.input(at.cell_state).scale, 32767)
    p.defines |= {
        "CELL_SHIFT": 30 + exponent,
        "CELL_LOW": clip or 32768,
        "CELL_HIGH": clip or 32767,
    }


def _add_output(p: _Parts, macros: dict[str, object]) -> None:
    """From output gate times tanh of the cell to the output state."""
    node, at, s, f32 = p.node, p.at, p.s, np.float32
    hidden, state = node.intermediates[4], node.input(at.output_state)
    q, shift = quantize_multiplier(float(f32(2.0**-15 / float(f32(hidden.scale)) * 2.0**-15)))
    if shift >= 0:
        refuse("QUANT", f"a hidden state of scale {hidden.scale}", "greater ones")
    zero = hidden.zero_point
    p.defines |= {
        "HIDDEN_Q": q,
        "HIDDEN_SHIFT": f"({shift})",
        # with a projection it is stored negated
        "HIDDEN_ZERO": f"({-zero if s.projection else zero})",
    }
    if not s.projection:
        return
    weights = stored(node, at.projection)
    offset = zero * weights.sum(axis=1, dtype=np.int64)
    if node.optional(at.projection_bias) is not None:
        offset = offset + node.xi(at.projection_bias)
    p.give("PROJECTION", blocked(weights, macros, np.int8), np.int8)
    p.give("PROJECTION_OFFSET", offset)
    real = f32(node.input(at.projection).scale) * f32(hidden.scale) / f32(state.scale)
    q, shift = quantize_multiplier(float(real))
    clip = quantized_clip(node.options.proj_clip, node.outputs[0].scale, 127)
    p.defines |= {
        "PROJECTION_WIDE": padded(s.outputs, macros),
        "PROJECTION_Q": q,
        "PROJECTION_SHIFT": f"({shift})",
        "OUTPUT_ZERO": f"({state.zero_point})",
        "OUTPUT_LOW": f"({-clip or -128})",
        "OUTPUT_HIGH": clip or 127,
    }
