"""AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D: first along the height, then along the width."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ._check import BYTES
from ._convolution_parts import window_macros
from ._lower import check, f32, lanes_for, refuse
from ._pool_float_lower import lower_float_pool
from ._quant import activation_range, float_activation_range
from ._register_tiles import shares
from ._widen import FLOATS, in_float32
from ._window import Window, largest, sequence
from .api import Binding, NodeSpec, OpError, Run, Shape, op, take
from .device import Capability, Kernel, Lowered
from .types import Array, DType

_TYPES = {
    "MAX_POOL_2D": (*FLOATS, DType.UINT8, DType.INT8, DType.INT16),
    "AVERAGE_POOL_2D": (*FLOATS, DType.UINT8, DType.INT8, DType.INT16),
    "L2_POOL_2D": FLOATS,
}
_BLOCK = 1 << 17  # elements of the rows pooled together


def _window(node: NodeSpec | Binding) -> Window:
    o, x = node.options, node.input(0).shape
    kernel, stride = (o.filter_height, o.filter_width), (o.stride_h, o.stride_w)
    return Window.of(o.padding, (x[1], x[2]), kernel, stride)


def _infer(node: NodeSpec) -> list[Shape]:
    x, y = node.input(0), node.outputs[0]
    take(node, "input 0", x, *_TYPES[node.op])
    take(node, "the output", y, x.dtype)
    if x.rank != 4:
        raise OpError(f"{node.op} takes a 4-dimensional input; got {list(x.shape)}")
    _bounds(node)
    return [(x.shape[0], *_window(node).out, x.shape[3])]


def _bounds(node: NodeSpec | Binding) -> tuple[float, float]:
    """Least and greatest output under the fused activation."""
    activation, y = node.options.fused_activation_function, node.outputs[0]
    if y.dtype.is_float:
        return float_activation_range(activation)
    if y.quant is None or not y.scale > 0:
        if activation == "NONE":
            return y.dtype.range()
        raise OpError(
            f"output {y.name!r} is {y.dtype.label} without a scale, which the fused activation "
            f"{activation} needs"
        )
    return activation_range(activation, y)


@dataclass(frozen=True, slots=True, eq=False)
class _Pool:
    """Pooling by one function of two elements. `x` holds whole rows: [images, height, width, c]."""

    window: Window
    combine: Callable[..., Any]

    def along(self, axis: int, x: Array, first: int, outputs: slice, y: Array) -> list[Run]:
        """Steps that pool axis 0 (height) or 1 (width) of x, which begins at input index `first`
        of that axis, into y for these outputs."""
        window = self.window
        size, stride = window.size[axis], window.stride[axis]
        full: list[Array] = []
        partly: list[tuple[Array, Array]] = []
        for tap in range(window.kernel[axis]):
            offset = tap - window.before[axis]
            start = max(outputs.start, -(offset // stride))
            stop = min(outputs.stop, -(-(size - offset) // stride))
            if start >= stop:
                continue
            begin = start * stride + offset - first
            part = slice(begin, begin + (stop - start - 1) * stride + 1, stride)
            source = x[:, part] if axis == 0 else x[:, :, part]
            target = slice(start - outputs.start, stop - outputs.start)
            if stop - start == outputs.stop - outputs.start:
                full.append(source)
            else:
                partly.append((source, y[:, target] if axis == 0 else y[:, :, target]))
        # the tap at the window's own position lies inside for every output
        steps: list[Run] = []
        if len(full) == 1:
            steps.append(partial(np.copyto, y, full[0]))
        else:
            steps.append(partial(self.combine, full[0], full[1], out=y))
        steps += [partial(self.combine, y, source, out=y) for source in full[2:]]
        steps += [partial(self.combine, part, source, out=part) for source, part in partly]
        return steps


def _bind(b: Binding) -> Run | None:
    x, y, window = b.xi(0), b.y[0], _window(b)
    if not y.size:
        return None
    maximum = b.op == "MAX_POOL_2D"
    pool = _Pool(window, np.fmax if maximum else np.add)
    dtype = x.dtype if maximum else _sum_type(b, window)
    width, channels = x.shape[2:]
    blocks = list(window.blocks(x.shape[0], width * channels, _BLOCK))
    most = largest(blocks)
    middle = b.scratch((*most, width, channels), dtype)
    sums = None if dtype == y.dtype else b.scratch((*most, window.out[1], channels), dtype)
    height = min(window.padded_shape(*most, channels)[1], x.shape[1])
    squares = b.op == "L2_POOL_2D"
    copies = squares or dtype != x.dtype
    copy = b.scratch((most[0], height, width, channels), dtype) if copies else None
    steps: list[Run] = []
    for n, r in blocks:
        top, bottom = window.span(0, r.start, r.stop)
        top, bottom = max(top, 0), min(bottom, x.shape[1])
        source = x[n, top:bottom]
        if copy is not None:
            part = copy[: source.shape[0], : source.shape[1]]
            steps.append(partial(np.copyto, part, source))
            if squares:
                steps.append(partial(np.square, part, out=part))
            source = part
        rows_done = middle[: source.shape[0], : r.stop - r.start]
        steps += pool.along(0, source, top, r, rows_done)
        block = y[n, r]
        out = block if sums is None else sums[: block.shape[0], : block.shape[1]]
        steps += pool.along(1, rows_done, 0, slice(0, window.out[1]), out)
        steps += _finish(b, window, r, out, block)
    return sequence(steps)


def _sum_type(b: Binding, window: Window) -> Any:
    """Float type that holds the sums of an average, and its quotients where these are integers."""
    x = b.input(0).dtype
    if x is DType.FLOAT64 or x is DType.INT16:
        return np.dtype(np.float64)
    exact = window.kernel[0] * window.kernel[1] < 1 << 15
    return np.dtype(np.float32 if exact or x.is_float else np.float64)


def _finish(b: Binding, window: Window, rows: slice, out: Array, y: Array) -> list[Run]:
    """Steps from maxima or sums `out` to the block of outputs `y`."""
    low, high = _bounds(b)
    steps: list[Run] = []
    if b.op == "MAX_POOL_2D":
        if out.dtype.kind == "f":
            # the reference starts with the lowest number: what is less, or NaN, leaves it so
            low = max(low, float(np.finfo(out.dtype).min))
    else:
        count = _counts(window, rows).astype(out.dtype)
        if y.dtype.kind in "iu":
            half = count // 2
            steps.append(partial(_add_away_from_zero, out, half))
        steps.append(partial(np.divide, out, count, out=out))
        if b.op == "L2_POOL_2D":
            steps.append(partial(np.sqrt, out, out=out))
        if y.dtype.kind in "iu":
            steps.append(partial(np.trunc, out, out=out))
    ends = b.input(0).dtype.range() if out.dtype.kind in "iu" else (-np.inf, np.inf)
    if low > ends[0]:
        steps.append(partial(np.fmax, out, out.dtype.type(low), out=out))
    if high < ends[1]:
        steps.append(partial(np.fmin, out, out.dtype.type(high), out=out))
    if out is not y:
        steps.append(partial(np.copyto, y, out, casting="unsafe"))
    return steps


def _add_away_from_zero(sums: Array, half: Array) -> None:
    np.add(sums, np.copysign(half, sums), out=sums)


def _counts(window: Window, rows: slice) -> Array:
    """[rows, width, 1]: how many input elements each output sees; [1, 1, 1] where all see alike."""
    found = []
    for axis, outputs in ((0, rows), (1, slice(0, window.out[1]))):
        first = np.arange(outputs.start, outputs.stop) * window.stride[axis] - window.before[axis]
        last = np.minimum(first + window.kernel[axis], window.size[axis])
        found.append(last - np.maximum(first, 0))
    counts: Array = np.multiply.outer(found[0], found[1])[:, :, None]
    same = counts.size and (counts == counts.flat[0]).all()
    return counts[:1, :1] if same else counts


def _lower(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, window = node.input(0), _window(node)
    if x.dtype is DType.FLOAT64:
        refuse("DTYPE", f"{x.name!r} of float64", "other types")
    low, high = _bounds(node)
    integer, maximum = x.dtype.is_integer, node.op == "MAX_POOL_2D"
    if _on_vectors(node, capability, window):
        return _lower_bytes(node, capability, window)
    if integer:
        start, combine = (str(x.dtype.range()[0]), "(a) > (v) ? (a) : (v)")
        if not maximum:
            start, combine = "0", "(a) + (v)"
        mean = "((v) + ((v) < 0 ? -(count / 2) : count / 2)) / count"
        finish = f"clamp_to({'v' if maximum else mean}, {int(low)}, {int(high)})"
    else:
        # the reference starts with the lowest number: what is less, or NaN, leaves it so
        lowest = float(np.finfo(np.float16 if x.dtype is DType.FLOAT16 else np.float32).min)
        start, combine = (f32(lowest), "F_MAX(a, v)") if maximum else ("0.0f", "(a) + (v)")
        if node.op == "L2_POOL_2D":
            combine = "(a) + (v) * (v)"
        finish = "(v)" if maximum else "((v) / (f32)count)"
        finish = f"F_SQRT({finish})" if node.op == "L2_POOL_2D" else finish
        finish = finish if np.isinf(low) else f"F_MAX({finish}, {f32(low)})"
        finish = finish if np.isinf(high) else f"F_MIN({finish}, {f32(high)})"
    channels = x.shape[3]
    if (
        capability.kind == "cpu"
        and x.dtype is DType.FLOAT32
        and channels > 1
        and node.outputs[0].size
    ):
        return lower_float_pool(node, capability, window, start, finish)
    lanes = lanes_for(capability, max(channels, 1))
    pixels = window.out[1] if capability.kind == "cpu" else 1
    rows = node.outputs[0].size // max(channels, 1)
    defines: dict[str, object] = {
        "ACC": "i32" if integer else "f32",
        "START": start,
        "COMBINE(a, v)": f"({combine})",
        "FINISH(v, count)": f"({finish})",
        "C": channels,
        "M": rows,
        "LANES": lanes,
        "PIXELS": pixels,
    }
    for names, pair in (
        (("H", "W"), window.size),
        (("KH", "KW"), window.kernel),
        (("SH", "SW"), window.stride),
        (("PT", "PL"), window.before),
        (("OH", "OW"), window.out),
    ):
        defines.update(zip(names, pair, strict=True))
    grid = (channels // lanes, -(-rows // max(pixels, 1)))
    return Lowered([Kernel("pool", (0,), grid, defines, uses=("fixed",))])


def _on_vectors(node: NodeSpec, capability: Capability, window: Window) -> bool:
    """Whether a CPU does it on vectors of 16 bytes, and the sums are small enough for floats."""
    x = node.input(0)
    small = math.prod(window.kernel) < 1 << 12
    return capability.kind == "cpu" and x.dtype in BYTES and x.shape[3] >= 16 and small


def _lower_bytes(node: NodeSpec, capability: Capability, window: Window) -> Lowered:
    x, y = node.input(0), node.outputs[0]
    low, high = (int(v) for v in _bounds(node))
    maximum = node.op == "MAX_POOL_2D"
    result = "v" if maximum else "means_16(v, count, inverse)"
    pixels = y.size // x.shape[3]
    rows = pixels // max(window.out[1], 1)
    cycles = y.size / 16 * (math.prod(window.kernel) + 8)
    share = max(1, rows // shares(capability, cycles))
    defines: dict[str, object] = {
        **window_macros(window),
        "XT": "i8" if x.dtype is DType.INT8 else "u8",
        "MAXIMUM": int(maximum),
        "START": x.dtype.range()[0],
        "FINISH(v, count, inverse)": f"clamp_16({result}, {low}, {high})",
        "C": x.shape[3],
        "M": pixels,
        "ROWS": share,
    }
    grid = (-(-rows // share),)
    return Lowered([Kernel("pool_i8_cpu", (0,), grid, defines, uses=("int8_cpu",))])


OPS = {
    "AVERAGE_POOL_2D": op(
        "AVERAGE_POOL_2D", _infer, in_float32(_bind), versions=(1, 3), lower=_lower
    ),
    "MAX_POOL_2D": op("MAX_POOL_2D", _infer, in_float32(_bind), versions=(1, 3), lower=_lower),
    "L2_POOL_2D": op("L2_POOL_2D", _infer, in_float32(_bind), lower=_lower),
}
