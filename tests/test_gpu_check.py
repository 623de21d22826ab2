"""`benchmarks/gpu_check.py`, which is to work the first time on real hardware, on the stand-in."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices import cuda_device
from test_opencl import residual

from litedelegate.delegates.cuda import device

ROOT = Path(__file__).parent.parent


@pytest.fixture
def gpu_check(monkeypatch: pytest.MonkeyPatch) -> Any:
    cuda_device("cuda-standin")  # skips where there is nothing to stand on
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.setattr(device, "library", device.library)  # which the script replaces
    module = importlib.import_module("gpu_check")
    # the parts run in this process, where they can be changed
    supervisor = importlib.import_module("gpu_supervisor")
    monkeypatch.setattr(supervisor, "_run", lambda given, most: module.main(given[2:]))
    monkeypatch.setattr(module, "TIMING_SECONDS", 0.01)
    monkeypatch.setattr(module, "ROUNDS", 3)
    return module


def run(module: Any, tmp_path: Path, *more: str) -> tuple[int, dict[str, Any]]:
    out = tmp_path / "out.json"
    code = module.main(["--standin", "--models", str(tmp_path), "--out", str(out), *more])
    return code, json.loads(out.read_text())


def test_all_of_it(gpu_check: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "softmax_is_its_name.tflite").write_bytes(residual())
    code, report = run(gpu_check, tmp_path, "--only", "softmax")
    assert report["wrong"] == [] and code == 0
    assert report["environment"]["capability"]["name"] == "sm_90"
    assert report["cases"]["counts"]["right"] >= 10
    model = report["models"]["softmax_is_its_name"]
    assert model["share_of_nodes"] == 1.0 and model["kernels"] == 1
    assert set(model["ms"]) == {"numpy", "one by one", "graphs", "half"}
    assert set(report["fragments"].values()) - {report["fragments"]["seconds"]} == {"right"}
    for part in ("cupy_arrays", "users_stream", "asynchronous"):
        assert report["arrays"][part] == "right"
    del report["operators"]["seconds"]
    for name, operator in report["operators"].items():
        for way, most in (("ours", 1e-5), ("ours with cuBLAS", 1e-5), ("ours, half", 2e-2)):
            assert operator["off"][way]["relative"] < most, name
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) <= 30 and shown[0].endswith(": 0 things are wrong")
    assert any("matrix units: 4 of 4" in line for line in shown)


def test_what_is_wrong_is_said(
    gpu_check: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(backend: str, key: str) -> None:
        raise AssertionError(f"{key} on {backend}")

    monkeypatch.setattr(gpu_check.test_device, "check_case", fails)
    (tmp_path / "softmax.tflite").write_bytes(b"no model")
    code, report = run(gpu_check, tmp_path, "--only", "softmax")
    assert code == 1 and any("softmax-SOFTMAX-0 on cuda-standin" in w for w in report["wrong"])
    assert "error" in report["models"]["softmax"]


def test_no_gpu(gpu_check: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def skips(backend: str) -> None:
        pytest.skip("there is no CUDA device")

    monkeypatch.setattr(gpu_check, "cuda_device", skips)
    assert gpu_check.main(["--out", str(tmp_path / "out.json")]) == 2
    assert not (tmp_path / "out.json").exists()


def test_it_stops_in_time(gpu_check: Any, tmp_path: Path) -> None:
    code, report = run(gpu_check, tmp_path, "--only", "softmax", "--seconds", "0")
    cases = [k for k in gpu_check.test_device.KEYS if k.startswith("softmax")]
    assert report["cases"]["counts"] == {gpu_check.OUT_OF_TIME: len(cases)}
    assert report["operators"]["EXP"] == gpu_check.OUT_OF_TIME and code == 0


def test_what_a_part_leaves_is_taken_up(gpu_check: Any, tmp_path: Path) -> None:
    """A process that died at an item: the next one goes on behind it, and says so."""
    out = tmp_path / "out.json"
    left = {"done": ["cupy_arrays"], "now": "users_stream", "arrays": {"cupy_arrays": "was right"}}
    out.write_text(json.dumps(left))
    options = ["--standin", "--models", str(tmp_path), "--out", str(out), "--part", "arrays"]
    assert gpu_check.main(options) == 0
    found = json.loads(out.read_text())
    assert found["wrong"] == ["users_stream: the process ended"]
    assert found["arrays"]["cupy_arrays"] == "was right"
    assert "users_stream" not in found["arrays"] and found["arrays"]["asynchronous"] == "right"
    assert "now" not in found and not list(tmp_path.glob("*.part"))


def test_a_device_that_is_lost_ends_the_process(
    gpu_check: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faults(backend: str, key: str) -> None:
        def upload(buffer: Any, array: Any) -> None:
            raise RuntimeError("an illegal memory access was encountered")

        monkeypatch.setattr(cuda_device(backend), "upload", upload)
        raise AssertionError("no result")

    monkeypatch.setattr(gpu_check.test_device, "check_case", faults)
    out = tmp_path / "out.json"
    options = ["--standin", "--only", "softmax", "--out", str(out), "--part", "cases"]
    assert gpu_check.main(options) == gpu_check.LOST
    found = json.loads(out.read_text())
    assert found["done"] == ["cases of softmax"] and "illegal memory" in found["wrong"][0]
    monkeypatch.undo()


_CHILD = """
import json, os, sys, time
out, part = sys.argv[1:]
found = json.load(open(out)) if os.path.exists(out) else {"tries": []}
found["tries"].append(part)
found["now"] = part
json.dump(found, open(out, "w"))
if part == "hangs":
    time.sleep(99)
if part == "faults" and found["tries"].count(part) < 3:
    os.abort()
del found["now"]
json.dump(found, open(out, "w"))
"""


def test_processes_that_hang_and_fault(
    gpu_check: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    supervisor = importlib.import_module("gpu_supervisor")
    monkeypatch.setattr(supervisor, "GRACE", 0.5)
    out = tmp_path / "out.json"

    def command(part: str, seconds: float) -> list[str]:
        return [sys.executable, "-c", _CHILD, str(out), part]

    parts = [("faults", 0.5), ("hangs", 0.51), ("last", 1.0)]
    supervisor.supervise(parts, 8.0, out, command)
    found = json.loads(out.read_text())
    assert found["tries"] == ["faults"] * 3 + ["hangs"] * found["tries"].count("hangs") + ["last"]
    assert "now" not in found


@pytest.mark.parametrize(
    ("want", "got", "off"),
    [
        ([1.0, 4.0], [1.0, 3.0], {"relative": 0.25}),
        ([1, 4], [2, 4], {"relative": 0.25, "steps": 1.0}),
        ([np.nan, 2.0], [np.nan, 2.0], {"relative": 0.0}),
    ],
)
def test_differences(gpu_check: Any, want: Any, got: Any, off: Any) -> None:
    assert gpu_check.difference(np.array(want), np.array(got)) == off
