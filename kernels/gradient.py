"""BroadcastGradientArgs: the axes over which the gradients of broadcast operands are summed."""

from __future__ import annotations

from .api import Binding, NodeSpec, OpError, Run, Shape, op, require, take
from .types import Array, DType

NAME = "BroadcastGradientArgs"
Axes = tuple[list[int], list[int]]


def _axes(first: Array, second: Array) -> Axes:
    """For each of two shapes, the axes of their broadcast where it was stretched, or both are 1."""
    shapes = [[int(d) for d in shape] for shape in (first, second)]
    if shapes[0] == shapes[1]:
        return [], []
    rank = max(map(len, shapes))
    a, b = ([1] * (rank - len(shape)) + shape for shape in shapes)
    for x, y in zip(a, b, strict=True):
        if x != y and 1 not in (x, y):
            raise OpError(f"the shapes {shapes[0]} and {shapes[1]} do not broadcast")
    return [i for i in range(rank) if a[i] == 1], [i for i in range(rank) if b[i] == 1]


def _infer(node: NodeSpec) -> list[Shape | None]:
    first, second = node.input(0), node.input(1)
    take(node, "input 0", first, DType.INT32, DType.INT64)
    take(node, "input 1", second, first.dtype)
    for i, out in enumerate(node.outputs):
        take(node, f"output {i}", out, first.dtype)
    for i, spec in ((0, first), (1, second)):
        require(spec.rank == 1, f"input {i} is {spec}; taken: a shape")
    if first.const is None or second.const is None:
        return [None, None]
    return [(len(axes),) for axes in _axes(first.const, second.const)]


def _bind(b: Binding) -> Run:
    def run() -> None:
        for y, axes in zip(b.y, _axes(b.xi(0), b.xi(1)), strict=True):
            y[...] = axes

    return run


OPS = {NAME: op(NAME, _infer, _bind, custom=True)}
