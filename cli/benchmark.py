"""`litedelegate benchmark`: how long a model takes, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from ..runtime.profile import Profile
from . import show
from .failures import EXIT_CODES, reported, written
from .options import input_options, model_argument
from .session import Session

SECONDS = 2.0
PROFILED_RUNS = 20

EPILOG = f"""\b
Inputs that are not given are made up, as by NAME=random.

\b
Examples:
  litedelegate benchmark model.tflite
  litedelegate benchmark model.tflite --threads 1 --runs 200 --profile
  litedelegate benchmark model.tflite --shape 8,224,224,3 --trace trace.json

{EXIT_CODES}"""


@click.command("benchmark", epilog=EPILOG, short_help="Measure load, first run and steady state.")
@model_argument
@input_options()
@click.option(
    "--warmup",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    metavar="N",
    help="Invokes that do not count, the first one apart.",
)
@click.option(
    "--runs",
    type=click.IntRange(1),
    metavar="N",
    help="Invokes to measure. [default: as many as fit in 2 s, 5 to 1000]",
)
@click.option(
    "--profile",
    is_flag=True,
    help="Show the time by operator and the slowest nodes: medians over some runs.",
)
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write a Chrome trace of the profiled runs, for ui.perfetto.dev.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def command(
    model: Path,
    warmup: int,
    runs: int | None,
    profile: bool,
    trace: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Measure MODEL: load, allocate, first run, then the steady state."""
    with reported(), Session(model, fill="random", **options) as session:
        allocate = session.allocate(session.load_inputs())
        first = session.invoke()
        times = _steady(session, warmup, runs, first)
        recorded = _profile(session, min(PROFILED_RUNS, len(times))) if profile or trace else None
        summary = _summary(*recorded) if recorded else None
        memory = asdict(session.interpreter.memory)
        threads = session.interpreter.num_threads
        placement = str(session.interpreter.delegate_coverage())
    result: dict[str, Any] = {
        "model": str(model),
        "signature": session.signature,
        "threads": threads,
        "placement": placement,
        "load_seconds": session.load_seconds,
        "allocate_seconds": allocate,
        "first_seconds": first,
        "steady_seconds": _statistics(times),
        "memory_bytes": memory,
    }
    if profile:
        result["profile"] = summary
    if trace and recorded is not None:
        written(trace, recorded[0].chrome_trace())
        result["trace"] = str(trace)
    if as_json:
        show.print_json(result)
    else:
        _print(show.console(), result)


def _steady(session: Session, warmup: int, runs: int | None, first: float) -> list[float]:
    """Seconds of each measured invoke."""
    estimate = first
    for _ in range(warmup):
        estimate = session.invoke()
    runs = runs or max(5, min(1000, int(SECONDS / max(estimate, 1e-6))))
    with show.progress() as bar:
        return [session.invoke() for _ in bar.track(range(runs), description="invoke")]


def _profile(session: Session, runs: int) -> tuple[Profile, list[int]]:
    """The records of some runs, and how many there were after each."""
    ends = []
    with session.interpreter.profile() as profile:
        for _ in range(runs):
            session.invoke()
            ends.append(len(profile.records))
    return profile, ends


def _summary(profile: Profile, ends: Sequence[int]) -> dict[str, Any]:
    """Calls and seconds of one run by operator and by node, the slowest first.

    A node's time is the median over the runs: one that was interrupted once is not a slow one.
    """
    medians = node_medians(profile, ends)
    total = sum(medians.values()) or 1
    runs = len(ends)
    nodes: list[dict[str, Any]] = [
        {
            "subgraph": n.subgraph,
            "node": n.node,
            "op": n.op,
            "output": n.name,
            "calls": n.calls / runs,
            "seconds": medians[n.subgraph, n.node] * 1e-9,
            "share": medians[n.subgraph, n.node] / total,
        }
        for n in profile.nodes()
    ]
    operators: dict[str, dict[str, Any]] = {}
    for node in nodes:
        entry = operators.setdefault(
            node["op"], {"op": node["op"], "nodes": 0, "calls": 0, "seconds": 0, "share": 0}
        )
        entry["nodes"] += 1
        for key in ("calls", "seconds", "share"):
            entry[key] += node[key]
    device = profile.device
    return {
        "runs": runs,
        "operators": sorted(operators.values(), key=lambda o: -o["seconds"]),
        "nodes": sorted(nodes, key=lambda n: -n["seconds"]),
        "device": {
            **{kind: total * 1e-9 / runs for kind, total in device.totals().items()},
            "work": [
                {
                    "subgraph": w.subgraph,
                    "partition": w.partition,
                    "name": w.name,
                    "kind": w.kind,
                    "calls": w.calls / runs,
                    "seconds": w.total * 1e-9 / runs,
                }
                for w in device.work()
            ],
        },
    }


