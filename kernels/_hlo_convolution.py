"""STABLEHLO_CONVOLUTION: any number of spatial dimensions, in any order, dilated, in groups.

The input is brought into the order [batch, spatial..., features], spread out and padded; what each
output place sees of it is one row of a matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ._hlo_product import TYPES, multiply, results
from .api import Binding, NodeSpec, Run, Shape, require, take
from .types import Array

Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Orders that bring the tensors to [batch, spatial..., features], and the spatial numbers."""

    x_order: Dims
    w_order: Dims  # to [spatial..., input features, output features]
    y_order: Dims
    window: Dims
    strides: Dims
    before: Dims
    after: Dims
    spread: Dims  # of the input
    dilation: Dims  # of the window
    reverse: tuple[bool, ...]
    groups: int
    batch_groups: int

    def spatial(self, shape: Shape) -> Dims:
        """Spatial output sizes for an input of that shape."""
        sizes = []
        for k, d in enumerate(self.x_order[1:-1]):
            spread = max((shape[d] - 1) * self.spread[k] + 1, 0)
            padded = spread + self.before[k] + self.after[k]
            reach = (self.window[k] - 1) * self.dilation[k] + 1 if self.window[k] else 0
            sizes.append((padded - reach) // self.strides[k] + 1 if padded >= reach > 0 else 0)
        return tuple(sizes)


def _plan(node: NodeSpec | Binding) -> Plan:
    o, x, w = node.options, node.input(0), node.input(1)
    spatial = x.rank - 2
    require(
        spatial >= 0 and w.rank == x.rank,
        f"{x} and kernel {w}; taken: the same rank, 2 or more",
    )

    def dims(name: str) -> Dims:
        return tuple(int(d) for d in getattr(o, name) or ())

    def numbers(name: str, default: int) -> Dims:
        found = dims(name) or (default,) * spatial
        require(len(found) == spatial, f"{name} is {list(found)}; taken: {spatial} numbers")
        require(name == "window_reversal" or min(found, default=1) >= 1, f"{name} is {list(found)}")
        return found

    def order(*found: int) -> Dims:
        require(
            sorted(found) == list(range(x.rank)),
            f"dimension numbers {list(found)}; each of 0 to {x.rank - 1} must be named once",
        )
        return found

    padding = dims("padding") or (0,) * (2 * spatial)
    require(
        len(padding) == 2 * spatial, f"padding is {list(padding)}; taken: {2 * spatial} numbers"
    )
    kernel = dims("kernel_spatial_dimensions")
    return Plan(
        x_order=order(
            o.input_batch_dimension, *dims("input_spatial_dimensions"), o.input_feature_dimension
        ),
        w_order=order(*kernel, o.kernel_input_feature_dimension, o.kernel_output_feature_dimension),
        y_order=order(
            o.output_batch_dimension, *dims("output_spatial_dimensions"), o.output_feature_dimension
        ),
        window=tuple(w.shape[d] for d in kernel),
        strides=numbers("window_strides", 1),
        before=padding[::2],
        after=padding[1::2],
        spread=numbers("lhs_dilation", 1),
        dilation=numbers("rhs_dilation", 1),
        reverse=tuple(bool(v) for v in numbers("window_reversal", 0)),
        groups=int(o.feature_group_count or 1),
        batch_groups=int(o.batch_group_count or 1),
    )


def infer(node: NodeSpec) -> list[Shape]:
    x, w = node.input(0), node.input(1)
    take(node, "input 0", x, *TYPES)
    take(node, "input 1", w, x.dtype)
    take(node, "output", node.outputs[0], *results(x.dtype))
    p = _plan(node)
    batch, features = x.shape[p.x_order[0]], x.shape[p.x_order[-1]]
    inner, outer = (w.shape[d] for d in p.w_order[-2:])
    require(
        min(p.groups, p.batch_groups) == 1 and features == inner * p.groups,
        f"{features} input features, {inner} of the kernel, {p.groups} feature groups and "
        f"{p.batch_groups} batch groups do not fit",
    )
    count = p.groups * p.batch_groups
    require(
        outer % count == 0 and batch % p.batch_groups == 0,
        f"{count} groups divide neither {outer} output features nor a batch of {batch}",
    )
    ordered = (batch // p.batch_groups, *p.spatial(x.shape), outer)
    shape = [0] * x.rank
    for d, size in zip(p.y_order, ordered, strict=True):
        shape[d] = size
    return [tuple(shape)]


def bind(b: Binding) -> Run | None:
    p, out = _plan(b), b.y[0]
    if out.size == 0:
        return None
    x = b.xi(0).transpose(p.x_order)
    w = b.xi(1).transpose(p.w_order)
    w = w[tuple(slice(None, None, -1) if r else slice(None) for r in p.reverse)]
    y = out.transpose(p.y_order)
    groups = p.groups * p.batch_groups
    inner, columns = w.shape[-2], w.shape[-1] // groups
    depth = math.prod(p.window) * inner

    spread, fill = _spread(b, x, p)
    # [groups, batch, outputs..., window..., inner features]
    patches = _patches(spread, p, y.shape[1:-1], inner)
    rows = b.scratch(patches.shape, x.dtype)
    by_group = np.moveaxis(w.reshape(*p.window, inner, groups, columns), -2, 0)
    constant = b.input(1).const is not None
    if constant:
        kernel = b.once("kernel", lambda: by_group.reshape(groups, depth, columns).copy())
    else:
        kernel = b.scratch((groups, depth, columns), x.dtype)
    count = patches[0].size // max(depth, 1)
    result = b.scratch((groups, count, columns), out.dtype)
    product = multiply(b, rows.reshape(groups, count, depth), kernel, result)
    kernel_view = kernel.reshape(by_group.shape)
    found = result.reshape(groups, *y.shape[:-1], columns)
    target = y.reshape(*y.shape[:-1], groups, columns)

    def run() -> None:
        fill()
        np.copyto(rows, patches)
        if not constant:
            np.copyto(kernel_view, by_group)
        product()
        np.copyto(target, np.moveaxis(found, 0, -2))

    return run


def _spread(b: Binding, x: Array, p: Plan) -> tuple[Array, Run]:
    """x [batch, spatial..., features] with zeros in between and around; and how to fill it."""
    sizes = [max((n - 1) * s + 1, 0) for n, s in zip(x.shape[1:-1], p.spread, strict=True)]
    padded = [n + lo + hi for n, lo, hi in zip(sizes, p.before, p.after, strict=True)]
    spread = b.scratch((x.shape[0], *padded, x.shape[-1]), x.dtype)
    to, come = [slice(None)], [slice(None)]
    for n, total, step, before in zip(x.shape[1:-1], padded, p.spread, p.before, strict=True):
        # negative padding cuts: elements from `first` to `last` land within
        first = max(-(before // step), 0)
        last = min((total - 1 - before) // step, n - 1)
        come.append(slice(first, last + 1))
        start = before + first * step
        to.append(slice(start, start + max(last - first, 0) * step + 1, step))
    source, target = x[tuple(come)], spread[tuple(to)] if x.size else spread[:0]

    def fill() -> None:
        spread.fill(0)
        if source.size:
            np.copyto(target, source)

    return spread, fill


def _patches(spread: Array, p: Plan, outputs: Shape, inner: int) -> Array:
    """A view: what each output place sees, [groups, batch, outputs..., window..., inner]."""
    n, spatial = spread.strides, spread.strides[1:-1]
    windows = [s * d for s, d in zip(spatial, p.dilation, strict=True)]
    steps = [s * d for s, d in zip(spatial, p.strides, strict=True)]
    batch = spread.shape[0] // p.batch_groups
    if p.batch_groups > 1:
        groups, group = p.batch_groups, n[0] * batch
    else:
        groups, group = p.groups, n[-1] * inner
    return np.lib.stride_tricks.as_strided(
        spread,
        (groups, batch, *outputs, *p.window, inner),
        (group, n[0], *steps, *windows, n[-1]),
    )
