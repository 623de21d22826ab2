"""The coverage report as one page: tables, and the graph drawn in layers."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from .coverage import CPU, FOLDED, PLAIN, Coverage, colour
from .coverage_layout import HEIGHT, WIDTH, layout, size, stack

GAP = 44  # above the drawing of a subgraph, for its name


def page(coverage: Coverage, title: str) -> str:
    """A page that needs nothing beside itself."""
    template = files(__package__).joinpath("coverage_page.html").read_text("utf-8")
    # in a script, only "<" could end it
    data = json.dumps(_data(coverage), separators=(",", ":")).replace("<", "\\u003c")
    parts = {"TITLE": escape(title), "BODY": _body(coverage, title), "DATA": data}
    return re.sub("%(TITLE|BODY|DATA)%", lambda m: parts[m[1]], template)


# -- what the script draws and lists


def _data(coverage: Coverage) -> dict[str, Any]:
    at: dict[tuple[int, int], int] = {
        (n.subgraph, n.index): i for i, n in enumerate(coverage.nodes)
    }
    edges = [(at[e.subgraph, e.source], at[e.subgraph, e.target]) for e in coverage.edges]
    places, titles, whole = _places(coverage, edges)
    kinds = _kinds(coverage)
    numbers = {place: i for i, (place, _) in enumerate(kinds)}
    reasons: dict[str, int] = {}
    nodes = [
        (
            *(n.index, n.op, n.name, n.subgraph, n.placed_on),
            numbers[n.partition, n.placed_on],
            [
                reasons.setdefault(f"{r.delegate}: {r.code}: {r.text}", len(reasons))
                for r in n.refusals
            ],
            *(n.cost.operations, n.cost.bytes, round(x), round(y)),
        )
        for n, (x, y) in zip(coverage.nodes, places, strict=True)
    ]
    return {
        "box": (WIDTH, HEIGHT),
        "size": whole,
        "titles": titles,
        "kinds": [kind for _, kind in kinds],
        "reasons": list(reasons),
        "nodes": nodes,
        "edges": edges,
    }


def _kinds(coverage: Coverage) -> list[tuple[tuple[int | None, str], dict[str, Any]]]:
    """Partitions, folded, cpu: by partition and place, how it is shown."""
    counts = Counter((n.partition, n.placed_on) for n in coverage.nodes)
    last = len(coverage.partitions)
    ordered = sorted(counts, key=lambda kind: (last if kind[0] is None else kind[0], kind[1]))
    return [
        (
            (k, place),
            {
                "text": place if k is None else f"{place} partition={k}",
                "colour": colour(k, place),
                "dashed": place == FOLDED,
                "count": counts[k, place],
            },
        )
        for k, place in ordered
    ]


def _places(
    coverage: Coverage, edges: Sequence[tuple[int, int]]
) -> tuple[list[tuple[float, float]], list[tuple[str, int, int]], tuple[int, int]]:
    """Of all nodes; the subgraphs' titles, each with its place; width and height of it all."""
    numbers: dict[int, list[int]] = {}
    for i, n in enumerate(coverage.nodes):
        numbers.setdefault(n.subgraph, []).append(i)
    drawings = []
    for own in numbers.values():
        first, end = own[0], own[-1] + 1  # they stand together
        inside = [(a - first, b - first) for a, b in edges if first <= a < end]
        drawings.append(layout(len(own), inside))
    tops = stack(drawings, GAP)
    places = [(x, top + y) for top, d in zip(tops, drawings, strict=False) for x, y in d]
    titles = []
    for subgraph, top in zip(numbers, tops, strict=False):
        name = coverage.subgraphs[subgraph]
        titles.append((f"subgraph {subgraph} {name}".strip(), 0, round(top) - 20))
    width, height = size(places)
    return places, titles, (round(width), round(height))


# -- tables


def _body(coverage: Coverage, title: str) -> str:
    used = "".join(
        f"<p><b>{escape(name)}</b> {escape('; '.join(map(': '.join, facts.items())))}</p>"
        for name, facts in coverage.totals.delegates.items()
        if facts
    )
    not_used = "".join(
        f'<p class="warn"><b>{escape(name)}</b> is not used: {escape(text)}</p>'
        for name, text in coverage.totals.not_used.items()
    )
    return (
        f"<h1>{escape(title)}</h1><p>{escape(str(coverage))}</p>{used}{not_used}{_bar(coverage)}"
        f'<div class="side"><div>{_partitions(coverage)}{_reasons(coverage)}</div>'
        f"<div>{_ops(coverage)}</div></div>"
    )


