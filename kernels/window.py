"""Reductions over windows, StableHLO's reduction and sort, whose bodies are subgraphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from ._body import Body, run_on_vectors
from ._check import INTEGERS
from ._shape import INDEX, Values, integers, known, like, one, settled, size_of
from ._widen import FLOATS, in_float32
from .api import Binding, Context, Node, NodeSpec, OpError, Registration, Run, Shape, op, take
from .types import Array, DType

_FUNCTIONS: dict[str, np.ufunc] = {
    "ADD": np.add,
    "MUL": np.multiply,
    "MINIMUM": np.minimum,
    "MAXIMUM": np.maximum,
    "ALL": np.logical_and,
    "ANY": np.logical_or,
}


def _windows(shape: Shape, window: Values, strides: Values, dilations: Values) -> Shape:
    """Number of windows along each dimension."""
    reach = [(w - 1) * d + 1 for w, d in zip(window, dilations, strict=True)]
    return tuple(
        (n - r) // s + 1 if n >= r else 0 for n, r, s in zip(shape, reach, strides, strict=True)
    )


def _offsets(
    x: Array, out: Shape, window: Values, strides: Values, dilations: Values
) -> Iterator[Array]:
    """For each place in the window, in order, the view of what lies there in all windows."""
    for place in product(*map(range, window)):
        yield x[
            tuple(
                slice(p * d, p * d + (n - 1) * s + 1, s)
                for p, d, n, s in zip(place, dilations, out, strides, strict=True)
            )
        ]


def _reduce_window(node: NodeSpec) -> list[Shape | None]:
    x, init = node.input(0), node.input(1)
    take(node, "input 0", x, *FLOATS, *INTEGERS, DType.BOOL)
    like(node, x, init, node.outputs[0])
    one(node, "init value", init)
    if node.options.reduce_function not in _FUNCTIONS:
        raise OpError(
            f"REDUCE_WINDOW with function {node.options.reduce_function}; taken: "
            f"{', '.join(_FUNCTIONS)}"
        )
    values = []
    for i, what in ((2, "window shape"), (3, "window strides"), (4, "window dilations")):
        spec = node.input(i)
        take(node, what, spec, *INDEX)
        if spec.size != x.rank:
            raise OpError(f"REDUCE_WINDOW: {spec.size} {what} for {x.name!r} of rank {x.rank}")
        values.append(known(spec))
    window, strides, dilations = values
    if window is None or strides is None or dilations is None:
        return [None]
    if min((*window, *strides, *dilations), default=1) < 1:
        raise OpError(
            "REDUCE_WINDOW takes window, strides and dilations of 1 or more; got "
            f"{list(window)}, {list(strides)}, {list(dilations)}"
        )
    return [_windows(x.shape, window, strides, dilations)]


def _bind_reduce_window(b: Binding) -> Run | None:
    x, y, init = b.xi(0), b.y[0], b.xi(1).reshape(())
    ufunc = _FUNCTIONS[b.options.reduce_function]

    def make() -> Run | None:
        parts = list(_offsets(x, y.shape, *(integers(b, i) for i in (2, 3, 4)))) if y.size else []

        def run() -> None:
            y[...] = init
            for part in parts:
                ufunc(y, part, out=y)

        return run

    return settled(b, (2, 3, 4), make)


def _halves(node: Node) -> int:
    count = len(node.inputs) // 2
    if len(node.inputs) != 2 * count or len(node.outputs) != count:
        raise OpError(
            f"{node.op} takes operands and as many init values, and gives as many results; got "
            f"{len(node.inputs)} inputs and {len(node.outputs)} outputs"
        )
    return count


def _check_operands(node: Node, body: int, context: Context) -> tuple[int, Shape]:
    """(number of operands, their shape)"""
    count, spec = _halves(node), node.spec
    shape = spec.input(0).shape
    for i in range(count):
        x, init = spec.input(i), spec.input(count + i)
        like(spec, x, init, spec.outputs[i])
        one(spec, f"init value {init.name!r}", init)
        if x.shape != shape:
            raise OpError(f"{node.op} takes operands of one shape; got {shape} and {x.shape}")
    Body(context, body, count, node.op)
    return count, shape


def _arrays(node: Node) -> list[Array]:
    return [t.array for t in node.inputs if t is not None]


def _prepare_reduce(context: Context, node: Node) -> None:
    dims = tuple(node.options.dimensions)
    count, shape = _check_operands(node, node.options.body_subgraph_index, context)
    if not all(0 <= d < len(shape) for d in dims) or len(set(dims)) != len(dims):
        raise OpError(f"STABLEHLO_REDUCE along {list(dims)} of operands of shape {list(shape)}")
    for i in range(count):
        context.resize(node.outputs[i], tuple(d for k, d in enumerate(shape) if k not in dims))


def _reduce(context: Context, node: Node) -> None:
    dims = tuple(node.options.dimensions)
    arrays, count = _arrays(node), _halves(node)
    body = Body(context, node.options.body_subgraph_index, count, node.op)
    if body.ufunc is not None:
        x, y = arrays[0], node.outputs[0].array
        init = arrays[1].reshape(-1)[0]
        body.ufunc.reduce(x, axis=dims, dtype=y.dtype, out=y, initial=init)
        return
    kept = [d for d in range(arrays[0].ndim) if d not in dims]
    leaves = [x.transpose(*sorted(dims), *kept) for x in arrays[:count]]
    rows = size_of([arrays[0].shape[d] for d in dims])
    tree = [
        x.reshape(rows, size_of([x.shape[i] for i in range(len(dims), x.ndim)])) for x in leaves
    ]
    for output, value in zip(node.outputs, _fold(body, tree, arrays[count:]), strict=True):
        output.array[...] = value.reshape(output.shape)


def _fold(body: Body, rows: list[Array], init: list[Array]) -> list[Array]:
    """All rows of each operand made one, neighbours first, as the rules of StableHLO let one."""
    width = rows[0].shape[1]
    while len(rows[0]) > 1:
        pairs = len(rows[0]) // 2
        left = [x[0 : 2 * pairs : 2] for x in rows]
        right = [x[1 : 2 * pairs : 2] for x in rows]
        joined = body(left, right) if width else [x.reshape(-1) for x in left]
        rest = [x[2 * pairs :] for x in rows]
        rows = [
            np.concatenate([j.reshape(pairs, width), r]) for j, r in zip(joined, rest, strict=True)
        ]
    first = [np.full(width, i.reshape(-1)[0], i.dtype) for i in init]
    return body(first, rows) if len(rows[0]) and width else first


def _padded_sizes(node: Node, shape: Shape) -> Shape:
    """Sizes after base dilation and padding."""
    o, rank = node.options, len(shape)
    base, pads = _or_ones(o.base_dilations, rank), _pads(node, rank)
    return tuple(
        max(0, (n - 1) * d + 1 + a + z) if n else max(0, a + z)
        for n, d, (a, z) in zip(shape, base, pads, strict=True)
    )


def _or_ones(values: Sequence[int], rank: int) -> Values:
    return tuple(values) or (1,) * rank


def _pads(node: Node, rank: int) -> list[tuple[int, int]]:
    flat = tuple(node.options.padding) or (0,) * (2 * rank)
    return list(zip(flat[::2], flat[1::2], strict=True))


def _prepare_windows(context: Context, node: Node) -> None:
    o = node.options
    count, shape = _check_operands(node, o.body_subgraph_index, context)
    rank = len(shape)
    for name in ("window_dimensions", "window_strides", "base_dilations", "window_dilations"):
        if len(o[name]) not in ((rank,) if name == "window_dimensions" else (0, rank)):
            raise OpError(f"{node.op}: {name} {list(o[name])} for operands of rank {rank}")
        if min(o[name], default=1) < 1:
            raise OpError(f"{node.op} takes {name} of 1 or more; got {list(o[name])}")
    out = _windows(_padded_sizes(node, shape), *_window_options(node, rank))
    for i in range(count):
        context.resize(node.outputs[i], out)


def _window_options(node: Node, rank: int) -> tuple[Values, Values, Values]:
    o = node.options
    strides, dilations = _or_ones(o.window_strides, rank), _or_ones(o.window_dilations, rank)
    return tuple(o.window_dimensions), strides, dilations


def _padded(node: Node, x: Array, init: Array) -> Array:
    """`x` with its elements spread by the base dilation, then padded, or cropped, with `init`."""
    base, pads = _or_ones(node.options.base_dilations, x.ndim), _pads(node, x.ndim)
    if all(d == 1 for d in base) and not any(map(any, pads)):
        return x
    spread = np.full(
        [(n - 1) * d + 1 if n else 0 for n, d in zip(x.shape, base, strict=True)], init
    )
    spread[tuple(slice(None, None, d) for d in base)] = x
    padded = np.full(_padded_sizes(node, x.shape), init, x.dtype)
    source = [
        slice(max(0, -a), n - max(0, -z)) for n, (a, z) in zip(spread.shape, pads, strict=True)
    ]
    inner = spread[tuple(source)]
    at = [slice(max(0, a), max(0, a) + n) for n, (a, _) in zip(inner.shape, pads, strict=True)]
    padded[tuple(at)] = inner
    return padded


def _reduce_windows(context: Context, node: Node) -> None:
    count, arrays = _halves(node), _arrays(node)
    body = Body(context, node.options.body_subgraph_index, count, node.op)
    operands = [
        _padded(node, x, init.reshape(-1)[0])
        for x, init in zip(arrays[:count], arrays[count:], strict=True)
    ]
    outputs = [t.array for t in node.outputs]
    for y, init in zip(outputs, arrays[count:], strict=True):
        y[...] = init.reshape(-1)[0]
    if not outputs[0].size:
        return
    options = _window_options(node, operands[0].ndim)
    views = [_offsets(x, outputs[0].shape, *options) for x in operands]
    for parts in zip(*views, strict=True):
        if body.ufunc is not None:
            body.ufunc(outputs[0], parts[0], out=outputs[0])
            continue
        for y, value in zip(outputs, body(outputs, parts), strict=True):
            y[...] = value.reshape(y.shape)


def _prepare_sort(context: Context, node: Node) -> None:
    spec, axis = node.spec, node.options.dimension
    shape = spec.input(0).shape
    for i, output in enumerate(node.outputs):
        x = spec.input(i)
        like(spec, x, spec.outputs[i])
        if x.shape != shape:
            raise OpError(f"STABLEHLO_SORT takes operands of one shape; got {shape} and {x.shape}")
        context.resize(output, shape)
    if not -len(shape) <= axis < len(shape):
        raise OpError(f"STABLEHLO_SORT along dimension {axis} of operands of shape {list(shape)}")
    comparator = context.subgraph(node.options.comparator_subgraph_index)
    given = (len(comparator.inputs), len(comparator.outputs))
    if given != (2 * len(node.inputs), 1) or len(node.outputs) != len(node.inputs):
        raise OpError(
            f"STABLEHLO_SORT of {len(node.inputs)} operands into {len(node.outputs)} has a "
            f"comparator of {given[0]} values with {given[1]} results"
        )


def _sort(context: Context, node: Node) -> None:
    """Batcher's merge exchange (Knuth, 5.2.2 M): whole vectors of pairs are compared at once."""
    comparator = context.subgraph(node.options.comparator_subgraph_index)
    axis = node.options.dimension
    arrays = [np.moveaxis(x, axis, 0) for x in _arrays(node)]
    n = arrays[0].shape[0]
    if not arrays[0].size:
        return
    rows = [x.reshape(n, -1).copy() for x in arrays]
    # the place at the start decides between equals, which makes the sort stable
    place = np.broadcast_to(np.arange(n)[:, None], rows[0].shape).copy()

    def before(a: Array, z: Array) -> Array:
        pairs = [v for x in rows for v in (x[a], x[z])]
        return run_on_vectors(comparator, pairs)[0].reshape(len(a), -1)

    for a, z in _exchanges(n):
        tie = ~before(a, z) & (place[z] < place[a])
        swap = before(z, a) | tie
        for x in (*rows, place):
            low, high = np.where(swap, x[z], x[a]), np.where(swap, x[a], x[z])
            x[a], x[z] = low, high
    for output, x, like_it in zip(node.outputs, rows, arrays, strict=True):
        output.array[...] = np.moveaxis(x.reshape(like_it.shape), 0, axis)


def _exchanges(n: int) -> Iterator[tuple[Array, Array]]:
    """Rounds of disjoint pairs (i, j), i < j, to compare and exchange."""
    top = 1 << max(0, (n - 1).bit_length() - 1)
    p = top if n > 1 else 0
    while p:
        q, r, d = top, 0, p
        while True:
            i = np.arange(max(0, n - d))
            i = i[(i & p) == r]
            yield i, i + d
            if q == p:
                break
            d, q, r = q - p, q >> 1, p
        p >>= 1


OPS: dict[str, Registration] = {
    "REDUCE_WINDOW": op("REDUCE_WINDOW", _reduce_window, in_float32(_bind_reduce_window)),
    "STABLEHLO_REDUCE": Registration(
        name="STABLEHLO_REDUCE", prepare=_prepare_reduce, invoke=_reduce
    ),
    "STABLEHLO_REDUCE_WINDOW": Registration(
        name="STABLEHLO_REDUCE_WINDOW", prepare=_prepare_windows, invoke=_reduce_windows
    ),
    "STABLEHLO_SORT": Registration(name="STABLEHLO_SORT", prepare=_prepare_sort, invoke=_sort),
}
