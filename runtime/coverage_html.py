"""The coverage report as one page: tables, and the graph drawn in layers."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from statistics import fmean

from .coverage import CPU, FOLDED, Coverage, CoveredNode

WIDTH, HEIGHT, ACROSS, DOWN = 132, 24, 148, 46  # of a box, and from one to the next

STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 24px; color: #222; background: #fff }
h1 { font-size: 20px } h2 { font-size: 16px; margin-top: 28px }
table { border-collapse: collapse } td, th { padding: 2px 12px 2px 0; text-align: left;
  vertical-align: top } th { color: #777; font-weight: normal } td.n { text-align: right }
.swatch { display: inline-block; width: 12px; height: 12px; border: 1px solid #999;
  margin-right: 6px; vertical-align: -1px }
.graph { overflow: auto; max-height: 70vh; border: 1px solid #ddd }
rect { stroke: #888 } text { font: 11px system-ui, sans-serif; pointer-events: none }
path { fill: none; stroke: #bbb } .folded rect { stroke-dasharray: 3 2 }
.off { opacity: .12 } tr.off { display: none }
input { font: inherit; width: 28em; padding: 3px 6px }
"""

SCRIPT = """
const field = document.getElementById("filter");
function apply() {
  const wanted = field.value.toLowerCase().split(/\\s+/).filter(Boolean);
  let shown = 0;
  for (const e of document.querySelectorAll("[data-find]")) {
    const off = !wanted.every(w => e.dataset.find.includes(w));
    e.classList.toggle("off", off);
    if (!off && e.tagName === "TR") shown++;
  }
  document.getElementById("count").textContent = shown + " nodes";
}
field.addEventListener("input", apply);
apply();
"""


def page(coverage: Coverage, title: str = "Delegate coverage") -> str:
    subgraphs = [
        (i, name, [n for n in coverage.nodes if n.subgraph == i])
        for i, name in enumerate(coverage.subgraphs)
    ]
    drawings = [
        f"<h2>Subgraph {i} {escape(name)}</h2>{_drawing(coverage, i, nodes)}"
        for i, name, nodes in subgraphs
        if nodes
    ]
    not_used = "".join(
        f"<p><b>{escape(name)}</b> is not used: {escape(text)}</p>"
        for name, text in coverage.totals.not_used.items()
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}'
        f"</title><style>{STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f"<p>{escape(str(coverage))}</p>{not_used}{_partitions(coverage)}{_ops(coverage)}"
        '<h2>Nodes</h2><p><input id="filter" placeholder="filter: operator, name, cpu, a code …">'
        f' <span id="count"></span></p>{"".join(drawings)}{_nodes(coverage)}'
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def _swatch(colour: str) -> str:
    return f'<span class="swatch" style="background:{colour}"></span>'


def _table(head: Sequence[str], rows: Sequence[str]) -> str:
    if not rows:
        return ""
    cells = "".join(f"<th>{h}</th>" for h in head)
    return f"<table><tr>{cells}</tr>{''.join(rows)}</table>"


def _partitions(coverage: Coverage) -> str:
    rows = []
    for k, p in enumerate(coverage.partitions):
        colour = next(coverage.colour(n) for n in coverage.nodes if n.partition == k)
        kernels = escape(", ".join(p.kernels)) or "–"
        rows.append(
            f'<tr><td>{_swatch(colour)}{k}</td><td>{escape(p.delegate)}</td><td class="n">'
            f'{len(p.nodes)}</td><td class="n">{p.bytes_in:,}</td><td class="n">{p.bytes_out:,}'
            f"</td><td>{kernels}</td></tr>"
        )
    head = ("partition", "delegate", "nodes", "bytes in", "bytes out", "kernels")
    return f"<h2>Partitions</h2>{_table(head, rows)}" if rows else ""


def _ops(coverage: Coverage) -> str:
    rows = [
        f'<tr><td>{escape(op)}</td><td class="n">{t.nodes}</td><td class="n">{t.delegated}</td>'
        f'<td class="n">{t.folded}</td><td class="n">{t.cpu}</td></tr>'
        for op, t in coverage.totals.by_op.items()
    ]
    return f"<h2>Operators</h2>{_table(('operator', 'nodes', 'delegated', FOLDED, CPU), rows)}"


def _nodes(coverage: Coverage) -> str:
    rows = []
    for n in coverage.nodes:
        reasons = "<br>".join(escape(r) for r in _reasons(n))
        number = n.index if n.subgraph == 0 else f"{n.subgraph}:{n.index}"
        rows.append(
            f'<tr data-find="{_find(n)}"><td class="n">{number}</td><td>{escape(n.op)}</td>'
            f"<td>{escape(n.name)}</td><td>{_swatch(coverage.colour(n))}{escape(n.placed_on)}"
            f"</td><td>{reasons}</td></tr>"
        )
    return _table(("node", "operator", "makes", "runs on", "why"), rows)


def _reasons(node: CoveredNode) -> list[str]:
    return [f"{r.delegate}: {r.code}: {r.text}" for r in node.refusals]


def _find(node: CoveredNode) -> str:
    words = (node.op, node.name, node.placed_on, *_reasons(node))
    return escape(" ".join(words).lower(), quote=True)


def _drawing(coverage: Coverage, subgraph: int, nodes: Sequence[CoveredNode]) -> str:
    edges = [(e.source, e.target) for e in coverage.edges if e.subgraph == subgraph]
    places = layout(len(nodes), edges)
    width = max((x for x, _ in places), default=0) + ACROSS
    height = max((y for _, y in places), default=0) + DOWN
    parts = []
    for a, b in edges:
        x0, y0 = places[a][0] + WIDTH / 2, places[a][1] + HEIGHT
        x1, y1 = places[b][0] + WIDTH / 2, places[b][1]
        bend = (y0 + y1) / 2
        parts.append(f'<path d="M{x0:g} {y0:g}C{x0:g} {bend:g} {x1:g} {bend:g} {x1:g} {y1:g}"/>')
    for node, (x, y) in zip(nodes, places, strict=True):
        lines = [
            f"{node.index} {node.op}: {node.placed_on}",
            f"makes {node.name}",
            f"{node.cost.operations:,} operations, {node.cost.bytes:,} bytes",
            *_reasons(node),
        ]
        kind = ' class="folded"' if node.placed_on == FOLDED else ""
        label = node.op if len(node.op) <= 19 else f"{node.op[:18]}…"
        parts.append(
            f'<g data-find="{_find(node)}"{kind}><title>{escape(chr(10).join(lines))}</title>'
            f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="4" '
            f'fill="{coverage.colour(node)}"/><text x="{x + 6:g}" y="{y + 16:g}">{escape(label)}'
            "</text></g>"
        )
    return (
        f'<div class="graph"><svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" '
        f'height="{height:g}">{"".join(parts)}</svg></div>'
    )


def layout(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """A place for each node: one layer below the last node it reads from, near those it reads."""
    makers: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        if a < b:  # files list nodes in an order that runs
            makers[b].append(a)
    depth = [0] * count
    for i in range(count):
        depth[i] = 1 + max((depth[a] for a in makers[i]), default=-1)
    layers: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for i in range(count):
        layers[depth[i]].append(i)
    x = [0.0] * count
    for layer in layers:
        layer.sort(key=lambda i: fmean(x[a] for a in makers[i]) if makers[i] else 0.0)
        taken = -float(ACROSS)
        for i in layer:
            wish = fmean(x[a] for a in makers[i]) if makers[i] else 0.0
            taken = x[i] = max(wish, taken + ACROSS)
    return [(8 + x[i], 8 + depth[i] * DOWN) for i in range(count)]
