"""Reads FlatBuffers tables, a whole vector of them at a time, and checks every offset that it
follows.

`Rows` is many tables of one type. A field of all of them is read at once with numpy, so that a
model of thousands of operators costs about as many Python calls as one of ten. Nothing outside the
buffer is ever read, and what a buffer can make this allocate is bounded by the buffer's own size: a
file in which tables or vectors share content without end is refused.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ..kernels.types import Array
from .schema import SCALARS, UNIONS, Field, Table, enum, table

MAX_TABLES = 1_000_000  # as the flatbuffers verifier


class InvalidModelError(ValueError):
    """A broken model file. The text names the table, its index and the field."""


class Reader:
    """A buffer, seen as overlapping scalars of each type, and what may still be read from it."""

    def __init__(self, data: Array) -> None:
        """`data`: uint8[n], which must not change while it is in use."""
        self.data = data
        self.size = data.size
        self._tables = min(MAX_TABLES, self.size // 8 + 16)
        self._elements = self.size + 65536
        self._views: dict[str, Array] = {}
        self.u16 = self.view(SCALARS["ushort"])
        self.i32 = self.view(SCALARS["int"])
        self.u32 = self.view(SCALARS["uint"])

    def view(self, dtype: np.dtype[Any]) -> Array:
        """Element `i` is the scalar that starts at byte `i`."""
        found = self._views.get(dtype.str)
        if found is None:
            n = max(0, self.size - dtype.itemsize + 1)
            found = np.ndarray((n,), dtype, self.data, 0, (1,)) if n else np.empty(0, dtype)
            self._views[dtype.str] = found
        return found

    def charge_tables(self, n: int) -> None:
        self._tables -= n
        if self._tables < 0:
            raise InvalidModelError(
                f"the file's {self.size} bytes claim more than "
                f"{min(MAX_TABLES, self.size // 8 + 16)} tables"
            )

    def charge_elements(self, n: int, where: str) -> None:
        self._elements -= n
        if self._elements < 0:
            raise InvalidModelError(
                f"{where}: the vectors of the file claim more elements than it has bytes"
            )

    def root(self, name: str) -> Rows:
        """The root table, of type `name`."""
        if self.size < 8:
            raise InvalidModelError(
                f"{name}: the file has {self.size} bytes; the offset of its root table and its "
                "identifier alone take 8"
            )
        at = int(self.u32[0])
        return Rows(self, table(name), np.array([at], np.int64))


class Vector:
    """The vectors in one field of some tables: where the elements start (0 where there is none) and
    how many there are.
    """

    __slots__ = ("length", "start")

    def __init__(self, start: Array, length: Array) -> None:
        self.start = start
        self.length = length


class Rows:
    """Tables of one type at byte positions `pos`. `parents[i]` is the row of `parent` that refers
    to row `i` by field `via`.
    """

    def __init__(
        self,
        reader: Reader,
        kind: Table,
        pos: Array,
        parent: Rows | None = None,
        parents: Array | None = None,
        via: str = "",
        bounds: Array | None = None,
    ) -> None:
        self.reader = reader
        self.table = kind
        self.pos = pos
        self.parent = parent
        self.parents = parents
        self.via = via
        self.bounds = bounds  # rows bounds[p] to bounds[p + 1] are those of row p of parent
        reader.charge_tables(pos.size)
        self._columns: dict[str, Array] = {}
        self._vectors: dict[str, Vector] = {}
        self._flat: dict[str, tuple[Array, Array]] = {}
        self._children: dict[str, Rows] = {}
        last = reader.size - 4
        self._refuse("", (pos < 0) | (pos > last), "the table lies outside the file")
        vtable = pos - reader.i32[pos]
        self._refuse("", (vtable < 0) | (vtable > last), "its vtable lies outside the file")
        size = reader.u16[vtable].astype(np.int64)
        self._refuse(
            "", (size < 4) | (vtable + size > reader.size), "its vtable has an impossible size"
        )
        self._vtable = vtable
        self._vsize = size
        self._widest = int(size.max(initial=0))
        self._absent = np.zeros(pos.size, np.int64)

    def __len__(self) -> int:
        return self.pos.size

    @property
    def parent_rows(self) -> Array:
        """`parents` of a table that is not the root."""
        assert self.parents is not None
        return self.parents

    @property
    def row_bounds(self) -> Array:
        """`bounds` of the tables in a vector."""
        assert self.bounds is not None
        return self.bounds

    def where(self, row: int) -> str:
        """The row as a path from the root: `subgraphs[0].operators[3]`."""
        if self.parent is None or self.parents is None:
            return self.table.name
        up = int(self.parents[row])
        path = self.parent.where(up)
        if self.bounds is None:
            return f"{path}.{self.via}"
        return f"{path}.{self.via}[{row - int(self.bounds[up])}]"

    def fail(self, row: int, field: str, text: str) -> NoReturn:
        raise InvalidModelError(f"{self.where(row)}{'.' + field if field else ''}: {text}")

    def _refuse(self, field: str, bad: Array, text: str) -> None:
        if np.count_nonzero(bad):
            self.fail(int(bad.argmax()), field, text)

    def at(self, field: Field, width: int) -> Array:
        """Position of the field in each row, `width` bytes of which are in the file; 0 where it is
        absent.
        """
        entry = 4 + 2 * field.slot
        if entry + 2 > self._widest:
            return self._absent
        have = self._vsize >= entry + 2
        offset = self.reader.u16[self._vtable + have * entry].astype(np.int64)
        offset *= have
        at = np.where(offset, self.pos + offset, 0)
        self._refuse(field.name, at > self.reader.size - width, "the field lies outside the file")
        return at

    def scalar(self, name: str) -> Array:
        """The scalar field `name` of each row, with the schema's default."""
        found = self._columns.get(name)
        if found is None:
            field = self.table.by_name[name]
            at = self.at(field, field.dtype.itemsize)
            if at is self._absent:
                found = np.full(at.size, field.default, field.dtype)
            else:
                found = self.reader.view(field.dtype)[at]
                found[at == 0] = field.default
            self._columns[name] = found
        return found

    def target(self, field: Field) -> Array:
        """Where the offset in the field points to; 0 where the field is absent."""
        at = self.at(field, 4)
        if at is self._absent:
            return at
        offset = self.reader.u32[at]
        target = np.where(at, at + offset, 0)
        bad = target > self.reader.size - 4
        bad |= target == at
        bad &= at > 0
        self._refuse(field.name, bad, "its offset points outside the file, or to itself")
        return target

    def vector(self, name: str) -> Vector:
        """The vector or string in field `name`, of scalars or of offsets to tables."""
        found = self._vectors.get(name)
        if found is None:
            field = self.table.by_name[name]
            start = self.target(field)
            found = Vector(start, start)
            if start is not self._absent:
                found = self._measure(field, start)
            self._vectors[name] = found
        return found

    def _measure(self, field: Field, start: Array) -> Vector:
        length = self.reader.u32[start].astype(np.int64)
        length *= start > 0
        bad = start + 4 + length * field.dtype.itemsize > self.reader.size
        if np.count_nonzero(bad):
            row = int(bad.argmax())
            self.fail(
                row,
                field.name,
                f"{length[row]} elements of {field.dtype.itemsize} bytes from byte "
                f"{start[row] + 4} on do not fit into the file of {self.reader.size} bytes",
            )
        if field.name != "data":  # the buffers' data, which is never copied
            self.reader.charge_elements(int(length.sum()), f"{self.table.name}.{field.name}")
        return Vector(np.where(start, start + 4, 0), length)

    def flat(self, name: str) -> tuple[Array, Array]:
        """All elements of the vectors in field `name`, one row after the other, and the bounds of
        each row's.
        """
        found = self._flat.get(name)
        if found is None:
            positions, bounds = self._positions(name)
            view = self.reader.view(self.table.by_name[name].dtype)
            found = self._flat[name] = view[positions], bounds
        return found

    def _positions(self, name: str) -> tuple[Array, Array]:
        vector = self.vector(name)
        width = self.table.by_name[name].dtype.itemsize
        bounds = np.zeros(len(self) + 1, np.int64)
        np.cumsum(vector.length, out=bounds[1:])
        total = int(bounds[-1])
        first = np.repeat(vector.start - bounds[:-1] * width, vector.length)
        return first + width * np.arange(total, dtype=np.int64), bounds

    def children(self, name: str) -> Rows:
        """The tables in field `name`, a table or a vector of tables, of all rows."""
        found = self._children.get(name)
        if found is None:
            field = self.table.by_name[name]
            if field.kind == "tables":
                at, bounds = self._positions(name)
                offset = self.reader.u32[at]
                parents = np.repeat(np.arange(len(self)), np.diff(bounds))
                found = Rows(self.reader, table(field.of), at + offset, self, parents, name, bounds)
            else:
                target = self.target(field)
                parents = np.flatnonzero(target)
                found = Rows(self.reader, table(field.of), target[parents], self, parents, name)
            self._children[name] = found
        return found

    def members(self, name: str) -> dict[str, Rows]:
        """The tables in the union field `name`, by the name of their type. Types that the schema
        lacks are left out.
        """
        field = self.table.by_name[name]
        tags = self.scalar(name + "_type")
        out: dict[str, Rows] = {}
        if not tags.any():
            return out
        target = self.target(field)
        for tag in np.unique(tags[target > 0]).tolist():
            if not 1 <= tag <= len(UNIONS[field.of]):
                continue
            kind = UNIONS[field.of][tag - 1]
            key = f"{name}={kind}"
            if key not in self._children:
                parents = np.flatnonzero((tags == tag) & (target > 0))
                self._children[key] = Rows(
                    self.reader, table(kind), target[parents], self, parents, name
                )
            out[kind] = self._children[key]
        return out

    def column(self, name: str) -> Sequence[Any]:
        """The field `name` of each row as Python values: enums by name, vectors as tuples, strings
        as str, bytes as bytes.
        """
        field = self.table.by_name[name]
        if field.kind == "scalar":
            return _named(self.scalar(name).tolist(), field)
        if field.kind == "string":
            return [text(raw) for raw in self.strings(name)]
        if field.kind == "vector" and field.dtype.itemsize == 1 and field.dtype.kind == "u":
            return [raw or b"" for raw in self.strings(name)]
        if field.kind == "vector":
            values, bounds = self.flat(name)
            return split(_named(values.tolist(), field), bounds)
        raise TypeError(f"{self.table.name}.{name} holds tables")

    def strings(self, name: str) -> list[bytes | None]:
        """The bytes of the string or byte vector `name` of each row; None where it is absent."""
        vector = self.vector(name)
        data = self.reader.data
        return [
            data[a : a + n].tobytes() if a else None
            for a, n in zip(vector.start.tolist(), vector.length.tolist(), strict=True)
        ]


def text(raw: bytes | None) -> str:
    """A string of the file; bytes that are no UTF-8 are escaped."""
    return "" if raw is None else raw.decode("utf-8", "backslashreplace")


def split(values: Sequence[Any], bounds: Array) -> list[tuple[Any, ...]]:
    """Cuts `values` into one tuple for each row."""
    cuts = bounds.tolist()
    return [tuple(values[a:b]) for a, b in itertools.pairwise(cuts)]


def _named(values: list[Any], field: Field) -> list[Any]:
    """Values of an enum as the schema calls them; a number that it lacks stays a number."""
    if field.enum is None:
        return values
    names = _names(field.enum.name)
    return [names.get(v, v) for v in values]


@functools.cache
def _names(name: str) -> dict[int, Any]:
    return dict(enumerate(enum(name).values))
