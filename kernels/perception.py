"""TensorFlow Lite's "perception" custom ops: MaxPoolWithArgmax and DenseImageWarp.

Their MaxUnpooling2D is with MediaPipe's op of that name (see `mediapipe`).
"""

from __future__ import annotations

import numpy as np

from ._check import option_map
from ._lower import check, share_for
from ._pool_arg_lower import lower_pool_arg
from ._window import Window
from .api import Binding, NodeSpec, OpError, Run, Shape, op, require, take
from .device import Capability, Kernel, Lowered
from .types import Array, DType

_ARGMAX, _WARP = "MaxPoolWithArgmax", "DenseImageWarp"


def _window(node: NodeSpec | Binding) -> Window:
    found = option_map(node.options)
    if found.get("include_batch_in_index"):
        raise OpError(f"{node.op} with include_batch_in_index; taken: without")
    pairs = []
    for key in ("ksize", "strides"):
        sizes = [int(n) for n in found.get(key, ())]
        if len(sizes) != 4 or sizes[0] != 1 or sizes[3] != 1:
            raise OpError(
                f"{node.op} with {key} {sizes}; taken: 4 numbers, the first and the last of them 1"
            )
        pairs.append((sizes[1], sizes[2]))
    x = node.input(0).shape
    return Window.of(found.get("padding", ""), (x[1], x[2]), pairs[0], pairs[1])


def _infer_argmax(node: NodeSpec) -> list[Shape]:
    x, (y, indices) = node.input(0), node.outputs
    take(node, "input 0", x, DType.FLOAT32)
    take(node, "output 0", y, DType.FLOAT32)
    take(node, "output 1", indices, DType.INT32)
    require(x.rank == 4, f"{node.op} takes a 4-dimensional input; got {list(x.shape)}")
    shape = (x.shape[0], *_window(node).out, x.shape[3])
    return [shape, shape]


def _bind_argmax(b: Binding) -> Run | None:
    x, (y, indices), window = b.xi(0), b.y, _window(b)
    if not y.size:
        return None
    places = np.arange(x[0].size, dtype=np.int32).reshape(x.shape[1:])
    larger = b.scratch(y.shape, bool)
    taps: list[tuple[Array, ...]] = []
    for tap in np.ndindex(*window.kernel):
        source: list[slice] = []
        target: list[slice] = []
        for axis in (0, 1):
            size, stride = window.size[axis], window.stride[axis]
            offset = tap[axis] - window.before[axis]
            first = max(0, -(offset // stride))
            last = min(window.out[axis], -(-(size - offset) // stride))
            begin = first * stride + offset
            source.append(slice(begin, max(begin, begin + (last - first - 1) * stride + 1), stride))
            target.append(slice(first, max(first, last)))
        (rows, columns), (r, c) = source, target
        arrays = (x[:, rows, columns], places[rows, columns], y[:, r, c], indices[:, r, c])
        if arrays[2].size:
            taps.append((*arrays, larger[:, r, c]))
    lowest, highest = np.finfo(np.float32).min, np.finfo(np.float32).max
    channels = places[0, 0]

    def run() -> None:
        # what is not above the lowest number, as NaN, counts as the element 0 of its channel
        y.fill(lowest)
        np.copyto(indices, channels)
        for source, place, part, index, mask in taps:
            np.greater(source, part, out=mask)
            np.copyto(part, source, where=mask)
            np.copyto(index, place, where=mask)
        np.minimum(y, highest, out=y)

    return run


def _infer_warp(node: NodeSpec) -> list[Shape]:
    x, flow = node.input(0), node.input(1)
    for i, spec in enumerate((x, flow)):
        take(node, f"input {i}", spec, DType.FLOAT32)
    take(node, "the output", node.outputs[0], DType.FLOAT32)
    require(
        x.rank == 4 and min(x.shape[1:3]) >= 2,
        f"{node.op} takes images of 2x2 or more, [batch, height, width, channels]; got "
        f"{list(x.shape)}",
    )
    require(
        flow.shape == (*x.shape[:3], 2),
        f"{node.op} takes a flow of shape {[*x.shape[:3], 2]} for such images; got "
        f"{list(flow.shape)}",
    )
    return [x.shape]


def _bind_warp(b: Binding) -> Run | None:
    x, flow, y = b.xi(0), b.xi(1), b.y[0]
    if not y.size:
        return None
    batch, height, width, channels = x.shape
    pixels, out = x.reshape(-1, channels), y.reshape(-1, channels)
    grid = np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij"), axis=-1)
    places = grid.astype(np.float32)
    ends = np.array([height - 2, width - 2], np.float32)
    strides = np.array([width, 1], np.intp)
    images = np.arange(batch, dtype=np.intp)[:, None, None] * (height * width)
    share, floor = b.scratch(flow.shape), b.scratch(flow.shape)
    corner = b.scratch(flow.shape, np.intp)
    first = b.scratch(flow.shape[:3], np.intp)
    index = first.reshape(-1)
    right, left, lower = b.scratch(out.shape), b.scratch(out.shape), b.scratch(out.shape)
    shares = share.reshape(-1, 2)
    down, across = shares[:, :1], shares[:, 1:]

    def row(target: Array) -> None:
        """Between the pixels at `index` and right of them; moves on to the latter."""
        np.take(pixels, index, axis=0, out=left, mode="clip")
        np.add(index, 1, out=index)
        np.take(pixels, index, axis=0, out=right, mode="clip")
        np.subtract(right, left, out=right)
        np.multiply(right, across, out=right)
        np.add(right, left, out=target)

    def run() -> None:
        np.subtract(places, flow, out=share)
        np.floor(share, out=floor)
        np.fmin(np.fmax(floor, 0, out=floor), ends, out=floor)
        np.copyto(corner, floor, casting="unsafe")
        np.subtract(share, floor, out=share)
        np.fmin(np.fmax(share, 0, out=share), 1, out=share)
        np.multiply(corner, strides, out=corner)
        np.add(corner[..., 0], corner[..., 1], out=first)
        np.add(first, images, out=first)
        row(out)
        np.add(index, width - 1, out=index)
        row(lower)
        np.subtract(lower, out, out=lower)
        np.multiply(lower, down, out=lower)
        np.add(out, lower, out=out)

    return run


def _lower_argmax(node: NodeSpec, capability: Capability) -> Lowered:
    x = node.input(0).shape
    return lower_pool_arg(
        node, capability, _window(node), "i32", "(c)", f"(((y) * {x[2]} + (x)) * {x[3]} + (c))"
    )


def _lower_warp(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    batch, height, width, channels = node.input(0).shape
    count = batch * height * width
    if not count or not channels:
        return Lowered([])
    each = share_for(capability, count)
    defines = {"EACH": each, "COUNT": count, "H": height, "W": width, "C": channels}
    return Lowered([Kernel("warp", (0, 1), (-(-count // each),), defines)])


OPS = {
    _ARGMAX: op(_ARGMAX, _infer_argmax, _bind_argmax, custom=True, lower=_lower_argmax),
    _WARP: op(_WARP, _infer_warp, _bind_warp, custom=True, lower=_lower_warp),
}
