"""`litedelegate coverage`: where each node of a model would run, and why."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from ..delegates.gpu.dry_delegate import DryDelegate
from ..kernels.device import PROFILES
from ..runtime.coverage import CPU, FOLDED, Coverage, CoveredNode
from ..runtime.delegate import Delegate
from ..runtime.interpreter import Interpreter
from ..runtime.rules import BY_THE_USER, Pick
from ..runtime.stand_in import stand_ins
from ..runtime.steps import by_name
from . import inputs as sources
from . import show
from .failures import EXIT_CODES, LeftOnCpu, Unresolved, reported, written
from .options import from_here, model_argument

MOST_REASONS = 12
DRY = ("cuda", "opencl")  # delegates that need no device to say what they would take

EPILOG = f"""\b
NODE is a node's number, an operator, or the name of an output tensor.
"auto" is cuda and opencl, where they are there; `litedelegate devices` lists devices.
With --device nothing is built, and no device needed: what one like it would take, by
fixed estimates. It is one of
{", ".join(PROFILES)}.

\b
Examples:
  litedelegate coverage model.tflite --delegate opencl
  litedelegate coverage model.tflite -d cuda -d opencl --strict
  litedelegate coverage model.tflite --device sm_90
  litedelegate coverage model.tflite --html -o coverage.html
  litedelegate coverage model.tflite --what-if exclude=RESIZE_BILINEAR,17

