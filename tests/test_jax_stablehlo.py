"""STABLEHLO_* ops of products and of memory, which ai-edge-litert cannot run, against jax.lax."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_op import check, index_vectors, small

jax = pytest.importorskip("jax", reason="jax is not installed")
jax.config.update("jax_enable_x64", True)
lax = jax.lax

TYPES = (np.float32, np.float16, np.float64, np.int8, np.uint8, np.int32, np.int64, np.complex64)
SEEDS = range(8)


def numbers(rng: np.random.Generator, low: int, high: int, count: int) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(low, high + 1, count))


def order(rng: np.random.Generator, count: int) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.permutation(count))


# -- STABLEHLO_CONVOLUTION, _DOT_GENERAL


@pytest.mark.parametrize("groups", ["none", "features", "batches"])
@pytest.mark.parametrize("seed", range(15))
def test_convolution(seed: int, groups: str) -> None:
    """Everything is drawn: rank, order of dimensions, strides, dilations, padding, reversal."""
    rng = np.random.default_rng([seed, len(groups)])
    rank, count = 1 + seed % 3, 1 if groups == "none" else 2 + seed % 2
    feature_groups = count if groups == "features" else 1
    batch_groups = count if groups == "batches" else 1
    inner = int(rng.integers(1, 4))
    sizes = {
        "x": (2 * batch_groups, inner * feature_groups, *numbers(rng, 5, 7, rank)),
        "w": (2 * count, inner, *numbers(rng, 1, 3, rank)),
    }
    orders = {which: order(rng, rank + 2) for which in "xwy"}
    # at dimension i of the tensor lies dimension orders[i] of (batch, feature, spatial...)
    spec = {w: tuple(o.index(i) for i in range(rank + 2)) for w, o in orders.items()}
    dtype = (np.float32, np.int32, np.float64, np.int8, np.float16)[seed % 5]
    x = small(rng, [sizes["x"][i] for i in orders["x"]], dtype)
    w = small(rng, [sizes["w"][i] for i in orders["w"]], dtype)
    strides, padding = numbers(rng, 1, 3, rank), numbers(rng, -1, 2, 2 * rank)
    left, right = numbers(rng, 1, 2, rank), numbers(rng, 1, 2, rank)
    reverse = [bool(r) for r in rng.integers(0, 2, rank)]
    want = lax.conv_general_dilated(
        x,
        # what it calls reversal of the window, jax does to the kernel
        lax.rev(w, [d for d, r in zip(spec["w"][2:], reverse, strict=True) if r]),
        strides,
        list(zip(padding[::2], padding[1::2], strict=True)),
        left,
        right,
        lax.ConvDimensionNumbers(spec["x"], spec["w"], spec["y"]),
        feature_groups,
        batch_groups,
    )
    check(
        "STABLEHLO_CONVOLUTION",
        [x, w],
        want,
        window_strides=strides,
        padding=padding,
        lhs_dilation=left,
        rhs_dilation=right,
        window_reversal=reverse,
        input_batch_dimension=spec["x"][0],
        input_feature_dimension=spec["x"][1],
        input_spatial_dimensions=spec["x"][2:],
        kernel_output_feature_dimension=spec["w"][0],
        kernel_input_feature_dimension=spec["w"][1],
        kernel_spatial_dimensions=spec["w"][2:],
        output_batch_dimension=spec["y"][0],
        output_feature_dimension=spec["y"][1],
        output_spatial_dimensions=spec["y"][2:],
        feature_group_count=feature_groups,
        batch_group_count=batch_groups,
        precision_config=["DEFAULT", "DEFAULT"],
    )


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("seed", range(4))
def test_dot_general(seed: int, dtype: Any) -> None:
    """Batching, contracting and free dimensions in drawn places on both sides."""
    rng = np.random.default_rng([seed, 1])
    batching, contracting = numbers(rng, 1, 4, seed % 3), numbers(rng, 1, 5, (seed + 1) % 3)
    shared = len(batching) + len(contracting)
    operands, dims = [], []
    for _ in range(2):
        sizes = (*batching, *contracting, *numbers(rng, 1, 4, int(rng.integers(0, 3))))
        places = order(rng, len(sizes))
        operands.append(small(rng, [sizes[i] for i in places], dtype))
        at = [places.index(i) for i in range(shared)]
        dims.append((at[: len(batching)], at[len(batching) :]))
    (left_batch, left), (right_batch, right) = dims
    check(
        "STABLEHLO_DOT_GENERAL",
        operands,
        lax.dot_general(*operands, ((left, right), (left_batch, right_batch))),
        lhs_batching_dimensions=left_batch,
        rhs_batching_dimensions=right_batch,
        lhs_contracting_dimensions=left,
        rhs_contracting_dimensions=right,
        precision_config=["DEFAULT", "DEFAULT"],
    )


@pytest.mark.parametrize(
    ("source", "result"), [(np.int8, np.int32), (np.uint8, np.int32), (np.float16, np.float32)]
)
def test_dot_general_into_a_wider_type(source: Any, result: Any) -> None:
    rng = np.random.default_rng(2)
    high = 255 if source is np.uint8 else 127
    x, y = (rng.integers(high // 2, high, s).astype(source) for s in ((3, 40), (40, 2)))
    check(
        "STABLEHLO_DOT_GENERAL",
        [x, y],
        lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=result),
        lhs_contracting_dimensions=[1],
        rhs_contracting_dimensions=[0],
        precision_config=["DEFAULT", "DEFAULT"],
    )


def test_dot_general_of_int8_wraps_around() -> None:
    rng = np.random.default_rng(10)
    x, y = (rng.integers(-128, 128, s).astype(np.int8) for s in ((3, 20), (20, 2)))
    check(
        "STABLEHLO_DOT_GENERAL",
        [x, y],
        lax.dot_general(x, y, (((1,), (0,)), ((), ()))),
        lhs_contracting_dimensions=[1],
        rhs_contracting_dimensions=[0],
    )


# -- what moves elements


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.int64, np.uint8])
@pytest.mark.parametrize("seed", SEEDS)
def test_pad(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng([seed, 3])
    rank = 1 + seed % 3
    x = small(rng, numbers(rng, 3, 5, rank), dtype)
    low, high = numbers(rng, -1, 3, rank), numbers(rng, -1, 3, rank)
    interior = numbers(rng, 0, 2, rank)
    value = np.asarray(7, dtype)
    check(
        "STABLEHLO_PAD",
        [x, value],
        lax.pad(x, value, list(zip(low, high, interior, strict=True))),
        edge_padding_low=low,
        edge_padding_high=high,
        interior_padding=interior,
    )


@pytest.mark.parametrize(
    ("size", "low", "high", "interior"),
    [(5, -3, -2, 2), (5, -3, -2, 0), (0, 1, 2, 3), (1, 0, 0, 4)],
)
def test_pad_of_little_or_to_nothing(size: int, low: int, high: int, interior: int) -> None:
    x, value = np.ones(size, np.float32), np.float32(7)
    check(
        "STABLEHLO_PAD",
        [x, value],
        lax.pad(x, value, [(low, high, interior)]),
        edge_padding_low=[low],
        edge_padding_high=[high],
        interior_padding=[interior],
    )


@pytest.mark.parametrize("dtype", [*TYPES, np.bool_])
@pytest.mark.parametrize("seed", range(3))
def test_slice(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng([seed, 4])
    x = small(rng, (6, 5, 7), dtype)
    start, strides = numbers(rng, 0, 2, 3), numbers(rng, 1, 3, 3)
    limit = numbers(rng, 3, 5, 3)
    check(
        "STABLEHLO_SLICE",
        [x],
        lax.slice(x, start, limit, strides),
        start_indices=start,
        limit_indices=limit,
        strides=strides,
    )


# below 0 and beyond the end is moved to where the slice fits
STARTS = [(0, 0), (1, 2), (3, 1), (9, 0), (-90, 2), (2, 90)]


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("start", STARTS)
def test_dynamic_slices(start: tuple[int, int], index: Any) -> None:
    rng = np.random.default_rng(5)
    for dtype in (np.float32, np.int8, np.bool_):
        x, update = small(rng, (5, 4), dtype), small(rng, (2, 3), dtype)
        starts = [np.asarray(s, index) for s in start]
        want = lax.dynamic_slice(x, starts, (2, 3))
        check("STABLEHLO_DYNAMIC_SLICE", [x, *starts], want, slice_sizes=(2, 3))
        want = lax.dynamic_update_slice(x, update, starts)
        check("STABLEHLO_DYNAMIC_UPDATE_SLICE", [x, update, *starts], want)


@pytest.mark.parametrize(
    ("shape", "result", "dims"),
    [
        ((3,), (2, 3), (1,)),
        ((3,), (3, 2), (0,)),
        ((), (2, 2), ()),
        ((2, 1), (2, 4, 3), (0, 2)),
        ((1, 3), (4, 2, 3), (1, 2)),
        ((2, 3), (2, 3), (0, 1)),
        ((0, 1), (0, 5), (0, 1)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_broadcast_in_dim(shape: Any, result: Any, dims: Any, dtype: Any) -> None:
    x = small(np.random.default_rng(6), shape, dtype)
    want = lax.broadcast_in_dim(x, result, dims)
    check("STABLEHLO_BROADCAST_IN_DIM", [x], want, broadcast_dimensions=dims)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int64, np.bool_])
@pytest.mark.parametrize("seed", range(4))
def test_transpose_reshape_concatenate(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng([seed, 7])
    x = small(rng, numbers(rng, 1, 4, 2 + seed % 3), dtype)
    axes = order(rng, x.ndim)
    check("STABLEHLO_TRANSPOSE", [x], lax.transpose(x, axes), permutation=axes)
    flat = (1, x.size) if seed % 2 else (x.shape[-1], x.size // x.shape[-1])
    check("STABLEHLO_RESHAPE", [x], lax.reshape(x, flat))
    axis = seed % x.ndim
    parts = [np.repeat(x, n, axis) for n in (1, 3, 2)]
    check("STABLEHLO_CONCATENATE", parts, lax.concatenate(parts, axis), dimension=axis)


@pytest.mark.parametrize("dtype", TYPES)
def test_iota(dtype: Any) -> None:
    for shape in ((5,), (2, 3), (2, 1, 4)):
        for axis in range(len(shape)):
            want = lax.broadcasted_iota(dtype, shape, axis)
            check("STABLEHLO_IOTA", [], want, iota_dimension=axis)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
@pytest.mark.parametrize("scalar", [True, False])
def test_select_and_clamp(dtype: Any, scalar: bool) -> None:
    """With a scalar condition or limits; those of the operand's shape are elsewhere too."""
    rng = np.random.default_rng(8)
    x, y = small(rng, (3, 4), dtype), small(rng, (3, 4), dtype)
    shape = () if scalar else (3, 4)
    condition = small(rng, shape, np.bool_)
    check("STABLEHLO_SELECT", [condition, x, y], lax.select(condition, x, y))
    low, high = np.full(shape, 1, dtype), np.full(shape, 2, dtype)
    check("STABLEHLO_CLAMP", [low, x, high], lax.clamp(low, x, high))


