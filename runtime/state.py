"""What one invoke leaves to the next, saved so that a failed invoke can be run again."""

from __future__ import annotations

import copy
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .graph import Graph
    from .node import LiveNode
    from .subgraph import LiveSubgraph


class State:
    """Room for a copy of variable tensors, of what resources hold, and of what nodes keep.

    For the memory as it is planned now: after an allocate another one is needed.
    """

    def __init__(self, graph: Graph, subgraph: LiveSubgraph) -> None:
        """`subgraph`: the one that is invoked."""
        self._resources: MutableMapping[Any, Any] = {}
        nodes = _before_faults(graph, subgraph)
        if nodes is None:
            self._resources = graph.resources
            nodes = [n for s in graph.subgraphs for n in s.nodes]
            variables = [t for s in graph.subgraphs for t in s.tensors if t.variable]
        else:
            touched = [t for n in nodes for t in n.inputs if t is not None and t.variable]
            variables = list(dict.fromkeys(touched))
        kept = [*variables, *(t for n in nodes for t in n.persistent.values())]
        self._tensors = [
            (t, np.empty_like(t.array_or_none)) for t in kept if t.array_or_none is not None
        ]
        self._keepers = [n for n in nodes if n.registration.reset is not None]
        self._once = any(n.op == "CALL_ONCE" for n in nodes)
        self._data: list[tuple[LiveNode, Any]] = []
        self._values: list[tuple[Any, Any, Any]] = []

    def __bool__(self) -> bool:
        return bool(self._tensors or self._keepers or self._once or self._resources)

    def save(self) -> None:
        for tensor, room in self._tensors:
            np.copyto(room, tensor.array)
        self._data = [(n, copy.deepcopy(n.user_data)) for n in self._keepers]
        self._values = [
            (key, resource, copy.copy(getattr(resource, "value", None)))
            for key, resource in self._resources.items()
        ]

    def restore(self) -> None:
        """To what it was when `save` was called."""
        for tensor, room in self._tensors:
            np.copyto(tensor.array, room)
        for node, data in self._data:
            node.user_data = data
        known = {key for key, _, _ in self._values}
        for key in [k for k in self._resources if k not in known]:
            del self._resources[key]  # CALL_ONCE runs again
        for key, resource, value in self._values:
            self._resources[key] = resource
            if hasattr(resource, "value"):
                resource.value = value


def _before_faults(graph: Graph, subgraph: LiveSubgraph) -> list[LiveNode] | None:
    """The nodes that have run when a delegate's fault can happen: those up to its last partition.
    What comes later finds state as it was. None: among them is one that may change any state.
    """
    plan = graph.delegation.plans.get(subgraph.index)
    own = len(subgraph.nodes)
    found: list[LiveNode] = []
    count = 0
    for index in subgraph.execution_plan:
        placed = plan.placed[index - own] if plan is not None and index >= own else None
        nodes = [subgraph.nodes[i] for i in (placed.partition.indices if placed else (index,))]
        found += nodes
        free = any(n.registration.infer is None for n in nodes)
        if placed or free:
            count = len(found)
        if free:  # control flow, resources: what it does, or calls, is its own affair
            return None
    return found[:count]
