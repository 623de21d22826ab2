"""Models of one op, run through the interpreter, and the right answers of jax.lax beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from litedelegate import Interpreter, ModelBuilder
from litedelegate.kernels.types import Array

Body = Callable[[Any], None]


def run(
    op: str, inputs: Sequence[Any], like: Sequence[Any], bodies: Sequence[Body] = (), **options: Any
) -> list[Array]:
    """Outputs of a model of one op, which are declared as `like` is; body i is subgraph i + 1.

    It runs twice, so that nothing of the first run may be left behind.
    """
    b = ModelBuilder()
    g = b.subgraph("main")
    arrays = [np.asarray(v) for v in inputs]
    x = [g.input(f"x{i}", v.shape, v.dtype.name) for i, v in enumerate(arrays)]
    out = [(f"y{i}", np.shape(v), np.asarray(v).dtype.name) for i, v in enumerate(like)]
    g.outputs(*g.op(op, x, out, **options))
    for i, body in enumerate(bodies):
        body(b.subgraph(f"body{i}"))
    interpreter = Interpreter(model_content=b.build())
    runs = []
    for _ in range(2):
        result = interpreter.run({f"x{i}": v for i, v in enumerate(arrays)})
        runs.append([result[f"y{i}"] for i in range(len(like))])
    for first, second in zip(*runs, strict=True):
        np.testing.assert_array_equal(first, second)
    return runs[0]


def check(
    op: str, inputs: Sequence[Any], want: Any, bodies: Sequence[Body] = (), **options: Any
) -> None:
    """The op gives what jax gave: one array, or a list or tuple of them."""
    wanted = [np.asarray(w) for w in (want if isinstance(want, (list, tuple)) else [want])]
    for got, right in zip(run(op, inputs, wanted, bodies, **options), wanted, strict=True):
        agree(got, right)


def agree(got: Array, want: Any) -> None:
    """Integers and bools equal, floats up to a few units in the last place."""
    want = np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if got.dtype.kind in "fc":
        tolerance = {2: 2e-3, 4: 2e-6}.get(got.real.itemsize, 1e-12)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(got, want)


def small(rng: np.random.Generator, shape: Sequence[int], dtype: Any) -> Array:
    """Small whole numbers, whose sums and products are exact in every type."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.random(tuple(shape)) < 0.5
    low = 0 if kind.kind == "u" else -3
    whole = rng.integers(low, 4, tuple(shape))
    if kind.kind == "c":
        return (whole + 1j * rng.integers(-3, 4, tuple(shape))).astype(kind)
    return whole.astype(kind)


def index_vectors(indices: Array, dimension: int) -> Array:
    """`indices` with the vectors in the last dimension, where jax has them: scalars are of one."""
    if dimension == indices.ndim:
        return indices[..., None]
    return np.moveaxis(indices, dimension, -1)


def compare(g: Any, direction: str, a: Any, b: Any, kind: str = "NOTYPE") -> Any:
    """A STABLEHLO_COMPARE of two scalars in a body."""
    return g.op(
        "STABLEHLO_COMPARE",
        [a, b],
        (f"{direction}_{a.name}", (), "bool"),
        comparison_direction=f"STABLEHLO_COMPARISON_DIRECTION_{direction}",
        compare_type=f"STABLEHLO_COMPARISON_TYPE_{kind}",
    )
