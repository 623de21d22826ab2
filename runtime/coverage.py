"""The coverage report: where each node runs, what each delegate said of it, and what it costs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..kernels.api import TensorSpec
from .cost import NUMPY, estimate, nbytes, partition_cost, rate_key
from .delegate import Delegate, Refusal
from .delegation import Delegation
from .node import LiveNode
from .plan import Placed

if TYPE_CHECKING:
    from .graph import Graph
    from .subgraph import LiveSubgraph

CPU = "cpu"
FOLDED = "folded"
# light backgrounds that dark text can be read on, told apart by hue
COLOURS = (
    *("#9ecae9", "#a8dba8", "#f9d67a", "#d7b5e8", "#f6b09a", "#9fe0d8", "#f3b8d2", "#c7d36f"),
    *("#b9c6f2", "#e2c49f"),
)
PLAIN = {CPU: "#e4e4e4", FOLDED: "#ffffff"}


@dataclass(frozen=True)
class Reason:
    """What a delegate said of a node that it does not run; `code` is a `Refusal`'s."""

    delegate: str
    code: str
    text: str


@dataclass(frozen=True)
class NodeCost:
    """`seconds` by the fixed numpy profile, wherever the node runs."""

    operations: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class CoveredNode:
    """`name`: of its first output. `placed_on`: "cpu", "folded" or a delegate. `partition`: a place
    in `Coverage.partitions`.
    """

    index: int
    op: str
    name: str
    subgraph: int
    placed_on: str
    partition: int | None
    refusals: Sequence[Reason]
    cost: NodeCost


@dataclass(frozen=True)
class CoveredCost:
    """Seconds, by the profiles that it was chosen by: on numpy, on the device and to move data; the
    last two where the delegate has a profile.
    """

    host: float
    device: float | None
    transfer: float | None


@dataclass(frozen=True)
class CoveredPartition:
    """`inputs`, `outputs`: tensors by name. `bytes_in`, `bytes_out`: what crosses from and to the
    host. `kernels`: what the device runs, after fusion.
    """

    delegate: str
    nodes: Sequence[int]
    inputs: Sequence[str]
    outputs: Sequence[str]
    bytes_in: int
    bytes_out: int
    kernels: Sequence[str]
    cost: CoveredCost


@dataclass(frozen=True)
class OpTotal:
    nodes: int
    delegated: int
    folded: int
    cpu: int


@dataclass(frozen=True)
class Totals:
    """`share_of_nodes`, `share_of_work`: delegated, of all that is not folded; work by operations.

    `delegates`: what those in use say of themselves: their device, how many programs they built.
    `not_used`: those that could not be made, failed in prepare or failed while running, and why.
    """

    nodes: int
    folded: int
    cpu: int
    delegated: dict[str, int]  # nodes by delegate
    share_of_nodes: float
    share_of_work: float
    partitions: int
    bytes_in: int
    bytes_out: int
    by_op: dict[str, OpTotal]
    delegates: dict[str, dict[str, str]]
    not_used: dict[str, str]


@dataclass(frozen=True)
class Edge:
    """Node `source` makes what node `target` reads."""

    subgraph: int
    source: int
    target: int


