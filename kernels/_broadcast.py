"""Right-aligned broadcasting of operands of any rank, laid out so that numpy's loops are long."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .api import Binding, NodeSpec, OpError, Run, Shape, TensorSpec
from .types import Array

# elements of a constant operand that is repeated to make inner loops long
_BLOCK = 4096


def broadcast_shape(node: NodeSpec, *specs: TensorSpec) -> Shape:
    """Common shape of the operands; OpError where they have none."""
    try:
        shape = np.broadcast_shapes(*(s.shape for s in specs))
    except ValueError:
        given = " and ".join(str(list(s.shape)) for s in specs)
        raise OpError(
            f"Given shapes, {given}, are not broadcastable: from the right, the dimensions of the "
            f"inputs of {node.op} must be equal or 1"
        ) from None
    return tuple(int(d) for d in shape)


def collapse(shape: Shape, *arrays: Array) -> tuple[list[Array], Shape]:
    """Views of contiguous `arrays` and the shape of their broadcast, in the fewest dimensions.

    `shape` is what the arrays broadcast to. Neighbouring dimensions in which each array is either
    whole or repeated become one.
    """
    rank = len(shape)
    padded = [(1,) * (rank - a.ndim) + a.shape for a in arrays]
    merged: list[list[int]] = []
    result: list[int] = []
    previous: list[bool] | None = None
    for i, size in enumerate(shape):
        if size == 1:
            continue
        whole = [p[i] == size for p in padded]
        if whole == previous:
            result[-1] *= size
            for m, w in zip(merged, whole, strict=True):
                m[-1] *= size if w else 1
        else:
            result.append(size)
            for j, w in enumerate(whole):
                if len(merged) <= j:
                    merged.append([])
                merged[j].append(size if w else 1)
            previous = whole
    if not result:
        result, merged = [1], [[1] for _ in arrays]
    return [a.reshape(m) for a, m in zip(arrays, merged, strict=True)], tuple(result)


def operands(
    shape: Shape, arrays: list[Array], constant: list[bool], y: Array, repeat_scalars: bool = False
) -> tuple[list[Array], Array]:
    """Views of the two `arrays` and of the output `y` for one ufunc call.

    A constant that would be repeated in short runs is written out to longer ones. With
    `repeat_scalars` single values are, too: some ufuncs (maximum, fmax) are slow with a scalar.
    """
    if all(a.shape == shape for a in arrays):
        return [a.reshape(-1) for a in arrays], y.reshape(-1)
    views, flat = collapse(shape, *arrays)
    for i, view in enumerate(views):
        if not constant[i] or math.prod(flat) == 0:
            continue
        other = views[1 - i]
        if view.size == 1 and repeat_scalars and other.shape == flat:
            run = _run_length(math.prod(flat), 1)
            flat = (math.prod(flat) // run, run)
            views[i] = np.full(run, view.reshape(-1)[0], view.dtype)
            views[1 - i] = other.reshape(flat)
        elif len(flat) == 2 and view.shape == (1, flat[1]) and other.shape == flat:
            run = _run_length(flat[0], flat[1])
            flat = (flat[0] // run, run * flat[1])
            views[i] = np.tile(view.reshape(-1), run)
            views[1 - i] = other.reshape(flat)
    return views, y.reshape(flat)


def bind_ufunc(b: Binding, ufunc: Callable[..., Any]) -> Run:
    """The call `ufunc(input 0, input 1, out=output 0)`, with broadcasting."""
    constant = [b.input(i).const is not None for i in (0, 1)]
    (x0, x1), y = operands(b.y[0].shape, [b.xi(0), b.xi(1)], constant, b.y[0])
    return partial(ufunc, x0, x1, out=y)


def _run_length(count: int, size: int) -> int:
    """Greatest divisor of `count` that, times `size`, stays in a block; `count` if all is small."""
    if count * size <= 2 * _BLOCK:
        return count
    limit = max(1, _BLOCK // size)
    return next(d for d in range(limit, 0, -1) if count % d == 0)
