"""Numpy code of quotients, remainders and powers, and what it shares with other arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ._broadcast import operands
from ._check import BYTES, COMPLEX, INTEGERS
from ._elementwise import clamp, in_blocks, sequence
from ._quantized_binary import bind_quantized, quantized_div
from .api import Binding, NodeSpec, OpError, Run
from .types import Array, DType


def is_quantized(node: NodeSpec | Binding) -> bool:
    """8-bit numbers stand for reals, int16 ones where a scale is given; StableHLO has none such."""
    if node.op.startswith("STABLEHLO_"):
        return False
    x, y = node.input(0), node.outputs[0]
    return x.dtype in BYTES or (
        x.dtype is DType.INT16 and any(s.quant is not None and s.scale > 0 for s in (x, y))
    )


def activation_of(node: NodeSpec | Binding) -> str:
    name: str = node.options.get("fused_activation_function", "NONE")
    return name


def apply_ufunc(b: Binding, ufunc: Callable[..., Any], repeat_scalars: bool = False) -> Run:
    """One ufunc call, and the clamp of a fused activation."""
    (x0, x1), y = views(b, b.y[0], repeat_scalars)
    run = partial(ufunc, x0, x1, out=y)
    return sequence(run, clamp(y, activation_of(b))) or run


def views(b: Binding, y: Array, repeat_scalars: bool = False) -> tuple[list[Array], Array]:
    constant = [b.input(i).const is not None for i in (0, 1)]
    return operands(b.y[0].shape, [b.xi(0), b.xi(1)], constant, y, repeat_scalars)


def _guarded(b: Binding, run: Run | None) -> Run:
    """`run`, after a check that no divisor is 0."""
    divisor = b.xi(1)

    def checked() -> None:
        if not divisor.all():
            raise OpError(f"Division by 0: {b.input(1).name!r} holds a zero")
        if run is not None:
            run()

    return checked


def bind_div(b: Binding) -> Run | None:
    dtype = b.input(0).dtype
    if is_quantized(b):
        run = bind_quantized(b, quantized_div(b))
        zero = np.array(b.input(1).zero_point, b.xi(1).dtype)
        divisor = b.xi(1)

        def checked() -> None:
            if (divisor == zero).any():
                raise OpError(f"Division by 0: {b.input(1).name!r} holds its zero point")
            run()

        return checked
    if dtype in INTEGERS:
        return _guarded(b, _truncated_quotient(b))
    y = b.y[0]
    if dtype in COMPLEX:
        return apply_ufunc(b, np.divide)
    # as in the reference, DIV by zero gives the greatest finite number
    greatest = np.finfo(y.dtype).max
    finite = partial(y.clip, np.array(-greatest), np.array(greatest), y)
    clamped = b.op == "DIV" and activation_of(b) == "NONE"
    return sequence(apply_ufunc(b, np.divide), finite if clamped else None)


def _truncated_quotient(b: Binding) -> Run:
    """C's integer division: towards zero."""
    y = b.y[0]
    (x0, x1), _ = views(b, y)
    # int32 quotients are exact in float64; int64 ones need the remainder
    if b.input(0).dtype in (DType.INT64, DType.UINT64):

        def wide() -> None:
            quotient, remainder = np.divmod(x0, x1)
            quotient += (remainder != 0) & ((x0 < 0) != (x1 < 0))
            np.copyto(y, quotient.reshape(y.shape))

        return sequence(wide, clamp(y, activation_of(b))) or wide
    real = b.scratch(y.shape, np.float64)
    (x0, x1), view = views(b, real)

    def run() -> None:
        np.divide(x0, x1, out=view)
        np.trunc(real, out=real)
        np.copyto(y, real, casting="unsafe")

    return sequence(run, clamp(y, activation_of(b))) or run


def bind_floor_div(b: Binding) -> Run | None:
    y = b.y[0]
    if y.dtype.kind != "f":
        return _guarded(b, apply_ufunc(b, np.floor_divide))
    # the quotient is taken in double precision, as in the reference
    real = b.scratch(y.shape, np.float64)
    (x0, x1), view = views(b, real)

    def run() -> None:
        np.divide(x0, x1, out=view, dtype=np.float64)
        np.floor(real, out=real)
        np.copyto(y, real, casting="unsafe")

    return _guarded(b, run)


def bind_floor_mod(b: Binding) -> Run | None:
    x, divisor, y = b.xi(0), b.xi(1).reshape(-1), b.y[0]
    if y.dtype.kind != "f" and divisor.size == 1 and x.shape == y.shape:
        # numpy divides by one number ten times as fast as it finds remainders
        make = partial(_floor_mod_block, divisor)
        return _guarded(b, in_blocks(b, (x, y), make, (y.dtype,)))
    run = apply_ufunc(b, np.remainder)
    return run if b.y[0].dtype.kind == "f" else _guarded(b, run)


def _floor_mod_block(divisor: Array, x: Array, y: Array, work: Array) -> Run:
    def run() -> None:
        np.floor_divide(x, divisor[0], out=work)
        np.multiply(work, divisor, out=work)
        np.subtract(x, work, out=y)

    return run


def bind_remainder(b: Binding) -> Run | None:
    """C's remainder: the sign of the dividend."""
    run = apply_ufunc(b, np.fmod)
    return run if b.y[0].dtype.kind == "f" else _guarded(b, run)


def bind_pow(b: Binding) -> Run | None:
    y, exponent = b.y[0], b.xi(1)
    if y.dtype.kind != "f":
        return _integer_pow(b)
    if b.input(1).const is not None and exponent.size == 1 and b.xi(0).shape == y.shape:
        value = float(exponent.reshape(-1)[0])
        if value == 2.0:
            return partial(np.square, b.xi(0), y)
        if value == 1.0:
            return None if np.shares_memory(b.xi(0), y) else partial(np.copyto, y, b.xi(0))
    return apply_ufunc(b, np.power)


def _integer_pow(b: Binding) -> Run | None:
    """In double precision, as in the reference: what does not fit becomes the least integer."""
    y, exponent = b.y[0], b.xi(1)
    real = b.scratch(y.shape, np.float64)
    (x0, x1), view = views(b, real)
    least, end = float(np.iinfo(y.dtype).min), -float(np.iinfo(y.dtype).min)

    def run() -> None:
        if (exponent < 0).any():
            raise OpError(
                f"POW does not support negative value for {b.input(1).dtype.label}: "
                f"{b.input(1).name!r} holds {exponent.min()}"
            )
        np.power(x0, x1, out=view, dtype=np.float64)
        real[(real >= end) | (real < least)] = least
        np.copyto(y, real, casting="unsafe")

    return run


def bind_stablehlo_power(b: Binding) -> Run | None:
    """Integers wrap; those to a negative power are 0, but for 1 and -1."""
    if b.y[0].dtype.kind == "f":
        return bind_pow(b)
    x, exponent, y = b.xi(0), b.xi(1), b.y[0]

    def run() -> None:
        negative = exponent < 0
        vanishes = negative & (np.abs(x) != 1)
        # 1 and -1 to a negative power: what its lowest bit gives
        np.power(x, np.where(negative, exponent & 1, exponent), out=y)
        y[vanishes] = 0

    return run
