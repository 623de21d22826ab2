"""Compares litedelegate on numpy with ai-edge-litert, model by model, on this machine.

    python benchmarks/compare.py [MODELS …] [--json FILE] [--markdown FILE]
    python benchmarks/compare.py --opencl [MODELS …]

MODELS are .tflite files or folders of them; without any, ../shared/models beside this repository if
it is there, else the examples' models. Every ratio comes from one process in which the contestants
take turns, round by round. Times and memory of a first use come from a process of their own. With
--opencl, the OpenCL delegate on a CPU, by two drivers, against the peer's default delegate. See
README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
MEASURE = Path(__file__).with_name("measure.py")
# a model counts towards the mean where the peer, without its default delegate, takes longer
COUNTS_FROM_SECONDS = 1e-3
BLAS_SETTINGS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
BLAS_THREADS = "OPENBLAS_NUM_THREADS"
Row = dict[str, Any]


def find_models(given: list[Path]) -> list[Path]:
    if not given:
        shared = ROOT.parent / "shared" / "models"
        given = [shared if shared.is_dir() else ROOT / "examples" / "models"]
    models = [m for p in given for m in (sorted(p.glob("*.tflite")) if p.is_dir() else [p])]
    if not models or not all(m.is_file() for m in models):
        sys.exit(f"no .tflite files in {', '.join(map(str, given))}")
    return models


def environment(clean: bool) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not (clean and k in BLAS_SETTINGS)}


def child(command: Iterable[object], env: dict[str, str], timeout: float) -> Any:
    """What a process prints as JSON; {"error": …} where it fails."""
    try:
        done = subprocess.run(
            [sys.executable, *map(str, command)],
            env=env, capture_output=True, text=True, timeout=timeout,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"error": f"not done in {timeout:.0f} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {"error": lines[-1] if lines else f"ended with {done.returncode}"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def import_seconds(module: str, env: dict[str, str]) -> float:
    """Of a fresh process, numpy included; the best of five."""
    code = (
        f"import time; t = time.perf_counter(); from {module} import Interpreter; "
        "print(time.perf_counter() - t)"
    )
    times = [child(["-c", code], env, 60) for _ in range(5)]
    return min(t for t in times if isinstance(t, float))


def measure(model: Path, args: argparse.Namespace, env: dict[str, str]) -> Row:
    row: Row = {"model": model.stem, "bytes": model.stat().st_size}
    kind = ["opencl"] if args.opencl else []
    row["steady"] = child([MEASURE, "steady", model, args.seconds, *kind], env, args.timeout)
    if not args.steady_only and not args.opencl:
        for which in ("litedelegate", "peer"):
            row[which] = child([MEASURE, "start", which, model], env, args.timeout)
    return row


def setup(args: argparse.Namespace, env: dict[str, str]) -> dict[str, Any]:
    return {
        "cpus": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "peer": f"ai-edge-litert {version('ai-edge-litert')}",
        "blas_settings": {k: env[k] for k in (*BLAS_SETTINGS, BLAS_THREADS) if k in env},
        "import_seconds": {
            "litedelegate": import_seconds("litedelegate", env),
            "peer": import_seconds("ai_edge_litert.interpreter", env),
        },
    }


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def summary(rows: list[Row]) -> dict[str, Any]:
    """Geometric means of the ratios, over the models that take the peer long enough."""
    counted = [r for r in rows if peer_seconds(r) > COUNTS_FROM_SECONDS and "plain" in ratios(r)]
    out: dict[str, Any] = {
        "counted": [r["model"] for r in counted],
        "with_reference": [r["model"] for r in counted if "reference" in ratios(r)],
    }
    for label in ("plain", "default", "reference"):
        out[label] = geometric_mean([ratios(r)[label] for r in counted if label in ratios(r)])
    return out


def ratios(row: Row) -> dict[str, float]:
    found: dict[str, float] = row["steady"].get("ratios", {})
    return found


def peer_seconds(row: Row) -> float:
    best = row["steady"].get("best", {}).get("plain")
    return float(row["steady"]["seconds"][best]) if best else 0.0


COLUMNS = (
    "model", "numpy", "peer", "threads", "ratio", "vs default", "vs reference", "off peer by",
    "load", "allocate", "first", "memory",
)  # fmt: skip


def cells(row: Row) -> list[str]:
    """One line of the table. Pairs are litedelegate's figure and the peer's."""
    steady = row["steady"]
    out = [row["model"]]
    ours = steady.get("seconds", {}).get("litedelegate")
    best = steady.get("best", {}).get("plain")
    out.append(milliseconds(ours) if ours else "–")
    out.append(milliseconds(peer_seconds(row)) if best else "–")
    out.append(best[-1] if best else "–")
    for label in ("plain", "default", "reference"):
        out.append(f"{ratios(row)[label]:.2f}" if label in ratios(row) else "–")
    out.append(steady.get("difference", {}).get("plain", "–"))
    for what in ("load", "allocate", "first"):
        out.append(
            " / ".join(milliseconds(row.get(w, {}).get(what)) for w in ("litedelegate", "peer"))
        )
    out.append(" / ".join(megabytes(row.get(w, {})) for w in ("litedelegate", "peer")))
    return out


def milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    ms = seconds * 1e3
    return f"{ms:.3f}" if ms < 1 else f"{ms:.2f}" if ms < 10 else f"{ms:.1f}"


def megabytes(start: dict[str, Any]) -> str:
    """Peak, and in it what came after the import."""
    if "memory" not in start:
        return "–"
    return (
        f"{start['memory'] / 2**20:.0f} (+{(start['memory'] - start['memory_before']) / 2**20:.0f})"
    )


def problems(row: Row) -> list[str]:
    """What did not run, one line for each reason."""
    found: dict[str, list[str]] = {}
    steady = row["steady"]
    for name, text in steady.get("errors", {}).items():
        found.setdefault(text, []).append(name)
    lines = [f"{', '.join(names)}: {text}" for text, names in found.items()]
    if "error" in steady:
        lines.append(steady["error"])
    if not found:  # else the reason is the same
        lines += [
            f"{which}, fresh process: {row[which]['error']}"
            for which in ("litedelegate", "peer")
            if "error" in row.get(which, {})
        ]
    return lines


def facts_of_machine(info: dict[str, Any]) -> str:
    settings = ", ".join(f"{k}={v}" for k, v in info["blas_settings"].items()) or "none"
    return (
        f"{info['peer']}; Python {info['python']}, numpy {info['numpy']}; {info['cpus']} CPUs "
        f"({info['machine']}); BLAS settings in the environment: {settings}"
    )


def facts(info: dict[str, Any], total: dict[str, Any]) -> list[str]:
    imports = info["import_seconds"]
    return [
        facts_of_machine(info),
        f"import: litedelegate {imports['litedelegate'] * 1e3:.0f} ms, "
        f"peer {imports['peer'] * 1e3:.0f} ms",
        f"geometric mean over the {len(total['counted'])} models that take the peer more than "
        f"1 ms: {total['plain']:.2f} times the peer without its default delegate (the better of "
        f"1 and 2 threads), {total['default']:.2f} times its default, {total['reference']:.2f} "
        f"times its reference kernels ({len(total['with_reference'])} models)",
        "times in ms; memory: peak of the process in MB (what loading and running added)",
    ]


# -- the same for OpenCL

COUNTS_ON_DEVICES_FROM_SECONDS = 2e-4
DRIVERS = ("opencl_pocl", "opencl_intel")
OPENCL_COLUMNS = (
    "model", "PoCL", "Intel", "numpy", "peer", "threads", "ratio", "numpy's", "off numpy by",
    "nodes", "work", "partitions",
)  # fmt: skip


def opencl_ratio(row: Row) -> float | None:
    """Of the better driver."""
    return min((ratios(row)[n] for n in DRIVERS if n in ratios(row)), default=None)


def opencl_summary(rows: list[Row]) -> dict[str, Any]:
    found = [(r, opencl_ratio(r), _default_seconds(r)) for r in rows]
    counted = [(r, x) for r, x, s in found if x and s and s > COUNTS_ON_DEVICES_FROM_SECONDS]
    return {
        "counted": [r["model"] for r, _ in counted],
        "default": geometric_mean([x for _, x in counted]),
        **{
            name: geometric_mean([ratios(r)[name] for r, _ in counted if name in ratios(r)])
            for name in (*DRIVERS, "litedelegate")
        },
    }


def _default_seconds(row: Row) -> float | None:
    best = row["steady"].get("best", {}).get("default")
    return float(row["steady"]["seconds"][best]) if best else None


def opencl_cells(row: Row) -> list[str]:
    steady = row["steady"]
    seconds = steady.get("seconds", {})
    out = [row["model"]]
    out += [milliseconds(seconds.get(name)) for name in (*DRIVERS, "litedelegate")]
    out.append(milliseconds(_default_seconds(row)))
    out.append((steady.get("best", {}).get("default") or "–")[-1])
    for value in (opencl_ratio(row), ratios(row).get("litedelegate")):
        out.append("–" if value is None else f"{value:.2f}")
    there = [n for n in DRIVERS if n in ratios(row)]
    best = min(there, key=lambda n: ratios(row)[n], default="")
    out.append(steady.get("difference", {}).get(best, "–"))
    covered = steady.get("coverage", {}).get(best)
    if covered is None:
        return [*out, "–", "–", "–"]
    return [*out, f"{covered['nodes']:.0%}", f"{covered['work']:.1%}", str(covered["partitions"])]


def opencl_facts(info: dict[str, Any], total: dict[str, Any]) -> list[str]:
    floors = ", ".join(f"{n}: {s * 1e6:.0f} µs" for n, s in total["floor"].items())
    return [
        facts_of_machine(info),
        f"geometric mean over the {len(total['counted'])} models that take the peer more than "
        f"0.2 ms: {total['default']:.2f} times the peer's default (the better of 1 and 2 threads) "
        f"by the better driver; {', '.join(f'{n} {total[n]:.2f}' for n in DRIVERS)}, "
        f"numpy {total['litedelegate']:.2f}",
        f"floor, an invoke of one kernel on four numbers: {floors}",
        "times in ms; nodes, work: the share that is delegated",
    ]


@dataclass(frozen=True)
class Report:
    columns: tuple[str, ...]
    cells: Callable[[Row], list[str]]
    ratio: Callable[[Row], float | None]
    summary: Callable[[list[Row]], dict[str, Any]]
    facts: Callable[[dict[str, Any], dict[str, Any]], list[str]]


NUMPY = Report(COLUMNS, cells, lambda row: ratios(row).get("plain"), summary, facts)
OPENCL = Report(OPENCL_COLUMNS, opencl_cells, opencl_ratio, opencl_summary, opencl_facts)


def markdown(report: Report, rows: list[Row], info: dict[str, Any], total: dict[str, Any]) -> str:
    columns = report.columns
    lines = ["| " + " | ".join(columns) + " |", "|---" + "|---:" * (len(columns) - 1) + "|"]
    lines += ["| " + " | ".join(report.cells(row)) + " |" for row in rows]
    lines += ["", *(f"* {fact}" for fact in report.facts(info, total))]
    lines += [f"* {row['model']}: {text}" for row in rows for text in problems(row)]
    return "\n".join(lines) + "\n"


def show(
    console: Console, report: Report, rows: list[Row], info: dict[str, Any], total: dict[str, Any]
) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(report.columns):
        table.add_column(name, justify="right" if i else "left", no_wrap=bool(i))
    for row in rows:
        ratio = report.ratio(row)
        style = (
            None if ratio is None else "green" if ratio <= 1 else "yellow" if ratio <= 2 else "red"
        )
        table.add_row(*report.cells(row), style=style)
    console.print(table)
    for fact in report.facts(info, total):
        console.print(fact, highlight=False)
    for row in rows:
        for text in problems(row):
            console.print(f"{row['model']}: {text}", style="red", markup=False, highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path, help=".tflite files, or folders of them")
    parser.add_argument(
        "--opencl",
        action="store_true",
        help="the OpenCL delegate on a CPU against the peer's default delegate",
    )
    parser.add_argument("--seconds", type=float, default=4, help="for the rounds of each model")
    parser.add_argument("--timeout", type=float, default=300, help="seconds a process may take")
    parser.add_argument("--steady-only", action="store_true", help="leave out first use and memory")
    parser.add_argument("--clean-blas-env", action="store_true",
                        help=f"measure without {' and '.join(BLAS_SETTINGS)}")  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    args = parser.parse_args()
    models = find_models(args.models)
    env = environment(args.clean_blas_env)
    info = setup(args, env)
    rows = []
    console = Console()
    err = Console(stderr=True)
    with Progress(console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("", total=len(models))
        for model in models:
            bar.update(task, description=model.stem)
            rows.append(measure(model, args, env))
            bar.advance(task)
    report = OPENCL if args.opencl else NUMPY
    total = report.summary(rows)
    if args.opencl:
        total["floor"] = child([MEASURE, "floor"], env, 60)
    if not console.is_terminal:
        console = Console(width=200)
    show(console, report, rows, info, total)
    if args.json:
        args.json.write_text(json.dumps({"setup": info, "summary": total, "rows": rows}, indent=1))
    if args.markdown:
        args.markdown.write_text(markdown(report, rows, info, total), encoding="utf-8")


if __name__ == "__main__":
    main()
