"""The OpenCL delegate in the interpreter: fusion, faults, kept programs, what is missing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices import NAMES, device

from litedelegate import Interpreter, ModelBuilder, Unavailable
from litedelegate.delegates.gpu.cache import ProgramCache
from litedelegate.delegates.gpu.prelude import prelude
from litedelegate.delegates.opencl import OpenCLDelegate, choose, instructions
from litedelegate.delegates.opencl.command_buffer import (
    EXTENSION,
    CommandBuffer,
    Commands,
    Unrecorded,
)
from litedelegate.delegates.opencl.device import OpenCLDevice
from litedelegate.delegates.opencl.find import VARIABLE, matching
from litedelegate.kernels.device import MACROS, TYPES
from litedelegate.kernels.types import Array

ROOT = Path(__file__).parent.parent
CONV: dict[str, Any] = {
    "padding": "SAME",
    "stride_w": 1,
    "stride_h": 1,
    "dilation_w_factor": 1,
    "dilation_h_factor": 1,
    "fused_activation_function": "NONE",
}
NONE = {"fused_activation_function": "NONE"}


@pytest.fixture(params=list(NAMES))
def delegate(request: pytest.FixtureRequest, tmp_path: Path) -> OpenCLDelegate:
    found = device(request.param)
    return OpenCLDelegate(found.device.platform.name.strip(), cache=tmp_path)


def residual() -> bytes:
    """conv(x) * c + x, RELU6, and a reshape: what follows the convolution rides in its kernel."""
    rng = np.random.default_rng(5)
    b = ModelBuilder()
    g = b.subgraph("main")
    shape = (1, 7, 5, 19)
    x = g.input("x", shape)
    w = g.constant("w", rng.standard_normal((19, 3, 3, 19)).astype(np.float32))
    bias = g.constant("b", rng.standard_normal(19).astype(np.float32))
    c = g.constant("c", rng.standard_normal(19).astype(np.float32))
    y = g.op("CONV_2D", [x, w, bias], ("conv", shape, "float32"), **CONV)
    y = g.op("MUL", [y, c], ("mul", shape, "float32"), **NONE)
    y = g.op("ADD", [y, x], ("add", shape, "float32"), **NONE)
    y = g.op("RELU6", [y], ("relu", shape, "float32"))
    to = g.constant("to", np.array([7, 95], np.int32))
    g.outputs(g.op("RESHAPE", [y, to], ("y", (7, 95), "float32"), new_shape=(7, 95)))
    return b.build()


def division() -> bytes:
    b = ModelBuilder()
    g = b.subgraph("main")
    x, d = g.input("x", (3,), "int32"), g.input("d", (3,), "int32")
    g.outputs(g.op("DIV", [x, d], ("y", (3,), "int32"), **NONE))
    return b.build()


def transposes() -> bytes:
    """Three kernels in a row, of more than one work-item each."""
    b = ModelBuilder()
    g = b.subgraph("main")
    y = g.input("x", (300, 50))
    axes = g.constant("axes", np.array([1, 0], np.int32))
    for name, shape in (("t", (50, 300)), ("u", (300, 50)), ("y", (50, 300))):
        y = g.op("TRANSPOSE", [y, axes], (name, shape, "float32"))
    g.outputs(y)
    return b.build()


def run(content: bytes, delegates: list[Any], inputs: dict[str, Array]) -> Array:
    interpreter = Interpreter(model_content=content, delegates=delegates)
    first = interpreter.run(inputs)["y"].copy()
    np.testing.assert_array_equal(interpreter.run(inputs)["y"], first)
    return first


def test_a_chain_rides_in_the_convolution(delegate: OpenCLDelegate) -> None:
    x = np.random.default_rng(6).standard_normal((1, 7, 5, 19)).astype(np.float32)
    want = run(residual(), [], {"x": x})
    got = run(residual(), [delegate], {"x": x})
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())
    interpreter = Interpreter(model_content=residual(), delegates=[delegate])
    interpreter.allocate_tensors()
    (partition,) = interpreter.delegate_coverage().partitions
    assert list(partition.kernels) == ["CONV_2D+MUL+ADD+RELU6"]
    assert len(partition.nodes) == 5


def test_another_size(delegate: OpenCLDelegate) -> None:
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (2, 3), shape_signature=(-1, 3))
    y = g.op("NEG", [x], ("n", (2, 3), "float32", None, (-1, 3)))
    g.outputs(g.op("EXP", [y], ("y", (2, 3), "float32", None, (-1, 3))))
    interpreter = Interpreter(model_content=b.build(), delegates=[delegate])
    for rows in (2, 5, 2):
        x_value = np.linspace(0, 1, 3 * rows, dtype=np.float32).reshape(rows, 3)
        interpreter.resize_tensor_input(0, (rows, 3))
        got = interpreter.run({"x": x_value})["y"]
        np.testing.assert_allclose(got, np.exp(-x_value), rtol=1e-5)


def test_a_zero_divisor_is_raised_and_the_next_call_runs(delegate: OpenCLDelegate) -> None:
    interpreter = Interpreter(model_content=division(), delegates=[delegate])
    x, good, bad = (np.array(v, np.int32) for v in ([7, -7, 5], [2, 2, -1], [2, 0, 1]))
    for _ in range(2):
        np.testing.assert_array_equal(interpreter.run({"x": x, "d": good})["y"], [3, -3, -5])
        with pytest.raises(RuntimeError, match="Division by 0: 'd' holds a zero"):
            interpreter.run({"x": x, "d": bad})
    coverage = interpreter.delegate_coverage()
    assert [n.placed_on for n in coverage.nodes] == ["opencl"]


def test_built_programs_are_kept(delegate: OpenCLDelegate, tmp_path: Path) -> None:
    x = np.ones((1, 7, 5, 19), np.float32)
    want = run(residual(), [delegate], {"x": x})
    platform = delegate.device.name.partition("(")[2][:8]
    assert any(tmp_path.iterdir())
    again = OpenCLDelegate(platform, cache=tmp_path)
    np.testing.assert_array_equal(run(residual(), [again], {"x": x}), want)
    assert again.device.cache.misses == 0
    for path in tmp_path.iterdir():
        if path.stat().st_size > 1000:  # programs, not what was found out about the compiler
            path.write_bytes(b"damaged")
    np.testing.assert_array_equal(
        run(residual(), [OpenCLDelegate(platform, cache=tmp_path)], {"x": x}), want
    )


@pytest.mark.parametrize("name", ["mobilenet_v1_0.25_128_u8", "kws_dscnn_int8"])
def test_integer_models_to_the_bit(delegate: OpenCLDelegate, models: Path, name: str) -> None:
    results = []
    for delegates in ([], [delegate]):
        interpreter = Interpreter(str(models / f"{name}.tflite"), delegates=delegates)
        interpreter.allocate_tensors()
        for i, tensor in enumerate(interpreter.get_input_details()):
            values = np.random.default_rng(i).integers(0, 100, tensor["shape"])
            interpreter.set_tensor(tensor["index"], values.astype(tensor["dtype"]))
        interpreter.invoke()
        outputs = interpreter.get_output_details()
        results.append([interpreter.get_tensor(t["index"]) for t in outputs])
    coverage = interpreter.delegate_coverage()
    assert {n.placed_on for n in coverage.nodes} == {"opencl"}
    for want, got in zip(*results, strict=True):
        np.testing.assert_array_equal(got, want)


def test_no_pyopencl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(Unavailable, match=r"needs PyOpenCL.*pip install 'litedelegate\[opencl\]'"):
        OpenCLDelegate()
    with pytest.raises(ValueError, match="needs PyOpenCL"):
        Interpreter(
            model_content=division(), delegates=["litedelegate.delegates.opencl:OpenCLDelegate"]
        )


def test_no_such_device(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyopencl")
    with pytest.raises(Unavailable, match="no OpenCL device fits device 'Voodoo'; there are 0: "):
        matching("Voodoo")
    monkeypatch.setenv(VARIABLE, "99")
    with pytest.raises(Unavailable, match=f"fits {VARIABLE} '99'"):
        matching()


def test_a_driver_whose_compiler_fails_is_stepped_over(monkeypatch: pytest.MonkeyPatch) -> None:
    good = device("opencl-intel").device
    tried: list[Any] = []

    def open_one(candidate: Any, programs: Any, why: str = "") -> OpenCLDevice:
        tried.append(candidate)
        if len(tried) == 1:
            raise Unavailable("unknown target CPU")
        return OpenCLDevice(candidate, programs)

    monkeypatch.setattr(choose, "OpenCLDevice", open_one)
    monkeypatch.setattr(choose, "matching", lambda wanted: [good, good])
    assert OpenCLDelegate("EPYC", costs="none").device.device == good
    assert len(tried) == 2
    monkeypatch.setattr(choose, "matching", lambda wanted: [good])
    tried.clear()
    with pytest.raises(Unavailable, match="unknown target CPU"):
        OpenCLDelegate("EPYC", costs="none")


def test_trouble_of_a_driver_that_passes_is_not_kept(
    delegate: OpenCLDelegate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its compiler is asked again each time; what it says of instructions is kept."""
    found = OpenCLDevice(delegate.device.device, ProgramCache(tmp_path))

    def fail(*arguments: Any, **options: Any) -> None:
        raise found.library.RuntimeError("clBuildProgram failed: OUT_OF_RESOURCES")

    with monkeypatch.context() as m:
        m.setattr(found.library.Program, "build", fail)
        with pytest.raises(Unavailable, match="does not build even an empty kernel"):
            OpenCLDevice(delegate.device.device, ProgramCache(tmp_path))
        again = found.fault("kernel void other(global int* p) { *p = 2; }")
    assert again and found.fault("kernel void other(global int* p) { *p = 2; }") == again
    OpenCLDevice(delegate.device.device, ProgramCache(tmp_path))


