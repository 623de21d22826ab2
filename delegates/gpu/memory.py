"""A partition's memory on the device: one arena for its tensors, one block for its constants."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...kernels.api import TensorSpec
from ...kernels.types import Array, DType
from ...runtime.memory import Block, plan
from .device import Device
from .fuse import Fuser, Item

# buffers that are no tensors: the whole arena, and all constants
ARENA, CONSTANTS = -2, -3
_Parts = Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class Memory:
    """`buffers`: parts of the arena and of the block of constants, by tensor, and these two.
    `places`: in which of the two a tensor is, and at which byte."""

    buffers: Mapping[int, Any]
    places: Mapping[int, tuple[int, int]]
    arena_bytes: int
    constant_bytes: int


def allocate(
    device: Device, items: Sequence[Item], fuser: Fuser, crossing: Collection[int]
) -> Memory:
    """Tensors that are never needed at once share memory; those that cross are always there."""
    unit = device.alignment
    blocks, arena_bytes = _arena(_specs(items, fuser), fuser, crossing, unit)
    constants, constant_bytes = _packed(fuser.constants, unit)
    buffers: dict[int, Any] = {}
    if blocks:
        buffers[ARENA] = device.allocate(arena_bytes)
    if constants:
        buffers[CONSTANTS] = _uploaded(device, fuser.constants, constants, constant_bytes)
    places: dict[int, tuple[int, int]] = {}
    for base, parts in ((ARENA, blocks), (CONSTANTS, constants)):
        for key, (offset, nbytes) in parts.items():
            buffers[key] = device.view(buffers[base], offset, nbytes)
            places[key] = base, offset
    return Memory(buffers, places, arena_bytes, constant_bytes)


def _arena(
    specs: Mapping[int, tuple[int, DType]],
    fuser: Fuser,
    crossing: Collection[int],
    unit: int,
) -> tuple[_Parts, int]:
    """Of each tensor offset and bytes, and how much that is."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for root in crossing:
        if root not in fuser.constants:
            first[root], last[root] = -1, len(fuser.kernels)
    for at, fused in enumerate(fuser.kernels):
        for key in (fused.output.key, *(o.key for o in fused.reads)):
            if key in fuser.constants:
                continue
            first.setdefault(key, at)
            last[key] = max(last.get(key, at), at)
    blocks = {}
    for key in first:
        size, dtype = specs[key]
        nbytes = max(size * dtype.numpy.itemsize, 1)
        blocks[key] = Block(-(-nbytes // unit) * unit, first[key], last[key])
    if not blocks:
        return {}, 0
    top = plan(list(blocks.values()))
    return {k: (b.offset, b.size) for k, b in blocks.items()}, top


def _packed(constants: Mapping[int, Array], unit: int) -> tuple[_Parts, int]:
    parts, top = {}, 0
    for key, array in constants.items():
        parts[key] = top, max(array.nbytes, 1)
        top += -(-max(array.nbytes, 1) // unit) * unit
    return parts, top


def _uploaded(device: Device, constants: Mapping[int, Array], parts: _Parts, top: int) -> Any:
    """All constants in one buffer, copied once."""
    packed = np.zeros(top, np.uint8)
    for key, array in constants.items():
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        offset, _ = parts[key]
        packed[offset : offset + raw.size] = raw
    buffer = device.allocate(top)
    device.upload(buffer, packed)
    device.synchronise()
    return buffer


def _specs(items: Sequence[Item], fuser: Fuser) -> dict[int, tuple[int, DType]]:
    """Size and type of every tensor."""
    found: dict[int, tuple[int, DType]] = {}

    def note(key: int, spec: TensorSpec | None) -> None:
        if spec is not None:
            found.setdefault(key, (spec.size, spec.dtype))

    for item in items:
        for keys, tensors in ((item.inputs, item.spec.inputs), (item.outputs, item.spec.outputs)):
            for key, spec in zip(keys, tensors, strict=True):
                note(key, spec)
    for fused in fuser.kernels:
        for operand in (fused.output, *fused.reads):
            known = found.setdefault(operand.key, (math.prod(operand.shape), operand.dtype))
            if operand.dtype is DType.FLOAT16:  # where half storage is asked for
                found[operand.key] = known[0], operand.dtype
    return found
