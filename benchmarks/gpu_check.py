"""First checks on a machine with an NVIDIA GPU, within five minutes; one JSON, item by item.

    pip install '.[cuda,dev]'
    python benchmarks/gpu_check.py [--out gpu_check.json] [--models ../shared/models]

Its parts, each with its share of the time; what that did not suffice for is listed as not run:

* `environment`: device, driver, versions, and what the delegate reads of the device
* `fragments`: whether tensor cores lay out matrices as the kernels assume
* `cases`: the case tables of tests/cases, lowered, built and run, against numpy
* `models`: real models: share delegated, outputs against numpy's, times of numpy, of launches one
  by one, of graph replays, and of these with half storage
* `arrays`: arrays of CuPy and torch in and out, users' streams, asynchronous invokes, cuBLAS
* `operators`: large single operators against torch and onnxruntime, where they are installed
* `calibration`: how fast the device and numpy are by the delegate's own measure

Each part is a process of its own (`gpu_supervisor.py`), which is killed when it hangs, and goes on
behind the item at which it died. Exits with 1 where something is wrong, with 2 where there is no
GPU. `--standin` runs it on the tests' stand-in for CuPy, which shows that the script itself works.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import gpu_peers as peers  # noqa: E402
import test_device  # noqa: E402
import test_matrix_unit  # noqa: E402
from devices import cuda_device  # noqa: E402
from gpu_supervisor import LOST, NO_DEVICE, read, supervise  # noqa: E402

from litedelegate import Interpreter, PositionalInputWarning  # noqa: E402
from litedelegate.delegates.cuda import CUDADelegate, device  # noqa: E402
from litedelegate.delegates.gpu.calibrate import profiles  # noqa: E402
from litedelegate.delegates.gpu.delegate import HALF_TOLERANCE  # noqa: E402
from litedelegate.runtime.errors import UnresolvedOpsError  # noqa: E402

Result = dict[str, Any]
OUT_OF_TIME = "not run: out of time"
WAYS = ("numpy", "one by one", "graphs", "half")
ROUNDS = 20
TIMING_SECONDS = 1.0


class DeviceLost(Exception):
    """This process has no device any more; another one has."""


class Check:
    """One part after the other, or some of them. `found` becomes the JSON, and is in the file `out`
    after each item; what is in that file already is not done again. `only`: names begin with it.
    """

    # each part has to end at this share of the time
    PARTS = (
        ("environment", 0.1),
        ("fragments", 0.2),
        ("cases", 0.5),
        ("models", 0.8),
        ("arrays", 0.85),
        ("operators", 0.95),
        ("calibration", 1.0),
    )

    def __init__(
        self,
        models: Path,
        seconds: float,
        standin: bool = False,
        only: str = "",
        out: Path | None = None,
    ) -> None:
        self.backend = "cuda-standin" if standin else "cuda"
        if standin:
            device.library = lambda: cuda_device(self.backend).cupy
        self.folder = models
        self.only = only
        self.out = out
        cuda_device(self.backend)  # skips, saying why, where there is none
        self.found: Result = read(out) if out is not None else {}
        self.wrong: list[str] = self.found.setdefault("wrong", [])
        self._done: list[str] = self.found.setdefault("done", [])
        fatal = self.found.pop("now", None)
        if fatal is not None:  # where the process before this one ended
            self.wrong.append(f"{fatal}: the process ended")
            self._done.append(fatal)
        self._seconds = seconds
        self._end = 0.0

    def run(self, parts: Sequence[str] = ()) -> Result:
        """Those parts, one after the other; without any, all."""
        begin = time.perf_counter()
        for name, share in self.PARTS:
            if parts and name not in parts:
                continue
            started = time.perf_counter()
            self._end = begin + (1.0 if parts else share) * self._seconds
            found = self.found.setdefault(name, {})
            try:
                getattr(self, name)(found)
            except DeviceLost:
                raise
            except Exception as e:
                found["error"] = traceback.format_exc()
                self.wrong.append(f"{name}: {type(e).__name__}: {e}")
            found["seconds"] = round(found.get("seconds", 0) + time.perf_counter() - started, 1)
            self.save()
        return self.found

    def save(self) -> None:
        """All at once: who reads the file never sees half of it."""
        if self.out is not None:
            part = self.out.with_suffix(".part")
            part.write_text(json.dumps(plain(self.found), indent=1, allow_nan=False))
            part.replace(self.out)

    @contextmanager
    def item(self, name: str) -> Iterator[None]:
        """Around the work on an item."""
        self.found["now"] = name
        self.save()
        yield
        del self.found["now"]
        self._done.append(name)
        self.save()

    def is_done(self, name: str) -> bool:
        return name in self._done

    def failed(self, what: str) -> None:
        """Notes it. DeviceLost after a fault of a kernel, which leaves a process no device."""
        self.wrong.append(what)
        try:
            found = cuda_device(self.backend)
            found.upload(found.allocate(4), np.zeros(1, np.int32))
            found.synchronise()
        except Exception as e:
            self.wrong[-1] += f"; and after it: {type(e).__name__}: {e}"[:200]
            self._done.append(self.found.pop("now", ""))
            self.save()
            raise DeviceLost(what) from e

    @property
    def late(self) -> bool:
        return time.perf_counter() > self._end

    def environment(self, found: Result) -> None:
        gpu = cuda_device(self.backend)
        runtime, known = gpu.cupy.cuda.runtime, gpu.capability
        found |= {
            "device": gpu.name,
            "architecture": gpu.compiler.architecture,
            "capability": {k: getattr(known, k) for k in type(known).__dataclass_fields__},
            "driver": runtime.driverGetVersion(),
            "runtime": runtime.runtimeGetVersion(),
            "nvrtc": list(gpu.cupy.cuda.nvrtc.getVersion()),
            "cupy": gpu.cupy.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "machine": platform.platform(),
        }

    def calibration(self, found: Result) -> None:
        if self.is_done("calibration"):
            return
        if self.late:
            found["measured"] = OUT_OF_TIME
            return
        gpu = cuda_device(self.backend)
        with self.item("calibration"):
            measured = profiles(gpu, gpu.cache, partial(CUDADelegate, costs="none"))
            found["measured"] = {p.name: asdict(p) for p in measured}

    # -- matrix units

    def fragments(self, found: Result) -> None:
        """Whether they lay out matrices as PTX's tables say; then products of some shapes."""
        gpu = cuda_device(self.backend)
        checks: dict[str, Callable[[], object]] = {
            "instructions": partial(test_matrix_unit.check_fragments, gpu)
        }
        for op in test_matrix_unit.COUNTS:
            checks[f"halves, {op}"] = partial(test_matrix_unit.check_products, gpu, op)
        for name, check in checks.items():
            if self.is_done(name):
                continue
            if self.late:
                found[name] = OUT_OF_TIME
                continue
            with self.item(name):
                try:
                    check()
                    found[name] = "right"
                except (Exception, AssertionError) as e:
                    found[name] = f"{type(e).__name__}: {e}"[:500]
                    self.failed(f"matrix units, {name}: {found[name]}")

    # -- op cases

    def cases(self, found: Result) -> None:
        counts: Counter[str] = Counter(found.get("counts", {}))
        failed: dict[str, str] = found.setdefault("wrong", {})
        families: dict[str, list[str]] = {}
        for key in test_device.KEYS:
            if key.startswith(self.only):
                families.setdefault(key.partition("-")[0], []).append(key)
        for family, keys in families.items():
            if self.is_done(f"cases of {family}"):
                continue
            if self.late:
                counts[OUT_OF_TIME] += len(keys)
                continue
            with self.item(f"cases of {family}"):
                for key in keys:
                    try:
                        test_device.check_case(self.backend, key)
                        counts["refused" if key in test_device.REFUSED else "right"] += 1
                    except (Exception, AssertionError) as e:
                        failed[key] = f"{type(e).__name__}: {e}"[:500]
                        self.failed(f"case {key}: {failed[key]}")
                    found["counts"] = dict(counts)
        found["counts"] = dict(counts)

    # -- models

    def models(self, found: Result) -> None:
        paths = sorted(self.folder.glob(f"{self.only}*.tflite"), key=lambda p: p.stat().st_size)
        for path in paths:
            name = path.stem
            if self.is_done(f"model {name}"):
                continue
            if self.late:
                found[name] = OUT_OF_TIME
                continue
            with self.item(f"model {name}"):
                try:
                    found[name] = self.model(path)
                except UnresolvedOpsError as e:  # what this environment lacks
                    found[name] = {"error": f"{type(e).__name__}: {e}"[:500]}
                    continue
                except Exception as e:
                    found[name] = {"error": f"{type(e).__name__}: {e}"[:500]}
                    self.failed(f"model {name}: {found[name]['error']}")
                    continue
                # a step of rounding grows in a whole model: the tests compare node by node
                for off, most in (("off", 1e-2), ("off_half", HALF_TOLERANCE)):
                    if any(d["relative"] > most for d in found[name][off]):
                        self.wrong.append(f"model {name}: {off} {found[name][off]}")

    def model(self, path: Path) -> Result:
        found: Result = {"ms": {}, "allocate_ms": {}}
        outputs: dict[str, list[Any]] = {}
        for way in WAYS:
            options = {"graphs": way != "one by one", "half": way == "half"}
            delegates = [] if way == "numpy" else [CUDADelegate(**options)]
            begin = time.perf_counter()
            with Interpreter(str(path), delegates=delegates) as interpreter:
                interpreter.allocate_tensors()
                found["allocate_ms"][way] = milliseconds(time.perf_counter() - begin)
                for seed, tensor in enumerate(interpreter.get_input_details()):
                    interpreter.set_tensor(tensor["index"], values(tensor, seed))
                interpreter.invoke()
                outputs[way] = [
                    interpreter.get_tensor(t["index"]) for t in interpreter.get_output_details()
                ]
                found["ms"][way] = milliseconds(timed(interpreter.invoke))
                if delegates:
                    covered = interpreter.delegate_coverage()
                    found["share_of_nodes"] = covered.totals.share_of_nodes
                    found["share_of_work"] = covered.totals.share_of_work
                    found["partitions"] = covered.totals.partitions
                    found["kernels"] = sum(len(p.kernels) for p in covered.partitions)
                    found["left"] = [f"{n.index} {n.op}" for n in covered.on_cpu][:20]
                    found["not_recorded"] = delegates[0].device.unrecorded
                    if covered.totals.not_used:
                        self.wrong.append(f"model {path.stem}: {covered.totals.not_used}")
        for off, way in (("off", "graphs"), ("off_half", "half")):
            pairs = zip(outputs["numpy"], outputs[way], strict=True)
            found[off] = [difference(a, b) for a, b in pairs]
        return found

    # -- arrays and streams

    def arrays(self, found: Result) -> None:
        for name in ("cupy_arrays", "torch_arrays", "users_stream", "asynchronous", "cublas"):
            if self.is_done(name):
                continue
            with self.item(name):
                try:
                    found[name] = getattr(self, f"_{name}")()
                except ImportError as e:
                    found[name] = f"not run: {e}"
                except (Exception, AssertionError) as e:
                    found[name] = f"{type(e).__name__}: {e}"
                    self.failed(f"{name}: {found[name]}")

    def _product(self, **options: Any) -> tuple[Interpreter, Any, Any]:
        """An interpreter of a product of matrices, its input, and the right output."""
        content, x = peers.OPERATORS["FULLY_CONNECTED small"].model, peers.sample((8, 64))
        right = Interpreter(model_content=content).run({"x": x})["y"]
        delegates = [CUDADelegate(**options)]
        made = Interpreter(model_content=content, delegates=delegates, strict=True)
        return made, x, right

    def _cupy_arrays(self) -> str:
        interpreter, x, right = self._product()
        cupy = cuda_device(self.backend).cupy
        given = cupy.ndarray(x.shape, x.dtype)
        given.set(x)
        for _ in range(3):
            close(interpreter.run({"x": given}, on_device=True)["y"].get(), right)
        return "right"

    def _torch_arrays(self) -> str:
        import torch

        if not torch.cuda.is_available():
            raise ImportError("torch has no CUDA device")
        interpreter, x, right = self._product()
        for _ in range(3):
            y = interpreter.run({"x": torch.from_numpy(x).cuda()}, on_device=True)["y"]
            close(torch.from_dlpack(y).cpu().numpy(), right)
        return "right"

    def _users_stream(self) -> str:
        cupy = cuda_device(self.backend).cupy
        stream = cupy.cuda.Stream(non_blocking=True)
        interpreter, x, right = self._product(stream=stream)
        for _ in range(3):
            close(interpreter.run({"x": x})["y"], right)
        return "right"

    def _asynchronous(self) -> str:
        interpreter, x, right = self._product()
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
        for _ in range(3):
            run = interpreter.invoke_async()
            assert run.event is not None
            run.wait()
        close(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]), right)
        return "right"

    def _cublas(self) -> Result:
        found: Result = {}
        for name, options, tolerance in (
            ("float32", {"cublas_from": 0}, 1e-5),
            ("tf32", {"cublas_from": 0, "tf32": True}, 1e-2),
        ):
            interpreter, x, right = self._product(**options)
            got = interpreter.run({"x": x})["y"]
            close(got, right, tolerance)
            found[name] = difference(right, got)
        return found

    # -- against others

    def operators(self, found: Result) -> None:
        for name, operator in peers.OPERATORS.items():
            if self.is_done(f"operator {name}"):
                continue
            if self.late:
                found[name] = OUT_OF_TIME
                continue
            entry = found[name] = {"operations": operator.operations, "ms": {}, "off": {}}
            right = Interpreter(model_content=operator.model).run({"x": operator.x})["y"]
            ways: dict[str, Callable[[], tuple[Callable[[], object], Any]]] = {
                "ours": lambda o=operator: peers.ours(o, CUDADelegate(cublas=False)),
                "ours with cuBLAS": lambda o=operator: peers.ours(o, CUDADelegate(cublas_from=0)),
                "ours, half": lambda o=operator: peers.ours(o, CUDADelegate(half=True)),
                "torch": lambda o=operator: peers.torch(o),
                "torch, half": lambda o=operator: peers.torch(o, half=True),
                "onnxruntime": lambda o=operator: peers.onnxruntime(o),
            }
            with self.item(f"operator {name}"):
                for way, make in ways.items():
                    try:
                        call, result = make()
                        entry["ms"][way] = milliseconds(timed(call))
                        entry["off"][way] = difference(right, result())
                    except ImportError as e:
                        entry["ms"][way] = f"not run: {e}"
                    except Exception as e:
                        entry["ms"][way] = f"{type(e).__name__}: {e}"[:300]
                        if way.startswith("ours"):
                            self.failed(f"{name}, {way}: {entry['ms'][way]}")


