"""Ops on the order of elements: the place of the extreme, the largest k, running sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from ._check import COMPLEX, NUMBERS
from ._lower import check, f32, indices, lanes_for, share_for
from ._reduction_lower import place_of, sum_type
from ._register_tiles import lanes_of
from ._rows_lower import rows
from ._shape import (
    INDEX,
    axis_of,
    integers,
    known,
    like,
    one,
    replaced,
    scalar_axis,
    sequence,
    settled,
    size_of,
    without,
)
from ._widen import FLOATS, in_float32
from .api import Binding, NodeSpec, OpError, Registration, Run, Shape, op, take
from .device import Capability, Kernel, Lowered
from .types import Array, DType, bfloat16_to_float32


def _arg(node: NodeSpec) -> list[Shape | None]:
    x, y = node.input(0), node.outputs[0]
    take(node, "input 0", x, *NUMBERS, DType.BOOL)
    take(node, "axis", node.input(1), *INDEX)
    take(node, "output", y, *INDEX)
    axis = scalar_axis(node, 1, x.rank)
    if axis is None:
        return [None]
    if x.shape[axis] == 0:
        raise OpError(
            f"Cannot compute ArgMin/ArgMax over an empty axis: {node.op} along dimension {axis} of "
            f"{x.name!r}, shape {list(x.shape)}"
        )
    return [without(x.shape, axis)]


def _bind_arg(b: Binding, largest: bool) -> Run | None:
    x, y = b.xi(0), b.y[0]
    place = b.scratch(y.shape, np.intp)
    dtype = b.input(0).dtype
    values = b.scratch(x.shape) if dtype is DType.BFLOAT16 else x

    def make() -> Run:
        axis = axis_of(b, integers(b, 1)[0], x.ndim)
        inner = size_of(x.shape[axis + 1 :])
        way = _by_columns if y.size >= 32 * x.shape[axis] else _by_rows
        find, has_nan = way(b, values, axis, place, largest)

        def run() -> None:
            if values is not x:
                values[...] = bfloat16_to_float32(x)
            find()
            if dtype in FLOATS and has_nan():
                place[...] = _arg_of_numbers(np.moveaxis(values, axis, -1), largest, inner)
            y[...] = place

        return run

    return settled(b, (1,), make)


Search = tuple[Run, Callable[[], bool]]


def _by_rows(b: Binding, x: Array, axis: int, place: Array, largest: bool) -> Search:
    """Places of the extremes, as numpy finds them, and whether there was a NaN."""
    find = partial(np.argmax if largest else np.argmin, x, axis, place)
    # where there is a NaN numpy finds it
    return find, lambda: place.size > 0 and bool(np.isnan(_at(x, place, axis)).any())


def _by_columns(b: Binding, x: Array, axis: int, place: Array, largest: bool) -> Search:
    """The same, all rows at once: faster where there are few columns and many rows."""
    columns = np.moveaxis(x, axis, 0)
    better, keep = (np.greater, np.maximum) if largest else (np.less, np.minimum)
    best, value = (b.scratch(place.shape, x.dtype) for _ in range(2))
    wins = b.scratch(place.shape, np.bool_)

    def find() -> None:
        best[...] = columns[0]
        place.fill(0)
        for i in range(1, len(columns)):
            value[...] = columns[i]
            better(value, best, out=wins)
            np.copyto(place, i, where=wins)
            # a NaN stays here
            keep(best, value, out=best)

    return find, lambda: bool(np.isnan(best).any())


def _at(values: Array, place: Array, axis: int) -> Array:
    return np.take_along_axis(values, np.expand_dims(place, axis), axis)


def _arg_of_numbers(rows: Array, largest: bool, inner: int) -> Array:
    """Place of the extreme along the last dimension where there are NaN: they do not count.

    One exception is taken over from the peer. Along a contiguous axis it compares four lanes,
    element i in lane i % 4, and a lane of NaN only can spoil this: [nan, 1, 2, 3] gives 0.
    """
    rows = rows if largest else -rows
    whole = rows.shape[-1] // 4 * 4
    if inner != 1 or not whole:
        return _best_number(rows)[0]
    lanes = np.moveaxis(rows[..., :whole].reshape(*rows.shape[:-1], -1, 4), -1, 0)
    found, values = zip(*map(_best_number, lanes), strict=True)
    pairs = [np.where(a < z, z, a) for a, z in (values[:2], values[2:])]
    best = np.where(pairs[0] < pairs[1], pairs[1], pairs[0])
    lane_places = (
        np.where(value == best, 4 * at + lane, whole)
        for lane, (at, value) in enumerate(zip(found, values, strict=True))
    )
    place = np.minimum.reduce(list(lane_places))
    for i in range(whole, rows.shape[-1]):
        value = rows[..., i]
        wins = (value == value) & ~(value <= best)
        place, best = np.where(wins, i, place), np.where(wins, value, best)
    return np.where(np.isnan(best), 0, place)


def _best_number(rows: Array) -> tuple[Array, Array]:
    """Place and value of the first largest number of each row; 0 and NaN where there is none."""
    place = np.argmax(np.where(np.isnan(rows), -np.inf, rows), -1)
    # -inf stands for the NaN before it
    lost = np.isnan(_at(rows, place, -1)[..., 0])
    if lost.any():
        numbers = ~np.isnan(rows)
        place = np.where(lost, np.argmax(numbers, -1), place)
    return place, _at(rows, place, -1)[..., 0]


def _top_k(node: NodeSpec) -> list[Shape | None]:
    x, k = node.input(0), node.input(1)
    take(node, "input 0", x, *NUMBERS)
    take(node, "k", k, DType.INT32, DType.INT16, DType.INT64)
    take(node, "indices", node.outputs[1], DType.INT32, DType.INT16, DType.INT64)
    one(node, "k", k)
    like(node, x, node.outputs[0])
    if x.rank == 0:
        raise OpError("TopK k input must have 1 or more dimensions; TOPK_V2 got a scalar")
    values = known(k)
    if values is None:
        return [None, None]
    if values[0] > x.shape[-1]:
        raise OpError(
            f"TopK k is higher than the internal dimension: {values[0]} of {x.shape[-1]} in "
            f"{x.name!r}, shape {list(x.shape)}"
        )
    return [replaced(x.shape, x.rank - 1, max(0, values[0]))] * 2


def _bind_top_k(b: Binding) -> Run | None:
    x, values, indices = b.xi(0), b.y[0], b.y[1]
    k, n = values.shape[-1], x.shape[-1]
    if not values.size:
        return None
    rows = x.reshape(-1, n)
    best = partial(_best, k=k, bits=b.input(0).dtype is DType.BFLOAT16)
    out, places = values.reshape(-1, k), indices.reshape(-1, k)

    def run() -> None:
        place = best(rows)
        places[...] = place
        out[...] = np.take_along_axis(rows, place, 1)

    return run


def _best(rows: Array, k: int, bits: bool) -> Array:
    """Places of the k largest of each row, largest first; of equals the first leads; NaN last."""
    if bits:
        rows = bfloat16_to_float32(rows)
    # ascending in the key is descending in the value; ~ cannot overflow as - can
    key = -rows if rows.dtype.kind == "f" else ~rows
    if key.shape[1] < 256 or 4 * k > key.shape[1]:
        return np.argsort(key, axis=1, kind="stable")[:, :k]
    # sort only what can be among the k: all up to the k-th key, in their order
    bounds = np.partition(key, k - 1, axis=1)[:, k - 1]
    places = np.empty((len(key), k), np.intp)
    for place, row, bound in zip(places, key, bounds, strict=True):
        near = np.flatnonzero(row <= bound) if bound == bound else np.arange(len(row))
        place[...] = near[np.argsort(row[near], kind="stable")[:k]]
    return places


def _cumsum(node: NodeSpec) -> list[Shape | None]:
    x = node.input(0)
    take(node, "input 0", x, *NUMBERS, *COMPLEX)
    take(node, "axis", node.input(1), *INDEX)
    like(node, x, node.outputs[0])
    if x.rank == 0:
        raise OpError("CUMSUM takes a tensor of rank 1 or more; got a scalar")
    scalar_axis(node, 1, x.rank)
    return [x.shape]


def _bind_cumsum(b: Binding) -> Run | None:
    def make() -> Run | None:
        axis = axis_of(b, integers(b, 1)[0], b.y[0].ndim)
        x, y = np.moveaxis(b.xi(0), axis, 0), np.moveaxis(b.y[0], axis, 0)
        if not y.size:
            return None
        if b.options.reverse:
            x, y = x[::-1], y[::-1]
        if not b.options.exclusive:
            return partial(np.add.accumulate, x, 0, y.dtype, y)
        first: Callable[[], None] = partial(y[:1].fill, 0)
        rest = partial(np.add.accumulate, x[:-1], 0, y.dtype, y[1:])
        return sequence(first, rest if len(y) > 1 else None)

    return settled(b, (1,), make)


# -- devices

# values of a row that a CPU compares at a time, and those for which it is worth waking a core
_ALONG, _LONG = 16, 4096


def _lower_arg(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x = node.input(0)
    axis = axis_of(node, indices(node.input(1))[0], x.rank)
    count, rows = x.shape[axis], node.outputs[0].size
    contiguous = size_of(x.shape[axis + 1 :]) == 1
    defines, lanes, grid = _lines(x.shape, axis, capability)
    along = 1
    if capability.kind == "cpu" and contiguous:
        # values of a long row side by side, or as many short rows
        along = _ALONG if count >= 2 * _ALONG else 1
        lanes = 1 if along > 1 else min(16, rows or 1)
        grid = (-(-rows // lanes),)
    sign = ">" if node.op == "ARG_MAX" else "<"
    defines |= {
        "LANES": lanes,
        "ALONG": along,
        "WIDE": max(along, lanes),
        "ACC": sum_type(x.dtype),
        "BETTER(a, b)": f"((a) {sign} (b))",
        "LANES_OF_FOUR": int(contiguous and count >= 4 and x.dtype.is_float),
    }
    each = share_for(capability, grid[0], 1)
    defines |= {"EACH": each, "PARTS": 0}
    grid = (-(-grid[0] // each),)
    if along == 1 or x.dtype is not DType.FLOAT32 or not rows:
        return Lowered([Kernel("arg", (0,), grid, defines)])
    units = 2 * capability.compute_units
    split = 1 if rows >= units else max(1, min(units // rows, count // _LONG))
    defines |= {"PARTS": split}
    share = share_for(capability, rows * split, 1)
    parts = {
        **defines,
        "SPLIT": split,
        "EACH": share,
        "VW": lanes_of(capability),
        "WORST": f32(-math.inf if sign == ">" else math.inf),
    }
    first, pairs = len(node.outputs), len(node.inputs)
    steps = [
        Kernel("arg_parts", (0,), (-(-rows * split // share),), parts, output=first, raw=True),
        Kernel("arg", (0, pairs), grid, defines),
    ]
    return Lowered(steps, scratch=[((rows, split, 2), DType.INT32)])


def _lines(
    shape: Shape, axis: int, capability: Capability
) -> tuple[dict[str, object], int, tuple[int, ...]]:
    """Macros of a walk along `axis`, how many neighbouring lines go together, and the grid."""
    inner = size_of(shape[axis + 1 :])
    kept = [(d, size_of(shape[i + 1 :])) for i, d in enumerate(shape) if i != axis]
    size = size_of([d for d, _ in kept])
    lanes = lanes_for(capability, inner) if inner > 1 else 1
    defines = {
        "COUNT": shape[axis],
        "STRIDE": inner,
        "SIZE": size,
        "LANES": lanes,
        "BASE(i)": place_of(kept, "i"),
    }
    return defines, lanes, (size // lanes,)


def _lower_top_k(node: NodeSpec, capability: Capability) -> Lowered:
    """The places first, then the values there."""
    check(node, capability)
    x, y = node.input(0), node.outputs[0]
    depth, k = x.shape[-1], y.shape[-1]
    if not y.size:
        return Lowered([])
    count = y.size // k
    by_row = capability.kind == "cpu"
    defines = {
        "ACC": sum_type(x.dtype),
        "FLOATS": int(x.dtype.is_float),
        "BY_ROW": int(by_row),
        "DEPTH": depth,
        "K": k,
        "ROWS": count,
    }
    grid = (count if by_row else count * depth,)
    places = Kernel("top_k", (0,), grid, defines, output=1, raw=True)
    # outputs are read as what comes behind the inputs
    place = f"from = r / {k} * {depth} + (i32)LOAD1(r);"
    values = rows(capability, y.size, 1, place, (0, len(node.inputs) + 1))
    return Lowered([places, values])


def _lower_cumsum(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, o = node.input(0), node.options
    axis = axis_of(node, indices(node.input(1))[0], x.rank)
    defines, _, grid = _lines(x.shape, axis, capability)
    kind = sum_type(x.dtype)
    defines |= {
        # integers wrap
        "ACC": {"i32": "u32", "i64": "u64"}.get(kind, kind),
        "EXCLUSIVE": int(o.exclusive),
        "FIRST": x.shape[axis] - 1 if o.reverse else 0,
        "BY": -1 if o.reverse else 1,
    }
    return Lowered([Kernel("cumsum", (0,), grid, defines)])


OPS: dict[str, Registration] = {
    "ARG_MAX": op(
        "ARG_MAX", _arg, partial(_bind_arg, largest=True), versions=(1, 3), lower=_lower_arg
    ),
    "ARG_MIN": op(
        "ARG_MIN", _arg, partial(_bind_arg, largest=False), versions=(1, 3), lower=_lower_arg
    ),
    "TOPK_V2": op("TOPK_V2", _top_k, _bind_top_k, versions=(1, 3), lower=_lower_top_k),
    "CUMSUM": op("CUMSUM", _cumsum, in_float32(_bind_cumsum), lower=_lower_cumsum),
}
