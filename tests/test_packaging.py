"""What gets installed, what importing costs, and the checks that CI relies on."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

import litedelegate

PARTS = ("runtime", "kernels", "delegates", "customops", "cli")


def tool(root: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tools_{name}", root / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_the_folder_at_the_root(root: Path, part: str) -> None:
    assert (root / "src" / "litedelegate" / part).resolve() == root / part


def test_wheel_and_sdist_hold_the_package_and_nothing_else(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, root]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    check = tool(root, "check_wheel")
    check.check_wheel(next(tmp_path.glob("*.whl")))
    check.check_sdist(next(tmp_path.glob("*.tar.gz")))


def test_import_loads_numpy_alone() -> None:
    loaded = python("import sys; from litedelegate import Interpreter; print(*sys.modules)").split()
    assert "numpy" in loaded
    unwanted = {"flatbuffers", "ml_dtypes", "click", "rich", "PIL"}
    unwanted |= {"cupy", "pyopencl", "tensorflow"}
    assert not unwanted & {name.partition(".")[0] for name in loaded}


def test_import_is_quick() -> None:
    """Below 0.15 s with numpy; on a busy machine three times what numpy takes alone."""
    code = (
        "import time; start = time.perf_counter(); import numpy; middle = time.perf_counter(); "
        "from litedelegate import Interpreter; "
        "print(middle - start, time.perf_counter() - start)"
    )
    runs = [[float(v) for v in python(code).split()] for _ in range(8)]
    numpy_alone, both = map(min, zip(*runs, strict=True))
    assert both < max(0.15, 3 * numpy_alone)


def test_version_is_the_installed_one() -> None:
    assert litedelegate.__version__ == version("litedelegate")


def test_size_counts_lines_of_code(root: Path) -> None:
    text = (
        '"""Doc."""\n# comment\nx = (\n    1,\n)\ndef f():\n    """Doc\n    more."""\n    return x'
    )
    assert tool(root, "size").python_lines(text) == 5
    assert tool(root, "size").device_lines("/* a */\n\nint x;  // y\n// z\n") == 1


def test_contracts_find_breaches(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grimp = pytest.importorskip("grimp")
    monkeypatch.syspath_prepend(str(root))
    from tools.import_contracts import FamiliesContract, OnlyContract

    graph = grimp.ImportGraph()
    for importer, imported in (
        ("p.kernels.a", "numpy"),
        ("p.kernels.a", "p.kernels.b"),
        ("p.kernels.a", "p.kernels._c"),
        ("p.kernels._c", "math"),
        ("p.kernels._c", "scipy"),
        ("p.kernels.b", "p.kernels.api"),
    ):
        graph.add_import(importer=importer, imported=imported)
    only = OnlyContract("", {}, {"allowed": ["p.kernels: numpy"]})
    assert only.breaches(graph) == ["p.kernels._c imports scipy"]
    families = FamiliesContract("", {}, {"package": "p.kernels", "shared": ["api"]})
    assert families.breaches(graph) == ["p.kernels.a imports p.kernels.b"]
