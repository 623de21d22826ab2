"""Convolutions of 8-bit integers on CPUs: packed weights, explicit vectors, blocks in registers."""

from __future__ import annotations

import numpy as np

from ._convolution import scaling
from ._convolution_parts import Parts, Scale, direct
from ._window import Window
from .api import NodeSpec
from .device import Capability, Lowered
from .types import Array


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
    if depth != channels:
        return direct(node, capability, window, weights, channels, scale)
    parts = Parts(node, capability, window, weights, True, scale)
    rows = node.outputs[0].size // max(units, 1)
    lanes = 16 if capability.vector_width >= 8 else 8
    vectors = 2 if units > lanes else 1
    block = lanes * vectors
    height = _height(rows, 12 if vectors == 2 else 14)
    blocks = -(-units // block)
    packed = np.zeros((blocks * block, taps * depth), parts.weights.dtype)
    packed[:units] = parts.weights.reshape(units, -1)
    packed = packed.reshape(blocks, block, -1).transpose(0, 2, 1).copy()
    padding = np.full(depth, parts.zero, node.input(0).dtype.numpy)
    return parts.kernel(
        "conv_i8_cpu",
        [0, packed, padding],
        (blocks, -(-rows // height)),
        C=depth,
        MR=height,
        NV=vectors,
        VW=lanes,
        PADS=int(window.pads),
        **{"EACH_ROW(F)": " ".join(f"F({i})" for i in range(height))},
    )


def _height(rows: int, most: int) -> int:
    """Rows of a tile: few tiles, little of the last one idle, weights loaded seldom."""
    return min(range(1, most + 1), key=lambda r: (-(-rows // r) * (r + 2), -r))


def depthwise(node: NodeSpec, capability: Capability, window: Window, weights: Array) -> Lowered:
    """Of weights [units, taps], less their zero point."""
    units, channels = weights.shape[0], node.input(0).shape[3]
    parts = Parts(node, capability, window, weights[:, :, None], False)
    packed = np.ascontiguousarray(parts.weights[:, :, 0].T)
    lanes = next(w for w in (16, 8, 4, 2, 1) if units % w == 0) if units == channels else 1
    rows = node.outputs[0].size // max(units, 1)
    pixels = window.out[1]
    more = {"C": channels, "MULTIPLIER": units // channels, "ZERO": parts.zero}
    grid = (units // lanes, -(-rows // max(pixels, 1)))
    return parts.kernel("depthwise_i8_cpu", [0, packed], grid, **more, VW=lanes, PIXELS=pixels)
