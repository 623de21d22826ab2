"""Ops that repeat a tensor."""

from __future__ import annotations

import numpy as np

from ._lower import check, moved, refuse
from ._shape import INDEX, Values, copy, integers, known, like, rank_is
from .api import Binding, NodeSpec, OpError, Registration, Run, Shape, TensorSpec, op, take
from .device import Capability, Lowered
from .types import Array


def _tile(node: NodeSpec) -> list[Shape | None]:
    x, times = node.input(0), node.input(1)
    like(node, x, node.outputs[0])
    take(node, "multipliers", times, *INDEX)
    if times.size != x.rank:
        raise OpError(
            f"TILE takes a multiplier for each dimension of {x.name!r}, shape {list(x.shape)}; "
            f"got {times.size}"
        )
    values = known(times)
    if values is None:
        return [None]
    if min(values, default=0) < 0:
        raise OpError(f"Multipliers must be non-negative: TILE got {list(values)}")
    return [tuple(d * n for d, n in zip(x.shape, values, strict=True))]


def _bind_tile(b: Binding) -> Run | None:
    x, y = b.xi(0), b.y[0]
    if not y.size:
        return None
    # y as [m0, d0, m1, d1, ...], over which x broadcasts
    pairs = [n for size, d in zip(y.shape, x.shape, strict=True) for n in (size // d, d)]
    return copy(y.reshape(pairs), x.reshape([n for d in x.shape for n in (1, d)]))


def _lower_tile(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, y = node.input(0).shape, node.outputs[0].shape
    if not node.outputs[0].size:
        refuse("SHAPE", f"{node.outputs[0]}, of no elements", "one or more")
    pairs = [n for size, d in zip(y, x, strict=True) for n in (size // d, d)]
    ones = [n for d in x for n in (1, d)]
    return Lowered([moved(x, lambda a: np.broadcast_to(a.reshape(ones), pairs))])


def _broadcast(node: NodeSpec | Binding, x: TensorSpec, shape: Shape) -> Shape:
    lead = len(shape) - x.rank
    if lead < 0 or any(d not in (1, shape[lead + i]) for i, d in enumerate(x.shape)):
        raise OpError(
            "Output shape must be broadcastable from input shape: "
            f"{node.op} got {x.name!r}, shape {list(x.shape)}, and {list(shape)}"
        )
    return shape


def _broadcast_to(node: NodeSpec) -> list[Shape | None]:
    x, shape = node.input(0), node.input(1)
    like(node, x, node.outputs[0])
    take(node, "shape", shape, *INDEX)
    rank_is(node, "shape", shape, 1)
    values = known(shape)
    return [None if values is None else _broadcast(node, x, values)]


def _bind_broadcast_to(b: Binding) -> Run | None:
    return copy(b.y[0], b.xi(0))


def _lower_broadcast_to(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    shape = node.outputs[0].shape
    return Lowered([moved(node.input(0).shape, lambda a: np.broadcast_to(a, shape))])


def _broadcast_args(node: NodeSpec) -> list[Shape | None]:
    a, z = node.input(0), node.input(1)
    like(node, a, z, node.outputs[0])
    for what, spec in (("shape 1", a), ("shape 2", z)):
        take(node, what, spec, *INDEX)
        rank_is(node, what, spec, 1)
    return [(max(a.size, z.size),)]


def _bind_broadcast_args(b: Binding) -> Run | None:
    y = b.y[0]

    def run() -> None:
        y[...] = _common(integers(b, 0), integers(b, 1), y.size)

    return run


def _common(a: Values, z: Values, rank: int) -> Values:
    """The shape both broadcast to."""
    long_a, long_z = (1,) * (rank - len(a)) + a, (1,) * (rank - len(z)) + z
    if any(m != n and 1 not in (m, n) for m, n in zip(long_a, long_z, strict=True)):
        raise OpError(f"BROADCAST_ARGS: {list(a)} and {list(z)} do not broadcast together")
    return tuple(n if m == 1 else m for m, n in zip(long_a, long_z, strict=True))


def _placed(node: NodeSpec | Binding, x: TensorSpec, y: Shape) -> Shape:
    """Shape of `x` with its dimensions at their places in the result, 1 elsewhere."""
    dims = tuple(node.options.broadcast_dimensions)
    if len(dims) != x.rank or not all(0 <= d < len(y) for d in dims):
        raise OpError(
            f"STABLEHLO_BROADCAST_IN_DIM: broadcast_dimensions {list(dims)} for {x.name!r}, "
            f"shape {list(x.shape)}, into {list(y)}"
        )
    shape = [1] * len(y)
    for d, size in zip(dims, x.shape, strict=True):
        shape[d] = size
    return tuple(shape)


def _broadcast_in_dim(node: NodeSpec) -> list[Shape | None]:
    x, y = node.input(0), node.outputs[0]
    like(node, x, y)
    for size, whole in zip(_placed(node, x, y.shape), y.shape, strict=True):
        if size not in (1, whole):
            _broadcast(node, x, y.shape)
    return [y.shape]


def _bind_broadcast_in_dim(b: Binding) -> Run | None:
    x, y = b.xi(0), b.y[0]
    order = np.argsort(np.array(b.options.broadcast_dimensions, np.intp))
    return copy(y, x.transpose(order).reshape(_placed(b, b.input(0), y.shape)))


def _lower_broadcast_in_dim(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, y = node.input(0), node.outputs[0].shape
    dims = node.options.broadcast_dimensions
    order = np.argsort(np.array(dims, np.intp))
    spread = tuple(slice(None) if d in dims else None for d in range(len(y)))

    def move(a: Array) -> Array:
        return np.broadcast_to(a.transpose(order)[spread], y)

    return Lowered([moved(x.shape, move)])


OPS: dict[str, Registration] = {
    "TILE": op("TILE", _tile, _bind_tile, versions=(1, 3), lower=_lower_tile),
    # version 1 was withdrawn
    "BROADCAST_TO": op(
        "BROADCAST_TO",
        _broadcast_to,
        _bind_broadcast_to,
        versions=(2, 4),
        lower=_lower_broadcast_to,
    ),
    "BROADCAST_ARGS": op("BROADCAST_ARGS", _broadcast_args, _bind_broadcast_args),
    "STABLEHLO_BROADCAST_IN_DIM": op(
        "STABLEHLO_BROADCAST_IN_DIM",
        _broadcast_in_dim,
        _bind_broadcast_in_dim,
        lower=_lower_broadcast_in_dim,
    ),
}
