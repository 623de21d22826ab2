"""SCATTER_ND and the StableHLO scatter."""

from __future__ import annotations

import numpy as np

from ._body import Body
from ._check import COMPLEX, INTEGERS
from ._lower import check
from ._places import Places, batch_starts, strides_of, window_offsets
from ._rows_lower import combining, in_float32_scratch, scattered
from ._shape import INDEX, in_range, known, like, rank_is, size_of
from ._widen import FLOATS, in_float32
from .api import Binding, Context, Node, NodeSpec, OpError, Registration, Run, Shape, op, take
from .device import Capability, Lowered
from .types import Array, DType


def _scatter_nd(node: NodeSpec) -> list[Shape | None]:
    indices, updates, shape = node.input(0), node.input(1), node.input(2)
    like(node, updates, node.outputs[0])
    take(node, "indices", indices, *INDEX)
    take(node, "shape", shape, *INDEX)
    take(node, "updates", updates, *FLOATS, *INTEGERS, *COMPLEX, DType.BOOL)
    rank_is(node, "shape", shape, 1)
    values = known(shape)
    if values is None:
        return [None]
    depth = indices.shape[-1] if indices.rank else 0
    if not indices.rank or updates.shape != indices.shape[:-1] + values[depth:]:
        raise OpError(
            f"SCATTER_ND: indices {list(indices.shape)} and updates {list(updates.shape)} do not "
            f"fit the shape {list(values)}"
        )
    return [values]


def _bind_scatter_nd(b: Binding) -> Run | None:
    indices, updates, y = b.xi(0), b.xi(1), b.y[0]
    depth = indices.shape[-1]
    points = indices.reshape(size_of(indices.shape[:-1]), depth)
    limits = np.array(y.shape[:depth], np.int64)
    strides = strides_of(y.shape[:depth])
    inner = size_of(y.shape[depth:])
    out = y.reshape(size_of(y.shape[:depth]), inner)
    rows = updates.reshape(len(points), inner)
    wide, flag = b.scratch(points.shape, np.int64), b.scratch(points.shape, np.bool_)
    row = b.scratch((len(points),), np.int64)
    # values that meet in one place are added, bools by "or"
    add = np.logical_or if y.dtype == np.bool_ else np.add

    def run() -> None:
        y.fill(0)
        wide[...] = points
        if not in_range(wide, limits, flag):
            bad = points[flag.any(axis=1)][0].tolist()
            raise OpError(f"scatter_nd index out of bounds: {bad} in the shape {list(y.shape)}")
        np.matmul(wide, strides, out=row)
        add.at(out, row, rows)

    return run


def _lower_scatter_nd(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    points, y = node.input(0), node.outputs[0]
    depth = points.shape[-1]
    inner = size_of(y.shape[depth:])
    lines = []
    for d in range(depth):
        stride, size = size_of(y.shape[d + 1 : depth]), y.shape[d]
        lines.append(
            f"const i64 at{d} = LOAD1(r * {depth} + {d}); to += (i32)at{d} * {stride}; "
            f"if (at{d} < 0 || at{d} >= {size}) {{ FAULT0; continue; }}"
        )
    fault = f"scatter_nd index out of bounds: a row of {points.name!r} in the shape {list(y.shape)}"
    combine = "(a) || (v)" if y.dtype is DType.BOOL else "(a) + (v)"
    put = scattered(
        capability,
        size_of(points.shape[:-1]),
        inner,
        size_of(y.shape[:depth]),
        " ".join(lines),
        combining(combine, y.dtype),
        (1, 0),
        [fault],
    )
    return in_float32_scratch(node, "0", put)


def _places(options: object) -> Places:
    o = vars(options)
    return Places(
        tuple(o["update_window_dims"]),
        tuple(o["inserted_window_dims"]),
        tuple(o["scatter_dims_to_operand_dims"]),
        o["index_vector_dim"],
    )


def _prepare_scatter(context: Context, node: Node) -> None:
    spec = node.spec
    x, indices, updates = spec.input(0), spec.input(1), spec.input(2)
    take(spec, "scatter_indices", indices, *INDEX)
    like(spec, x, updates, *spec.outputs)
    places = _places(node.options)
    places.check(spec, x, indices)
    batch = places.batch_shape(indices.shape)
    window = tuple(d for i, d in enumerate(updates.shape) if i in places.window_dims)
    if updates.shape != places.shape(batch, window):
        raise OpError(
            f"STABLEHLO_SCATTER: updates of shape {list(updates.shape)} do not fit indices of "
            f"shape {list(indices.shape)} with {places}"
        )
    Body(context, node.options.update_computation_subgraph_index, 1, node.op)
    context.resize(node.outputs[0], x.shape)


def _scatter(context: Context, node: Node) -> None:
    x, indices, updates = (t.array for t in node.inputs if t is not None)
    y = node.outputs[0].array
    y[...] = x
    if not updates.size or not y.size:
        return
    places = _places(node.options)
    sizes = _window_sizes(places, x.shape, updates.shape)
    start = batch_starts(places, indices, x.ndim)
    spread = places.spread(places.batch_shape(indices.shape), updates.ndim)
    flat = (start @ strides_of(x.shape)).reshape(spread)
    flat = flat + window_offsets(places, x.shape, sizes, updates.ndim)
    inside = _inside(places, start, spread, x.shape, sizes, updates.ndim)
    # what falls outside is dropped
    body = Body(context, node.options.update_computation_subgraph_index, 1, node.op)
    _combine(body, y.reshape(-1), flat[inside], updates[inside])


def _window_sizes(places: Places, operand: Shape, updates: Shape) -> Shape:
    """Size of the window along each dimension of the operand."""
    window = iter(updates[d] for d in places.window_dims)
    return tuple(1 if d in places.inserted else next(window) for d in range(len(operand)))


def _inside(
    places: Places, start: Array, spread: Shape, operand: Shape, sizes: Shape, rank: int
) -> Array:
    """For each update whether its place is inside the operand."""
    inside = np.ones((), np.bool_)
    window = iter(places.window_dims)
    for d, limit in enumerate(operand):
        at = start[:, d].reshape(spread)
        if d not in places.inserted:
            shape = [1] * rank
            shape[next(window)] = sizes[d]
            at = at + np.arange(sizes[d]).reshape(shape)
        inside = inside & (at >= 0) & (at < limit)
    return np.asarray(inside)


def _combine(body: Body, out: Array, index: Array, values: Array) -> None:
    """out[i] = body(out[i], value) for each pair, in order."""
    if body.ufunc is not None:
        body.ufunc.at(out, index, values)
    elif body.gives is not None:
        if body.gives == 1:
            out[index] = values
    else:
        # first all first visits of a place, then all second ones ...
        order = np.argsort(index, kind="stable")
        places, first, counts = np.unique(index[order], return_index=True, return_counts=True)
        for visit in range(int(counts.max(initial=0))):
            now = order[first[counts > visit] + visit]
            at = places[counts > visit]
            out[at] = body([out[at]], [values[now]])[0]


OPS: dict[str, Registration] = {
    "SCATTER_ND": op(
        "SCATTER_ND", _scatter_nd, in_float32(_bind_scatter_nd), lower=_lower_scatter_nd
    ),
    "STABLEHLO_SCATTER": Registration(
        name="STABLEHLO_SCATTER", prepare=_prepare_scatter, invoke=_scatter
    ),
}
