"""RaggedTensorToTensor and RaggedRange, custom ops of TensorFlow Lite Support.

A ragged tensor is its values in a row, and for each ragged dimension either where its rows begin
and end (ROW_SPLITS) or the row of each value (VALUE_ROWIDS).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ._text import dynamic, offsets, option, row_splits
from .api import NodeSpec, OpError, Shape, TensorSpec, require, take
from .types import Array, DType

_INDICES = (DType.INT32, DType.INT64)
_NUMBERS = (DType.INT32, DType.INT64, DType.FLOAT32, DType.FLOAT64)


# -- RaggedTensorToTensor: shape, values, default value, partitions to a dense tensor


def _partitions(node: NodeSpec) -> tuple[str, list[str]]:
    """What settles the first dimension, and the kinds of the ragged dimensions."""
    kinds = [str(k) for k in option(node.options, "row_partition_types")]
    first = kinds[0] if kinds else "none"
    ragged = kinds[1:] if first == "FIRST_DIM_SIZE" else kinds
    require(
        first in ("FIRST_DIM_SIZE", "ROW_SPLITS")
        and len(ragged) > 0
        and all(k in ("ROW_SPLITS", "VALUE_ROWIDS") for k in ragged),
        f"row_partition_types is {kinds}; taken: FIRST_DIM_SIZE or ROW_SPLITS, then ROW_SPLITS or "
        "VALUE_ROWIDS for each further dimension",
    )
    return first, ragged


def _check_dense(node: NodeSpec) -> None:
    first, ragged = _partitions(node)
    inputs = 3 + len(ragged) + (first == "FIRST_DIM_SIZE")
    require(
        (len(node.inputs), len(node.outputs)) == (inputs, 1),
        f"{node.op} with these row_partition_types has {inputs} inputs and 1 output; the model "
        f"gives it {len(node.inputs)} and {len(node.outputs)}",
    )
    values = node.input(1)
    require(values.rank >= 1, f"input 1 is {values}; taken: one dimension at least")
    for i in (0, *range(3, inputs)):
        take(node, f"input {i}", node.input(i), *_INDICES)
    take(node, "input 2", node.input(2), values.dtype)
    take(node, "output 0", node.outputs[0], values.dtype)
    _check_default(node.input(2), values)


def _check_default(default: TensorSpec, values: TensorSpec) -> None:
    inner = values.shape[1:]
    require(
        default.size == 1 or default.shape == inner,
        f"input 2, the default value, is {default}; taken: one value, or {list(inner)}",
    )


def _dense(node: NodeSpec, x: Sequence[Array]) -> list[Array]:
    first, kinds = _partitions(node)
    shape, values, default = x[:3]
    tables = [t.reshape(-1).astype(np.intp) for t in x[3 + (first == "FIRST_DIM_SIZE") :]]
    rows = int(x[3].reshape(-1)[0]) if first == "FIRST_DIM_SIZE" else tables[0].size - 1
    # for each level the row of each value, and how many values the longest row has
    members, widths = [], []
    count = rows
    for i, (kind, table) in enumerate(zip(kinds, tables, strict=True)):
        if kind == "ROW_SPLITS":
            size = int(table[-1]) if table.size else 0
            splits = row_splits(table, size, f"partition {i}")
            require(
                splits.size == count + 1, f"partition {i} has {splits.size - 1} rows of {count}"
            )
            lengths = np.diff(splits)
            member = np.repeat(np.arange(count), lengths)
            # as in the reference, a row that is empty has room for one
            widths.append(int(lengths.max(initial=1)) if count else 0)
        else:
            member = table
            _check_members(member, count, i)
            widths.append(int(np.bincount(member, minlength=1).max()))
        members.append(member)
        count = member.size
    if count != len(values):
        raise OpError(f"the partitions are of {count} values; there are {len(values)}")
    dims = _dims(shape, [rows, *widths], values.shape[1:])
    place = np.where(np.arange(rows) < dims[0], np.arange(rows), -1)
    for member, width in zip(members, dims[1:], strict=False):
        begins = np.searchsorted(member, member)  # of the row that each value is in
        column = np.arange(member.size) - begins
        inside = (place[member] >= 0) & (column < width)
        place = np.where(inside, place[member] * width + column, -1)
    out = np.empty((int(np.prod(dims[: len(members) + 1])), *values.shape[1:]), values.dtype)
    out[...] = default if default.shape == values.shape[1:] else default.reshape(-1)[0]
    out[place[place >= 0]] = values[place >= 0]
    return [out.reshape(dims)]


def _check_members(member: Array, count: int, i: int) -> None:
    if member.size and (member.min() < 0 or member.max() >= count or (np.diff(member) < 0).any()):
        raise OpError(
            f"partition {i} is {member.tolist()}; taken: rows from 0 to {count - 1}, in order"
        )


def _dims(shape: Array, found: list[int], inner: Shape) -> Shape:
    """The shape asked for, where it says so (not -1), and that of the ragged tensor."""
    if shape.ndim == 0:
        return (*found, *inner)
    wanted = tuple(int(d) for d in shape)
    rank = len(found) + len(inner)
    fits = len(wanted) == rank and all(
        w in (-1, d) for w, d in zip(wanted[len(found) :], inner, strict=True)
    )
    require(
        fits and all(w >= -1 for w in wanted),
        f"input 0, the shape, is {list(wanted)}; taken: {rank} dimensions, the last {list(inner)}",
    )
    return (*(d if w < 0 else w for w, d in zip(wanted, found, strict=False)), *inner)


# -- RaggedRange: starts, limits and deltas, [rows] or one for all, to row splits and values


def _check_range(node: NodeSpec) -> None:
    require(
        (len(node.inputs), len(node.outputs)) == (3, 2),
        f"{node.op} has 3 inputs and 2 outputs; the model gives it {len(node.inputs)} and "
        f"{len(node.outputs)}",
    )
    take(node, "output 0", node.outputs[0], *_INDICES)
    take(node, "output 1", node.outputs[1], *_NUMBERS)
    sizes = set()
    for i in range(3):
        x = node.input(i)
        take(node, f"input {i}", x, node.outputs[1].dtype)
        require(x.rank <= 1, f"input {i} is {x}; taken: one number, or [rows]")
        sizes.add(x.size)
    require(
        len(sizes - {1}) <= 1,
        f"the inputs are {', '.join(str(node.input(i)) for i in range(3))}; taken: one number, or "
        "as many as the others",
    )


def _range(node: NodeSpec, x: Sequence[Array]) -> list[Array]:
    start, limit, delta = np.broadcast_arrays(*(a.reshape(-1) for a in x))
    if (delta == 0).any():
        raise OpError(f"the delta of row {int((delta == 0).argmax())} is 0")
    if start.dtype.kind == "f":
        counts = np.ceil((limit - start) / delta)
    else:
        counts = -((limit - start) // -delta)
    if not np.isfinite(counts).all():
        raise OpError(f"row {int((~np.isfinite(counts)).argmax())} has no end")
    sizes = np.maximum(counts, 0).astype(np.int64)
    splits = offsets(sizes.tolist(), node.outputs[0].dtype.numpy)
    values = np.empty(int(splits[-1]), start.dtype)
    # a running sum from the start on, as in the reference: it rounds at each step
    for row, (a, b) in enumerate(itertools.pairwise(splits)):
        values[a:b] = delta[row]
        values[a : a + (b > a)] = start[row]
        np.cumsum(values[a:b], out=values[a:b], dtype=values.dtype)
    return [splits, values]


OPS = {
    "RaggedTensorToTensor": dynamic("RaggedTensorToTensor", _check_dense, _dense),
    "RaggedRange": dynamic("RaggedRange", _check_range, _range),
}
