"""`benchmarks/gpu_check.py`, which is to work the first time on real hardware, on the stand-in."""

from __future__ import annotations

import importlib
import json
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
    monkeypatch.setattr(module, "TIMING_SECONDS", 0.01)
    monkeypatch.setattr(module, "ROUNDS", 3)
    return module


def run(module: Any, tmp_path: Path, *more: str) -> tuple[int, dict[str, Any]]:
    out = tmp_path / "out.json"
    code = module.main(["--standin", "--models", str(tmp_path), "--out", str(out), *more])
    return code, json.loads(out.read_text())


def test_all_of_it(gpu_check: Any, tmp_path: Path) -> None:
    (tmp_path / "softmax_is_its_name.tflite").write_bytes(residual())
    code, report = run(gpu_check, tmp_path, "--only", "softmax")
    assert report["wrong"] == [] and code == 0
    assert report["environment"]["capability"]["name"] == "sm_90"
    assert report["cases"]["counts"]["right"] >= 10
    model = report["models"]["softmax_is_its_name"]
    assert model["share_of_nodes"] == 1.0 and model["kernels"] == 1
    assert set(model["ms"]) == {"numpy", "one by one", "graphs"}
    for part in ("cupy_arrays", "users_stream", "asynchronous"):
        assert report["arrays"][part] == "right"
    for operator in report["operators"].values():
        assert operator == report["operators"]["seconds"] or operator["off"]["ours"] is not None


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
