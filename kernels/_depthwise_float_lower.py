"""Depthwise convolutions of floats on CPUs: pixels of a row by vectors of channels in registers."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from ._convolution_parts import finishing, window_macros
from ._lower import values
from ._register_tiles import lanes_of, shares
from ._window import Window
from .api import NodeSpec
from .device import Capability, Kernel, Lowered, Map, Read
from .types import Array, DType

# output pixels of a tile: more gain nothing
_MOST = 8


def depthwise(node: NodeSpec, capability: Capability, window: Window, weights: Array) -> Lowered:
    """Of weights [units, taps] and at least one output pixel."""
    x, units = node.input(0), weights.shape[0]
    multiplier = units // x.shape[3]
    steps: list[Map | Kernel] = []
    scratch: list[tuple[tuple[int, ...], DType]] = []
    source = 0
    if multiplier > 1:  # each channel so often, side by side
        strides = (*(int(np.prod(x.shape[i + 1 :])) for i in range(4)), 0)
        shape = (*x.shape, multiplier)
        steps.append(Map(reads=(Read(0, strides=strides),), shape=shape, output=1))
        scratch.append((shape, x.dtype))
        source = len(node.inputs)
    rows = x.shape[0] * window.out[0]
    if window.size[1] == window.kernel[1] == window.out[1] == 1:
        window, rows = window.turned(), x.shape[0]
    lanes = lanes_of(capability)
    while lanes > units:
        lanes //= 2
    tile = _choose(window, 32 if lanes_of(capability) == 16 else 16)
    blocks = ceil(units / lanes)
    wanted = shares(capability, tile.cycles * rows * blocks)
    band = max(1, rows // wanted)
    share = min(blocks, max(1, blocks * ceil(rows / band) // wanted))
    stored = node.optional(2)
    bias = np.zeros(units, np.float32) if stored is None else values(stored).reshape(-1)
    defines = {
        **window_macros(window),
        **tile.macros(window),
        **finishing(node.options.fused_activation_function, lanes),
        "C": units,
        "N": units,
        "VW": lanes,
        "ROWS": rows,
        "BAND": band,
        "SHARE": share,
    }
    packed = np.ascontiguousarray(weights.T, np.float32)
    grid = (ceil(blocks / share), ceil(rows / band))
    steps.append(
        Kernel("depthwise_f32_cpu", (source, packed, bias), grid, defines, ("arithmetic",))
    )
    return Lowered(steps, scratch=scratch)


@dataclass(frozen=True, slots=True)
class _Tile:
    """`width` output pixels; `cycles` for a row of the output and one vector of channels."""

    width: int
    cycles: float

    def macros(self, window: Window) -> dict[str, object]:
        """EACH_SUM(F): F(pixel); EACH_WEIGHT(F): F(tap); EACH_COLUMN(F): F(column of the input);
        EACH_PRODUCT(F): F(pixel, column, tap).
        """
        stride, dilation, taps = window.stride[1], window.dilation[1], window.kernel[1]
        products = sorted(
            (t * stride + k * dilation, t, k) for t in range(self.width) for k in range(taps)
        )
        return {
            "TX": self.width,
            "EACH_SUM(F)": " ".join(f"F({t})" for t in range(self.width)),
            "EACH_WEIGHT(F)": " ".join(f"F({k})" for k in range(taps)),
            "EACH_COLUMN(F)": " ".join(f"F({c})" for c in sorted({c for c, _, _ in products})),
            "EACH_PRODUCT(F)": " ".join(f"F({t}, {c}, {k})" for c, t, k in products),
        }


def _choose(window: Window, registers: int) -> _Tile:
    """The cheapest tile of which all sums, and columns of at most 7 taps, stay in registers."""
    (_, stride), (_, dilation), (high, wide) = window.stride, window.dilation, window.kernel
    found = []
    for width in range(1, min(_MOST, window.out[1]) + 1):
        columns = len({t * stride + k * dilation for t in range(width) for k in range(wide)})
        if width > 1 and width + min(columns, 12) + min(wide, 5) > registers:
            break
        # two products or two loads in a cycle; a sum waits four for the one before
        step = max(width * wide / 2, (columns + wide) / 2, 4 * wide)
        cycles = ceil(window.out[1] / width) * (high * (step + 2) + 2 * width + 8)
        found.append(_Tile(width, cycles))
    return min(found, key=lambda tile: tile.cycles)