def test_a_compiler_that_nobody_could_ask_is_asked_later(
    delegate: OpenCLDelegate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = OpenCLDevice(delegate.device.device, ProgramCache(tmp_path))
    source = f"kernel void k{tmp_path.name}(global int* p) {{ *p = 1; }}".replace("-", "_")
    with monkeypatch.context() as m:
        m.setattr(sys, "executable", "")
        assert not instructions.survives(found, source)
    instructions._attempted.cache_clear()
    assert instructions.survives(found, source)


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    """PyOpenCL keeps code below it, unless told not to."""
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    code = (
        "import os, numpy as np, litedelegate as ld; from litedelegate.delegates.opencl import *; "
        "b = ld.ModelBuilder(); g = b.subgraph('main'); x = g.input('x', (4,)); "
        "g.outputs(g.op('NEG', [x], ('y', (4,), 'float32'))); "
        "i = ld.Interpreter(model_content=b.build(), delegates=[OpenCLDelegate(costs='none')]); "
        "i.run({'x': np.ones(4, np.float32)}); print(i.delegate_coverage().totals.delegated)"
    )
    unset = ("XDG_CACHE_HOME", "PYOPENCL_NO_CACHE")
    env = {k: v for k, v in os.environ.items() if k not in unset}
    env |= {"HOME": str(nowhere), "LITEDELEGATE_CACHE": str(tmp_path / "cache")}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=env, capture_output=True, text=True
    )
    assert "{'opencl': 1}" in done.stdout, done.stderr


