"""Convolutions of floats on CPUs: packed weights, explicit vectors, blocks in registers."""

from __future__ import annotations

from dataclasses import replace

from ._convolution_parts import direct, finishing
from ._depthwise_float_lower import depthwise
from ._lower import values
from ._register_tiles import lanes_of
from ._tiled_lower import MOST_COPIED, Product, Tiling, rows_of
from ._window import Window
from .api import NodeSpec
from .device import Capability, Lowered, Map, Read
from .types import Array, DType


def convolution(
    node: NodeSpec,
    capability: Capability,
    window: Window,
    weights: Array,
    channels: int,
) -> Lowered:
    """Of weights [units, taps, depth] and an input of `channels`."""
    units, depth = weights.shape[0], weights.shape[2]
    groups = channels // depth
    pixels = node.outputs[0].size // units
    if pixels and groups > 1 and depth == 1:
        return depthwise(node, capability, window, weights[:, :, 0])
    if not pixels or (groups > 1 and units // groups < 4):
        return direct(node, capability, window, weights, channels)
    images = pixels // (window.out[0] * window.out[1])
    if window.pointwise and window.stride == (1, 1):  # all pixels are one row
        window, images = rows_of(pixels), 1
    elif window.size[1] == window.kernel[1] == window.out[1] == 1:
        window = window.turned()
    tiling = Tiling.of(Product(window, images, channels, units, groups), capability)
    steps: list[Map] = []
    scratch: list[tuple[tuple[int, ...], DType]] = []
    source = 0
    if window.pads and tiling.copied > 2 * MOST_COPIED:
        # one tile sees more than a work-item should hold: kernels far apart, or many channels
        shape, steps, window = _around(window, images, channels)
        tiling = Tiling.of(Product(window, images, channels, units, groups), capability)
        scratch, source = [(shape, DType.FLOAT32)], len(node.inputs)
    stored = node.optional(2)
    bias = None if stored is None else values(stored)
    packed = tiling.pack(weights.reshape(units, -1))
    finish = finishing(node.options.fused_activation_function, lanes_of(capability))
    return Lowered([*steps, tiling.kernel((source, packed), bias, finish)], scratch=scratch)


def _around(
    window: Window, images: int, channels: int
) -> tuple[tuple[int, int, int, int], list[Map], Window]:
    """Shape of the input with zeros around, the steps that make it in output 1, and its window."""
    (top, left), (high, wide) = window.before, window.size
    size = [window.span(i, 0, window.out[i])[1] + window.before[i] for i in (0, 1)]
    height, width = max(size[0], top + high), max(size[1], left + wide)
    shape = (images, height, width, channels)
    strides = (height * width * channels, width * channels, channels, 1)
    inner = Map(
        reads=(Read(0),),
        shape=(images, high, wide, channels),
        strides=strides,
        offset=(top * width + left) * channels,
        output=1,
    )
    steps = [Map("0.0f", (), shape=shape, output=1), inner]
    return shape, steps, replace(window, size=(height, width), before=(0, 0))
