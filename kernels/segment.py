"""Reductions over the rows of one segment each."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np

from ._check import INTEGERS
from ._lower import Lower, check, literal
from ._rows_lower import combining, in_float32_scratch, scattered
from ._shape import known, like, one, rank_is, size_of
from ._widen import FLOATS, in_float32
from .api import Binding, NodeSpec, OpError, Registration, Run, Shape, op, take
from .device import Capability, Lowered
from .types import DType

_GREATEST_BFLOAT16 = 3.3895313892515355e38
_TAKEN = (*FLOATS, *INTEGERS)


def _segment_sum(node: NodeSpec) -> list[Shape | None]:
    x, ids = node.input(0), node.input(1)
    take(node, "data", x, *_TAKEN)
    take(node, "segment_ids", ids, DType.INT32, DType.INT64)
    rank_is(node, "segment_ids", ids, 1)
    like(node, x, node.outputs[0])
    if not x.rank or ids.size != x.shape[0]:
        raise OpError(
            f"SEGMENT_SUM takes an id for each row of {x.name!r}, shape {list(x.shape)}; "
            f"got {ids.size}"
        )
    values = known(ids)
    if values is None:
        return [None]
    steps = {after - before for before, after in pairwise(values)}
    if values[:1] not in ((), (0,)) or not steps <= {0, 1}:
        raise OpError(
            f"SEGMENT_SUM takes ids that start at 0 and grow by 0 or 1; got {list(values)[:20]}"
        )
    return [(values[-1] + 1 if values else 0, *x.shape[1:])]


def _bind_segment_sum(b: Binding) -> Run | None:
    x, ids, y = b.xi(0), b.xi(1), b.y[0]

    def run() -> None:
        if y.size:
            starts = np.flatnonzero(np.diff(ids, prepend=-1))
            np.add.reduceat(x, starts, 0, y.dtype, y)

    return run


def _unsorted(node: NodeSpec) -> list[Shape | None]:
    x, ids, count = node.input(0), node.input(1), node.input(2)
    take(node, "data", x, *_TAKEN)
    take(node, "segment_ids", ids, DType.INT32, DType.INT64)
    take(node, "num_segments", count, DType.INT32, DType.INT64)
    one(node, "num_segments", count)
    like(node, x, node.outputs[0])
    if x.shape[: ids.rank] != ids.shape:
        raise OpError(
            f"{node.op}: segment_ids of shape {list(ids.shape)} must be as the first dimensions of "
            f"{x.name!r}, shape {list(x.shape)}"
        )
    number = known(count)
    if number is None:
        return [None]
    if number[0] < 0:
        raise OpError(f"{node.op} takes 0 segments or more; got {number[0]}")
    return [(number[0], *x.shape[ids.rank :])]


def _bind_unsorted(b: Binding, ufunc: np.ufunc) -> Run | None:
    # of the type itself: the least float32 is no finite float16
    initial = _initial(ufunc, b.outputs[0].dtype)
    return in_float32(partial(_bind_reduction, ufunc=ufunc, initial=initial))(b)


def _bind_reduction(b: Binding, ufunc: np.ufunc, initial: float | int) -> Run | None:
    x, ids, y = b.xi(0), b.xi(1).reshape(-1), b.y[0]
    inner = size_of(y.shape[1:])
    rows, out = x.reshape(ids.size, inner), y.reshape(len(y), inner)
    name = b.input(1).name

    def run() -> None:
        y.fill(initial)
        if not ids.size:
            return
        if ids.max() >= len(out):
            raise OpError(
                f"{b.op}: segment id {ids.max()} in {name!r}; there are {len(out)} segments"
            )
        # rows of a negative id belong nowhere
        keep = ids >= 0
        ufunc.at(out, ids[keep], rows[keep])

    return run


def _initial(ufunc: np.ufunc, dtype: DType) -> float | int:
    """What an empty segment holds."""
    if ufunc in (np.add, np.multiply):
        return 0 if ufunc is np.add else 1
    if not dtype.is_float:
        return dtype.range()[0 if ufunc is np.maximum else 1]
    greatest = _GREATEST_BFLOAT16 if dtype is DType.BFLOAT16 else float(np.finfo(dtype.numpy).max)
    return -greatest if ufunc is np.maximum else greatest


_PROPAGATING = "(v) != (v) || (a) {sign} (v) ? (v) : (a)"
_COMBINE: dict[np.ufunc, str] = {
    np.add: "(a) + (v)",
    np.multiply: "(a) * (v)",
    np.maximum: _PROPAGATING.format(sign="<"),
    np.minimum: _PROPAGATING.format(sign=">"),
}


def _lower(ufunc: np.ufunc) -> Lower:
    """Row by row in order, each into its segment."""

    def lower(node: NodeSpec, capability: Capability) -> Lowered:
        check(node, capability)
        ids, y = node.input(1), node.outputs[0]
        start = _initial(ufunc, y.dtype)
        segments = y.shape[0]
        # rows of a negative id belong nowhere
        place = (
            f"const i64 id = LOAD1(r); to = (i32)id; if (id < 0) continue; "
            f"if (id >= {segments}) {{ FAULT0; continue; }}"
        )
        fault = f"{node.op}: segment id in {ids.name!r}; there are {segments} segments"
        put = scattered(
            capability,
            ids.size,
            size_of(y.shape[1:]),
            segments,
            place,
            combining(_COMBINE[ufunc], y.dtype),
            (0, 1),
            [fault],
        )
        return in_float32_scratch(node, literal(start, y.dtype), put)

    return lower


def _op(name: str, ufunc: np.ufunc) -> Registration:
    return op(name, _unsorted, partial(_bind_unsorted, ufunc=ufunc), lower=_lower(ufunc))


OPS: dict[str, Registration] = {
    "SEGMENT_SUM": op(
        "SEGMENT_SUM", _segment_sum, in_float32(_bind_segment_sum), lower=_lower(np.add)
    ),
    "UNSORTED_SEGMENT_SUM": _op("UNSORTED_SEGMENT_SUM", np.add),
    "UNSORTED_SEGMENT_PROD": _op("UNSORTED_SEGMENT_PROD", np.multiply),
    "UNSORTED_SEGMENT_MAX": _op("UNSORTED_SEGMENT_MAX", np.maximum),
    "UNSORTED_SEGMENT_MIN": _op("UNSORTED_SEGMENT_MIN", np.minimum),
}
