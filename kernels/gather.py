"""GATHER, GATHER_ND and the StableHLO gather."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ._lower import check
from ._places import Places, batch_starts, strides_of, window_offsets
from ._rows_lower import coordinates, dot, rows
from ._shape import (
    INDEX,
    axis_of,
    failing,
    in_range,
    like,
    size_of,
)
from .api import Binding, NodeSpec, OpError, Registration, Run, Shape, TensorSpec, op, take
from .device import Capability, Lowered
from .types import Array, DType


def _batch_dims(node: NodeSpec | Binding) -> tuple[int, int]:
    """(axis, batch_dims), both counted from the front."""
    x, positions, o = node.input(0), node.input(1), node.options
    axis = axis_of(node, o.axis, x.rank)
    batch = o.batch_dims + positions.rank if o.batch_dims < 0 else o.batch_dims
    if not 0 <= batch <= min(axis, positions.rank) or x.shape[:batch] != positions.shape[:batch]:
        raise OpError(
            f"GATHER with batch_dims {o.batch_dims}, axis {o.axis}: {x.name!r} has shape "
            f"{list(x.shape)}, {positions.name!r} {list(positions.shape)}; the batch dimensions "
            "must agree and lie before the axis"
        )
    return axis, batch


def _gather(node: NodeSpec) -> list[Shape | None]:
    x, positions = node.input(0), node.input(1)
    like(node, x, node.outputs[0])
    take(node, "positions", positions, *INDEX, DType.INT16)
    axis, batch = _batch_dims(node)
    return [x.shape[:axis] + positions.shape[batch:] + x.shape[axis + 1 :]]


def _checked(
    b: Binding, index: Array, limits: Array, refuse: Callable[[Array], OpError]
) -> tuple[Array, Run | None]:
    """Input 1 as int64 in the shape of `index`, and what brings it up to date at each call.

    `index` is a view of the input. An index outside of 0 .. `limits` - 1 (which broadcast) raises
    `refuse(flags)`, at invoke even where the input is constant, as in TensorFlow Lite.
    """
    wide, flag = b.scratch(index.shape, np.int64), b.scratch(index.shape, np.bool_)
    if b.input(1).const is not None:
        wide, flag = index.astype(np.int64), np.empty(index.shape, np.bool_)
        if in_range(wide, limits, flag):
            return wide, None

    def refresh() -> None:
        wide[...] = index
        if not in_range(wide, limits, flag):
            raise refuse(flag)

    return wide, refresh


def _out_of_bounds(axis: int, x: TensorSpec, bad: str) -> str:
    return (
        f"gather index out of bounds: {bad} for dimension {axis} of {x.name!r}, shape "
        f"{list(x.shape)}; taken: 0 to {x.shape[axis] - 1}"
    )


def _bind_gather(b: Binding) -> Run | None:
    x, positions, y = b.xi(0), b.xi(1), b.y[0]
    axis, batch = _batch_dims(b)
    limit = x.shape[axis]

    def refuse(flag: Array) -> OpError:
        bad = positions.reshape(flag.shape)[flag].reshape(-1)[0]
        return OpError(_out_of_bounds(axis, b.input(0), str(bad)))

    if batch == 0 and positions.size == 1:
        slices = np.moveaxis(x, axis, 0)
        target = y.reshape(slices.shape[1:])
        position = positions.item

        def run_one() -> None:
            at = position()
            if not 0 <= at < limit:
                raise refuse(np.ones(positions.shape, np.bool_))
            target[...] = slices[at]

        return run_one
    if batch == 0:
        wide, refresh = _checked(b, positions, np.asarray(limit), refuse)

        def run() -> None:
            if refresh is not None:
                refresh()
            x.take(wide, axis, y, "clip")

        return run
    # rows of x, counted over batch and the dimensions between batch and axis
    batches, between = size_of(x.shape[:batch]), size_of(x.shape[batch:axis])
    each, inner = size_of(positions.shape[batch:]), size_of(x.shape[axis + 1 :])
    wide, refresh = _checked(b, positions.reshape(batches, 1, each), np.asarray(limit), refuse)
    base = np.arange(batches * between).reshape(batches, between, 1) * limit
    row = b.scratch((batches, between, each), np.int64)
    rows = x.reshape(batches * between * limit, inner)
    out = y.reshape(*row.shape, inner)

    def run_batches() -> None:
        if refresh is not None:
            refresh()
        np.add(base, wide, out=row)
        rows.take(row, 0, out, "clip")

    return run_batches


def _lower_gather(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, positions = node.input(0), node.input(1)
    axis, batch = _batch_dims(node)
    each, between = size_of(positions.shape[batch:]), size_of(x.shape[batch:axis])
    inner = size_of(x.shape[axis + 1 :])
    limit, outer = x.shape[axis], size_of(x.shape[:axis])
    index = "i64" if positions.dtype is DType.INT64 else "i32"
    place = (
        f"const {index} at = LOAD1(r / {max(each * between, 1)} * {each} + r % {max(each, 1)}); "
        f"const i32 outside = (at < 0) | (at >= {limit}); bad |= outside; "
        f"from = outside ? 0 : (r / {max(each, 1)} * {limit} + (i32)at) * {inner};"
    )
    fault = _out_of_bounds(axis, x, f"an index in {positions.name!r}")
    return Lowered([rows(capability, outer * each, inner, place, (0, 1), [fault])])


def _gather_nd(node: NodeSpec) -> list[Shape | None]:
    x, indices = node.input(0), node.input(1)
    like(node, x, node.outputs[0])
    take(node, "indices", indices, *INDEX, DType.INT16)
    if not x.rank or not indices.rank:
        raise OpError("GATHER_ND: params and indices must be at least a vector")
    depth = indices.shape[-1]
    if depth > x.rank:
        raise OpError(
            f"Index innermost dimension length must be in [0, params rank]: GATHER_ND got {depth} "
            f"for {x.name!r}, shape {list(x.shape)}"
        )
    return [indices.shape[:-1] + x.shape[depth:]]


def _bind_gather_nd(b: Binding) -> Run | None:
    x, indices, y = b.xi(0), b.xi(1), b.y[0]
    depth = indices.shape[-1]
    if y.size == 0:
        return None
    if x.size == 0:
        return failing(f"GATHER_ND from the empty tensor {b.input(0).name!r}")
    limits = np.array(x.shape[:depth], np.int64)
    points = indices.reshape(size_of(indices.shape[:-1]), depth)

    def refuse(flag: Array) -> OpError:
        bad = points[flag.any(axis=1)][0].tolist()
        return OpError(
            f"gather_nd index out of bounds: {bad} in {b.input(0).name!r}, shape {list(x.shape)}"
        )

    wide, refresh = _checked(b, points, limits, refuse)
    strides = np.array([size_of(x.shape[i + 1 : depth]) for i in range(depth)], np.int64)
    row = wide @ strides if refresh is None else b.scratch((len(points),), np.int64)
    inner = size_of(x.shape[depth:])
    rows, out = x.reshape(-1, inner), y.reshape(-1, inner)

    def run() -> None:
        if refresh is not None:
            refresh()
            np.matmul(wide, strides, out=row)
        rows.take(row, 0, out, "clip")

    return run


def _lower_gather_nd(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, points = node.input(0), node.input(1)
    depth = points.shape[-1]
    inner = size_of(x.shape[depth:])
    lines = ["from = 0;"]
    for d in range(depth):
        stride = size_of(x.shape[d + 1 :])
        lines.append(f"const i64 at{d} = LOAD1(r * {depth} + {d}); from += (i32)at{d} * {stride};")
    outside = [f"at{d} < 0 || at{d} >= {x.shape[d]}" for d in range(depth)]
    faults = []
    if outside:
        lines.append(f"if ({' || '.join(outside)}) {{ bad = 1; from = 0; }}")
        faults.append(
            f"gather_nd index out of bounds: a row of {points.name!r} in {x.name!r}, shape "
            f"{list(x.shape)}"
        )
    count = size_of(points.shape[:-1])
    return Lowered([rows(capability, count, inner, " ".join(lines), (0, 1), faults)])


def _places(node: NodeSpec | Binding) -> Places:
    o = node.options
    return Places(
        tuple(o.offset_dims),
        tuple(o.collapsed_slice_dims),
        tuple(o.start_index_map),
        o.index_vector_dim,
    )


def _stablehlo_gather(node: NodeSpec) -> list[Shape | None]:
    x, starts, sizes = node.input(0), node.input(1), tuple(node.options.slice_sizes)
    like(node, x, node.outputs[0])
    take(node, "start_indices", starts, *INDEX)
    places = _places(node)
    places.check(node, x, starts)
    if len(sizes) != x.rank or any(not 0 <= n <= d for n, d in zip(sizes, x.shape, strict=True)):
        raise OpError(
            f"STABLEHLO_GATHER: slice_sizes {list(sizes)} for {x.name!r}, shape {list(x.shape)}"
        )
    if any(sizes[d] != 1 for d in places.inserted):
        raise OpError(f"STABLEHLO_GATHER: collapsed dimensions of {list(sizes)} must be 1")
    window = tuple(n for d, n in enumerate(sizes) if d not in places.inserted)
    return [places.shape(places.batch_shape(starts.shape), window)]


def _bind_stablehlo_gather(b: Binding) -> Run | None:
    x, starts, y = b.xi(0), b.xi(1), b.y[0]
    if not y.size or not x.size:
        return None
    places, sizes = _places(b), np.array(b.options.slice_sizes, np.int64)
    last = np.array(x.shape, np.int64) - sizes
    window = window_offsets(places, x.shape, tuple(sizes.tolist()), y.ndim)
    batch = places.batch_shape(starts.shape)
    flat = b.scratch(y.shape, np.int64)
    elements = x.reshape(-1)

    def run() -> None:
        # a start is moved so that the whole window lies inside
        start = batch_starts(places, starts, x.ndim)
        np.clip(start, 0, last, out=start)
        base = start @ strides_of(x.shape)
        np.add(base.reshape(places.spread(batch, y.ndim)), window, out=flat)
        elements.take(flat, None, y, "clip")

    return run


def _lower_stablehlo_gather(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, starts, y = node.input(0), node.input(1), node.outputs[0]
    places, sizes = _places(node), tuple(node.options.slice_sizes)
    at = coordinates("r", y.shape)
    batch = [at[d] for d in range(y.rank) if d not in places.window_dims]
    # the start is vector `batch` of the indices
    vector = strides_of(starts.shape).tolist() if starts.rank else []
    step = vector.pop(places.index_vector_dim) if places.index_vector_dim < starts.rank else 0
    lines = [f"const i32 start = {dot(batch, vector)}; from = 0;"]
    strides = strides_of(x.shape).tolist()
    for k, d in enumerate(places.index_map):
        last = x.shape[d] - sizes[d]
        lines.append(
            f"from += (i32)at_least_i64(at_most_i64((i64)LOAD1(start + {k * step}), {last}), 0) "
            f"* {strides[d]};"
        )
    window = [d for d in range(x.rank) if d not in places.inserted]
    inside = dot([at[d] for d in places.window_dims], [strides[d] for d in window])
    lines.append(f"from += {inside};")
    kernel = rows(capability, y.size, 1, " ".join(lines), (0, 1), uses=("arithmetic",))
    return Lowered([kernel])


OPS: dict[str, Registration] = {
    "GATHER": op("GATHER", _gather, _bind_gather, versions=(1, 8), lower=_lower_gather),
    "GATHER_ND": op(
        "GATHER_ND", _gather_nd, _bind_gather_nd, versions=(1, 6), lower=_lower_gather_nd
    ),
    "STABLEHLO_GATHER": op(
        "STABLEHLO_GATHER",
        _stablehlo_gather,
        _bind_stablehlo_gather,
        lower=_lower_stablehlo_gather,
    ),
}
