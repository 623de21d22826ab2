"""How products are cut for a CPU: tiles that fit its registers, work-items that fill its cores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil

from .device import Capability

# sums of one vector of channels beyond these only wait for the loads of their factors
_MOST_ROWS = 24
# cycles of a tile outside its inner loop, and for each of its vectors
_FIXED, _STORE = 30.0, 4.0
# cycles for which it is worth waking another core (less is one work-item, which joins others in one
# launch), and work-items for each core
_LEAST, _ITEMS = 16000.0, 4


@dataclass(frozen=True, slots=True)
class Tile:
    """`height` x `width` output pixels by `vectors` of `lanes` channels; `cycles` for all tiles."""

    height: int
    width: int
    vectors: int
    lanes: int
    cycles: float

    @property
    def channels(self) -> int:
        return self.vectors * self.lanes


def lanes_of(capability: Capability) -> int:
    """float32 lanes of a vector: those of a register, from SSE to AVX-512."""
    return min(16, max(4, capability.vector_width))


@cache
def choose_tile(lanes: int, height: int, width: int, units: int, depth: int) -> Tile:
    """The cheapest tile for `height` x `width` pixels of `units` channels, sums over `depth`."""
    registers = 32 if lanes == 16 else 16
    needed = ceil(units / lanes)
    best: Tile | None = None
    for vectors in range(1, min(needed, 8) + 1):
        blocks = ceil(needed / vectors)
        most = max(1, min((registers - vectors - 1) // vectors, _MOST_ROWS))
        for h in range(1, min(most, height) + 1):
            for w in range(1, min(most // h, width) + 1):
                rows = h * w
                tiles = ceil(height / h) * ceil(width / w) * blocks
                # two products or two loads in a cycle; a sum waits four for the one before
                step = max(rows * vectors / 2, (rows + vectors) / 2, 4)
                cycles = tiles * (depth * step + rows * vectors * _STORE + _FIXED)
                # weights are read once for each tile
                cycles += tiles * depth * vectors * 0.25
                if best is None or cycles < best.cycles:
                    best = Tile(h, w, vectors, lanes, cycles)
    assert best is not None
    return best


def shares(capability: Capability, cycles: float) -> int:
    """Work-items into which that much work is best cut."""
    return max(1, min(capability.compute_units * _ITEMS, int(cycles / _LEAST)))
