"""One delegate at work on one subgraph: the implementation of `DelegateContext`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..kernels.api import Node, OpError, Registration, Shape, Tensor, TensorSpec
from ..kernels.types import Array
from . import state_order
from .delegate import BuildKernel, Called, Delegate, Kernel, Partition, Refusal
from .node import LiveNode
from .partition import Subset, partition
from .plan import Placed, Plan, delegate_node, ends, read_by_user
from .self_check import Checked, from_outside
from .state_order import NONE, State, handles, state_of
from .tensor import ARENA, LiveTensor

if TYPE_CHECKING:
    from .subgraph import LiveSubgraph

# operators that a delegate can take with what they call, and the option that says what it is
CALLED = {"CALL": "subgraph", "STABLEHLO_COMPOSITE": "decomposition_subgraph_index"}


class PlanningContext:
    """Changes `plan`, and nothing else. `undo` restores it as it was when this was made."""

    def __init__(
        self,
        subgraph: LiveSubgraph,
        delegate: Delegate,
        plan: Plan,
        bar: Callable[[LiveNode], tuple[str, str] | None],
        fail: Callable[[Delegate, Exception], None],
        handles: Mapping[int, Any],
    ) -> None:
        """`bar` gives code and text for a node that this delegate must not have."""
        self._subgraph = subgraph
        self._delegate = delegate
        self._label = subgraph.graph.delegation.label(delegate)
        self._plan = plan
        self._bar = bar
        self._fail = fail
        self._handles = handles
        # invokes that are compared with numpy, which needs what crosses a partition's bounds
        self._times = subgraph.graph.delegation.rules.verify
        self._before = (list(plan.execution), len(plan.placed), len(plan.added))
        self._makers: dict[int, LiveNode] = {}
        self._variables: dict[int, Hashable] | None = None
        self._states: dict[int, State] = {}
        self._candidates: list[int] | None = None
        self._partitions: dict[tuple[int, ...], Partition] = {}
        self._shared: dict[Any, Any] = {}
        self._replaced = False

    # -- looking

    @property
    def subgraph_index(self) -> int:
        return self._subgraph.index

    @property
    def threads(self) -> int:
        return self._subgraph.threads

    @property
    def metadata(self) -> Mapping[str, Array]:
        """The model's, by name."""
        return self._subgraph.graph.model.metadata

    @property
    def num_tensors(self) -> int:
        return len(self._subgraph.tensors) + len(self._plan.added)

    def tensor(self, index: int) -> Tensor:
        own = len(self._subgraph.tensors)
        return self._subgraph.tensors[index] if index < own else self._plan.added[index - own]

    def _node(self, index: int) -> LiveNode:
        own = self._plan.own_nodes
        return self._subgraph.nodes[index] if index < own else self._plan.placed[index - own].node

    def look(self, index: int) -> PlanningContext:
        """Another subgraph as the file has it: what a node of this one calls, say. Its nodes
        are asked for when the delegate is asked for it, and not through this.
        """
        subgraphs = self._subgraph.graph.subgraphs
        if not 0 <= index < len(subgraphs):
            raise OpError(f"there is no subgraph {index}; there are {len(subgraphs)}")
        other = subgraphs[index]
        plan = Plan(list(other.model_plan), len(other.nodes))
        return PlanningContext(other, self._delegate, plan, lambda node: None, self._fail, {})

    def variable(self, node: Node) -> Any:
        handle = node.inputs[0]
        for maker in self._subgraph.nodes:
            made = maker.op == "VAR_HANDLE" and not maker.registration.custom
            if made and handle is not None and maker.outputs[0].index == handle.index:
                return maker.user_data
        return None

    def called(self, node: Node) -> Called | None:
        if node.op not in CALLED:
            return None
        callee = self._subgraph.graph.subgraphs[getattr(node.options, CALLED[node.op])]
        nodes = [(n, n.registration) for n in callee.nodes if not n.folded]
        return Called(callee.inputs, callee.outputs, nodes)

    def get_node_and_registration(self, index: int) -> tuple[Node, Registration]:
        node = self._node(index)
        return node, node.registration

    def get_execution_plan(self) -> Sequence[int]:
        return [i for i in self._plan.execution if not self._node(i).folded]

    def candidates(self) -> Sequence[int]:
        if self._candidates is None:
            self._candidates = [
                i for i in self.get_execution_plan() if i < self._plan.own_nodes and self._free(i)
            ]
        return self._candidates

    def _free(self, index: int) -> bool:
        node = self._node(index)
        barred = self._bar(node)
        if barred is None and not self._delegate.allows_dynamic_tensors:
            barred = self._dynamic(node)
        if barred is not None:
            self.refuse(index, *barred)
        return barred is None

    def _dynamic(self, node: LiveNode) -> tuple[str, str] | None:
        for kind, tensors in (("input", node.inputs), ("output", node.outputs)):
            for number, t in enumerate(tensors):
                if t is not None and t.is_dynamic:
                    if not self._makers:
                        self._makers = {o.index: n for n in self._subgraph.nodes for o in n.outputs}
                    maker = self._makers.get(t.index, node)
                    return "DYNAMIC", (
                        f"{kind} {number} {t.name!r} has a shape that is known only while the "
                        f"model runs: node {maker.index} ({maker.op}) makes it"
                    )
        return None

    # -- replacing

    def preview_delegate_partitioning(self, nodes: Sequence[int]) -> Sequence[Partition]:
        made = [self._partition(s, plan) for s, plan in self._subsets(nodes) if s.supported]
        self._settle(made)
        return made

    def replace_node_subsets_with_delegate_kernels(
        self, nodes: Sequence[int], build: BuildKernel
    ) -> Sequence[Partition]:
        if self._replaced:
            raise RuntimeError("the nodes of this subgraph were replaced already, in this prepare")
        subsets = self._subsets(nodes)
        made = [(s, self._partition(s, plan) if s.supported else None) for s, plan in subsets]
        partitions = [p for _, p in made if p is not None]
        self._settle(partitions)
        built: list[Kernel] = []
        try:
            for p in partitions:
                kernel = build(p)
                if not isinstance(kernel, Kernel):
                    raise TypeError(f"build gave {kernel!r}, which is no Kernel")
                built.append(kernel)
        except Exception:
            for kernel in built:
                kernel.free()
            raise
        self._put(made, subsets, built)
        self._replaced = True
        return partitions

    def _put(
        self,
        made: Sequence[tuple[Subset, Partition | None]],
        subsets: Sequence[tuple[Subset, Sequence[int]]],
        built: Sequence[Kernel],
    ) -> None:
        plan, delegate = self._plan, self._delegate
        execution = [i for i in plan.execution if self._node(i).folded]
        kernels = iter(built)
        for (subset, p), (_, numbers) in zip(made, subsets, strict=True):
            if p is None:
                execution += [numbers[i] for i in subset.nodes]
                continue
            kernel = next(kernels)
            if self._times:
                tolerance = delegate.tolerance
                kernel = Checked(kernel, p, self._subgraph, self._times, tolerance)
            index = plan.own_nodes + len(plan.placed)
            fail = partial(self._fail, delegate)
            node = delegate_node(index, p, kernel, fail, self._subgraph.graph)
            state = NONE.union(*(self._state(i) for i in p.indices))
            plan.placed.append(Placed(delegate, p, kernel, node, state))
            execution.append(index)
        plan.execution = execution

    def _subsets(self, nodes: Sequence[int]) -> list[tuple[Subset, Sequence[int]]]:
        """The subsets, and the node number of each place they speak of."""
        wanted = set(nodes)
        strange = wanted - set(self.candidates())
        if strange:
            raise ValueError(f"nodes {sorted(strange)[:8]} are not among the candidates")
        numbers = self.get_execution_plan()
        live = [self._node(i) for i in numbers]
        found = partition(
            [ends(node) for node in live],
            {place for place, i in enumerate(numbers) if i in wanted},
            self._control_edges(numbers),
            self._read_outside(),
        )
        return [(subset, numbers) for subset in found]

    def _state(self, index: int) -> State:
        found = self._states.get(index)
        if found is None:
            own = self._plan.own_nodes
            if index >= own:
                found = self._plan.placed[index - own].state
            else:
                if self._variables is None:
                    self._variables = handles(self._subgraph.nodes)
                found = state_of(self._node(index), self._variables)
            self._states[index] = found
        return found

    def _control_edges(self, numbers: Sequence[int]) -> list[tuple[int, int]]:
        """State in its order, and what the model file asks for."""
        own, placed = self._plan.own_nodes, self._plan.placed
        edges = state_order.edges([self._state(i) for i in numbers])
        given = self._subgraph.graph.model.control_edges[self._subgraph.index]
        if given:
            places: dict[int, int] = {}
            for place, i in enumerate(numbers):
                for node in placed[i - own].partition.indices if i >= own else (i,):
                    places[node] = place
            for before, after in given:
                if before in places and after in places and places[before] != places[after]:
                    edges.append((places[before], places[after]))
        return edges

    def _read_outside(self) -> set[int]:
        read = read_by_user(self._subgraph)
        if self._times:
            read.update(from_outside(self._subgraph.nodes))
        return read

    def _partition(self, subset: Subset, numbers: Sequence[int]) -> Partition:
        indices = tuple(numbers[i] for i in subset.nodes)
        made = self._partitions.get(indices)
        if made is None:
            nodes = [self._node(i) for i in indices]
            inputs = [self.tensor(i) for i in subset.inputs]
            constants = {
                t.index: t for n in nodes for t in n.inputs if t is not None and t.const is not None
            }
            made = Partition(
                self._label,
                self._subgraph.index,
                nodes,
                [n.registration for n in nodes],
                inputs,
                [self.tensor(i) for i in subset.outputs],
                list(constants.values()),
                [t for t in inputs if t.spec.variable],
                shared=self._shared,
                handles=self._handles,
            )
            self._partitions[indices] = made
        return made

    def _settle(self, partitions: Sequence[Partition]) -> None:
        """What crosses between these partitions and all others."""
        inside = {i for p in partitions for i in p.indices}
        made = {t.index for p in partitions for t in p.outputs}
        read = self._read_outside()
        for i in self.get_execution_plan():
            if i not in inside:
                read.update(ends(self._node(i))[0])
        for p in partitions:
            p.host_inputs = frozenset(t.index for t in p.inputs if t.index not in made)
            p.host_outputs = frozenset(t.index for t in p.outputs if t.index in read or self._times)

    # -- more

    def add_tensors(self, specs: Sequence[TensorSpec]) -> Sequence[int]:
        numbers = []
        for spec in specs:
            number = self.num_tensors
            self._plan.added.append(
                LiveTensor(number, spec.name, spec.shape, spec.dtype, allocation=ARENA)
            )
            numbers.append(number)
        return numbers

    def resize(self, tensor: Tensor, shape: Shape) -> None:
        self._subgraph.resize(tensor, shape)

    def refuse(self, index: int, code: str, text: str) -> None:
        node = self._node(index)
        self._plan.refuse(Refusal(index, node.op, code, text, self._label, self._subgraph.index))

    def wants_plain(self, nodes: Sequence[int]) -> bool:
        plain = self._subgraph.graph.delegation.plain
        where, who = self._subgraph.index, self._label
        return any((where, i, who) in plain for i in nodes)

    def report(self, text: str) -> None:
        self._subgraph.report(text)

    def undo(self) -> None:
        execution, placed, added = self._before
        self._plan.execution = execution
        self._plan.free(self.report, placed)
        del self._plan.added[added:]
