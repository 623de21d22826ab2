"""Padding with a value, by reflection, and between elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._lower import check, indices, layout, placed, share_for
from ._register_tiles import lanes_of
from ._rows_lower import coordinates, dot, separable, strides_of
from ._shape import (
    INDEX,
    copies,
    copy,
    integers,
    known,
    like,
    one,
    rank_is,
    same_quantization,
    sequence,
    settled,
    size_of,
    view,
    zero_of,
)
from .api import Binding, NodeSpec, OpError, Registration, Run, Shape, TensorSpec, op, take
from .device import Capability, Kernel, Lowered, Map, Read
from .types import Array, DType

Pairs = list[tuple[int, int]]

# below this many bytes one fill of the whole and one copy are faster than the borders one by one
_SMALL = 1 << 15
# elements for which it is worth waking another core of a device
_LEAST = 1024


def _pairs(values: Sequence[int]) -> Pairs:
    return list(zip(values[::2], values[1::2], strict=True))


def _pads(node: NodeSpec, x: TensorSpec, dtypes: tuple[DType, ...]) -> Pairs | None:
    """(before, after) for each dimension, checked; None where the values are not known (yet)."""
    spec = node.input(1)
    take(node, "paddings", spec, *dtypes)
    if spec.shape != (x.rank, 2):
        raise OpError(
            f"{node.op} takes paddings of shape [{x.rank}, 2] for {x.name!r}, "
            f"shape {list(x.shape)}; got {list(spec.shape)}"
        )
    values = known(spec)
    if values is None:
        return None
    if any(v < 0 for v in values):
        raise OpError(
            f"Pad value has to be greater than equal to 0: {node.op} got {_pairs(values)}"
        )
    return _pairs(values)


def _grown(x: TensorSpec, pads: Pairs) -> Shape:
    return tuple(d + a + z for d, (a, z) in zip(x.shape, pads, strict=True))


def _pad(node: NodeSpec) -> list[Shape | None]:
    x, y = node.input(0), node.outputs[0]
    like(node, x, y)
    value = node.optional(2)
    if value is not None:
        like(node, x, value)
        one(node, f"constant_values {value.name!r}", value)
        if x.dtype in (DType.INT8, DType.UINT8, DType.INT16) and x.quant is not None:
            same_quantization(node, y, value)
    pads = _pads(node, x, (*INDEX, DType.INT8, DType.INT16, DType.BOOL))
    return [None if pads is None else _grown(x, pads)]


def _bind_pad(b: Binding) -> Run | None:
    x, y = b.xi(0), b.y[0]
    value = b.xi(2) if b.optional(2) is not None else zero_of(b.outputs[0])

    def make() -> Run | None:
        pads = _pairs(integers(b, 1))
        inner = _inner(pads, x.shape)
        if y.nbytes <= _SMALL:
            return copies([(y, np.asarray(value)), (view(y, inner), x)])
        borders = [(border, np.asarray(value)) for border in _borders(y, inner)]
        return copies([*borders, (view(y, inner), x)])

    return settled(b, (1,), make)


def _lower_pad(node: NodeSpec, capability: Capability) -> Lowered:
    """The value everywhere, then the input inside; on CPUs row by row, in one step."""
    check(node, capability)
    x, y = node.input(0), node.outputs[0]
    pads = _pairs(indices(node.input(1)))
    inner = _inner(pads, x.shape)
    given = node.optional(2) is not None
    if capability.kind == "cpu" and x.size and x.size < y.size:
        return Lowered([_in_rows(node, capability, pads, "LOAD1(0)" if given else str(zero_of(y)))])
    fill = Map("$0", (Read(2),)) if given else Map(str(zero_of(y)), ())
    inside = placed(y.shape, lambda a: view(a, inner), 0)
    return Lowered([inside] if x.size == y.size else [fill, inside])


def _in_rows(node: NodeSpec, capability: Capability, pads: Pairs, fill: str) -> Kernel:
    x, y = node.input(0), node.outputs[0]
    axis = max(i for i, pair in enumerate(pads) if any(pair))
    beside = size_of(x.shape[axis + 1 :])
    count, width = size_of(y.shape[:axis]), y.shape[axis] * beside
    places, inside = [], []
    for c, d, (before, after) in zip(coordinates("r", y.shape[:axis]), x.shape, pads, strict=False):
        places.append(f"({c} - {before})" if before else c)
        if before or after:
            inside.append(f"{c} >= {before} && {c} < {before + d}")
    place = dot(places, strides_of(x.shape)[:axis])
    each = share_for(capability, count, max(1, _LEAST // width))
    inner, lanes = x.shape[axis] * beside, 1
    if x.dtype is DType.FLOAT32 and inner >= 4:
        lanes = next(n for n in (16, 8, 4) if n <= min(inner, lanes_of(capability)))
    defines = {
        "COUNT": count,
        "EACH": each,
        "WIDTH": width,
        "BEFORE": pads[axis][0] * beside,
        "INNER": inner,
        "VW": lanes,
        "VECTOR_ROW": width,
        "PLACE": f"from = {' && '.join(inside) or '1'} ? {place} : -1;",
        "FILL": fill,
    }
    reads = (0,) if node.optional(2) is None else (0, 2)
    return Kernel("pad_cpu", reads, (-(-count // each),), defines)


def _inner(pads: Pairs, shape: Shape) -> tuple[slice, ...]:
    return tuple(slice(a, a + d) for (a, _), d in zip(pads, shape, strict=True))


def _borders(y: Array, inner: tuple[slice, ...]) -> list[Array]:
    """Views that cover, once, all of `y` outside `inner`."""
    views = []
    for axis, part in enumerate(inner):
        outer = inner[:axis]
        for side in (slice(0, part.start), slice(part.stop, None)):
            border = y[(*outer, side)]
            if border.size:
                views.append(border)
    return views


def _mirror_offset(node: NodeSpec | Binding) -> int:
    return {"REFLECT": 1, "SYMMETRIC": 0}[node.options.mode]


def _mirror_pad(node: NodeSpec) -> list[Shape | None]:
    x = node.input(0)
    like(node, x, node.outputs[0])
    pads = _pads(node, x, INDEX)
    if pads is None:
        return [None]
    offset = _mirror_offset(node)
    for i, (d, (before, after)) in enumerate(zip(x.shape, pads, strict=True)):
        if max(before, after) > d - offset:
            raise OpError(
                "MirrorPad paddings must be no greater than the input dimension size minus the "
                f"mode offset: dimension {i} of {x.name!r} is {d}, so {node.options.mode} takes "
                f"at most {d - offset}; got {before} and {after}"
            )
    return [_grown(x, pads)]


def _bind_mirror_pad(b: Binding) -> Run | None:
    x, y = b.xi(0), b.y[0]
    offset = _mirror_offset(b)

    def make() -> Run | None:
        pads = _pairs(integers(b, 1))
        inner = _inner(pads, x.shape)
        steps = [(view(y, inner), x)]
        # one axis after the other, out of what is there already: corners come by themselves
        for axis, (before, after) in enumerate(pads):
            rows = np.moveaxis(y[(slice(None),) * (axis + 1) + inner[axis + 1 :]], axis, 0)
            if before:
                steps.append((rows[:before], rows[before + offset :][:before][::-1]))
            if after:
                end = before + x.shape[axis]
                steps.append((rows[end:], rows[: end - offset][::-1][:after]))
        return copies(steps)

    return settled(b, (1,), make)


def _lower_mirror_pad(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, offset = node.input(0), _mirror_offset(node)
    tables = []
    for d, (before, after) in zip(x.shape, _pairs(indices(node.input(1))), strict=True):
        low = [before - i - 1 + offset for i in range(before)]
        high = [d - 1 - i - offset for i in range(after)]
        tables.append([*low, *range(d), *high])
    return Lowered([separable(capability, tables, x.shape)])


def _stablehlo_pad(node: NodeSpec) -> list[Shape | None]:
    x, value, o = node.input(0), node.input(1), node.options
    like(node, x, value, node.outputs[0])
    one(node, "padding value", value)
    for name in ("edge_padding_low", "edge_padding_high", "interior_padding"):
        if len(o[name]) != x.rank:
            raise OpError(f"STABLEHLO_PAD: {name} {list(o[name])} for {x.name!r} of rank {x.rank}")
    if min(o.interior_padding, default=0) < 0:
        raise OpError(
            f"StableHLO Pad interior padding must be non-negative; got {list(o.interior_padding)}"
        )
    shape = tuple(
        d + max(d - 1, 0) * i + a + z
        for d, a, z, i in zip(
            x.shape, o.edge_padding_low, o.edge_padding_high, o.interior_padding, strict=True
        )
    )
    # as in TensorFlow Lite: where one dimension is cut away, all are 0
    return [shape if all(d > 0 for d in shape) else (0,) * x.rank]


def _bind_stablehlo_pad(b: Binding) -> Run | None:
    x, y = b.xi(0), b.y[0]
    if not y.size:
        return None
    source, target = _meeting(x.shape, y.shape, b.options)
    inside = view(x, source)
    fill = copy(y, b.xi(1))
    return sequence(fill, copy(view(y, target), inside) if inside.size else None)


def _meeting(x: Shape, y: Shape, options: Any) -> tuple[list[slice], list[slice]]:
    """Which elements of the input are left, and where in the output they go."""
    source, target = [], []
    low_edges, gaps = options.edge_padding_low, options.interior_padding
    for d, size, low, gap in zip(x, y, low_edges, gaps, strict=True):
        step = gap + 1
        # elements 0 .. d-1 go to low + i*step; keep those that fall inside
        first = max(0, -(low // step))
        last = min(d, (size - 1 - low) // step + 1)
        source.append(slice(first, max(first, last)))
        start = low + first * step
        target.append(slice(start, start + max(0, last - first - 1) * step + 1, step))
    return source, target


def _lower_stablehlo_pad(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, y = node.input(0).shape, node.outputs[0].shape
    source, target = _meeting(x, y, node.options)
    return Lowered(_filled(x, y, source, target))


def _lower_dilate(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, y = node.input(0).shape, node.outputs[0].shape
    steps = [slice(None, None, f) for f in indices(node.input(1))]
    return Lowered(_filled(x, y, [slice(None)] * len(x), steps, 2))


def _filled(
    x: Shape, y: Shape, source: list[slice], target: list[slice], value: int = 1
) -> list[Map]:
    """Input `value` everywhere, then a part of input 0 to a part of the output."""
    shape, read = layout(x, lambda a: view(a, source))
    _, place = layout(y, lambda a: view(a, target))
    part = Map("$0", (read,), shape=shape, strides=place.strides, offset=place.offset)
    fill = Map("$0", (Read(value),))
    return [fill, part] if size_of(shape) else [fill]


def _dilate(node: NodeSpec) -> list[Shape | None]:
    x, factors, value = node.input(0), node.input(1), node.input(2)
    like(node, x, value, node.outputs[0])
    take(node, "dilations", factors, *INDEX)
    rank_is(node, "dilations", factors, 1)
    one(node, "padding value", value)
    if factors.size != x.rank or not x.rank:
        raise OpError(f"DILATE takes rank 1 or more and a factor for each dimension of {x.name!r}")
    values = known(factors)
    if values is None:
        return [None]
    if min(values) < 1:
        raise OpError(f"DILATE takes dilations of 1 or more; got {list(values)}")
    return [tuple((d - 1) * f + 1 if d else 0 for d, f in zip(x.shape, values, strict=True))]


def _bind_dilate(b: Binding) -> Run | None:
    y = b.y[0]

    def make() -> Run:
        steps = tuple(slice(None, None, f) for f in integers(b, 1))
        return copies([(y, b.xi(2).reshape(())), (y[steps], b.xi(0))])

    return settled(b, (1,), make)


OPS: dict[str, Registration] = {
    "PAD": op("PAD", _pad, _bind_pad, versions=(1, 6), lower=_lower_pad),
    "PADV2": op("PADV2", _pad, _bind_pad, versions=(1, 6), lower=_lower_pad),
    "MIRROR_PAD": op(
        "MIRROR_PAD", _mirror_pad, _bind_mirror_pad, versions=(1, 3), lower=_lower_mirror_pad
    ),
    "STABLEHLO_PAD": op(
        "STABLEHLO_PAD", _stablehlo_pad, _bind_stablehlo_pad, lower=_lower_stablehlo_pad
    ),
    "DILATE": op("DILATE", _dilate, _bind_dilate, lower=_lower_dilate),
}
