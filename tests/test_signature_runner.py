"""`SignatureRunner`, as tf.lite has it."""

from __future__ import annotations

import numpy as np
import pytest
import toy_models

from litedelegate import Interpreter, SignatureRunner

X = np.array([2, 3], np.float32)


def test_calls_by_name() -> None:
    interpreter = Interpreter(model_content=toy_models.add())
    run = interpreter.get_signature_runner()
    one = np.ones((1, 4), np.float32)
    out = run(a=one, b=2 * one)
    assert list(out) == ["sum"]
    np.testing.assert_array_equal(out["sum"], 3 * one)


def test_each_signature_has_its_subgraph() -> None:
    interpreter = Interpreter(model_content=toy_models.two_signatures())
    double, square = (interpreter.get_signature_runner(k) for k in ("double", "square"))
    for _ in range(2):
        assert double(x=X)["y"].tolist() == [4, 6]
        assert square(x=X)["y"].tolist() == [4, 9]
    assert interpreter.num_subgraphs() == 2
    assert [t["name"] for t in interpreter.get_tensor_details(1)] == ["square_x", "square_y"]
    assert interpreter.get_tensor(1, 1).tolist() == [4, 9]


def test_signature_list_is_sorted() -> None:
    interpreter = Interpreter(model_content=toy_models.add())
    assert interpreter.get_signature_list() == {
        "serving_default": {"inputs": ["a", "b"], "outputs": ["sum"]}
    }
    assert interpreter._get_full_signature_list()["serving_default"]["inputs"] == {"a": 1, "b": 0}
    assert Interpreter(model_content=toy_models.chain()).get_signature_list() == {}


def test_inputs_are_resized() -> None:
    run = Interpreter(model_content=toy_models.add()).get_signature_runner("serving_default")
    for n in (1, 3, 2):
        x = np.ones((n, 4), np.float32)
        assert run(a=x, b=x)["sum"].shape == (n, 4)


def test_details_by_name() -> None:
    run = Interpreter(model_content=toy_models.add()).get_signature_runner()
    inputs, outputs = run.get_input_details(), run.get_output_details()
    assert {k: d["name"] for k, d in inputs.items()} == {"a": "y:0", "b": "x:0"}
    assert {k: d["index"] for k, d in outputs.items()} == {"sum": 2}


def test_errors() -> None:
    interpreter = Interpreter(model_content=toy_models.two_signatures())
    with pytest.raises(
        ValueError, match="SignatureDef signature_key is None and model has 2 Signatures"
    ):
        interpreter.get_signature_runner()
    with pytest.raises(ValueError, match='Invalid signature_key provided: "none"'):
        interpreter.get_signature_runner("none")
    with pytest.raises(ValueError, match="model has 0 Signatures"):
        Interpreter(model_content=toy_models.chain()).get_signature_runner()
    run = interpreter.get_signature_runner("double")
    with pytest.raises(ValueError, match="expected 1 vs provided 2"):
        run(x=X, y=X)
    with pytest.raises(ValueError, match=r"Invalid Input name \(z\) for SignatureDef.*x"):
        run(z=X)
    with pytest.raises(ValueError, match="None interpreter provided"):
        SignatureRunner()
    with pytest.raises(ValueError, match="None signature_key provided"):
        SignatureRunner(interpreter)


def test_a_held_view_is_named_here_too() -> None:
    interpreter = Interpreter(model_content=toy_models.flexible_batch())
    interpreter.allocate_tensors()
    held = interpreter.tensor(0)()
    with pytest.raises(RuntimeError, match="'x'"):
        interpreter.run({"x": np.ones((1, 2, 2), np.float32)})
    del held
