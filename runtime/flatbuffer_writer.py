"""Writes FlatBuffers tables, and turns tables that were read into what can be written.

A table is a dict of the fields that are there, by their schema names: numbers, enums by number or
name, bytes or str, arrays or sequences of numbers, dicts, lists of dicts, and for a union a pair
(name of the table, dict).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index, itemgetter
from typing import Any

import numpy as np

from .flatbuffer import Rows
from .schema import UNIONS, Field, table

Values = dict[str, Any]
MAX_SIZE = (1 << 31) - 1  # offsets are signed in other readers
_ALIGN = {"data": 16, "custom": 16}  # vectors that the schema aligns beyond their elements


def write(name: str, values: Mapping[str, Any], identifier: bytes, room: int = 1024) -> bytes:
    """The FlatBuffer with root table `name`. ValueError where it would exceed 2 GiB.

    `room`: about how many bytes it takes, which saves growing to them.
    """
    from flatbuffers.builder import Builder, BuilderSizeError

    builder = Builder(min(room, Builder.MAX_BUFFER_SIZE))
    try:
        builder.Finish(_table(builder, name, values), identifier)
        if builder.Offset() > MAX_SIZE:
            raise BuilderSizeError
    except BuilderSizeError:
        raise ValueError(f"the FlatBuffer would exceed the {MAX_SIZE} bytes that fit") from None
    return bytes(memoryview(builder.Bytes)[builder.Head() :])


def _table(builder: Any, name: str, values: Mapping[str, Any]) -> int:
    """Writes a table after what it refers to; where it is, as the builder counts."""
    kind = table(name)
    unknown = values.keys() - kind.by_name.keys()
    if unknown:
        raise ValueError(f"{name} has no field {min(unknown)!r}; it has {', '.join(kind.by_name)}")
    slots: list[tuple[int, str, int, Any, Any]] = []  # width, type, slot, value, default
    for field in kind.fields:
        value = values.get(field.name)
        if value is None:
            continue
        if field.kind == "scalar":
            type_, number = field.dtype.name.capitalize(), _scalar(field, value, name)
            slots.append((field.dtype.itemsize, type_, field.slot, number, field.default))
            continue
        if field.kind == "union":
            slots.append((1, "Uint8", field.slot - 1, UNIONS[field.of].index(value[0]) + 1, 0))
        slots.append((4, "UOffsetTRelative", field.slot, _child(builder, field, value), 0))
    slots.sort(key=itemgetter(0), reverse=True)  # the widest first need the least padding
    builder.StartObject(max((slot for _, _, slot, _, _ in slots), default=-1) + 1)
    for _, type_, *slot in slots:
        getattr(builder, f"Prepend{type_}Slot")(*slot)
    return int(builder.EndObject())


def _child(builder: Any, field: Field, value: Any) -> int:
    if field.kind == "table":
        return _table(builder, field.of, value)
    if field.kind == "union":
        return _table(builder, *value)
    if field.kind == "string":
        return int(builder.CreateString(value.encode() if isinstance(value, str) else bytes(value)))
    if field.kind == "vector":
        elements = _elements(field, value)
        builder.Prep(max(field.dtype.itemsize, _ALIGN.get(field.name, 4)), elements.nbytes)
        if field.dtype.itemsize == 1:  # a bytearray is copied least often on its way
            return int(builder.CreateByteVector(bytearray(elements)))
        return int(builder.CreateNumpyVector(elements))
    places = [_table(builder, field.of, item) for item in value]
    builder.StartVector(4, len(places), 4)
    for place in reversed(places):
        builder.PrependUOffsetTRelative(place)
    return int(builder.EndVector())


def _number(field: Field, value: Any, name: str) -> Any:
    if field.enum is None or not isinstance(value, str):
        return value
    names = field.enum.names
    if value not in names:
        raise ValueError(f"{name}.{field.name} is {value!r}; it takes {', '.join(names)}")
    return names.index(value)


def _scalar(field: Field, value: Any, name: str) -> Any:
    value = _number(field, value, name)
    if field.dtype.kind not in "iu":
        return field.dtype.type(value).item()
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name}.{field.name} is an integer; {value!r} is none") from None
    limits = np.iinfo(field.dtype)
    if not limits.min <= number <= limits.max:
        raise ValueError(f"{name}.{field.name} is {value}, beyond {field.dtype.name}")
    return number


def _elements(field: Field, value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, bytes | bytearray | memoryview):
        return np.frombuffer(value, field.dtype)
    if field.enum is not None:
        value = [_number(field, v, field.of) for v in value]
    return np.asarray(value, field.dtype).reshape(-1)


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
