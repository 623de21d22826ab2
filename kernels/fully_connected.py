"""FULLY_CONNECTED."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from ._convolution import (
    SMALL,
    Kind,
    bind_planned,
    check_quantization,
    check_symmetric,
    check_weight_scales,
    hybrid_values,
    kind_of,
    multipliers,
    scaling,
    weight_scales,
    weight_values,
)
from ._convolution_lower import POINT, lower_convolution
from ._convolution_wide_lower import is_wide, lower_wide
from ._convolve import Packed, order_for, pack_integers, product
from ._hybrid import RowQuantizer
from ._lower import refuse
from ._quant import activation_range, float_activation_range
from ._requantize import Requantizer, choose
from ._scaling import Scaling
from ._sparse import densify
from ._tiles import Tiler, activate
from ._widen import in_float32
from ._window import sequence
from .api import Binding, NodeSpec, OpError, Run, Shape, TensorSpec, op, take
from .device import Capability, Lowered
from .types import Array, DType

_TYPES = {
    DType.FLOAT32: (DType.FLOAT32, *SMALL, DType.UINT8),
    DType.FLOAT64: (DType.FLOAT64,),
    DType.FLOAT16: (DType.FLOAT16,),
    DType.BFLOAT16: (DType.BFLOAT16,),
    DType.UINT8: (DType.UINT8,),
    DType.INT8: SMALL,
    DType.INT16: (*SMALL, DType.INT16),
}


# a product that is not cut along its depth
_WHOLE = (slice(None),)


def _infer(node: NodeSpec) -> list[Shape]:
    x, weights, bias, y = node.input(0), node.input(1), node.optional(2), node.outputs[0]
    if len(node.inputs) > 3:
        raise OpError(f"FULLY_CONNECTED takes 2 or 3 inputs; got {len(node.inputs)}")
    take(node, "the activation", x, *_TYPES)
    take(node, f"the weights (with {x.dtype.label} activations)", weights, *_TYPES[x.dtype])
    outputs = (x.dtype, DType.INT16) if x.dtype is DType.UINT8 else (x.dtype,)
    take(node, "the output", y, *outputs)
    if weights.rank != 2:
        raise OpError(f"FULLY_CONNECTED takes weights [units, depth]; got {list(weights.shape)}")
    units, depth = weights.shape
    if bias is not None:
        kinds = (x.dtype,) if x.dtype.is_float else (DType.INT32, DType.INT64)
        take(node, "the bias", bias, *kinds)
        if bias.size != units:
            raise OpError(f"bias {list(bias.shape)} does not have one value per unit; {units} are")
    activation, kind = node.options.fused_activation_function, kind_of(x, weights)
    if kind is Kind.INTEGER:
        check_quantization(node, x, weights, y, units)
        if weights.dtype in (DType.INT4, DType.INT2):
            check_symmetric(node, weights)
        activation_range(activation, y)
    elif kind is Kind.FLOAT or activation != "TANH":
        float_activation_range(activation)
    if kind is Kind.HYBRID:
        _check_hybrid(weights)
    if node.options.keep_num_dims or depth == 0:
        if not x.rank or x.shape[-1] != depth:
            raise OpError(
                f"input {list(x.shape)} and weights {list(weights.shape)}: the last dimension of "
                f"the input must be {depth}"
            )
        rows = x.shape[:-1]
        shape = (*rows, units) if node.options.keep_num_dims else (_count(rows), units)
        return _with_workspace(node, shape)
    if x.size % depth:
        raise OpError(
            f"input {list(x.shape)} has {x.size} elements, no multiple of the depth {depth} of "
            f"the weights {list(weights.shape)}"
        )
    return _with_workspace(node, (x.size // depth, units))


def _shuffled(node: NodeSpec | Binding) -> bool:
    return bool(node.options.weights_format == "SHUFFLED4x16INT8")


def _with_workspace(node: NodeSpec, shape: Shape) -> list[Shape]:
    """Output shapes: shuffled weights have a second output, for the shuffled input."""
    if not _shuffled(node):
        if node.options.weights_format != "DEFAULT":
            raise OpError(
                f"weights format {node.options.weights_format}; taken: DEFAULT, SHUFFLED4x16INT8"
            )
        return [shape]
    units, depth = node.input(1).shape
    take(node, "the activation (with shuffled weights)", node.input(0), DType.UINT8)
    take(node, "the output (with shuffled weights)", node.outputs[0], DType.INT16)
    take(node, "the workspace (with shuffled weights)", node.outputs[1], DType.UINT8)
    if units % 4 or depth % 16:
        raise OpError(
            f"shuffled weights [{units}, {depth}] are not in blocks of 4 units and 16 of depth"
        )
    return [shape, node.outputs[1].shape]


def _check_hybrid(weights: TensorSpec) -> None:
    """Integer weights for floats have a scale, one for each unit, or one for each block."""
    quant, (units, depth) = weights.quant, weights.shape
    if quant is None or not quant.block_size:
        check_weight_scales(weights, units)
    elif quant.scale.shape != (units, depth // quant.block_size) or depth % quant.block_size:
        raise OpError(
            f"weights {weights.name!r} {list(weights.shape)} in blocks of {quant.block_size} have "
            f"scales {list(quant.scale.shape)}"
        )


def _count(shape: Shape) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _bind(b: Binding) -> Run | None:
    x, weights, bias, y = b.input(0), b.input(1), b.optional(2), b.y[0]
    if not y.size:
        return None
    if not weights.shape[1]:
        return partial(y.fill, 0)
    match kind_of(x, weights):
        case Kind.FLOAT:
            return bind_planned(b, partial(_plan_float, b), bias)
        case Kind.INTEGER:
            return bind_planned(b, partial(_plan_integer, b), weights, bias)
        case _:
            return bind_planned(b, partial(_plan_hybrid, b), weights, bias)


def _matrices(b: Binding) -> tuple[Array, Array]:
    """Input [rows, depth] and output [rows, units]."""
    units, depth = b.input(1).shape
    return b.xi(0).reshape(-1, depth), b.y[0].reshape(-1, units)


def _bias(b: Binding) -> Array | None:
    return None if b.optional(2) is None else b.xi(2).reshape(-1)


def _plan_float(b: Binding, scratch: Callable[..., Array]) -> Run:
    x, y = _matrices(b)
    steps = product(x, _dense(b).T, y, _WHOLE, None, scratch)
    return sequence([*steps, *_finish_float(b, scratch, y)])


def _finish_float(b: Binding, scratch: Callable[..., Array], y: Array) -> list[Run]:
    tiler = Tiler(scratch, *y.shape)
    finish = activate(tiler, _bias(b), b.options.fused_activation_function, y.dtype)
    return [*tiler.setup, *finish(y)]


def _plan_integer(b: Binding, scratch: Callable[..., Array]) -> Run:
    x, y = _matrices(b)
    spec = b.input(0)
    values = _unshuffled(b) if _shuffled(b) else weight_values(b.input(1), _dense(b))

    def make() -> Packed:
        return pack_integers(values, 1, *spec.dtype.range(), order)

    order = order_for(len(x))
    packed = b.once("weights " + order, make) if b.input(1).const is not None else make()
    scale = _scaling(b, values)
    sums = scratch(y.shape, packed.sum_dtype)
    part = scratch(y.shape, packed.dtype) if len(packed.cuts) > 1 else None
    rows = scratch(x.shape, packed.dtype)
    arithmetic = choose(scale, packed.bounds, y.shape[0], packed.sum_dtype)
    requantizer = Requantizer(scratch, arithmetic)
    return sequence(
        [
            *_shuffle_input(b, x),
            partial(np.copyto, rows, x),
            *product(rows, packed.groups[0], sums, packed.cuts, part, scratch),
            *requantizer.setup,
            *requantizer.steps(sums, y),
        ]
    )


def _shuffle_input(b: Binding, x: Array) -> list[Run]:
    """Fills the second output of shuffled weights: [depth / 16, rows, 16], sign bits flipped."""
    if not _shuffled(b) or b.y[1].size != x.size:
        return []
    blocks = x.reshape(x.shape[0], -1, 16).swapaxes(0, 1)
    return [partial(np.bitwise_xor, blocks, np.uint8(128), out=b.y[1].reshape(blocks.shape))]


def _dense(b: Binding) -> Array:
    """Weights [units, depth] as stored, sparse ones spread out."""
    weights = b.input(1)
    return b.xi(1) if weights.sparsity is None else b.once("dense", lambda: densify(weights))


def _unshuffled(b: Binding) -> Array:
    """Weights [units, depth] less 128, of ones stored as [units / 4, depth / 16, 4, 16] bytes with
    the sign bit flipped."""
    units, depth = b.input(1).shape
    blocks = b.xi(1).view(np.int8).reshape(units // 4, depth // 16, 4, 16)
    return blocks.swapaxes(1, 2).reshape(units, depth).astype(np.int64)


def _scaling(b: Binding, values: Array) -> Scaling:
    """The reference rounds once here, from real multipliers, unless the weights are int16."""
    x, weights, y = b.input(0), b.input(1), b.outputs[0]
    units = values.shape[0]
    scale = scaling(b, x, weights, values.sum(axis=1), _bias(b), units)
    if _shuffled(b):
        # the zero point is 128 there, whatever the model says
        offset = scale.offset + (x.zero_point - 128) * values.sum(axis=1)
        return replace(scale, offset=offset)
    if weights.dtype is DType.INT16:
        return replace(scale, wide=True)
    real = multipliers(x, weights, y, np.float64)
    return replace(scale, wide=False, rounded=np.broadcast_to(real, units))


def _plan_hybrid(b: Binding, scratch: Callable[..., Array]) -> Run:
    x, y = _matrices(b)
    quant = b.input(1).quant
    assert quant is not None
    asymmetric = quant.block_size > 0 or b.options.asymmetric_quantize_inputs
    quantizer = RowQuantizer(scratch, x.shape, asymmetric)

    def make() -> Array:
        # real weights: the sum of each block, or of each unit, has a scale of its own
        values = hybrid_values(_dense(b)).astype(np.float32)
        if quant.block_size:
            values *= np.repeat(quant.scale.astype(np.float32), quant.block_size, axis=1)
        else:
            values *= weight_scales(b.input(1))[:, None]
        return values

    values: Array = b.once("weights", make) if b.input(1).const is not None else make()
    return sequence(
        [
            partial(quantizer, x),
            *product(quantizer.values, values.T, y, _WHOLE, None, scratch),
            partial(np.multiply, y, quantizer.scale, out=y),
            *_finish_float(b, scratch, y),
        ]
    )


def _lower(node: NodeSpec, capability: Capability) -> Lowered:
    """A convolution of single pixels."""
    if _shuffled(node):
        refuse("OPTION", "weights_format SHUFFLED4x16INT8", "DEFAULT")
    units, depth = node.input(1).shape
    if not depth or not units:
        refuse("SHAPE", f"weights [{units}, {depth}]", "a depth of 1 or more, and a unit or more")
    if is_wide(node):
        asymmetric = bool(node.options.asymmetric_quantize_inputs)
        return lower_wide(node, capability, POINT, depth, asymmetric, _rounded_once)
    return lower_convolution(node, capability, POINT, depth, _rounded_once)


def _rounded_once(
    node: NodeSpec,
    x: TensorSpec,
    weights: TensorSpec,
    sums: Array,
    bias: Array | None,
    units: int,
) -> Scaling:
    """As `_scaling`, of default weights."""
    scale = scaling(node, x, weights, sums, bias, units)
    if weights.dtype is DType.INT16:
        return replace(scale, wide=True)
    real = multipliers(x, weights, node.outputs[0], np.float64)
    return replace(scale, wide=False, rounded=np.broadcast_to(real, units))


OPS = {
    "FULLY_CONNECTED": op(
        "FULLY_CONNECTED", _infer, in_float32(_bind), versions=(1, 14), lower=_lower
    )
}
