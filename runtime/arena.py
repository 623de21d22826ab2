"""Gives the tensors of a prepared subgraph their memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..kernels._memory import aligned
from .lifetimes import Lifetimes
from .memory import plan
from .node import LiveNode
from .tensor import ARENA, PERSISTENT, UNUSED, new_array, zeros

if TYPE_CHECKING:
    from .subgraph import LiveSubgraph

MOST_BYTES = 1 << 46


def place(subgraph: LiveSubgraph, nodes: Sequence[LiveNode]) -> None:
    """One arena for what `nodes` make, in the order in which they run; the rest apart.

    Tensors in `subgraph.inner` get none.
    """
    graph = subgraph.graph
    old_inputs = [(t, t.array_or_none) for t in subgraph.inputs if t.allocation == ARENA]
    for tensor in subgraph.inputs:
        if tensor.allocation == UNUSED:
            tensor.allocation = ARENA
    lifetimes = Lifetimes(
        nodes,
        subgraph.inputs,
        (*subgraph.input_indices, *subgraph.output_indices, *graph.kept(subgraph)),
        graph.preserve_all,
    )
    blocks, homes = lifetimes.blocks, lifetimes.homes
    # numbers that int64 cannot hold are refused before anything is planned with them
    needed = sum(b.size for b in blocks)
    if needed < 1 << 62:
        needed = plan(blocks)
    try:
        if needed >= MOST_BYTES:
            raise MemoryError
        arena = aligned(needed)
    except MemoryError:
        largest = max((t for t, _ in homes), key=lambda t: t.nbytes)
        raise RuntimeError(
            f"the tensors of subgraph {subgraph.index} need {needed:,} bytes of memory, which "
            f"there are not; the largest is {largest.name!r}, {largest.dtype.label}"
            f"{list(largest.shape)}"
        ) from None
    subgraph.hold(arena, needed, sum(t.nbytes for t, _ in homes))
    for tensor, block in homes:
        tensor.array_or_none = np.ndarray(tensor.shape, tensor.dtype.numpy, arena, block.offset)
    for tensor in subgraph.tensors:
        if tensor.index in subgraph.inner:
            tensor.array_or_none = None
        elif tensor.allocation == ARENA:
            held = tensor.array_or_none
            if held is None or held.shape != tensor.shape:  # strings: they are not in the arena
                tensor.array_or_none = new_array(tensor.shape, tensor.dtype)
        elif tensor.array_or_none is None and tensor.allocation == PERSISTENT:
            tensor.array_or_none = zeros(tensor)
    for tensor, old in old_inputs:
        # a value that was set stays set
        if old is not None and old.shape == tensor.shape:
            np.copyto(tensor.array, old)
