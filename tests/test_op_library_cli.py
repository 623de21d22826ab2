"""`litedelegate op`: include, build, test, profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_libraries import built
from click.testing import CliRunner, Result

from litedelegate import load_op_library
from litedelegate.cli import main

ATAN = "examples/atan_c/atan.c"
ONE = ("--options", '{"offset": 1.0}')


def op(*arguments: Any, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["op", *map(str, arguments)])
    assert result.exit_code == code, (result.exit_code, result.output)
    return result


@pytest.fixture
def reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"reference_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(
        "import numpy as np\n"
        "def atan(x, offset=0.0): return np.arctan(x + np.float32(offset))\n"
        "def wrong(x, offset=0.0): return np.arctan(x)\n"
        "def short(x, offset=0.0): return np.arctan(x[:1])\n"
    )
    return name


def test_include() -> None:
    folder = Path(op("include").output.strip())
    assert (folder / "litedelegate" / "tflite_custom_op.h").is_file()


def test_build_then_test(root: Path, reference: str, tmp_path: Path) -> None:
    built(ATAN)  # skips where there is no compiler
    output = tmp_path / "atan.so"
    assert str(output) in op("build", root / ATAN, "-o", output).output
    assert list(load_op_library(output)) == ["Atan"]
    shown = op("test", output, "-i", "float32:2x3", *ONE, "--reference", f"{reference}:atan")
    assert "differ by at most" in shown.output and "float32 2×3" in shown.output


def test_given_inputs(tmp_path: Path) -> None:
    x = np.array([-8, 0.5, 2, 2.2, 201], np.float32)
    np.save(tmp_path / "x.npy", x)
    shown = op("test", built(ATAN), "-i", tmp_path / "x.npy", *ONE, "--json").output
    values = json.loads(shown)["outputs"][0]["values"]
    want = [-1.4288993, 0.98279375, 1.2490457, 1.2679114, 1.5658458]
    np.testing.assert_allclose(values, want, rtol=2e-7)


@pytest.mark.parametrize(("name", "text"), [("wrong", "differ by at most"), ("short", "shape")])
def test_a_difference_is_an_exit_code(reference: str, name: str, text: str) -> None:
    library = built(ATAN)
    spec = f"{reference}:{name}"
    shown = op("test", library, "-i", "float32:9", *ONE, "--reference", spec, code=1)
    assert f"Atan and {spec} differ" in shown.output and text in shown.output


def test_strings_and_one_of_several() -> None:
    kinds = built("tests/c_ops/kinds.c")
    result = json.loads(op("test", kinds, "--op", "Join", "-i", "string:2", "--json").output)
    assert result["outputs"][0]["values"] == ["string 00", "string 11"]
    assert "--op is one of ZeroOut, Half" in op("test", kinds, "-i", "int32:2", code=2).output


def test_profile(reference: str) -> None:
    result = json.loads(
        op(
            *("profile", built(ATAN), "-i", "float32:100", *ONE, "--runs", 20, "--json"),
            *("--reference", f"{reference}:atan"),
        ).output
    )
    times = result["invoke_seconds"]
    assert times["runs"] == 20 and 0 < times["min"] <= times["median"] <= times["p90"]
    assert result["reference_seconds"]["runs"] == 20 and result["reference"][0]["agrees"]
    assert "median" in op("profile", built(ATAN), "-i", "float32:100", "--runs", 5).output


def test_an_op_in_python(reference: str) -> None:
    result = op("test", f"{reference}:atan", "-i", "float32:4", *ONE, "--json").output
    assert json.loads(result)["op"] == "atan"


def test_errors(root: Path, tmp_path: Path) -> None:
    library = built(ATAN)
    assert "INT32 != FLOAT32" in op("test", library, "-i", "int32:3", code=1).output
    assert "is no TYPE:SHAPE" in op("test", library, "-i", "float31:3", code=2).output
    assert "is no JSON" in op("test", library, "-i", "int32:3", "--options", "{", code=2).output
    none = ("test", library, "-i", "float32:3", "--reference", "no_such_module:f")
    assert "cannot be had" in op(*none, code=2).output
    (tmp_path / "bad.c").write_text("int f(void) { return nothing; }\n")
    assert "nothing" in op("build", tmp_path / "bad.c", code=1).output
    (tmp_path / "text.so").write_text("no library " * 20)
    assert (
        "is no shared library" in op("test", tmp_path / "text.so", "-i", "float32:3", code=1).output
    )


def test_on_a_delegate(reference: str, tmp_path: Path) -> None:
    """Where it ran is said, and why not where it was meant to."""
    (tmp_path / f"{reference}_delegate.py").write_text(
        "from fake_delegates import Fake\n"
        "import numpy as np\n"
        "from litedelegate import custom_op\n"
        "ABS = custom_op('ABS', shape='same')(np.abs)\n"
    )
    module = f"{reference}_delegate"
    given = ("-i", "float32:4", *("-d", f"{module}:Fake"), "--json", "--reference", "numpy:abs")
    for op_name, want in (("ABS", "fake"), ("Own", "cpu (fake: ")):
        found = op("test", f"{module}:ABS", "--op", op_name, *given).output
        assert json.loads(found)["runs_on"].startswith(want)
    assert "runs on" in op("profile", f"{module}:ABS", "--runs", 5, *given[:4]).output
    assert "no delegate named 'abacus'" in op(
        *("test", f"{module}:ABS", "-i", "float32:4", "-d", "abacus"), code=1
    ).output  # fmt: skip
