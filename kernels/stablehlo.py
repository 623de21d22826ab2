"""STABLEHLO_DOT_GENERAL, STABLEHLO_CONVOLUTION, STABLEHLO_CUSTOM_CALL.

Source of the shapes and of the arithmetic: the StableHLO specification. Products of floats are
summed in float32 (float64 for float64); those of integers exactly, then wrapped to the output type.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from . import _hlo_convolution
from ._hlo_product import TYPES, multiply, results
from ._lower import check, moved, shifted, types, view
from ._product_lower import lower_batch_matmul
from ._widen import FLOATS, in_float32
from .api import Binding, NodeSpec, OpError, Options, Run, Shape, TensorSpec, op, require, take
from .device import Capability, Lowered, Step
from .types import Array

Dims = tuple[int, ...]


# -- STABLEHLO_DOT_GENERAL


def _dims(node: NodeSpec | Binding, side: str, rank: int) -> tuple[Dims, Dims, Dims]:
    """(batching, contracting, other) dimensions of one side."""
    o = node.options
    batching, contracting = (
        tuple(int(d) for d in getattr(o, f"{side}_{kind}_dimensions") or ())
        for kind in ("batching", "contracting")
    )
    named = batching + contracting
    require(
        len(set(named)) == len(named) and all(0 <= d < rank for d in named),
        f"{side} batching dimensions {list(batching)} and contracting dimensions "
        f"{list(contracting)}; each of 0 to {rank - 1} may be named once",
    )
    return batching, contracting, tuple(d for d in range(rank) if d not in named)


def _infer_dot(node: NodeSpec) -> list[Shape]:
    x, y = node.input(0), node.input(1)
    take(node, "input 0", x, *TYPES)
    take(node, "input 1", y, x.dtype)
    take(node, "output", node.outputs[0], *results(x.dtype))
    left, right = _dims(node, "lhs", x.rank), _dims(node, "rhs", y.rank)
    for kind, a, b in zip(("batching", "contracting"), left, right, strict=False):
        sizes = [x.shape[d] for d in a], [y.shape[d] for d in b]
        require(
            sizes[0] == sizes[1],
            f"the {kind} dimensions of {x} and {y} have the sizes {sizes[0]} and {sizes[1]}",
        )
    return [
        (
            *(x.shape[d] for d in left[0]),
            *(x.shape[d] for d in left[2]),
            *(y.shape[d] for d in right[2]),
        )
    ]


def _size(shape: Shape, dims: Dims) -> int:
    return math.prod(shape[d] for d in dims)


def _bind_dot(b: Binding) -> Run | None:
    out = b.y[0]
    if out.size == 0:
        return None
    x, y = b.xi(0), b.xi(1)
    batching, contracting, rows = _dims(b, "lhs", x.ndim)
    left, load_left = _arranged(b, 0, (batching, rows, contracting))
    batching, contracting, columns = _dims(b, "rhs", y.ndim)
    right, load_right = _arranged(b, 1, (batching, contracting, columns))
    target = out.reshape(left.shape[0], left.shape[1], right.shape[2])
    product = multiply(b, left, right, target)
    steps = [s for s in (load_left, load_right, product) if s is not None]

    def run() -> None:
        for step in steps:
            step()

    return run


def _arranged(b: Binding, i: int, groups: Sequence[Dims]) -> tuple[Array, Run | None]:
    """Input `i` with each group of dimensions as one, and how to refresh it if it is a copy."""
    x = b.xi(i)
    shape = [_size(x.shape, dims) for dims in groups]
    view = x.transpose([d for dims in groups for d in dims])
    flat = view.reshape(shape)
    if np.shares_memory(flat, x) or x.size == 0:
        return flat, None
    if b.input(i).const is not None:
        kept: Array = b.once(f"arranged{i}", lambda: flat)
        return kept, None
    copied = b.scratch(view.shape, x.dtype)

    def load() -> None:
        np.copyto(copied, view)

    return copied.reshape(shape), load


def _lower_dot(node: NodeSpec, capability: Capability) -> Lowered:
    """Both operands arranged as stacks of matrices, in scratch, and their product."""
    check(node, capability)
    x, y, out = node.input(0), node.input(1), node.outputs[0]
    types(node, x, *FLOATS)
    types(node, out, x.dtype)
    left, right = _dims(node, "lhs", x.rank), _dims(node, "rhs", y.rank)
    groups = (left[0], left[2], left[1]), (right[0], right[1], right[2])
    stacks: list[TensorSpec] = []
    steps: list[Step] = []
    for i, (spec, dims) in enumerate(zip((x, y), groups, strict=True)):
        order = [d for group in dims for d in group]
        shape = tuple(_size(spec.shape, group) for group in dims)
        const = None if spec.const is None else spec.const.transpose(order).reshape(shape)
        stacks.append(replace(spec, shape=shape, const=const))
        steps.append(moved(spec.shape, partial(np.transpose, axes=order), i, 1 + i))
    shape = (*stacks[0].shape[:2], stacks[1].shape[2])
    plain = Options(adj_x=False, adj_y=False)
    inner = NodeSpec("BATCH_MATMUL", stacks, [replace(out, shape=shape)], plain)
    product = lower_batch_matmul(inner, capability)
    scratch = [(s.shape, s.dtype) for s in stacks]
    # what it reads and writes comes behind this node's own
    own = [shifted(step, 2, 0 if step.output == 0 else 2) for step in product.steps]
    return Lowered([*steps, *own], scratch=[*scratch, *product.scratch])


# -- STABLEHLO_CUSTOM_CALL

# annotations for a compiler: what goes in comes out
_ANNOTATIONS = (
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "annotate_device_placement",
)


def _infer_call(node: NodeSpec) -> list[Shape]:
    name = node.options.call_target_name
    if name not in _ANNOTATIONS:
        raise OpError(
            f"{node.op} to {name!r}, which is not known here; known: {', '.join(_ANNOTATIONS)}. "
            "Register an op of your own for STABLEHLO_CUSTOM_CALL with add_builtin"
        )
    x = node.input(0)
    take(node, "output", node.outputs[0], x.dtype)
    return [x.shape]


def _bind_call(b: Binding) -> Run | None:
    x, y = b.xi(0), b.y[0]
    if np.shares_memory(x, y):
        return None

    def run() -> None:
        np.copyto(y, x)

    return run


OPS = {
    "STABLEHLO_DOT_GENERAL": op(
        "STABLEHLO_DOT_GENERAL", _infer_dot, in_float32(_bind_dot), lower=_lower_dot
    ),
    "STABLEHLO_CONVOLUTION": op(
        "STABLEHLO_CONVOLUTION", _hlo_convolution.infer, in_float32(_hlo_convolution.bind)
    ),
    "STABLEHLO_CUSTOM_CALL": op(
        "STABLEHLO_CUSTOM_CALL", _infer_call, _bind_call, inplace=(0,), lower=view
    ),
}
