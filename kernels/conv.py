"""CONV_2D."""

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
from ._convolution_lower import lower_convolution
from ._convolution_wide_lower import is_wide, lower_wide
from ._convolve import Order, Packed, convolve, cuttable, order_for, pack, pack_integers
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


def _packed(b: Binding, make: Callable[[Order], Packed]) -> Packed:
    y = b.y[0]
    order = order_for(y.size // y.shape[3])
    if b.input(1).const is None:
        return make(order)
    packed: Packed = b.once("weights " + order, lambda: make(order))
    return packed


def _groups(b: Binding) -> int:
    return b.input(0).shape[3] // b.input(1).shape[3]


def _bias(b: Binding) -> Array | None:
    return None if b.optional(2) is None else b.xi(2)


def _plan_float(b: Binding, scratch: Callable[..., Array]) -> Run:
    x, y, window = cuttable(b.xi(0), b.y[0], _window(b))
    packed = _packed(b, lambda o: pack(b.xi(1), _groups(b), y.dtype, o))
    activation = b.options.fused_activation_function

    def outputs(most: int) -> Outputs:
        return FloatOutputs(scratch, y, _bias(b), activation)

    return convolve(b, scratch, x, window, packed, 0.0, outputs)


def _plan_integer(b: Binding, scratch: Callable[..., Array]) -> Run:
    spec = b.input(0)
    x, y, window = cuttable(b.xi(0), b.y[0], _window(b))
    values = weight_values(b.input(1), b.xi(1))
    packed = _packed(b, lambda o: pack_integers(values, _groups(b), *spec.dtype.range(), o))
    units = y.shape[3]
    sums = values.reshape(units, -1).sum(axis=1)
    scale = scaling(b, spec, b.input(1), sums, _bias(b), units)
    arithmetic = choose(scale, packed.bounds, y.size // units, packed.sum_dtype)

    def outputs(most: int) -> Outputs:
        return IntegerOutputs(scratch, y, arithmetic, packed.sum_dtype, most)

    return convolve(b, scratch, x, window, packed, spec.zero_point, outputs)


def _plan_hybrid(b: Binding, scratch: Callable[..., Array]) -> Run:
    x, y, window = cuttable(b.xi(0), b.y[0], _window(b))
    scales = weight_scales(b.input(1))
    # scales that differ by channel, and groups, go with a zero point for the input
    asymmetric = _groups(b) != 1 or bool((scales != scales[0]).any())
    rows = x.reshape(x.shape[0], -1)
    quantizer = RowQuantizer(scratch, rows.shape, asymmetric)
    packed = _packed(b, lambda o: pack(hybrid_values(b.xi(1)), _groups(b), np.float32, o))
    activation = b.options.fused_activation_function

    def outputs(most: int) -> Outputs:
        return HybridOutputs(scratch, y, _bias(b), activation, quantizer.scale, scales)

    values = quantizer.values.reshape(x.shape)
    run = convolve(b, scratch, values, window, packed, 0.0, outputs)
    return sequence([partial(quantizer, rows), run])


def _lower(node: NodeSpec, capability: Capability) -> Lowered:
    channels, window = node.input(0).shape[3], _window(node)
    if is_wide(node):
        scales = weight_scales(node.input(1))
        groups = channels // node.input(1).shape[3]
        asymmetric = groups != 1 or bool((scales != scales[0]).any())
        return lower_wide(node, capability, window, channels, asymmetric)
    return lower_convolution(node, capability, window, channels)


OPS = {"CONV_2D": op("CONV_2D", _infer, in_float32(_bind), versions=(1, 8), lower=_lower)}
