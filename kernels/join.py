"""Ops that put tensors together along an axis, and those that take one apart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ._lower import Lower, check, indices, moved, placed
from ._shape import (
    INDEX,
    Values,
    axis_of,
    copies,
    copy,
    integers,
    known,
    like,
    rank_is,
    replaced,
    same_quantization,
    scalar_axis,
    sequence,
    settled,
    view,
    without,
)
from .api import Binding, NodeSpec, OpError, Registration, Run, Shape, TensorSpec, op, take
from .device import Capability, Lowered, Map
from .types import Array, DType


def _joined(node: NodeSpec, axis: int) -> Shape:
    """Shape of all inputs in a row along `axis`."""
    specs = [node.input(i) for i in range(len(node.inputs))]
    first = specs[0]
    like(node, first, *specs[1:], node.outputs[0])
    for spec in specs[1:]:
        if spec.rank != first.rank or without(spec.shape, axis) != without(first.shape, axis):
            raise OpError(
                f"{node.op} along axis {axis}: {spec.name!r} has shape {list(spec.shape)}, "
                f"{first.name!r} {list(first.shape)}; they may differ in dimension {axis} only"
            )
    return replaced(first.shape, axis, sum(s.shape[axis] for s in specs))


def _concatenation(node: NodeSpec) -> list[Shape | None]:
    first, y = node.input(0), node.outputs[0]
    if node.options.fused_activation_function != "NONE":
        raise OpError(
            f"CONCATENATION with activation {node.options.fused_activation_function}; taken: NONE"
        )
    specs = [node.input(i) for i in range(len(node.inputs))]
    if first.dtype is DType.INT8:
        same_quantization(node, y, *specs)
    if first.dtype is DType.INT16 and any(s.zero_point for s in (*specs, y)):
        raise OpError("CONCATENATION of int16 takes zero point 0 everywhere")
    if first.rank == 0 and node.options.axis == 0:
        # scalars in a row, as TensorFlow Lite's converter writes them
        like(node, first, *specs[1:], y)
        if any(s.rank for s in specs):
            raise OpError("CONCATENATION of a scalar takes scalars only")
        return [(len(specs),)]
    return [_joined(node, axis_of(node, node.options.axis, first.rank))]


def _bind_concatenation(b: Binding) -> Run | None:
    xs = [b.xi(i) for i in range(len(b.inputs))]
    y = b.y[0]
    if xs[0].ndim == 0:
        return copies([(y[i : i + 1], x) for i, x in enumerate(xs)])
    axis = axis_of(b, b.options.axis, y.ndim)
    tables = [_rescaling(b.input(i), b.outputs[0]) for i in range(len(xs))]
    if all(t is None for t in tables):
        return _row(y, xs, axis)
    runs: list[Run | None] = []
    for x, place, table in zip(
        xs, _views(y, [x.shape[axis] for x in xs], axis), tables, strict=True
    ):
        if table is None:
            runs.append(copy(place, x))
        else:
            stored = place if place.flags.c_contiguous else b.scratch(x.shape, np.uint8)
            runs.append(partial(table.take, x, None, stored, "clip"))
            if stored is not place:
                runs.append(copy(place, stored))
    return sequence(*runs)


def _rescaling(x: TensorSpec, y: TensorSpec) -> Array | None:
    """All 256 values of a uint8 input in the output's quantisation; None where the two agree.

    Source of the float32 arithmetic: TensorFlow Lite's concatenation with scaling.
    """
    if x.dtype is not DType.UINT8 or (x.scale, x.zero_point) == (y.scale, y.zero_point):
        return None
    if not x.scale or not y.scale:
        return None
    scale = np.float32(x.scale) * (np.float32(1) / np.float32(y.scale))
    bias = np.float32(-x.zero_point) * scale
    real = np.arange(256, dtype=np.float32) * scale + bias
    # C's round: halves away from zero
    rounded = np.trunc(real + np.copysign(np.float32(0.5), real)) + y.zero_point
    return np.asarray(np.clip(rounded, 0, 255).astype(np.uint8))


def _row(y: Array, xs: Sequence[Array], axis: int) -> Run:
    return copies(list(zip(_views(y, [x.shape[axis] for x in xs], axis), xs, strict=True)))


def _views(whole: Array, sizes: Sequence[int], axis: int) -> list[Array]:
    """Views of consecutive parts along `axis`."""
    views, start = [], 0
    for size in sizes:
        views.append(whole[(slice(None),) * axis + (slice(start, start + size),)])
        start += size
    return views


def _pack(node: NodeSpec) -> list[Shape | None]:
    specs = [node.input(i) for i in range(len(node.inputs))]
    first, y = specs[0], node.outputs[0]
    if len(specs) != node.options.values_count:
        raise OpError(f"PACK of {node.options.values_count} values has {len(specs)} inputs")
    axis = axis_of(node, node.options.axis, first.rank + 1)
    like(node, first, *specs[1:], y)
    same_quantization(node, y, *specs)
    for spec in specs:
        if spec.shape != first.shape:
            raise OpError(
                f"PACK takes one shape; {first.name!r} has {list(first.shape)}, "
                f"{spec.name!r} {list(spec.shape)}"
            )
    return [(*first.shape[:axis], len(specs), *first.shape[axis:])]


def _bind_pack(b: Binding) -> Run | None:
    y = b.y[0]
    axis = axis_of(b, b.options.axis, y.ndim)
    return _row(y, [np.expand_dims(b.xi(i), axis) for i in range(len(b.inputs))], axis)


def _unpack(node: NodeSpec) -> list[Shape | None]:
    x = node.input(0)
    axis = axis_of(node, node.options.axis, x.rank)
    like(node, x, *node.outputs)
    same_quantization(node, x, *node.outputs)
    if not x.shape[axis] == node.options.num == len(node.outputs):
        raise OpError(
            f"UNPACK of {x.name!r}, shape {list(x.shape)}, along axis {axis} into "
            f"{node.options.num} values, {len(node.outputs)} outputs: these numbers must agree"
        )
    return [without(x.shape, axis)] * len(node.outputs)


def _bind_unpack(b: Binding) -> Run | None:
    x = b.xi(0)
    apart = np.moveaxis(x, axis_of(b, b.options.axis, x.ndim), 0)
    return copies([(y, view(apart, [i])) for i, y in enumerate(b.y)])


def _split(node: NodeSpec) -> list[Shape | None]:
    x, count = node.input(1), len(node.outputs)
    like(node, x, *node.outputs)
    take(node, "axis", node.input(0), *INDEX)
    axis = scalar_axis(node, 0, x.rank)
    if node.options.num_splits != count:
        raise OpError(f"SPLIT into {node.options.num_splits} has {count} outputs")
    if axis is None:
        return [None] * count
    if x.shape[axis] % count:
        raise OpError(
            f"Not an even split: dimension {axis} of {x.name!r}, shape {list(x.shape)}, "
            f"into {count} parts"
        )
    return [replaced(x.shape, axis, x.shape[axis] // count)] * count


def _split_sizes(node: NodeSpec | Binding, x: TensorSpec, sizes: Values, axis: int) -> Values:
    """`sizes` with a -1 resolved."""
    total = sum(s for s in sizes if s != -1)
    rest = x.shape[axis] - total
    where = f"SPLIT_V of {x.name!r}, shape {list(x.shape)}, along axis {axis} into {list(sizes)}"
    if sizes.count(-1) > 1:
        raise OpError(f"The size_splits contains more than one -1: {where}")
    if any(s < -1 for s in sizes):
        raise OpError(f"{where}: no size may be negative")
    if rest < 0 and -1 in sizes:
        raise OpError(f"The sum of size_splits must be less than the dimension of value: {where}")
    if rest != 0 and -1 not in sizes:
        raise OpError(f"The size_splits must sum to the dimension of value along axis: {where}")
    return tuple(rest if s == -1 else s for s in sizes)


def _split_v(node: NodeSpec) -> list[Shape | None]:
    x, sizes, count = node.input(0), node.input(1), len(node.outputs)
    like(node, x, *node.outputs)
    take(node, "size_splits", sizes, *INDEX)
    take(node, "axis", node.input(2), *INDEX)
    rank_is(node, "size_splits", sizes, 1)
    if not sizes.size == count == node.options.num_splits:
        raise OpError(
            f"SPLIT_V into {node.options.num_splits} has {sizes.size} sizes and {count} outputs"
        )
    axis, values = scalar_axis(node, 2, x.rank), known(sizes)
    if axis is None or values is None:
        return [None] * count
    return [replaced(x.shape, axis, s) for s in _split_sizes(node, x, values, axis)]


def _bind_split(b: Binding, data: int, axis: int, reads: tuple[int, ...]) -> Run | None:
    """The outputs, whose shapes are settled, hold consecutive parts of input `data`."""

    def make() -> Run:
        x = b.xi(data)
        at = axis_of(b, integers(b, axis)[0], x.ndim)
        return copies(list(zip(b.y, _views(x, [y.shape[at] for y in b.y], at), strict=True)))

    return settled(b, reads, make)


def _stablehlo_concatenate(node: NodeSpec) -> list[Shape | None]:
    return [_joined(node, axis_of(node, node.options.dimension, node.input(0).rank))]


def _bind_stablehlo_concatenate(b: Binding) -> Run | None:
    return _row(b.y[0], [b.xi(i) for i in range(len(b.inputs))], b.options.dimension)


def _lower_join(node: NodeSpec, capability: Capability) -> Lowered:
    """CONCATENATION and PACK: each input is stored to its part."""
    check(node, capability)
    y = node.outputs[0]
    specs = [node.input(i) for i in range(len(node.inputs))]
    scalars = specs[0].rank == 0
    name = "dimension" if node.op == "STABLEHLO_CONCATENATE" else "axis"
    axis = 0 if scalars else axis_of(node, node.options[name], y.rank)
    single = scalars or node.op == "PACK"
    steps: list[Map] = []
    start = 0
    for i, spec in enumerate(specs):
        size = 1 if single else spec.shape[axis]
        at = start if single else slice(start, start + size)
        index = (*(slice(None) for _ in range(axis)), at)
        table = _rescaling(spec, y) if node.op == "CONCATENATION" else None
        steps.append(placed(y.shape, partial(view, index=index), i, table))
        start += size
    return Lowered(steps)


def _lower_unpack(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x = node.input(0)
    before = (slice(None),) * axis_of(node, node.options.axis, x.rank)
    return Lowered(
        [moved(x.shape, partial(view, index=(*before, i)), 0, i) for i in range(len(node.outputs))]
    )


def _lower_split(data: int, axis: int) -> Lower:
    def lower(node: NodeSpec, capability: Capability) -> Lowered:
        check(node, capability)
        x = node.input(data)
        at = axis_of(node, indices(node.input(axis))[0], x.rank)
        steps, start = [], 0
        for i, y in enumerate(node.outputs):
            part = (*(slice(None) for _ in range(at)), slice(start, start + y.shape[at]))
            steps.append(moved(x.shape, partial(view, index=part), data, i))
            start += y.shape[at]
        return Lowered(steps)

    return lower


OPS: dict[str, Registration] = {
    "CONCATENATION": op(
        "CONCATENATION", _concatenation, _bind_concatenation, versions=(1, 7), lower=_lower_join
    ),
    "PACK": op("PACK", _pack, _bind_pack, versions=(1, 5), lower=_lower_join),
    "UNPACK": op("UNPACK", _unpack, _bind_unpack, versions=(1, 6), lower=_lower_unpack),
    "SPLIT": op(
        "SPLIT",
        _split,
        lambda b: _bind_split(b, 1, 0, (0,)),
        versions=(1, 5),
        lower=_lower_split(1, 0),
    ),
    "SPLIT_V": op(
        "SPLIT_V",
        _split_v,
        lambda b: _bind_split(b, 0, 2, (1, 2)),
        versions=(1, 3),
        lower=_lower_split(0, 2),
    ),
    "STABLEHLO_CONCATENATE": op(
        "STABLEHLO_CONCATENATE",
        _stablehlo_concatenate,
        _bind_stablehlo_concatenate,
        lower=_lower_join,
    ),
}
