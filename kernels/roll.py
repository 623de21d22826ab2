"""Roll: moves elements along axes; what leaves at one end comes back at the other."""

from __future__ import annotations

import itertools

import numpy as np

from ._lower import check, indices, values
from ._rows_lower import separable
from .api import Binding, NodeSpec, OpError, Run, Shape, op, require, take
from .device import Capability, Lowered
from .types import Array, DType

_TYPES = tuple(d for d in DType if d not in (DType.RESOURCE, DType.VARIANT))


def _infer(node: NodeSpec) -> list[Shape]:
    x, shift, axis = (node.input(i) for i in range(3))
    take(node, "input 0", x, *_TYPES)
    take(node, "output", node.outputs[0], x.dtype)
    for i, spec in ((1, shift), (2, axis)):
        take(node, f"input {i}", spec, DType.INT32, DType.INT64)
        require(spec.rank <= 1, f"input {i} is {spec}; taken: rank 0 or 1")
    require(shift.size == axis.size, f"{shift.size} shifts for {axis.size} axes")
    if axis.const is not None:
        _axes(axis.const, x.rank)
    return [x.shape]


def _axes(axis: Array, rank: int) -> list[int]:
    axes = [int(a) for a in axis.reshape(-1)]
    for a in axes:
        if not -rank <= a < rank:
            raise OpError(f"Invalid axis {a} for a tensor of rank {rank}")
    return [a % rank for a in axes]


def _bind(b: Binding) -> Run | None:
    x, y = b.xi(0), b.y[0]
    if y.size == 0:
        return None

    def copies() -> list[tuple[Array, Array]]:
        """Blocks of y and the blocks of x that go there."""
        shifts = [0] * x.ndim
        for axis, shift in zip(_axes(b.xi(2), x.ndim), b.xi(1).reshape(-1), strict=True):
            shifts[axis] += int(shift)
        ways = []
        for size, shift in zip(x.shape, shifts, strict=True):
            s = shift % size
            both = [(slice(s, None), slice(0, size - s)), (slice(0, s), slice(size - s, None))]
            ways.append(both if s else both[:1])
        pairs = [tuple(zip(*way, strict=True)) or ((), ()) for way in itertools.product(*ways)]
        return [(y[to], x[come]) for to, come in pairs]

    fixed = copies() if all(b.input(i).const is not None for i in (1, 2)) else None

    def run() -> None:
        for target, source in fixed if fixed is not None else copies():
            np.copyto(target, source)

    return run


def _lower(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x = node.input(0)
    places = [np.arange(d) for d in x.shape]
    for axis, shift in zip(
        _axes(values(node.input(2)), x.rank), indices(node.input(1)), strict=True
    ):
        places[axis] = np.roll(places[axis], shift)
    return Lowered([separable(capability, [p.tolist() for p in places], x.shape)])


OPS = {"Roll": op("Roll", _infer, _bind, custom=True, lower=_lower)}
