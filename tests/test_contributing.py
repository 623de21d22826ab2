"""The worked examples of CONTRIBUTING.md: applied to a copy, they work, and touch what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PARTS = ("kernels", "runtime", "delegates", "customops", "cli", "src", "tests", "tools", "docs")
RUN = """
import sys
import numpy as np
from litedelegate import Interpreter, ModelBuilder
builder = ModelBuilder()
graph = builder.subgraph("main")
x = graph.input("x", (3,))
graph.outputs(graph.custom(sys.argv[1], [x], ("y", (3,), "float32"), options={"high": 2.0}))
interpreter = Interpreter(model_content=builder.build())
print(interpreter.run({"x": np.float32([-1, 0.5, 4])})["y"].tolist())
"""


def blocks(root: Path) -> list[str]:
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return re.findall(r"```diff\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize(
    ("block", "op", "touched", "want"),
    [
        (0, "Reciprocal", ["kernels/unary.py", "tests/cases/unary.py"], "[-1.0, 2.0, 0.25]"),
        (
            1,
            "Clip",
            ["kernels/builtins.py", "kernels/clip.py", "tests/cases/clip.py"],
            "[0.0, 0.5, 2.0]",
        ),
    ],
)
def test_a_worked_example(
    root: Path, tmp_path: Path, block: int, op: str, touched: list[str], want: str
) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    diff = blocks(root)[block]
    assert re.findall(r"^\+\+\+ b/(.*)$", diff, re.MULTILINE) == touched
    for part in PARTS:
        ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
        shutil.copytree(root / part, tmp_path / part, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(root / name, tmp_path / name)
    # without this, git takes a copy inside of a repository for a part of it
    alone = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    subprocess.run(
        ["git", "apply", "-"], input=diff, text=True, cwd=tmp_path, env=alone, check=True
    )
    alone["PYTHONPATH"] = os.pathsep.join(str(tmp_path / part) for part in ("src", "tests"))

    def python(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=alone,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    tests = ("tests/test_ops.py", "tests/test_operators_page.py", "tests/test_types.py")
    chosen = f"{op} or a_registration_has_the_name"
    ran = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, *tests)
    assert int(re.findall(r"(\d+) passed", ran)[0]) >= 4
    assert python("-c", RUN, op).strip() == want
    row = (
        f"import sys; sys.path.insert(0, 'tools'); import operators as o; print(o.types_of({op!r}))"
    )
    assert re.search("float32|floats", python("-c", row))
