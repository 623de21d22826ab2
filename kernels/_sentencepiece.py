"""SentencePiece unigram models as TensorFlow Text writes them into `.tflite` files.

The model is a FlatBuffer of its own: for encoding the pieces as a double-array trie (as in Darts)
with their scores, and rules of normalisation as a second trie; for decoding the text of each piece.
All text is UTF-8, taken byte by byte. (Kudo, Subword Regularization, arXiv:1804.10959.)
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .api import OpError
from .types import Array

_SPACE = "\u2581".encode()
_MANY_SPACES = re.compile(rb"[ \t\r\n]{2,}")
_ANY_SPACE = re.compile(rb"[ \t\r\n]")


class _Table:
    """A FlatBuffer table; fields by their numbers."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        self.vtable = at - self._number("<i", at)
        self.fields = self._number("<H", self.vtable) // 2 - 2

    def _number(self, kind: str, at: int) -> Any:
        if at < 0:
            raise struct.error("before the start")
        return struct.unpack_from(kind, self.data, at)[0]

    def _place(self, field: int) -> int:
        if field >= self.fields:
            return 0
        offset = int(self._number("<H", self.vtable + 4 + 2 * field))
        return self.at + offset if offset else 0

    def _target(self, place: int) -> int:
        return place + int(self._number("<I", place))

    def value(self, field: int, kind: str, default: Any) -> Any:
        place = self._place(field)
        return self._number(kind, place) if place else default

    def table(self, field: int) -> _Table | None:
        place = self._place(field)
        return _Table(self.data, self._target(place)) if place else None

    def vector(self, field: int, dtype: str) -> Array:
        place = self._place(field)
        if not place:
            return np.zeros(0, dtype)
        at = self._target(place)
        size = int(self._number("<I", at))
        if size * np.dtype(dtype).itemsize > len(self.data) - at - 4:
            raise struct.error("a vector ends behind the buffer")
        return np.frombuffer(self.data, dtype, size, at + 4)

    def strings(self, field: int) -> list[bytes]:
        place = self._place(field)
        if not place:
            return []
        start = self._target(place)
        found = []
        for i in range(len(self.vector(field, "<u4"))):
            at = self._target(start + 4 + 4 * i)
            found.append(self.data[at + 4 : at + 4 + int(self._number("<I", at))])
        return found


def _root(data: bytes, what: str) -> _Table:
    table = _Table(data, struct.unpack_from("<I", data)[0])
    version = table.value(0, "<b", 0)
    if version != 0:
        raise OpError(f"the {what} has version {version}; taken: 0")
    return table


class _Trie:
    """A double array: each unit has a label, an offset to its children and whether a word ends."""

    def __init__(self, table: _Table | None) -> None:
        self.units: list[int] = [] if table is None else table.vector(0, "<u4").tolist()

    def matches(self, text: bytes, start: int) -> Iterator[tuple[int, int]]:
        """The words that `text` has from `start` on: their values and ends, the shortest first."""
        units = self.units
        if not units:
            return
        at = _offset(units[0])
        for end in range(start, len(text)):
            at ^= text[end]
            if at >= len(units) or units[at] & 0x800000FF != text[end]:
                return
            unit = units[at]
            at ^= _offset(unit)
            if at >= len(units):
                return
            if unit & 0x100:
                yield units[at] & 0x7FFFFFFF, end + 1


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 0x200) >> 6)


class Encoder:
    """Text to codes."""

    def __init__(self, data: bytes) -> None:
        try:
            self._read(_root(data, "encoder"))
        except struct.error as e:
            raise OpError(f"input 0 is no SentencePiece encoder of TensorFlow Text: {e}") from e

    def _read(self, root: _Table) -> None:
        self.bos, self.eos = root.value(1, "<i", 0), root.value(2, "<i", 0)
        self.unknown, self.penalty = root.value(3, "<i", -1), np.float32(root.value(4, "<f", 0))
        self.offset = root.value(5, "<i", 0)
        self.pieces = _Trie(root.table(6))
        self.scores = [np.float32(s) for s in root.vector(7, "<f4")]
        self.fewer_spaces, self.prefix, self.escape = (
            root.value(i, "<?", False) for i in (8, 9, 10)
        )
        self.rules = _Trie(root.table(11))
        self.replacements = root.vector(12, "<i1").tobytes()

    def encode(self, text: bytes, bos: bool, eos: bool, reverse: bool) -> list[int]:
        codes = self._best(self.normalized(text))
        codes = [self.bos] * bos + codes + [self.eos] * eos
        return codes[::-1] if reverse else codes

    def normalized(self, text: bytes) -> bytes:
        if not text:
            return text
        if self.prefix:
            text = b" " + text
        if self.rules.units:
            text = self._replaced(text)
        if self.fewer_spaces:
            text = _MANY_SPACES.sub(b" ", text)
            if text[-1:] in (b" ", b"\t", b"\r", b"\n"):
                text = text[:-1]
        return _ANY_SPACE.sub(_SPACE, text) if self.escape else text

    def _replaced(self, text: bytes) -> bytes:
        """The longest rule that fits at each place, from left to right."""
        out, at = bytearray(), 0
        while at < len(text):
            value, end = max(self.rules.matches(text, at), key=lambda m: m[1], default=(-1, at))
            if end == at or value >= len(self.replacements):
                out.append(text[at])
                at += 1
                continue
            out += self.replacements[value : self.replacements.find(b"\0", value)]
            at = end
        return bytes(out)

    def _best(self, text: bytes) -> list[int]:
        """The pieces of the greatest total score; bytes without a piece are unknown, a row of them
        is one code.
        """
        size = len(text)
        # for each place the best way there: its score, its last code and where that begins
        score = [np.float32(0)] * (size + 1)
        code, back = [-1] * (size + 1), [-1] * (size + 1)
        for i in range(size):
            if i and back[i] < 0:
                continue
            if self.unknown >= 0:
                total = score[i] + self.penalty
                if back[i + 1] < 0 or score[i + 1] < total:
                    begin = back[i] if code[i] == self.unknown else i
                    score[i + 1], code[i + 1], back[i + 1] = total, self.unknown, begin
            for piece, end in self.pieces.matches(text, i):
                if piece >= len(self.scores):
                    continue
                total = score[i] + self.scores[piece]
                if back[end] < 0 or score[end] < total:
                    score[end], code[end], back[end] = total, piece, i
        codes: list[int] = []
        at = size if back[size] >= 0 else 0
        while at > 0:
            codes.append(code[at] if code[at] == self.unknown else code[at] + self.offset)
            at = back[at]
        return codes[::-1]


class Decoder:
    """Codes to text."""

    def __init__(self, data: bytes) -> None:
        try:
            root = _root(data, "decoder")
            self.offset = root.value(1, "<i", 0)
            # as C strings
            self.pieces = [p.split(b"\0", 1)[0] for p in root.strings(2)]
            self.no_prefix = root.value(5, "<?", False)
        except struct.error as e:
            raise OpError(f"input 0 is no SentencePiece decoder of TensorFlow Text: {e}") from e

    def decode(self, codes: Sequence[int]) -> bytes:
        for code in codes:
            if not 0 <= code - self.offset < len(self.pieces):
                raise OpError(
                    f"the code {code} is unknown; there are {len(self.pieces)}, from {self.offset}"
                )
        text = b"".join(self.pieces[c - self.offset] for c in codes)
        starts = bool(codes) and self.pieces[codes[0] - self.offset].startswith(b" ")
        return text[1:] if self.no_prefix and starts else text
