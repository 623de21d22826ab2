"""The delegate of examples/ does what its page says."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from test_delegates import ones, zigzag

from litedelegate import Interpreter, ModelBuilder
from litedelegate.cli import main

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
NAME = "simple_delegate:Arithmetic"


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


def test_it_computes() -> None:
    with Interpreter(model_content=zigzag(), delegates=[NAME]) as interpreter:
        for rows in (1, 3):
            got = interpreter.run({"t0": ones(rows, 4)})["t6"]
            np.testing.assert_array_equal(got, np.full((rows, 4), 22, np.float32))
        (partition,) = interpreter.delegate_coverage().partitions
    assert partition.kernels == ["add", "multiply"] * 3


def test_it_says_what_it_does_not_take() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    x, i = g.input("x", (2,)), g.input("i", (2,), "int32")
    relu = g.op("ADD", [x, x], ("r", (2,), "float32"), fused_activation_function="RELU")
    whole = g.op("ADD", [i, i], ("w", (2,), "int32"))
    g.outputs(g.op("NEG", [relu], ("n", (2,), "float32")), whole)
    with Interpreter(model_content=b.build(), delegates=[NAME]) as interpreter:
        report = interpreter.delegate_coverage()
    assert [(n.op, n.refusals[0].code, n.refusals[0].text) for n in report.nodes] == [
        ("ADD", "OPTION", "fused_activation_function is RELU; takes NONE"),
        ("ADD", "DTYPE", "'i' is int32[2]; takes float32"),
        ("NEG", "OP", "got NEG; takes ADD, SUB, MUL"),
    ]


@pytest.mark.parametrize("command", ["run", "benchmark"])
def test_run_and_benchmark_take_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    path = tmp_path / "z.tflite"
    path.write_bytes(zigzag())
    more = ["-i", "ones"] if command == "run" else ["--runs", "5"]
    with pytest.raises(SystemExit) as end:
        main([command, str(path), "-d", NAME, *more], prog_name="litedelegate")
    assert end.value.code == 0
    out = capsys.readouterr().out
    assert ("22" if command == "run" else "6 of 6 delegated in 1 partition") in out


@pytest.mark.parametrize("command", ["coverage", "verify"])
def test_modules_of_the_current_folder(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    """A script that is installed does not look there by itself."""
    (tmp_path / "z.tflite").write_bytes(zigzag())
    (tmp_path / f"mine_{command}.py").write_text("from simple_delegate import Arithmetic\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(tmp_path))])
    with pytest.raises(SystemExit) as end:
        main([command, "z.tflite", "-d", f"mine_{command}:Arithmetic"], prog_name="litedelegate")
    assert end.value.code == 0
    assert "6 of 6 delegated in 1 partition" in capsys.readouterr().out


def test_verify_says_where_nothing_was_compared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (2,))
    g.outputs(g.op("NEG", [x], ("n", (2,), "float32")))
    path = tmp_path / "n.tflite"
    path.write_bytes(b.build())
    with pytest.raises(SystemExit):
        main(["verify", str(path), "-d", NAME], prog_name="litedelegate")
    out = capsys.readouterr().out
    assert "nothing was compared" in out and "no result differs" not in out
