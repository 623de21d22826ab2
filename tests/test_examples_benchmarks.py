"""The comparison with ai-edge-litert: its arithmetic, and a whole run on the demo's models."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


def benchmark(root: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, root / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def test_difference_speaks_of_floats_and_steps(root: Path) -> None:
    difference = benchmark(root, "measure").difference
    floats = np.array([1, -4], np.float32)
    steps = np.array([1, 100], np.int8)
    assert difference([floats], [floats.copy()]) == "0"
    assert difference([floats + np.float32(0.5)], [floats]) == "1e-01"
    assert difference([steps, floats], [steps + np.int8(1), floats]) == "0, 1 step"
    assert difference([steps], [steps[:1]]) == "shape [2] for [1]"
    assert difference([np.array([b"a"], object)], [np.array([b"b"], object)]) == "other text"


def test_the_mean_counts_what_takes_the_peer_long_enough(root: Path) -> None:
    compare = benchmark(root, "compare")

    def row(name: str, seconds: float, **ratios: float) -> dict[str, object]:
        steady = {"seconds": {"plain_1": seconds}, "ratios": ratios, "best": {"plain": "plain_1"}}
        return {"model": name, "steady": steady}

    rows = [
        row("a", 2e-3, plain=1.0, reference=0.5),
        row("b", 2e-3, plain=4.0),
        row("small", 1e-4, plain=100.0),
        {"model": "broken", "steady": {"error": "no"}},
    ]
    total = compare.summary(rows)
    assert total["counted"] == ["a", "b"]
    assert total["plain"] == pytest.approx(2)
    assert (total["reference"], total["with_reference"]) == (pytest.approx(0.5), ["a"])


def test_a_whole_comparison(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(b"not a model")
    model = root / "examples" / "models" / "digits_int8.tflite"
    done = subprocess.run(
        [
            *(sys.executable, root / "benchmarks" / "compare.py", model, broken),
            *("--seconds", "0.2", "--json", tmp_path / "out.json"),
            *("--markdown", tmp_path / "out.md", "--clean-blas-env"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out.json").read_text())
    good, bad = result["rows"]
    assert good["steady"]["errors"] == {}
    assert good["steady"]["difference"]["reference"] == "0 steps"
    assert set(good["steady"]["ratios"]) == {"plain", "default", "reference"}
    for which in ("litedelegate", "peer"):
        assert good[which]["memory"] > good[which]["memory_before"] * 0.99 > 1e6
        assert min(good[which][phase] for phase in ("load", "allocate", "first")) > 0
        assert 0 < result["setup"]["import_seconds"][which] < 60
    assert not {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"} & set(result["setup"]["blas_settings"])
    assert "InvalidModelError" in bad["steady"]["errors"]["litedelegate"]
    table = (tmp_path / "out.md").read_text()
    assert "| digits_int8 |" in table and "* broken: litedelegate: InvalidModelError" in table
