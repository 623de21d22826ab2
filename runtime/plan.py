"""What delegates made of one subgraph: its execution plan, their partitions, their refusals."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING

from ..kernels.api import Context, Node, OpError, Registration
from .delegate import Delegate, DelegateError, Kernel, Partition, Refusal
from .node import LiveNode
from .rules import BY_THE_USER
from .state_order import State
from .tensor import LiveTensor

if TYPE_CHECKING:
    from .graph import Graph
    from .subgraph import LiveSubgraph


@dataclass(eq=False)
class Placed:
    """A partition in the plan."""

    delegate: Delegate
    partition: Partition
    kernel: Kernel
    node: LiveNode  # stands for it in the execution plan
    state: State  # what its nodes read or change


@dataclass
class Plan:
    """Numbers of the execution plan beyond the subgraph's own nodes stand for `placed`, in order.

    Folded nodes are in it, and are not run.
    """

    execution: list[int]
    own_nodes: int
    placed: list[Placed] = field(default_factory=list)
    refusals: dict[tuple[int, str], Refusal] = field(default_factory=dict)  # by node and delegate
    failures: dict[str, str] = field(default_factory=dict)  # delegates whose prepare failed: why
    added: list[LiveTensor] = field(default_factory=list)

    def refuse(self, refusal: Refusal) -> None:
        """A delegate's last word on a node counts."""
        self.refusals[refusal.node, refusal.delegate] = refusal

    def runs(self, subgraph: LiveSubgraph) -> Iterator[tuple[LiveNode, Delegate | None]]:
        """The nodes that run, in order, with the delegate of those that are partitions."""
        for i in self.execution:
            if i >= self.own_nodes:
                placed = self.placed[i - self.own_nodes]
                yield placed.node, placed.delegate
            elif not subgraph.nodes[i].folded:
                yield subgraph.nodes[i], None

    @property
    def delegated(self) -> set[int]:
        return {i for p in self.placed for i in p.partition.indices}

    def inner(self) -> frozenset[int]:
        """Tensors that only a partition knows."""
        made = {t.index for p in self.placed for n in p.partition.nodes for t in n.outputs}
        return frozenset(made - {t.index for p in self.placed for t in p.partition.outputs})

    def free(self, report: Callable[[str], None], since: int = 0) -> None:
        for placed in self.placed[since:]:
            try:
                placed.kernel.free()
            except Exception as e:  # the others are still to be freed
                report(f"{placed.partition.delegate}: free raised {type(e).__name__}: {e}")
        del self.placed[since:]


def ends(node: Node) -> tuple[list[int], list[int]]:
    """The tensors a node reads and makes, constants left out."""
    reads = [t.index for t in node.inputs if t is not None and t.spec.const is None]
    return reads, [t.index for t in node.outputs]


def delegate_node(
    index: int,
    partition: Partition,
    kernel: Kernel,
    fail: Callable[[Exception], None],
    graph: Graph,
) -> LiveNode:
    """The node that runs a partition. `fail` is told of a fault before it goes on its way."""

    def invoke(context: Context, node: Node) -> None:
        profiler = graph.profiler
        try:
            if profiler is None:
                kernel.invoke()
            else:
                profiler.record_device(partition.subgraph, index, kernel.invoke_timed())
        except OpError:  # the values' fault: numpy would say the same
            raise
        except Exception as e:
            fail(e)
            raise

    count = len(partition.nodes)
    label = f"{partition.delegate} ({count} node{'s' * (count != 1)})"
    registration = Registration(
        name="DELEGATE", custom=True, invoke=invoke, profiling_name=lambda node: label
    )
    return LiveNode(
        index,
        "DELEGATE",
        1,
        registration,
        SimpleNamespace(custom_options=partition),
        _live(partition.inputs),
        _live(partition.outputs),
        (),
        {},
    )


def _live(tensors: Iterable[object]) -> list[LiveTensor]:
    return [t for t in tensors if isinstance(t, LiveTensor)]


def read_by_user(subgraph: LiveSubgraph) -> set[int]:
    """Tensors that must be whole on the host after invoke."""
    graph = subgraph.graph
    if graph.preserve_all or graph.delegation.open:
        return {t.index for t in subgraph.tensors}
    return {*subgraph.output_indices, *graph.kept(subgraph)}


def plan_key(subgraph: LiveSubgraph) -> Hashable:
    """All that a plan depends on: shapes, and what is dynamic or folded."""
    return (
        tuple((t.shape, t.is_dynamic) for t in subgraph.tensors[: subgraph.own_tensors]),
        tuple(n.folded for n in subgraph.nodes),
    )


def cpu_plan(subgraph: LiveSubgraph, delegates: Sequence[str], why: str) -> Plan:
    """Without any of the delegates, given by their labels."""
    plan = Plan(list(range(len(subgraph.nodes))), len(subgraph.nodes))
    for delegate in delegates:
        for n in subgraph.nodes:
            plan.refuse(Refusal(n.index, n.op, "DYNAMIC", why, delegate, subgraph.index))
    return plan


def check_whole(subgraph: LiveSubgraph, plan: Plan) -> None:
    """DelegateError for nodes that are left to numpy against the user's wish."""
    delegated = plan.delegated
    left: dict[int, list[Refusal]] = {}
    for (node, _), refusal in plan.refusals.items():
        if node not in delegated and not refusal.text.startswith(BY_THE_USER):
            left.setdefault(node, []).append(refusal)
    if left:
        shown = [
            f"node {i} ({r[0].op}): " + "; ".join(f"{x.delegate}: {x.code}: {x.text}" for x in r)
            for i, r in list(left.items())[:16]
        ]
        raise DelegateError("\n".join([f"strict: {count_left(len(left), subgraph)}", *shown]))


def count_left(left: int, subgraph: LiveSubgraph) -> str:
    nodes = "1 node" if left == 1 else f"{left} nodes"
    return f"{nodes} of subgraph {subgraph.index} {'is' if left == 1 else 'are'} left to numpy"
