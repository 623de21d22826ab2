"""Shapes and strides, and the text of indices."""

from __future__ import annotations

from collections.abc import Sequence

from .texts import Mapped

Strides = tuple[int, ...]


def row_major(shape: tuple[int, ...]) -> Strides:
    strides, step = [], 1
    for d in reversed(shape):
        strides.append(step)
        step *= d
    return tuple(reversed(strides))


def broadcast_strides(shape: tuple[int, ...], target: tuple[int, ...]) -> Strides:
    """Strides of a row-major tensor that broadcasts, right-aligned, to `target`."""
    extra = len(shape) - len(target)
    if extra > 0:  # leading ones
        shape = shape[extra:]
    own = [0 if d == 1 else s for d, s in zip(shape, row_major(shape), strict=True)]
    return (*(0 for _ in target[len(own) :]), *own)


def collapse(
    shape: tuple[int, ...], strides: Sequence[Strides]
) -> tuple[tuple[int, ...], list[Strides]]:
    """Fewest dimensions in which all strides still hold."""
    dims: list[int] = []
    kept: list[list[int]] = [[] for _ in strides]
    for axis, d in enumerate(shape):
        if d == 1:
            continue
        if dims and all(k[-1] == s[axis] * d for k, s in zip(kept, strides, strict=True)):
            dims[-1] *= d
            for k, s in zip(kept, strides, strict=True):
                k[-1] = s[axis]
            continue
        dims.append(d)
        for k, s in zip(kept, strides, strict=True):
            k.append(s[axis])
    return tuple(dims), [tuple(k) for k in kept]


def index_text(shape: tuple[int, ...], strides: Strides, offset: int, i: str) -> str:
    """Text of the element that flat index `i` of `shape` reads."""
    dims, (kept,) = collapse(shape, [strides])
    terms, below = [str(offset)] if offset else [], 1
    for axis in range(len(dims) - 1, -1, -1):
        if kept[axis]:
            term = i if below == 1 else f"({i} / {below})"
            if axis:
                term = f"({term} % {dims[axis]})"
            terms.append(term if kept[axis] == 1 else f"{term} * {kept[axis]}")
        below *= dims[axis]
    return " + ".join(terms) or "0"


def strides_of(mapped: Mapped, i: int) -> tuple[Strides, int]:
    """Strides and offset of read `i` along the map's shape."""
    read, operand = mapped.step.reads[i], mapped.reads[i]
    if read.strides is not None:
        return read.strides, read.offset
    assert operand is not None
    return broadcast_strides(operand.shape, mapped.shape), 0
