"""Custom ops of MediaPipe's models. Their options are the bytes of C structs."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

import numpy as np

from ._convolution import bind_planned
from ._outputs import FloatOutputs, Outputs
from ._scatter import pack_transposed, scatter
from ._window import Pair, sequence
from .api import Binding, NodeSpec, OpError, Run, Shape, op, take
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
        return FloatOutputs(scratch, y, b.xi(2), "NONE", most)

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


OPS = {
    "Convolution2DTransposeBias": op(
        "Convolution2DTransposeBias", _infer_transposed, _bind_transposed, custom=True
    ),
}
