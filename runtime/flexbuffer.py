"""FlexBuffers: the schemaless format in which custom operators keep their options.

Own code, as the reader of the `flatbuffers` package follows offsets without checking them, and its
writer takes ASCII keys alone. The layout: every value has a width of 1, 2, 4 or 8 bytes; offsets
are subtracted from where they stand; the last bytes are the root, its packed type (type << 2 | log2
width) and the width of the root.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_DEPTH = 64
_NULL, _INT, _UINT, _FLOAT, _KEY, _STRING = range(6)
_INDIRECT_INT, _INDIRECT_UINT, _INDIRECT_FLOAT, _MAP, _VECTOR = range(6, 11)
_TYPED, _TYPED_STRING = 11, 15  # vectors of _INT, _UINT, _FLOAT, _KEY, and the old one of strings
_FIXED = 16  # 2, 3 or 4 of _INT, _UINT, _FLOAT
_BLOB, _BOOL, _TYPED_BOOL = 25, 26, 36

# the typed vector that a list of one kind of number becomes
_TYPED_OF = {_INT: _TYPED, _UINT: _TYPED + 1, _FLOAT: _TYPED + 2, _BOOL: _TYPED_BOOL}
_FORMATS = {
    _INT: ["<b", "<h", "<i", "<q"],
    _UINT: ["<B", "<H", "<I", "<Q"],
    _FLOAT: ["", "<e", "<f", "<d"],
}


class FlexBufferError(ValueError):
    """Bytes that are no FlexBuffer."""


def decode(data: bytes) -> Any:
    """The value: None, bool, int, float, str, bytes (a blob), list or dict.

    Strings that are no UTF-8 are escaped. FlexBufferError where an offset leaves the buffer, values
    nest deeper than 64 or the whole is larger than the buffer can hold.
    """
    if len(data) < 3:
        raise FlexBufferError(f"{len(data)} bytes are too few for a FlexBuffer")
    width = data[-1]
    if width not in (1, 2, 4, 8):
        raise FlexBufferError(f"the root's width is {width}; it is 1, 2, 4 or 8")
    return _Decoder(bytes(data)).value(len(data) - 2 - width, width, data[-2], 0)


class _Decoder:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.left = 8 * len(data) + 64  # values: shared ones count each time

    def number(self, kind: int, at: int, width: int) -> Any:
        if at < 0 or at + width > len(self.data):
            raise FlexBufferError(
                f"a value at byte {at} lies outside the buffer of {len(self.data)} bytes"
            )
        code = _FORMATS[kind][width.bit_length() - 1]
        if not code:
            raise FlexBufferError("a float of one byte")
        return struct.unpack_from(code, self.data, at)[0]

    def target(self, at: int, width: int) -> int:
        return at - int(self.number(_UINT, at, width))

    def value(self, at: int, parent_width: int, packed: int, depth: int) -> Any:
        """The value whose inline part stands at `at`."""
        self.left -= 1
        if depth > MAX_DEPTH or self.left < 0:
            raise FlexBufferError("values nest too deep, or share parts without end")
        kind, width = packed >> 2, 1 << (packed & 3)
        if kind == _NULL:
            return None
        if kind in (_INT, _UINT, _FLOAT):
            return self.number(kind, at, parent_width)
        if kind == _BOOL:
            return self.number(_UINT, at, parent_width) != 0
        where = self.target(at, parent_width)
        if _INDIRECT_INT <= kind <= _INDIRECT_FLOAT:
            return self.number(kind - _INDIRECT_INT + _INT, where, width)
        if kind == _KEY:
            return self.key(where)
        if kind in (_STRING, _BLOB):
            raw = self.data[where : where + self.length(where, width, 1)]
            return raw if kind == _BLOB else raw.decode("utf-8", "backslashreplace")
        if kind == _MAP:
            return self.map(where, width, depth)
        if kind == _VECTOR:
            return self.vector(where, width, depth)
        if _TYPED <= kind <= _TYPED_STRING or kind == _TYPED_BOOL:
            item = _BOOL if kind == _TYPED_BOOL else kind - _TYPED + _INT
            return self.typed(item, where, width, self.length(where, width, width), depth)
        if _FIXED <= kind < _BLOB:
            count, item = divmod(kind - _FIXED, 3)
            return self.typed(item + _INT, where, width, count + 2, depth)
        raise FlexBufferError(f"a value of the unknown type {kind}")

    def length(self, where: int, width: int, size: int) -> int:
        """Number of elements, of `size` bytes each, of what starts at `where`."""
        n = int(self.number(_UINT, where - width, width))
        if where < 0 or n * size > len(self.data) - where:
            raise FlexBufferError(
                f"{n} elements at byte {where} do not fit into {len(self.data)} bytes"
            )
        return n

    def key(self, where: int) -> str:
        end = self.data.find(b"\0", where) if where >= 0 else -1
        if end < 0:
            raise FlexBufferError(f"a key at byte {where} does not end")
        self.left -= (end - where) // 8
        return self.data[where:end].decode("utf-8", "backslashreplace")

    def typed(self, kind: int, where: int, width: int, count: int, depth: int) -> list[Any]:
        packed = kind << 2  # the elements of a vector of strings have lengths of one byte
        return [self.value(where + i * width, width, packed, depth + 1) for i in range(count)]

    def vector(self, where: int, width: int, depth: int) -> list[Any]:
        n = self.length(where, width, width + 1)
        kinds = where + n * width
        return [
            self.value(where + i * width, width, self.data[kinds + i], depth + 1) for i in range(n)
        ]

    def map(self, where: int, width: int, depth: int) -> dict[str, Any]:
        keys = self.target(where - 3 * width, width)
        key_width = int(self.number(_UINT, where - 2 * width, width))
        if key_width not in (1, 2, 4, 8):
            raise FlexBufferError(f"the keys of a map are {key_width} bytes wide")
        n = self.length(where, width, width + 1)
        if self.length(keys, key_width, key_width) != n:
            raise FlexBufferError("a map has another number of keys than of values")
        names = [self.key(self.target(keys + i * key_width, key_width)) for i in range(n)]
        return dict(zip(names, self.vector(where, width, depth), strict=True))


def encode(value: Any) -> bytes:
    """The FlexBuffer of a value of dict, list, str, bytes, bool, int, float, None, numpy arrays and
    scalars.

    Lists and arrays of one kind of number become typed vectors. Keys may not contain a NUL.
    OverflowError for integers beyond 64 bits.
    """
    encoder = _Encoder()
    item = encoder.add(value)
    width = max(item.width, encoder.width(0, [item])) if item.place is not None else item.width
    encoder.inline([item], width)
    encoder.out += bytes([item.packed(width), width])
    return bytes(encoder.out)


@dataclass(frozen=True)
class _Item:
    """A value that is written, but for its inline part: a number, or an offset to `place`."""

    kind: int
    width: int  # the least that holds the number; that of what stands at `place`
    number: int | float = 0
    place: int | None = None

    def packed(self, parent_width: int) -> int:
        width = max(self.width, parent_width) if self.place is None else self.width
        return self.kind << 2 | width.bit_length() - 1


class _Encoder:
    def __init__(self) -> None:
        self.out = bytearray()
        self._keys: dict[str, int] = {}

    def add(self, value: Any) -> _Item:
        if isinstance(value, np.generic | np.ndarray):
            value = value.tolist()
        if value is None:
            return _Item(_NULL, 1)
        if isinstance(value, bool):
            return _Item(_BOOL, 1, int(value))
        if isinstance(value, int):
            return self.integer(value)
        if isinstance(value, float):
            try:
                exact = struct.unpack("<f", struct.pack("<f", value))[0] == value
            except OverflowError:
                exact = False
            return _Item(_FLOAT, 4 if exact else 8, value)
        if isinstance(value, str):
            return self.bytes(_STRING, value.encode("utf-8", "surrogateescape"), b"\0")
        if isinstance(value, bytes | bytearray | memoryview):
            return self.bytes(_BLOB, bytes(value), b"")
        if isinstance(value, Mapping):
            return self.map({str(key): item for key, item in value.items()})
        if isinstance(value, Sequence):
            items = [self.add(item) for item in value]
            kinds = {item.kind for item in items}
            return self.vector(items, _TYPED_OF.get(kinds.pop()) if len(kinds) == 1 else None)
        raise TypeError(
            f"a FlexBuffer cannot hold {type(value).__name__}; it takes dict, list, str, bytes, "
            "bool, int, float, None and numpy arrays"
        )

    def integer(self, value: int) -> _Item:
        for width in (1, 2, 4, 8):
            if -(1 << 8 * width - 1) <= value < 1 << 8 * width - 1:
                return _Item(_INT, width, value)
        if 0 <= value < 1 << 64:
            return _Item(_UINT, 8, value)
        raise OverflowError(f"{value} takes more than 64 bits")

    def align(self, width: int) -> None:
        self.out += bytes(-len(self.out) % width)

    def bytes(self, kind: int, raw: bytes, end: bytes) -> _Item:
        width = next(w for w in (1, 2, 4, 8) if len(raw) < 1 << 8 * w)
        self.align(width)
        self.out += len(raw).to_bytes(width, "little")
        place = len(self.out)
        self.out += raw + end
        return _Item(kind, width, place=place)

    def key(self, name: str) -> _Item:
        if name not in self._keys:
            raw = name.encode("utf-8", "surrogateescape")
            if b"\0" in raw:
                raise ValueError(f"the key {name!r} contains a NUL")
            self._keys[name] = len(self.out)
            self.out += raw + b"\0"
        return _Item(_KEY, 1, place=self._keys[name])

    def map(self, values: Mapping[str, Any]) -> _Item:
        # readers search for keys, so they are sorted by their bytes
        names = sorted(values, key=lambda name: name.encode("utf-8", "surrogateescape"))
        items = [self.add(values[name]) for name in names]
        keys = self.vector([self.key(name) for name in names], _TYPED + _KEY - _INT)
        return self.vector(items, None, keys)

    def vector(self, items: Sequence[_Item], typed: int | None, keys: _Item | None = None) -> _Item:
        head: list[_Item] = []
        if keys is not None:
            head = [keys, self.integer(keys.width)]
        head.append(
            _Item(_UINT, next(w for w in (1, 2, 4, 8) if len(items) < 1 << 8 * w), len(items))
        )
        parts = [*head, *items]
        width = self.width(0, parts)
        start = self.inline(parts, width)
        if typed is None:
            self.out += bytes(item.packed(width) for item in items)
        kind = typed or (_VECTOR if keys is None else _MAP)
        return _Item(kind, width, place=start + len(head) * width)

    def width(self, least: int, parts: Sequence[_Item]) -> int:
        """The least width in which all of the parts fit, written from here on."""
        for width in (1, 2, 4, 8):
            at = len(self.out) + -len(self.out) % width
            if width >= least and all(
                part.width <= width
                if part.place is None
                else at + i * width - part.place < 1 << 8 * width
                for i, part in enumerate(parts)
            ):
                return width
        raise OverflowError("the values take more than 64 bits")

    def inline(self, parts: Sequence[_Item], width: int) -> int:
        """Writes the inline parts; where they start."""
        self.align(width)
        start = len(self.out)
        for part in parts:
            if part.place is not None:
                self.out += (len(self.out) - part.place).to_bytes(width, "little")
            elif part.kind == _FLOAT:
                self.out += struct.pack("<f" if width == 4 else "<d", part.number)
            else:
                raw = int(part.number) & (1 << 8 * width) - 1
                self.out += raw.to_bytes(width, "little")
        return start
