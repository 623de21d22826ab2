"""The Atan example runs and gives the numbers of TensorFlow Lite's custom-op guide."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from litedelegate import Interpreter

Y = np.array([-1.4288993, 0.98279375, 1.2490457, 1.2679114, 1.5658458], np.float32)


@pytest.fixture
def atan(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("atan_example", root / "examples" / "atan.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("form", ["ATAN", "atan"])
def test_both_forms(atan: ModuleType, form: str) -> None:
    interpreter = Interpreter(
        model_content=atan.make_model(1.0), custom_ops={"Atan": getattr(atan, form)}
    )
    np.testing.assert_allclose(interpreter.run({"x": atan.X})["y"], Y, rtol=2e-7)


@pytest.mark.parametrize("compiler", [False, True])
def test_it_runs(root: Path, compiler: bool) -> None:
    if compiler and shutil.which("cc") is None:
        pytest.skip("no C compiler (cc) on PATH")
    path = os.environ["PATH"] if compiler else ""
    run = subprocess.run(
        [sys.executable, str(root / "examples" / "atan.py")],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(root / "src"), "PATH": path, "LITEDELEGATE_CACHE": ""},
    )
    assert "Encountered unresolved custom op: Atan." in run.stdout
    before, _, after = run.stdout.partition("in C:")
    in_c, _, devices = after.partition("on opencl:")
    assert before.count("y = [-1.4288993") == 2
    assert ("y = [-1.4288993" if compiler else "no C compiler") in in_c
    assert devices.count("y = [-1.4288993") == devices.count("0 on the cpu")
    assert run.stdout.count("free: 1.0") == 1