{EXIT_CODES}"""


@click.command("coverage", epilog=EPILOG, short_help="Show which nodes delegates run, and why.")
@model_argument
@click.option(
    "--delegate",
    "-d",
    "delegates",
    multiple=True,
    callback=from_here,
    metavar="NAME",
    help="opencl, cuda, auto or MODULE:ATTRIBUTE; in order. [default: auto]",
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    type=click.Choice(list(PROFILES)),
    metavar="NAME",
    help="A dry run for this device; one for all delegates, or one for each.",
)
@click.option("--only", multiple=True, metavar="NODE", help="Let delegates have these alone.")
@click.option("--exclude", multiple=True, metavar="NODE", help="Keep delegates off these.")
@click.option(
    "--shape",
    "-s",
    "shapes",
    multiple=True,
    metavar="[NAME=]1,224,224,3",
    help="Another shape for an input.",
)
@click.option(
    "--what-if",
    "changes",
    multiple=True,
    metavar="exclude=NODE[,NODE]",
    help="Set a second report beside the first, in which this holds too. Also only=NODE[,NODE].",
)
@click.option("--text", "form", flag_value="text", default="text", help="For reading. [default]")
@click.option("--json", "form", flag_value="json", help="Print JSON and nothing else.")
@click.option("--html", "form", flag_value="html", help="One page with the graph drawn.")
@click.option(
    "--model-explorer",
    "form",
    flag_value="explorer",
    help="JSON that Model Explorer loads as node data.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write there instead of to standard output.",
)
@click.option("--nodes", "all_nodes", is_flag=True, help="In text: list all nodes.")
@click.option(
    "--strict",
    is_flag=True,
    help="End with 5 where a node is left on the CPU, unless you keep it there.",
)
def command(
    model: Path,
    delegates: tuple[str, ...],
    devices: tuple[str, ...],
    only: tuple[str, ...],
    exclude: tuple[str, ...],
    shapes: tuple[str, ...],
    changes: tuple[str, ...],
    form: str,
    output: Path | None,
    all_nodes: bool,
    strict: bool,
) -> None:
    """Show where each node of MODEL would run, and why not on a delegate. Kernels are built; the
    model is not run.
    """
    wanted = {"only": list(only), "exclude": list(exclude)}
    if changes and form == "html":
        raise click.UsageError(
            "--what-if has two reports, which --html cannot show: text or --json"
        )
    with reported():
        found, unresolved = _cover(model, _delegates(delegates, devices), shapes, wanted)
        other = None
        if changes:
            changed = _changed(wanted, changes)
            other, _ = _cover(model, _delegates(delegates, devices), shapes, changed)
    if form == "text":
        page = StringIO()
        wide = Console(file=page, width=show.WIDE, highlight=False)
        out = show.console() if output is None else wide
        _print(out, model, found, all_nodes)
        if other is not None:
            _compare(out, found, other, changes)
        if output is not None:
            written(output, page.getvalue())
    else:
        text = _text(form, f"Delegate coverage of {model.name}", found, other)
        if output is None:
            click.echo(text)
        else:
            written(output, text)
    if unresolved is not None:
        raise Unresolved(f"{unresolved}\nThe report takes their outputs as the file declares them.")
    left = [n for n in found.on_cpu if not _kept_by_user(n)]
    if strict and left:
        names = ", ".join(f"{n.index} ({n.op})" for n in left[:MOST_REASONS])
        raise LeftOnCpu(f"{show.plural(len(left), 'node')} left on the CPU: {names}")


def _delegates(names: Sequence[str], devices: Sequence[str]) -> list[str | Delegate]:
    """What an interpreter takes: names, or delegates for devices that are not there."""
    if not devices:
        return list(names or ("auto",))
    if not names:
        names = [PROFILES[device].api for device in devices]
    if len(devices) == 1:
        devices = [*devices] * len(names)
    if len(devices) != len(names):
        text = f"{len(names)} delegates and {len(devices)} devices: give one device for each"
        raise click.UsageError(text)
    strange = [name for name in names if name not in DRY]
    if strange:
        text = f"--device: a dry run knows the delegates {', '.join(DRY)}, not {strange[0]!r}"
        raise click.UsageError(text)
    return [DryDelegate(n, device) for n, device in zip(names, devices, strict=True)]


def _cover(
    model: Path,
    delegates: Sequence[str | Delegate],
    shapes: Sequence[str],
    picks: dict[str, list[str]],
) -> tuple[Coverage, str | None]:
    """The report, and what is to be said of operators that are not known here."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with Interpreter(
            model,
            delegates=delegates,
            only=_picks(picks["only"]) if picks["only"] else None,
            exclude=_picks(picks["exclude"]),
        ) as interpreter:
            unresolved = interpreter.unresolved_ops
            for delegate in stand_ins(interpreter):
                interpreter.modify_graph_with_delegate(delegate)
            details = by_name(interpreter.get_input_details())
            for name, shape in sources.parse_shapes(shapes, details).items():
                interpreter.resize_tensor_input(details[name]["index"], shape)
            with show.builds():
                found = interpreter.delegate_coverage()
    for warning in told:
        click.echo(f"warning: {warning.message}", err=True)
    return found, unresolved


def _picks(texts: Iterable[str]) -> list[Pick]:
    return [int(t) if t.isdecimal() else t for t in texts]


def _changed(wanted: dict[str, list[str]], changes: Sequence[str]) -> dict[str, list[str]]:
    found = {key: list(value) for key, value in wanted.items()}
    for change in changes:
        key, _, value = change.partition("=")
        if key not in found or not value:
            raise click.UsageError(f"--what-if {change!r}: give exclude=NODE,… or only=NODE,…")
        found[key] += value.split(",")
    return found


def _kept_by_user(node: CoveredNode) -> bool:
    return bool(node.refusals) and all(r.text.startswith(BY_THE_USER) for r in node.refusals)


def _text(form: str, title: str, found: Coverage, other: Coverage | None) -> str:
    if form == "html":
        return found.to_html(title)
    if form == "explorer":
        return found.to_model_explorer()
    if other is None:
        return found.to_json()
    return show.json_text({**found.to_dict(), "what_if": other.to_dict()})


# -- text


