"""What elementwise ops share: steps in sequence, blocks that stay in cache, fused activations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ._quant import float_activation_range
from .api import Binding, Run
from .types import Array

# elements that stay in the inner cache through several passes
BLOCK = 1 << 15
# below this a second thread costs more than it saves
_PARALLEL = 1 << 17


def sequence(*steps: Run | None) -> Run | None:
    """One callable that runs the steps in order; None where there are none."""
    todo = [s for s in steps if s is not None]
    if len(todo) < 2:
        return todo[0] if todo else None
    if len(todo) == 2:
        first, second = todo

        def both() -> None:
            first()
            second()

        return both

    def run() -> None:
        for step in todo:
            step()

    return run


def in_blocks(
    b: Binding,
    arrays: Sequence[Array],
    make: Callable[..., Run],
    scratch: Sequence[Any] = (),
    block: int = BLOCK,
) -> Run:
    """Runs an op of several passes block by block.

    `make(*views, *scratch)` gives the callable for one block: `views` are slices of the flattened
    `arrays` (all of one size), `scratch` one working array for each dtype in `scratch`.
    """
    flat = [a.reshape(-1) for a in arrays]
    size = flat[0].size
    groups = b.threads if size >= _PARALLEL and b.threads > 1 else 1
    share = -(-size // groups)
    share = max(1, -(-share // block) * block) if size > block else max(size, 1)
    tasks: list[Run] = []
    for start in range(0, size, share):
        stop = min(start + share, size)
        work = [b.scratch((min(block, stop - start),), dtype) for dtype in scratch]
        runs = []
        for i in range(start, stop, block):
            j = min(i + block, stop)
            runs.append(make(*(f[i:j] for f in flat), *(w[: j - i] for w in work)))
        tasks.append(sequence(*runs) or _nothing)
    if not tasks:
        return _nothing
    return tasks[0] if len(tasks) == 1 else b.parallel(tasks)


def in_parts(
    b: Binding,
    x: Sequence[Array],
    y: Array,
    make: Callable[..., Run],
    scratch: Sequence[tuple[Any, int]] = (),
    block: int = BLOCK,
) -> Run:
    """`in_blocks` for operands `x` that broadcast to `y`.

    `make(*x, y, *scratch)` gives the callable for one part; a working array is given by its dtype
    and the index into (*x, y) of the array whose shape it has.
    """
    if not y.size:
        return _nothing
    arrays = [a.reshape((1,) * (y.ndim - a.ndim) + a.shape) for a in (*x, y)]
    parts = [[_part(a, index) for a in arrays] for index in _cut(y.shape, block)]
    groups = min(len(parts), b.threads) if y.size >= _PARALLEL else 1
    tasks: list[Run] = []
    for g in range(groups):
        work = [b.scratch((min(block, y.size),), dtype) for dtype, _ in scratch]
        runs = []
        for views in parts[len(parts) * g // groups : len(parts) * (g + 1) // groups]:
            like = [views[i] for _, i in scratch]
            own = [w[: v.size].reshape(v.shape) for w, v in zip(work, like, strict=True)]
            runs.append(make(*views, *own))
        tasks.append(sequence(*runs) or _nothing)
    return tasks[0] if len(tasks) == 1 else b.parallel(tasks)


def _cut(shape: Sequence[int], block: int) -> Iterator[tuple[slice, ...]]:
    """Indices of parts of at most `block` elements, which together are the whole."""
    inner = math.prod(shape[1:])
    rows = max(1, block // max(1, inner))
    for i in range(0, shape[0], rows):
        here = slice(i, min(i + rows, shape[0]))
        if inner > block:
            yield from ((here, *rest) for rest in _cut(shape[1:], block))
        else:
            yield (here,)


def _part(array: Array, index: tuple[slice, ...]) -> Array:
    """The part of an operand that belongs to that part of the output."""
    whole = slice(None)
    return array[tuple(i if n > 1 else whole for i, n in zip(index, array.shape, strict=False))]


def spread(b: Binding, arrays: Sequence[Array], make: Callable[..., Run]) -> Run:
    """`make(*arrays)`, on large arrays (all of one size) in one part for each thread."""
    size = arrays[0].size
    if size < _PARALLEL or b.threads < 2:
        return make(*arrays)
    return in_blocks(b, arrays, make, block=-(-size // b.threads))


def _nothing() -> None:
    pass


def clamp(y: Array, activation: str) -> Run | None:
    """Applies a fused activation (NONE, RELU, RELU6, RELU_N1_TO_1) to floats or plain integers.

    Complex numbers have none.
    """
    low, high = float_activation_range(activation)
    if y.dtype.kind == "c":
        return None
    return between(y, y, low, high)


def between(x: Array, y: Array, low: float, high: float) -> Run | None:
    """y = x, no less than `low` and no more than `high`; NaN stays. None if that is nothing."""
    if np.isinf(low) and np.isinf(high):
        return None if np.shares_memory(x, y) else partial(np.copyto, y, x)
    kind = np.iinfo(x.dtype) if x.dtype.kind in "iu" else np.finfo(x.dtype)
    lowest = -np.inf if x.dtype.kind == "f" else kind.min
    highest = np.inf if x.dtype.kind == "f" else kind.max
    # arrays, not scalars: numpy then converts nothing at each call
    bottom = np.array(max(low, lowest), x.dtype)
    top = np.array(min(high, highest), x.dtype)
    return partial(x.clip, bottom, top, y)
