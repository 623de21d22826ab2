"""Products of float32 on CPUs by `device/conv_f32_cpu.c`: operands packed, tiles dealt to cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from ._convolution_parts import window_macros
from ._register_tiles import Tile, choose_tile, lanes_of, shares
from ._window import Window
from .device import Capability, Kernel
from .types import Array

# floats of an input with zeros around that a work-item copies: within a core's second cache
MOST_COPIED = 1 << 15


@dataclass(frozen=True, slots=True)
class Product:
    """A convolution of `images` by `units` channels in `groups`; a product of matrices is one over
    a row of pixels.
    """

    window: Window
    images: int
    channels: int
    units: int
    groups: int = 1

    @property
    def depth(self) -> int:
        """Channels of the input that an output sees."""
        return self.channels // self.groups

    @property
    def each(self) -> int:
        """Channels of the output in a group."""
        return self.units // self.groups

    @property
    def taps(self) -> int:
        return self.window.kernel[0] * self.window.kernel[1]

    @property
    def run(self) -> int:
        """Neighbouring elements of the input that an output sees: of a row, or of one pixel."""
        whole = self.groups == 1 and self.window.dilation[1] == 1
        return self.window.kernel[1] * self.depth if whole else self.depth

    def seen(self, height: int, width: int) -> tuple[int, int]:
        """Size of the region of the input that so many output pixels see."""
        w = self.window
        rows = (height - 1) * w.stride[0] + (w.kernel[0] - 1) * w.dilation[0] + 1
        columns = (width - 1) * w.stride[1] + (w.kernel[1] - 1) * w.dilation[1] + 1
        return rows, columns


@dataclass(frozen=True, slots=True)
class Tiling:
    """A product cut for a CPU: its tile, and how tiles are dealt to work-items, `rows` x `columns`
    of them and `share` blocks of channels to each. `copies`: whether these read a copy.
    """

    product: Product
    tile: Tile
    rows: int
    columns: int
    share: int
    copies: bool

    @staticmethod
    def of(product: Product, capability: Capability) -> Tiling:
        """Of floats."""
        depth = product.taps * product.depth
        tile = choose_tile(lanes_of(capability), *product.window.out, product.each, depth)
        found = Tiling.dealt(product, capability, tile, product.window.pads)
        return found.within(MOST_COPIED) if found.copies else found

    @staticmethod
    def dealt(product: Product, capability: Capability, tile: Tile, copies: bool) -> Tiling:
        """As many work-items as the cores are best given."""
        window, images = product.window, product.images
        blocks = product.groups * ceil(product.each / tile.channels)
        high, wide = ceil(window.out[0] / tile.height), ceil(window.out[1] / tile.width)
        wanted = shares(capability, tile.cycles * images * product.groups)
        # rows are cut first: those that are copied are copied once
        rows, columns = max(1, high * images // wanted), wide
        have = images * ceil(high / min(rows, high))
        if have < wanted:
            columns = max(1, wide * have // wanted)
            have *= ceil(wide / columns)
        share = blocks if have >= wanted else max(1, blocks * have // wanted)
        return Tiling(product, tile, min(rows, high), columns, share, copies)

    def within(self, elements: int) -> Tiling:
        """The same in so small bands that none sees more of the input, if that can be."""
        found = self
        while found.copied > elements and found.rows * found.columns > 1:
            found = found.less()
        return found

    def less(self) -> Tiling:
        """The same in bands of about half the size."""
        height, width = self.seen
        if self.columns > 1 and (width > 4 * height or self.rows == 1):
            return replace(self, columns=ceil(self.columns / 2))
        return replace(self, rows=ceil(self.rows / 2))

    @property
    def seen(self) -> tuple[int, int]:
        """Height and width of what a work-item sees."""
        return self.product.seen(self.rows * self.tile.height, self.columns * self.tile.width)

    @property
    def copied(self) -> int:
        """Elements of the input that a work-item sees."""
        height, width = self.seen
        return height * width * self.product.channels

    @property
    def pixels(self) -> int:
        """Of the output, at most, that a work-item makes."""
        return self.rows * self.tile.height * self.columns * self.tile.width

    @property
    def grid(self) -> tuple[int, int]:
        p, tile = self.product, self.tile
        bands = ceil(ceil(p.window.out[0] / tile.height) / self.rows)
        bands *= ceil(ceil(p.window.out[1] / tile.width) / self.columns)
        return ceil(p.groups * self.blocks / self.share), p.images * bands

    @property
    def blocks(self) -> int:
        """Blocks of `tile.channels` channels in a group."""
        return ceil(self.product.each / self.tile.channels)

    def pack(self, weights: Array) -> Array:
        """[…, units, taps * depth] as the kernel reads it: […, block, taps * depth, channel]."""
        p, channels = self.product, self.tile.channels
        before, deep = weights.shape[:-2], weights.shape[-1]
        packed = np.zeros((*before, p.groups, self.blocks * channels, deep), np.float32)
        packed[..., : p.each, :] = weights.reshape(*before, p.groups, p.each, deep)
        packed = packed.reshape(*before, p.groups * self.blocks, channels, deep)
        return np.ascontiguousarray(packed.swapaxes(-1, -2))

    def kernel(
        self,
        reads: tuple[int | Array, int | Array],
        bias: Array | None,
        finish: Mapping[str, object],
        output: int = 0,
        image: str = "",
        weights: str = "0",
        direct: bool = False,
    ) -> Kernel:
        """`reads`: the input and the packed weights, or `direct`: [depth, units] of one tap, units
        no fewer than the tile's. `image` and `weights`: where those of image `n` begin; without
        `image` one lies behind the other. `finish`: FINISH and FINISH_VECTOR.
        """
        p, tile, window = self.product, self.tile, self.product.window
        padded = np.zeros((p.groups, self.blocks * tile.channels), np.float32)
        if bias is not None:
            padded[:, : p.each] = bias.reshape(p.groups, p.each)
        pitch = (self.seen if self.copies else window.size)[1] * p.channels
        defines = {
            **window_macros(window),
            "N": p.units,
            "C": p.channels,
            "DEPTH": p.depth,
            "GROUPS": p.groups,
            "BLOCKS": p.groups * self.blocks,
            "RUN": p.run,
            "TY": tile.height,
            "TX": tile.width,
            "NV": tile.vectors,
            "VW": tile.lanes,
            "PADS": int(self.copies),
            "DIRECT": int(direct),
            "BANDY": self.rows,
            "BANDX": self.columns,
            "SHARE": self.share,
            "PITCH": pitch,
            "PATCH": self.copied if self.copies else 1,
            "IMAGE(n)": image or f"(n) * {window.size[0] * window.size[1] * p.channels}",
            "WEIGHTS(n)": weights,
            "BIAS": "IN2",
            **finish,
            **self._unrolled(pitch),
        }
        uses = ("arithmetic", "band")
        return Kernel("conv_f32_cpu", (*reads, padded), self.grid, defines, uses, output)

    def _unrolled(self, pitch: int) -> dict[str, object]:
        """EACH_ROW(F): F(m, where it reads, where it stores) for each pixel of a tile, from its
        first; EACH_VECTOR(F, m): F(m, j).
        """
        p, tile, (down, across) = self.product, self.tile, self.product.window.stride
        rows = [
            f"F({m}, {y * down * pitch + x * across * p.channels}, "
            f"{(y * p.window.out[1] + x) * p.units})"
            for m, (y, x) in enumerate(np.ndindex(tile.height, tile.width))
        ]
        return {
            "EACH_ROW(F)": " ".join(rows),
            "EACH_VECTOR(F, m)": " ".join(f"F(m, {j})" for j in range(tile.vectors)),
        }


def rows_of(pixels: int) -> Window:
    """The window of a product of matrices: over one row of `pixels`."""
    return Window((1, pixels), (1, 1), (1, 1), (1, 1), (0, 0), (1, pixels))
