"""Builds sdist and wheel, looks into both, installs the wheel alone and runs it.

    python tools/check_wheel.py [--keep FOLDER]

Needs the package `build`. Exits with 1 and a sentence where something is wrong.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("runtime", "kernels", "delegates", "customops", "cli")
SMOKE = """
import sys
import numpy as np
import litedelegate
from litedelegate import Interpreter
from litedelegate.runtime.builder import ModelBuilder

heavy = {"click", "rich", "PIL", "cupy", "pyopencl", "tensorflow"} & set(sys.modules)
assert not heavy, f"import litedelegate loads {heavy}"

builder = ModelBuilder()
graph = builder.subgraph("main")
x = graph.input("x", (2, 3))
one = graph.constant("one", np.ones((2, 3), np.float32))
graph.outputs(graph.op("ADD", [x, one], ("y", (2, 3), "float32")))
out = Interpreter(model_content=builder.build()).run({"x": np.full((2, 3), 2, np.float32)})
assert np.array_equal(out["y"], np.full((2, 3), 3, np.float32)), out
from litedelegate.customops import include_dir
assert (include_dir() / "litedelegate" / "tflite_custom_op.h").is_file(), include_dir()
print("ran a model with", litedelegate.__file__)
"""


def fail(text: str) -> None:
    sys.exit(f"check_wheel: {text}")


def run(*command: str | Path, cwd: Path | None = None) -> str:
    # nothing of this checkout may be found by accident
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode:
        text = " ".join(map(str, command))
        fail(f"{text} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_wheel(wheel: Path) -> None:
    if not wheel.name.endswith("-py3-none-any.whl"):
        fail(f"{wheel.name} is no pure Python wheel for all platforms")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.partition("/")[0] for name in names}
    stray = {top for top in tops if top != "litedelegate" and not top.endswith(".dist-info")}
    if stray:
        fail(f"the wheel installs {sorted(stray)} at top level, beside litedelegate")
    for part in PARTS:
        held = {
            n.removeprefix(f"litedelegate/{part}/")
            for n in names
            if n.startswith(f"litedelegate/{part}/")
        }
        want = {
            str(p.relative_to(ROOT / part).as_posix())
            for p in (ROOT / part).rglob("*")
            if p.is_file() and p.suffix in (".py", ".c", ".h")
        }
        if want - held:
            fail(f"the wheel lacks {sorted(want - held)} of {part}/")
    for name in ("litedelegate/__init__.py", "litedelegate/py.typed"):
        if name not in names:
            fail(f"the wheel lacks {name}")


def check_sdist(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {m.name.partition("/")[2] for m in archive.getmembers()}
    for name in (
        *(f"{part}/__init__.py" for part in PARTS),
        "LICENSE",
        "README.md",
        "pyproject.toml",
    ):
        if name not in names:
            fail(f"the sdist lacks {name}")


def check_install(wheel: Path, folder: Path) -> None:
    venv.create(folder, with_pip=True)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    python = programs / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    print(run(python, "-c", SMOKE, cwd=folder), end="")
    shown = run(programs / "litedelegate", "--help", cwd=folder)
    if "run" not in shown or "inspect" not in shown:
        fail(f"litedelegate --help does not list its commands:\n{shown}")
    if run(python, "-m", "litedelegate", "--version", cwd=folder).strip() == "":
        fail("python -m litedelegate --version prints nothing")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave sdist and wheel here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        out = args.keep or Path(temporary) / "dist"
        out.mkdir(parents=True, exist_ok=True)
        run(sys.executable, "-m", "build", "--outdir", out, ROOT)
        (wheel,) = out.glob("*.whl")
        (sdist,) = out.glob("*.tar.gz")
        check_wheel(wheel)
        check_sdist(sdist)
        check_install(wheel, Path(temporary) / "venv")
        print(f"{wheel.name} ({wheel.stat().st_size / 1024:.0f} KB) and {sdist.name} are right")


if __name__ == "__main__":
    main()
