"""CONV_2D."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ._convolution import (
    Kind,
    bind_planned,
    check_types,
    hybrid_values,
    kind_of,
    scaling,
    weight_scales,
    weight_values,
)
from ._convolve import Packed, convolve, pack, pack_integers
from ._hybrid import RowQuantizer
from ._requantize import Requantizer, Tiler, activate
from ._window import Window, sequence
from .api import Binding, NodeSpec, OpError, Run, Shape, op
from .types import Array


def _window(node: NodeSpec | Binding) -> Window:
    o, x, weights = node.options, node.input(0).shape, node.input(1).shape
    return Window.of(
        o.padding,
        (x[1], x[2]),
        (weights[1], weights[2]),
        (o.stride_h, o.stride_w),
        (o.dilation_h_factor, o.dilation_w_factor),
    )


def _infer(node: NodeSpec) -> list[Shape]:
    x, weights, bias = node.input(0), node.input(1), node.optional(2)
    if x.rank != 4 or weights.rank != 4:
        raise OpError(
            f"CONV_2D takes 4-dimensional input and weights; got {list(x.shape)} and "
            f"{list(weights.shape)}"
        )
    units, channels = weights.shape[0], weights.shape[3]
    if channels < 1 or x.shape[3] % channels or units % (x.shape[3] // channels):
        raise OpError(
            f"input {list(x.shape)} has {x.shape[3]} channels and weights {list(weights.shape)} "
            f"{channels}: the input's must be a multiple of them, and so many groups divide "
            f"{units} outputs"
        )
    check_types(node, x, weights, bias, units)
    out = _window(node).out
    return [(x.shape[0], *out, units)]


def _bind(b: Binding) -> Run | None:
    if not b.y[0].size:
        return None
    x, weights, bias = b.input(0), b.input(1), b.optional(2)
    plans = {Kind.FLOAT: _plan_float, Kind.INTEGER: _plan_integer, Kind.HYBRID: _plan_hybrid}
    return bind_planned(b, partial(plans[kind_of(x, weights)], b), weights, bias)


def _packed(b: Binding, make: Callable[[], Packed]) -> Packed:
    return b.once("weights", make) if b.input(1).const is not None else make()


def _groups(b: Binding) -> int:
    return b.input(0).shape[3] // b.input(1).shape[3]


def _rows(y: Array, images: slice, rows: slice) -> Array:
    """The block of outputs as [positions, units]."""
    return y[images, rows].reshape(-1, y.shape[3])


def _plan_float(b: Binding, scratch: Callable[..., Array]) -> Run:
    x, y, window = b.xi(0), b.y[0], _window(b)
    compute = np.float64 if y.dtype == np.float64 else np.float32
    packed = _packed(b, lambda: pack(b.xi(1), _groups(b), compute))
    sums = y if y.dtype == compute else scratch(y.shape, compute)
    tiler = Tiler(scratch, y.size // y.shape[3], y.shape[3])
    bias = None if b.optional(2) is None else b.xi(2).astype(compute).reshape(-1)
    act = activate(tiler, bias, b.options.fused_activation_function, compute)

    def finish(images: slice, rows: slice) -> tuple[Array, Sequence[Run]]:
        block = _rows(sums, images, rows)
        steps = act(block)
        if sums is not y:
            target = _rows(y, images, rows)
            steps.append(partial(np.copyto, target, block, casting="unsafe"))
        return block, steps

    steps = convolve(scratch, x, window, packed, 0.0, finish)
    return sequence(tiler.setup + steps)


def _plan_integer(b: Binding, scratch: Callable[..., Array]) -> Run:
    spec, y, window = b.input(0), b.y[0], _window(b)
    values = weight_values(b.input(1), b.xi(1))
    packed = _packed(b, lambda: pack_integers(values, _groups(b), *spec.dtype.range()))
    units = y.shape[3]
    bias = None if b.optional(2) is None else b.xi(2)
    scale = scaling(b, spec, b.input(1), values.reshape(units, -1).sum(axis=1), bias, units)
    requantizer = Requantizer(scratch, y.size // units, scale, packed.bound)
    wide = packed.dtype == np.float64 or len(packed.cuts) > 1
    sums: list[Array] = []

    def finish(images: slice, rows: slice) -> tuple[Array, Sequence[Run]]:
        target = _rows(y, images, rows)
        if not sums:  # the first block is the largest
            sums.append(scratch(target.shape, np.float64 if wide else np.float32))
        block = sums[0][: target.shape[0]]
        return block, requantizer.steps(block, target)

    steps = convolve(scratch, b.xi(0), window, packed, spec.zero_point, finish)
    return sequence(requantizer.setup + steps)


def _plan_hybrid(b: Binding, scratch: Callable[..., Array]) -> Run:
    x, y, window = b.xi(0), b.y[0], _window(b)
    scales = weight_scales(b.input(1))
    batch = x.shape[0]
    # scales that differ by channel, and groups, go with a zero point for the input
    asymmetric = _groups(b) != 1 or bool((scales != scales[0]).any())
    quantizer = RowQuantizer(scratch, (batch, x.size // batch), asymmetric)
    packed = _packed(b, lambda: pack(hybrid_values(b.xi(1)), _groups(b), np.float32))
    tiler = Tiler(scratch, y.size // y.shape[3], y.shape[3])
    factors = tiler.tile(np.broadcast_to(scales, y.shape[3]))
    bias = None if b.optional(2) is None else b.xi(2).reshape(-1)
    act = activate(tiler, bias, b.options.fused_activation_function, np.float32)
    row_scale = quantizer.scale.reshape(batch, 1, 1, 1)

    def finish(images: slice, rows: slice) -> tuple[Array, Sequence[Run]]:
        block = _rows(y, images, rows)
        whole = y[images, rows]
        steps: list[Run] = [partial(np.multiply, whole, row_scale[images], out=whole)]
        steps += [
            partial(np.multiply, part, factors[: part.size], out=part)
            for (part,) in tiler.cut(block)
        ]
        return block, steps + act(block)

    values = quantizer.values.reshape(x.shape)
    steps = convolve(scratch, values, window, packed, 0.0, finish)
    return sequence([partial(quantizer, x.reshape(batch, -1)), *tiler.setup, *steps])


OPS = {"CONV_2D": op("CONV_2D", _infer, _bind, versions=(1, 8))}
