"""Checks the tensors of a model: shapes, constants, quantisation, sparsity."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from ..kernels.api import Options
from ..kernels.types import Array, DType
from .encoding import string_offsets
from .flatbuffer import InvalidModelError, Rows

if TYPE_CHECKING:
    from .model import Model

MAX_RANK = 64 if int(np.__version__.split(".")[0]) >= 2 else 32  # what numpy takes
MAX_ELEMENTS = 1 << 55  # of 128 bits each: the size in bits is still an int64


def element_counts(rows: Rows) -> Array:
    """Number of elements of each tensor, int64. InvalidModelError where a shape cannot be."""
    dims, bounds = rows.flat("shape")
    rank = np.diff(bounds)
    if (rank > MAX_RANK).any():
        row = int((rank > MAX_RANK).argmax())
        rows.fail(row, "shape", f"{rank[row]} dimensions; at most {MAX_RANK} are taken")
    if (dims < 0).any():
        row = int(np.searchsorted(bounds, int((dims < 0).argmax()), "right")) - 1
        rows.fail(
            row,
            "shape",
            f"{_listed(_shape(rows, row))} has a negative dimension, so its element count "
            "overflows; unknown dimensions stand in shape_signature",
        )
    count = np.ones(len(rows), np.int64)
    extent = np.ones(len(rows))  # without the zeros, as a float that cannot overflow
    for axis in range(int(rank.max(initial=0))):
        has = np.flatnonzero(rank > axis)
        d = dims[bounds[has] + axis].astype(np.int64)
        count[has] *= d
        extent[has] *= np.maximum(d, 1)
        bad = extent[has] > MAX_ELEMENTS
        if bad.any():
            row = int(has[bad.argmax()])
            text = _listed(_shape(rows, row))
            rows.fail(row, "shape", f"the element count of {text} overflows")
    return count


def check_constants(model: Model, counts: Array) -> None:
    """Each buffer exists and is as long as its tensor's shape and type say, or holds that many
    strings.
    """
    rows = model.tensor_rows
    places = np.array(model.buffer_places, np.int64).reshape(-1, 2)
    buffer = rows.scalar("buffer").astype(np.int64)
    if "buffers" in model.missing:
        return
    bad = buffer >= len(places)
    bad &= (buffer > 0) | (len(places) > 0)
    if bad.any():
        row = int(bad.argmax())
        rows.fail(row, "buffer", f"{buffer[row]} is no buffer; there are {len(places)}")
    if not len(places):
        return
    length = np.where(buffer > 0, places[buffer, 1], 0)
    held = length > 0
    bad = held & rows.scalar("is_variable")
    if bad.any():
        row = int(bad.argmax())
        rows.fail(row, "buffer", f"a variable cannot have a value, which buffer {buffer[row]} is")
    kind = rows.scalar("type").astype(np.int64)
    bits = np.array([dtype.bits for dtype in DType])[kind]
    sparse = np.array(model.tensor_tables.sparsity_row) >= 0
    plain = held & (bits > 0) & ~sparse & (rows.scalar("external_buffer") == 0)
    need = (counts * bits + 7) // 8
    bad = plain & (need > length)
    if bad.any():
        row = int(bad.argmax())
        rows.fail(
            row,
            "buffer",
            f"buffer {buffer[row]} holds {length[row]} bytes; {counts[row]} elements of "
            f"{DType(kind[row]).label} take {need[row]}",
        )
    strings: dict[int, int] = {}
    for row in np.flatnonzero(held & (kind == DType.STRING)).tolist():
        index = int(buffer[row])
        if index not in strings:
            start, size = model.buffer_places[index]
            try:
                strings[index] = string_offsets(model.data[start : start + size]).size - 1
            except InvalidModelError as error:
                rows.fail(row, "buffer", f"buffer {index}: {error}")
        if strings[index] != counts[row]:
            rows.fail(
                row,
                "buffer",
                f"buffer {index} holds {strings[index]} strings; the shape takes {counts[row]}",
            )
    for row in np.flatnonzero(held & sparse & (bits > 0)).tolist():
        try:
            stored = stored_elements(_shape(rows, row), model.tensor_tables.sparsity_of(row))
        except InvalidModelError as error:
            rows.fail(row, "sparsity", str(error))
        if stored * int(bits[row]) > 8 * int(length[row]):
            rows.fail(
                row,
                "buffer",
                f"buffer {buffer[row]} holds {length[row]} bytes; the sparsity tells of {stored} "
                f"elements of {DType(kind[row]).label}",
            )


def _listed(shape: list[int]) -> str:
    """The shape as text, which a damaged one does not make endless."""
    return str(shape) if len(shape) <= 8 else f"{str(shape[:8])[:-1]}, … {len(shape)} in all]"


def _shape(rows: Rows, row: int) -> list[int]:
    dims, bounds = rows.flat("shape")
    return list(dims[bounds[row] : bounds[row + 1]].tolist())


def stored_elements(shape: list[int], sparsity: Options | None) -> int:
    """Number of values that a sparse tensor of this dense shape stores; InvalidModelError where the
    two do not fit.

    The dimensions of the tensor, then those of its blocks, are walked in traversal order. A dense
    one multiplies the number of places; a sparse one has a segment of indices for each place.
    """
    if sparsity is None:
        raise InvalidModelError("there is none")
    order, blocks, dims = sparsity.traversal_order, sparsity.block_map, sparsity.dim_metadata
    rank = len(shape)
    if len(dims) != len(order) or len(order) < rank or len(blocks) != len(order) - rank:
        raise InvalidModelError(
            f"{len(dims)} dim_metadata, {len(order)} in traversal_order and {len(blocks)} in "
            f"block_map do not fit a tensor of {rank} dimensions"
        )
    if sorted(order[:rank]) != list(range(rank)) or sorted(order[rank:]) != list(
        range(rank, len(order))
    ):
        raise InvalidModelError(
            f"traversal_order {list(order)} is no order of {rank} dimensions, then of the blocks"
        )
    sizes = shape + [0] * len(blocks)
    for i, mapped in enumerate(blocks):
        block = dims[rank + i].dense_size
        if block <= 0 or not 0 <= mapped < rank:
            raise InvalidModelError(f"block {i} has the size {block} and the dimension {mapped}")
        sizes[order[rank + i]] = block
        sizes[mapped] //= block
    places = 1
    for level, (axis, dim) in enumerate(zip(order, dims, strict=True)):
        if dim.format == "DENSE":
            if dim.dense_size != sizes[axis]:
                raise InvalidModelError(
                    f"dim_metadata[{level}]: dense_size is {dim.dense_size}; the dimension has "
                    f"{sizes[axis]}"
                )
            places *= dim.dense_size
            if places > MAX_ELEMENTS:
                raise InvalidModelError(f"dim_metadata[{level}]: the element count overflows")
            continue
        segments, indices = dim.array_segments, dim.array_indices
        if segments is None or indices is None or segments.size != places + 1:
            raise InvalidModelError(
                f"dim_metadata[{level}]: array_segments must hold {places + 1} values"
            )
        segments, indices = segments.astype(np.int64), indices.astype(np.int64)
        if segments[0] < 0 or (np.diff(segments) < 0).any() or segments[-1] != indices.size:
            raise InvalidModelError(
                f"dim_metadata[{level}]: array_segments do not rise to {indices.size}, the number "
                "of array_indices"
            )
        if indices.size and (indices.min() < 0 or indices.max() >= sizes[axis]):
            raise InvalidModelError(
                f"dim_metadata[{level}]: array_indices leave the dimension of {sizes[axis]}"
            )
        places = indices.size
    return places


def check_quantization(model: Model, counts: Array) -> None:
    """Scales and zero points are as many as the axis has indexes, or the details are sound."""
    rows, tensors = model.tensor_tables.quantization, model.tensor_rows
    if not len(rows):
        return
    dims, bounds = tensors.flat("shape")
    owner = rows.parent_rows
    rank = np.diff(bounds)[owner]
    scales = rows.vector("scale").length
    zeros = rows.vector("zero_point").length
    axis = rows.scalar("quantized_dimension").astype(np.int64)
    affine = scales > 0
    for row, details in model.tensor_tables.details.items():
        if details.type != "CustomQuantization":
            affine[row] = False
            _check_details(model, row, details, counts)
    bad = affine & (zeros != scales)
    if bad.any():
        row = int(bad.argmax())
        rows.fail(row, "zero_point", f"{zeros[row]} zero points for {scales[row]} scales")
    _check_zero_points(rows, tensors.scalar("type")[owner].astype(np.int64))
    bad = affine & ((axis < 0) | ((rank > 0) & (axis >= rank)))
    if bad.any():
        row = int(bad.argmax())
        rows.fail(
            row,
            "quantized_dimension",
            f"{axis[row]} is no dimension of a tensor that has {rank[row]}",
        )
    many = np.flatnonzero(affine & (scales != 1) & (rank > 0))
    size = dims[bounds[owner[many]] + axis[many]]
    bad = size != scales[many]
    if bad.any():
        i = int(bad.argmax())
        row = int(many[i])
        rows.fail(
            row,
            "scale",
            f"{scales[row]} scales for dimension {axis[row]}, which has {size[i]}; it takes one, "
            "or as many",
        )


@functools.cache
def _zero_point_limits() -> tuple[Array, Array]:
    """Least and greatest zero point, by the number of the type."""
    any_ = (-(1 << 63), (1 << 63) - 1)
    limits = [d.range() if d.is_integer and d.bits <= 32 else any_ for d in DType]
    low, high = np.array(limits, np.int64).T
    return low, high


def _check_zero_points(rows: Rows, kind: Array) -> None:
    """A zero point is a stored value, so the tensor's type holds it."""
    low, high = _zero_point_limits()
    values, bounds = rows.flat("zero_point")
    kind = np.repeat(kind, np.diff(bounds))
    bad = (values < low[kind]) | (values > high[kind])
    if bad.any():
        at = int(bad.argmax())
        row = int(np.searchsorted(bounds, at, "right")) - 1
        rows.fail(row, "zero_point", f"{values[at]} is no value of {DType(kind[at]).label}")


