"""Depthwise convolutions of floats and of 8 bits on GPUs: strips of several pixels and channels."""

from __future__ import annotations

from math import ceil

import numpy as np

from ._convolution_parts import Parts
from ._window import Window
from .api import NodeSpec
from .device import Capability, Lowered
from .types import Array

_CHANNELS = 4  # of a work-item: one load of 4, 8 or 16 bytes
_HELD = 9  # taps whose weights stay in registers, for four channels
_ROW = 9  # taps of a row whose weights do
_SIDES = (4, 2, 1)  # pixels of a strip, side by side
_WIDEST = 16  # columns that a strip reads
_RESIDENT = 256  # work-items that a compute unit wants, to work while others wait for memory


def depthwise(node: NodeSpec, capability: Capability, window: Window, weights: Array) -> Lowered:
    """Of weights [units, taps]."""
    units, channels = weights.shape[0], node.input(0).shape[3]
    parts = Parts(node, capability, window, weights[:, :, None], False)
    packed = np.ascontiguousarray(parts.weights[:, :, 0].T)
    lanes = _CHANNELS if units == channels and channels % _CHANNELS == 0 else 1
    (high, wide), (down, across) = window.kernel, window.out
    held, loose = high * wide <= _HELD, wide > _ROW
    images = node.outputs[0].shape[0]
    wanted = capability.compute_units * _RESIDENT

    def strips(rows: int, side: int) -> int:
        return images * ceil(down / rows) * ceil(across / side)

    side = 1
    if not loose:
        seen = (wide - 1) * window.dilation[1] + 1
        fits = [s for s in _SIDES if (s - 1) * window.stride[1] + seen <= _WIDEST] or [1]
        enough = (s for s in fits if strips(1, s) * (units // lanes) >= wanted)
        side = next(enough, 1)
    # two rows, where they share what they read
    share = held and (high - 1) * window.dilation[0] >= window.stride[0]
    rows = 2 if share and strips(2, side) * (units // lanes) >= wanted else 1
    return parts.kernel(
        "depthwise_strips",
        [0, packed],
        (units // lanes, strips(rows, side)),
        None,
        C=channels,
        MULTIPLIER=units // channels,
        ZERO=parts.zero,
        V=lanes,
        TX=side,
        TY=rows,
        ACROSS=ceil(across / side),
        DOWN=ceil(down / rows),
        HELD=int(held and not loose),
        LOOSE=int(loose),
    )
