"""What building the kernels of models costs, by each OpenCL driver of the CPU, and a run of them.

    python benchmarks/builds.py [MODELS …] [--driver pocl] [--json FILE]

Each model is started twice, in processes of their own: with empty folders of built programs, ours
and the driver's, and with what the first one left there. All that can run on the device does. A
first build is from before `allocate_tensors` to after the first invoke; opening the device is not
part of it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from compare import child, find_models
from measure import DRIVERS, opencl, prepare
from rich.console import Console
from rich.table import Table

Row = dict[str, Any]


def start(driver: str, path: str, seconds: float) -> Row:
    """A start in this process: times of the clock and of its CPUs, in seconds."""
    from litedelegate.delegates.gpu.build import listening

    built: dict[int, int] = {}  # of the texts that were built at once

    def progress(done: int, count: int) -> None:
        if not done:
            built[len(built)] = count

    interpreter = opencl(driver, path, "none")
    clock, cpu = time.perf_counter(), time.process_time()
    with listening(progress):
        prepare(interpreter, path)
    interpreter.invoke()
    row: Row = {"wall": time.perf_counter() - clock, "cpu": time.process_time() - cpu}
    report = interpreter.delegate_coverage()
    row["kernels"] = sum(len(p.kernels) for p in report.partitions)
    row["partitions"] = len(report.partitions)
    row["texts"] = sum(built.values())
    times: list[float] = []
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds or len(times) < 3:
        clock = time.perf_counter()
        interpreter.invoke()
        times.append(time.perf_counter() - clock)
    row["steady"], row["best"] = median(times), min(times)
    return row


def both(driver: str, model: Path, args: argparse.Namespace) -> Row:
    """The first start and the one after it."""
    with tempfile.TemporaryDirectory(prefix="litedelegate-builds-") as folder:
        env = {
            **os.environ,
            "LITEDELEGATE_CACHE": f"{folder}/ours",
            "POCL_CACHE_DIR": f"{folder}/pocl",
        }
        command = [__file__, "--start", DRIVERS[driver], model, "--seconds", args.seconds]
        first = child(command, env, args.timeout)
        again = child(command, env, args.timeout) if "error" not in first else {}
    return {
        **first,
        "warm": again.get("wall"),
        "steady": again.get("steady"),
        "best": again.get("best"),
    }


def shown(rows: dict[str, Row]) -> Table:
    table = Table("model", "driver", "partitions", "kernels", "texts built", "first CPU s",
                  "first s", "warm s", "run ms")  # fmt: skip
    for name, row in rows.items():
        model, _, driver = name.partition(" ")
        if "error" in row:
            table.add_row(model, driver, row["error"])
            continue
        counts = (str(row[k]) for k in ("partitions", "kernels", "texts"))
        times = (f"{row[k]:.2f}" for k in ("cpu", "wall", "warm"))
        table.add_row(model, driver, *counts, *times, f"{row['best'] * 1e3:.3f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--driver", choices=[d.removeprefix("opencl_") for d in DRIVERS])
    parser.add_argument("--seconds", type=float, default=0.3, help="of runs after the start")
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--start", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.start:
        print(json.dumps(start(args.start, str(args.models[0]), args.seconds)))
        return
    drivers = [d for d in DRIVERS if args.driver in (None, d.removeprefix("opencl_"))]
    rows: dict[str, Row] = {}
    for model in find_models(args.models):
        for driver in drivers:
            name = f"{model.stem} {driver.removeprefix('opencl_')}"
            rows[name] = both(driver, model, args)
            print(name, rows[name], file=sys.stderr, flush=True)
            if args.json:
                args.json.write_text(json.dumps(rows, indent=1))
    Console(width=140).print(shown(rows))
    for driver in drivers:
        own = [
            r for n, r in rows.items() if n.endswith(driver.removeprefix("opencl_")) and "cpu" in r
        ]
        print(f"{driver}: {len(own)} models, {sum(r['cpu'] for r in own):.1f} s of CPU")


if __name__ == "__main__":
    main()