def _print(out: Console, model: Path, found: Coverage, all_nodes: bool) -> None:
    t = found.totals
    used = [(name, facts) for name, facts in t.delegates.items() if facts]
    out.print(show.facts([
        ("model", f"[bold]{show.name(model.name)}[/]"),
        ("nodes", escape(str(found))),
        *((escape(n), escape("; ".join(map(": ".join, d.items())))) for n, d in used),
        *(("not used", f"[yellow]{escape(n)}[/]: {escape(why)}") for n, why in t.not_used.items()),
    ]))  # fmt: skip
    out.print()
    rows = [
        (
            k,
            escape(p.delegate),
            len(p.nodes),
            show.nbytes(p.bytes_in),
            show.nbytes(p.bytes_out),
            len(p.kernels) or "",
            show.seconds(p.cost.host),
            "" if p.cost.device is None else show.seconds(p.cost.device),
            "" if p.cost.transfer is None else show.seconds(p.cost.transfer),
        )
        for k, p in enumerate(found.partitions)
    ]
    if rows:
        columns = (">partition", "delegate", ">nodes", ">in", ">out", ">kernels", ">on numpy",
                   ">on device", ">to move")  # fmt: skip
        out.print(show.table("Partitions", columns, rows))
    ops = ((show.name(op), o.nodes, o.delegated or "", o.folded or "", o.cpu or "")
           for op, o in sorted(t.by_op.items(), key=lambda item: -item[1].nodes))  # fmt: skip
    op_columns = ("operator", ">nodes", ">delegated", f">{FOLDED}", f">{CPU}")
    out.print(show.table("Operators", op_columns, ops))
    reasons = _reasons(found.on_cpu)
    if reasons:
        why = (">nodes", "operators", "delegate", "code", "why on the CPU")
        out.print(show.table("Reasons", why, reasons[:MOST_REASONS]))
        if len(reasons) > MOST_REASONS:
            more = show.plural(len(reasons) - MOST_REASONS, "more reason")
            out.print(f"  [dim]… and {more}, see --nodes or --html[/]\n")
    if all_nodes:
        out.print(show.table("Nodes", (">node", "operator", "makes", "runs on", "why"), (
            (
                n.index if not n.subgraph else f"{n.subgraph}:{n.index}",
                show.name(n.op),
                show.name(n.name),
                escape(n.placed_on) + ("" if n.partition is None else f" [dim]{n.partition}[/]"),
                escape("\n".join(f"{r.delegate}: {r.code}: {r.text}" for r in n.refusals)),
            )
            for n in found.nodes
        )))  # fmt: skip
    else:
        out.print(f"[dim]--nodes lists the {show.plural(len(found.nodes), 'node')}, "
                  "--html draws them[/]")  # fmt: skip


def _reasons(nodes: Iterable[CoveredNode]) -> list[tuple[object, ...]]:
    """Equal reasons once, the most frequent first."""
    groups: dict[tuple[str, str, str], list[CoveredNode]] = {}
    for n in nodes:
        for r in n.refusals:
            groups.setdefault((r.delegate, r.code, r.text), []).append(n)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return [
        (len(held), show.listing(list(dict.fromkeys(n.op for n in held)), 3), escape(d), c,
         escape(text))
        for (d, c, text), held in ordered
    ]  # fmt: skip


def _compare(out: Console, found: Coverage, other: Coverage, changes: Sequence[str]) -> None:
    def column(c: Coverage) -> list[str]:
        t = c.totals
        return [
            f"{sum(t.delegated.values())} of {t.nodes - t.folded}",
            f"{t.share_of_work:.1%}",
            str(t.partitions),
            show.nbytes(t.bytes_in + t.bytes_out),
            show.seconds(estimated(c)),
        ]

    names = ("nodes delegated", "share of work", "partitions", "bytes crossing", "estimated time")
    rows = zip(names, column(found), column(other), strict=True)
    title = f"What if {escape(' '.join(changes))}"
    out.print()
    out.print(show.table(title, ("", ">as asked", ">then"), rows))


def estimated(coverage: Coverage) -> float:
    """Seconds of an invoke: by numpy's profile wherever a device has none."""
    return sum(n.cost.seconds for n in coverage.on_cpu) + sum(
        p.cost.host if p.cost.device is None else p.cost.device + (p.cost.transfer or 0.0)
        for p in coverage.partitions
    )
