"""Calls taken whole by the device library: the called subgraph's nodes in the caller's place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices import NAMES, device

from litedelegate import Interpreter, ModelBuilder
from litedelegate.delegates.opencl import OpenCLDelegate

NONE = {"fused_activation_function": "NONE"}


@pytest.fixture(params=list(NAMES))
def delegate(request: pytest.FixtureRequest, tmp_path: Path) -> OpenCLDelegate:
    found = device(request.param)
    return OpenCLDelegate(found.device.platform.name.strip(), cache=tmp_path, costs="none")


def calls(depth: int, shapes: tuple[tuple[int, ...], ...] = ((3,), (3,))) -> bytes:
    """y = f(x) + f(z), f(v) = exp(v) * v + 1, through `depth` calls."""
    b = ModelBuilder()
    g = b.subgraph("main")
    x, z = (g.input(name, shape) for name, shape in zip("xz", shapes, strict=True))
    for level in range(1, depth + 1):
        s = b.subgraph(f"f{level}")
        v = s.input("v", shapes[0])
        if level < depth:
            options = {"decomposition_subgraph_index": level + 1, "name": "f"}
            result = s.op("STABLEHLO_COMPOSITE", [v], ("r", shapes[0], "float32"), **options)
        else:
            e = s.op("EXP", [v], ("e", shapes[0], "float32"))
            m = s.op("MUL", [e, v], ("m", shapes[0], "float32"), **NONE)
            one = s.constant("one", np.ones(1, np.float32))
            result = s.op("ADD", [m, one], ("r", shapes[0], "float32"), **NONE)
        s.outputs(result)
    options = {"decomposition_subgraph_index": 1, "name": "f"}
    made = [
        g.op("STABLEHLO_COMPOSITE", [t], (f"f{name}", shape, "float32"), **options)
        for t, name, shape in zip((x, z), "xz", shapes, strict=True)
    ]
    g.outputs(g.op("ADD", made, ("y", shapes[1], "float32"), **NONE))
    return b.build()


def run(interpreter: Interpreter, inputs: dict[str, Any]) -> Any:
    first = interpreter.run(inputs)["y"]
    np.testing.assert_array_equal(interpreter.run(inputs)["y"], first)
    return first


@pytest.mark.parametrize("depth", [1, 3])
def test_calls_become_part_of_the_caller(delegate: OpenCLDelegate, depth: int) -> None:
    inputs = {"x": np.float32([1, -2, 0.5]), "z": np.float32([0, 3, -1])}
    want = run(Interpreter(model_content=calls(depth)), inputs)
    interpreter = Interpreter(model_content=calls(depth), delegates=[delegate])
    np.testing.assert_allclose(run(interpreter, inputs), want, rtol=1e-6)
    report = interpreter.delegate_coverage()
    main = [n for n in report.nodes if n.subgraph == 0]
    assert {n.placed_on for n in main} == {"opencl"}
    assert main[0].partition is not None and {n.partition for n in main} == {main[0].partition}
    assert any("EXP" in kernel for kernel in report.partitions[main[0].partition].kernels)


def test_a_call_with_other_shapes_than_the_last_one_is_refused(delegate: OpenCLDelegate) -> None:
    """The subgraph has the shapes of one caller at a time."""
    content = calls(1, ((1,), (3,)))
    inputs = {"x": np.float32([2]), "z": np.float32([0, 3, -1])}
    want = run(Interpreter(model_content=content), inputs)
    interpreter = Interpreter(model_content=content, delegates=[delegate])
    np.testing.assert_allclose(run(interpreter, inputs), want, rtol=1e-6)
    first, second, _ = (n for n in interpreter.delegate_coverage().nodes if n.subgraph == 0)
    assert [r.code for r in first.refusals] == ["SHAPE"] and second.placed_on == "opencl"
