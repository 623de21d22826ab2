"""Ops that take a part of a tensor, or write one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._lower import check, indices, moved, refuse
from ._rows_lower import clamped_starts, coordinates, dot, rows, strides_of
from ._shape import (
    INDEX,
    Values,
    copy,
    integers,
    known,
    like,
    rank_is,
    sequence,
    settled,
    size_of,
    view,
)
from .api import Binding, NodeSpec, OpError, Registration, Run, Shape, TensorSpec, op, take
from .device import Capability, Lowered, Map
from .types import DType

# one entry for each dimension of the result or of the input: a new axis, a single index, a range
Entry = None | int | slice


def _strided(
    node: NodeSpec | Binding, shape: Shape, begin: Values | None, end: Values | None, steps: Values
) -> list[Entry] | None:
    """The index expression that the masks of STRIDED_SLICE stand for, all indices clamped.

    None where `begin` and `end` are needed but not known. With the option `offset` an end counts
    from its begin, and the lengths follow from `end` alone; `begin` None then stands for 0.
    """
    o = node.options
    new = [
        bool(o.new_axis_mask >> i & 1 and not o.ellipsis_mask >> i & 1) for i in range(len(steps))
    ]
    entries: list[Entry] = []
    axis = 0
    for i, step in enumerate(steps):
        bit = 1 << i
        if o.ellipsis_mask & bit:
            wide = len(shape) + sum(new) - len(steps) + 1
            # with more entries than dimensions TensorFlow Lite drops the surplus at the end
            wide = 1 if wide < 0 else wide
            entries += [slice(0, d, 1) for d in shape[axis : axis + wide]]
            axis += wide
        elif new[i]:
            entries.append(None)
        elif axis < len(shape):
            if step == 0:
                raise OpError(f"stride value has to be non-zero: STRIDED_SLICE got strides {steps}")
            if (begin is None and not o.offset) or end is None:
                return None
            first, last = (0 if begin is None else begin[i]), end[i]
            if o.offset:
                last += first
            entries.append(
                _range(shape[axis], first, last, step, o.begin_mask & bit, o.end_mask & bit)
                if not o.shrink_axis_mask & bit
                else _clamp(shape[axis], first, step, o.begin_mask & bit)
            )
            axis += 1
    return entries + [slice(0, d, 1) for d in shape[axis:]]


def _clamp(size: int, first: int, step: int, masked: int) -> int:
    if masked:
        return 0 if step > 0 else size - 1
    first += size if first < 0 else 0
    return min(max(first, 0), size) if step > 0 else min(max(first, -1), size - 1)


def _range(size: int, first: int, last: int, step: int, from_start: int, to_end: int) -> slice:
    start = _clamp(size, first, step, from_start)
    if to_end:
        stop = size if step > 0 else -1
    else:
        last += size if last < 0 else 0
        stop = min(max(last, 0), size) if step > 0 else min(max(last, -1), size - 1)
    return slice(start, stop, step)


def _length(part: slice) -> int:
    return len(range(part.start, part.stop, part.step))


def _numpy_index(entry: Entry) -> Entry:
    """A clamped range counts from 0 on; numpy would take its -1 for the last element."""
    if not isinstance(entry, slice):
        return entry
    if _length(entry) == 0:
        return slice(0, 0)
    return slice(entry.start, None if entry.stop < 0 else entry.stop, entry.step)


def _strided_slice(node: NodeSpec) -> list[Shape | None]:
    x, specs, o = node.input(0), [node.input(i) for i in (1, 2, 3)], node.options
    like(node, x, node.outputs[0])
    for what, spec in zip(("begin", "end", "strides"), specs, strict=True):
        take(node, what, spec, *INDEX)
        rank_is(node, what, spec, 1)
        if spec.size != specs[0].size:
            raise OpError(f"STRIDED_SLICE takes begin, end and strides of one length; got {specs}")
    begin, end, steps = (known(s) for s in specs)
    if steps is None:
        return [None]
    entries = _strided(node, x.shape, None if o.offset else begin, end, steps)
    if entries is None:
        return [None]
    if o.offset:
        return [_offset_shape(node, x.shape, end or (), steps, entries)]
    return [_result_shape(entries)]


def _result_shape(entries: Sequence[Entry]) -> Shape:
    return tuple(1 if e is None else _length(e) for e in entries if not isinstance(e, int))


def _offset_shape(
    node: NodeSpec, shape: Shape, end: Values, steps: Values, entries: Sequence[Entry]
) -> Shape:
    """With `offset` the end values are lengths, whatever the begin; they are not clamped."""
    if node.options.new_axis_mask or node.options.ellipsis_mask:
        return _result_shape(entries)
    lengths: list[int] = []
    for i, entry in enumerate(entries):
        if isinstance(entry, int):
            continue
        if i < len(end):
            lengths.append(len(range(0, end[i], steps[i])))
        else:
            lengths.append(_length(entry) if isinstance(entry, slice) else 1)
    return tuple(lengths)


def _bind_strided_slice(b: Binding) -> Run | None:
    x, y = b.xi(0), b.y[0]

    def make() -> Run | None:
        begin, end, steps = (integers(b, i) for i in (1, 2, 3))
        entries = _strided(b, x.shape, begin, end, steps) or []
        if y.size == 0:
            return None
        axis = 0
        for entry in entries:
            if isinstance(entry, int) and not 0 <= entry < x.shape[axis]:
                raise OpError(
                    f"STRIDED_SLICE: index {entry} in dimension {axis} of {b.input(0).name!r}, "
                    f"shape {list(x.shape)}, is out of bounds"
                )
            axis += entry is not None
        part = view(x, map(_numpy_index, entries))
        if part.shape != y.shape:
            raise OpError(
                f"STRIDED_SLICE with offset runs past the end of {b.input(0).name!r}, "
                f"shape {list(x.shape)}: {list(part.shape)} of {list(y.shape)} elements are there"
            )
        return copy(y, part)

    return settled(b, (1, 2, 3), make)


def _part(node: NodeSpec | Binding, x: TensorSpec, begin: Values, size: Values) -> list[slice]:
    """Ranges of SLICE, checked; -1 is all that remains."""
    parts = []
    for d, first, n in zip(x.shape, begin, size, strict=True):
        if n < -1:
            raise OpError(f"Invalid size. SLICE got size {list(size)}; taken: 0 or more, or -1")
        last = d if n == -1 else first + n
        if not 0 <= first <= last <= d:
            raise OpError(
                f"Invalid begin and size. SLICE of {x.name!r}, shape {list(x.shape)}, "
                f"from {list(begin)} with size {list(size)} leaves the tensor"
            )
        parts.append(slice(first, last))
    return parts


def _slice(node: NodeSpec) -> list[Shape | None]:
    x, begin, size = node.input(0), node.input(1), node.input(2)
    like(node, x, node.outputs[0])
    for what, spec in (("begin", begin), ("size", size)):
        take(node, what, spec, *INDEX)
        rank_is(node, what, spec, 1)
        if spec.size != x.rank:
            raise OpError(
                f"SLICE takes a {what} for each dimension of {x.name!r}, shape {list(x.shape)}; "
                f"got {spec.size}"
            )
    starts, sizes = known(begin), known(size)
    if sizes is not None and starts is not None:
        return [tuple(s.stop - s.start for s in _part(node, x, starts, sizes))]
    return [sizes if sizes is not None and min(sizes, default=0) >= 0 else None]


def _bind_slice(b: Binding) -> Run | None:
    x, y = b.xi(0), b.y[0]

    def make() -> Run:
        parts = _part(b, b.input(0), integers(b, 1), integers(b, 2))
        return copy(y, view(x, parts))

    return settled(b, (1, 2), make)


def _starts(b: Binding, first: int) -> Values:
    """Start indices: one vector, or one scalar for each dimension."""
    return tuple(v for i in range(first, len(b.inputs)) for v in integers(b, i))


def _window(start: Values, whole: Shape, part: Shape) -> tuple[slice, ...]:
    """`part` at `start`, moved so that it lies inside `whole`."""
    return tuple(
        slice(at, at + n)
        for at, n in (
            (min(max(0, s), d - n), n) for s, d, n in zip(start, whole, part, strict=True)
        )
    )


def _check_starts(node: NodeSpec, x: TensorSpec, part: Shape, first: int) -> None:
    specs = [node.input(i) for i in range(first, len(node.inputs))]
    for spec in specs:
        take(node, "start index", spec, DType.INT32, DType.INT64, DType.UINT32)
    if sum(s.size for s in specs) != x.rank:
        raise OpError(f"{node.op} takes a start index for each dimension of {x.name!r}")
    if len(part) != x.rank or any(n > d for n, d in zip(part, x.shape, strict=True)):
        raise OpError(
            f"{node.op}: a part of shape {list(part)} does not fit into {x.name!r}, "
            f"shape {list(x.shape)}"
        )


def _dynamic_update_slice(node: NodeSpec) -> list[Shape | None]:
    x, update = node.input(0), node.input(1)
    like(node, x, update, node.outputs[0])
    _check_starts(node, x, update.shape, 2)
    return [x.shape]


def _bind_dynamic_update_slice(b: Binding) -> Run | None:
    x, update, y = b.xi(0), b.xi(1), b.y[0]
    keep = None if np.may_share_memory(x, y) else copy(y, x)

    def write() -> Run:
        at = _window(_starts(b, 2), x.shape, update.shape)
        return copy(view(y, at), update)

    return sequence(keep, settled(b, range(2, len(b.inputs)), write))


def _stablehlo_slice(node: NodeSpec) -> list[Shape | None]:
    x, o = node.input(0), node.options
    like(node, x, node.outputs[0])
    spans = zip(x.shape, o.start_indices, o.limit_indices, o.strides, strict=True)
    if not all(0 <= a <= z <= d and s > 0 for d, a, z, s in spans):
        raise OpError(
            f"STABLEHLO_SLICE of {x.name!r}, shape {list(x.shape)}, from {list(o.start_indices)} "
            f"to {list(o.limit_indices)} in steps {list(o.strides)} leaves the tensor"
        )
    return [tuple(_length(s) for s in _stablehlo_parts(o))]


def _stablehlo_parts(options: object) -> tuple[slice, ...]:
    o: dict[str, Values] = vars(options)
    return tuple(map(slice, o["start_indices"], o["limit_indices"], o["strides"]))


def _bind_stablehlo_slice(b: Binding) -> Run | None:
    return copy(b.y[0], view(b.xi(0), _stablehlo_parts(b.options)))


def _stablehlo_dynamic_slice(node: NodeSpec) -> list[Shape | None]:
    x, size = node.input(0), tuple(node.options.slice_sizes)
    like(node, x, node.outputs[0])
    _check_starts(node, x, size, 1)
    return [size]


def _bind_stablehlo_dynamic_slice(b: Binding) -> Run | None:
    x, y = b.xi(0), b.y[0]

    def make() -> Run:
        return copy(y, view(x, _window(_starts(b, 1), x.shape, y.shape)))

    return settled(b, range(1, len(b.inputs)), make)


def _lower_slice(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x = node.input(0)
    if node.op == "STABLEHLO_SLICE":
        part = list(_stablehlo_parts(node.options))
    else:
        part = _part(node, x, indices(node.input(1)), indices(node.input(2)))
    return Lowered([moved(x.shape, lambda a: view(a, part))])


def _lower_strided_slice(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    if node.options.offset:
        refuse("OPTION", "offset", "ends that are indices")
    x = node.input(0)
    entries = _strided(node, x.shape, *(indices(node.input(i)) for i in (1, 2, 3))) or []
    axis = 0
    for entry in entries:
        if isinstance(entry, int) and not 0 <= entry < x.shape[axis]:
            refuse("OPTION", f"index {entry} in dimension {axis} of {list(x.shape)}", "one inside")
        axis += entry is not None
    return Lowered([moved(x.shape, lambda a: view(a, map(_numpy_index, entries)))])


def _lower_window(node: NodeSpec, capability: Capability) -> Lowered:
    """A part of a tensor, moved so that it lies inside, is read or written, row by row."""
    check(node, capability)
    write = node.op != "STABLEHLO_DYNAMIC_SLICE"
    whole, first = node.input(0).shape, 2 if write else 1
    part = node.input(1).shape if write else node.outputs[0].shape
    specs = [node.input(i) for i in range(first, len(node.inputs))]
    limits = [d - n for d, n in zip(whole, part, strict=True)]
    starts = clamped_starts(specs, limits, 1)
    inner = part[-1] if part else 1
    at = coordinates("r", part[:-1]) + ["0"] * bool(part)
    strides = strides_of(whole)
    begin = dot(starts, strides)
    place = f"{'to' if write else 'from'} = {begin} + {dot(at, strides)};"
    reads = (1 if write else 0, *range(first, len(node.inputs)))
    kernel = rows(capability, size_of(part[:-1]), inner, place, reads, uses=("arithmetic",))
    if not size_of(part):
        return Lowered([Map()] if write else [])
    return Lowered([Map(), kernel] if write else [kernel])


OPS: dict[str, Registration] = {
    "STRIDED_SLICE": op(
        "STRIDED_SLICE",
        _strided_slice,
        _bind_strided_slice,
        versions=(1, 8),
        lower=_lower_strided_slice,
    ),
    "SLICE": op("SLICE", _slice, _bind_slice, versions=(1, 8), lower=_lower_slice),
    "DYNAMIC_UPDATE_SLICE": op(
        "DYNAMIC_UPDATE_SLICE",
        _dynamic_update_slice,
        _bind_dynamic_update_slice,
        versions=(1, 6),
        inplace=(0,),
        lower=_lower_window,
    ),
    "STABLEHLO_SLICE": op(
        "STABLEHLO_SLICE", _stablehlo_slice, _bind_stablehlo_slice, lower=_lower_slice
    ),
    "STABLEHLO_DYNAMIC_SLICE": op(
        "STABLEHLO_DYNAMIC_SLICE",
        _stablehlo_dynamic_slice,
        _bind_stablehlo_dynamic_slice,
        lower=_lower_window,
    ),
    "STABLEHLO_DYNAMIC_UPDATE_SLICE": op(
        "STABLEHLO_DYNAMIC_UPDATE_SLICE",
        _dynamic_update_slice,
        _bind_dynamic_update_slice,
        inplace=(0,),
        lower=_lower_window,
    ),
}
