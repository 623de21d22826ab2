"""Convolutions of floats and of 8 bits on GPUs: products of matrices, tile by tile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._convolution import scaling
from ._convolution_parts import Parts, Scale, direct
from ._matrix_unit import halves_do
from ._window import Window
from .api import NodeSpec
from .device import Capability, Kernel, Lowered
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
    return Lowered([_tiles(parts, capability, channels, groups, rows)])


def transposed(
    node: NodeSpec, capability: Capability, source: int, window: Window, weights: Array
) -> Lowered | None:
    """A transposed convolution of input number `source`, of inputs [x, weights, bias] in `node`.

    `window`: of the convolution whose transpose it is, over the output; weights [units, height,
    width, channels]. All output pixels at the same place between two steps of the window see the
    same taps: they are a convolution of the input, in steps of one. None where one of these would
    leave tiles idle.
    """
    units, high, wide, channels = weights.shape
    size, images = node.input(0).shape[1:3], node.input(0).shape[0]
    integer = not node.input(0).dtype.is_float
    if integer and np.abs(weights).max(initial=0) > 127:
        return None
    if units < _NARROW or channels < _NARROW or not node.outputs[0].size:
        return None
    steps = []
    for down in range(window.stride[0]):
        for side in range(window.stride[1]):
            rows, columns = (
                _seen(window, axis, at, kernel)
                for axis, (at, kernel) in enumerate(((down, high), (side, wide)))
            )
            if not rows.count or not columns.count:
                continue
            taps = weights[:, rows.taps][:, :, columns.taps]
            if not taps.size:  # between kernels: there is the bias alone
                taps = np.zeros((units, 1, 1, channels), weights.dtype)
            place = Window(
                (size[0], size[1]),
                (taps.shape[1], taps.shape[2]),
                (1, 1),
                (1, 1),
                (rows.before, columns.before),
                (rows.count, columns.count),
            )
            flat = taps.reshape(units, -1, channels)
            parts = Parts(node, capability, place, flat, True)
            parts.place = (
                f"(((m) / {rows.count * columns.count} * {window.size[0]} + (m) / {columns.count} "
                f"% {rows.count} * {window.stride[0]} + {down}) * {window.size[1]} + (m) "
                f"% {columns.count} * {window.stride[1]} + {side})"
            )
            pixels = images * rows.count * columns.count
            steps.append(_tiles(parts, capability, channels, 1, pixels, source))
    return Lowered(steps)


@dataclass(frozen=True, slots=True)
class _Seen:
    """Of the outputs `at`, `at` + stride … along an axis: how many there are, which taps they see,
    the last one first, and how far before the input the first window of these begins."""

    count: int
    taps: list[int]
    before: int


def _seen(window: Window, axis: int, at: int, kernel: int) -> _Seen:
    stride, before = window.stride[axis], window.before[axis]
    taps = list(range((at + before) % stride, kernel, stride))[::-1]
    # output `at` meets tap k at input (at + before - k) / stride
    first = (at + before - taps[0]) // stride if taps else 0
    return _Seen(len(range(at, window.size[axis], stride)), taps, -first)


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


def _tiles(
    parts: Parts, capability: Capability, channels: int, groups: int, rows: int, source: int = 0
) -> Kernel:
    """For so many `rows` of input `source`."""
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
    (kernel,) = parts.kernel(
        "conv_tiles",
        [source, packed],
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
        M=rows,
        **{"PLACE(m)": parts.place},
    ).steps
    assert isinstance(kernel, Kernel)
    return kernel


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
