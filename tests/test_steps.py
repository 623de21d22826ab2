"""A call in steps gives what `run` gives; what is not resolved can be asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_delegates import ones, zigzag
from test_device_custom_ops import model

from litedelegate import Interpreter
from litedelegate.runtime.steps import Steps


def test_steps_of_a_call() -> None:
    interpreter = Interpreter(model_content=zigzag())
    steps = Steps(interpreter)
    assert list(steps.inputs) == ["t0"] and list(steps.outputs) == ["t6"]
    for rows in (1, 3):
        steps.allocate({"t0": (rows, 4)})
        steps.fill({"t0": ones(rows, 4)})
        steps.invoke()
        got = interpreter.get_tensor(steps.outputs["t6"]["index"])
        np.testing.assert_array_equal(got, 22 * ones(rows, 4))


def test_steps_of_a_signature(models: Path) -> None:
    path = models / "lyra_quantizer_two_signatures.tflite"
    interpreter, plain = Interpreter(path), Interpreter(path)
    for key in interpreter.get_signature_list():
        steps = Steps(interpreter, key)
        values = {name: np.ones(d["shape"], d["dtype"]) for name, d in steps.inputs.items()}
        want = plain.run(values, signature_key=key)
        steps.allocate({name: v.shape for name, v in values.items()})
        steps.fill(values)
        steps.invoke()
        assert set(steps.outputs) == set(want)
    with pytest.raises(ValueError, match="no such signature"):
        Steps(interpreter, "no such signature")


def test_what_is_not_resolved() -> None:
    content = model("Mystery", "Riddle")
    text = Interpreter(model_content=content).unresolved_ops
    assert text is not None and "Mystery" in text and "Riddle" in text
    known = {"Mystery": lambda x: x, "Riddle": lambda x: x}
    assert Interpreter(model_content=content, custom_ops=known).unresolved_ops is None
