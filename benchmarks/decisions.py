"""Whether the cost model chooses well: numpy, what it chose, and all that OpenCL can take, timed.

    python benchmarks/decisions.py MODELS/                    by each driver that is there
    python benchmarks/decisions.py --driver Intel MODEL …     by one, or by several

Milliseconds of an invoke, the best of rounds in which all take turns. A choice is good where it
takes hardly longer than the better of the two that could be had without a cost model: nothing on
the device, or all of it. What chose everything or nothing is not measured twice. Behind the times
stand the estimates that the choice was made by.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from measure import BLOCK_SECONDS, DRIVERS, SETTLE_SECONDS, opencl, prepare, timed

from litedelegate import Interpreter
from litedelegate.delegates.gpu.cache import ProgramCache
from litedelegate.delegates.gpu.sketch import Sketch
from litedelegate.delegates.opencl.choose import open_device
from litedelegate.runtime.cost import PartitionCost
from litedelegate.runtime.delegate import Unavailable

ALLOWED = 1.1  # times the better of the two
LEAST_ROUNDS, MOST_ROUNDS = 3, 25
HEAD = (
    "model | driver | numpy | all of it | chosen | of the better | nodes chosen | launches | "
    "estimate: numpy | all of it"
)


@dataclass(frozen=True)
class Decision:
    """Seconds; `nodes`: how much of what can be taken was."""

    model: str
    driver: str
    numpy: float
    forced: float
    chosen: float
    nodes: str
    launches: int
    estimated_numpy: float
    estimated_forced: float

    @property
    def ratio(self) -> float:
        return self.chosen / min(self.numpy, self.forced)

    def cells(self) -> tuple[str, ...]:
        times = (self.numpy, self.forced, self.chosen)
        estimates = (self.estimated_numpy, self.estimated_forced)
        return (
            self.model,
            self.driver,
            *(f"{s * 1e3:.3f}" for s in times),
            f"{self.ratio:.2f}{' !' * (self.ratio > ALLOWED)}",
            self.nodes,
            f"{self.launches:,}",
            *(f"{s * 1e3:.3f}" for s in estimates),
        )


def decide(path: Path, drivers: Mapping[str, str], seconds: float) -> Iterator[Decision]:
    """Of the main subgraph of a model, for each driver."""
    plain = Interpreter(str(path))
    prepare(plain, str(path))
    runners: dict[str, Any] = {"numpy": plain}
    forced: dict[str, Any] = {}
    chosen: dict[str, Any] = {}
    for name, driver in drivers.items():
        for kind, costs in ((forced, "none"), (chosen, "calibrated")):
            kind[name] = opencl(driver, str(path), costs)
            prepare(kind[name], str(path))
        runners[f"forced {name}"] = forced[name]
        if _taken(chosen[name]) not in (0, _taken(forced[name])):
            runners[f"chosen {name}"] = chosen[name]
    times = measured(runners, seconds)
    for name in drivers:
        some, all_of_it = _taken(chosen[name]), _taken(forced[name])
        own = times["numpy"] if not some else times[f"forced {name}"]
        partitions = [p for plan in _plans(forced[name]) for p in plan.placed]
        costs = [_cost(p.partition, chosen[name].delegates[0]) for p in partitions]
        yield Decision(
            path.stem,
            name.removeprefix("opencl_"),
            times["numpy"],
            times[f"forced {name}"],
            times.get(f"chosen {name}", own),
            f"{some} of {all_of_it}",
            sum(len(p.kernel._plan.launch_names) for p in partitions),
            sum(c.host for c in costs),
            sum(c.device + c.transfer for c in costs),
        )


def _taken(interpreter: Any) -> int:
    return sum(len(p.partition.nodes) for plan in _plans(interpreter) for p in plan.placed)


def _plans(interpreter: Any) -> list[Any]:
    """Of the main subgraph, which is the one that is timed."""
    plans = interpreter._graph.delegation.plans
    return [plans[0]] if 0 in plans else []


def _cost(partition: Any, delegate: Any) -> PartitionCost:
    """Of all that can be taken, by the profiles that the other choice was made by."""
    device = delegate.device
    sketch = Sketch(device.capability, partition, True, device.alignment)
    return sketch.cost(partition, delegate.profile, delegate.host_profile)


def measured(runners: Mapping[str, Any], seconds: float) -> dict[str, float]:
    """The best of each one's rounds; all in turn."""
    blocks, times = {}, {}
    for name, interpreter in runners.items():
        timed(interpreter, 1)
        once = timed(interpreter, 2)
        blocks[name] = max(1, min(200, int(BLOCK_SECONDS / once)))
        times[name] = [once]
    began, rounds = time.perf_counter(), 0
    while rounds < LEAST_ROUNDS or (time.perf_counter() - began < seconds and rounds < MOST_ROUNDS):
        for name, interpreter in runners.items():
            time.sleep(SETTLE_SECONDS)
            times[name].append(timed(interpreter, blocks[name]))
        rounds += 1
    return {name: min(found[1:]) for name, found in times.items()}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--driver", action="append", help="any part of its name")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each model (2)")
    parser.add_argument("--json", type=Path, help="the figures, as data")
    args = parser.parse_args(argv)
    drivers = {d: d for d in args.driver} if args.driver else _present()
    found: list[Decision] = []
    print(f"| {HEAD} |\n|{'---|' * (HEAD.count('|') + 1)}", flush=True)
    for path in [p for m in args.models for p in (sorted(m.glob("*.tflite")) or [m])]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows = list(decide(path, drivers, args.seconds))
        except (RuntimeError, ValueError) as e:
            print(f"left out: {path.stem}: {str(e).splitlines()[0][:90]}", file=sys.stderr)
            continue
        for row in rows:
            print(f"| {' | '.join(row.cells())} |", flush=True)
        found += rows
    wrong = [d for d in found if d.ratio > ALLOWED]
    print(f"\n{len(found) - len(wrong)} of {len(found)} choices within {ALLOWED} of the better")
    if args.json:
        args.json.write_text(json.dumps([asdict(d) for d in found], indent=1))
    return 0


def _present() -> dict[str, str]:
    found = {}
    for name, driver in DRIVERS.items():
        try:
            open_device(driver, ProgramCache(""))
        except Unavailable as e:
            print(f"left out: {e}", file=sys.stderr)
            continue
        found[name] = driver
    return found


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(main())
