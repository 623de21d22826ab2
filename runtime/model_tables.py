"""Options, quantisation, sparsity and variants of a model's tensors and operators: read for all of
them when first asked for.
"""

from __future__ import annotations

import functools
from functools import cached_property
from typing import Any

import numpy as np

from ..kernels.api import Options, Quantization
from ..kernels.types import Array
from .flatbuffer import Rows
from .schema import UNIONS, Field, options_table, table


class CustomOptions(bytes):
    """The options of a custom operator, as they stand in the file."""

    def flexbuffer(self, raw: bool = False) -> Any:
        """The options decoded as a FlexBuffer: dict, list, number, str … An empty buffer is an
        empty dict. `raw`: strings as bytes, for those that are no text.
        """
        from .flexbuffer import decode

        return decode(self, raw) if self else {}


class TensorTables:
    """What the tensors of a model refer to. All are looked up by the tensor's row, counted over all
    subgraphs.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.quantization = rows.children("quantization")
        self.sparsity = rows.children("sparsity")

    @cached_property
    def quantization_row(self) -> list[int]:
        """For each tensor the row of its quantisation; −1 where it has none."""
        return links(self.quantization)

    @cached_property
    def sparsity_row(self) -> list[int]:
        return links(self.sparsity)

    @cached_property
    def affine(self) -> list[tuple[Array, Array, int]]:
        """Scales, zero points and axis of each row of `quantization`."""
        rows = self.quantization
        scale, at = rows.flat("scale")
        zero, zero_at = rows.flat("zero_point")
        scale.flags.writeable = zero.flags.writeable = False
        return [
            (scale[a:b], zero[c:d], axis)
            for a, b, c, d, axis in zip(
                at[:-1].tolist(),
                at[1:].tolist(),
                zero_at[:-1].tolist(),
                zero_at[1:].tolist(),
                rows.column("quantized_dimension"),
                strict=True,
            )
        ]

    @cached_property
    def details(self) -> dict[int, Options]:
        """The details union of each row of `quantization` that has one, `type` naming its table."""
        found: dict[int, Options] = {}
        for kind, rows in self.quantization.members("details").items():
            for parent, values in zip(rows.parent_rows.tolist(), records(rows), strict=True):
                found[parent] = Options({"type": kind, **values})
        return found

    def affine_of(self, tensor: int) -> Quantization | None:
        """Per-tensor or per-axis quantisation; None where there are no scales."""
        row = self.quantization_row[tensor]
        if row < 0:
            return None
        scale, zero, axis = self.affine[row]
        if not scale.size:
            return None
        if zero.size != scale.size:  # refused by the verifier
            zero = np.zeros(scale.size, np.int64)
        return Quantization(scale, zero, axis)

    def details_of(self, tensor: int) -> Options | None:
        row = self.quantization_row[tensor]
        return self.details.get(row) if row >= 0 else None

    @cached_property
    def _parameters(self) -> list[Options]:
        names = ("min", "max", "scale", "zero_point", "quantized_dimension")
        columns = [self.quantization.column(name) for name in names]
        return [
            Options(dict(zip(names, values, strict=True)), details=self.details.get(row))
            for row, values in enumerate(zip(*columns, strict=True))
        ]

    def parameters_of(self, tensor: int) -> Options | None:
        row = self.quantization_row[tensor]
        return self._parameters[row] if row >= 0 else None

    @cached_property
    def _sparsities(self) -> list[Options]:
        rows = self.sparsity
        dims = rows.children("dim_metadata")
        made = [
            Options(format=kind, dense_size=size, array_segments=segments, array_indices=indices)
            for kind, size, segments, indices in zip(
                dims.column("format"),
                dims.column("dense_size"),
                index_vectors(dims, "array_segments"),
                index_vectors(dims, "array_indices"),
                strict=True,
            )
        ]
        return [
            Options(traversal_order=order, block_map=blocks, dim_metadata=tuple(made[a:b]))
            for order, blocks, a, b in zip(
                rows.column("traversal_order"),
                rows.column("block_map"),
                dims.row_bounds[:-1].tolist(),
                dims.row_bounds[1:].tolist(),
                strict=True,
            )
        ]

    def sparsity_of(self, tensor: int) -> Options | None:
        row = self.sparsity_row[tensor]
        return self._sparsities[row] if row >= 0 else None

    @cached_property
    def _variants(self) -> list[Options]:
        return [Options(values) for values in records(self.rows.children("variant_tensors"))]

    def variants_of(self, tensor: int) -> tuple[Options, ...]:
        bounds = self.rows.children("variant_tensors").row_bounds
        return tuple(self._variants[int(bounds[tensor]) : int(bounds[tensor + 1])])


class OperatorTables:
    """The options of a model's operators, looked up by the operator's row, counted over all
    subgraphs.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._builtin: dict[str, dict[int, Options]] = {}

    def options(self, operator: int, builtin: str) -> Options:
        name = options_table(builtin)
        if name is None:
            return NO_OPTIONS
        found = self._builtin.get(name)
        if found is None:
            rows = self.rows.members(union_of(name)).get(name)
            found = {}
            if rows is not None:
                made = [Options(values) for values in records(rows)]
                found = dict(zip(rows.parent_rows.tolist(), made, strict=True))
            self._builtin[name] = found
        return found.get(operator) or default_options(name)

    def custom(self, operator: int) -> CustomOptions:
        """Options inside the flatbuffer, or behind it."""
        start, length = (int(column[operator]) for column in self.custom_places)
        return CustomOptions(self.rows.reader.data[start : start + length].tobytes())

    @cached_property
    def custom_places(self) -> tuple[Array, Array]:
        """Where the custom options of each operator start, and how many bytes they are."""
        names = ("large_custom_options_offset", "large_custom_options_size")
        return places(self.rows, "custom_options", *names)


