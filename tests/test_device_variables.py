"""Variables in partitions of the device library: resources, and tensors that ops keep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices import NAMES, device
from test_control import counter, handle

from litedelegate import Interpreter, ModelBuilder
from litedelegate.delegates.opencl import OpenCLDelegate


@pytest.fixture(params=list(NAMES))
def delegate(request: pytest.FixtureRequest, tmp_path: Path) -> OpenCLDelegate:
    found = device(request.param)
    return OpenCLDelegate(found.device.platform.name.strip(), cache=tmp_path, costs="none")


def placed(interpreter: Interpreter) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in interpreter.delegate_coverage().nodes:
        if node.subgraph == 0:
            found.setdefault(node.op, set()).add(node.placed_on)
    return found


def test_a_variable_outlives_an_invoke(delegate: OpenCLDelegate) -> None:
    x = np.float32([1, 2])
    with Interpreter(model_content=counter(), delegates=[delegate]) as interpreter:
        for want in ([101, 102], [102, 104], [103, 106]):
            np.testing.assert_array_equal(interpreter.run({"x": x})["after"], want)
        where = placed(interpreter)
        assert where["READ_VARIABLE"] == where["ASSIGN_VARIABLE"] == where["ADD"] == {"opencl"}
        # back at the start: the variable is another array then
        got = interpreter.run({"x": x}, reset_variables=True)["after"]
        np.testing.assert_array_equal(got, [101, 102])
        np.testing.assert_array_equal(interpreter.run({"x": x})["after"], [102, 104])


def test_variables_are_changed_in_place(
    delegate: OpenCLDelegate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a CPU, which shares its memory: nothing is copied from one side to the other."""
    with Interpreter(model_content=counter(), delegates=[delegate]) as interpreter:
        interpreter.run({"x": np.float32([1, 2])})  # assigned by numpy
        for copy in ("upload", "download"):
            monkeypatch.setattr(delegate.device, copy, lambda *a: pytest.fail("copied"))
        got = interpreter.run({"x": np.float32([1, 2])})["after"]
        np.testing.assert_array_equal(got, [102, 104])


def test_reads_and_assignments_keep_their_order(delegate: OpenCLDelegate) -> None:
    """v = x; a = v; v = 2 x; b = v; then v again, as the next invoke finds it first."""
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (3,))

    def read(name: str) -> Any:
        return g.op("READ_VARIABLE", [handle(g, "v")], (name, (3,), "float32"))

    g.op("ASSIGN_VARIABLE", [handle(g, "v"), g.op("NEG", [x], ("n", (3,), "float32"))], [])
    first = read("first")
    twice = g.op("ADD", [x, x], ("twice", (3,), "float32"), fused_activation_function="NONE")
    g.op("ASSIGN_VARIABLE", [handle(g, "v"), twice], [])
    second = read("second")
    g.outputs(
        g.op("EXP", [first], ("a", (3,), "float32")), g.op("NEG", [second], ("b", (3,), "float32"))
    )
    interpreter = Interpreter(model_content=b.build(), delegates=[delegate])
    for value in ([0, 1, -1], [2, 0.5, 0]):
        got = interpreter.run({"x": np.float32(value)})
        np.testing.assert_allclose(got["a"], np.exp(-np.float32(value)), rtol=1e-6)
        np.testing.assert_array_equal(got["b"], -2 * np.float32(value))
    assert placed(interpreter)["READ_VARIABLE"] == {"opencl"}


@pytest.mark.parametrize("shape, match", [((2,), "is read before"), ((3,), "is read before")])
def test_reading_before_assigning(
    delegate: OpenCLDelegate, shape: Sequence[int], match: str
) -> None:
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", shape)
    before = g.op("READ_VARIABLE", [handle(g, "v")], ("before", shape, "float32"))
    y = g.op("ADD", [before, x], ("y", shape, "float32"), fused_activation_function="NONE")
    g.outputs(y)
    interpreter = Interpreter(model_content=b.build(), delegates=[delegate])
    for _ in range(2):
        with pytest.raises(RuntimeError, match=match):
            interpreter.run({"x": np.zeros(shape, np.float32)})


def test_a_variable_of_another_shape_is_an_error(delegate: OpenCLDelegate) -> None:
    """One signature leaves what the other does not expect."""
    b = ModelBuilder()
    once = b.subgraph("main")
    x = once.input("x", (2,))
    init = b.subgraph("init")
    start = init.constant("start", np.zeros(3, np.float32))
    init.op("ASSIGN_VARIABLE", [handle(init, "v"), start], [])
    once.op("CALL_ONCE", [], [], init_subgraph_index=init.index)
    before = once.op("READ_VARIABLE", [handle(once, "v")], ("before", (2,), "float32"))
    once.outputs(
        once.op("ADD", [before, x], ("y", (2,), "float32"), fused_activation_function="NONE")
    )
    interpreter = Interpreter(model_content=b.build(), delegates=[delegate])
    with pytest.raises(RuntimeError, match=r"holds float32\[3\]; the model declares float32\[2\]"):
        interpreter.run({"x": np.zeros(2, np.float32)})


def test_the_state_of_a_layer_stays_between_invokes(delegate: OpenCLDelegate) -> None:
    """SVDF keeps a window of what it has seen in a variable tensor."""
    rng = np.random.default_rng(3)
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (2, 3))
    weights = g.constant("w", rng.standard_normal((4, 3)).astype(np.float32))
    time = g.constant("t", rng.standard_normal((4, 5)).astype(np.float32))
    state = g.variable("state", (2, 20))
    inputs = [x, weights, time, None, state]
    options = {"rank": 2, "fused_activation_function": "NONE"}
    g.outputs(g.op("SVDF", inputs, ("y", (2, 2), "float32"), **options))
    numpys = Interpreter(model_content=b.build())
    ours = Interpreter(model_content=b.build(), delegates=[delegate])
    for i in range(6):
        value = {"x": rng.standard_normal((2, 3)).astype(np.float32)}
        np.testing.assert_allclose(ours.run(value)["y"], numpys.run(value)["y"], atol=1e-5)
        if i == 2:
            numpys.reset_all_variables()
            ours.reset_all_variables()
    assert placed(ours) == {"SVDF": {"opencl"}}
