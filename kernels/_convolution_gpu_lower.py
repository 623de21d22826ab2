"""Convolutions of floats and of 8 bits on GPUs: products of matrices, tile by tile."""

from __future__ import annotations

import numpy as np

from ._convolution import scaling
from ._convolution_parts import Parts, Scale, direct
from ._matrix_unit import halves_do
from ._window import Window
from .api import NodeSpec
from .device import Capability, Lowered
from .types import Array

_DEPTH = 16  # words of a tile
_SLICES = 8
_FEW_ROWS = 8  # products of fewer rows wait for the weights, not for arithmetic
_NARROW = 8  # tiles of fewer channels, or of less depth, would be mostly idle


def convolution(
    node: NodeSpec,
    capability: Capability,
    window: Window,
    weights: Array,
    channels: int,
    scale: Scale = scaling,
) -> Lowered:
    """Of weights [units, taps, depth]. Takes groups."""
    units, taps, depth = weights.shape
    groups = channels // depth
    rows = node.outputs[0].size // max(units, 1)
    small = units // groups < _NARROW or taps * depth < _NARROW
    wide = not node.input(0).dtype.is_float and np.abs(weights).max(initial=0) > 127
    few = rows <= _FEW_ROWS
    flat = groups == 1 and window.pointwise and window.stride == (1, 1)
    if small or wide or not node.outputs[0].size or (few and not flat):
        return direct(node, capability, window, weights, channels, scale)
    parts = Parts(node, capability, window, weights, True, scale)
    if few:
        return _slices(parts, channels, rows)
    return _tiles(parts, capability, channels, groups, rows)


def _packed(weights: Array, groups: int, width: int, rounded: int) -> Array:
    """[units, words] as [block of `width` units of a group][word][unit], zeros where none are."""
    units, words = weights.shape
    each = units // groups
    blocks = -(-each // width)
    packed = np.zeros((groups, blocks * width, -(-words // rounded) * rounded), weights.dtype)
    packed[:, :each, :words] = weights.reshape(groups, each, words)
    packed = packed.reshape(groups * blocks, width, -1).transpose(0, 2, 1)
    return np.ascontiguousarray(packed)


def _words(parts: Parts, channels: int, halves: bool) -> tuple[Array, dict[str, object]]:
    """Weights [units, words] and the macros about words: a float, two halves, or four bytes."""
    units, taps, depth = parts.weights.shape
    if not parts.integer and not halves:
        macros: dict[str, object] = {"WORD": "f32", "VALUES": 1, "DEPTH": depth, "PADDING": "0.0f"}
        return parts.weights.reshape(units, -1), macros
    count, stored = (2, np.float16) if halves else (4, np.int8)
    deep = -(-depth // count)
    padded = np.zeros((units, taps, deep * count), stored)
    padded[:, :, :depth] = parts.weights
    # bytes count as signed: 128 less of uint8, which the offset of each channel makes good
    flip, zero = 0, parts.zero
    if parts.defines["XT"] == "u8":
        flip, zero = -0x7F7F7F80, parts.zero - 128
        sums = parts.weights.reshape(units, -1).sum(axis=1, dtype=np.int32)
        parts.constants[0] = parts.constants[0] + 128 * sums
    padding = int(np.full(count, zero, stored).view(np.int32)[0])
    macros = {
        "WORD": "i32",
        "VALUES": count,
        "DEPTH": deep,
        "PADDING": f"({padding})",
        "FLIP": f"({flip})",
        "ALIGNED": int(depth % count == 0 and channels % count == 0),
    }
    return padded.reshape(units, -1).view(np.int32), macros


def _tiles(parts: Parts, capability: Capability, channels: int, groups: int, rows: int) -> Lowered:
    halves = not parts.integer and halves_do(capability, parts.weights)
    words, macros = _words(parts, channels, halves)
    units = words.shape[0]
    width = 64 if units // groups > 32 else 32
    # a tile of half the height where whole ones would leave compute units without work
    blocks = groups * -(-(units // groups) // width)
    height = 64 if -(-rows // 64) * blocks >= capability.compute_units else 32
    unit = halves or (parts.integer and capability.mma)
    threads = width * height // (32 if unit else 16)
    packed = _packed(words, groups, width, _DEPTH)
    if unit:
        parts.uses += ("mma_tile",)
        macros["MMA"] = "MMA_F16" if halves else "MMA_I8"
    return parts.kernel(
        "conv_tiles",
        [0, packed],
        (-(-rows // height) * threads, packed.shape[0]),
        (threads, 1),
        **macros,
        C=channels,
        GROUPS=groups,
        BLOCKS=packed.shape[0] // groups,
        TM=height,
        TN=width,
        TK=_DEPTH,
        THREADS=threads,
        MATRIX_UNIT=int(unit),
        RM=4,
        RN=4,
        ROWS=height // 4,
        COLUMNS=width // 4,
    )


def _slices(parts: Parts, channels: int, rows: int) -> Lowered:
    words, macros = _words(parts, channels, False)
    packed = _packed(words, 1, 32, 1)
    group = 32 * _SLICES
    return parts.kernel(
        "dense_slices",
        [0, packed],
        (packed.shape[0] * group, rows),
        (group, 1),
        **macros,
        C=channels,
        SLICES=_SLICES,
    )
