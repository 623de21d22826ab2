"""Broadcasting of any shapes up to rank 8: the same as on operands that were written out first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from cases import T
from harness import NodeSpec, OpError, Options, Prepared, infer
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

from litedelegate import Interpreter, ModelBuilder
from litedelegate.kernels.builtins import find_builtin
from litedelegate.kernels.types import Array, DType

ACTIVATION = {"fused_activation_function": "NONE", "pot_scale_int16": False}
# op, dtype, scale of the inputs, dtype and scale of the output
BINARY = [
    ("ADD", np.float32, 0.0, np.float32),
    ("SUB", np.int64, 0.0, np.int64),
    ("MUL", np.int8, 0.05, np.int8),
    ("ADD", np.int16, 0.05, np.int16),
    ("MAXIMUM", np.float32, 0.0, np.float32),
    ("FLOOR_DIV", np.int32, 0.0, np.int32),
    ("LESS", np.uint8, 0.05, np.bool_),
    ("BITWISE_XOR", np.uint16, 0.0, np.uint16),
    ("LOGICAL_OR", np.bool_, 0.0, np.bool_),
]


def values(shape: Sequence[int], dtype: type, seed: int) -> Array:
    drawn = np.random.default_rng(seed).integers(1, 100, tuple(shape))
    return drawn % 2 == 0 if dtype is np.bool_ else drawn.astype(dtype)


def run(op: str, inputs: Sequence[Array], scale: float, output: type, const: set[int]) -> Array:
    registration = find_builtin(op)
    assert registration is not None
    tensors = [T(x, scale=scale if x.dtype != np.bool_ else 0.0) for x in inputs]
    y = T(np.zeros(1, output), scale=scale if output is not np.bool_ else 0.0)
    specs = [t.spec(f"x{i}", i in const) for i, t in enumerate(tensors)]
    node = NodeSpec(op, specs, [y.spec("y", False)], Options(ACTIVATION))
    shapes = infer(registration, node)
    assert shapes == [np.broadcast_shapes(*(x.shape for x in inputs))]
    return Prepared(registration, node, [t.array for t in tensors]).run()[0]


@pytest.mark.parametrize(("op", "dtype", "scale", "output"), BINARY)
@given(
    shapes=mutually_broadcastable_shapes(num_shapes=2, max_dims=8, min_side=0, max_side=4),
    const=st.sets(st.integers(0, 1)),
    seed=st.integers(0, 99),
)
@settings(max_examples=40, deadline=None)
def test_two_operands(
    op: str,
    dtype: type,
    scale: float,
    output: type,
    shapes: object,
    const: set[int],
    seed: int,
) -> None:
    inputs = [values(s, dtype, seed + i) for i, s in enumerate(shapes.input_shapes)]  # type: ignore[attr-defined]
    whole = [np.broadcast_to(x, shapes.result_shape).copy() for x in inputs]  # type: ignore[attr-defined]
    got = run(op, inputs, scale, output, const)
    np.testing.assert_array_equal(got, run(op, whole, scale, output, set()))


@given(
    shapes=mutually_broadcastable_shapes(num_shapes=3, max_dims=8, min_side=0, max_side=3),
    seed=st.integers(0, 99),
)
@settings(max_examples=80, deadline=None)
def test_three_operands(shapes: object, seed: int) -> None:
    kinds = (np.bool_, np.float32, np.float32)
    inputs = [
        values(s, kind, seed + i)
        for i, (s, kind) in enumerate(zip(shapes.input_shapes, kinds, strict=True))  # type: ignore[attr-defined]
    ]
    if all(x.size == 1 for x in inputs):
        return  # then the output keeps the shape the model declares
    got = run("SELECT_V2", inputs, 0.0, np.float32, set())
    np.testing.assert_array_equal(got, np.where(*inputs))


@pytest.mark.parametrize(
    ("count", "size"),
    [(1, 1), (7, 1), (8192, 1), (3 * 4099, 1), (7, 3), (4096, 3), (12_000, 24), (40, 5000)],
)
def test_constant_vectors_are_repeated_rightly(count: int, size: int) -> None:
    x, vector = values((count, size), np.float32, 0), values((size,), np.float32, 1)
    for op, ufunc in (("SUB", np.subtract), ("MINIMUM", np.minimum)):
        np.testing.assert_array_equal(run(op, [x, vector], 0.0, np.float32, {1}), ufunc(x, vector))
        np.testing.assert_array_equal(run(op, [vector, x], 0.0, np.float32, {0}), ufunc(vector, x))


@given(a=st.lists(st.integers(2, 4), max_size=8), b=st.lists(st.integers(2, 4), max_size=8))
def test_what_does_not_fit_is_refused(a: list[int], b: list[int]) -> None:
    if all(m == n for m, n in zip(reversed(a), reversed(b), strict=False)):
        return
    with pytest.raises(OpError, match="not broadcastable"):
        run("ADD", [values(a, np.float32, 0), values(b, np.float32, 0)], 0.0, np.float32, set())


def test_bfloat16() -> None:
    x, y = T([[1.0], [2.0]], DType.BFLOAT16), T([0.5, 4.0], DType.BFLOAT16)
    registration = find_builtin("MUL")
    assert registration is not None
    specs = [x.spec("x"), y.spec("y")]
    node = NodeSpec("MUL", specs, [x.spec("z")], Options(ACTIVATION))
    want = T([[0.5, 4.0], [1.0, 8.0]], DType.BFLOAT16).array
    np.testing.assert_array_equal(Prepared(registration, node, [x.array, y.array]).run()[0], want)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("op", ["ADD", "MUL", "DIV", "SQUARED_DIFFERENCE"])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 1, 40_000), (1, 2, 1)),
        ((7, 5, 3001), (3001,)),
        ((300, 700), (300, 1)),
        ((1, 70_000), (3, 1)),
        ((5, 1, 3, 1, 2001), (1, 4, 1, 3, 1)),
    ],
)
def test_large_quantised_operands_that_are_repeated(
    op: str, dtype: str, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    """Part by part, the answer is that of operands written out, on one thread and on several."""
    if op in ("DIV", "SQUARED_DIFFERENCE") and dtype == "int16":
        pytest.skip("8 bits only")
    rng = np.random.default_rng(0)
    x0, x1 = (rng.integers(1, 127, s).astype(dtype) for s in (left, right))
    whole = np.broadcast_shapes(left, right)
    results = []
    for constant, threads in ((False, 1), (True, 3)):
        for a, b in ((x0, x1), (np.broadcast_to(x0, whole), np.broadcast_to(x1, whole))):
            builder = ModelBuilder()
            g = builder.subgraph()
            x = g.input("x", a.shape, dtype, scale=0.5, zero_point=0)
            y = (
                g.constant("y", np.ascontiguousarray(b), scale=0.25, zero_point=0)
                if constant
                else g.input("y", b.shape, dtype, scale=0.25, zero_point=0)
            )
            out = g.tensor("z", whole, dtype, scale=0.5, zero_point=0)
            g.outputs(g.op(op, [x, y], out))
            inputs = {"x": a} if constant else {"x": a, "y": b}
            with Interpreter(model_content=builder.build(), num_threads=threads) as interpreter:
                results.append(interpreter.run(inputs)["z"])
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
