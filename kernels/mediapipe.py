"""MediaPipe's convolutions and pooling: custom ops whose options are the bytes of C structs."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

import numpy as np

from ._check import float_images
from ._convolution import bind_planned
from ._lower import check
from ._mediapipe_lower import lower_unpool
from ._outputs import FloatOutputs, Outputs
from ._pool_arg_lower import lower_pool_arg
from ._quant import float_activation_range
from ._scatter import pack_transposed, scatter
from ._transposed_lower import Transposed, tiled
from ._volume_lower import axis_macros, lower_volume, real_values
from ._window import Pair, Window, padding_before, sequence
from .api import Binding, NodeSpec, OpError, Run, Shape, op, take
from .device import Capability, Lowered
from .types import Array, DType

_PADDINGS = {1: "SAME", 2: "VALID"}


def _integers(node: NodeSpec | Binding, count: int, what: str) -> tuple[int, ...]:
    """The first fields of the options, all of them C ints."""
    raw = bytes(node.options)
    if len(raw) < 4 * count:
        raise OpError(
            f"{node.op} has {len(raw)} bytes of options; it takes at least {4 * count}: {what}"
        )
    return struct.unpack_from(f"<{count}i", raw)


def _transposed(node: NodeSpec | Binding) -> tuple[Pair, Pair]:
    """Stride, and how much of the full result is cut off, of height and width."""
    padding, width, height = _integers(node, 3, "padding, stride width, stride height")
    x, kernel = node.input(0).shape[1:3], node.input(1).shape[1:3]
    if padding not in _PADDINGS or min(width, height) < 1:
        raise OpError(
            f"{node.op} with padding {padding} and stride {height}x{width}; taken: padding 1 "
            "(SAME) or 2 (VALID), strides from 1"
        )
    if padding == 2:
        return (height, width), (0, 0)
    cut = [max(0, k - (n - 1) % s - 1) for n, k, s in zip(x, kernel, (height, width), strict=True)]
    return (height, width), (cut[0], cut[1])


def _infer_transposed(node: NodeSpec) -> list[Shape]:
    x, weights, bias = (node.input(i) for i in range(3))
    for what, spec in (("the input", x), ("the weights", weights), ("the bias", bias)):
        take(node, what, spec, DType.FLOAT32)
    take(node, "the output", node.outputs[0], DType.FLOAT32)
    if x.rank != 4 or weights.rank != 4 or x.shape[3] != weights.shape[3]:
        raise OpError(
            f"{node.op} takes a 4-dimensional input and weights of as many channels; got "
            f"{list(x.shape)} and {list(weights.shape)}"
        )
    if bias.shape != weights.shape[:1]:
        raise OpError(f"{node.op}: bias {list(bias.shape)}, weights {list(weights.shape)}")
    stride, cut = _transposed(node)
    size = [
        s * (n - 1) + k - c
        for n, k, s, c in zip(x.shape[1:3], weights.shape[1:3], stride, cut, strict=True)
    ]
    return [(x.shape[0], *size, weights.shape[0])]


def _bind_transposed(b: Binding) -> Run | None:
    if not b.y[0].size:
        return None
    return bind_planned(b, partial(_plan_transposed, b), b.input(1), b.input(2))


def _plan_transposed(b: Binding, scratch: Callable[..., Array]) -> Run:
    x, y, weights = b.xi(0), b.y[0], b.input(1)
    stride, cut = _transposed(b)

    def make() -> Array:
        return pack_transposed(b.xi(1), np.float32)

    matrix = b.once("weights", make) if weights.const is not None else make()
    kernel, size = weights.shape[1:3], y.shape[1:3]

    def outputs(most: int) -> Outputs:
        return FloatOutputs(scratch, y, b.xi(2), "NONE")

    return sequence(
        scatter(
            scratch,
            x,
            0.0,
            matrix,
            (kernel[0], kernel[1]),
            stride,
            (cut[0] // 2, cut[1] // 2),
            (size[0], size[1]),
            outputs,
        )
    )


def _lower_transposed(node: NodeSpec, capability: Capability) -> Lowered:
    stride, cut = _transposed(node)
    weights = real_values(node.input(1))
    units, *kernel, channels = weights.shape
    macros = axis_macros(
        size=(1, *node.input(0).shape[1:3]),
        out=(1, *node.outputs[0].shape[1:3]),
        K=(1, *kernel),
        S=(1, *stride),
        D=(1, 1, 1),
        P=(0, cut[0] // 2, cut[1] // 2),
    )
    check(node, capability)
    if capability.kind == "cpu" and node.outputs[0].size:
        height, width = node.outputs[0].shape[1:3]
        x = node.input(0).shape
        before = (cut[0] // 2, cut[1] // 2)
        window = Window(
            (height, width), (kernel[0], kernel[1]), stride, (1, 1), before, (x[1], x[2])
        )
        bias = real_values(node.input(2))
        return tiled(Transposed(node, 0, window, weights, bias), capability)
    taps = weights.transpose(1, 2, 3, 0).reshape(-1, channels, units)
    return lower_volume(node, capability, 0, taps, node.input(2), "NONE", macros, True)


_ACTIVATIONS = {0: "NONE", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6"}
_POOL = "padding, stride width, stride height, filter width, filter height, activation"


def _pool(node: NodeSpec | Binding) -> tuple[str, Pair, Pair, str]:
    """Padding, stride, filter size (height first) and activation of the options."""
    padding, stride_w, stride_h, width, height, activation = _integers(node, 6, _POOL)
    if padding not in _PADDINGS or activation not in _ACTIVATIONS:
        raise OpError(
            f"{node.op} with padding {padding} and activation {activation}; taken: padding 1 "
            f"(SAME) or 2 (VALID), activations {list(_ACTIVATIONS)} ({', '.join(_names())})"
        )
    stride, size = (stride_h, stride_w), (height, width)
    return _PADDINGS[padding], stride, size, _ACTIVATIONS[activation]


def _names() -> list[str]:
    return list(_ACTIVATIONS.values())


def _pool_window(node: NodeSpec | Binding) -> Window:
    padding, stride, size, _ = _pool(node)
    x = node.input(0).shape
    return Window.of(padding, (x[1], x[2]), size, stride)


def _infer_pool(node: NodeSpec) -> list[Shape]:
    float_images(node, 1)
    x = node.input(0).shape
    shape = (x[0], *_pool_window(node).out, x[3])
    return [shape, shape]


def _bind_pool(b: Binding) -> Run:
    """Largest value of each window, and its place in the window (plus 0.1, for safe truncation)."""
    x, largest, places, window = b.xi(0), b.y[0], b.y[1], _pool_window(b)
    low, high = float_activation_range(_pool(b)[3])
    padded = b.scratch(window.padded_shape(x.shape[0], window.out[0], x.shape[3]))
    lowest = np.finfo(np.float32).min
    better = b.scratch(largest.shape, np.bool_)
    steps = window.fill(x, slice(0, x.shape[0]), slice(0, window.out[0]), padded, lowest)
    steps += [partial(largest.fill, lowest), partial(places.fill, 0.1)]
    view = window.view(padded, window.out[0])
    for tap in np.ndindex(*window.kernel):
        values = view[:, :, :, tap[0], tap[1]]
        place = np.float32(np.float32(tap[0] * window.kernel[1] + tap[1]) + np.float32(0.1))
        steps += [
            partial(np.greater, values, largest, out=better),
            partial(np.copyto, largest, values, where=better),
            partial(np.copyto, places, place, where=better),
        ]
    steps.append(partial(np.clip, largest, low, high, out=largest))
    return sequence(steps)


def _lower_pool(node: NodeSpec, capability: Capability) -> Lowered:
    window, bounds = _pool_window(node), float_activation_range(_pool(node)[3])
    place = f"((f32)((ky) * {window.kernel[1]} + (kx)) + 0.1f)"
    return lower_pool_arg(node, capability, window, "f32", "0.1f", place, *bounds)


def _infer_unpool(node: NodeSpec) -> list[Shape]:
    """Two ops bear this name: float32 indices are MediaPipe's, int32 ones TensorFlow Lite's."""
    flat = node.input(1).dtype is DType.INT32
    float_images(node, 1 if flat else 2)
    x, places = node.input(0).shape, node.input(1).shape
    if x != places:
        raise OpError(f"{node.op}: values {list(x)} and indices {list(places)} differ in shape")
    padding, stride, size, _ = _pool(node)
    if not flat:
        return [(x[0], x[1] * size[0], x[2] * size[1], x[3])]
    if padding == "SAME":
        return [(x[0], x[1] * stride[0], x[2] * stride[1], x[3])]
    height, width = ((n - 1) * s + k for n, s, k in zip(x[1:3], stride, size, strict=True))
    return [(x[0], height, width, x[3])]


def _bind_flat_unpool(b: Binding) -> Run:
    """Each value goes to the element of its image that its index says, all else is 0.

    The reference writes wherever the index says; here what lies outside the image is left out.
    """
    x, places, y = b.xi(0), b.xi(1), b.y[0]
    size = y[0].size if len(y) else 0
    images = np.arange(len(x), dtype=np.int64).reshape(-1, 1, 1, 1) * size
    flat = y.reshape(-1)

    def run() -> None:
        inside = (places >= 0) & (places < size)
        y.fill(0)
        flat[(places + images)[inside]] = x[inside]

    return run


def _bind_unpool(b: Binding) -> Run:
    """Each value goes to its place in its window, all else is 0."""
    if b.input(1).dtype is DType.INT32:
        return _bind_flat_unpool(b)
    x, places, y = b.xi(0), b.xi(1), b.y[0]
    padding, stride, size, _ = _pool(b)
    del padding  # it is SAME, whatever the options say
    height, width = y.shape[1:3]
    top = padding_before(height, size[0], stride[0], 1, x.shape[1])
    left = padding_before(width, size[1], stride[1], 1, x.shape[2])
    image, row, column, channel = np.ix_(*(np.arange(d) for d in x.shape))

    def run() -> None:
        place = places.astype(np.int64)
        # C's remainder and quotient, towards 0
        down = np.trunc(place / size[1]).astype(np.int64)
        r = row * stride[0] - top + down
        c = column * stride[1] - left + (place - down * size[1])
        inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
        y.fill(0)
        at = [np.broadcast_to(i, x.shape)[inside] for i in (image, r, c, channel)]
        y[tuple(at)] = x[inside]

    return run


def _lower_unpool(node: NodeSpec, capability: Capability) -> Lowered:
    _, stride, size, _ = _pool(node)
    return lower_unpool(node, capability, stride, size)


OPS = {
    r.name: r
    for r in (
        op(
            "Convolution2DTransposeBias",
            _infer_transposed,
            _bind_transposed,
            custom=True,
            lower=_lower_transposed,
        ),
        op("MaxPoolingWithArgmax2D", _infer_pool, _bind_pool, custom=True, lower=_lower_pool),
        op("MaxUnpooling2D", _infer_unpool, _bind_unpool, custom=True, lower=_lower_unpool),
    )
}
