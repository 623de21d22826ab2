"""Writes the SentencePiece models that the text ops read: FlatBuffers with double-array tries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np


def trie(words: Mapping[bytes, int]) -> list[int]:
    """Units of a double array: label (8 bits), whether a word ends (bit 8), offset (from bit 10);
    the value of a word is a unit of its own, with bit 31.
    """
    units: dict[int, int] = {0: 0}
    bases: set[int] = set()  # each node has its own, as labels alone tell children apart

    def place(prefix: bytes, at: int) -> None:
        n = len(prefix)
        letters = sorted({w[n] for w in words if w[:n] == prefix and len(w) > n})
        labels = [0, *letters] if prefix in words else letters
        base = 1
        while base in bases or any(base ^ label in units for label in labels):
            base += 1
        bases.add(base)
        units[at] |= (at ^ base) << 10
        for label in labels:
            units[base ^ label] = label
        if prefix in words:
            units[at] |= 0x100
            units[base] = words[prefix] | 0x80000000
        for letter in letters:
            place(prefix + bytes([letter]), base ^ letter)

    place(b"", 0)
    # labels of empty places match no byte
    return [units.get(i, 0x80000000) for i in range(max(units) + 1)]


class _Tables:
    def __init__(self) -> None:
        self.b = flatbuffers.Builder(0)

    def vector(self, values: Any, dtype: str) -> int:
        return int(self.b.CreateNumpyVector(np.array(values, dtype)))

    def strings(self, values: Sequence[bytes]) -> int:
        made = [self.b.CreateString(v) for v in values]
        self.b.StartVector(4, len(made), 4)
        for at in reversed(made):
            self.b.PrependUOffsetTRelative(at)
        return int(self.b.EndVector())

    def trie(self, words: Mapping[bytes, int]) -> int:
        nodes = self.vector(trie(words), "<u4")
        self.b.StartObject(1)
        self.b.PrependUOffsetTRelativeSlot(0, nodes, 0)
        return int(self.b.EndObject())


def encoder(
    pieces: Mapping[bytes, int],
    scores: Sequence[float],
    *,
    bos: int = 1,
    eos: int = 2,
    unknown: int = 0,
    penalty: float = -20.0,
    offset: int = 0,
    fewer_spaces: bool = True,
    prefix: bool = True,
    escape: bool = True,
    rules: Mapping[bytes, bytes] | None = None,
    version: int = 0,
) -> bytes:
    """`pieces`: the code of each; `scores`: by code. `rules`: what replaces what."""
    t = _Tables()
    made = {6: t.trie(pieces), 7: t.vector(scores, "<f4")}
    if rules is not None:
        text, places = b"", {}
        for old, new in rules.items():
            places[old] = len(text)
            text += new + b"\0"
        made[11] = t.trie(places)
        made[12] = t.vector(np.frombuffer(text, np.int8), "<i1")
    t.b.StartObject(13)
    t.b.PrependInt8Slot(0, version, 0)
    for field, value in ((1, bos), (2, eos), (5, offset)):
        t.b.PrependInt32Slot(field, value, 0)
    t.b.PrependInt32Slot(3, unknown, -1)
    t.b.PrependFloat32Slot(4, penalty, 0.0)
    for field, flag in ((8, fewer_spaces), (9, prefix), (10, escape)):
        t.b.PrependBoolSlot(field, flag, False)
    for field, at in made.items():
        t.b.PrependUOffsetTRelativeSlot(field, at, 0)
    t.b.Finish(t.b.EndObject())
    return bytes(t.b.Output())


def decoder(pieces: Sequence[bytes], *, offset: int = 0, no_prefix: bool = True) -> bytes:
    """`pieces`: the text of each code."""
    t = _Tables()
    texts = t.strings(pieces)
    t.b.StartObject(6)
    t.b.PrependInt32Slot(1, offset, 0)
    t.b.PrependUOffsetTRelativeSlot(2, texts, 0)
    t.b.PrependBoolSlot(5, no_prefix, False)
    t.b.Finish(t.b.EndObject())
    return bytes(t.b.Output())
