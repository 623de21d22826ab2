"""Nodes that are computed once, at allocation: their inputs are constants, or only shapes count."""

from __future__ import annotations

from collections.abc import Callable, MutableSet

import numpy as np

from ..kernels.api import Run
from ..kernels.types import Array
from .node import LiveNode
from .tensor import ARENA, FOLDED, MMAP, new_array

# A constant node is computed at allocation if that does not blow its operands up: a folded tensor
# holds memory for good.
FOLD_ALWAYS_BYTES = 1 << 16
FOLD_GROWTH = 4

Bind = Callable[[LiveNode, list[Array | None], list[Array]], Run | None]


def foldable(node: LiveNode) -> bool:
    """Whether a prepared node can be computed now, and should be."""
    if not node.registration.pure:
        return False
    inputs = [t for t in node.inputs if t is not None]
    if not node.registration.shape_only and any(t.const is None for t in inputs):
        return False
    if not node.outputs or any(o.allocation != ARENA for o in node.outputs):
        return False
    size = sum(o.nbytes for o in node.outputs)
    return size <= max(FOLD_ALWAYS_BYTES, FOLD_GROWTH * sum(t.nbytes for t in inputs))


def fold(node: LiveNode, bind: Bind, for_good: MutableSet[int]) -> None:
    """Computes the node; its outputs are constants until it is prepared again.

    `for_good` are the tensors that follow from the model's constants alone: they stay. What is
    computed for them is shared by clones.
    """
    node.folded = True
    node.constant = not node.registration.shape_only and all(
        t is None or t.allocation == MMAP or t.index in for_good for t in node.inputs
    )
    values: list[Array] | None = node.kept.get("folded") if node.constant else None
    if values is None:
        values = [new_array(o.shape, o.dtype) for o in node.outputs]
        call = bind(node, [t.array_or_none if t is not None else None for t in node.inputs], values)
        if call is not None:
            with np.errstate(all="ignore"):
                call()
        for value in values:
            value.flags.writeable = False
        if node.constant:
            node.kept["folded"] = values
    for out, value in zip(node.outputs, values, strict=True):
        out.allocation = FOLDED
        out.set_const(value)
        out.array_or_none = value
        if node.constant:
            for_good.add(out.index)
