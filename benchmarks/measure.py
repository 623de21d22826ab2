"""Measures one model in this process and prints JSON. `compare.py` starts it.

python measure.py start litedelegate|peer MODEL     load, allocate, first run, peak memory
python measure.py steady MODEL SECONDS [opencl]     all contestants in turn, round by round
python measure.py floor                             an invoke of next to nothing on each OpenCL
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

# Idle BLAS and peer threads spin before they sleep: wait, so that nobody pays for the one before.
SETTLE_SECONDS = 0.03
BLOCK_SECONDS = 0.02
MOST_ROUNDS = 40
TOO_SLOW_FOR_REFERENCE = 0.3


def litedelegate(path: str) -> Any:
    from litedelegate import Interpreter

    return Interpreter(path)


def peer(path: str, resolver: str = "BUILTIN_WITHOUT_DEFAULT_DELEGATES", threads: int = 1) -> Any:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    with quiet():
        return Interpreter(
            path, num_threads=threads, experimental_op_resolver_type=OpResolverType[resolver]
        )


def opencl(driver: str, path: str | bytes, costs: str | None = None) -> Any:
    from litedelegate import Interpreter
    from litedelegate.delegates.opencl import OpenCLDelegate

    where = {"model_content": path} if isinstance(path, bytes) else {"model_path": path}
    return Interpreter(**where, delegates=[OpenCLDelegate(driver, costs=costs)])


CONTESTANTS: dict[str, Callable[[str], Any]] = {
    "litedelegate": litedelegate,
    "plain_1": lambda path: peer(path),
    "plain_2": lambda path: peer(path, threads=2),
    "default_1": lambda path: peer(path, "AUTO"),
    "default_2": lambda path: peer(path, "AUTO", 2),
    "reference": lambda path: peer(path, "BUILTIN_REF"),
}


# OpenCL on a CPU by two drivers, against numpy and the peer's default delegate
DRIVERS = {"opencl_pocl": "Portable Computing Language", "opencl_intel": "Intel(R) OpenCL"}
OPENCL_CONTESTANTS: dict[str, Callable[[str], Any]] = {
    **{name: partial(opencl, driver) for name, driver in DRIVERS.items()},
    **{name: CONTESTANTS[name] for name in ("litedelegate", "default_1", "default_2")},
}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps what C++ code logs off stderr."""
    sys.stderr.flush()
    saved = os.dup(2)
    with open(os.devnull, "wb") as null:
        os.dup2(null.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def inputs_for(path: str, details: list[dict[str, Any]]) -> list[Any]:
    """The inputs that lie beside the model (`in0_<k>` of its .npz), or made-up ones."""
    beside = Path(path).with_suffix(".npz")
    if beside.exists():
        with np.load(beside, allow_pickle=False) as stored:
            if all(f"in0_{k}" in stored for k in range(len(details))):
                return [stored[f"in0_{k}"] for k in range(len(details))]
    rng = np.random.default_rng(0)
    return [made_up(tuple(d["shape"]), np.dtype(d["dtype"]), rng) for d in details]


def made_up(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> Any:
    if dtype.kind == "f":
        return rng.random(shape).astype(dtype)
    if dtype.kind in "iu" and dtype.itemsize <= 2:
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    if dtype.kind in "iub":
        return rng.integers(0, 2, shape).astype(dtype)
    return np.full(shape, b"some words")


def prepare(interpreter: Any, path: str) -> None:
    """Resizes, allocates, fills the inputs."""
    details = interpreter.get_input_details()
    values = inputs_for(path, details)
    for detail, value in zip(details, values, strict=True):
        if tuple(detail["shape"]) != value.shape:
            interpreter.resize_tensor_input(detail["index"], value.shape)
    with quiet():
        interpreter.allocate_tensors()
    for detail, value in zip(details, values, strict=True):
        interpreter.set_tensor(detail["index"], value)


def outputs(interpreter: Any) -> list[Any]:
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def difference(got: list[Any], want: list[Any]) -> str:
    """The greatest difference: relative to the largest value for floats, in steps for integers."""
    worst_float, worst_steps = 0.0, 0
    for a, b in zip(got, want, strict=True):
        if a.shape != b.shape:
            return f"shape {list(a.shape)} for {list(b.shape)}"
        if not a.size:
            continue
        if a.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                gap = np.abs(a.astype(np.float64) - b)
            top = np.nanmax(np.abs(b), initial=1e-30)
            worst_float = max(worst_float, float(np.nanmax(gap, initial=0.0) / top))
        elif a.dtype.kind in "iub":
            worst_steps = max(worst_steps, int(np.abs(a.astype(np.int64) - b).max()))
        elif a.tolist() != b.tolist():
            return "other text"
    parts = []
    if any(a.dtype.kind == "f" for a in got):
        parts.append(f"{worst_float:.0e}" if worst_float else "0")
    if any(a.dtype.kind in "iub" for a in got):
        parts.append(f"{worst_steps} steps" if worst_steps != 1 else "1 step")
    return ", ".join(parts)


@dataclass
class Runner:
    interpreter: Any
    once: float
    block: int
    times: list[float]


def timed(interpreter: Any, count: int) -> float:
    start = time.perf_counter()
    with quiet() if count == 1 else contextlib.nullcontext():
        for _ in range(count):
            interpreter.invoke()
    return (time.perf_counter() - start) / count


def steady(
    path: str, seconds: float, contestants: Mapping[str, Callable[[str], Any]]
) -> tuple[dict[str, Runner], dict[str, Any], dict[str, list[Any]]]:
    """Runs all in turn: their times, the report so far, and what each gave."""
    runners: dict[str, Runner] = {}
    errors: dict[str, str] = {}
    firsts: dict[str, list[Any]] = {}
    for name, make in contestants.items():
        if name == "reference" and any(r.once > TOO_SLOW_FOR_REFERENCE for r in runners.values()):
            continue
        try:
            interpreter = make(path)
            prepare(interpreter, path)
            once = timed(interpreter, 1)
            firsts[name] = outputs(interpreter)
            if once < 1:  # else the first one, slow as it may be, is estimate enough
                once = timed(interpreter, 1)
        except Exception as error:  # whatever stops one contestant is a line in the report
            errors[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
            continue
        block = max(1, min(200, int(BLOCK_SECONDS / once)))
        runners[name] = Runner(interpreter, once, block, [])
    rounds = 0
    began = time.perf_counter()
    while rounds < 1 or (time.perf_counter() - began < seconds and rounds < MOST_ROUNDS):
        for runner in runners.values():
            time.sleep(SETTLE_SECONDS)
            runner.times.append(timed(runner.interpreter, runner.block))
        rounds += 1
    result: dict[str, Any] = {
        "rounds": rounds,
        "seconds": {name: median(r.times) for name, r in runners.items()},
        "errors": errors,
        "ratios": {},
        "difference": {},
    }
    return runners, result, firsts


def against_peer(path: str, seconds: float) -> dict[str, Any]:
    """Median time of an invoke for each contestant, and of litedelegate's ratio to each."""
    runners, result, firsts = steady(path, seconds, CONTESTANTS)
    ours = runners.get("litedelegate")
    for label, names in {
        "plain": ("plain_1", "plain_2"),
        "default": ("default_1", "default_2"),
        "reference": ("reference",),
    }.items():
        present = [n for n in names if n in runners]
        if ours is None or not present:
            continue
        best = min(present, key=lambda n: median(runners[n].times))
        result["ratios"][label] = ratio(ours, runners[best])
        result["difference"][label] = difference(firsts["litedelegate"], firsts[best])
        result.setdefault("best", {})[label] = best
    return result


def on_opencl(path: str, seconds: float) -> dict[str, Any]:
    """The same for OpenCL against numpy and the peer's default delegate."""
    runners, result, firsts = steady(path, seconds, OPENCL_CONTESTANTS)
    peers = [n for n in ("default_1", "default_2") if n in runners]
    best = min(peers, key=lambda n: median(runners[n].times), default=None)
    result["best"] = {"default": best}
    for name in (*DRIVERS, "litedelegate"):
        if name not in runners:
            continue
        if best is not None:
            result["ratios"][name] = ratio(runners[name], runners[best])
        if name in DRIVERS:
            result["difference"][name] = difference(firsts[name], firsts["litedelegate"])
            totals = runners[name].interpreter.delegate_coverage().totals
            result.setdefault("coverage", {})[name] = {
                "nodes": totals.share_of_nodes,
                "work": totals.share_of_work,
                "partitions": totals.partitions,
            }
    return result


def ratio(ours: Runner, theirs: Runner) -> float:
    return median(a / b for a, b in zip(ours.times, theirs.times, strict=False))


def floor() -> dict[str, float]:
    """Seconds of an invoke of one kernel on four numbers, by driver."""
    from litedelegate import ModelBuilder
    from litedelegate.runtime.delegate import Unavailable

    builder = ModelBuilder()
    graph = builder.subgraph("main")
    graph.outputs(graph.op("NEG", [graph.input("x", (4,))], ("y", (4,), "float32")))
    found = {}
    for name, driver in DRIVERS.items():
        with contextlib.suppress(Unavailable):  # a driver that is not there
            # the cost model would leave so little work to numpy
            interpreter = opencl(driver, builder.build(), "none")
            interpreter.allocate_tensors()
            timed(interpreter, 100)
            found[name] = median(timed(interpreter, 50) for _ in range(9))
    return found


def start(which: str, path: str) -> dict[str, Any]:
    """Times of a first use, and the process's peak memory (bytes) before loading and at the end."""
    if which == "litedelegate":
        from litedelegate import Interpreter  # noqa: F401
    else:
        import ai_edge_litert.interpreter  # noqa: F401
    before = peak_memory()
    marks = [time.perf_counter()]
    interpreter = CONTESTANTS["litedelegate" if which == "litedelegate" else "plain_1"](path)
    marks.append(time.perf_counter())
    prepare(interpreter, path)
    marks.append(time.perf_counter())
    with quiet():
        interpreter.invoke()
    marks.append(time.perf_counter())
    interpreter.invoke()
    load, allocate, first = (b - a for a, b in itertools.pairwise(marks))
    return {
        "load": load,
        "allocate": allocate,
        "first": first,
        "memory_before": before,
        "memory": peak_memory(),
    }


def peak_memory() -> int:
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> None:
    what, *rest = sys.argv[1:]
    result: Any
    if what == "start":
        result = start(*rest)
    elif what == "floor":
        result = floor()
    else:
        path, seconds, *kind = rest
        result = (on_opencl if kind else against_peer)(path, float(seconds))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
