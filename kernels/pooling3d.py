"""AvgPool3D and MaxPool3D: along the depth, then the height, then the width."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ._check import BYTES, option_map
from ._lower import check, f32, refuse, share_for
from ._shape import same_quantization
from ._volume_lower import axis_macros
from ._widen import FLOATS, in_float32
from ._window import output_size, padding_before, sequence
from .api import Binding, NodeSpec, OpError, Run, Shape, op, require, take
from .device import Capability, Kernel, Lowered
from .types import Array, DType

Triple = tuple[int, int, int]

_AVERAGE, _MAX = "AvgPool3D", "MaxPool3D"


def _options(node: NodeSpec | Binding) -> tuple[str, Triple, Triple]:
    """Padding, filter and strides; the latter two of depth, height and width."""
    found = option_map(node.options)
    form = found.get("data_format", "")
    require(form == "NDHWC", f"{node.op} with data_format {form!r}; taken: 'NDHWC'")
    triples = []
    for key in ("ksize", "strides"):
        sizes = [int(n) for n in found.get(key, ())]
        if len(sizes) != 5 or sizes[0] != 1 or sizes[4] != 1 or min(sizes) < 1:
            raise OpError(
                f"{node.op} with {key} {sizes}; taken: 5 numbers, the first and the last of them "
                "1, the others 1 or more"
            )
        triples.append((sizes[1], sizes[2], sizes[3]))
    return found.get("padding", ""), triples[0], triples[1]


def _infer(node: NodeSpec) -> list[Shape]:
    x, y = node.input(0), node.outputs[0]
    take(node, "input 0", x, *FLOATS, *BYTES, DType.INT16)
    take(node, "the output", y, x.dtype)
    require(x.rank == 5, f"{node.op} takes a 5-dimensional input; got {list(x.shape)}")
    if x.dtype in BYTES:
        same_quantization(node, x, y)
    padding, kernel, stride = _options(node)
    sizes = zip(x.shape[1:4], kernel, stride, strict=True)
    out = [output_size(padding, n, k, s, 1) for n, k, s in sizes]
    if min(out) < 0:
        raise OpError(f"{node.op}: a window of {kernel} does not fit into {x.shape[1:4]}")
    return [(x.shape[0], *out, x.shape[4])]


def _bind(b: Binding) -> Run | None:
    x, y = b.xi(0), b.y[0]
    if not y.size:
        return None
    _, kernel, stride = _options(b)
    average = b.op == _AVERAGE
    combine = np.add if average else np.fmax
    integer = x.dtype.kind in "iu"
    dtype: Any = np.float64 if average and integer else x.dtype
    steps: list[Run] = []
    source, counts = x, np.ones((), dtype)
    if source.dtype != dtype:
        source = b.scratch(x.shape, dtype)
        steps.append(partial(np.copyto, source, x))
    for axis in (1, 2, 3):
        shape = (*y.shape[: axis + 1], *x.shape[axis + 1 :])
        target = y if axis == 3 and y.dtype == dtype else b.scratch(shape, dtype)
        seen = _along(axis, source, target, kernel[axis - 1], stride[axis - 1], combine, steps)
        counts = np.multiply.outer(counts, seen.astype(dtype))
        source = target
    if average:
        count = np.ascontiguousarray(counts[..., None])
        if integer:
            half = count // 2

            def add_half() -> None:
                """Away from zero, for quotients that are cut off."""
                np.add(source, np.copysign(half, source), out=source)

            steps.append(add_half)
        steps.append(partial(np.divide, source, count, out=source))
    elif not integer:
        # the reference starts with the lowest number: what is less, or NaN, leaves it so
        steps.append(partial(np.fmax, y, np.finfo(dtype).min, out=y))
    if source is not y:
        steps.append(partial(np.copyto, y, source, casting="unsafe"))
    return sequence(steps)


def _along(
    axis: int, x: Array, y: Array, kernel: int, stride: int, combine: np.ufunc, steps: list[Run]
) -> Array:
    """Adds steps that pool x along an axis into y. Returns how many of x each place of y sees."""
    size, out = x.shape[axis], y.shape[axis]
    before = padding_before(size, kernel, stride, 1, out)
    x, y = np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0)
    seen = np.zeros(out, np.int64)
    taps: list[tuple[Array, Array, bool]] = []
    for offset in range(-before, kernel - before):
        first, last = max(0, -(offset // stride)), min(out, -(-(size - offset) // stride))
        if first >= last:
            continue
        begin = first * stride + offset
        source = x[begin : begin + (last - first - 1) * stride + 1 : stride]
        taps.append((source, y[first:last], last - first == out))
        seen[first:last] += 1
    # the window's own place, offset 0, lies inside everywhere: one tap is whole
    taps.sort(key=lambda tap: not tap[2])
    steps.append(partial(np.copyto, y, taps[0][0]))
    steps += [partial(combine, part, source, out=part) for source, part, _ in taps[1:]]
    return seen


def _lower(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, y = node.input(0), node.outputs[0]
    if x.dtype is DType.FLOAT64:
        refuse("DTYPE", f"{x.name!r} of float64", "other types")
    if not y.size:
        return Lowered([])
    _, kernel, stride = _options(node)
    sizes = (x.shape[1:4], kernel, stride, y.shape[1:4])
    before = [padding_before(n, k, s, 1, o) for n, k, s, o in zip(*sizes, strict=True)]
    average, integer = node.op == _AVERAGE, x.dtype.is_integer
    start, combine, finish = "0", "(a) + (v)", "(v)"
    if integer and average:
        finish = "((v) < 0 ? (v) - count / 2 : (v) + count / 2) / count"
    elif average:
        finish = "(v) / (f32)count"
    elif integer:
        start, combine = str(x.dtype.range()[0]), "(a) > (v) ? (a) : (v)"
    else:
        lowest = np.finfo(np.float16 if x.dtype is DType.FLOAT16 else np.float32).min
        start, combine = f32(float(lowest)), "F_MAX(a, v)"
    each = share_for(capability, y.size)
    defines: dict[str, object] = {
        "ACC": "i32" if integer else "f32",
        "START": start,
        "COMBINE(a, v)": f"({combine})",
        "FINISH(v, count)": f"({finish})",
        "EACH": each,
        "SIZE": y.size,
        "C": x.shape[4],
        **axis_macros(size=x.shape[1:4], out=y.shape[1:4], K=kernel, S=stride, P=before),
    }
    return Lowered([Kernel("pool_nd", (0,), (-(-y.size // each),), defines)])


OPS = {
    name: op(name, _infer, in_float32(_bind), custom=True, lower=_lower)
    for name in (_AVERAGE, _MAX)
}
