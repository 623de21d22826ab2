"""Small kernels in a row become one launch on CPUs, and compute what they did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices import NAMES, device

from litedelegate import Interpreter, ModelBuilder
from litedelegate.delegates.gpu.merge import _BODIES, _MOST, merged
from litedelegate.delegates.gpu.render import Text, program
from litedelegate.delegates.opencl import OpenCLDelegate
from litedelegate.kernels.device import PROFILES

CPU, GPU = PROFILES["intel-cpu"], PROFILES["opencl-gpu"]
NONE = {"fused_activation_function": "NONE"}


@pytest.fixture(params=list(NAMES))
def delegate(request: pytest.FixtureRequest, tmp_path: Path) -> OpenCLDelegate:
    found = device(request.param)
    return OpenCLDelegate(found.device.platform.name.strip(), cache=tmp_path, costs="none")


def model(size: int) -> bytes:
    """x, turned, divided by d (a fault where that is 0), turned back, and so on: no two join."""
    b = ModelBuilder()
    g = b.subgraph("main")
    x, d = g.input("x", (2, size), "int32"), g.input("d", (1,), "int32")
    axes = g.constant("axes", np.array([1, 0], np.int32))
    y = x
    for i in range(4):
        shape = (size, 2) if i % 2 == 0 else (2, size)
        y = g.op("TRANSPOSE", [y, axes], (f"t{i}", shape, "int32"))
        y = g.op("DIV", [y, d], (f"d{i}", shape, "int32"), **NONE)
        y = g.op("ADD", [y, y], (f"a{i}", shape, "int32"), **NONE)
    g.outputs(y, g.op("ADD", [y, x], ("z", (2, size), "int32"), **NONE))
    return b.build()


@pytest.mark.parametrize(("size", "joined"), [(30, True), (3000, False)])
def test_small_kernels_are_one_launch(delegate: OpenCLDelegate, size: int, joined: bool) -> None:
    interpreter = Interpreter(model_content=model(size), delegates=[delegate])
    plain = Interpreter(model_content=model(size))
    x = np.random.default_rng(1).integers(-999, 999, (2, size)).astype(np.int32)
    for divisor in (3, -2, 7):
        inputs = {"x": x, "d": np.array([divisor], np.int32)}
        got = interpreter.run(inputs)
        for name, want in plain.run(inputs).items():
            np.testing.assert_array_equal(got[name], want)
    with pytest.raises(RuntimeError, match="Division by 0"):
        interpreter.run({"x": x, "d": np.array([0], np.int32)})
    with interpreter.profile() as profile:
        interpreter.run(inputs)
    kernels = [w.name for w in profile.device.work() if w.kind == "kernel"]
    (partition,) = interpreter.delegate_coverage().partitions
    if joined:
        assert kernels == [f"{len(partition.kernels)} kernels: TRANSPOSE+DIV+ADD, ADD"]
    else:
        assert sorted(kernels) == sorted(partition.kernels)


def text(number: int, grid: tuple[int, ...] = (1,), **more: Any) -> Text:
    if "call" in more:
        return Text("", (number,), (), None, (), False, False, more["call"])
    source = f"KERNEL void KERNEL_NAME(GLOBAL f32* RESTRICT ptr_0) {{ *ptr_0 += {number}; }}\n"
    return Text(source, (number,), grid, None, (), False, more.pop("brought", False), **more)


def test_what_is_joined() -> None:
    small = [text(i) for i in range(3)]
    wide, foreign, library = text(4, (2,)), text(5, brought=True), text(6, call=print)
    order = [*small, wide, *small[:2], foreign, small[0], library, small[1]]
    assert [n for _, n in merged(order, CPU)] == [3, 1, 2, 1, 1, 1, 1]
    assert [n for _, n in merged(order, GPU)] == [1] * len(order)
    assert [n for _, n in merged([text(0)] * (_MOST + 5), CPU)] == [_MOST, 5]
    many = merged([text(i) for i in range(200)], CPU)
    assert sum(n for _, n in many) == 200
    assert max(len(t.args) for t, _ in many) <= 64


def test_compiling_has_a_bound() -> None:
    """What is joined again and again counts once."""
    rows = [text(i) for i in range(2000)]
    counts = [n for _, n in merged(rows, CPU)]
    assert sum(counts) == 2000
    assert sum(n for n in counts if n > 1) <= _BODIES
    again = [text(i % _MOST) for i in range(2000)]
    assert [n for _, n in merged(again, CPU)][:60] == [_MOST] * 60


def test_functions_are_written_once() -> None:
    (one, _), (two, _) = merged([text(1), text(2), text(3, (2,)), text(2), text(1)], CPU)[::2]
    source = program([one, two])
    assert source.count("DEVICE void f") == 2
    assert source.count("KERNEL void") == 2
