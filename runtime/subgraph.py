"""A live subgraph: prepares its nodes, plans their memory, binds them, runs them.

`allocate` turns the execution plan into a flat list of callables without arguments; `invoke` walks
it. A node whose shapes depend on data is *late*: it is prepared and bound inside invoke, again
whenever its arrays change.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..kernels import api
from ..kernels.api import OpError, Run
from ..kernels.types import Array
from .arena import place
from .async_kernel import AsyncNode
from .blas import one_thread
from .errors import NodeError, UnresolvedOpsError
from .node import LiveNode
from .node_calls import NodeCalls
from .tensor import (
    ARENA,
    DYNAMIC,
    MMAP,
    PERSISTENT,
    UNUSED,
    LiveTensor,
    new_array,
    zeros,
)

if TYPE_CHECKING:
    from .graph import Graph
    from .pending import Pending
    from .plan import Plan


class LiveSubgraph(NodeCalls):
    """Implements `kernels.api.Subgraph` and, for its own nodes, `kernels.api.Context`."""

    def __init__(self, graph: Graph, index: int, definition: Any) -> None:
        self.graph = graph
        self.index = index
        self.definition = definition
        self.name: str = definition.name
        self.input_indices: tuple[int, ...] = definition.inputs
        self.output_indices: tuple[int, ...] = definition.outputs
        self.tensors = [self._make_tensor(i, t) for i, t in enumerate(definition.tensors)]
        self.nodes = [self._make_node(i, o) for i, o in enumerate(definition.operators)]
        self._find_tensors_without_producer()
        self.own_tensors = len(self.tensors)  # delegates can add more
        self.model_plan = list(range(len(self.nodes)))
        self.execution_plan = self.model_plan  # or what delegates made of it
        self.delegate_nodes: list[LiveNode] = []  # numbered on from the last of `nodes`
        self.inner: frozenset[int] = frozenset()  # tensors that only a delegate knows
        self.allocated = False
        self.stale = False  # an input was resized since the last allocate
        self.arena_bytes = 0
        self.tensor_bytes = 0  # what the arena's tensors would take one by one
        self._calls: list[Run] = []
        self._call_nodes: list[LiveNode] = []
        self._on_host = True  # some node may call BLAS
        self._arena: Array | None = None
        self.async_nodes: dict[int, AsyncNode] = {}
        self._running = False
        self._preparing = None

    # -- building

    def _make_tensor(self, index: int, definition: Any) -> LiveTensor:
        const = None if definition.is_variable else self.graph.model.constant(definition)
        tensor = LiveTensor(
            index,
            definition.name,
            definition.shape,
            definition.dtype,
            source=definition,
            const=const,
            variable=definition.is_variable,
            allocation=MMAP
            if const is not None
            else PERSISTENT
            if definition.is_variable
            else UNUSED,
        )
        return tensor

    def _make_node(self, index: int, definition: Any) -> LiveNode:
        tensors = self.tensors
        registration = self.graph.registrations[definition.opcode_index]
        return LiveNode(
            index,
            definition.op,
            definition.version,
            registration,
            definition,
            [tensors[i] if i >= 0 else None for i in definition.inputs],
            [tensors[i] for i in definition.outputs],
            [tensors[i] for i in definition.intermediates],
            self.graph.weights.setdefault((self.index, index), {}),
        )

    def _find_tensors_without_producer(self) -> None:
        """A tensor of no elements that nobody makes is a constant: an empty buffer is its value."""
        made = set(self.input_indices)
        for node in self.nodes:
            made.update(t.index for t in node.outputs)
        for tensor in self.tensors:
            tensor.made = tensor.index in made
            if tensor.allocation == UNUSED and not tensor.made and 0 in tensor.shape:
                tensor.allocation = MMAP
                tensor.set_const(new_array(tensor.shape, tensor.dtype))
                tensor.array_or_none = tensor.const

    def init_nodes(self) -> None:
        """Calls every node's init. Once, when the interpreter is built."""
        for node in self.nodes:
            self.init_node(node)

    def init_node(self, node: LiveNode) -> None:
        if node.registration.init is not None:
            try:
                node.user_data = node.registration.init(self, node.options)
            except Exception as e:
                self.fail(node, "initialise", e)
            self.graph.to_free.append((self, node))

    # -- allocation

    def allocate(self) -> None:
        if self.allocated:
            return
        if self.graph.unresolved and any(
            self.nodes[i].registration.prepare is _unresolved for i in self.model_plan
        ):
            raise UnresolvedOpsError(self.graph.unresolved_text())
        self.use_plan(None)
        for i in self.model_plan:
            node = self.nodes[i]
            if node.constant:
                continue
            try:
                self._prepare(node)
            except UnresolvedOpsError:  # of a subgraph that a control-flow node calls
                raise
            except Exception as e:
                self.fail(node, "prepare", e)
        self.settle()
        self.reset_variables()
        self.allocated = True
        self.stale = False

    def settle(self) -> None:
        """Delegates, memory and bindings for nodes that are prepared; state stays as it is."""
        delegation = self.graph.delegation
        delegation.apply(self)
        while True:
            nodes = [n for n in map(self._node, self.execution_plan) if not n.folded]
            place(self, nodes)
            if delegation.attach(self):
                break
        self._calls, self._call_nodes = [], []
        for node in nodes:
            try:
                call = self._make_call(node)
            except Exception as e:
                self.fail(node, "prepare", e)
            if call is not None:
                self._calls.append(call)
                self._call_nodes.append(node)
        kernels = {p.node for p in delegation.partitions(self) if not p.delegate.uses_blas}
        self._on_host = not kernels.issuperset(nodes)

    def use_plan(self, plan: Plan | None) -> None:
        """The execution plan that delegates made, or the model's own."""
        del self.tensors[self.own_tensors :]
        if plan is None:
            self.execution_plan = self.model_plan
            self.delegate_nodes, self.inner = [], frozenset()
            return
        self.execution_plan = plan.execution
        self.delegate_nodes = [p.node for p in plan.placed]
        self.inner = plan.inner()
        self.tensors.extend(plan.added)

    def hold(self, arena: Array, arena_bytes: int, tensor_bytes: int) -> None:
        self._arena = arena
        self.arena_bytes = arena_bytes
        self.tensor_bytes = tensor_bytes

    def _node(self, index: int) -> LiveNode:
        own = len(self.nodes)
        return self.nodes[index] if index < own else self.delegate_nodes[index - own]

    def invoke(self) -> None:
        if not self.allocated:
            raise RuntimeError(
                "Invoke called on model that is not ready: call allocate_tensors() first"
            )
        graph = self.graph
        if graph.calm:  # a control-flow node calls
            self.run()
            return
        graph.calm = True
        try:
            # infinities and NaN are values like others, as in C: numpy must not warn of them
            with one_thread if self._on_host else nullcontext(), np.errstate(all="ignore"):
                if graph.delegation.delegates:
                    graph.delegation.run(self)
                else:
                    self.run()
        finally:
            graph.calm = False

    def start(self) -> Pending | None:
        """Starts an invoke on the delegate that runs all of it, where that can be waited for."""
        if not self.allocated:
            raise RuntimeError(
                "Invoke called on model that is not ready: call allocate_tensors() first"
            )
        if len(self._calls) != 1 or self.graph.profiler is not None or self.graph.calm:
            return None
        return self.graph.delegation.start(self)

    def run(self) -> None:
        """The calls in turn. `invoke` is the way in."""
        profiler = self.graph.profiler
        calls = iter(self._calls)
        self._running = True
        try:
            if profiler is None:
                for call in calls:
                    call()
            else:
                clock = time.perf_counter_ns
                for node, call in zip(self._call_nodes, calls, strict=True):
                    start = clock()
                    call()
                    profiler.record(self.index, node, start, clock())
        except Exception as e:
            done = len(self._calls) - calls.__length_hint__()  # type: ignore[attr-defined]
            self.fail(self._call_nodes[done - 1], "invoke", e)
        finally:
            self._running = False

    def _plain_invoke(self, node: LiveNode) -> Run:
        if node.registration.async_kernel is not None:
            return self.async_nodes.setdefault(node.index, AsyncNode(self, node))
        invoke = node.registration.invoke
        if invoke is None:
            raise OpError(f"the registration of {node.op} has neither invoke nor bind")
        return functools.partial(invoke, self, node)

    def reset_variables(self) -> None:
        """Variables back to zero (for int8 the zero point), as TensorFlow Lite has it, and what
        ops keep of their own back to its start.
        """
        for tensor in self.tensors:
            if tensor.variable and tensor.array_or_none is not None:
                np.copyto(tensor.array_or_none, zeros(tensor))
        for node in self.nodes:
            if node.registration.reset is not None:
                node.registration.reset(self, node.user_data)

    def close_async(self, report: Callable[[str], None]) -> None:
        """Asynchronous kernels let go of the tensors' memory, before their nodes are freed."""
        closing, self.async_nodes = self.async_nodes, {}
        for index, made in closing.items():
            try:
                made.close()
            except Exception as e:  # the others are still to be closed
                op = self.nodes[index].op
                report(f"node {index} ({op}): unregistering its buffers failed: {e}")

    def release(self) -> None:
        """Lets go of all memory but the constants."""
        self.allocated = False
        self._calls, self._call_nodes, self._arena = [], [], None
        for tensor in self.tensors:
            if tensor.allocation in (ARENA, DYNAMIC, PERSISTENT):
                tensor.array_or_none = None
        for node in self.nodes:
            node.binding = None
            node.temporaries = []
            node.persistent = {}

    def fail(self, node: LiveNode, doing: str, error: Exception) -> NoReturn:
        if isinstance(error, OpError | NodeError):
            text = str(error)
        else:
            text = f"{type(error).__name__}: {error}"
        where = f"Node number {node.index} ({node.op}) failed to {doing}."
        raise NodeError(f"{text}\n{where}", self.index, node.index, node.op) from error


def _unresolved(context: api.Context, node: api.Node) -> None:
    raise OpError(f"{node.op} is not resolved")


UNRESOLVED = _unresolved