def places(rows: Rows, inside: str, offset: str, size: str) -> tuple[Array, Array]:
    """Start and length of bytes that stand in the vector `inside`, or else behind the flatbuffer.

    A model of more than 2 GiB, farther than offsets reach, gives absolute ones in the fields
    `offset` and `size`. An offset of 1 stands for a place not yet known. InvalidModelError where
    they leave the file.
    """
    vector = rows.vector(inside)
    start, length = rows.scalar(offset), rows.scalar(size)
    total = rows.reader.size
    behind = (vector.length == 0) & (start > 1)
    bad = behind & ((length > total) | (start > total - np.minimum(length, total)))
    if bad.any():
        row = int(bad.argmax())
        rows.fail(
            row,
            offset,
            f"{length[row]} bytes from byte {start[row]} on do not fit into the file of {total} "
            "bytes",
        )
    return (
        np.where(behind, start.astype(np.int64), vector.start),
        np.where(behind, length.astype(np.int64), vector.length),
    )


NO_OPTIONS = Options()


def union_of(name: str) -> str:
    """The field of an operator that holds an options table."""
    return "builtin_options_2" if name in UNIONS["BuiltinOptions2"] else "builtin_options"


@functools.cache
def default_options(name: str) -> Options:
    """An options table in which every field is absent."""
    return Options({f.name: default(f) for f in table(name).fields})


def default(field: Field) -> Any:
    """What an absent field reads as."""
    if field.kind == "scalar":
        return field.enum.values[field.default] if field.enum else field.default
    if field.kind == "string":
        return ""
    return CustomOptions() if is_bytes(field) else ()


def is_bytes(field: Field) -> bool:
    """A vector of bytes, which reads as `bytes` and not as a tuple."""
    return field.kind == "vector" and field.dtype.str == "|u1"


def records(rows: Rows) -> list[dict[str, Any]]:
    """All fields of each row by name. For tables of scalars, strings and vectors of scalars."""
    names = [f.name for f in rows.table.fields]
    if not names:
        return [{} for _ in range(len(rows))]
    columns = [
        [CustomOptions(raw) for raw in rows.column(f.name)] if is_bytes(f) else rows.column(f.name)
        for f in rows.table.fields
    ]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def links(child: Rows) -> list[int]:
    """For each row of the parent its row in `child`; −1 where it has none."""
    assert child.parent is not None
    out = np.full(len(child.parent), -1)
    out[child.parent_rows] = np.arange(len(child))
    return list(out.tolist())


def index_vectors(rows: Rows, name: str) -> list[Array | None]:
    """The index vectors in a union field, as integer arrays of the width they have in the file."""
    out: list[Array | None] = [None] * len(rows)
    for members in rows.members(name).values():
        values, bounds = members.flat("values")
        values.flags.writeable = False
        cuts = bounds.tolist()
        for i, parent in enumerate(members.parent_rows.tolist()):
            out[parent] = values[cuts[i] : cuts[i + 1]]
    return out
