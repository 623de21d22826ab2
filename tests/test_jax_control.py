"""STABLEHLO_WHILE, _CASE, _COMPOSITE and _RNG_BIT_GENERATOR against jax.lax."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_op import Body, check, compare

jax = pytest.importorskip("jax", reason="jax is not installed")
jax.config.update("jax_enable_x64", True)
lax = jax.lax


# -- STABLEHLO_WHILE, _CASE, _COMPOSITE


@pytest.mark.parametrize("limit", [-1, 0, 1, 7])
def test_while(limit: int) -> None:
    """(i, x) becomes (i + 1, 2 x + i) while i < limit"""

    def condition(g: Any) -> None:
        i = g.input("i", (), "int32")
        g.input("x", (3,))
        g.outputs(compare(g, "LT", i, g.constant("limit", np.int32(limit))))

    def body(g: Any) -> None:
        i, x = g.input("i", (), "int32"), g.input("x", (3,))
        after = g.op("STABLEHLO_ADD", [i, g.constant("one", np.int32(1))], ("after", (), "int32"))
        doubled = g.op("STABLEHLO_ADD", [x, x], ("doubled", (3,), "float32"))
        wide = g.op("STABLEHLO_CONVERT", [i], ("wide", (), "float32"))
        row = g.op(
            "STABLEHLO_BROADCAST_IN_DIM",
            [wide],
            ("row", (3,), "float32"),
            broadcast_dimensions=(),
        )
        g.outputs(after, g.op("STABLEHLO_ADD", [doubled, row], ("y", (3,), "float32")))

    start = (np.int32(0), np.array([1, -2, 0.5], np.float32))
    want = lax.while_loop(lambda s: s[0] < limit, lambda s: (s[0] + 1, s[1] * 2 + s[0]), start)
    check(
        "STABLEHLO_WHILE",
        start,
        [want[0], np.asarray(want[1], np.float32)],
        [condition, body],
        cond_subgraph_index=1,
        body_subgraph_index=2,
    )


def unary(*ops: str) -> Body:
    def body(g: Any) -> None:
        x = g.input("x", (2, 3))
        for i, op in enumerate(ops):
            x = g.op(f"STABLEHLO_{op}", [x], (f"y{i}", (2, 3), "float32"))
        g.outputs(x)

    return body


@pytest.mark.parametrize("chosen", [0, 1, 2, 5])
def test_case(chosen: int) -> None:
    """Beyond the branches it is the last. Below 0 too, where jax takes the first."""
    x = np.random.default_rng(6).normal(size=(2, 3)).astype(np.float32)
    check(
        "STABLEHLO_CASE",
        [np.int32(chosen), x],
        lax.switch(chosen, [lax.neg, lambda v: lax.exp(lax.abs(v)), lax.floor], x),
        [unary("NEGATE"), unary("ABS", "EXPONENTIAL"), unary("FLOOR")],
        branch_subgraph_indices=(1, 2, 3),
    )


def test_composite_is_its_decomposition() -> None:
    x = np.random.default_rng(7).normal(size=(2, 3)).astype(np.float32)

    def swish(g: Any) -> None:
        v = g.input("v", (2, 3))
        gate = g.op("STABLEHLO_LOGISTIC", [v], ("gate", (2, 3), "float32"))
        g.outputs(g.op("STABLEHLO_MULTIPLY", [v, gate], ("y", (2, 3), "float32")))

    check(
        "STABLEHLO_COMPOSITE",
        [x],
        jax.nn.silu(x),
        [swish],
        name="test.swish",
        decomposition_subgraph_index=1,
    )


# -- STABLEHLO_RNG_BIT_GENERATOR


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize("shape", [(2,), (4,), (64,), (5,), (3, 2)])
@pytest.mark.parametrize("algorithm", ["PHILOX", "THREEFRY"])
def test_random_bits(algorithm: str, shape: Any, dtype: Any) -> None:
    """No counter beyond 64 bits, which jax carries on and TensorFlow Lite does not, and shapes
    that jax fills in order: there, Threefry's pairs of uint32 lie along the first even dimension,
    which is the last one here.
    """
    state = np.array([0x0123456789ABCDEF, 41], np.uint64)
    chosen = {
        "PHILOX": lax.RandomAlgorithm.RNG_PHILOX,
        "THREEFRY": lax.RandomAlgorithm.RNG_THREE_FRY,
    }[algorithm]
    after, bits = lax.rng_bit_generator(state, shape, dtype, algorithm=chosen)
    check("STABLEHLO_RNG_BIT_GENERATOR", [state], [after, bits], algorithm=algorithm)
