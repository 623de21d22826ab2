"""Convolutions of floats on CPUs: packed weights, explicit vectors, blocks in registers."""

from __future__ import annotations

from math import ceil

import numpy as np

from ._convolution_parts import direct, finishing, window_macros
from ._lower import values
from ._register_tiles import Tile, choose_tile, lanes_of, shares
from ._window import Window
from .api import NodeSpec
from .device import Capability, Kernel, Lowered
from .types import Array

# floats of an input with zeros around that a work-item copies: within a core's second cache
_PATCH = 1 << 15


def convolution(
    node: NodeSpec,
    capability: Capability,
    window: Window,
    weights: Array,
    channels: int,
) -> Lowered:
    """Of weights [units, taps, depth] and an input of `channels`."""
    units, taps, depth = weights.shape
    groups = channels // depth
    each = units // groups
    pixels = node.outputs[0].size // units
    if not pixels or (groups > 1 and each < 4):
        return direct(node, capability, window, weights, channels)
    images = pixels // (window.out[0] * window.out[1])
    if window.pointwise and window.stride == (1, 1):  # all pixels are one row
        window, images = Window((1, pixels), (1, 1), (1, 1), (1, 1), (0, 0), (1, pixels)), 1
    elif window.size[1] == window.kernel[1] == window.out[1] == 1:
        window = window.turned()
    tile = choose_tile(lanes_of(capability), *window.out, each, taps * depth)
    blocks = ceil(each / tile.channels)
    packed = np.zeros((groups, blocks * tile.channels, taps * depth), np.float32)
    packed[:, :each] = weights.reshape(groups, each, -1)
    packed = packed.reshape(groups * blocks, tile.channels, -1).transpose(0, 2, 1).copy()
    bias = np.zeros((groups, blocks * tile.channels), np.float32)
    stored = node.optional(2)
    if stored is not None:
        bias[:, :each] = values(stored).reshape(groups, each)
    run = window.kernel[1] * depth if groups == 1 and window.dilation[1] == 1 else depth
    bands = _Bands(window, tile, channels, images, groups * blocks, capability)
    defines = {
        **window_macros(window),
        "N": units,
        "C": channels,
        "DEPTH": depth,
        "GROUPS": groups,
        "BLOCKS": groups * blocks,
        "RUN": run,
        "TY": tile.height,
        "TX": tile.width,
        "NV": tile.vectors,
        "VW": tile.lanes,
        "PADS": int(window.pads),
        "BIAS": "IN2",
        **finishing(node, tile.lanes),
        **bands.defines,
        **_unrolled(tile, window, bands.pitch, channels, units),
    }
    step = Kernel("conv_f32_cpu", (0, packed, bias), bands.grid, defines, ("arithmetic",))
    return Lowered([step])


class _Bands:
    """How tiles are dealt to work-items: `rows` x `columns` of them and `share` blocks to each."""

    def __init__(
        self,
        window: Window,
        tile: Tile,
        channels: int,
        images: int,
        blocks: int,
        capability: Capability,
    ) -> None:
        high, wide = ceil(window.out[0] / tile.height), ceil(window.out[1] / tile.width)
        wanted = shares(capability, tile.cycles * images)
        rows, columns, share = high, wide, blocks
        # rows are cut first: those that are copied are copied once
        rows = max(1, high * images // wanted)
        if images * ceil(high / rows) < wanted:
            columns = max(1, wide * images * ceil(high / rows) // wanted)
        have = images * ceil(high / rows) * ceil(wide / columns)
        if have < wanted:
            share = max(1, blocks * have // wanted)
        self.pitch = window.size[1] * channels
        patch = 1
        if window.pads:
            while True:
                h = (rows * tile.height - 1) * window.stride[0]
                h += (window.kernel[0] - 1) * window.dilation[0] + 1
                w = (columns * tile.width - 1) * window.stride[1]
                w += (window.kernel[1] - 1) * window.dilation[1] + 1
                self.pitch, patch = w * channels, h * w * channels
                if patch <= _PATCH or rows == columns == 1:
                    break
                if columns > 1 and (w > 4 * h or rows == 1):
                    columns = ceil(columns / 2)
                else:
                    rows = ceil(rows / 2)
        self.grid = (
            ceil(blocks / share),
            images * ceil(high / rows) * ceil(wide / columns),
        )
        self.defines = {
            "BANDY": rows,
            "BANDX": columns,
            "SHARE": share,
            "PITCH": self.pitch,
            "PATCH": patch,
        }


def _unrolled(
    tile: Tile, window: Window, pitch: int, channels: int, units: int
) -> dict[str, object]:
    """EACH_ROW(F): F(m, where it reads, where it stores) for each pixel of a tile, from its first;
    EACH_VECTOR(F, m): F(m, j).
    """
    (down, across), width = window.stride, window.out[1]
    rows = [
        f"F({m}, {y * down * pitch + x * across * channels}, {(y * width + x) * units})"
        for m, (y, x) in enumerate(np.ndindex(tile.height, tile.width))
    ]
    return {
        "EACH_ROW(F)": " ".join(rows),
        "EACH_VECTOR(F, m)": " ".join(f"F(m, {j})" for j in range(tile.vectors)),
    }
