"""The bundle example runs, and shows what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import bundle_extra  # noqa: F401


def test_it_runs(root: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(root / "examples" / "bundle.py")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root / "src")},
    )
    assert run.returncode == 0, run.stderr
    assert "y = [-1.4056476" in run.stdout
    for error in ("BundleOutdated", "BundleAltered", "BundleWrongKey"):
        assert f"\n{error}: " in run.stdout
