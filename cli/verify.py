"""`litedelegate verify`: whether a delegate computes what numpy does, node by node."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from ..runtime.interpreter import Interpreter
from ..runtime.self_check import Difference
from . import inputs as sources
from . import show
from .failures import EXIT_CODES, Differs, Failure, reported
from .options import input_options, model_argument
from .session import Session

EPILOG = f"""{sources.SOURCES}

\b
Examples:
  litedelegate verify model.tflite --delegate opencl
  litedelegate verify model.tflite -d cuda --input photo.jpg --runs 1 --json

{EXIT_CODES}"""


@click.command("verify", epilog=EPILOG, short_help="Compare delegates with numpy, node by node.")
@model_argument
@input_options("auto")
@click.option(
    "--runs",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    metavar="N",
    help="Invokes in a row, each compared; inputs that are not given are random, and others.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def command(
    model: Path, delegates: tuple[str, ...], runs: int, as_json: bool, **options: Any
) -> None:
    """Run MODEL on delegates, compute each of their nodes again on numpy from the inputs that it
    had, and name the first whose result differs. What differs is taken from the delegate, and the
    search goes on.
    """
    with reported(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # they say what stands in the report
        with Session(
            partial(Interpreter, model, verify=runs),
            delegates=delegates or ("auto",),
            fill="random",
            **options,
        ) as session:
            for run in range(runs):
                session.run(session.load_inputs(f"random:{run}"))
            interpreter = session.interpreter
            report = interpreter.delegate_coverage()
            differences, unchecked = interpreter.differences, interpreter.unchecked
    delegated = sum(report.totals.delegated.values()) + len({d.node for d in differences})
    compared = delegated - len(unchecked)
    if as_json:
        show.print_json(
            {
                "model": str(model),
                "runs": runs,
                "compared": compared,
                "unchecked": [
                    {"subgraph": s, "node": n, "op": op} for (s, n), op in unchecked.items()
                ],
                "differences": [asdict(d) for d in differences],
                "placement": str(report),
            }
        )
    else:
        out = show.console()
        out.print(show.facts([
            ("model", f"[bold]{show.name(model.name)}[/]"),
            ("nodes", escape(str(report))),
            ("compared", f"{show.plural(compared, 'node')} in {show.plural(runs, 'invoke')}"),
        ]))  # fmt: skip
        out.print()
        if unchecked:
            counts = Counter(unchecked.values()).most_common()
            names = ", ".join(f"{op} ×{n}" if n > 1 else op for op, n in counts)
            out.print(f"not compared, for numpy cannot run them alone: {escape(names)}")
        if differences:
            _print(out, differences)
        elif compared:
            out.print("no result differs from numpy's")
        else:
            out.print("nothing was compared: `litedelegate coverage` says why")
    if report.totals.not_used and not compared:
        told = "; ".join(f"{name}: {text}" for name, text in report.totals.not_used.items())
        raise Failure(f"nothing was compared: {told}")
    if differences:
        first = differences[0]
        raise Differs(f"{first.delegate} differs from numpy, first at {first}")


def _print(out: Console, differences: Sequence[Difference]) -> None:
    rows = [
        (
            d.node if not d.subgraph else f"{d.subgraph}:{d.node}",
            show.name(d.op),
            show.name(d.output),
            escape(d.delegate),
            escape(d.text),
        )
        for d in differences
    ]
    head = (">node", "operator", "makes", "delegate", "")
    out.print(show.table("Differences, as found", head, rows))
