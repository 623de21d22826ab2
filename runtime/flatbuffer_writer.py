"""Writes FlatBuffers tables, and turns tables that were read into what can be written.

A table is a dict of the fields that are there, by their schema names: numbers, enums by number or
name, bytes or str, arrays or sequences of numbers, dicts, lists of dicts, and for a union a pair
(name of the table, dict).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .flatbuffer import Rows
from .schema import UNIONS, Field, table

Values = dict[str, Any]
MAX_SIZE = (1 << 31) - 1  # offsets are signed in other readers
_ALIGN = {"data": 16, "custom": 16}  # vectors that the schema aligns beyond their elements


def write(name: str, values: Mapping[str, Any], identifier: bytes) -> bytearray:
    """The FlatBuffer with root table `name`. ValueError where it would exceed 2 GiB."""
    writer = _Writer()
    writer.out += b"\0\0\0\0" + identifier
    writer.table(0, name, values)
    if len(writer.out) > MAX_SIZE:
        raise ValueError(f"the FlatBuffer takes {len(writer.out)} bytes; at most {MAX_SIZE} fit")
    return writer.out


class _Writer:
    # Parents come before their children, so that offsets point forward as the format wants.
    def __init__(self) -> None:
        self.out = bytearray()
        self._vtables: dict[bytes, int] = {}

    def align(self, to: int, ahead: int = 0) -> None:
        """Pads so that `ahead` bytes from here is a multiple of `to`."""
        self.out += bytes(-(len(self.out) + ahead) % to)

    def link(self, slot: int, target: int) -> None:
        struct.pack_into("<I", self.out, slot, target - slot)

    def table(self, slot: int, name: str, values: Mapping[str, Any]) -> None:
        """Writes a table, to which the offset at `slot` then points."""
        kind = table(name)
        unknown = values.keys() - kind.by_name.keys()
        if unknown:
            raise ValueError(
                f"{name} has no field {min(unknown)!r}; it has {', '.join(kind.by_name)}"
            )
        scalars: list[tuple[Field, bytes]] = []
        children: list[tuple[Field, Any]] = []
        for field in kind.fields:
            value = values.get(field.name)
            if value is None:
                continue
            if field.kind == "scalar":
                number = _number(field, value, name)
                if number != field.default:
                    scalars.append((field, _pack(field, number, name)))
            elif field.kind == "union":
                tag = UNIONS[field.of].index(value[0]) + 1
                tag_field = kind.by_name[field.name + "_type"]
                scalars.append((tag_field, bytes([tag])))
                children.append((field, value))
            else:
                children.append((field, value))
        place, inline = self._inline(scalars, children)
        for field, value in children:
            self.child(place + inline[field.slot], field, value)
        self.link(slot, place)

    def _inline(
        self, scalars: Sequence[tuple[Field, bytes]], children: Sequence[tuple[Field, Any]]
    ) -> tuple[int, dict[int, int]]:
        """Writes the vtable and the table itself, with room for offsets; where it is, and each slot
        in it.
        """
        parts = [(f.slot, raw) for f, raw in scalars] + [(f.slot, bytes(4)) for f, _ in children]
        parts.sort(key=lambda part: -len(part[1]))  # so that none needs padding before it
        widest = max((len(raw) for _, raw in parts), default=4)
        at = max(4, widest)
        inline: dict[int, int] = {}
        for slot, raw in parts:
            inline[slot] = at
            at += len(raw)
        vsize = 4 + 2 * (1 + max(inline, default=-1))
        entries = [inline.get(slot, 0) for slot in range(vsize // 2 - 2)]
        vtable = struct.pack(f"<{vsize // 2}H", vsize, at, *entries)
        where = self._vtables.get(vtable)
        if where is None:
            self.align(2)
            where = self._vtables[vtable] = len(self.out)
            self.out += vtable
        self.align(max(4, widest))
        place = len(self.out)
        self.out += struct.pack("<i", place - where) + bytes(max(4, widest) - 4)
        self.out += b"".join(raw for _, raw in parts)
        return place, inline

    def child(self, slot: int, field: Field, value: Any) -> None:
        if field.kind == "table":
            self.table(slot, field.of, value)
        elif field.kind == "union":
            self.table(slot, *value)
        elif field.kind == "tables":
            self.align(4)
            start = len(self.out)
            self.link(slot, start)
            self.out += struct.pack("<I", len(value)) + bytes(4 * len(value))
            for i, item in enumerate(value):
                self.table(start + 4 + 4 * i, field.of, item)
        elif field.kind == "string":
            raw = value.encode() if isinstance(value, str) else bytes(value)
            self.vector(slot, raw + b"\0", len(raw), 4)
        else:
            elements = _elements(field, value)
            align = max(field.dtype.itemsize, _ALIGN.get(field.name, 4))
            self.vector(slot, elements.data.cast("B"), elements.size, align)

    def vector(self, slot: int, raw: Any, length: int, align: int) -> None:
        self.align(align, 4)
        self.link(slot, len(self.out))
        self.out += struct.pack("<I", length)
        self.out += raw


def _number(field: Field, value: Any, name: str) -> Any:
    if field.enum is None or not isinstance(value, str):
        return value
    names = field.enum.names
    if value not in names:
        raise ValueError(f"{name}.{field.name} is {value!r}; it takes {', '.join(names)}")
    return names.index(value)


def _pack(field: Field, value: Any, name: str) -> bytes:
    raw = np.asarray(value)
    if field.dtype.kind in "iu":
        if raw.dtype.kind not in "iub":
            raise TypeError(f"{name}.{field.name} is an integer; {value!r} is none")
        limits = np.iinfo(field.dtype)
        if not limits.min <= int(value) <= limits.max:
            raise ValueError(f"{name}.{field.name} is {value}, beyond {field.dtype.name}")
    return raw.astype(field.dtype).tobytes()


def _elements(field: Field, value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, bytes | bytearray | memoryview):
        return np.frombuffer(value, field.dtype)
    if field.enum is not None:
        value = [_number(field, v, field.of) for v in value]
    return np.ascontiguousarray(np.asarray(value, field.dtype).reshape(-1))


def read_tables(rows: Rows) -> list[Values]:
    """Every field of each row, as `write` takes it. Vectors are views; a union's table that the
    schema lacks is left out.
    """
    out: list[Values] = [{} for _ in range(len(rows))]
    for field in rows.table.fields:
        name = field.name
        if field.kind == "scalar":
            if name.endswith("_type") and name[:-5] in rows.table.by_name:
                continue  # the tag of a union
            for values, number in zip(out, rows.scalar(name).tolist(), strict=True):
                if number != field.default:
                    values[name] = number
        elif field.kind in ("string", "vector"):
            vector = rows.vector(name)
            data = rows.reader.data
            places = zip(vector.start.tolist(), vector.length.tolist(), strict=True)
            for values, (start, length) in zip(out, places, strict=True):
                if start:
                    raw = data[start : start + length * field.dtype.itemsize]
                    values[name] = (
                        raw.tobytes() if field.kind == "string" else raw.view(field.dtype)
                    )
        elif field.kind == "union":
            for kind, members in rows.members(name).items():
                tables = read_tables(members)
                for parent, item in zip(members.parent_rows.tolist(), tables, strict=True):
                    out[parent][name] = (kind, item)
        else:
            _read_children(rows, field, out)
    return out


def _read_children(rows: Rows, field: Field, out: Sequence[Values]) -> None:
    children = rows.children(field.name)
    tables = read_tables(children)
    if field.kind == "table":
        for parent, item in zip(children.parent_rows.tolist(), tables, strict=True):
            out[parent][field.name] = item
        return
    present = rows.vector(field.name).start.tolist()
    cuts = children.row_bounds.tolist()
    for i, values in enumerate(out):
        if present[i]:
            values[field.name] = tables[cuts[i] : cuts[i + 1]]
