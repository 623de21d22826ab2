"""Bits of integers: BITWISE_XOR and shifts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from ._broadcast import bind_ufunc, broadcast_shape, operands
from ._check import INTEGERS, arity, gives, same_type
from ._elementwise import sequence
from ._lower import Forms, check, expression, plain
from .api import Bind, Binding, NodeSpec, Registration, Run, Shape, op, take
from .device import Capability, Lowered
from .types import DType


def _infer(*dtypes: DType) -> Callable[[NodeSpec], list[Shape]]:
    def infer(node: NodeSpec) -> list[Shape]:
        arity(node, 2)
        a, b = node.input(0), node.input(1)
        take(node, "input 0", a, *dtypes)
        same_type(node, a, b)
        gives(node, a.dtype)
        return [broadcast_shape(node, a, b)]

    return infer


def _bind_right_shift(b: Binding) -> Run | None:
    """Arithmetic for signed types. A shift below 0 is none; one past the end leaves the sign."""
    x0, x1, y = b.xi(0), b.xi(1), b.y[0]
    amount = b.scratch(x1.shape, x1.dtype)
    none, most = np.array(0, x1.dtype), np.array(8 * x1.itemsize - 1, x1.dtype)
    (a0, a1), view = operands(y.shape, [x0, amount], [False, False], y)
    return sequence(partial(x1.clip, none, most, amount), partial(np.right_shift, a0, a1, out=view))


_xor: Bind = partial(bind_ufunc, ufunc=np.bitwise_xor)
# numpy gives 0 where the shift is not within the type, as StableHLO asks
_left_shift: Bind = partial(bind_ufunc, ufunc=np.left_shift)


def _lower_right(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x = node.input(0)
    most = x.dtype.bits - 1
    signed = f"$0 >> ($1 < 0 ? 0 : $1 > {most} ? {most} : $1)"
    return plain(Forms("", signed, f"$0 >> ($1 > {most} ? {most} : $1)").of(x), reads=2)


def _lower_left(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x = node.input(0)
    shifted = f"$1 > {x.dtype.bits - 1} ? 0 : (TYPE)((WRAP)$0 << $1)"
    return plain(Forms("", f"$1 < 0 ? 0 : {shifted}", shifted).of(x), reads=2)


OPS: Mapping[str, Registration] = {
    r.name: r
    for r in (
        op(
            "BITWISE_XOR",
            _infer(*INTEGERS, DType.BOOL),
            _xor,
            inplace=(0, 1),
            lower=expression("$0 ^ $1", reads=2),
        ),
        op(
            "RIGHT_SHIFT",
            _infer(*INTEGERS),
            _bind_right_shift,
            inplace=(0,),
            lower=_lower_right,
        ),
        op(
            "STABLEHLO_SHIFT_LEFT",
            _infer(*INTEGERS),
            _left_shift,
            inplace=(0,),
            lower=_lower_left,
        ),
    )
}