def _swatch(shown: str) -> str:
    return f'<span class="swatch" style="background:{shown}"></span>'


def _table(title: str, head: Sequence[str], rows: Sequence[str]) -> str:
    """Heads that begin with ">" are of numbers."""
    if not rows:
        return ""
    cells = "".join(f'<th class="n">{h[1:]}</th>' if h[0] == ">" else f"<th>{h}</th>" for h in head)
    table = f"<table><tr>{cells}</tr>{''.join(rows)}</table>"
    return f'<h2>{title}</h2><div class="scroll">{table}</div>'


def _row(*values: str | int) -> str:
    """Text is HTML already."""
    cells = [f'<td class="n">{v:,}</td>' if isinstance(v, int) else f"<td>{v}</td>" for v in values]
    return f"<tr>{''.join(cells)}</tr>"


def _share(part: int, whole: int) -> str:
    return f'<div style="text-align:right">{part / whole:.1%}</div>' if whole else ""


def _work(coverage: Coverage) -> dict[int | None, int]:
    """Operations by partition; None: on the CPU."""
    found: dict[int | None, int] = {}
    for n in coverage.nodes:
        if n.placed_on != FOLDED:
            found[n.partition] = found.get(n.partition, 0) + n.cost.operations
    return found


def _bar(coverage: Coverage) -> str:
    """The estimated work, by who does it."""
    work = _work(coverage)
    whole = sum(work.values())
    if not whole:
        return ""
    parts = []
    for k in sorted(work, key=lambda k: (k is None, k)):
        if not work[k]:
            continue
        who = CPU if k is None else f"{coverage.partitions[k].delegate}, partition {k}"
        shown = PLAIN[CPU] if k is None else colour(k, "")
        share = work[k] / whole
        parts.append(
            f'<div style="flex:{share:.5f};background:{shown}" title="{escape(who, quote=True)}: '
            f'{share:.1%} of the work"></div>'
        )
    return f'<div class="bar">{"".join(parts)}</div><p class="hint">estimated work</p>'


def _partitions(coverage: Coverage) -> str:
    work = _work(coverage)
    whole = sum(work.values())
    rows = [
        _row(
            f"{_swatch(colour(k, p.delegate))}{k}",
            escape(p.delegate),
            len(p.nodes),
            _share(work.get(k, 0), whole),
            p.bytes_in,
            p.bytes_out,
            _kernels(p.kernels),
        )
        for k, p in enumerate(coverage.partitions)
    ]
    head = ("partition", "delegate", ">nodes", ">work", ">bytes in", ">bytes out", "kernels")
    return _table("Partitions", head, rows)


def _kernels(kernels: Sequence[str]) -> str:
    if not kernels:
        return "–"
    lines = "<br>".join(
        f"{count} × {escape(name)}" for name, count in Counter(kernels).most_common()
    )
    count = f"{len(kernels):,} kernel{'s' * (len(kernels) != 1)}"
    return f"<details><summary>{count}</summary>{lines}</details>"


def _ops(coverage: Coverage) -> str:
    rows = [
        _row(escape(op), t.nodes, t.delegated, t.folded, t.cpu)
        for op, t in sorted(coverage.totals.by_op.items(), key=lambda item: -item[1].nodes)
    ]
    return _table("Operators", ("operator", ">nodes", ">delegated", f">{FOLDED}", f">{CPU}"), rows)


def _reasons(coverage: Coverage) -> str:
    """Of nodes on the CPU: equal ones once, the most frequent first."""
    found = Counter((r.delegate, r.code, n.op, r.text) for n in coverage.on_cpu for r in n.refusals)
    rows = [
        _row(count, escape(op), escape(delegate), code, escape(text))
        for (delegate, code, op, text), count in found.most_common()
    ]
    head = (">nodes", "operator", "delegate", "code", "why on the CPU")
    return _table("Reasons", head, rows)
