"""CONV_3D and CONV_3D_TRANSPOSE, on floats."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ._convolution import bind_planned
from ._quant import float_activation_range
from ._scatter import overlap
from ._shape import INDEX, known
from ._tiles import Tiler, activate
from ._volume_lower import axis_macros, lower_volume, real_values
from ._widen import FLOATS, in_float32
from ._window import output_size, padding_before, sequence
from .api import Binding, NodeSpec, OpError, Run, Shape, op, take
from .device import Capability, Lowered
from .types import Array

Triple = tuple[int, int, int]

_COLUMNS = 1 << 18  # elements of a block of columns
_OPTIONS = "dhw"


def _triple(options: Any, name: str) -> Triple:
    """The numbers of an option for depth, height and width; OpError unless they are positive."""
    found = tuple(int(getattr(options, name.format(d))) for d in _OPTIONS)
    if min(found) < 1:
        raise OpError(f"{name.format('*')} {found}; taken: 1 or more")
    return found[0], found[1], found[2]


def _numbers(node: NodeSpec | Binding) -> tuple[Triple, Triple]:
    """Strides and dilations."""
    return _triple(node.options, "stride_{}"), _triple(node.options, "dilation_{}_factor")


def _check(node: NodeSpec, x: int, weights: int, bias: int, channels: int, units: int) -> None:
    """Checks inputs number x, weights and bias; `channels` and `units`: dimensions of weights."""
    a, w, b = node.input(x), node.input(weights), node.optional(bias)
    take(node, "the input", a, *FLOATS)
    for what, spec in (("the weights", w), ("the bias", b), ("the output", node.outputs[0])):
        if spec is not None:
            take(node, what, spec, a.dtype)
    if a.rank != 5 or w.rank != 5 or a.shape[4] != w.shape[channels]:
        raise OpError(
            f"{node.op} takes a 5-dimensional input and weights of as many channels; got "
            f"{list(a.shape)} and {list(w.shape)}"
        )
    if min((*a.shape[1:], *w.shape)) < 1:
        raise OpError(f"{node.op}: {list(a.shape)}, {list(w.shape)}: only the batch may be 0")
    if b is not None and b.size != w.shape[units]:
        raise OpError(f"{node.op}: bias {list(b.shape)} for {w.shape[units]} output channels")
    float_activation_range(node.options.fused_activation_function)


def _sizes(node: NodeSpec | Binding, size: Shape, kernel: Shape) -> tuple[Triple, Triple]:
    """Output size of a convolution, and padding in front."""
    padding, (strides, dilations) = node.options.padding, _numbers(node)
    out, before = [], []
    for n, k, s, d in zip(size, kernel, strides, dilations, strict=True):
        count = output_size(padding, n, k, s, d)
        if count < 0:
            raise OpError(f"{node.op}: a kernel {list(kernel)} does not fit into {list(size)}")
        out.append(count)
        before.append(padding_before(n, k, s, d, count))
    return (out[0], out[1], out[2]), (before[0], before[1], before[2])


def _infer(node: NodeSpec) -> list[Shape]:
    _check(node, 0, 1, 2, 3, 4)
    x, weights = node.input(0).shape, node.input(1).shape
    out, _ = _sizes(node, x[1:4], weights[:3])
    return [(x[0], *out, weights[4])]


def _bind(b: Binding) -> Run | None:
    return bind_planned(b, partial(_plan, b), b.optional(2)) if b.y[0].size else None


def _finish(b: Binding, scratch: Callable[..., Array], bias: int) -> tuple[Any, list[Run]]:
    """What follows the sums of a block of rows, and the steps that prepare it."""
    y = b.y[0]
    tiler = Tiler(scratch, y.size // y.shape[-1], y.shape[-1])
    values = None if b.optional(bias) is None else b.xi(bias).reshape(-1)
    return activate(tiler, values, b.options.fused_activation_function, y.dtype), tiler.setup


def _plan(b: Binding, scratch: Callable[..., Array]) -> Run:
    x, weights, y = b.xi(0), b.xi(1), b.y[0]
    strides, dilations = _numbers(b)
    kernel, channels = weights.shape[:3], x.shape[4]
    _, before = _sizes(b, x.shape[1:4], kernel)
    out = y.shape[1:4]
    reach = [
        (o - 1) * s + (k - 1) * d + 1
        for o, s, k, d in zip(out, strides, kernel, dilations, strict=True)
    ]
    padded = scratch((*reach, channels), x.dtype)
    ends = [min(r, p + n) for r, p, n in zip(reach, before, x.shape[1:4], strict=True)]
    inner = padded[tuple(slice(p, e) for p, e in zip(before, ends, strict=True))]
    step = padded.strides
    windows = as_strided(
        padded,
        (*out, *kernel, channels),
        (
            *(s * t for s, t in zip(strides, step[:3], strict=True)),
            *(d * t for d, t in zip(dilations, step[:3], strict=True)),
            step[3],
        ),
        writeable=False,
    )
    matrix = weights.reshape(-1, weights.shape[4])
    rows = max(1, min(out[1], _COLUMNS // (out[2] * len(matrix))))
    columns = scratch((rows, out[2], *kernel, channels), x.dtype)
    finish, steps = _finish(b, scratch, 2)
    for image, target in zip(x, y, strict=True):
        source = image[tuple(slice(0, n) for n in inner.shape[:3])]
        steps += [partial(padded.fill, 0), partial(np.copyto, inner, source)]
        for plane, start in itertools.product(range(out[0]), range(0, out[1], rows)):
            sums = target[plane, start : start + rows].reshape(-1, y.shape[4])
            part = columns[: min(rows, out[1] - start)]
            steps += [
                partial(np.copyto, part, windows[plane, start : start + rows]),
                partial(np.matmul, part.reshape(len(sums), -1), matrix, out=sums),
                *finish(sums),
            ]
    return sequence(steps)


def _infer_transposed(node: NodeSpec) -> list[Shape | None]:
    _check(node, 2, 1, 3, 4, 3)
    shape, weights, x = (node.input(i) for i in range(3))
    take(node, "the output shape", shape, *INDEX)
    if shape.shape != (5,):
        raise OpError(f"{node.op} takes an output shape of 5 elements; got {list(shape.shape)}")
    _numbers(node)
    out = known(shape)
    if out is None:
        return [None]
    size, _ = _sizes(node, out[1:4], weights.shape[:3])
    if size != x.shape[1:4] or out[0] != x.shape[0] or out[4] != weights.shape[3]:
        raise OpError(
            f"output shape {list(out)} does not go with input {list(x.shape)} and weights "
            f"{list(weights.shape)}: a convolution would make it {list(size)}"
        )
    return [out]


def _bind_transposed(b: Binding) -> Run | None:
    return bind_planned(b, partial(_plan_transposed, b), b.optional(3)) if b.y[0].size else None


def _plan_transposed(b: Binding, scratch: Callable[..., Array]) -> Run:
    weights, x, y = b.xi(1), b.xi(2), b.y[0]
    strides, dilations = _numbers(b)
    kernel, units, channels = weights.shape[:3], y.shape[4], x.shape[4]
    _, before = _sizes(b, y.shape[1:4], kernel)
    matrix = weights.reshape(-1, channels).T
    # one plane of the input at a time
    products = scratch((*x.shape[2:4], *kernel, units), x.dtype)
    finish, steps = _finish(b, scratch, 3)
    for image, target in zip(x, y, strict=True):
        steps.append(partial(target.fill, 0))
        for plane, source in enumerate(image):
            flat = products.reshape(-1, matrix.shape[1])
            steps.append(partial(np.matmul, source.reshape(-1, channels), matrix, out=flat))
            for tap in np.ndindex(*kernel):
                ranges = [
                    overlap(start, count, s, t * d - p, n)
                    for start, count, s, t, d, p, n in zip(
                        (plane, 0, 0),
                        (1, *x.shape[2:4]),
                        strides,
                        tap,
                        dilations,
                        before,
                        y.shape[1:4],
                        strict=True,
                    )
                ]
                term = products[(ranges[1][0], ranges[2][0], *tap)]
                place = target[tuple(r[1] for r in ranges)]
                if place.size:
                    steps.append(partial(np.add, place, term, out=place))
        steps += finish(target.reshape(-1, units))
    return sequence(steps)


def _lower(node: NodeSpec, capability: Capability) -> Lowered:
    """Both: the smaller side of a transposed convolution is what slides over the larger."""
    transposed = node.op == "CONV_3D_TRANSPOSE"
    source = 2 if transposed else 0
    x, y = node.input(source).shape, node.outputs[0].shape
    weights = real_values(node.input(1))
    kernel = weights.shape[:3]
    strides, dilations = _numbers(node)
    _, before = _sizes(node, y[1:4] if transposed else x[1:4], kernel)
    # transposed weights come as [depth, height, width, units, channels]
    taps = weights.swapaxes(3, 4) if transposed else weights
    macros = axis_macros(size=x[1:4], out=y[1:4], K=kernel, S=strides, D=dilations, P=before)
    return lower_volume(
        node,
        capability,
        source,
        taps.reshape(-1, *taps.shape[3:]),
        node.optional(3 if transposed else 2),
        node.options.fused_activation_function,
        macros,
        transposed,
    )


OPS = {
    "CONV_3D": op("CONV_3D", _infer, in_float32(_bind), lower=_lower),
    "CONV_3D_TRANSPOSE": op(
        "CONV_3D_TRANSPOSE", _infer_transposed, in_float32(_bind_transposed), lower=_lower
    ),
}
