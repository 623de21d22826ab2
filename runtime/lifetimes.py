"""Which memory a prepared subgraph needs, and from which step to which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..kernels.types import DType
from .memory import Block
from .node import LiveNode
from .tensor import ARENA, LiveTensor

OBJECTS = (DType.STRING, DType.RESOURCE, DType.VARIANT)


def in_arena(tensor: LiveTensor) -> bool:
    return tensor.allocation == ARENA and tensor.dtype not in OBJECTS


class Lifetimes:
    """The memory blocks of nodes that run in this order, and the block each arena tensor lives in.

    `ends` are tensors that must be whole after the last node, inputs those that are set before the
    first. With `keep_all` every tensor has memory of its own.
    """

    def __init__(
        self,
        nodes: Sequence[LiveNode],
        inputs: Iterable[LiveTensor],
        ends: Iterable[int],
        keep_all: bool,
    ) -> None:
        self.blocks: list[Block] = []
        self.homes: list[tuple[LiveTensor, Block]] = []
        self._block_of: dict[int, Block] = {}
        self._keep_all = keep_all
        self._end = len(nodes)
        self._last = last_uses(nodes)
        self._last.update(dict.fromkeys(ends, self._end))
        for tensor in inputs:
            if in_arena(tensor) and tensor.index not in self._block_of:
                self._add(tensor, 0, self._end)
        for step, node in enumerate(nodes):
            self._add_node(node, step)

    def _add_node(self, node: LiveNode, step: int) -> None:
        for number, out in enumerate(node.outputs):
            if not in_arena(out) or out.index in self._block_of:
                continue
            last = self._last[out.index]
            home = None if number or self._keep_all else self._take_over(node, out, step)
            if home is None:
                self._add(out, step, last)
            else:
                home.last = last
                self._place(out, home)
        for tensor in node.temporaries:
            if in_arena(tensor):
                self._add(tensor, step, step)

    def _add(self, tensor: LiveTensor, first: int, last: int) -> None:
        block = Block(tensor.nbytes, first, self._end if self._keep_all else last)
        self.blocks.append(block)
        self._place(tensor, block)

    def _place(self, tensor: LiveTensor, block: Block) -> None:
        self.homes.append((tensor, block))
        if tensor.index >= 0:  # a temporary has no number
            self._block_of[tensor.index] = block

    def _take_over(self, node: LiveNode, out: LiveTensor, step: int) -> Block | None:
        """The block of an input that `out` may overwrite, if there is one."""
        for i in node.registration.inplace:
            tensor = node.inputs[i] if i < len(node.inputs) else None
            if tensor is None or not in_arena(tensor) or self._last[tensor.index] != step:
                continue
            if node.inputs.count(tensor) > 1:  # it may be read again when it is overwritten
                continue
            if tensor.nbytes == out.nbytes and tensor.index in self._block_of:
                return self._block_of[tensor.index]
        return None


def last_uses(nodes: Sequence[LiveNode]) -> dict[int, int]:
    """The step that reads a tensor last; of one that nobody reads, the step that makes it."""
    last: dict[int, int] = {}
    for step, node in enumerate(nodes):
        for t in node.inputs:
            if t is not None:
                last[t.index] = step
        for t in node.outputs:
            last.setdefault(t.index, step)
    return last
