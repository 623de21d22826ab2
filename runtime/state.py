"""What one invoke leaves to the next, saved so that a failed invoke can be run again."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .graph import Graph
    from .node import LiveNode


class State:
    """Room for a copy of variable tensors, of what resources hold, and of what nodes keep.

    For the memory as it is planned now: after an allocate another one is needed.
    """

    def __init__(self, graph: Graph) -> None:
        self._resources = graph.resources
        nodes = [n for s in graph.subgraphs for n in s.nodes]
        kept = [
            *(t for s in graph.subgraphs for t in s.tensors if t.variable),
            *(t for n in nodes for t in n.persistent.values()),
        ]
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