# -- STABLEHLO_GATHER: (operand, indices, offset, collapsed, map, vector dimension, sizes)

GATHERS = [
    ((6, 4), (3, 1), (1,), (0,), (0,), 1, (1, 4)),
    ((6, 4), (2, 3, 1), (2,), (0,), (0,), 2, (1, 2)),
    ((6, 4), (5, 2), (), (0, 1), (1, 0), 1, (1, 1)),
    ((5, 4, 3), (4, 2), (0, 2), (1,), (0, 2), 1, (2, 1, 2)),
    ((5, 4, 3), (2, 4), (1, 2), (2,), (2, 1), 0, (2, 2, 1)),
    ((7,), (1,), (0,), (), (0,), 0, (3,)),
    ((6, 4), (3,), (1,), (0,), (0,), 1, (1, 4)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int64, np.bool_])
@pytest.mark.parametrize("geometry", GATHERS)
def test_gather(geometry: Any, dtype: Any) -> None:
    """Some of the indices lie outside: they are moved to where the slice fits."""
    shape, indexed, offset, collapsed, starts, vector, sizes = geometry
    rng = np.random.default_rng(9)
    x = small(rng, shape, dtype)
    indices = rng.integers(-2, 9, indexed).astype(np.int32)
    want = lax.gather(
        x,
        index_vectors(indices, vector),
        lax.GatherDimensionNumbers(offset, collapsed, starts),
        sizes,
        mode="clip",
    )
    check(
        "STABLEHLO_GATHER",
        [x, indices],
        want,
        offset_dims=offset,
        collapsed_slice_dims=collapsed,
        start_index_map=starts,
        index_vector_dim=vector,
        slice_sizes=sizes,
        indices_are_sorted=False,
    )
