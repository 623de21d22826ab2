"""`litedelegate inspect`: what is in a model, without running it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from ..delegates.flex.library import is_installed
from ..runtime.model import Model
from ..runtime.model_tables import default_options
from ..runtime.schema import options_table
from ..runtime.unresolved import FLEX
from . import show
from .failures import EXIT_CODES, InvalidModel, Unresolved, reported
from .options import model_argument
from .report import Report, quantization_text, report

MOST_ENDS = 16
ALWAYS_SHOWN = ("padding", "axis")

EPILOG = f"""\b
Examples:
  litedelegate inspect model.tflite
  litedelegate inspect model.tflite --graph --tensors
  litedelegate inspect model.tflite --json | jq .operators

{EXIT_CODES}"""


@click.command("inspect", epilog=EPILOG, short_help="Show what is in a model, without running it.")
@model_argument
@click.option("--graph", is_flag=True, help="List the nodes with their options.")
@click.option("--tensors", is_flag=True, help="List the tensors with their quantisation.")
@click.option("--all", "everything", is_flag=True, help="Both of these.")
@click.option("--strict", is_flag=True, help="End with 4 where an operator is not known here.")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON and nothing else.")
def command(
    model: Path, graph: bool, tensors: bool, everything: bool, strict: bool, as_json: bool
) -> None:
    """Show the operators, tensors, signatures and memory of MODEL. Nothing is run."""
    with reported():
        found = report(model, Model.from_file(model))
    if as_json:
        show.print_json(found)
    else:
        _print(show.console(), found, graph or everything, tensors or everything)
    if found["problem"]:
        raise InvalidModel(f"this model cannot run: {found['problem']}")
    unknown = [m for m in found["unresolved"] if not _by_tensorflow(m)]
    if strict and unknown:
        names = ", ".join(show.printable(m["op"]) for m in unknown)
        raise Unresolved(f"not known here: {names}")


def _print(out: Console, found: Report, graph: bool, tensors: bool) -> None:
    subgraphs = found["subgraphs"]
    nodes = sum(len(s["nodes"]) for s in subgraphs)
    count = sum(len(s["tensors"]) for s in subgraphs)
    memory = found["memory"]
    rows: list[tuple[str, Any]] = [
        ("model", f"[bold]{escape(Path(found['file']).name)}[/]"),
        (
            "size",
            f"{show.nbytes(found['bytes'])}, of it constants {show.nbytes(memory['constants'])}",
        ),
        (
            "graph",
            f"{show.plural(nodes, 'node')}, {show.plural(count, 'tensor')}, "
            f"{show.plural(len(subgraphs), 'subgraph')}",
        ),
        (
            "memory",
            f"about {show.nbytes(memory['arena_estimate'])} for activations "
            f"({show.nbytes(memory['activations'])} unshared)"
            + (
                f", {show.nbytes(memory['variables'])} for variables" if memory["variables"] else ""
            ),
        ),
        ("description", escape(show.printable(found["description"])) or "–"),
    ]
    if found["min_runtime_version"]:
        rows.append(("needs", f"TensorFlow Lite {found['min_runtime_version']} or newer"))
    out.print(show.facts(rows))
    out.print()
    if subgraphs:
        _print_ends(out, subgraphs[0])
    if found["signatures"]:
        out.print(show.table("Signatures", ("key", "inputs", "outputs"), _signatures(found)))
    out.print(
        show.table(
            "Operators",
            ("operator", ">version", ">nodes", "runs here"),
            ((_op(o), o["version"], o["count"], _support(o)) for o in found["operators"]),
        )
    )
    if found["metadata"]:
        out.print(show.table("Metadata", ("name", ">size"), _sizes(found["metadata"])))
    if found["packed_files"]:
        out.print(show.table("Packed files", ("name", ">size"), _sizes(found["packed_files"])))
    for subgraph in subgraphs:
        if graph:
            _print_nodes(out, subgraph)
        if tensors:
            _print_tensors(out, subgraph)
    if not (graph or tensors):
        out.print(
            f"[dim]--graph lists the {show.plural(nodes, 'node')}, "
            f"--tensors the {show.plural(count, 'tensor')}[/]"
        )
    unresolved = [m for m in found["unresolved"] if m["nodes"] and not _by_tensorflow(m)]
    if unresolved:
        names = ", ".join(_op(m) for m in unresolved)
        out.print(
            f"[bold red]{show.plural(len(unresolved), 'operator')} not known here:[/] {names}"
        )


def _print_ends(out: Console, subgraph: Report) -> None:
    """The inputs and outputs of the main subgraph."""
    for title, indices in (("Inputs", subgraph["inputs"]), ("Outputs", subgraph["outputs"])):
        rows = (
            (show.name(t["name"]), t["dtype"], _shape(t), quantization_text(t["quantization"]))
            for t in (subgraph["tensors"][i] for i in indices[:MOST_ENDS])
        )
        out.print(show.table(title, ("name", "type", "shape", "quantisation"), rows))
        if len(indices) > MOST_ENDS:
            out.print(f"  [dim]… and {len(indices) - MOST_ENDS} more, see --tensors[/]\n")


def _sizes(entries: dict[str, int]) -> Iterable[tuple[str, str]]:
    return ((show.name(name), show.nbytes(size)) for name, size in entries.items())


def _signatures(found: Report) -> Iterable[tuple[str, str, str]]:
    for s in found["signatures"]:
        yield show.name(s["key"]), show.listing(list(s["inputs"])), show.listing(list(s["outputs"]))


def _print_nodes(out: Console, subgraph: Report) -> None:
    rows = (
        (
            node["index"],
            _op(node),
            _indices(node["inputs"]),
            _indices(node["outputs"]),
            _options(node),
        )
        for node in subgraph["nodes"]
    )
    title = f"Nodes of subgraph {subgraph['index']} {show.name(subgraph['name'])}"
    out.print(show.table(title, (">node", "operator", "inputs", "outputs", "options"), rows))


def _print_tensors(out: Console, subgraph: Report) -> None:
    rows = (
        (
            t["index"],
            show.name(t["name"]),
            t["dtype"],
            _shape(t),
            t["kind"] + (", sparse" if t["sparse"] else ""),
            quantization_text(t["quantization"]),
        )
        for t in subgraph["tensors"]
    )
    title = f"Tensors of subgraph {subgraph['index']} {show.name(subgraph['name'])}"
    out.print(show.table(title, (">index", "name", "type", "shape", "kind", "quantisation"), rows))


def _options(node: Report) -> str:
    """The options that are not as the schema has them by default."""
    if node["custom"]:
        return f"[dim]{node['custom_option_bytes']} bytes[/]"
    table = options_table(node["op"])
    defaults = default_options(table) if table else {}
    return escape(
        ", ".join(
            f"{k}={getattr(v, 'label', v)}"
            for k, v in node["options"].items()
            if k in ALWAYS_SHOWN or v != defaults.get(k)
        )
    )


def _support(operator: Report) -> str:
    if operator["resolved"]:
        return "[green]yes[/]"
    if _by_tensorflow(operator):
        return "[green]by TensorFlow[/]"
    if _is_flex(operator):
        return "[red]no, TensorFlow is not installed[/]"
    if operator["supported"] is None:
        return "[red]no[/]"
    low, high = operator["supported"]
    return f"[red]no, versions {low} to {high} do[/]"


def _is_flex(entry: Report) -> bool:
    return bool(entry["custom"]) and str(entry["op"]).startswith(FLEX)


def _by_tensorflow(entry: Report) -> bool:
    """Whether the Flex delegate will be asked for it. TensorFlow is not imported to see if it has
    the operator.
    """
    return _is_flex(entry) and is_installed()


def _op(entry: Report) -> str:
    return show.name(entry["op"]) + (" [dim](custom)[/]" if entry["custom"] else "")


def _shape(tensor: Report) -> str:
    return show.shape(tensor["shape_signature"] or tensor["shape"])


def _indices(indices: Iterable[int]) -> str:
    return " ".join("–" if i < 0 else str(i) for i in indices)
