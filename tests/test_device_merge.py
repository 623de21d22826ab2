"""Small kernels in a row become one launch on CPUs, and compute what they did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices import NAMES, device

from litedelegate import Interpreter, ModelBuilder
from litedelegate.delegates.gpu.delegate import GpuDelegate
from litedelegate.delegates.gpu.dry import DryDevice
from litedelegate.delegates.gpu.memory import ARENA, CONSTANTS
from litedelegate.delegates.gpu.merge import merged, table
from litedelegate.delegates.gpu.texts import Step, Text, program
from litedelegate.delegates.opencl import OpenCLDelegate
from litedelegate.kernels.device import PROFILES
from litedelegate.runtime.cost import CostProfile

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
    change = f"{more.pop('call_of', '')}({number})"
    source = f"KERNEL void KERNEL_NAME(GLOBAL f32* RESTRICT ptr_0) {{ *ptr_0 += {change}; }}\n"
    return Text(source, (number,), grid, None, (), False, more.pop("brought", False), **more)


def test_what_is_joined() -> None:
    small = [text(i) for i in range(3)]
    wide, foreign, library = text(4, (2,)), text(5, brought=True), text(6, call=print)
    order = [*small, wide, *small[:2], foreign, small[0], library, small[1]]
    assert [n for _, n in merged(order, CPU)] == [3, 1, 2, 1, 1, 1, 1]
    assert [n for _, n in merged(order, GPU)] == [1] * len(order)
    assert [n for _, n in merged(order, CPU, light={3})] == [6, 1, 1, 1, 1]
    assert [n for _, n in merged([text(0)] * 3000, CPU)] == [3000]


def test_arguments_have_a_bound() -> None:
    """Tensors in the memory of the plan are one argument, others are each their own."""
    texts = [text(i) for i in range(200)]
    ((one, count),) = merged(texts, CPU, constants={7, 9})
    assert (count, set(one.args)) == (200, {ARENA, CONSTANTS})
    many = merged(texts, CPU, apart=set(range(200)))
    assert sum(n for _, n in many) == 200
    assert max(len(t.args) for t, _ in many) <= 64


def test_compiling_has_a_bound() -> None:
    """Of a row of unlike kernels, each launch has a few."""
    names = [f"F_{chr(65 + i // 26)}{chr(65 + i % 26)}" for i in range(100)]
    texts = [text(0, call_of=name) for name in names]
    many = merged(texts, CPU)
    assert [n for _, n in many] == [40, 40, 20]
    assert len({t.name for t, _ in many}) == 3
    again = merged([*texts[:30], text(1, (9,)), *texts[:30]], CPU)
    assert [n for _, n in again] == [30, 1, 30]
    assert again[0][0].name == again[2][0].name


def test_functions_are_written_once() -> None:
    """Kernels that differ in a number are one function, launches of the same ones one kernel."""
    (one, _), (two, _) = merged([text(1), text(2), text(3, (2,)), text(2), text(1)], CPU)[::2]
    source = program([one, two])
    assert source.count("DEVICE void f") == 1
    assert source.count("KERNEL void") == 1
    assert [s.numbers for s in one.steps] == [(1,), (2,)]
    assert [s.numbers for s in two.steps] == [(2,), (1,)]


def test_tables() -> None:
    steps = [Step(1, 3, (5, 6), (-7,)), Step(0, 1, (8,), ())]
    places = {5: (ARENA, 128), 6: (CONSTANTS, 0), 8: (ARENA, 64)}
    words = table(steps, (ARENA, CONSTANTS, 8), places)
    assert words.tolist() == [1, 3, 0, 2, 1, 0, -7, 0, 1, 2, 0, -1]


@pytest.mark.parametrize("alignment", [32, 128])
def test_tables_hold_no_offsets_that_they_cannot(alignment: int) -> None:
    """Plans are drafted for the device, also where that is to tell what they cost."""
    dry = DryDevice(CPU)
    dry.alignment = alignment
    delegate = GpuDelegate("opencl", dry)
    delegate.profile = CostProfile("quick", 1e15, 1e15, 0.0)
    with Interpreter(model_content=model(30), delegates=[delegate]) as interpreter:
        assert not interpreter.delegate_coverage().on_cpu
        ((placed,),) = (p.placed for p in interpreter._graph.delegation.plans.values())
        plan = placed.kernel._plan
        texts = [text for text, _ in plan._launched if text.steps]
        assert texts
        for text in texts:
            within = {key for step in text.steps for key in step.args} <= set(text.args)
            assert within == (alignment == 32)
