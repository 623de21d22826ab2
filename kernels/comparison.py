"""Comparisons and logic on two tensors, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ._broadcast import bind_ufunc, broadcast_shape
from ._check import (
    BYTES,
    COMPLEX,
    INTEGERS,
    WIDE_INTEGERS,
    arity,
    elementwise,
    gives,
    same_type,
    scaled,
)
from ._lower import check, expression, plain, refuse
from ._quant import multiply_by_quantized_multiplier, quantize_multiplier
from ._quantized_binary import Pair, bind_quantized, lower_quantized
from ._widen import FLOATS, in_float32
from .api import Bind, Binding, NodeSpec, OpError, Registration, Run, Shape, TensorSpec, op, take
from .device import Capability, Lowered
from .types import Array, DType

_PLAIN = (*FLOATS, *WIDE_INTEGERS)
_EQUATABLE = (*_PLAIN, *COMPLEX, DType.BOOL, DType.STRING)


def _infer(node: NodeSpec, *dtypes: DType) -> list[Shape]:
    arity(node, 2)
    a, b = node.input(0), node.input(1)
    take(node, "input 0", a, *dtypes)
    same_type(node, a, b)
    gives(node, DType.BOOL)
    if _quantized(node):
        scaled(node, a, b)
    return [broadcast_shape(node, a, b)]


def _quantized(node: NodeSpec | Binding) -> bool:
    """8-bit tensors with scales stand for reals, int16 ones where equality is asked for."""
    a, b = node.input(0), node.input(1)
    small = BYTES if node.op not in ("EQUAL", "NOT_EQUAL") else (*BYTES, DType.INT16)
    return a.dtype in small and any(s.quant is not None and s.scale > 0 for s in (a, b))


def _comparison(
    name: str,
    ufunc: Callable[..., Any],
    sign: str,
    versions: tuple[int, int],
    equality: bool = False,
) -> Registration:
    dtypes = (*(_EQUATABLE if equality else _PLAIN), *BYTES)

    def infer(node: NodeSpec) -> list[Shape]:
        return _infer(node, *dtypes)

    def bind(b: Binding) -> Run | None:
        if _quantized(b):
            return bind_quantized(b, _rescaled(b, ufunc))
        return bind_ufunc(b, ufunc)

    def lower(node: NodeSpec, capability: Capability) -> Lowered:
        check(node, capability)
        if _quantized(node):
            return lower_quantized(node, capability, _rescaled(node, ufunc))
        return plain(f"$0 {sign} $1", reads=2)

    return op(name, infer, in_float32(bind), versions=versions, lower=lower)


def _rescaled(b: Binding | NodeSpec, ufunc: Callable[..., Any]) -> Pair:
    """Compares on a common scale of 1/256, in the reference's fixed-point arithmetic."""
    first, second = (_on_common_scale(b.input(i)) for i in (0, 1))

    def run(v0: Array, v1: Array) -> Array:
        return np.asarray(ufunc(first(v0), second(v1)))

    return run


def _on_common_scale(x: TensorSpec) -> Callable[[Array], Array]:
    q, shift = quantize_multiplier(x.scale)
    return lambda v: multiply_by_quantized_multiplier((v - x.zero_point) << 8, q, shift)


def _logical(name: str, ufunc: Callable[..., Any], sign: str, *more: DType) -> Registration:
    """On bools; with `more` types bit by bit. `sign`: the operator in C."""

    def infer(node: NodeSpec) -> list[Shape]:
        arity(node, 2)
        a, b = node.input(0), node.input(1)
        take(node, "input 0", a, DType.BOOL, *more)
        same_type(node, a, b)
        gives(node, a.dtype)
        return [broadcast_shape(node, a, b)]

    lower = expression(f"$0 {sign} $1", reads=2)
    return op(name, infer, partial(bind_ufunc, ufunc=ufunc), inplace=(0, 1), lower=lower)


def _infer_not(node: NodeSpec) -> list[Shape]:
    return [elementwise(node, DType.BOOL)]


def _bind_not(b: Binding) -> Run | None:
    return partial(np.logical_not, b.xi(0), out=b.y[0])


_DIRECTIONS: Mapping[str, Callable[..., Any]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}
_TOTAL_ORDER = "STABLEHLO_COMPARISON_TYPE_FLOAT_TOTAL_ORDER"


def _direction(node: NodeSpec | Binding) -> str:
    return str(node.options.comparison_direction).rpartition("_")[2]


def _infer_compare(node: NodeSpec) -> list[Shape]:
    shapes = _infer(node, *_EQUATABLE, *BYTES)
    if _direction(node) not in _DIRECTIONS:
        raise OpError(
            f"comparison_direction {node.options.comparison_direction}; "
            f"taken: {', '.join(_DIRECTIONS)}"
        )
    total = node.options.get("compare_type") == _TOTAL_ORDER
    if total and node.input(0).dtype not in (DType.FLOAT32, DType.FLOAT64):
        raise OpError(
            f"a total order of {node.input(0).dtype.label}; taken for float32 and float64"
        )
    return shapes


def _bind_compare(b: Binding) -> Run | None:
    ufunc = _DIRECTIONS[_direction(b)]
    if b.options.get("compare_type") != _TOTAL_ORDER:
        return bind_ufunc(b, ufunc)
    x0, x1, y = b.xi(0), b.xi(1), b.y[0]
    return lambda: ufunc(_total_order(x0), _total_order(x1), out=y)


_SIGNS = {"EQ": "==", "NE": "!=", "GE": ">=", "GT": ">", "LE": "<=", "LT": "<"}


def _lower_compare(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    if node.options.get("compare_type") == _TOTAL_ORDER:
        refuse("OPTION", "compare_type FLOAT_TOTAL_ORDER", "the order of C")
    return plain(f"$0 {_SIGNS[_direction(node)]} $1", reads=2)


def _total_order(x: Array) -> Array:
    """Integers in the order -NaN, -inf … -0, 0 … inf, NaN."""
    bits = x.view(f"i{x.itemsize}")
    greatest = np.iinfo(bits.dtype).max
    return np.asarray(np.where(bits < 0, bits ^ greatest, bits))


_compare: Bind = in_float32(_bind_compare)

OPS: Mapping[str, Registration] = {
    r.name: r
    for r in (
        _comparison("LESS", np.less, "<", (1, 3)),
        _comparison("LESS_EQUAL", np.less_equal, "<=", (1, 2)),
        _comparison("GREATER", np.greater, ">", (1, 2)),
        _comparison("GREATER_EQUAL", np.greater_equal, ">=", (1, 3)),
        _comparison("EQUAL", np.equal, "==", (1, 5), equality=True),
        _comparison("NOT_EQUAL", np.not_equal, "!=", (1, 4), equality=True),
        _logical("LOGICAL_AND", np.logical_and, "&&"),
        _logical("LOGICAL_OR", np.logical_or, "||"),
        op("LOGICAL_NOT", _infer_not, _bind_not, inplace=(0,), lower=expression("!$0")),
        _logical("STABLEHLO_AND", np.bitwise_and, "&", *INTEGERS),
        _logical("STABLEHLO_OR", np.bitwise_or, "|", *INTEGERS),
        op("STABLEHLO_COMPARE", _infer_compare, _compare, lower=_lower_compare),
    )
}
