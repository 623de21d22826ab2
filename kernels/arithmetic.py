"""Arithmetic on two tensors, with broadcasting: ADD, SUB, MUL, DIV, MAXIMUM, POW and their kin.

Infinite sums and products stay infinite. The reference clamps them to the greatest finite float,
with XNNPACK they are infinite too; only DIV, where a zero is all it takes, follows the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ._arithmetic_lower import (
    DIFFERENCE,
    FLOOR_REMAINDER,
    HLO_LARGER,
    HLO_LESSER,
    PRODUCT,
    QUOTIENT,
    REMAINDER,
    SUM,
    lower_add_n,
    lower_binary,
    lower_div,
    lower_floor_div,
    lower_squared_difference,
)
from ._broadcast import broadcast_shape
from ._check import (
    BYTES,
    COMPLEX,
    WIDE_INTEGERS,
    arity,
    gives,
    same_type,
    scaled,
    symmetric,
)
from ._division import (
    activation_of,
    apply_ufunc,
    bind_div,
    bind_floor_div,
    bind_floor_mod,
    bind_pow,
    bind_remainder,
    bind_stablehlo_power,
    is_quantized,
    views,
)
from ._elementwise import sequence
from ._lower import Forms, Lower, same
from ._quant import activation_range, float_activation_range
from ._quantized_binary import (
    Function,
    bind_quantized,
    quantized_add,
    quantized_mul,
    quantized_squared_difference,
    quantized_sub,
)
from ._widen import FLOATS, in_float32
from .api import Bind, Binding, NodeSpec, OpError, Registration, Run, Shape, op, take
from .types import DType

_NUMBERS = (*FLOATS, *WIDE_INTEGERS, *BYTES)


def _infer(node: NodeSpec, *dtypes: DType) -> list[Shape]:
    arity(node, 2)
    a, b = node.input(0), node.input(1)
    take(node, "input 0", a, *dtypes)
    same_type(node, a, b)
    gives(node, a.dtype)
    float_activation_range(activation_of(node))
    if a.dtype in COMPLEX and activation_of(node) != "NONE":
        raise OpError(
            f"Activation is not allowed for {a.dtype.label} input: got {activation_of(node)}; "
            f"{node.op} takes NONE with complex types"
        )
    return [broadcast_shape(node, a, b)]


def _infer_quantizable(node: NodeSpec, *dtypes: DType) -> list[Shape]:
    """`_infer`, for ops whose 8-bit and int16 tensors are quantised."""
    shapes = _infer(node, *dtypes)
    if is_quantized(node):
        scaled(node, node.input(0), node.input(1), node.outputs[0])
        activation_range(activation_of(node), node.outputs[0])
    return shapes


def _infer_symmetric(node: NodeSpec, *dtypes: DType) -> list[Shape]:
    """`_infer_quantizable`, for ops whose int16 arithmetic has no zero points."""
    shapes = _infer_quantizable(node, *dtypes)
    if node.input(0).dtype is DType.INT16 and is_quantized(node):
        symmetric(node, node.input(0), node.input(1), node.outputs[0])
    return shapes


def _infer_mul(node: NodeSpec, *dtypes: DType) -> list[Shape]:
    """MUL also multiplies int16 numbers in [-1, 1) to 8 bits."""
    arity(node, 2)
    if node.input(0).dtype is DType.INT16 and node.outputs[0].dtype in BYTES:
        same_type(node, node.input(0), node.input(1))
        scaled(node, node.outputs[0])
        activation_range(activation_of(node), node.outputs[0])
        return [broadcast_shape(node, node.input(0), node.input(1))]
    return _infer_symmetric(node, *dtypes)


def _ufunc(ufunc: Callable[..., Any], quantized: Function | None = None) -> Bind:
    def bind(b: Binding) -> Run | None:
        if quantized is not None and (is_quantized(b) or b.outputs[0].dtype in BYTES):
            return bind_quantized(b, quantized(b))
        return apply_ufunc(b, ufunc)

    return bind


def _bind_maximum(b: Binding) -> Run | None:
    return _extreme(b, np.maximum, np.fmax)


def _bind_minimum(b: Binding) -> Run | None:
    return _extreme(b, np.minimum, np.fmin)


def _extreme(
    b: Binding, keeps_nan: Callable[..., Any], drops_nan: Callable[..., Any]
) -> Run | None:
    """Where either is NaN: the second of MAXIMUM and MINIMUM, `x0 > x1 ? x0 : x1` in C; the first
    of the StableHLO forms, `std::max(x0, x1)`."""
    if b.y[0].dtype.kind != "f":
        return apply_ufunc(b, keeps_nan, repeat_scalars=True)
    kept = 0 if b.op.startswith("STABLEHLO_") else 1
    if not _has_nan(b, kept):
        return apply_ufunc(b, drops_nan, repeat_scalars=True)
    if not _has_nan(b, 1 - kept):
        return apply_ufunc(b, keeps_nan, repeat_scalars=True)
    x, y = views(b, b.y[0])
    return sequence(partial(drops_nan, *x, out=y), partial(keeps_nan, y, x[kept], out=y))


def _has_nan(b: Binding, i: int) -> bool:
    const = b.input(i).const
    return const is None or bool(np.isnan(b.xi(i)).any())


def _bind_squared_difference(b: Binding) -> Run | None:
    if b.input(0).dtype in BYTES:
        return bind_quantized(b, quantized_squared_difference(b))
    return sequence(apply_ufunc(b, np.subtract), partial(np.multiply, b.y[0], b.y[0], b.y[0]))


def _infer_squared_difference(node: NodeSpec, *dtypes: DType) -> list[Shape]:
    shapes = _infer(node, *dtypes)
    if node.input(0).dtype in BYTES:
        scaled(node, node.input(0), node.input(1), node.outputs[0])
    return shapes


def _infer_add_n(node: NodeSpec, *dtypes: DType) -> list[Shape]:
    if len(node.inputs) < 1:
        raise OpError("ADD_N has no input; it takes one or more")
    arity(node, len(node.inputs))
    first = node.input(0)
    take(node, "input 0", first, *dtypes)
    gives(node, first.dtype)
    for i in range(1, len(node.inputs)):
        spec = node.input(i)
        same_type(node, first, spec)
        if spec.shape != first.shape:
            raise OpError(
                f"input {i} {spec.name!r} has shape {list(spec.shape)} and input 0 "
                f"{list(first.shape)}; ADD_N takes inputs of one shape"
            )
    return [first.shape]


def _bind_add_n(b: Binding) -> Run | None:
    x, y = [b.xi(i) for i in range(len(b.inputs))], b.y[0]
    if len(x) == 1:
        return None if np.shares_memory(x[0], y) else partial(np.copyto, y, x[0])
    rest = (partial(np.add, y, a, y) for a in x[2:])
    return sequence(partial(np.add, x[0], x[1], y), *rest)


def _infer_atan2(node: NodeSpec, *dtypes: DType) -> list[Shape]:
    shapes = _infer(node, *dtypes)
    if node.input(0).shape != node.input(1).shape:
        raise OpError(
            f"inputs of shapes {list(node.input(0).shape)} and {list(node.input(1).shape)}; "
            "ATAN2 takes one shape"
        )
    return shapes


def _row(
    name: str,
    bind: Bind,
    dtypes: tuple[DType, ...],
    versions: tuple[int, int] = (1, 1),
    infer: Callable[..., list[Shape]] = _infer,
    inplace: tuple[int, ...] = (0, 1),
    lower: Lower | None = None,
    custom: bool = False,
) -> Registration:
    def checked(node: NodeSpec) -> list[Shape]:
        return infer(node, *dtypes)

    return op(
        name,
        checked,
        in_float32(bind),
        versions=versions,
        inplace=inplace,
        lower=lower,
        custom=custom,
    )


_ALL = (*_NUMBERS, *COMPLEX)

OPS: Mapping[str, Registration] = {
    r.name: r
    for r in (
        _row(
            "ADD",
            _ufunc(np.add, quantized_add),
            _ALL,
            (1, 6),
            _infer_symmetric,
            lower=lower_binary(SUM, quantized_add),
        ),
        _row(
            "SUB",
            _ufunc(np.subtract, quantized_sub),
            _ALL,
            (1, 5),
            _infer_symmetric,
            lower=lower_binary(DIFFERENCE, quantized_sub),
        ),
        _row(
            "MUL",
            _ufunc(np.multiply, quantized_mul),
            _ALL,
            (1, 8),
            _infer_mul,
            lower=lower_binary(PRODUCT, quantized_mul),
        ),
        _row("DIV", bind_div, _ALL, (1, 2), _infer_quantizable, lower=lower_div),
        _row(
            "MAXIMUM",
            _bind_maximum,
            _NUMBERS,
            (1, 4),
            inplace=(0,),
            lower=lower_binary(same("$0 > $1 ? $0 : $1")),
        ),
        _row(
            "MINIMUM",
            _bind_minimum,
            _NUMBERS,
            (1, 4),
            inplace=(0,),
            lower=lower_binary(same("$0 < $1 ? $0 : $1")),
        ),
        _row(
            "POW",
            bind_pow,
            (*FLOATS, DType.INT32, DType.INT64),
            lower=lower_binary(Forms("F_POW($0, $1)")),
        ),
        _row("FLOOR_DIV", bind_floor_div, _NUMBERS, (1, 3), lower=lower_floor_div),
        _row(
            "FLOOR_MOD",
            bind_floor_mod,
            _NUMBERS,
            (1, 2),
            lower=lower_binary(FLOOR_REMAINDER, None, True),
        ),
        _row(
            "SQUARED_DIFFERENCE",
            _bind_squared_difference,
            (*FLOATS, *WIDE_INTEGERS, DType.INT8, DType.UINT8),
            (1, 2),
            _infer_squared_difference,
            lower=lower_squared_difference,
        ),
        _row(
            "ADD_N",
            _bind_add_n,
            (*FLOATS, *WIDE_INTEGERS),
            infer=_infer_add_n,
            inplace=(0,),
            lower=lower_add_n,
        ),
        _row(
            "ATAN2",
            _ufunc(np.arctan2),
            FLOATS,
            infer=_infer_atan2,
            lower=lower_binary(Forms("F_ATAN2($0, $1)")),
        ),
        _row("STABLEHLO_ADD", _ufunc(np.add), (*_ALL, DType.BOOL), lower=lower_binary(SUM)),
        _row("STABLEHLO_SUBTRACT", _ufunc(np.subtract), _ALL, lower=lower_binary(DIFFERENCE)),
        _row(
            "STABLEHLO_MULTIPLY",
            _ufunc(np.multiply),
            (*_ALL, DType.BOOL),
            lower=lower_binary(PRODUCT),
        ),
        _row("STABLEHLO_DIVIDE", bind_div, _ALL, lower=lower_binary(QUOTIENT, None, True)),
        _row(
            "STABLEHLO_MAXIMUM",
            _bind_maximum,
            (*_NUMBERS, DType.BOOL),
            inplace=(1,),
            lower=lower_binary(HLO_LARGER),
        ),
        _row(
            "STABLEHLO_MINIMUM",
            _bind_minimum,
            (*_NUMBERS, DType.BOOL),
            inplace=(1,),
            lower=lower_binary(HLO_LESSER),
        ),
        _row(
            "STABLEHLO_POWER",
            bind_stablehlo_power,
            (*FLOATS, *WIDE_INTEGERS, *BYTES),
            lower=lower_binary(
                Forms("F_POW($0, $1)", "(TYPE)power_TYPE($0, $1)", "power_WRAP($0, $1)")
            ),
        ),
        _row(
            "STABLEHLO_REMAINDER",
            bind_remainder,
            _NUMBERS,
            lower=lower_binary(REMAINDER, None, True),
        ),
    )
}
