"""Where an invoke spends its time: records of nodes, by operator, and as a Chrome trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Record:
    """One call of one node; times in ns. `own` leaves out the nodes that it called."""

    run: int
    subgraph: int
    node: int
    op: str
    output: str
    start: int
    end: int
    own: int = 0


def own_times(records: Iterable[Record]) -> list[Record]:
    """Sets `own` of each record and returns them in order of their start, callers first."""
    ordered = sorted(records, key=lambda r: (r.start, -r.end))
    callers: list[Record] = []
    for record in ordered:
        while callers and callers[-1].end <= record.start:
            callers.pop()
        record.own = record.end - record.start
        if callers:
            callers[-1].own -= record.own
        callers.append(record)
    return ordered


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """Seconds in one run by operator and by node, the slowest first."""
    runs = len({r.run for r in records}) or 1
    total = sum(r.own for r in records) or 1
    ops: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    nodes: dict[tuple[int, int, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for r in records:
        for sums in (ops[r.op], nodes[r.subgraph, r.node, r.op, r.output]):
            sums[0] += r.own
            sums[1] += 1

    def times(sums: list[int]) -> dict[str, Any]:
        return {
            "calls": sums[1] / runs,
            "seconds": sums[0] / runs * 1e-9,
            "share": sums[0] / total,
        }

    return {
        "runs": runs,
        "operators": [
            {"op": op, **times(sums)} for op, sums in sorted(ops.items(), key=lambda i: -i[1][0])
        ],
        "nodes": [
            {"subgraph": s, "node": n, "op": op, "output": output, **times(sums)}
            for (s, n, op, output), sums in sorted(nodes.items(), key=lambda i: -i[1][0])
        ],
    }


def chrome_trace(records: Sequence[Record]) -> dict[str, Any]:
    """The trace event format that chrome://tracing and Perfetto read; times in µs."""
    begin = min((r.start for r in records), default=0)
    return {
        "displayTimeUnit": "ms",
        "traceEvents": [
            {
                "name": r.op,
                "cat": "node",
                "ph": "X",
                "ts": (r.start - begin) / 1000,
                "dur": (r.end - r.start) / 1000,
                "pid": 0,
                "tid": 0,
                "args": {
                    "run": r.run,
                    "subgraph": r.subgraph,
                    "node": r.node,
                    "output": r.output,
                },
            }
            for r in records
        ],
    }
