"""Ops where shapes interact, on drawn shapes, against an independent plain formulation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from cases import T
from harness import NodeSpec, OpError, Options, Prepared
from hypothesis import given, settings
from hypothesis import strategies as st

from litedelegate.kernels import resize
from litedelegate.kernels.builtins import find_builtin
from litedelegate.kernels.types import Array

settings.register_profile("shapes", max_examples=60, deadline=None)
settings.load_profile("shapes")

Shape = tuple[int, ...]


def run(op: str, inputs: Sequence[Any], output: Any = 0.0, **options: Any) -> Array:
    """Output 0 of the numpy kernel, with constant and with other inputs alike."""
    registration = find_builtin(op)
    assert registration is not None
    tensors = [T(v) for v in inputs]
    outputs = [T(output).spec("y", False)]
    results = []
    for const in (False, True):
        specs = [t.spec(f"x{i}", const) for i, t in enumerate(tensors)]
        node = NodeSpec(op, specs, outputs, Options(options))
        results.append(Prepared(registration, node, [t.array for t in tensors]).run()[0])
    np.testing.assert_array_equal(*results)
    return results[0]


def shapes(least: int = 1, most: int = 4, size: int = 5, smallest: int = 0) -> Any:
    return st.lists(st.integers(smallest, size), min_size=least, max_size=most).map(tuple)


def numbered(shape: Shape) -> Array:
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def places(shape: Shape) -> Any:
    return product(*map(range, shape))


@given(st.data())
def test_strided_slice_is_pythons_slice(data: Any) -> None:
    x = numbered(data.draw(shapes()))
    kinds = data.draw(st.lists(st.sampled_from(["range", "range", "one", "new"]), max_size=x.ndim))
    count = sum(k != "new" for k in kinds)
    # an ellipsis in front leaves what is given to the last dimensions
    ellipsis = data.draw(st.booleans())
    sizes = iter(x.shape[x.ndim - count :] if ellipsis else x.shape)
    index: list[Any] = [...] if ellipsis else []
    begin, end, strides = ([0], [0], [1]) if ellipsis else ([], [], [])
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    masks = {name: int(ellipsis and name == "ellipsis_mask") for name in names}
    for kind in kinds:
        bit = 1 << len(begin)
        first, last = data.draw(st.integers(-7, 7)), data.draw(st.integers(-7, 7))
        step = data.draw(st.sampled_from([-3, -2, -1, 1, 2, 3]))
        size = 0 if kind == "new" else next(sizes)
        if kind == "new":
            masks["new_axis_mask"] |= bit
            index.append(None)
        elif kind == "one" and size:
            first, step = data.draw(st.integers(-size, size - 1)), 1
            masks["shrink_axis_mask"] |= bit
            index.append(first)
        else:
            open_first, open_last = data.draw(st.booleans()), data.draw(st.booleans())
            masks["begin_mask"] |= bit * open_first
            masks["end_mask"] |= bit * open_last
            index.append(slice(None if open_first else first, None if open_last else last, step))
        begin.append(first)
        end.append(last)
        strides.append(step)
    arrays = [np.array(v, np.int32) for v in (begin, end, strides)]
    got = run("STRIDED_SLICE", [x, *arrays], offset=False, **masks)
    np.testing.assert_array_equal(got, x[tuple(index)])


@given(st.data())
def test_slice(data: Any) -> None:
    shape = data.draw(shapes())
    begin = [data.draw(st.integers(0, d)) for d in shape]
    size = [data.draw(st.integers(-1, d - a)) for d, a in zip(shape, begin, strict=True)]
    got = run("SLICE", [numbered(shape), np.array(begin, np.int32), np.array(size, np.int32)])
    want = numbered(shape)
    for axis, (a, n) in enumerate(zip(begin, size, strict=True)):
        want = want.take(range(a, shape[axis] if n == -1 else a + n), axis)
    np.testing.assert_array_equal(got, want)


@given(st.data())
def test_gather(data: Any) -> None:
    shape = data.draw(shapes(smallest=1))
    axis = data.draw(st.integers(0, len(shape) - 1))
    batch = data.draw(st.integers(0, axis))
    inner = data.draw(shapes(0, 2, 3))
    limit = shape[axis]
    count = int(np.prod(shape[:batch] + inner))
    drawn = data.draw(st.lists(st.integers(0, limit - 1), min_size=count, max_size=count))
    positions = np.array(drawn, np.int32).reshape(shape[:batch] + inner)
    x = numbered(shape)
    got = run("GATHER", [x, positions], axis=axis, batch_dims=batch)
    want = np.zeros(shape[:axis] + inner + shape[axis + 1 :], np.float32)
    for at in places(want.shape):
        outer, middle, rest = at[:axis], at[axis : axis + len(inner)], at[axis + len(inner) :]
        want[at] = x[(*outer, positions[outer[:batch] + middle], *rest)]
    np.testing.assert_array_equal(got, want)
    if count and got.size:
        positions.reshape(-1)[0] = data.draw(st.sampled_from([limit, limit + 5, -1, -(2**31)]))
        with pytest.raises(OpError, match="out of bounds"):
            run("GATHER", [x, positions], axis=axis, batch_dims=batch)


@given(st.data())
def test_gather_nd_undoes_scatter_nd(data: Any) -> None:
    shape = data.draw(shapes(1, 3, 4, 1))
    depth = data.draw(st.integers(1, len(shape)))
    cells = list(places(shape[:depth]))
    chosen = data.draw(st.lists(st.sampled_from(cells), unique=True, max_size=6))
    indices = np.array(chosen, np.int32).reshape(len(chosen), depth)
    updates = 1 + numbered((len(chosen), *shape[depth:]))
    scattered = run("SCATTER_ND", [indices, updates, np.array(shape, np.int32)])
    want = np.zeros(shape, np.float32)
    for index, update in zip(chosen, updates, strict=True):
        want[index] = update
    np.testing.assert_array_equal(scattered, want)
    np.testing.assert_array_equal(run("GATHER_ND", [scattered, indices]), updates)


@given(st.data())
def test_reductions(data: Any) -> None:
    shape = data.draw(shapes())
    axes = data.draw(st.lists(st.integers(-len(shape), len(shape) - 1), max_size=4))
    keep = data.draw(st.booleans())
    x = numbered(shape).astype(np.int32) % 7 - 2
    reduced = {a % len(shape) for a in axes}
    groups: dict[Shape, list[int]] = {}
    kept = tuple(1 if i in reduced else d for i, d in enumerate(shape))
    for at in places(kept):
        groups[at] = []
    for at in places(shape):
        groups[tuple(0 if i in reduced else a for i, a in enumerate(at))].append(int(x[at]))
    out = kept if keep else tuple(d for i, d in enumerate(shape) if i not in reduced)
    low, high = -(2**31), 2**31 - 1
    for op, one in (
        ("SUM", sum),
        ("REDUCE_MAX", lambda v: max(v, default=low)),
        ("REDUCE_MIN", lambda v: min(v, default=high)),
        ("MEAN", lambda v: int(sum(v) / len(v)) if v else 0),
    ):
        want = np.array([one(groups[at]) for at in places(kept)], np.int32).reshape(out)
        got = run(op, [x, np.array(axes, np.int32)], np.int32(0), keep_dims=keep)
        np.testing.assert_array_equal(got, want, err_msg=op)


@given(st.data())
def test_pad_and_mirror_pad(data: Any) -> None:
    shape = data.draw(shapes(smallest=1))
    pads = [(data.draw(st.integers(0, d)), data.draw(st.integers(0, d))) for d in shape]
    x = 1 + numbered(shape)
    out = tuple(d + a + z for d, (a, z) in zip(shape, pads, strict=True))
    constant, mirrored = np.zeros(out, np.float32), np.zeros(out, np.float32)
    for at in places(out):
        inner = [i - a for i, (a, _) in zip(at, pads, strict=True)]
        if all(0 <= i < d for i, d in zip(inner, shape, strict=True)):
            constant[at] = x[tuple(inner)]
        # the edge is repeated: -1 is 0, d is d - 1
        folded = [
            -1 - i if i < 0 else 2 * d - 1 - i if i >= d else i
            for i, d in zip(inner, shape, strict=True)
        ]
        mirrored[at] = x[tuple(folded)]
    paddings = np.array(pads, np.int32)
    np.testing.assert_array_equal(run("PAD", [x, paddings]), constant)
    np.testing.assert_array_equal(run("MIRROR_PAD", [x, paddings], mode="SYMMETRIC"), mirrored)


@given(st.data())
def test_transpose_and_tile(data: Any) -> None:
    shape = data.draw(shapes())
    x = numbered(shape)
    perm = data.draw(st.permutations(range(len(shape))))
    got = run("TRANSPOSE", [x, np.array(perm, np.int32)])
    assert got.shape == tuple(shape[p] for p in perm)
    for at in places(got.shape):
        assert got[at] == x[tuple(at[perm.index(d)] for d in range(len(shape)))]
    times = [data.draw(st.integers(0, 3)) for _ in shape]
    got = run("TILE", [x, np.array(times, np.int32)])
    assert got.shape == tuple(d * n for d, n in zip(shape, times, strict=True))
    for at in places(got.shape):
        assert got[at] == x[tuple(i % d for i, d in zip(at, shape, strict=True))]


@given(st.data())
def test_split_undoes_concatenation(data: Any) -> None:
    shape = data.draw(shapes(smallest=1))
    axis = data.draw(st.integers(0, len(shape) - 1))
    sizes = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    parts = [
        numbered((*shape[:axis], n, *shape[axis + 1 :])) + 100 * i for i, n in enumerate(sizes)
    ]
    whole = run("CONCATENATION", parts, axis=axis - len(shape), fused_activation_function="NONE")
    registration = find_builtin("SPLIT_V")
    assert registration is not None
    inputs = [T(whole), T(np.array(sizes, np.int32)), T(np.int32(axis))]
    node = NodeSpec(
        "SPLIT_V",
        [t.spec("x", False) for t in inputs],
        [T(p).spec("y", False) for p in parts],
        Options({"num_splits": len(sizes)}),
    )
    for got, part in zip(
        Prepared(registration, node, [t.array for t in inputs]).run(), parts, strict=True
    ):
        np.testing.assert_array_equal(got, part)


@given(st.data())
def test_batches_and_blocks_of_space(data: Any) -> None:
    n, c = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3))
    size = [data.draw(st.integers(1, 5)) for _ in range(2)]
    block = [data.draw(st.integers(1, 3)) for _ in range(2)]
    before = [data.draw(st.integers(0, 3)) for _ in range(2)]
    after = [-(d + a) % s for d, a, s in zip(size, before, block, strict=True)]
    x = 1 + numbered((n, *size, c))
    pads = np.array(list(zip(before, after, strict=True)), np.int32)
    blocks = np.array(block, np.int32)
    got = run("SPACE_TO_BATCH_ND", [x, blocks, pads])
    padded = np.pad(x, [(0, 0), *zip(before, after, strict=True), (0, 0)])
    for b, h, w in places(got.shape[:3]):
        inner, image = divmod(b, n)
        row, column = divmod(inner, block[1])
        want = padded[image, h * block[0] + row, w * block[1] + column]
        np.testing.assert_array_equal(got[b, h, w], want)
    np.testing.assert_array_equal(run("BATCH_TO_SPACE_ND", [got, blocks, pads]), x)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int8, np.int16])
@pytest.mark.parametrize("size", [(31, 9), (3, 40), (13, 7)])
def test_resize_is_the_same_in_bands_and_blocks(
    dtype: Any, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(0).integers(0, 100, (2, 13, 7, 3)).astype(dtype)
    inputs = [x, np.array(size, np.int32)]
    options = {"align_corners": False, "half_pixel_centers": True}
    whole = run("RESIZE_BILINEAR", inputs, dtype(0), **options)
    monkeypatch.setattr(resize, "_BLOCK", 64)
    np.testing.assert_array_equal(run("RESIZE_BILINEAR", inputs, dtype(0), **options), whole)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64])
@pytest.mark.parametrize("perm", [(1, 0, 2), (0, 2, 1), (2, 1, 0), (1, 2, 0)])
def test_a_large_transpose_goes_by_strips(dtype: Any, perm: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(0, 100, (70, 65, 90)).astype(dtype)
    got = run("TRANSPOSE", [x, np.array(perm, np.int32)], dtype(0))
    np.testing.assert_array_equal(got, np.ascontiguousarray(x.transpose(perm)))
