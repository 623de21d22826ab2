"""DEPTHWISE_CONV_2D."""

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
from ._convolution_lower import lower_depthwise
from ._convolution_wide_lower import is_wide, lower_wide
from ._convolve import EXACT
from ._depthwise import Taps, depthwise
from ._hybrid import RowQuantizer
from ._outputs import FloatOutputs, HybridOutputs, IntegerOutputs, Outputs
from ._requantize import choose
from ._widen import in_float32
from ._window import NO_PADS, Window, sequence
from .api import Binding, NodeSpec, OpError, Run, Shape, op
from .device import Capability, Lowered
from .types import Array


def _window(node: NodeSpec | Binding) -> Window:
    o, x, weights = node.options, node.input(0).shape, node.input(1).shape
    return Window.of(
        o.padding,
        (x[1], x[2]),
        (weights[1], weights[2]),
        (o.stride_h, o.stride_w),
        (o.dilation_h_factor, o.dilation_w_factor),
        o.get("explicit_paddings", NO_PADS),
    )


def _infer(node: NodeSpec) -> list[Shape]:
    x, weights, bias = node.input(0), node.input(1), node.optional(2)
    if x.rank != 4 or weights.rank != 4 or weights.shape[0] != 1:
        raise OpError(
            "DEPTHWISE_CONV_2D takes a 4-dimensional input and weights [1, height, width, "
            f"channels]; got {list(x.shape)} and {list(weights.shape)}"
        )
    # the option `depth_multiplier` is redundant, and ignored
    units = weights.shape[3]
    if x.shape[3] < 1 or units < 1 or units % x.shape[3]:
        raise OpError(
            f"weights {list(weights.shape)} have {units} channels, no multiple of the "
            f"{x.shape[3]} of the input {list(x.shape)}"
        )
    check_types(node, x, weights, bias, units)
    return [(x.shape[0], *_window(node).out, units)]


def _bind(b: Binding) -> Run | None:
    if not b.y[0].size:
        return None
    x, weights, bias = b.input(0), b.input(1), b.optional(2)
    plans = {Kind.FLOAT: _plan_float, Kind.INTEGER: _plan_integer, Kind.HYBRID: _plan_hybrid}
    return bind_planned(b, partial(plans[kind_of(x, weights)], b), weights, bias)


def _bias(b: Binding) -> Array | None:
    return None if b.optional(2) is None else b.xi(2)


def _plan_float(b: Binding, scratch: Callable[..., Array]) -> Run:
    y = b.y[0]
    taps = Taps(b.xi(1)[0].astype(y.dtype), 0.0)
    activation = b.options.fused_activation_function

    def outputs(most: int) -> Outputs:
        return FloatOutputs(scratch, y, _bias(b), activation)

    return depthwise(b, scratch, b.xi(0), _window(b), taps, outputs)


def _plan_integer(b: Binding, scratch: Callable[..., Array]) -> Run:
    x, y = b.input(0), b.y[0]
    values = weight_values(b.input(1), b.xi(1))[0]
    low, high = x.dtype.range()
    bound = np.abs(values).sum(axis=(0, 1), dtype=np.int64) * max(-low, high)
    dtype = np.float32 if bound.max() <= EXACT else np.float64
    units = y.shape[3]
    scale = scaling(b, x, b.input(1), values.sum(axis=(0, 1)), _bias(b), units)
    arithmetic = choose(scale, bound, y.size // units, dtype)

    def outputs(most: int) -> Outputs:
        return IntegerOutputs(scratch, y, arithmetic, dtype, most)

    taps = Taps(values.astype(dtype), x.zero_point)
    return depthwise(b, scratch, b.xi(0), _window(b), taps, outputs)


def _plan_hybrid(b: Binding, scratch: Callable[..., Array]) -> Run:
    x, y = b.xi(0), b.y[0]
    rows = x.reshape(x.shape[0], -1)
    quantizer = RowQuantizer(scratch, rows.shape, True)
    activation = b.options.fused_activation_function
    scales = weight_scales(b.input(1))

    def outputs(most: int) -> Outputs:
        return HybridOutputs(scratch, y, _bias(b), activation, quantizer.scale, scales)

    taps = Taps(hybrid_values(b.xi(1))[0].astype(np.float32), 0.0)
    values = quantizer.values.reshape(x.shape)
    run = depthwise(b, scratch, values, _window(b), taps, outputs)
    return sequence([partial(quantizer, rows), run])


def _lower(node: NodeSpec, capability: Capability) -> Lowered:
    if is_wide(node):
        channels = node.input(0).shape[3]
        return lower_wide(node, capability, _window(node), channels, True, depthwise=True)
    return lower_depthwise(node, capability, _window(node))


OPS = {
    "DEPTHWISE_CONV_2D": op(
        "DEPTHWISE_CONV_2D", _infer, in_float32(_bind), versions=(1, 7), lower=_lower
    )
}
