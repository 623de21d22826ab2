"""The arena plan: where each tensor lives so that tensors which are never needed together share
memory.

Greedy by size over lifetimes (Pisarchyk and Lee 2020, "Efficient memory management for deep neural
net inference"): the largest block first, each at the lowest offset that no block alive at the same
time covers. Small blocks, of which a graph can have thousands, take the quick way: a free list for
each size, in order of execution.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..kernels._memory import ALIGNMENT, aligned
from ..kernels.types import Array

SMALL = 2048


@dataclass(slots=True)
class Block:
    """Memory needed from step `first` to step `last`, both included."""

    size: int
    first: int
    last: int
    offset: int = -1


def align(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def plan(blocks: Sequence[Block]) -> int:
    """Sets every block's offset; returns the arena's size. Both in bytes, multiples of 64."""
    small = [b for b in blocks if b.size <= SMALL]
    base = _plan_small(small)
    return _plan_large([b for b in blocks if b.size > SMALL], base)


def _plan_small(blocks: list[Block]) -> int:
    free: dict[int, list[int]] = defaultdict(list)
    ends: dict[int, list[Block]] = defaultdict(list)
    top = 0
    step = None
    pending: list[int] = []
    for block in sorted(blocks, key=lambda b: b.first):
        if block.first != step:
            done = [s for s in pending if s < block.first]
            for s in done:
                for old in ends.pop(s):
                    free[align(old.size)].append(old.offset)
            pending = [s for s in pending if s >= block.first]
            step = block.first
        size = align(block.size)
        if free[size]:
            block.offset = free[size].pop()
        else:
            block.offset = top
            top += size
        if block.last not in ends:
            pending.append(block.last)
        ends[block.last].append(block)
    return top


def _plan_large(blocks: list[Block], base: int) -> int:
    blocks = sorted(blocks, key=lambda b: -b.size)
    n = len(blocks)
    first = np.array([b.first for b in blocks], np.int64)
    last = np.array([b.last for b in blocks], np.int64)
    low = np.zeros(n, np.int64)
    high = np.zeros(n, np.int64)
    top = base
    for i, block in enumerate(blocks):
        size = align(block.size)
        alive = np.flatnonzero((first[:i] <= block.last) & (last[:i] >= block.first))
        offset = base
        for j in alive[np.argsort(low[alive], kind="stable")]:
            if low[j] - offset >= size:
                break
            offset = max(offset, int(high[j]))
        block.offset = offset
        low[i], high[i] = offset, offset + size
        top = max(top, offset + size)
    return top


class Workspace:
    """Scratch memory of one interpreter: every node is handed the same bytes, as only one runs at a
    time.

    Call `begin` before a node is bound; what `take` returns stays valid as long as the array lives.
    """

    def __init__(self) -> None:
        self._memory: Array = np.empty(0, np.uint8)
        self._used = 0

    @property
    def nbytes(self) -> int:
        return self._memory.nbytes

    def begin(self) -> None:
        self._used = 0

    def take(self, nbytes: int) -> Array:
        start = self._used
        self._used = start + align(nbytes)
        if self._used > self._memory.nbytes:
            # nodes bound before keep the old, smaller memory; doubling bounds the waste
            self._memory = aligned(max(self._used, 2 * self._memory.nbytes))
        return self._memory[start : start + nbytes]
