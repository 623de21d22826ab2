"""What one invoke leaves to the next, saved so that a failed invoke can be run again."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.types import Array

if TYPE_CHECKING:
    from .graph import Graph
    from .node import LiveNode
    from .tensor import LiveTensor


class State:
    """A copy of variable tensors, of what resources hold, and of what nodes keep."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._tensors: list[tuple[LiveTensor, Array]] = []
        self._nodes: list[tuple[LiveNode, Any]] = []
        for subgraph in graph.subgraphs:
            kept = [t for node in subgraph.nodes for t in node.persistent.values()]
            for tensor in (*(t for t in subgraph.tensors if t.variable), *kept):
                if tensor.array_or_none is not None:
                    self._tensors.append((tensor, tensor.array_or_none.copy()))
            for node in subgraph.nodes:
                if node.registration.reset is not None:
                    self._nodes.append((node, copy.deepcopy(node.user_data)))
        self._resources: list[tuple[Any, Any, Any]] = [
            (key, resource, copy.copy(getattr(resource, "value", None)))
            for key, resource in graph.resources.items()
        ]

    def restore(self) -> None:
        for tensor, value in self._tensors:
            np.copyto(tensor.array, value)
        for node, data in self._nodes:
            node.user_data = data
        resources = self._graph.resources
        known = {key for key, _, _ in self._resources}
        for key in [k for k in resources if k not in known]:
            del resources[key]  # CALL_ONCE runs again
        for key, resource, value in self._resources:
            resources[key] = resource
            if hasattr(resource, "value"):
                resource.value = value


def has_state(graph: Graph) -> bool:
    """Whether there is anything to save."""
    return bool(graph.resources) or any(
        any(t.variable for t in s.tensors)
        or any(
            n.persistent or n.registration.reset is not None or n.op == "CALL_ONCE" for n in s.nodes
        )
        for s in graph.subgraphs
    )
