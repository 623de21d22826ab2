"""STABLEHLO_* ops with a body on scalars, which ai-edge-litert cannot run, against jax.lax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from one_op import Body, check, compare, index_vectors, small

jax = pytest.importorskip("jax", reason="jax is not installed")
jax.config.update("jax_enable_x64", True)
lax = jax.lax

INTEGERS = (np.int8, np.int32, np.int64, np.uint8, np.uint32)
NUMBERS = (np.float32, np.float64, np.float16, *INTEGERS)
# what combines two scalars, and the types it has
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "ADD": (lax.add, NUMBERS),
    "MULTIPLY": (lax.mul, NUMBERS),
    "MAXIMUM": (lax.max, NUMBERS),
    "MINIMUM": (lax.min, NUMBERS),
    "AND": (lax.bitwise_and, (*INTEGERS, np.bool_)),
    "OR": (lax.bitwise_or, (*INTEGERS, np.bool_)),
}
OF_EACH_TYPE = [
    pytest.param(name, dtype, id=f"{name}-{np.dtype(dtype)}")
    for name, (_, types) in FUNCTIONS.items()
    for dtype in types
]


def combine(name: str, dtype: Any) -> Body:
    def body(g: Any) -> None:
        kind = np.dtype(dtype).name
        a, b = g.input("a", (), kind), g.input("b", (), kind)
        g.outputs(g.op(f"STABLEHLO_{name}", [a, b], ("c", (), kind)))

    return body


def neutral(name: str, dtype: Any) -> Any:
    """The value that changes nothing: with another one, how often it takes part is free."""
    kind = np.dtype(dtype)
    if name in ("MAXIMUM", "MINIMUM"):
        limits = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
        return np.asarray(limits.min if name == "MAXIMUM" else limits.max, kind)
    if name == "AND":
        return np.asarray(True) if kind.kind == "b" else ~np.zeros((), kind)
    return np.asarray(name == "MULTIPLY", kind)


# -- STABLEHLO_REDUCE, _REDUCE_WINDOW


@pytest.mark.parametrize("dims", [(0,), (2,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize(("name", "dtype"), OF_EACH_TYPE)
def test_reduce(name: str, dtype: Any, dims: tuple[int, ...]) -> None:
    x, init = small(np.random.default_rng(0), (3, 4, 2), dtype), neutral(name, dtype)
    check(
        "STABLEHLO_REDUCE",
        [x, init],
        lax.reduce(x, init, FUNCTIONS[name][0], dims),
        [combine(name, dtype)],
        dimensions=dims,
        body_subgraph_index=1,
    )


@pytest.mark.parametrize("name", ["ADD", "MAXIMUM", "MINIMUM"])
def test_not_a_number_stays(name: str) -> None:
    x, init = small(np.random.default_rng(8), (3, 6), np.float32), neutral(name, np.float32)
    x[1, 2] = np.nan
    x[2, ::2] = np.inf
    body, function = combine(name, np.float32), FUNCTIONS[name][0]
    check(
        "STABLEHLO_REDUCE",
        [x, init],
        lax.reduce(x, init, function, (1,)),
        [body],
        dimensions=(1,),
        body_subgraph_index=1,
    )
    check(
        "STABLEHLO_REDUCE_WINDOW",
        [x, init],
        lax.reduce_window(x, init, function, (1, 2), (1, 1), ((0, 0), (1, 0))),
        [body],
        window_dimensions=(1, 2),
        window_strides=(1, 1),
        base_dilations=(1, 1),
        window_dilations=(1, 1),
        padding=(0, 0, 1, 0),
        body_subgraph_index=1,
    )


def greatest_with_place(g: Any) -> None:
    """(value, place) of the greater, of equals the lower place"""
    a, i = g.input("a", ()), g.input("i", (), "int32")
    b, j = g.input("b", ()), g.input("j", (), "int32")
    greater, equal = compare(g, "GT", a, b), compare(g, "EQ", a, b)
    first = g.op("STABLEHLO_AND", [equal, compare(g, "LT", i, j)], ("first", (), "bool"))
    left = g.op("STABLEHLO_OR", [greater, first], ("left", (), "bool"))
    value = g.op("STABLEHLO_SELECT", [left, a, b], ("value", (), "float32"))
    g.outputs(value, g.op("STABLEHLO_SELECT", [left, i, j], ("place", (), "int32")))


def jax_greatest(left: Any, right: Any) -> Any:
    (a, i), (b, j) = left, right
    chosen = (a > b) | ((a == b) & (i < j))
    return lax.select(chosen, a, b), lax.select(chosen, i, j)


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
def test_reduce_of_two_operands(dims: tuple[int, ...]) -> None:
    x = small(np.random.default_rng(1), (4, 9), np.float32)
    place = np.arange(36, dtype=np.int32).reshape(4, 9)
    start = (np.float32(-np.inf), np.int32(99))
    check(
        "STABLEHLO_REDUCE",
        [x, place, *start],
        lax.reduce((x, place), start, jax_greatest, dims),
        [greatest_with_place],
        dimensions=dims,
        body_subgraph_index=1,
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("name", "dtype"), OF_EACH_TYPE)
def test_reduce_window(name: str, dtype: Any, seed: int) -> None:
    """Window, strides, dilations and padding (below 0 too) are drawn."""
    rng = np.random.default_rng([seed, 2])
    window, strides, base, dilation = (
        tuple(int(n) for n in rng.integers(1, high + 1, 2)) for high in (3, 3, 2, 2)
    )
    padding = [int(n) for n in rng.integers(-1 if seed % 2 else 0, 3, 4)]
    x, init = small(rng, (6, 7), dtype), neutral(name, dtype)
    check(
        "STABLEHLO_REDUCE_WINDOW",
        [x, init],
        lax.reduce_window(
            x,
            init,
            FUNCTIONS[name][0],
            window,
            strides,
            list(zip(padding[::2], padding[1::2], strict=True)),
            base,
            dilation,
        ),
        [combine(name, dtype)],
        window_dimensions=window,
        window_strides=strides,
        base_dilations=base,
        window_dilations=dilation,
        padding=padding,
        body_subgraph_index=1,
    )


# -- STABLEHLO_SORT


def before(dtypes: list[Any], direction: str, keys: int) -> Body:
    """Operand 0 in that order, of equals operand 1 if there are two keys"""

    def body(g: Any) -> None:
        pairs = [
            [g.input(f"{side}{i}", (), np.dtype(d).name) for side in "ab"]
            for i, d in enumerate(dtypes)
        ]
        flag = compare(g, direction, *pairs[0])
        if keys == 2:
            tied = compare(g, "EQ", *pairs[0])
            second = compare(g, direction, *pairs[1])
            both = g.op("STABLEHLO_AND", [tied, second], ("both", (), "bool"))
            flag = g.op("STABLEHLO_OR", [flag, both], ("flag", (), "bool"))
        g.outputs(flag)

    return body


@pytest.mark.parametrize("keys", [1, 2])
@pytest.mark.parametrize("dimension", [0, 1, 2])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_sort(dtype: Any, dimension: int, keys: int) -> None:
    rng = np.random.default_rng(3)
    shape = (5, 3, 9)
    x, y = small(rng, shape, dtype), small(rng, shape, np.int32)
    place = np.arange(x.size, dtype=np.int64).reshape(shape)
    operands = [x, y, place]
    check(
        "STABLEHLO_SORT",
        operands,
        lax.sort(operands, dimension, is_stable=True, num_keys=keys),
        [before([dtype, np.int32, np.int64], "LT", keys)],
        dimension=dimension,
        is_stable=True,
        comparator_subgraph_index=1,
    )


def test_sort_downwards_keeps_the_order_of_equals() -> None:
    x = small(np.random.default_rng(4), (2, 30), np.float32)
    place = np.arange(60, dtype=np.int32).reshape(2, 30)
    _, value, order = lax.sort([-x, x, place], 1, is_stable=True, num_keys=1)
    check(
        "STABLEHLO_SORT",
        [x, place],
        [value, order],
        [before([np.float32, np.int32], "GT", 1)],
        dimension=1,
        is_stable=True,
        comparator_subgraph_index=1,
    )


def test_sort_of_one_operand_with_special_values() -> None:
    """In the total order of floats, where jax puts NaN last"""
    x = np.array([3, np.nan, -np.inf, 0, np.inf, -2, np.nan, 1], np.float32)

    def body(g: Any) -> None:
        g.outputs(compare(g, "LT", g.input("a", ()), g.input("b", ()), "FLOAT_TOTAL_ORDER"))

    check(
        "STABLEHLO_SORT",
        [x],
        lax.sort(x),
        [body],
        dimension=0,
        is_stable=False,
        comparator_subgraph_index=1,
    )


# -- STABLEHLO_SCATTER: (operand, indices, updates, window, inserted, map, vector dimension)

SCATTERS = [
    ((6, 4), (5, 1), (5, 4), (1,), (0,), (0,), 1),
    ((6, 4), (2, 3, 1), (2, 3, 4), (2,), (0,), (0,), 2),
    ((6, 4), (7, 2), (7,), (), (0, 1), (1, 0), 1),
    ((5, 4, 3), (1, 6), (5, 6, 3), (0, 2), (1,), (1,), 0),
    ((7,), (9, 1), (9,), (), (0,), (0,), 1),
    ((6, 4), (5,), (5, 4), (1,), (0,), (0,), 1),
]
# jax has no scatter of and, or
SCATTERED = {
    "ADD": lax.scatter_add,
    "MULTIPLY": lax.scatter_mul,
    "MAXIMUM": lax.scatter_max,
    "MINIMUM": lax.scatter_min,
}


def scatter_check(function: Any, body: Body, geometry: Any, dtype: Any, unique: bool) -> None:
    """Windows that lie outside are dropped; unless `unique`, places are met more than once.

    Of one that lies partly outside, jax drops all and StableHLO the part: no geometry has that.
    """
    shape, indexed, updated, window, inserted, places, vector = geometry
    rng = np.random.default_rng(5)
    x, updates = small(rng, shape, dtype), small(rng, updated, dtype)
    indices = rng.integers(-1, 8, indexed).astype(np.int32)
    if unique:
        # along the scattered positions each index once, all its components alike
        at = index_vectors(indices, vector)  # a view
        at[...] = rng.permutation(at[..., 0].size).reshape(at.shape[:-1])[..., None]
    want = function(
        x,
        index_vectors(indices, vector),
        updates,
        lax.ScatterDimensionNumbers(window, inserted, places),
        mode="drop",
    )
    check(
        "STABLEHLO_SCATTER",
        [x, indices, updates],
        want,
        [body],
        indices_are_sorted=False,
        update_window_dims=window,
        inserted_window_dims=inserted,
        scatter_dims_to_operand_dims=places,
        index_vector_dim=vector,
        unique_indices=False,
        update_computation_subgraph_index=1,
    )


@pytest.mark.parametrize("geometry", SCATTERS)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int64])
@pytest.mark.parametrize("name", SCATTERED)
def test_scatter(name: str, dtype: Any, geometry: Any) -> None:
    scatter_check(SCATTERED[name], combine(name, dtype), geometry, dtype, False)


@pytest.mark.parametrize("geometry", SCATTERS)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_])
def test_scatter_that_replaces(dtype: Any, geometry: Any) -> None:
    def second(g: Any) -> None:
        g.input("a", (), np.dtype(dtype).name)
        g.outputs(g.input("b", (), np.dtype(dtype).name))

    scatter_check(lax.scatter, second, geometry, dtype, True)