def timed(call: Callable[[], object]) -> float:
    """Median seconds of a call, after two to warm up; at most a second of it."""
    for _ in range(2):
        call()
    taken: list[float] = []
    end = time.perf_counter() + TIMING_SECONDS
    while len(taken) < ROUNDS and (not taken or time.perf_counter() < end):
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
    return median(taken)


def milliseconds(seconds: float) -> float:
    return round(seconds * 1e3, 4)


def values(tensor: Result, seed: int) -> Any:
    """Something for an input to hold: small whole numbers, which indices can be, too."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(tensor["dtype"])
    if dtype.kind == "f":
        return rng.standard_normal(tensor["shape"]).astype(dtype)
    return rng.integers(0, 2 if dtype.kind == "b" else 100, tensor["shape"]).astype(dtype)


def difference(want: Any, got: Any) -> Result:
    """Greatest difference, relative to the greatest value, and in steps for integers."""
    if want.dtype.kind not in "iufb" or not want.size:
        return {"relative": 0.0 if np.array_equal(want, got) else 1.0}
    a, b = want.astype(np.float64), got.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    off = float(np.abs(np.where(same, 0.0, a - b)).max())
    top = float(np.abs(a[np.isfinite(a)]).max(initial=0.0)) or 1.0
    found = {"relative": off / top}
    return found if want.dtype.kind == "f" else {**found, "steps": off}


def plain(value: Any) -> Any:
    """For JSON, which has no infinity and no NaN: None."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def close(got: Any, want: Any, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * np.abs(want).max())


