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
from ._tiled_lower import Product, Tiling, rows_of
from ._window import Window
from .api import NodeSpec, TensorSpec
from .device import Capability, Kernel, Lowered
from .types import Array, DType

# most pixels of a tile of a depthwise convolution: beyond these its text only grows
_TILE = 8
# bytes of the input that a work-item copies, and pixels whose sums it keeps
_MOST_COPIED, _MOST_SUMS = 1 << 16, 1 << 12
_C_TYPES = {DType.INT8: "i8", DType.UINT8: "u8"}


class _Bytes:
    """Weights [units, …] and inputs as a kernel multiplies them, and what that adds to sums.

    `mixed`: weights are signed bytes and inputs unsigned ones, whatever they were. `moved`: what
    was added to all weights for that, `flip`: the bit in which inputs differ from what is stored,
    `padding`: what stands for zero. `bound` [units]: the largest absolute sums.
    """

    def __init__(self, node: NodeSpec, weights: Array, scale: Scale, mixed: bool) -> None:
        x, bias = node.input(0), node.optional(2)
        flat = weights.reshape(weights.shape[0], -1).astype(np.int64)
        low, high = flat.min(initial=0), flat.max(initial=0)
        fits = low >= -128 and high <= 127
        self.moved = 0 if fits or not mixed else int(-128 - low)
        self.weights = (weights + self.moved).astype(np.int8 if fits or mixed else np.int16)
        self.flip = 128 if x.dtype is DType.INT8 and mixed else 0
        self.padding = (x.zero_point + self.flip) & 255
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
    units, _, depth = weights.shape
    x, pixels = node.input(0), node.outputs[0].size // max(units, 1)
    if not pixels or not depth:
        return direct(node, capability, window, weights, channels, scale)
    data = _Bytes(node, weights, scale, capability.dot4)
    groups, merged = _merged(data.weights, channels // depth, data.moved)
    if groups > 1 and (data.moved or units // groups < LANES):
        return direct(node, capability, window, weights, channels, scale)
    images = pixels // (window.out[0] * window.out[1])
    if window.pointwise and window.stride == (1, 1):
        window, images = rows_of(pixels), 1
    product = Product(window, images, channels, units, groups)
    tiling, stored = _cut(product, capability, merged, data)
    requantise = requantised(data.scaling, data.bound, 2)
    tile = tiling.tile
    columns = tiling.seen[1] if tiling.copies else window.size[1]
    pitch = columns * channels + (4 if tiling.copies else 0)
    rows = [
        f"F({m}, {(y * window.stride[0] * pitch + i * window.stride[1] * channels)})"
        for m, (y, i) in enumerate(np.ndindex(tile.height, tile.width))
    ]
    defines: dict[str, object] = {
        **window_macros(window),
        **requantise.defines,
        "N": units,
        "C": channels,
        "DEPTH": product.depth,
        "GROUPS": groups,
        "BLOCKS": groups * tiling.blocks,
        "RUN": product.run,
        "DOT4": int(capability.dot4),
        "WT": _weight_type(stored, capability),
        "XT": _C_TYPES[x.dtype],
        "TY": tile.height,
        "TX": tile.width,
        "NV": tile.vectors,
        "BANDY": tiling.rows,
        "BANDX": tiling.columns,
        "SHARE": tiling.share,
        "COPIED": int(tiling.copies),
        "PITCH": pitch,
        "PATCH": tiling.seen[0] * pitch,
        "PADDING": data.padding,
        "FLIP": data.flip,
        "SUM_FACTOR": -data.moved,
        "VECTOR_ROW": window.out[1] * units if units < LANES else units,
        "EACH_ROW(F)": " ".join(rows),
        "EACH_VECTOR(F, m)": " ".join(f"F(m, {j})" for j in range(tile.vectors)),
    }
    reads = (0, stored.view(np.int32) if capability.dot4 else stored, *requantise.constants)
    return Lowered([Kernel("conv_i8_cpu", reads, tiling.grid, defines, ("int8_cpu", "band"))])


def _weight_type(stored: Array, capability: Capability) -> str:
    return "i32" if capability.dot4 else {1: "i8", 2: "i16"}[stored.itemsize]


def _merged(weights: Array, groups: int, zero: int) -> tuple[int, Array]:
    """Groups of fewer channels than a vector has made one of more, with `zero` where these do not
    meet: how many are left, and their weights [units, taps, depth].
    """
    units, taps, depth = weights.shape
    each = units // groups
    factor = next((f for f in range(1, groups) if groups % f == 0 and f * each >= LANES), groups)
    if factor == 1:
        return groups, weights
    shape = (groups // factor, factor, each, taps, factor, depth)
    wide = np.full(shape, zero, weights.dtype)
    parts = weights.reshape(groups // factor, factor, each, taps, depth)
    for i in range(factor):
        wide[:, i, :, :, i] = parts[:, i]
    return groups // factor, wide.reshape(units, taps, factor * depth)


def _cut(
    product: Product, capability: Capability, weights: Array, data: _Bytes
) -> tuple[Tiling, Array]:
    """How work is dealt, and weights as the kernel reads them."""
    units, window = product.each, product.window
    each = 4 if capability.dot4 else 1  # bytes of a run in a product
    run = product.run
    runs, steps = product.taps * product.depth // run, ceil(run / each)
    tile = choose_tile(LANES, *window.out, units, runs * steps)
    # what lies behind the last run may be outside of the tensor
    copies = window.pads or data.flip != 0 or run % each != 0
    tiling = Tiling.dealt(product, capability, tile, copies)
    if copies:
        tiling = tiling.within(_MOST_COPIED)
    while data.moved and tiling.pixels > _MOST_SUMS and tiling.rows * tiling.columns > 1:
        tiling = tiling.less()
    vectors = ceil(units / LANES)
    # the last vector is moved back to the end
    first = np.minimum(np.arange(vectors) * LANES, max(units - LANES, 0))
    rows = first[:, None] + np.arange(LANES)
    own = weights.reshape(product.groups, units, runs, run)[:, np.minimum(rows, units - 1)]
    packed = np.zeros(
        (product.groups, tiling.blocks * tile.vectors, LANES, runs, steps * each), weights.dtype
    )
    packed[:, :vectors, ..., :run] = np.where((rows < units)[..., None, None], own, 0)
    packed = packed.reshape(-1, tile.vectors, LANES, runs, steps, each)
    return tiling, np.ascontiguousarray(packed.transpose(0, 3, 4, 1, 2, 5))


def depthwise(node: NodeSpec, capability: Capability, window: Window, weights: Array) -> Lowered:
    """Of weights [units, taps], less their zero point."""
    x, units = node.input(0), weights.shape[0]
    rows = node.outputs[0].size // (units * max(window.out[1], 1))
    if units != x.shape[3] or units < LANES or not rows:
        return _few_channels(node, capability, window, weights)
    data = _Bytes(node, weights, scaling, True)
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
        "WT": _weight_type(stored, capability),
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
