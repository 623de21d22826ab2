"""What the convolutions and FULLY_CONNECTED share: which types go together, and their scaling."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._quant import activation_range, float_activation_range, quantize_multipliers
from ._scaling import Scaling
from .api import Binding, NodeSpec, OpError, Run, TensorSpec, take
from .types import Array, DType


class Kind(enum.Enum):
    """How a node computes: in floats, in integers, or on float activations with integer weights."""

    FLOAT = enum.auto()
    INTEGER = enum.auto()
    HYBRID = enum.auto()


SMALL = (DType.INT8, DType.INT4, DType.INT2)
_WEIGHTS = {
    DType.FLOAT32: (DType.FLOAT32, *SMALL, DType.UINT8),
    DType.FLOAT64: (DType.FLOAT64,),
    DType.FLOAT16: (DType.FLOAT16,),
    DType.BFLOAT16: (DType.BFLOAT16,),
    DType.UINT8: (DType.UINT8,),
    DType.INT8: SMALL,
    DType.INT16: SMALL,
}
_BIAS = {
    DType.UINT8: (DType.INT32,),
    DType.INT8: (DType.INT32,),
    DType.INT16: (DType.INT32, DType.INT64),
}


def kind_of(x: TensorSpec, weights: TensorSpec) -> Kind:
    if not x.dtype.is_float:
        return Kind.INTEGER
    return Kind.FLOAT if weights.dtype.is_float else Kind.HYBRID


def check_types(
    node: NodeSpec, x: TensorSpec, weights: TensorSpec, bias: TensorSpec | None, units: int
) -> Kind:
    """Checks types, quantisation and activation of a node with `units` output channels."""
    y = node.outputs[0]
    take(node, "the activation", x, *_WEIGHTS)
    take(node, f"the weights (with {x.dtype.label} activations)", weights, *_WEIGHTS[x.dtype])
    take(node, "the output", y, x.dtype)
    kind = kind_of(x, weights)
    if bias is not None:
        take(node, "the bias", bias, *_BIAS.get(x.dtype, (x.dtype,)))
        if bias.size != units:
            raise OpError(
                f"bias {bias.name!r} has shape {list(bias.shape)}; one value is taken for each of "
                f"the {units} output channels"
            )
    if kind is Kind.INTEGER:
        check_quantization(node, x, weights, y, units)
        check_symmetric(node, weights)
        activation_range(node.options.fused_activation_function, y)
    else:
        float_activation_range(node.options.fused_activation_function)
    if kind is Kind.HYBRID:
        check_weight_scales(weights, units)
    return kind


def check_quantization(
    node: NodeSpec, x: TensorSpec, weights: TensorSpec, y: TensorSpec, units: int
) -> None:
    """x and y have one scale, weights one or one for each unit; zero points are 0 where needed."""
    for spec in (x, y):
        if spec.quant is None or not spec.scale > 0:
            raise OpError(
                f"tensor {spec.name!r} of type {spec.dtype.label} has no scale; {node.op} on "
                "integers takes quantised tensors"
            )
    check_weight_scales(weights, units)
    if weights.dtype is DType.UINT8 and weights.quant is not None and weights.quant.per_axis:
        raise OpError(f"weights {weights.name!r}: uint8 weights take one scale")
    if weights.dtype is DType.UINT8 and not 0 <= x.scale * weights.scale < np.inf:
        raise OpError(
            f"weights {weights.name!r} have the scale {weights.scale}, {x.name!r} has {x.scale}; "
            "the product is to be finite and at least 0 for uint8"
        )
    if x.dtype is DType.INT16 and (x.zero_point or y.zero_point):
        raise OpError(
            f"{node.op} on int16 takes zero point 0; got {x.zero_point} for the input and "
            f"{y.zero_point} for the output"
        )


def check_symmetric(node: NodeSpec, weights: TensorSpec) -> None:
    """Signed weights have zero point 0."""
    if weights.dtype is not DType.UINT8 and weights.quant and weights.quant.zero_point.any():
        raise OpError(
            f"weights {weights.name!r} of type {weights.dtype.label} have a zero point that is "
            f"not 0; {node.op} takes symmetric ones"
        )


def check_weight_scales(weights: TensorSpec, units: int) -> None:
    count = 0 if weights.quant is None else weights.quant.scale.size
    if count not in (1, units):
        raise OpError(
            f"weights {weights.name!r} have {count} scales; one, or one for each of the {units} "
            "output channels, is taken"
        )


def weight_scales(weights: TensorSpec) -> Array:
    assert weights.quant is not None
    return np.asarray(weights.quant.scale, np.float32).reshape(-1)


def multipliers(x: TensorSpec, weights: TensorSpec, y: TensorSpec, product: Any) -> Array:
    """Scales of x and weights, multiplied in the type `product`, over that of y: float64.

    0 where a damaged scale makes it no number: that is what the reference's cast to integers gives.
    """
    with np.errstate(all="ignore"):
        scale = product(x.scale) * weight_scales(weights).astype(product)
        m = scale.astype(np.float64) / np.float64(y.scale)
    return np.where(np.isfinite(m), m, 0.0)


def weight_values(weights: TensorSpec, stored: Array) -> Array:
    """Integer weights less their zero point, in a type that holds them."""
    per_axis = weights.quant is not None and weights.quant.per_axis
    zero = 0 if per_axis else weights.zero_point
    narrow = stored.dtype != np.int16 and abs(zero) < 1 << 14
    return np.subtract(stored, zero, dtype=np.int16 if narrow else np.int64)


def hybrid_values(stored: Array) -> Array:
    """Integer weights for float activations. Old models keep signed bytes in uint8 tensors."""
    return stored.view(np.int8) if stored.dtype == np.uint8 else stored


def scaling(
    node: Binding | NodeSpec,
    x: TensorSpec,
    weights: TensorSpec,
    sums: Array,
    bias: Array | None,
    units: int,
) -> Scaling:
    """Scaling of integer products of raw x (zero point included) and weights of zero point 0.

    `sums` [units]: the sum of each unit's weights, by which the zero point of x is taken out.
    """
    y = node.outputs[0]
    low, high = activation_range(node.options.fused_activation_function, y)
    # the product of the scales of uint8 tensors is rounded to float32 there
    own = np.float32 if x.dtype is DType.UINT8 else np.float64
    q, shift = quantize_multipliers(multipliers(x, weights, y, own))
    offset = -x.zero_point * sums.astype(np.int64)
    if bias is not None:
        offset = offset + bias.reshape(-1)
    wide = x.dtype is DType.INT16 and node.options.get("quantized_bias_type") is not DType.INT32
    q, shift = np.broadcast_to(q, units), np.broadcast_to(shift, units)
    return Scaling(q, shift, offset, y.zero_point, low, high, wide)


def _fresh(shape: Sequence[int], dtype: Any = np.float32) -> Array:
    return np.empty(shape, dtype)


def bind_planned(
    b: Binding, plan: Callable[[Callable[..., Array]], Run], *constants: TensorSpec | None
) -> Run:
    """Plans now where all `constants` (weights, bias) are constant, else at each call."""
    if all(c is None or c.const is not None for c in constants):
        return plan(b.scratch)
    return lambda: plan(_fresh)()
