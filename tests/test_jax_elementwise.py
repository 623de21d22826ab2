"""Elementwise STABLEHLO_* ops, most of which ai-edge-litert cannot run, against jax.lax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases import T
from harness import NodeSpec, Options, Prepared
from one_op import agree

from litedelegate.kernels.builtins import find_builtin
from litedelegate.kernels.types import Array, DType

jax = pytest.importorskip("jax", reason="jax is not installed")
jax.config.update("jax_enable_x64", True)
lax = jax.lax

FLOATS = (np.float32, np.float64, np.float16)
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
COMPLEX = (np.complex64, np.complex128)
NUMBERS = (*FLOATS, *INTEGERS)
BINARY: dict[str, tuple[Callable[..., Any], tuple[type, ...]]] = {
    "ADD": (lax.add, (*NUMBERS, *COMPLEX)),
    "SUBTRACT": (lax.sub, (*NUMBERS, *COMPLEX)),
    "MULTIPLY": (lax.mul, (*NUMBERS, *COMPLEX)),
    "DIVIDE": (lax.div, (*NUMBERS, *COMPLEX)),
    "MAXIMUM": (lax.max, NUMBERS),
    "MINIMUM": (lax.min, NUMBERS),
    "POWER": (lax.pow, FLOATS),
    "REMAINDER": (lax.rem, NUMBERS),
    "AND": (lax.bitwise_and, (*INTEGERS, np.bool_)),
    "OR": (lax.bitwise_or, (*INTEGERS, np.bool_)),
    "SHIFT_LEFT": (lax.shift_left, INTEGERS),
}
UNARY: dict[str, tuple[Callable[..., Any], tuple[type, ...]]] = {
    "ABS": (lax.abs, (*FLOATS, np.int8, np.int16, np.int32, np.int64)),
    "COSINE": (lax.cos, (*FLOATS, *COMPLEX)),
    "EXPONENTIAL": (lax.exp, (*FLOATS, *COMPLEX)),
    "FLOOR": (lax.floor, FLOATS),
    "LOG": (lax.log, (*FLOATS, *COMPLEX)),
    "LOGISTIC": (lax.logistic, FLOATS),
    "NEGATE": (lax.neg, (*FLOATS, np.int8, np.int32, np.int64, *COMPLEX)),
    "RSQRT": (lax.rsqrt, FLOATS),
    "TANH": (lax.tanh, (*FLOATS, *COMPLEX)),
    "CBRT": (lax.cbrt, FLOATS),
}
COMPARISONS = {
    "EQ": lax.eq,
    "NE": lax.ne,
    "GE": lax.ge,
    "GT": lax.gt,
    "LE": lax.le,
    "LT": lax.lt,
}
CONVERTIBLE = (*FLOATS, *INTEGERS, np.bool_)


def drawn(dtype: type, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.random(64) < 0.5
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return rng.integers(limits.min, limits.max, 64, dtype=kind, endpoint=True)
    real = rng.standard_normal(64) * 3
    return (real + 1j * rng.standard_normal(64) if kind.kind == "c" else real).astype(kind)


def run(op: str, inputs: list[Array], output: Any, **options: Any) -> Array:
    registration = find_builtin(f"STABLEHLO_{op}")
    assert registration is not None
    tensors = [T(x) for x in inputs]
    specs = [t.spec(f"x{i}") for i, t in enumerate(tensors)]
    y = T(np.zeros(1, output)).spec("y")
    node = NodeSpec(f"STABLEHLO_{op}", specs, [y], Options(options))
    return Prepared(registration, node, [t.array for t in tensors]).run()[0]


@pytest.mark.parametrize(
    ("op", "dtype"),
    [pytest.param(o, d, id=f"{o}-{d.__name__}") for o, (_, ds) in BINARY.items() for d in ds],
)
def test_two_operands(op: str, dtype: type) -> None:
    x, y = drawn(dtype, 0), drawn(dtype, 1)
    if op in ("DIVIDE", "REMAINDER"):
        y[y == 0] = 1
    if op == "POWER":
        x = np.abs(x)
    if op == "SHIFT_LEFT":
        y = (y & 7).astype(dtype)
    agree(run(op, [x, y], dtype), BINARY[op][0](x, y))


@pytest.mark.parametrize(
    ("op", "dtype"),
    [pytest.param(o, d, id=f"{o}-{d.__name__}") for o, (_, ds) in UNARY.items() for d in ds],
)
def test_one_operand(op: str, dtype: type) -> None:
    x = drawn(dtype, 2)
    if op in ("LOG", "RSQRT") and np.dtype(dtype).kind == "f":
        x = np.abs(x) + np.dtype(dtype).type(0.1)
    agree(run(op, [x], dtype), UNARY[op][0](x))


@pytest.mark.parametrize("direction", COMPARISONS)
@pytest.mark.parametrize("dtype", [*NUMBERS, np.bool_])
def test_comparisons(direction: str, dtype: type) -> None:
    x, y = drawn(dtype, 3), drawn(dtype, 4)
    x[::3] = y[::3]
    if np.dtype(dtype).kind == "b" and direction not in ("EQ", "NE"):
        pytest.skip("bools have no order here")
    got = run(
        "COMPARE",
        [x, y],
        np.bool_,
        comparison_direction=f"STABLEHLO_COMPARISON_DIRECTION_{direction}",
        compare_type="STABLEHLO_COMPARISON_TYPE_NOTYPE",
    )
    agree(got, COMPARISONS[direction](x, y))


@pytest.mark.parametrize("source", CONVERTIBLE)
@pytest.mark.parametrize("target", CONVERTIBLE)
def test_conversions(source: type, target: type) -> None:
    x = drawn(source, 5)
    agree(run("CONVERT", [x], target), lax.convert_element_type(x, target))


@pytest.mark.parametrize("target", [np.int8, np.int32, np.int64, np.uint8, np.uint32])
def test_conversion_saturates(target: type) -> None:
    x = np.float32([np.nan, np.inf, -np.inf, 3e38, -3e38, 2.0**31, 255.9, -0.9])
    agree(run("CONVERT", [x], target), lax.convert_element_type(x, target))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_clamp_and_select(dtype: type) -> None:
    x, low = drawn(dtype, 6), np.asarray(1, dtype)
    high = np.full(64, 5, dtype)
    agree(run("CLAMP", [low, x, high], dtype), lax.clamp(np.full(64, low), x, high))
    condition = drawn(np.bool_, 7)
    agree(run("SELECT", [condition, x, high], dtype), lax.select(condition, x, high))


def test_total_order() -> None:
    special = np.float32([-np.nan, -np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan])
    x, y = (a.reshape(-1) for a in np.meshgrid(special, special))
    got = run(
        "COMPARE",
        [x, y],
        np.bool_,
        comparison_direction="STABLEHLO_COMPARISON_DIRECTION_LT",
        compare_type="STABLEHLO_COMPARISON_TYPE_FLOAT_TOTAL_ORDER",
    )
    agree(got, lax.lt_to_p.bind(jax.numpy.asarray(x), jax.numpy.asarray(y)))


def test_bfloat16() -> None:
    x = T([1.0, 2.0, 3.0], DType.BFLOAT16)
    registration = find_builtin("STABLEHLO_EXPONENTIAL")
    assert registration is not None
    node = NodeSpec("STABLEHLO_EXPONENTIAL", [x.spec("x")], [x.spec("y")], Options())
    got = Prepared(registration, node, [x.array]).run()[0]
    want = lax.exp(jax.numpy.asarray([1.0, 2.0, 3.0], jax.numpy.bfloat16))
    np.testing.assert_array_equal(got, np.asarray(want).view(np.uint16))
