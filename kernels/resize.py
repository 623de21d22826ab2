"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR on NHWC tensors.

Source of the formulas, fixed-point ones included: TensorFlow Lite's reference kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ._lower import check, refuse
from ._shape import copy, known, like, rank_is, sequence
from ._widen import FLOATS, in_float32
from .api import Binding, NodeSpec, OpError, Registration, Run, Shape, op, take
from .device import Capability, Kernel, Lowered
from .types import Array, DType

# working set of one block of rows: what stays in a core's second cache
_BLOCK = 1 << 18

# types whose weights are in fixed point, and what holds their products
_FIXED = (DType.INT8, DType.INT16)
_WORK: dict[DType, type[np.generic]] = {
    DType.INT8: np.int32,
    DType.INT16: np.int64,
    DType.FLOAT64: np.float64,
}


def _infer(node: NodeSpec, *dtypes: DType) -> list[Shape | None]:
    x, size = node.input(0), node.input(1)
    take(node, "input 0", x, *dtypes)
    take(node, "size", size, DType.INT32)
    like(node, x, node.outputs[0])
    rank_is(node, "input 0", x, 4)
    if size.shape != (2,):
        raise OpError(f"{node.op} takes size [height, width]; got shape {list(size.shape)}")
    values = known(size)
    if values is None:
        return [None]
    if min(values) < 1 or 0 in x.shape[1:3]:
        raise OpError(
            f"{node.op} from {list(x.shape[1:3])} to {list(values)}; both take 1 pixel or more"
        )
    return [(x.shape[0], *values, x.shape[3])]


def _infer_bilinear(node: NodeSpec) -> list[Shape | None]:
    if node.options.half_pixel_centers and node.options.align_corners:
        raise OpError("If half_pixel_centers is True, align_corners must be False.")
    return _infer(node, *FLOATS, DType.UINT8, DType.INT8, DType.INT16)


@dataclass(frozen=True)
class Taps:
    """For each output pixel along one dimension the two input pixels and their weights."""

    low: Array
    high: Array
    low_weight: Array
    high_weight: Array

    @property
    def weights(self) -> tuple[Array, Array]:
        return self.low_weight, self.high_weight

    def part(self, start: int, stop: int) -> Taps:
        return Taps(*(v[start:stop] for v in (self.low, self.high, *self.weights)))

    @property
    def copies(self) -> bool:
        """Whether each output pixel is one input pixel."""
        return not self.high_weight.any()


def _real_taps(n: int, m: int, align: bool, half: bool) -> Taps:
    """n input pixels, m output pixels; float32 as there."""
    scale = np.float32(n) / np.float32(m)
    if align and m > 1:
        scale = np.float32(n - 1) / np.float32(m - 1)
    at = np.arange(m, dtype=np.float32)
    at = (at + np.float32(0.5)) * scale - np.float32(0.5) if half else at * scale
    low = np.maximum(np.floor(at).astype(np.int32), 0)
    high = np.minimum(np.ceil(at).astype(np.int32), n - 1)
    part = at - low.astype(np.float32)
    return Taps(low, high, np.float32(1) - part, part)