@dataclass(frozen=True)
class Coverage:
    nodes: Sequence[CoveredNode]
    partitions: Sequence[CoveredPartition]
    totals: Totals
    edges: Sequence[Edge]  # for the drawing; no part of the JSON
    subgraphs: Sequence[str]  # their names, or what Model Explorer calls them

    @property
    def on_cpu(self) -> Sequence[CoveredNode]:
        return [n for n in self.nodes if n.placed_on == CPU]

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values: `nodes`, `partitions`, `totals`."""
        found = asdict(self)
        return {key: found[key] for key in ("nodes", "partitions", "totals")}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)

    def to_html(self, title: str = "Delegate coverage") -> str:
        """One self-contained page with the graph drawn."""
        from .coverage_html import page

        return page(self, title)

    def to_model_explorer(self) -> str:
        """JSON that Model Explorer loads as node data: graphs by name, nodes by the names of their
        output tensors, or by number where these are none or not unique.
        """
        found: dict[str, Any] = {name: {"results": {}} for name in self.subgraphs}
        graphs = [found[name]["results"] for name in self.subgraphs]
        counts = Counter((n.subgraph, n.name) for n in self.nodes)
        for node in self.nodes:
            # numbers are those of the nodes
            named = counts[node.subgraph, node.name] == 1 and not node.name.isdecimal()
            key = node.name if named and node.name else str(node.index)
            reasons = "; ".join(f"{r.delegate}: {r.code}: {r.text}" for r in node.refusals)
            graphs[node.subgraph][key] = {
                "value": f"{node.placed_on} ({reasons})" if reasons else node.placed_on,
                "bgColor": colour(node.partition, node.placed_on),
            }
        return json.dumps(found, indent=1)

    def __str__(self) -> str:
        t = self.totals
        live = t.nodes - t.folded
        parts = [f"{count} on {name}" for name, count in t.delegated.items()]
        text = f"{t.nodes} node{'s' * (t.nodes != 1)}: {', '.join([*parts, f'{t.cpu} on the cpu'])}"
        if t.folded:
            text += f", {t.folded} computed at allocation"
        if not t.delegated:
            return text
        return (
            f"{text}; {sum(t.delegated.values())} of {live} delegated in "
            f"{t.partitions} partition{'s' * (t.partitions != 1)}, "
            f"{t.share_of_work:.1%} of the estimated work"
        )


def colour(partition: int | None, placed_on: str) -> str:
    """Of a node."""
    if partition is None:
        return PLAIN.get(placed_on, PLAIN[CPU])
    return COLOURS[partition % len(COLOURS)]


def coverage(graph: Graph) -> Coverage:
    """The report on plans that are made: nothing is run for it."""
    delegation = graph.delegation
    placed = [
        (s.index, p)
        for s in graph.subgraphs
        if s.index in delegation.plans
        for p in delegation.plans[s.index].placed
    ]
    home = {(s, i): k for k, (s, p) in enumerate(placed) for i in p.partition.indices}
    nodes = [
        _node(n, s, delegation, placed, home.get((s.index, n.index)))
        for s in graph.subgraphs
        for n in s.nodes
    ]
    partitions = [_partition(p) for _, p in placed]
    return Coverage(
        nodes,
        partitions,
        _totals(nodes, partitions, delegation),
        [e for s in graph.subgraphs for e in _edges(s)],
        _names(graph),
    )


def _names(graph: Graph) -> list[str]:
    """Of the subgraphs. One without a name goes by its signature, "main" or its number."""
    signatures: dict[int, str] = {}
    for s in graph.model.signatures:
        signatures.setdefault(s.subgraph, s.key)
    return [
        s.name or signatures.get(s.index) or (f"subgraph_{s.index}" if s.index else "main")
        for s in graph.subgraphs
    ]


def _node(
    node: LiveNode,
    subgraph: LiveSubgraph,
    delegation: Delegation,
    placed: Sequence[tuple[int, Placed]],
    partition: int | None,
) -> CoveredNode:
    refusals: list[Refusal] = []
    if partition is not None:
        where = placed[partition][1].partition.delegate
        # of delegates that came before
        refusals = [r for r in delegation.words(node, subgraph.index) if r.delegate != where]
    elif node.folded:
        where = FOLDED
    else:
        where = CPU
        refusals = delegation.words(node, subgraph.index)
        told = {r.delegate for r in refusals}
        text = f"subgraph {subgraph.index} is planned when it is first run"
        refusals += [
            Refusal(node.index, node.op, "DYNAMIC", text, name, subgraph.index)
            for name in map(delegation.label, delegation.delegates)
            if name not in told
        ]
    cost = estimate(node.spec)
    return CoveredNode(
        node.index,
        node.op,
        node.outputs[0].name if node.outputs else "",
        subgraph.index,
        where,
        partition,
        [Reason(r.delegate, r.code, r.text) for r in refusals],
        NodeCost(cost.operations, cost.bytes, NUMPY.seconds(rate_key(node.spec), cost)),
    )


def _partition(placed: Placed) -> CoveredPartition:
    p, profile = placed.partition, placed.delegate.profile
    cost = p.cost or partition_cost(p, profile or NUMPY)

    def crossing(specs: Sequence[tuple[int, TensorSpec]], wanted: frozenset[int]) -> int:
        return sum(nbytes(spec) for i, spec in specs if i in wanted)

    return CoveredPartition(
        p.delegate,
        p.indices,
        [t.name for t in p.inputs],
        [t.name for t in p.outputs],
        crossing([(t.index, t.spec) for t in p.inputs], p.host_inputs),
        crossing([(t.index, t.spec) for t in p.outputs], p.host_outputs),
        list(placed.kernel.launches),
        CoveredCost(cost.host, cost.device, cost.transfer)
        if profile is not None
        else CoveredCost(cost.host, None, None),
    )


def _totals(
    nodes: Sequence[CoveredNode], partitions: Sequence[CoveredPartition], delegation: Delegation
) -> Totals:
    delegated: dict[str, int] = {}
    by_op: dict[str, list[str]] = {}
    for n in nodes:
        by_op.setdefault(n.op, []).append(n.placed_on)
        if n.partition is not None:
            delegated[n.placed_on] = delegated.get(n.placed_on, 0) + 1
    live = [n for n in nodes if n.placed_on != FOLDED]
    taken = [n for n in live if n.partition is not None]
    work = sum(n.cost.operations for n in live)
    failures = {
        name: text for plan in delegation.plans.values() for name, text in plan.failures.items()
    }
    return Totals(
        len(nodes),
        len(nodes) - len(live),
        len(live) - len(taken),
        delegated,
        len(taken) / len(live) if live else 0.0,
        sum(n.cost.operations for n in taken) / work if work else 0.0,
        len(partitions),
        sum(p.bytes_in for p in partitions),
        sum(p.bytes_out for p in partitions),
        {
            op: OpTotal(
                len(places),
                len(places) - places.count(CPU) - places.count(FOLDED),
                places.count(FOLDED),
                places.count(CPU),
            )
            for op, places in sorted(by_op.items())
        },
        {delegation.label(d): _described(d) for d in delegation.delegates},
        {**delegation.missing, **failures, **delegation.faults},
    )


def _described(delegate: Delegate) -> dict[str, str]:
    """What the delegate says of itself; where it cannot, why."""
    try:
        return dict(delegate.describe())
    except Exception as e:
        return {"describe": f"raised {type(e).__name__}: {e}"}


def _edges(subgraph: LiveSubgraph) -> Iterator[Edge]:
    made = {t.index: n.index for n in subgraph.nodes for t in n.outputs}
    for node in subgraph.nodes:
        read = {t.index for t in node.inputs if t is not None}
        for maker in sorted({made[i] for i in read if i in made}):
            yield Edge(subgraph.index, maker, node.index)
