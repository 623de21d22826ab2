"""Byte layouts in a model's buffers that are no FlatBuffers: string tensors, control edges."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ..kernels.types import Array
from .flatbuffer import InvalidModelError

Edge = tuple[int, int]
CONTROL_EDGES = "model_control_dependencies"  # the metadata they stand in
_EDGES_VERSION = 1


def string_offsets(raw: Array) -> Array:
    """Where the n strings of a tensor's buffer start, and where the last ends: int64[n + 1].

    The layout: the number n, n + 1 offsets from the start of the buffer (int32), the bytes.
    InvalidModelError where it is broken.
    """
    if raw.size < 4:
        raise InvalidModelError(f"a string buffer of {raw.size} bytes lacks the number of strings")
    count = int(raw[:4].view("<i4")[0])
    header = 4 * (count + 2)
    if count < 0 or header > raw.size:
        raise InvalidModelError(f"a string buffer of {raw.size} bytes claims {count} strings")
    ends = raw[4:header].view("<i4").astype(np.int64)
    if ends[0] < header or ends[-1] > raw.size or (np.diff(ends) < 0).any():
        raise InvalidModelError(
            f"the offsets of the {count} strings in a buffer of {raw.size} bytes do not rise from "
            f"{header} to its end"
        )
    return ends


def decode_strings(raw: Array) -> Array:
    """The strings of a tensor's buffer: an object array of bytes, [n]. Errors: `string_offsets`."""
    cuts = string_offsets(raw).tolist()
    data = raw.tobytes()
    out = np.empty(len(cuts) - 1, object)
    out[:] = [data[a:b] for a, b in itertools.pairwise(cuts)]
    return out


def encode_strings(values: Sequence[bytes]) -> bytes:
    """The inverse of `decode_strings`."""
    header = 4 * (len(values) + 2)
    ends = header + np.cumsum([0, *map(len, values)], dtype=np.int64)
    if ends[-1] >= 1 << 31:
        raise ValueError(f"string tensors hold at most 2 GiB; these take {ends[-1]} bytes")
    head = np.concatenate([[len(values)], ends]).astype("<i4")
    return head.tobytes() + b"".join(values)


def read_control_edges(raw: bytes) -> list[tuple[Edge, ...]] | None:
    """The edges of each subgraph. None where the bytes are of a version other than 1;
    InvalidModelError where they are broken.

    The layout: protobuf varints, signed ones zigzag: version, number of subgraphs, and for each the
    number of edges and their pairs (before, after).
    """
    numbers = _varints(raw)
    if not numbers or numbers[0] != _EDGES_VERSION:
        return None
    at = 1

    def take(n: int) -> list[int]:
        nonlocal at
        if n > len(numbers) - at:
            raise InvalidModelError(
                f"the control edges end early: {n} numbers are wanted, {len(numbers) - at} are left"
            )
        at += n
        return numbers[at - n : at]

    out: list[tuple[Edge, ...]] = []
    for _ in range(take(1)[0]):
        count = take(1)[0]
        ends = [(v >> 1) ^ -(v & 1) for v in take(2 * count)]
        out.append(tuple(zip(ends[::2], ends[1::2], strict=True)))
    if at != len(numbers):
        raise InvalidModelError(f"{len(numbers) - at} numbers follow the control edges")
    return out


def write_control_edges(edges: Sequence[Sequence[Edge]]) -> bytes:
    """The inverse of `read_control_edges`."""
    numbers = [_EDGES_VERSION, len(edges)]
    for pairs in edges:
        numbers.append(len(pairs))
        numbers += [(v << 1) ^ (v >> 31) for pair in pairs for v in pair]
    out = bytearray()
    for v in numbers:
        while v > 127:
            out.append(v & 127 | 128)
            v >>= 7
        out.append(v)
    return bytes(out)


def _varints(raw: bytes) -> list[int]:
    out: list[int] = []
    value = shift = 0
    for byte in raw:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            out.append(value)
            value = shift = 0
        elif shift > 28:
            raise InvalidModelError("the control edges hold a number of more than 32 bits")
    if shift:
        raise InvalidModelError("the control edges end within a number")
    return out