def main(arguments: Sequence[str] | None = None) -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("gpu_check.json"))
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--seconds", type=float, default=290.0)
    parser.add_argument("--only", default="", help="cases and models whose names begin so")
    parser.add_argument("--standin", action="store_true")
    parser.add_argument("--part", help="this one alone, in this process, on what --out holds")
    options = parser.parse_args(arguments)
    if options.part is None:
        given = list(sys.argv[1:] if arguments is None else arguments)
        options.out.unlink(missing_ok=True)
        return supervise(Check.PARTS, options.seconds, options.out, partial(command, given))
    # all that the device can run is to run, whether it pays or not
    os.environ["LITEDELEGATE_COSTS"] = "none"
    warnings.simplefilter("ignore", PositionalInputWarning)
    made = options.models, options.seconds, options.standin, options.only, options.out
    try:
        Check(*made).run([options.part])
    except pytest.skip.Exception as e:  # the tests' word for a device that is not there
        print(e)
        return NO_DEVICE
    except DeviceLost as e:
        print(e)
        return LOST
    return 0


def command(given: Sequence[str], part: str, seconds: float) -> list[str]:
    """Of a process for one part."""
    return [sys.executable, __file__, *given, "--part", part, "--seconds", f"{seconds:.1f}"]


if __name__ == "__main__":
    sys.exit(main())
