"""TensorFlow comes in when a model needs it, and quietly; and what is said where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from flex_models import pack

from litedelegate import Interpreter, ModelBuilder
from litedelegate.cli.main import main
from litedelegate.runtime.find_delegates import make_delegate


def model(op: str = "Atan") -> bytes:
    """y = op(x), with options that only say so."""
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (2,))
    name = op.encode()
    node_def = b"\n\1n\x12" + bytes([len(name)]) + name + b"*\7\n\1T\x12\2\x30\1"  # T: DT_FLOAT
    g.outputs(g.custom(f"Flex{op}", [x], ("y", (2,), "float32"), options=pack(op, node_def)))
    return b.build()


def test_both_ways_out_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("litedelegate.delegates.flex.delegate.is_installed", lambda: False)
    with pytest.raises(ValueError, match=r"TensorFlow is not installed; pip install 'litedel"):
        make_delegate("flex")
    interpreter = Interpreter(model_content=model())
    with pytest.raises(RuntimeError, match="Select TensorFlow op") as e:
        interpreter.allocate_tensors()
    text = str(e.value)
    assert "FlexAtan version 1; node 0; " in text
    assert "TensorFlow is not installed; pip install 'litedelegate[flex]' has what" in text
    assert "custom_ops={'FlexAtan': function}" in text


def test_an_import_that_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(RuntimeError, match="TensorFlow is not installed"):
        Interpreter(model_content=model()).allocate_tensors()


def test_options_for_an_op_in_python() -> None:
    seen = []

    def atan(x: np.ndarray, options: object) -> np.ndarray:
        seen.append(options.flexbuffer(raw=True))  # type: ignore[attr-defined]
        return np.arctan(x)

    with Interpreter(model_content=model(), custom_ops={"FlexAtan": atan}) as interpreter:
        found = interpreter.run({"x": np.ones(2, np.float32)})["y"]
    np.testing.assert_allclose(found, np.arctan(np.ones(2)), rtol=1e-6)
    assert seen[0][0] == b"Atan"
    assert b"Atan" in seen[0][1]


PROGRAM = """
import sys
import numpy as np
from litedelegate import Interpreter, ModelBuilder

b = ModelBuilder()
g = b.subgraph("main")
x = g.input("x", (2,))
g.outputs(g.op("ABS", [x], ("y", (2,), "float32")))
with Interpreter(model_content=b.build(), delegates=DELEGATES) as interpreter:
    interpreter.run({"x": np.ones(2, np.float32)})
assert "tensorflow" not in sys.modules
with Interpreter(MODEL) as interpreter:
    y = interpreter.run({"x": np.ones(2, np.float32)})["y"]
assert abs(y - np.arctan(1)).max() < 1e-6
import os
assert not {"TF_CPP_MIN_LOG_LEVEL", "TF_FORCE_GPU_ALLOW_GROWTH"} & set(os.environ)
"""


@pytest.mark.parametrize("delegates", [[], ["flex"]])
def test_lazily_and_without_a_word(delegates: list[str], tmp_path: Path) -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    (tmp_path / "m.tflite").write_bytes(model())
    program = PROGRAM.replace("DELEGATES", repr(delegates))
    program = program.replace("MODEL", repr(str(tmp_path / "m.tflite")))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_others_say_meanwhile_is_not_lost() -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    program = """
import os
from litedelegate.delegates.flex import library
with library._quiet():
    os.write(2, b"2026 I0000 port.cc:153] oneDNN custom operations are on.\\nsomebody else\\n")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "somebody else\n")


def test_inspect_says_who_runs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(model())
    for installed, text, code in ((True, "by TensorFlow", 0), (False, "not known here", 4)):
        monkeypatch.setattr("litedelegate.cli.inspect.is_installed", lambda known=installed: known)
        done = CliRunner().invoke(main, ["inspect", "--strict", str(path)])
        assert done.exit_code == code, done.output
        assert text in done.output
        assert ("1 operator not known here" in done.output) is not installed