def test_pyopencl_is_imported_when_first_used() -> None:
    imports = "import sys, litedelegate.delegates.opencl"
    code = f"{imports}; sys.exit('pyopencl' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT / "src")


def test_the_vocabulary_is_closed() -> None:
    """The prelude defines all of it, and the shared text names nothing else of OpenCL."""
    text = prelude("litedelegate.delegates.opencl")
    defined = set(re.findall(r"#define (\w+)", text))
    assert set(MACROS) <= defined
    assert set(TYPES) <= set(re.findall(r"typedef \w+ (\w+);", text))
    foreign = re.compile(
        r"\b(__\w+|get_\w+_id|barrier|vload\w*|vstore\w*|convert_\w+|as_\w+|"
        r"exp|log|sqrt|fma|mad|fmin|fmax|half|uchar|uint|ulong|float|double)\b"
    )
    for path in sorted((ROOT / "kernels" / "device").glob("*.c")):
        code = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        assert not foreign.findall(code), path.name


def test_a_profile_has_kernels_and_copies_apart(delegate: OpenCLDelegate) -> None:
    interpreter = Interpreter(model_content=residual(), delegates=[delegate])
    x = np.ones((1, 7, 5, 19), np.float32)
    want = interpreter.run({"x": x})["y"]
    with interpreter.profile() as profile:
        for _ in range(3):
            np.testing.assert_array_equal(interpreter.run({"x": x})["y"], want)
    kernels = [w for w in profile.device.work() if w.kind == "kernel"]
    assert [(w.name, w.calls) for w in kernels] == [("CONV_2D+MUL+ADD+RELU6", 3)]
    totals = profile.device.totals()
    assert 0 < totals["kernel"] <= profile.total
    assert "on devices: kernels " in profile.table()
    events = json.loads(profile.chrome_trace())["traceEvents"]
    device_events = [e for e in events if e["tid"] == 1]
    assert len(device_events) == 3 * len(profile.device.work())
    spans = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["tid"] == 0]
    for event in device_events:  # within the call that enqueued them, by the host's clock
        middle = event["ts"] + event["dur"] / 2
        assert any(start <= middle <= end for start, end in spans)
    assert len(json.loads(profile.to_json())["device"]) == len(profile.device.work())


def test_recorded_launches(delegate: OpenCLDelegate) -> None:
    """Where the driver records, whether that is quicker or not."""
    found = delegate.device
    assert isinstance(found, OpenCLDevice)
    if EXTENSION not in found.device.extensions.split():
        pytest.skip(f"the driver has no {EXTENSION}")
    assert found.commands is None or isinstance(found.commands, Commands)
    found.__dict__["commands"] = Commands(found.library, found.device.platform)
    interpreter = Interpreter(model_content=transposes(), delegates=[delegate])
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal((300, 50)).astype(np.float32)
        np.testing.assert_allclose(interpreter.run({"x": x})["y"], x.T)
    (placed,) = interpreter._graph.delegation.plans[0].placed
    (call,) = placed.kernel._plan._replay._calls  # type: ignore[attr-defined]
    assert isinstance(call, CommandBuffer)


def test_launches_that_are_not_recorded(
    delegate: OpenCLDelegate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise Unrecorded("not these")

    found = delegate.device
    assert isinstance(found, OpenCLDevice)
    if EXTENSION not in found.device.extensions.split():
        pytest.skip(f"the driver has no {EXTENSION}")
    commands = Commands(found.library, found.device.platform)
    monkeypatch.setattr(commands, "record", refuse)
    found.__dict__["commands"] = commands
    x = np.random.default_rng(0).standard_normal((300, 50)).astype(np.float32)
    np.testing.assert_array_equal(run(transposes(), [delegate], {"x": x}), x.T)
