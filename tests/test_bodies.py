"""Ops whose body is a subgraph on scalars: STABLEHLO_REDUCE, _REDUCE_WINDOW, _SCATTER and _SORT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from litedelegate import Interpreter, ModelBuilder
from litedelegate.kernels.types import Array

Body = Callable[[Any], None]
FUNCTIONS: dict[str, tuple[str, np.ufunc, float]] = {
    "add": ("STABLEHLO_ADD", np.add, 0.0),
    "multiply": ("STABLEHLO_MULTIPLY", np.multiply, 1.0),
    "maximum": ("STABLEHLO_MAXIMUM", np.maximum, -np.inf),
    "minimum": ("STABLEHLO_MINIMUM", np.minimum, np.inf),
}


def one_op(op: str) -> Body:
    """c = op(a, b)"""

    def body(g: Any) -> None:
        a, b = g.input("a", ()), g.input("b", ())
        g.outputs(g.op(op, [a, b], ("c", (), "float32")))

    return body


def two_ops(op: str) -> Body:
    """c = op(a, b) + 0: the same, but not one known function"""

    def body(g: Any) -> None:
        a, b = g.input("a", ()), g.input("b", ())
        c = g.op(op, [a, b], ("c", (), "float32"))
        zero = g.constant("zero", np.float32(0))
        g.outputs(g.op("STABLEHLO_ADD", [c, zero], ("d", (), "float32")))

    return body


def through_a_shape(op: str) -> Body:
    """The same again, by way of a vector of one element: it cannot run on whole vectors"""

    def body(g: Any) -> None:
        a, b = g.input("a", ()), g.input("b", ())
        c = g.op(op, [a, b], ("c", (), "float32"))
        one = g.constant("one", np.array([1], np.int32))
        v = g.op("RESHAPE", [c, one], ("v", (1,), "float32"))
        none = g.constant("none", np.array([], np.int32))
        g.outputs(g.op("RESHAPE", [v, none], ("d", (), "float32")))

    return body


def gives(which: int) -> Body:
    def body(g: Any) -> None:
        g.outputs((g.input("a", ()), g.input("b", ()))[which])

    return body


def greater_with_place(g: Any) -> None:
    """(value, place) of the greater of two, the first of equals"""
    a, i = g.input("a", ()), g.input("i", (), "int32")
    b, j = g.input("b", ()), g.input("j", (), "int32")
    first = g.op(
        "STABLEHLO_COMPARE",
        [a, b],
        ("first", (), "bool"),
        comparison_direction="STABLEHLO_COMPARISON_DIRECTION_GE",
        compare_type="STABLEHLO_COMPARISON_TYPE_FLOAT",
    )
    value = g.op("STABLEHLO_SELECT", [first, a, b], ("value", (), "float32"))
    place = g.op("STABLEHLO_SELECT", [first, i, j], ("place", (), "int32"))
    g.outputs(value, place)


def before(direction: str) -> Body:
    """a before b, by the first of two operands"""

    def body(g: Any) -> None:
        a, b = g.input("a", ()), g.input("b", ())
        g.input("i", (), "int32")
        g.input("j", (), "int32")
        flag = g.op(
            "STABLEHLO_COMPARE",
            [a, b],
            ("flag", (), "bool"),
            comparison_direction=f"STABLEHLO_COMPARISON_DIRECTION_{direction}",
            compare_type="STABLEHLO_COMPARISON_TYPE_FLOAT",
        )
        g.outputs(flag)

    return body


def run(op: str, body: Body, values: Sequence[Array], shapes: Sequence[Any], **options: Any) -> Any:
    """Outputs of a model of one op with one body; run twice, so that nothing is left behind."""
    b = ModelBuilder()
    g = b.subgraph("main")
    inputs = [g.input(f"x{i}", v.shape, v.dtype.name) for i, v in enumerate(values)]
    out = [(f"y{i}", s, values[i].dtype.name) for i, s in enumerate(shapes)]
    g.outputs(*g.op(op, inputs, out, **options))
    body(b.subgraph("body"))
    interpreter = Interpreter(model_content=b.build())
    interpreter.allocate_tensors()
    results = []
    for _ in range(2):
        for detail, value in zip(interpreter.get_input_details(), values, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        details = interpreter.get_output_details()
        results.append([interpreter.get_tensor(d["index"]) for d in details])
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)
    return results[0]


rng = np.random.default_rng(0)


@pytest.mark.parametrize("make", [one_op, two_ops, through_a_shape])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 2), (0, 1, 2), ()])
def test_reduce(name: str, dims: tuple[int, ...], make: Callable[[str], Body]) -> None:
    op, function, init = FUNCTIONS[name]
    x = rng.integers(-3, 4, (3, 5, 4)).astype(np.float32)
    shape = tuple(d for i, d in enumerate(x.shape) if i not in dims)
    body = make(op)
    start = np.float32(init)
    y = run("STABLEHLO_REDUCE", body, [x, start], [shape], dimensions=dims, body_subgraph_index=1)
    want = function.reduce(x, axis=dims, initial=start)
    np.testing.assert_array_equal(y[0], want)


def test_reduce_of_nothing_gives_the_init_value() -> None:
    x = np.zeros((0, 2), np.float32)
    for body in (one_op("STABLEHLO_ADD"), two_ops("STABLEHLO_ADD")):
        y = run(
            "STABLEHLO_REDUCE",
            body,
            [x, np.float32(7)],
            [(2,)],
            dimensions=(0,),
            body_subgraph_index=1,
        )
        np.testing.assert_array_equal(y[0], [7, 7])


def test_reduce_of_two_operands() -> None:
    x = rng.integers(0, 5, (4, 9)).astype(np.float32)
    place = np.broadcast_to(np.arange(9, dtype=np.int32), x.shape).copy()
    y = run(
        "STABLEHLO_REDUCE",
        greater_with_place,
        [x, place, np.float32(-1), np.int32(-1)],
        [(4,), (4,)],
        dimensions=(1,),
        body_subgraph_index=1,
    )
    np.testing.assert_array_equal(y[0], x.max(1))
    np.testing.assert_array_equal(y[1], x.argmax(1))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("window", "strides", "base", "dilations", "padding"),
    [
        ((2, 3), (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
        ((2, 2), (2, 1), (1, 2), (1, 1), (1, 0, 0, 2)),
        ((2, 1), (1, 1), (2, 1), (2, 1), (0, 1, -1, -1)),
    ],
)
def test_reduce_window(
    name: str, window: Any, strides: Any, base: Any, dilations: Any, padding: Any, known: bool
) -> None:
    op, function, init = FUNCTIONS[name]
    x = rng.integers(-3, 4, (4, 5)).astype(np.float32)
    want = windows(x, function, init, window, strides, base, dilations, padding)
    y = run(
        "STABLEHLO_REDUCE_WINDOW",
        (one_op if known else two_ops)(op),
        [x, np.float32(init)],
        [want.shape],
        window_dimensions=window,
        window_strides=strides,
        base_dilations=base,
        window_dilations=dilations,
        padding=padding,
        body_subgraph_index=1,
    )
    np.testing.assert_array_equal(y[0], want)


def windows(
    x: Array,
    function: Any,
    init: float,
    window: Any,
    strides: Any,
    base: Any,
    dilations: Any,
    pad: Any,
) -> Array:
    """The definition: element by element on the dilated and padded operand."""
    sizes = [(n - 1) * d + 1 for n, d in zip(x.shape, base, strict=True)]
    spread = np.full(sizes, init, np.float32)
    spread[:: base[0], :: base[1]] = x

    def at(i: int, j: int) -> float:
        i, j = i - pad[0], j - pad[2]
        inside = 0 <= i < sizes[0] and 0 <= j < sizes[1]
        return float(spread[i, j]) if inside else init

    whole = [sizes[d] + pad[2 * d] + pad[2 * d + 1] for d in (0, 1)]
    reach = [(w - 1) * d + 1 for w, d in zip(window, dilations, strict=True)]
    shape = [(n - r) // s + 1 for n, r, s in zip(whole, reach, strides, strict=True)]
    result = np.full(shape, init, np.float32)
    for i, j in product(*map(range, shape)):
        for u, v in product(*map(range, window)):
            value = at(i * strides[0] + u * dilations[0], j * strides[1] + v * dilations[1])
            result[i, j] = function(result[i, j], value)
    return result


SCATTER = {
    "update_window_dims": (1,),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
    "update_computation_subgraph_index": 1,
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_scatter_meets_one_row_many_times(name: str, known: bool) -> None:
    op, function, _ = FUNCTIONS[name]
    x = rng.integers(1, 4, (4, 3)).astype(np.float32)
    rows = np.array([[2], [0], [2], [9], [-1], [2]], np.int32)
    updates = rng.integers(1, 4, (6, 3)).astype(np.float32)
    want = x.copy()
    for row, update in zip(rows[:, 0], updates, strict=True):
        # what falls outside is dropped
        if 0 <= row < 4:
            want[row] = function(want[row], update)
    body = (one_op if known else two_ops)(op)
    y = run("STABLEHLO_SCATTER", body, [x, rows, updates], [x.shape], **SCATTER)
    np.testing.assert_array_equal(y[0], want)


@pytest.mark.parametrize("which", [0, 1])
def test_scatter_that_keeps_or_replaces(which: int) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    updates = np.array([[10, 11], [20, 21]], np.float32)
    y = run(
        "STABLEHLO_SCATTER", gives(which), [x, np.array([[1], [1]]), updates], [x.shape], **SCATTER
    )
    want = x.copy()
    if which:
        want[1] = [20, 21]
    np.testing.assert_array_equal(y[0], want)


def test_scatter_drops_the_part_of_a_window_that_falls_outside() -> None:
    x = np.zeros(4, np.float32)
    y = run(
        "STABLEHLO_SCATTER",
        one_op("STABLEHLO_ADD"),
        [x, np.array([[3], [-1]], np.int32), np.array([[1, 2], [3, 4]], np.float32)],
        [(4,)],
        update_window_dims=(1,),
        inserted_window_dims=(),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        update_computation_subgraph_index=1,
    )
    np.testing.assert_array_equal(y[0], [4, 0, 0, 1])


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 40])
@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_sort_is_stable(n: int, direction: str) -> None:
    x = rng.integers(0, 6, (3, n)).astype(np.float32)
    place = np.broadcast_to(np.arange(n, dtype=np.int32), x.shape).copy()
    y = run(
        "STABLEHLO_SORT",
        before(direction),
        [x, place],
        [x.shape, x.shape],
        dimension=1,
        is_stable=True,
        comparator_subgraph_index=1,
    )
    order = np.argsort(x if direction == "LT" else -x, axis=1, kind="stable")
    np.testing.assert_array_equal(y[0], np.take_along_axis(x, order, 1))
    np.testing.assert_array_equal(y[1], order)


def test_sort_along_the_first_dimension() -> None:
    x = rng.normal(size=(7, 2, 3)).astype(np.float32)
    place = np.zeros(x.shape, np.int32)
    y = run(
        "STABLEHLO_SORT",
        before("LT"),
        [x, place],
        [x.shape, x.shape],
        dimension=0,
        is_stable=False,
        comparator_subgraph_index=1,
    )
    np.testing.assert_array_equal(y[0], np.sort(x, 0))


def test_a_body_of_another_arity_is_refused() -> None:
    x = np.zeros((2, 2), np.float32)
    with pytest.raises(RuntimeError, match="the body takes 4 values and gives 2; 2 and 1"):
        run(
            "STABLEHLO_REDUCE",
            greater_with_place,
            [x, np.float32(0)],
            [(2,)],
            dimensions=(0,),
            body_subgraph_index=1,
        )
