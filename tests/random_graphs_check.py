"""Random graphs on delegates, against numpy; what differs is made smaller.

    python tests/random_graphs_check.py 0-100                      on all backends that are there
    python tests/random_graphs_check.py 17 --backend opencl-pocl   one seed on one of them

Each graph is invoked twice, with different inputs. Nodes are delegated, or refused for a reason of
their own. With --log a line of JSON is added for each graph and backend, and seeds that are in the
file already are left out; so is one in which the process ended, which counts as a fault.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))

from devices import NAMES, cuda_device, device  # noqa: E402
from random_graphs import SETS, Graph  # noqa: E402
from random_seeds import generate, inputs_of, needed  # noqa: E402
from random_tensors import differs  # noqa: E402

from litedelegate import Delegate, Interpreter, Kernel, Partition  # noqa: E402
from litedelegate.delegates.gpu.delegate import GpuDelegate  # noqa: E402
from litedelegate.kernels.types import Array, DType  # noqa: E402

BACKENDS = (*NAMES, "opencl-intel-as-gpu", "cuda-standin")
# a reason for which a node may stay on the CPU is its own, and no accident
Way = Literal["plain", "resized", "split", "unfused"]
# as it is; with another row of inputs, too; with nodes that are left to numpy; node by node
WAYS: tuple[Way, ...] = get_args(Way)
ACCIDENTS = ("POLICY", "BUILD_FAILED", "DEVICE", "UNAVAILABLE")


class Unfused(GpuDelegate):
    """Each node as kernels of its own."""

    def build(self, partition: Partition) -> Kernel:
        return self.build_unfused(partition)


@cache
def delegate(backend: str, fuse: bool = True) -> Delegate:
    """One that takes all it can, whether it pays or not."""
    kind = GpuDelegate if fuse else Unfused
    if backend.startswith("cuda"):
        return kind("cuda", cuda_device(backend))
    name, shaped, _ = backend.partition("-as-gpu")
    found = device(name)
    if shaped:
        found = copy.copy(found)
        found.capability = replace(found.capability, kind="gpu", dot4=False)
    return kind("opencl", found)


def invoke(interpreter: Interpreter, given: Mapping[str, Array]) -> list[Array]:
    """Outputs in order; inputs are resized to what is given."""
    for detail in interpreter.get_input_details():
        shape = given[detail["name"]].shape
        if shape != tuple(detail["shape"]):
            interpreter.resize_tensor_input(detail["index"], shape)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], given[detail["name"]])
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]).copy() for d in interpreter.get_output_details()]


class NumpyFault(Exception):
    """The graph does not run on numpy."""


def faults(g: Graph, backend: str, way: Way = "plain") -> list[str]:
    """What is wrong."""
    left = range(1, len(g.nodes), 3) if way == "split" and g.called is None else ()
    accidents = ACCIDENTS[1:] if left else ACCIDENTS  # of those that are left the user said so
    sets = [inputs_of(g, k) for k in range(SETS)]
    wrong = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            plain = Interpreter(model_content=g.model())
            want = [invoke(plain, s) for s in sets]
        except Exception as e:
            raise NumpyFault(f"{type(e).__name__}: {e}") from e
        for k, results in enumerate(want):
            drawn = zip(g.outputs, results, (t.values[k][0] for t in g.outputs), strict=True)
            texts = [text for o in drawn if (text := differs(*o))]
            wrong += [f"invoke {k}, numpy against its kernels alone: {t}" for t in texts]
        taker = delegate(backend, way != "unfused")
        ours = Interpreter(model_content=g.model(), delegates=[taker], exclude=left)
        with plain, ours:
            for k, (given, right) in enumerate(zip(sets, want, strict=True)):
                found = zip(g.outputs, invoke(ours, given), right, strict=True)
                wrong += [f"invoke {k}: {text}" for o in found if (text := differs(*o))]
            for n in ours.delegate_coverage().on_cpu:
                if not any(r.code not in accidents for r in n.refusals):
                    wrong.append(f"node {n.index} ({n.op}) is on the CPU: {n.refusals}")
            if way == "resized":
                wrong += resized(g, plain, ours)
    return wrong + [str(w.message) for w in said if "run({name: value})" not in str(w.message)]


def resized(g: Graph, plain: Interpreter, ours: Interpreter) -> list[str]:
    """The same with another row of each input, if numpy takes that, and as before."""
    wrong = []
    before = inputs_of(g, 0)
    longer = {
        name: np.resize(a, (len(a) + 1, *a.shape[1:])) if a.ndim and a.size else a
        for name, a in before.items()
    }
    for what, given in (("with another row", longer), ("as before", before)):
        results: list[list[Array] | None] = []
        for interpreter in (plain, ours):
            try:
                results.append(invoke(interpreter, given))
            except Exception:
                results.append(None)
        want, got = results
        if want is None or got is None:
            if want is not got:
                wrong.append(f"{what} {'numpy' if want is None else backend_of(ours)} fails alone")
            continue
        for t, a, b in zip(g.outputs, got, want, strict=True):
            # what is loose may jump, for these values were not tried out
            if not t.loose and (text := differs(t, a, b)):
                wrong.append(f"{what}: {text}")
            elif t.loose and a.shape != b.shape:
                wrong.append(f"{what}: {t.name} is {list(a.shape)}, not {list(b.shape)}")
    return wrong


def backend_of(interpreter: Interpreter) -> str:
    return ", ".join(interpreter.delegate_coverage().totals.delegated)


def fails(g: Graph, backend: str, way: Way = "plain") -> bool:
    try:
        return bool(faults(g, backend, way))
    except NumpyFault:
        return False
    except Exception:
        return True


def reduce(g: Graph, backend: str, way: Way = "plain") -> Graph:
    """The same fault in as few nodes as can be found: one output, then nodes off the front."""
    for t in [t for n in g.nodes for t in n.outputs if t.dtype is not DType.RESOURCE]:
        part = g.part(needed(g.nodes, [t]), [t])
        if fails(part, backend, way):
            g = part
            break
    for node in list(g.nodes):
        rest = [n for n in g.nodes if n is not node]
        if not rest:
            break
        part = g.part(needed(rest, g.outputs), g.outputs)
        if len(part.nodes) < len(g.nodes) and part.nodes and fails(part, backend, way):
            g = part
    return g


def seeds(texts: Sequence[str]) -> Iterator[int]:
    for text in texts:
        first, _, last = text.partition("-")
        yield from range(int(first), int(last or int(first) + 1))


def check(seed: int, backend: str) -> dict[str, Any]:
    """One line of the log."""
    way = WAYS[seed % len(WAYS)]
    found: dict[str, Any] = {"seed": seed, "backend": backend, "way": way}
    try:
        g = generate(seed)
    except Exception as e:  # of a numpy kernel
        return {**found, "wrong": [f"numpy: {type(e).__name__}: {e}"], "graph": ""}
    found["nodes"] = len(g.nodes)
    started = time.perf_counter()
    try:
        wrong = faults(g, backend, way)
    except Exception as e:
        wrong = [f"{type(e).__name__}: {e}"]
    found["seconds"] = round(time.perf_counter() - started, 2)
    if wrong:
        small = reduce(g, backend, way)
        found |= {"wrong": wrong[:3], "graph": str(small)}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("seeds", nargs="+", metavar="SEED")
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no seed after these")
    args = parser.parse_args()
    log, now = args.log, None
    done: set[tuple[int, str]] = set()
    if log is not None:
        now = log.with_suffix(".now")
        if now.exists() and now.read_text():
            record = {**json.loads(now.read_text()), "wrong": ["the process ended"]}
            with log.open("a") as f:
                f.write(json.dumps(record) + "\n")
            now.write_text("")
        lines = log.read_text().splitlines() if log.exists() else []
        done = {(r["seed"], r["backend"]) for r in map(json.loads, lines)}
    count = failed = 0
    started = time.monotonic()
    for seed in seeds(args.seeds):
        for backend in args.backend or BACKENDS:
            if (seed, backend) in done:
                continue
            if time.monotonic() - started > args.seconds:
                return 3
            if now is not None:
                now.write_text(json.dumps({"seed": seed, "backend": backend}))
            record = check(seed, backend)
            count, failed = count + 1, failed + ("wrong" in record)
            if log is not None and now is not None:
                with log.open("a") as f:
                    f.write(json.dumps(record) + "\n")
                now.write_text("")
            if "wrong" in record:
                print(f"seed {seed} on {backend}: {'; '.join(record['wrong'])}", flush=True)
                print(record["graph"], flush=True)
    print(f"{count} graphs, {failed} with faults")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