def node_medians(profile: Profile, ends: Sequence[int]) -> dict[tuple[int, int], float]:
    """(subgraph, node) -> median over the runs of its own nanoseconds in one."""
    times: dict[tuple[int, int], list[int]] = {}
    start = 0
    for run, end in enumerate(ends):
        for r in profile.records[start:end]:
            of_runs = times.setdefault((r.subgraph, r.node.index), [0] * len(ends))
            of_runs[run] += r.own
        start = end
    return {key: float(np.median(of_runs)) for key, of_runs in times.items()}


def _statistics(times: Sequence[float]) -> dict[str, Any]:
    median, p90 = np.percentile(times, (50, 90))
    return {
        "runs": len(times),
        "median": float(median),
        "p90": float(p90),
        "min": min(times),
        "max": max(times),
        "mean": float(np.mean(times)),
    }


def _memory_text(memory: dict[str, int]) -> str:
    """The kinds that take something, and the constants, which are the file's own pages."""
    kinds = ("arena", "packed", "folded", "scratch", "persistent", "dynamic")
    parts = [f"{kind} {show.nbytes(memory[kind])}" for kind in kinds if memory[kind]]
    return (
        f"{show.nbytes(sum(memory[kind] for kind in kinds))} ({', '.join(parts) or 'nothing'}), "
        f"and constants {show.nbytes(memory['constants'])} in the mapped file"
    )


def _print(out: Console, result: dict[str, Any]) -> None:
    steady, memory = result["steady_seconds"], result["memory_bytes"]
    threads = result["threads"]
    rows: list[tuple[str, Any]] = [
        ("model", f"[bold]{show.name(Path(result['model']).name)}[/]"),
        ("threads", f"{threads}"),
        ("runs on", result["placement"]),
        ("load", f"{show.seconds(result['load_seconds'])}, verification and imports included"),
        ("allocate", f"{show.seconds(result['allocate_seconds'])}: shapes, memory plan, packing"),
        ("first run", show.seconds(result["first_seconds"])),
        (
            "steady",
            f"[bold]{show.seconds(steady['median'])}[/] median, {show.seconds(steady['p90'])} p90, "
            f"{show.seconds(steady['min'])} min, of {show.plural(steady['runs'], 'run')}",
        ),
        ("memory", _memory_text(memory)),
    ]
    out.print(show.facts(rows))
    out.print()
    if "profile" in result:
        _print_profile(out, result["profile"])
    if "trace" in result:
        out.print(f"[dim]trace written to[/] {result['trace']}[dim], for ui.perfetto.dev[/]")


def _print_profile(out: Console, profile: dict[str, Any]) -> None:
    rows_by_op = (
        (
            show.name(entry["op"]),
            f"{entry['calls']:g}",
            show.seconds(entry["seconds"]),
            f"{entry['share']:.1%}",
            show.bar(entry["share"]),
        )
        for entry in profile["operators"]
    )
    columns = ("operator", ">calls", ">per run", ">share", "")
    out.print(show.table("Time by operator", columns, rows_by_op))
    slowest = (
        (
            entry["node"] if not entry["subgraph"] else f"{entry['subgraph']}:{entry['node']}",
            show.name(entry["op"]),
            show.seconds(entry["seconds"]),
            f"{entry['share']:.1%}",
            show.name(entry["output"]),
        )
        for entry in profile["nodes"][:10]
    )
    columns = (">node", "operator", ">per run", ">share", "makes")
    out.print(show.table("Slowest nodes", columns, slowest))
    device = profile["device"]
    if device["work"]:
        _print_device(out, device)


def _print_device(out: Console, device: dict[str, Any]) -> None:
    kernels, copies = show.seconds(device["kernel"]), show.seconds(device["copy"])
    total = device["kernel"] + device["copy"] or 1
    rows = (
        (
            entry["partition"],
            show.name(entry["name"]),
            show.seconds(entry["seconds"]),
            f"{entry['seconds'] / total:.1%}",
        )
        for entry in device["work"][:10]
    )
    title = f"On devices, a run: {kernels} in kernels, {copies} in copies"
    out.print(show.table(title, (">partition", "kernel", ">per run", ">share"), rows))
