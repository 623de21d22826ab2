"""Grids of work-items as CPUs take them."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from ...kernels.device import Capability
from .texts import Text

_POSITION = re.compile(r"\bGID([012])\b")
_ENDS = re.compile(r"\bIN_GRID\([^)]*\)")


def in_a_row(text: Text, capability: Capability) -> Text:
    """The same with a grid of one dimension, on CPUs: Intel's runtime deals that to all cores,
    others often to a single one.
    """
    grid = text.grid
    ours = capability.kind == "cpu" and not text.brought and text.group is None
    if not ours or math.prod(grid) == math.prod(grid[:1]):
        return text
    size = math.prod(grid)
    positions, below = [], 1
    for wide in grid:
        place = "GID0" if below == 1 else f"(GID0 / {below})"
        positions.append(
            "0" if wide == 1 else f"({place} % {wide})" if below * wide < size else place
        )
        below *= wide
    positions += ["0"] * (3 - len(grid))
    source = _POSITION.sub(lambda m: positions[int(m[1])], text.source)
    return replace(text, source=_ENDS.sub(f"IN_GRID({size}, 1, 1)", source), grid=(size,))
