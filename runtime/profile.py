"""Where the time of an invoke goes, node by node."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from .delegate import DeviceTime
from .graph import Graph
from .node import LiveNode
from .profile_device import DeviceProfile


@dataclass(frozen=True)
class NodeTime:
    """The time of one node over all its calls, in nanoseconds. `own` leaves out the nodes that a
    control-flow node runs.
    """

    subgraph: int
    node: int
    op: str
    name: str  # of its first output
    calls: int
    total: int
    own: int


@dataclass(frozen=True)
class OpTime:
    """The time of all nodes of one operator."""

    op: str
    nodes: int
    calls: int
    own: int
    share: float  # of all


@dataclass(frozen=True)
class Record:
    """One call of a node: start and end in ns of `time.perf_counter_ns`."""

    subgraph: int
    node: LiveNode
    start: int
    end: int
    own: int


class Profile:
    """Made by `Interpreter.profile`; records between entry and exit of its `with` block, from all
    threads.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.records: list[Record] = []
        self.notes: list[tuple[int, str]] = []  # when (ns), and what happened beside
        self.device = DeviceProfile()
        self._open: list[Record] = []  # finished calls that a control-flow node may yet enclose

    def __enter__(self) -> Profile:
        if self._graph.profiler is not None:
            raise RuntimeError("the interpreter is being profiled already")
        self._graph.profiler = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._graph.profiler = None

    def record_device(self, subgraph: int, partition: int, times: Sequence[DeviceTime]) -> None:
        self.device.record(subgraph, partition, times)

    def record(self, subgraph: int, node: LiveNode, start: int, end: int) -> None:
        inner = 0
        while self._open and self._open[-1].start >= start:
            done = self._open.pop()
            inner += done.end - done.start
        record = Record(subgraph, node, start, end, end - start - inner)
        self.records.append(record)
        self._open.append(record)

    def note(self, time: int, text: str) -> None:
        self.notes.append((time, text))

    @property
    def total(self) -> int:
        """Nanoseconds in all nodes."""
        return sum(r.own for r in self.records)

    def nodes(self) -> list[NodeTime]:
        """In order of first execution."""
        groups: dict[tuple[int, int], list[Record]] = {}
        for r in self.records:
            groups.setdefault((r.subgraph, r.node.index), []).append(r)
        return [
            NodeTime(
                subgraph,
                index,
                _label(found[0].node),
                found[0].node.outputs[0].name if found[0].node.outputs else "",
                len(found),
                sum(r.end - r.start for r in found),
                sum(r.own for r in found),
            )
            for (subgraph, index), found in groups.items()
        ]

    def by_op(self) -> list[OpTime]:
        """The slowest operator first."""
        groups: dict[str, list[NodeTime]] = {}
        for n in self.nodes():
            groups.setdefault(n.op, []).append(n)
        total = self.total or 1
        found = [
            OpTime(op, len(g), sum(n.calls for n in g), own, own / total)
            for op, g, own in ((op, g, sum(n.own for n in g)) for op, g in groups.items())
        ]
        return sorted(found, key=lambda o: -o.own)

    def table(self, most: int = 10) -> str:
        """Text: time by operator, the slowest nodes, what devices did, and what went wrong."""
        ops = self.by_op()
        lines = _columns(
            ("operator", "nodes", "calls", "ms", "share"),
            (
                (o.op, str(o.nodes), str(o.calls), f"{o.own / 1e6:.3f}", f"{o.share:.1%}")
                for o in ops
            ),
        )
        slowest = sorted(self.nodes(), key=lambda n: -n.own)[:most]
        lines += ["", f"slowest {len(slowest)} nodes:"]
        lines += _columns(
            ("node", "operator", "calls", "ms", "output"),
            (
                (_place(n.subgraph, n.node), n.op, str(n.calls), f"{n.own / 1e6:.3f}", n.name)
                for n in slowest
            ),
        )
        if self.device:
            totals = self.device.totals()
            shown = self.device.work()[:most]
            kernels, copies = totals["kernel"] / 1e6, totals["copy"] / 1e6
            lines += ["", f"on devices: kernels {kernels:.3f} ms, copies {copies:.3f} ms"]
            lines += _columns(
                ("partition", "kernel", "calls", "ms"),
                (
                    (_place(w.subgraph, w.partition), w.name, str(w.calls), f"{w.total / 1e6:.3f}")
                    for w in shown
                ),
            )
        if self.notes:
            lines += ["", *(text for _, text in self.notes)]
        return "\n".join(lines)

    def to_json(self) -> str:
        return json.dumps(
            {
                "total_ns": self.total,
                "ops": [asdict(o) for o in self.by_op()],
                "nodes": [asdict(n) for n in self.nodes()],
                "device": [asdict(w) for w in self.device.work()],
                "notes": [text for _, text in self.notes],
            },
            indent=1,
        )

    def chrome_trace(self) -> str:
        """JSON for chrome://tracing and Perfetto."""
        first = min((r.start for r in self.records), default=0)
        events: list[dict[str, Any]] = [
            {
                "name": _label(r.node),
                "cat": "op",
                "ph": "X",
                "ts": (r.start - first) / 1e3,
                "dur": (r.end - r.start) / 1e3,
                "pid": 0,
                "tid": 0,
                "args": {
                    "subgraph": r.subgraph,
                    "node": r.node.index,
                    "outputs": [t.name for t in r.node.outputs],
                },
            }
            for r in self.records
        ]
        events += self.device.events(first)
        events += [
            {
                "name": text,
                "cat": "note",
                "ph": "i",
                "s": "g",
                "ts": (time - first) / 1e3,
                "pid": 0,
                "tid": 0,
            }
            for time, text in self.notes
        ]
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def _label(node: LiveNode) -> str:
    name = node.registration.profiling_name
    return node.op if name is None else name(node)


def _place(subgraph: int, node: int) -> str:
    return str(node) if subgraph == 0 else f"{subgraph}:{node}"


def _columns(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    table = [head, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    return ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in table]
