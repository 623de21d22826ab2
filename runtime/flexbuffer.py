"""FlexBuffers: the schemaless format in which custom operators keep their options.

The `flatbuffers` package writes them; its reader follows offsets without checking them, so reading
is own code. The layout: every value has a width of 1, 2, 4 or 8 bytes; offsets are subtracted from
where they stand; the last bytes are the root, its packed type (type << 2 | log2 width) and the
width of the root.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MAX_DEPTH = 64
_BIG = 1 << 63  # from here on integers are unsigned
_FLOAT32 = float(np.finfo(np.float32).max)
_NULL, _INT, _UINT, _FLOAT, _KEY, _STRING = range(6)
_INDIRECT_INT, _INDIRECT_UINT, _INDIRECT_FLOAT, _MAP, _VECTOR = range(6, 11)
_TYPED, _TYPED_STRING = 11, 15  # vectors of _INT, _UINT, _FLOAT, _KEY, and the old one of strings
_FIXED = 16  # 2, 3 or 4 of _INT, _UINT, _FLOAT
_BLOB, _BOOL, _TYPED_BOOL = 25, 26, 36

_FORMATS = {
    _INT: ["<b", "<h", "<i", "<q"],
    _UINT: ["<B", "<H", "<I", "<Q"],
    _FLOAT: ["", "<e", "<f", "<d"],
}


class FlexBufferError(ValueError):
    """Bytes that are no FlexBuffer."""


def decode(data: bytes, raw: bool = False) -> Any:
    """The value: None, bool, int, float, str, bytes (a blob), list or dict.

    Strings that are no UTF-8 are escaped; with `raw` all strings are bytes. FlexBufferError where
    an offset leaves the buffer, values nest deeper than 64 or the whole is larger than the buffer
    can hold.
    """
    if len(data) < 3:
        raise FlexBufferError(f"{len(data)} bytes are too few for a FlexBuffer")
    width = data[-1]
    if width not in (1, 2, 4, 8):
        raise FlexBufferError(f"the root's width is {width}; it is 1, 2, 4 or 8")
    return _Decoder(bytes(data), raw).value(len(data) - 2 - width, width, data[-2], 0)


class _Decoder:
    def __init__(self, data: bytes, raw: bool) -> None:
        self.data = data
        self.raw = raw
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
            as_bytes = kind == _BLOB or self.raw
            return raw if as_bytes else raw.decode("utf-8", "backslashreplace")
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
    OverflowError for integers beyond 64 bits, UnicodeEncodeError for lone surrogates, ValueError
    for values that nest deeper than `decode` reads, or without end.
    """
    from flatbuffers.flexbuffers import Builder

    builder = Builder()
    _add(builder, _plain(value))
    return bytes(builder.Finish())


def _plain(value: Any, around: tuple[int, ...] = ()) -> Any:
    """The value in the types that the package takes, with keys as bytes: str keys are ASCII there.

    Settled for all of it first, since an error between a key and its value becomes another there.
    """
    if len(around) > MAX_DEPTH:
        raise ValueError(f"a FlexBuffer's values nest {MAX_DEPTH} deep at most")
    if id(value) in around:
        raise ValueError(f"a FlexBuffer cannot hold a {type(value).__name__} that holds itself")
    inside = (*around, id(value))  # of all that this value stands in
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, str):
        value.encode()  # UnicodeEncodeError where it is no text
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        if not -_BIG <= value < 2 * _BIG:
            raise OverflowError(f"{value} takes more than 64 bits")
        return int(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, Mapping):
        return {_key(str(key)): _plain(item, inside) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_plain(item, inside) for item in value]
    raise TypeError(
        f"a FlexBuffer cannot hold {type(value).__name__}; it takes dict, list, str, bytes, bool, "
        "int, float, None and numpy arrays"
    )


def _key(name: str) -> bytes:
    if "\0" in name:
        raise ValueError(f"the key {name!r} contains a NUL")
    return name.encode()


def _add(builder: Any, value: Any) -> None:
    if isinstance(value, dict):
        with builder.Map():
            for key, item in value.items():
                builder.Key(key)
                _add(builder, item)
    elif isinstance(value, list):
        kinds = {type(item) for item in value}
        typed = kinds in ({bool}, {float}) or (kinds == {int} and max(value) < _BIG)
        with builder.TypedVector() if typed else builder.Vector():
            for item in value:
                _add(builder, item)
    elif isinstance(value, int) and value >= _BIG:
        builder.UInt(value)
    elif isinstance(value, float) and abs(value) > _FLOAT32:
        builder.Float(value, 8)  # whether it fits into four bytes is asked by an overflow there
    else:
        builder.Add(value)