def _check_details(model: Model, row: int, details: Options, counts: Array) -> None:
    rows, tensors = model.tensor_tables.quantization, model.tensor_rows
    owner = int(rows.parent_rows[row])
    graph = int(tensors.parent_rows[owner])
    base, end = tensors.row_bounds[graph : graph + 2].tolist()
    shape = _shape(tensors, owner)

    def fail(field: str, text: str) -> NoReturn:
        rows.fail(row, f"details.{field}", text)

    if not 0 <= details.scales < end - base:
        fail("scales", f"{details.scales} is no tensor; subgraph {graph} has {end - base}")
    if not -1 <= details.zero_points < end - base:
        fail(
            "zero_points", f"{details.zero_points} is no tensor; subgraph {graph} has {end - base}"
        )
    if details.type == "MultiAxisQuantization":
        if details.block_size < 0:
            fail("block_size", f"{details.block_size} is negative")
        axes = details.quantized_dimensions
        if not axes or min(axes) < 0 or (shape and max(axes) >= len(shape)):
            fail(
                "quantized_dimensions",
                f"{list(axes)} are no dimensions of a tensor that has {len(shape)}",
            )
        return
    if details.block_shape:  # blocks in several dimensions, which no kernel here takes
        return
    scales = base + details.scales
    block, size = details.block_size, int(counts[owner])
    if block <= 0 or not shape or shape[-1] % block:
        fail("block_size", f"blocks of {block} do not divide the last dimension of {shape}")
    if not 0 <= rows.scalar("quantized_dimension")[row] < len(shape):
        rows.fail(row, "quantized_dimension", f"the tensor has {len(shape)} dimensions")
    if int(counts[scales]) * block != size:
        fail("scales", f"{counts[scales]} scales for {size} elements in blocks of {block}")
    kind = DType(int(tensors.scalar("type")[scales]))
    if not kind.is_float or not model.holds(int(tensors.scalar("buffer")[scales])):
        fail("scales", f"tensor {details.scales} is no constant of floats, which scales are")
    zeros = base + details.zero_points
    if details.zero_points > 0 and int(tensors.scalar("buffer")[zeros]):
        kind = DType(int(tensors.scalar("type")[zeros]))
        if not kind.is_integer or counts[zeros] != counts[scales]:
            fail("zero_points", f"tensor {details.zero_points} is no integer for each scale")
