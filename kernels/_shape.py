"""What the shape-bound families share: values of index tensors, axes, checks, settled copies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .api import Binding, NodeSpec, OpError, Run, Shape, TensorSpec
from .types import Array, DType

Values = tuple[int, ...]

# bytes from which on a copy is worth the preparation, and of a row that is long enough by itself
_WORTH_BLOCKS, _LONG_ROW = 1 << 11, 1 << 12

INDEX = (DType.INT32, DType.INT64)


def known(spec: TensorSpec) -> Values | None:
    """The elements of an integer tensor, flattened; None where its value is not known (yet)."""
    if spec.size == 0:
        return ()
    if spec.const is None:
        return None
    return tuple(int(v) for v in spec.const.reshape(-1))


def axis_of(node: NodeSpec | Binding, axis: int, rank: int) -> int:
    """`axis` counted from the front; OpError where a tensor of that rank does not have it."""
    if not -rank <= axis < rank:
        span = f"taken: {-rank} to {rank - 1}" if rank else "a scalar has none"
        raise OpError(
            f"Invalid axis: {node.op} got axis {axis} for a tensor of rank {rank}; {span}"
        )
    return axis % rank


def scalar_axis(node: NodeSpec, i: int, rank: int) -> int | None:
    """The axis that input `i`, one integer, holds; None where its value is not known (yet)."""
    spec = node.input(i)
    one(node, f"axis {spec.name!r}", spec)
    values = known(spec)
    return None if values is None else axis_of(node, values[0], rank)


def one(node: NodeSpec, what: str, spec: TensorSpec) -> None:
    """Checks that a tensor has one element."""
    if spec.size != 1:
        raise OpError(f"{node.op} takes one element as {what}; got shape {list(spec.shape)}")


def rank_is(node: NodeSpec, what: str, spec: TensorSpec, *ranks: int) -> None:
    if spec.rank not in ranks:
        taken = " or ".join(map(str, ranks))
        raise OpError(
            f"{what} {spec.name!r} has shape {list(spec.shape)}; {node.op} takes rank {taken} there"
        )


def like(node: NodeSpec, spec: TensorSpec, *others: TensorSpec) -> None:
    """Checks that `others` have the dtype of `spec`."""
    for other in others:
        if other.dtype is not spec.dtype:
            raise OpError(
                f"{node.op} takes one type for {spec.name!r} and {other.name!r}; "
                f"got {spec.dtype.label} and {other.dtype.label}"
            )


def same_quantization(node: NodeSpec, spec: TensorSpec, *others: TensorSpec) -> None:
    """Checks that `others` have the scale and zero point of `spec`, as stored values just move."""
    for other in others:
        if other.scale != spec.scale or other.zero_point != spec.zero_point:
            raise OpError(
                f"{node.op} does not rescale: {spec.name!r} has scale {spec.scale:g}, zero point "
                f"{spec.zero_point}; {other.name!r} has {other.scale:g}, {other.zero_point}"
            )


def view(x: Array, index: Iterable[Any]) -> Array:
    """`x[index]` as a view, even where one element is left or `x` is a scalar."""
    part: Array = x[(*index, ...)]
    return part


def size_of(shape: Sequence[int]) -> int:
    return math.prod(shape)


def without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def replaced(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def copy(y: Array, x: Array) -> Run:
    """Copies view `x` into view `y` (or broadcasts it)."""
    y, x = _in_blocks(y, x)
    # item assignment takes half the time of np.copyto on small arrays
    return partial(y.__setitem__, ..., x)


def copies(pairs: Sequence[tuple[Array, Array]]) -> Run:
    """Copies `x` into `y` for each pair (y, x)."""
    if len(pairs) == 1:
        return copy(*pairs[0])
    moves = [_in_blocks(y, x) for y, x in pairs]

    def run() -> None:
        for y, x in moves:
            y[...] = x

    return run


def _in_blocks(y: Array, x: Array) -> tuple[Array, Array]:
    """The same copy with each run of bytes that lies together in both as one element.

    numpy's loop over short rows costs more than the rows: this is up to seven times faster.
    """
    if y.nbytes < _WORTH_BLOCKS or y.dtype != x.dtype or y.dtype.hasobject:
        return y, x
    x = np.broadcast_to(x, y.shape)
    block, k = y.itemsize, y.ndim
    while k and (y.shape[k - 1] == 1 or y.strides[k - 1] == x.strides[k - 1] == block):
        k -= 1
        block *= y.shape[k]
    if block == y.itemsize or block > _LONG_ROW or not k:
        return y, x

    def blocks(a: Array) -> Array:
        rows = as_strided(a, (*a.shape[:k], block // a.itemsize), (*a.strides[:k], a.itemsize))
        return rows.view(f"V{block}")[..., 0]

    return blocks(y), blocks(x)


def reinterpret(b: Binding) -> Run | None:
    """Output 0 holds the elements of input 0 in another shape."""
    x, y = b.xi(0), b.y[0]
    if np.may_share_memory(x, y):
        return None
    return copy(y, x.reshape(y.shape))


def sequence(*runs: Run | None) -> Run | None:
    todo = [r for r in runs if r is not None]
    if len(todo) < 2:
        return todo[0] if todo else None

    def run() -> None:
        for step in todo:
            step()

    return run


def settled(b: Binding, inputs: Sequence[int], make: Callable[[], Run | None]) -> Run | None:
    """`make()` now, if the inputs whose values it reads are constant; else when these change.

    Values that `make` refuses are an error at invoke even where they are constant: the node may
    stand in a branch, or in a loop over nothing, that never runs.
    """
    specs = [b.optional(i) for i in inputs]
    if all(s is None or s.const is not None or s.size == 0 for s in specs):
        try:
            return make()
        except OpError as error:
            return failing(str(error))
    read = [b.xi(i) for i, s in zip(inputs, specs, strict=True) if s is not None]
    steps: dict[tuple[bytes, ...], Run | None] = {}

    def run() -> None:
        key = tuple(x.tobytes() for x in read)
        if key not in steps:
            if len(steps) == 16:
                steps.clear()
            steps[key] = make()
        step = steps[key]
        if step is not None:
            step()

    return run


def failing(text: str) -> Run:
    """What a node runs that is refused at invoke."""

    def run() -> None:
        raise OpError(text)

    return run


def integers(b: Binding, i: int) -> Values:
    """The elements of input `i` at this moment, flattened."""
    return tuple(b.xi(i).reshape(-1).tolist())


def zero_of(spec: TensorSpec) -> bytes | int:
    """The stored value of a real zero."""
    if spec.dtype is DType.STRING:
        return b""
    # wider integers are padded with 0, as in TensorFlow Lite
    return spec.zero_point if spec.dtype.is_integer and spec.dtype.bits <= 16 else 0


def in_range(index: Array, limit: Array | int, flag: Array) -> bool:
    """Whether 0 <= index < limit everywhere.

    `index` is an int64 array, `flag` a bool scratch of its shape.
    """
    # as unsigned a negative index is larger than any limit
    np.greater_equal(index.view(np.uint64), np.asarray(limit, np.uint64), out=flag)
    return not flag.any()