def _fixed_taps(n: int, m: int, align: bool, half: bool) -> Taps:
    """The same with 10 fractional bits."""
    scale = ((1 << 10) * n + m // 2) // m
    if align and m > 1:
        scale = ((1 << 10) * (n - 1) + (m - 1) // 2) // (m - 1)
    at = np.arange(m, dtype=np.int64) * scale
    if half:
        at += scale // 2 - (1 << 9)
    low = np.maximum(_divide(at, 1 << 10), 0)
    high = np.minimum(_divide(at + (1 << 10) - 1, 1 << 10), n - 1)
    part = at - (low << 10)
    return Taps(low, high, (1 << 10) - part, part)


def _each_channel(weight: Array, depth: int) -> Array:
    """A weight for each column as one for each element of a row: one long product is far faster."""
    return weight.repeat(depth)


def _divide(a: Array, b: int) -> Array:
    """Integer division towards zero, as C has it."""
    return np.asarray(np.sign(a) * (np.abs(a) // b))


def _taps(b: Binding, fixed: bool) -> tuple[Taps, Taps]:
    x, y, o = b.xi(0), b.y[0], b.options
    make = _fixed_taps if fixed else _real_taps
    align, half = o.align_corners, o.half_pixel_centers
    return (
        make(x.shape[1], y.shape[1], align, half),
        make(x.shape[2], y.shape[2], align, half),
    )


def _bind_bilinear(b: Binding) -> Run | None:
    dtype, y = b.input(0).dtype, b.y[0]
    if not y.size:
        return None
    rows, columns = _taps(b, dtype in _FIXED)
    make = _bilinear_uint8 if dtype is DType.UINT8 else _bilinear
    # bands of output rows, one for each thread where they are worth one
    height = y.shape[1]
    count = min(b.threads, height, 1 + y.size // _BLOCK)
    edges = [i * height // count for i in range(count + 1)]
    return b.parallel([make(b, y[:, a:z], rows.part(a, z), columns) for a, z in pairwise(edges)])


def _bilinear(b: Binding, y: Array, rows: Taps, columns: Taps) -> Run:
    """Along the width first, then along the height, block by block of output rows.

    In fixed point the order changes no bit; in floats it changes the last one.
    """
    x, fixed = b.xi(0), b.input(0).dtype in _FIXED
    _, height, width, depth = y.shape
    work = np.dtype(_WORK.get(b.input(0).dtype, np.float32))
    # only the rows that are read
    used, where = np.unique(np.concatenate([rows.low, rows.high]), return_inverse=True)
    low, high = where.reshape(2, height)
    wide = b.scratch((len(used), width, depth), work)
    step = max(1, min(height, _BLOCK // (width * depth * work.itemsize)))
    spare = b.scratch((2, step, width, depth), work)
    other = b.scratch((len(used), width, depth), work)
    flat_wide, flat_other = wide.reshape(len(used), -1), other.reshape(len(used), -1)
    source = b.scratch((len(used), *x.shape[2:]), work)
    whole = len(used) == x.shape[1] and x.dtype == work
    across = [_each_channel(w, depth).astype(work) for w in columns.weights]
    down = [w[:, None, None].astype(work) for w in rows.weights]
    direct = y.dtype == work

    def along_width(image: Array) -> None:
        if whole:
            narrow = image
        else:
            narrow = source
            narrow[...] = image[used]
        narrow.take(columns.low, 1, wide, "clip")
        if columns.copies and not fixed:
            return
        np.multiply(flat_wide, across[0], out=flat_wide)
        narrow.take(columns.high, 1, other, "clip")
        np.multiply(flat_other, across[1], out=flat_other)
        np.add(wide, other, out=wide)

    def block(out: Array, start: int, stop: int) -> None:
        total = out[start:stop] if direct else spare[0, : stop - start]
        wide.take(low[start:stop], 0, total, "clip")
        np.multiply(total, down[0][start:stop], out=total)
        term = spare[1, : stop - start]
        wide.take(high[start:stop], 0, term, "clip")
        np.multiply(term, down[1][start:stop], out=term)
        np.add(total, term, out=total)
        if fixed:
            _round_away(total, term)
        if not direct:
            out[start:stop] = total

    spans = [(s, min(s + step, height)) for s in range(0, height, step)]

    def run() -> None:
        for image, out in zip(x, y, strict=True):
            along_width(image)
            for start, stop in spans:
                block(out, start, stop)

    return run


def _round_away(total: Array, spare: Array) -> None:
    """total / 2^20 in place, halves away from zero."""
    # -1 for a negative value: its half must not reach the next integer
    np.right_shift(total, 8 * total.itemsize - 1, out=spare)
    np.add(total, spare, out=total)
    np.add(total, 1 << 19, out=total)
    np.right_shift(total, 20, out=total)


def _bilinear_uint8(b: Binding, y: Array, rows: Taps, columns: Taps) -> Run:
    """In float32, the four products in the reference's order: each rounding counts."""
    x = b.xi(0)
    _, height, width, depth = y.shape
    one = x.shape[2] * depth
    step = max(1, min(height, _BLOCK // (4 * max(one, width * depth))))
    near = b.scratch((step, x.shape[2], depth))
    total, term = b.scratch((step, width, depth)), b.scratch((step, width, depth))
    left, right = (_each_channel(w, depth) for w in columns.weights)
    down = ((rows.low, rows.low_weight), (rows.high, rows.high_weight))
    # (row, column) in the order of the sum: top left, bottom left, top right, bottom right
    order = [(0, columns.low, left), (1, columns.low, left)]
    order += [(0, columns.high, right), (1, columns.high, right)]

    def block(image: Array, out: Array, start: int, stop: int) -> None:
        count = stop - start
        for i, (side, column, weight) in enumerate(order):
            index, row_weight = down[side]
            near[:count] = image.take(index[start:stop], 0)
            np.multiply(near[:count], row_weight[start:stop, None, None], out=near[:count])
            into = total[:count] if i == 0 else term[:count]
            near[:count].take(column, 1, into, "clip")
            flat = into.reshape(count, -1)
            np.multiply(flat, weight, out=flat)
            if i:
                np.add(total[:count], into, out=total[:count])
        np.add(total[:count], np.float32(0.5), out=total[:count])
        # none is negative, so this rounds down
        np.copyto(out[start:stop], total[:count], casting="unsafe")

    spans = [(s, min(s + step, height)) for s in range(0, height, step)]

    def run() -> None:
        for image, out in zip(x, y, strict=True):
            for start, stop in spans:
                block(image, out, start, stop)

    return run


def _infer_nearest(node: NodeSpec) -> list[Shape | None]:
    return _infer(node, *(d for d in DType if d not in (DType.RESOURCE, DType.VARIANT)))


def _nearest(n: int, m: int, align: bool, half: bool) -> Array:
    """The input pixel of each output pixel; float32 as there."""
    scale = np.float32(n) / np.float32(m)
    if align and m > 1:
        scale = np.float32(n - 1) / np.float32(m - 1)
    at = (np.arange(m, dtype=np.float32) + np.float32(0.5 if half else 0.0)) * scale
    # positions are never negative, so adding a half rounds halves away from zero
    whole = np.floor(at + np.float32(0.5)) if align else np.floor(at)
    return np.asarray(np.clip(whole.astype(np.int64), 0, n - 1))


def _bind_nearest(b: Binding) -> Run | None:
    x, y, o = b.xi(0), b.y[0], b.options
    n, height, width, depth = y.shape
    rows = _nearest(x.shape[1], height, o.align_corners, o.half_pixel_centers)
    columns = _nearest(x.shape[2], width, o.align_corners, o.half_pixel_centers)
    up, across = height // x.shape[1], width // x.shape[2]
    if _repeats(rows, up) and _repeats(columns, across):
        view = y.reshape(n, x.shape[1], up, x.shape[2], across, depth)
        return copy(view, x[:, :, None, :, None, :])
    wide = b.scratch((n, x.shape[1], width, depth), x.dtype)
    return sequence(lambda: _take(x, columns, 2, wide), lambda: _take(wide, rows, 1, y))


def _take(x: Array, index: Array, axis: int, out: Array) -> None:
    x.take(index, axis, out, "clip")


def _repeats(index: Array, times: int) -> bool:
    """Whether `index` is each pixel `times` times, in order."""
    return times > 0 and np.array_equal(index, np.arange(len(index)) // times)


# -- devices


def _lower_bilinear(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, y, o = node.input(0), node.outputs[0], node.options
    fixed = x.dtype in _FIXED
    make = _fixed_taps if fixed else _real_taps
    rows, columns = (
        make(x.shape[i], y.shape[i], o.align_corners, o.half_pixel_centers) for i in (1, 2)
    )
    across = "((a) * near + (c) * far) * up + ((b) * near + (d) * far) * down"
    acc = "f32"
    if x.dtype is DType.FLOAT64:
        refuse("DTYPE", f"{x.name!r} of float64", "other types")
    if fixed:
        acc = "i32" if x.dtype is DType.INT8 else "i64"
        across = f"round_shifted({across})"
    elif x.dtype is DType.UINT8:
        across = "blend_bytes(a, b, c, d, up, down, near, far)"
    stored = np.float32 if acc == "f32" else np.int32
    weights = [np.concatenate(t.weights).astype(stored) for t in (rows, columns)]
    places = [np.concatenate([t.low, t.high]).astype(np.int32) for t in (rows, columns)]
    uses: tuple[str, ...] = ("fixed",) if fixed else ()
    if x.dtype is DType.UINT8:
        uses = ("resize_exact",)
    elif x.dtype is DType.INT8 and capability.kind == "cpu":
        uses = ("fixed", "int8_cpu")
    defines = {
        "BILINEAR": 1,
        "ACC": acc,
        "BLEND(a, b, c, d)": f"({across})",
        "BLEND_VECTOR(a, b, c, d)": f"({across})",
        "TAKE(p)": "VLOAD(VW, p)",
    }
    if x.dtype is DType.UINT8:
        defines["BLEND_VECTOR(a, b, c, d)"] = f"({across.replace('blend_bytes', 'blend_bytes_16')})"
        defines["TAKE(p)"] = "VCONVERT(f32, 16, VLOAD(16, p))"
    elif x.dtype is DType.INT8:
        text = across.replace("round_shifted", "round_shifted_16")
        defines["BLEND_VECTOR(a, b, c, d)"] = f"({text})"
        defines["TAKE(p)"] = "VCONVERT(i32, 16, VLOAD(16, p))"
    reads = [*places, *weights]
    return _resized(node, capability, reads, defines, uses)


def _resized(
    node: NodeSpec,
    capability: Capability,
    reads: list[Array],
    defines: dict[str, object],
    uses: tuple[str, ...] = (),
) -> Lowered:
    (_, h, w, c), (n, oh, ow, _) = node.input(0).shape, node.outputs[0].shape
    pixels = ow if capability.kind == "cpu" else 1
    dtypes = {t.dtype for t in (node.input(0), node.outputs[0])}
    lanes = 1
    if dtypes == {DType.FLOAT32}:
        lanes = next((v for v in (16, 8, 4) if c % v == 0), 1)
    elif dtypes in ({DType.INT8}, {DType.UINT8}) and c >= 16:
        lanes = 16
    sizes = {"H": h, "W": w, "C": c, "OH": oh, "OW": ow, "M": n * oh * ow, "PIXELS": pixels}
    sizes["VW"] = lanes if capability.kind == "cpu" else 1
    grid = (-(-n * oh * ow // pixels),)
    return Lowered([Kernel("resize", (0, *reads), grid, {**sizes, **defines}, uses=uses)])


def _lower_nearest(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, y, o = node.input(0), node.outputs[0], node.options
    places = [
        _nearest(x.shape[i], y.shape[i], o.align_corners, o.half_pixel_centers).astype(np.int32)
        for i in (1, 2)
    ]
    return _resized(node, capability, places, {"BILINEAR": 0})


OPS: dict[str, Registration] = {
    "RESIZE_BILINEAR": op(
        "RESIZE_BILINEAR",
        _infer_bilinear,
        in_float32(_bind_bilinear),
        versions=(1, 4),
        lower=_lower_bilinear,
    ),
    "RESIZE_NEAREST_NEIGHBOR": op(
        "RESIZE_NEAREST_NEIGHBOR",
        _infer_nearest,
        _bind_nearest,
        versions=(1, 4),
        lower=_lower_nearest,
    ),
}
