"""The runtime as the ops of a subgraph see it: `kernels.api.Context`."""

from __future__ import annotations

import operator
from collections.abc import MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from ..kernels import api
from ..kernels.api import OpError
from ..kernels.types import DType
from .lifetimes import OBJECTS
from .node import LiveNode
from .tensor import ARENA, DYNAMIC, PERSISTENT, LiveTensor, new_array, zeros

if TYPE_CHECKING:
    from .graph import Graph
    from .subgraph import LiveSubgraph


class LiveContext:
    """The part of `LiveSubgraph` that ops call."""

    graph: Graph
    input_indices: tuple[int, ...]
    output_indices: tuple[int, ...]
    tensors: list[LiveTensor]
    nodes: list[LiveNode]
    allocated: bool
    stale: bool  # an input was resized since the last allocate
    _running: bool
    _preparing: LiveNode | None  # whose prepare is being called

    # -- kernels.api.Subgraph

    @property
    def inputs(self) -> Sequence[LiveTensor]:
        return [self.tensors[i] for i in self.input_indices]

    @property
    def outputs(self) -> Sequence[LiveTensor]:
        return [self.tensors[i] for i in self.output_indices]

    @property
    def ops(self) -> Sequence[str]:
        return [node.op for node in self.nodes]

    def reads_input(self, i: int) -> bool:
        index = self.input_indices[i]
        if index in self.output_indices:
            return True
        return any(t is not None and t.index == index for node in self.nodes for t in node.inputs)

    def resize_input(self, i: int, shape: Sequence[int]) -> None:
        self.resize_tensor(self.input_indices[i], shape)

    def resize_tensor(self, index: int, shape: Sequence[int]) -> None:
        tensor = self.tensors[index]
        wanted = tuple(int(d) for d in shape)
        if tensor.shape != wanted:
            tensor.set_shape(wanted)
            self.allocated = False
            self.stale = True

    # -- kernels.api.Context

    @property
    def threads(self) -> int:
        return self.graph.pool.threads

    @property
    def resources(self) -> MutableMapping[Any, Any]:
        return self.graph.resources

    def resize(self, tensor: api.Tensor, shape: Sequence[int], dtype: DType | None = None) -> None:
        live = self._writable(tensor)
        wanted = _shape(live.name, shape)
        if dtype is not None and dtype is not live.dtype:
            raise OpError(
                f"tensor {live.name!r} is {live.dtype.label} in the model and cannot become "
                f"{dtype.label}"
            )
        if not self._running:
            live.set_shape(wanted)
        elif live.is_dynamic:
            live.set_shape(wanted)
            if live.array_or_none is None or live.array_or_none.shape != wanted:
                live.array_or_none = new_array(wanted, live.dtype)
        elif live.shape != wanted:
            raise OpError(
                f"tensor {live.name!r} has the shape {list(live.shape)} since prepare and cannot "
                f"become {list(wanted)} in invoke; call set_dynamic in prepare"
            )

    def set_dynamic(self, tensor: api.Tensor) -> None:
        live = self._writable(tensor)
        live.allocation = DYNAMIC
        live.array_or_none = None

    def temporary(
        self,
        node: api.Node,
        shape: Sequence[int],
        dtype: DType = DType.FLOAT32,
        kind: str = "arena",
    ) -> int:
        if kind not in ("arena", "persistent", "dynamic"):
            raise ValueError(f"temporary kind {kind!r}; there are arena, persistent and dynamic")
        live = self.nodes[node.index]
        number = len(live.temporaries)
        name = f"{live.op}.temporary{number}"
        tensor = LiveTensor(-1, name, _shape(name, shape), dtype, allocation=ARENA)
        if kind == "persistent":
            kept = live.persistent.get(number)
            if kept is not None and (kept.shape, kept.dtype) == (tensor.shape, dtype):
                tensor = kept
            else:
                tensor.allocation = PERSISTENT
                tensor.array_or_none = zeros(tensor)
                live.persistent[number] = tensor
        elif kind == "dynamic" or live.late or dtype in OBJECTS:
            tensor.allocation = DYNAMIC
            tensor.array_or_none = None if kind == "dynamic" else new_array(tensor.shape, dtype)
        live.temporaries.append(tensor)
        return number

    def subgraph(self, index: int) -> LiveSubgraph:
        return self.graph.subgraphs[index]

    def report(self, text: str) -> None:
        self.graph.report(text)

    def _own(self, tensor: api.Tensor) -> LiveTensor:
        if not isinstance(tensor, LiveTensor):
            raise TypeError(f"{tensor!r} is no tensor of this interpreter")
        return tensor

    def _writable(self, tensor: api.Tensor) -> LiveTensor:
        live, node = self._own(tensor), self._preparing
        if node is not None and not any(live is t for t in (*node.outputs, *node.temporaries)):
            raise OpError(
                f"prepare of {node.op} changes the shape of tensor {live.index} {live.name!r}, "
                "which is neither an output nor a temporary of its node"
            )
        return live


def _shape(name: str, shape: Any) -> api.Shape:
    """The shape as Python integers. OpError for what is none: fractions are not cut."""
    try:
        wanted = tuple(operator.index(d) for d in shape)
    except TypeError:
        wanted = (-1,)
    if any(not 0 <= d < 1 << 31 for d in wanted):
        raise OpError(
            f"{shape!r} is no shape for tensor {name!r}: that is a list of whole numbers from 0 to "
            f"{(1 << 31) - 1}"
        )
    return wanted
