"""Convolutions of 8-bit integers on CPUs: packed weights, explicit vectors, blocks in registers."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from ._convolution import scaling
from ._convolution_parts import Parts, Scale, direct, window_macros
from ._lower import values
from ._register_tiles import choose_tile, shares
from ._requantize_lower import LANES, requantised
from ._scaling import Scaling
from ._window import Window
from .api import NodeSpec, TensorSpec
from .device import Capability, Kernel, Lowered
from .types import Array, DType

# most pixels of a tile of a depthwise convolution: beyond these its text only grows
_TILE = 8
_C_TYPES = {DType.INT8: "i8", DType.UINT8: "u8"}


class _Bytes:
    """Weights [units, …] as signed bytes, inputs as unsigned ones, and what that adds to sums.

    `moved`: what was added to all weights, `flip`: the bit in which inputs differ from what is
    stored. `bound` [units]: the largest absolute sums.
    """

    def __init__(self, node: NodeSpec, weights: Array, scale: Scale) -> None:
        x, bias = node.input(0), node.optional(2)
        flat = weights.reshape(weights.shape[0], -1).astype(np.int64)
        low, high = flat.min(initial=0), flat.max(initial=0)
        self.moved = 0 if low >= -128 and high <= 127 else int(-128 - low)
        self.weights = (weights + self.moved).astype(np.int8)
        self.flip = 128 if x.dtype is DType.INT8 else 0
        self.padding = x.zero_point + self.flip
        sums = flat.sum(axis=1)
        stored = None if bias is None else values(bias).reshape(-1)
        found: Scaling = scale(node, x, node.input(1), sums, stored, len(flat))
        offset = found.offset - self.flip * sums
        self.bound = np.abs(flat).sum(axis=1) * _largest(x) + np.abs(found.offset)
        self.scaling = Scaling(
            found.q, found.shift, offset, found.zero, found.low, found.high, False, found.rounded
        )


def _largest(x: TensorSpec) -> int:
    """Of the absolute values of x less its zero point."""
    low, high = x.dtype.range()
    return max(x.zero_point - low, high - x.zero_point)


def convolution(
    node: NodeSpec,
    capability: Capability,
    window: Window,
    weights: Array,
    channels: int,
    scale: Scale = scaling,
) -> Lowered:
    """Of weights [units, taps, depth], less their zero point, and an input of `channels`."""
    units, taps, depth = weights.shape
    x, pixels = node.input(0), node.outputs[0].size // max(units, 1)
    if depth != channels or not pixels:
        return direct(node, capability, window, weights, channels, scale)
    data = _Bytes(node, weights, scale)
    seen = taps * depth
    each = 4 if capability.dot4 else 1  # products of a step
    steps = ceil(seen / each)
    tile = choose_tile(LANES, 1, pixels, units, steps)
    vectors = ceil(units / LANES)
    blocks = ceil(vectors / tile.vectors)
    # the last vector is moved back to the end
    first = np.minimum(np.arange(vectors) * LANES, max(units - LANES, 0))
    rows = first[:, None] + np.arange(LANES)
    packed = np.zeros((blocks * tile.vectors, LANES, steps * each), np.int8)
    own = data.weights.reshape(units, seen)[np.minimum(rows, units - 1)]
    packed[:vectors, :, :seen] = np.where((rows < units)[..., None], own, 0)
    packed = packed.reshape(blocks, tile.vectors, LANES, steps, -1).transpose(0, 3, 1, 2, 4)
    stored = np.ascontiguousarray(packed)
    requantise = requantised(data.scaling, data.bound, 2)
    wanted = shares(capability, tile.cycles)
    tiles = ceil(pixels / tile.width)
    bands = min(tiles, wanted)
    share = ceil(blocks / max(1, wanted // bands))
    flat = window.pointwise and window.stride == (1, 1) and seen == steps * each
    band = ceil(tiles / bands) * tile.width
    defines: dict[str, object] = {
        **window_macros(window),
        **requantise.defines,
        "M": pixels,
        "N": units,
        "C": channels,
        "SIZE": x.size,
        "DEPTH": steps * each,
        "DOT4": int(capability.dot4),
        "WT": "i32" if capability.dot4 else "i8",
        "XT": _C_TYPES[x.dtype],
        "MR": tile.width,
        "NV": tile.vectors,
        "ROWS": band,
        "BLOCKS": blocks,
        "SHARE": share,
        "PADS": int(window.pads),
        "PADDING": data.padding,
        "FLIP": data.flip,
        "SUM_FACTOR": -data.moved,
        "IN_PLACE": int(flat and not data.flip),
        "FLAT": int(flat and data.flip != 0),
        "EACH_ROW(F)": " ".join(f"F({m})" for m in range(tile.width)),
        "EACH_VECTOR(F, m)": " ".join(f"F(m, {j})" for j in range(tile.vectors)),
    }
    grid = (ceil(blocks / share), ceil(pixels / band))
    reads = (0, stored.view(np.int32) if capability.dot4 else stored, *requantise.constants)
    return Lowered([Kernel("conv_i8_cpu", reads, grid, defines, ("int8_cpu",))])


def depthwise(node: NodeSpec, capability: Capability, window: Window, weights: Array) -> Lowered:
    """Of weights [units, taps], less their zero point."""
    x, units = node.input(0), weights.shape[0]
    rows = node.outputs[0].size // (units * max(window.out[1], 1))
    if units != x.shape[3] or units < LANES or not rows:
        return _few_channels(node, capability, window, weights)
    data = _Bytes(node, weights, scaling)
    each = 4 if capability.dot4 else 1  # rows of a column in one product
    groups = ceil(window.kernel[0] / each)
    vectors = ceil(units / LANES)
    first = np.minimum(np.arange(vectors) * LANES, units - LANES)
    packed = np.zeros((vectors, LANES, groups * each, window.kernel[1]), np.int8)
    channels = first[:, None] + np.arange(LANES)
    packed[:, :, : window.kernel[0]] = data.weights.reshape(units, *window.kernel)[channels]
    packed = packed.reshape(vectors, LANES, groups, each, -1).transpose(0, 4, 2, 1, 3)
    stored = np.ascontiguousarray(packed)
    tile = _Tile.choose(window, groups)
    requantise = requantised(data.scaling, data.bound, 3)
    wanted = shares(capability, tile.cycles * rows * vectors)
    band = ceil(rows / wanted)
    share = ceil(vectors * ceil(rows / band) / wanted)
    defines: dict[str, object] = {
        **window_macros(window),
        **requantise.defines,
        **tile.macros(window, groups, each),
        "M": node.outputs[0].size // units,
        "C": units,
        "DOT4": int(capability.dot4),
        "WT": "i32" if capability.dot4 else "i8",
        "XT": _C_TYPES[x.dtype],
        "ROWS": band,
        "SETS": vectors,
        "SHARE": share,
        "PADDING": data.padding,
        "FLIP": data.flip,
        "SUM_FACTOR": -data.moved,
    }
    reads = (
        0,
        stored.view(np.int32) if capability.dot4 else stored,
        np.full(LANES, x.zero_point, x.dtype.numpy).view(np.uint8),
        *requantise.constants,
    )
    grid = (ceil(vectors / share), ceil(rows / band))
    return Lowered([Kernel("depthwise_i8_cpu", reads, grid, defines, ("int8_cpu",))])


@dataclass(frozen=True, slots=True)
class _Tile:
    """`width` neighbouring pixels of 16 channels; `cycles` of a row of them."""

    width: int
    cycles: float

    @staticmethod
    def choose(window: Window, groups: int) -> _Tile:
        out, (high, wide) = window.out[1], window.kernel
        # sums, weights and one column stay in registers
        most = max(1, min(out, _TILE, 28 - groups * (wide + 1)))
        found = []
        for width in range(1, most + 1):
            columns = len(_columns(window, width))
            steps = columns * 2 * high + width * (groups * wide + 16)
            found.append(_Tile(width, ceil(out / width) * steps / 2))
        return min(found, key=lambda t: (t.cycles, t.width))

    def macros(self, window: Window, groups: int, each: int) -> dict[str, object]:
        """The text of what is unrolled: columns from left to right, and what each is good for."""
        high, wide = window.kernel
        seen = _columns(window, self.width)
        columns = [
            f"COLUMN({i}) "
            + " ".join(f"PRODUCT({t}, {i}, {k}, {g})" for t, k in uses for g in range(groups))
            for i, uses in sorted(seen.items())
        ]
        rows = [range(g * each, min((g + 1) * each, high)) for g in range(groups)]
        gathers = {
            f"GATHER_{g}(i)": " | ".join(f"ROW({k}, i) << {8 * (k - r.start)}" for k in r)
            for g, r in enumerate(rows)
        }
        ones = {f"ONES_{g}": 0x01010101 >> 8 * (4 - len(r)) for g, r in enumerate(rows)}
        taps = [(k, g) for k in range(wide) for g in range(groups)]
        pads = [window.span(axis, 0, window.out[axis]) for axis in (0, 1)]
        outside = [lo < 0 or hi > n for (lo, hi), n in zip(pads, window.size, strict=True)]
        return {
            **gathers,
            **(ones if each == 4 else dict.fromkeys(ones, 1)),
            "TX": self.width,
            "GROUPS": groups,
            "PADY": int(outside[0]),
            "PADX": int(outside[1]),
            "EACH_GROUP(F, i)": " ".join(f"F(i, {g})" for g in range(groups)),
            "EACH_WEIGHT": " ".join(f"WEIGHT({k}, {g})" for k, g in taps),
            "EACH_LINE": " ".join(f"LINE({k})" for k in range(high)),
            "EACH_SUM(F)": " ".join(f"F({t})" for t in range(self.width)),
            "EACH_COLUMN": " ".join(columns),
        }


def _columns(window: Window, width: int) -> dict[int, list[tuple[int, int]]]:
    """Columns that a tile sees, and the (pixel, tap) of it that each one meets."""
    found: dict[int, list[tuple[int, int]]] = {}
    for t in range(width):
        for k in range(window.kernel[1]):
            found.setdefault(t * window.stride[1] + k * window.dilation[1], []).append((t, k))
    return found


def _few_channels(
    node: NodeSpec, capability: Capability, window: Window, weights: Array
) -> Lowered:
    """Fewer channels than a vector has, or several results from each."""
    units, channels = weights.shape[0], node.input(0).shape[3]
    parts = Parts(node, capability, window, weights[:, :, None], False)
    packed = np.ascontiguousarray(parts.weights[:, :, 0].T)
    lanes = next(w for w in (16, 8, 4, 2, 1) if units % w == 0) if units == channels else 1
    rows = node.outputs[0].size // max(units, 1)
    pixels = window.out[1]
    more = {"C": channels, "MULTIPLIER": units // channels, "ZERO": parts.zero}
    grid = (units // lanes, -(-rows // max(pixels, 1)))
    return parts.kernel("depthwise", [0, packed], grid, **more, VW=lanes, PIXELS=pixels)
