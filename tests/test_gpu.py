"""On a real NVIDIA GPU, wherever CuPy finds one: what the stand-in cannot show.

The case tables run on it in `test_device.py`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from devices import cuda_device

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.gpu


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, models: Path) -> Any:
    cuda_device("cuda")  # skips, saying why, where there is none
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    module = importlib.import_module("gpu_check")
    monkeypatch.setattr(module, "TIMING_SECONDS", 0.05)
    made = module.Check(models, 120.0)
    made._end = float("inf")
    return made


def test_arrays_streams_and_cublas(check: Any) -> None:
    found: dict[str, Any] = {}
    check.arrays(found)
    assert check.wrong == [], found


def test_operators(check: Any) -> None:
    found: dict[str, Any] = {}
    check.operators(found)
    assert check.wrong == [], found
    for name, operator in found.items():
        for way, most in (("ours", 1e-4), ("ours with cuBLAS", 1e-4), ("ours, half", 2e-2)):
            assert operator["off"][way]["relative"] < most, name


@pytest.mark.parametrize("name", ["mobilenet_v1_0.25_128_u8", "resnet8_int8", "vww_96_f32"])
def test_models(check: Any, models: Path, name: str) -> None:
    found = check.model(models / f"{name}.tflite")
    assert found["share_of_nodes"] == 1.0 and found["not_recorded"] == []
    for off in found["off"]:
        assert off["relative"] < 1e-4, found
