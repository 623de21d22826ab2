"""Runs single nodes of a model on given arrays: for comparing with another runtime node by node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..kernels.types import Array
from .build import build_graph
from .model import Model
from .resolver import BuiltinOpResolver, OpResolver
from .tensor import ARENA, FOLDED, MMAP, PERSISTENT, UNUSED


class NodeRunner:
    """Each node by itself, prepared and planned as in the whole model."""

    def __init__(
        self, model: Model, resolver: OpResolver | None = None, *, threads: int | None = None
    ) -> None:
        self._graph = build_graph(model, resolver or BuiltinOpResolver(), threads=threads)
        self._whole = [(s.input_indices, s.output_indices) for s in self._graph.subgraphs]

    def close(self) -> None:
        self._graph.close()

    def run(self, node: int, inputs: Sequence[Array | None], *, subgraph: int = 0) -> list[Array]:
        """Copies of the outputs.

        `inputs` are in the node's order; None is taken for those that are absent, constant in the
        model or variables, which start at their first value.
        """
        sub = self._graph.subgraphs[subgraph]
        live = sub.nodes[node]
        fed: dict[int, Array] = {}
        for tensor, value in zip(live.inputs, inputs, strict=True):
            if tensor is None or tensor.allocation in (MMAP, FOLDED, PERSISTENT):
                continue
            if value is None:
                raise ValueError(f"node {node} {live.op} needs a value for {tensor.name!r}")
            fed[tensor.index] = value
        for tensor in sub.tensors:
            if tensor.allocation not in (MMAP, FOLDED, PERSISTENT):
                tensor.allocation, tensor.array_or_none = UNUSED, None
        sub.input_indices = tuple(fed)
        sub.output_indices = tuple(t.index for t in live.outputs)
        sub.model_plan = [node]
        sub.allocated = False
        for index, value in fed.items():
            sub.tensors[index].allocation = ARENA
            sub.resize_tensor(index, value.shape)
        try:
            sub.allocate()
            for index, value in fed.items():
                array = sub.tensors[index].array
                np.copyto(array, value.view(array.dtype) if value.dtype.kind == "V" else value)
            sub.invoke()
            return [t.array.copy() for t in live.outputs]
        finally:
            sub.input_indices, sub.output_indices = self._whole[subgraph]
            sub.model_plan = list(range(len(sub.nodes)))
            sub.allocated = False
