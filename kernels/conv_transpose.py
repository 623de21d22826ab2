"""TRANSPOSE_CONV."""

from __future__ import annotations

from collections.abc import Callable
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
from ._convolve import EXACT, largest_sums
from ._hybrid import RowQuantizer
from ._outputs import FloatOutputs, HybridOutputs, IntegerOutputs, Outputs
from ._requantize import choose
from ._scatter import pack_transposed, scatter
from ._shape import INDEX, known
from ._transposed_lower import lower_transposed
from ._widen import in_float32
from ._window import Window, sequence
from .api import Binding, NodeSpec, OpError, Run, Shape, op, take
from .device import Capability, Lowered
from .types import Array

_SHAPE, _WEIGHTS, _INPUT, _BIAS = range(4)


def _infer(node: NodeSpec) -> list[Shape | None]:
    shape, weights, x = node.input(_SHAPE), node.input(_WEIGHTS), node.input(_INPUT)
    take(node, "the output shape", shape, *INDEX)
    if x.rank != 4 or weights.rank != 4 or shape.shape != (4,):
        raise OpError(
            "TRANSPOSE_CONV takes an output shape of 4 elements and 4-dimensional weights and "
            f"input; got {list(shape.shape)}, {list(weights.shape)} and {list(x.shape)}"
        )
    if x.shape[3] != weights.shape[3] or min((*x.shape[1:], *weights.shape)) < 1:
        raise OpError(
            f"input {list(x.shape)} and weights {list(weights.shape)}: the last dimensions must "
            "be equal, and no dimension but the batch 0"
        )
    units = weights.shape[0]
    check_types(node, x, weights, node.optional(_BIAS), units)
    out = known(shape)
    if out is None:
        return [None]
    if out[0] != x.shape[0] or out[3] != units or min(out[1:3]) < 1:
        raise OpError(
            f"output shape {list(out)} does not go with input {list(x.shape)} and {units} output "
            "channels"
        )
    _window(node, (out[1], out[2]))
    return [out]


def _window(node: NodeSpec | Binding, size: tuple[int, int]) -> Window:
    """The window of the convolution that this one is the transpose of."""
    o, weights = node.options, node.input(_WEIGHTS).shape
    return Window.of(o.padding, size, (weights[1], weights[2]), (o.stride_h, o.stride_w))


def _bind(b: Binding) -> Run | None:
    if not b.y[0].size:
        return None
    x, weights, bias = b.input(_INPUT), b.input(_WEIGHTS), b.optional(_BIAS)
    plans = {Kind.FLOAT: _plan_float, Kind.INTEGER: _plan_integer, Kind.HYBRID: _plan_hybrid}
    return bind_planned(b, partial(plans[kind_of(x, weights)], b), weights, bias)


def _bias(b: Binding) -> Array | None:
    return None if b.optional(_BIAS) is None else b.xi(_BIAS)


def _matrix(b: Binding, make: Callable[[], Array]) -> Array:
    return b.once("weights", make) if b.input(_WEIGHTS).const is not None else make()


def _scatter(
    b: Binding,
    scratch: Callable[..., Array],
    x: Array,
    zero: float,
    matrix: Array,
    outputs: Callable[[int], Outputs],
) -> list[Run]:
    size = (b.y[0].shape[1], b.y[0].shape[2])
    w = _window(b, size)
    return scatter(scratch, x, zero, matrix, w.kernel, w.stride, w.before, size, outputs)


def _plan_float(b: Binding, scratch: Callable[..., Array]) -> Run:
    y = b.y[0]
    matrix = _matrix(b, lambda: pack_transposed(b.xi(_WEIGHTS), y.dtype))
    activation = b.options.fused_activation_function

    def outputs(most: int) -> Outputs:
        return FloatOutputs(scratch, y, _bias(b), activation)

    return sequence(_scatter(b, scratch, b.xi(_INPUT), 0.0, matrix, outputs))


def _plan_integer(b: Binding, scratch: Callable[..., Array]) -> Run:
    x, weights, y = b.input(_INPUT), b.input(_WEIGHTS), b.y[0]
    values = weight_values(weights, b.xi(_WEIGHTS))
    units = values.shape[0]
    low, high = (end - x.zero_point for end in x.dtype.range())
    bound = largest_sums(values.reshape(1, units, -1).swapaxes(1, 2), low, high)[0]
    dtype = np.float32 if bound.max() <= EXACT else np.float64
    matrix = _matrix(b, lambda: pack_transposed(values, dtype))
    # at the edges kernels are cut off, so the zero point is taken from the input itself
    scale = scaling(b, x, weights, np.zeros(units, np.int64), _bias(b), units)
    arithmetic = choose(scale, bound, y.size // units, dtype)

    def outputs(most: int) -> Outputs:
        return IntegerOutputs(scratch, y, arithmetic, dtype, most)

    return sequence(_scatter(b, scratch, b.xi(_INPUT), x.zero_point, matrix, outputs))


def _plan_hybrid(b: Binding, scratch: Callable[..., Array]) -> Run:
    x, y = b.xi(_INPUT), b.y[0]
    rows = x.reshape(x.shape[0], -1)
    quantizer = RowQuantizer(scratch, rows.shape, True)
    matrix = _matrix(b, lambda: pack_transposed(hybrid_values(b.xi(_WEIGHTS)), np.float32))
    activation = b.options.fused_activation_function
    scales = weight_scales(b.input(_WEIGHTS))

    def outputs(most: int) -> Outputs:
        return HybridOutputs(scratch, y, _bias(b), activation, quantizer.scale, scales)

    values = quantizer.values.reshape(x.shape)
    steps = _scatter(b, scratch, values, 0.0, matrix, outputs)
    return sequence([partial(quantizer, rows), *steps])


def _lower(node: NodeSpec, capability: Capability) -> Lowered:
    y = node.outputs[0].shape
    return lower_transposed(node, capability, _INPUT, _window(node, (y[1], y[2])))


OPS = {
    "TRANSPOSE_CONV": op("TRANSPOSE_CONV", _infer, in_float32(_bind), versions=(1, 5), lower=_lower)
}
