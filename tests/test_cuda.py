"""The CUDA delegate's host code, on a strict stand-in for CuPy: see `cupy_standin`."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from typing import Any

import cupy_standin
import numpy as np
import pytest
from cuda_models import close, on_device, sample, two_steps
from cupy_standin import CUDARuntimeError
from test_opencl import division, residual

from litedelegate import Interpreter, Unavailable
from litedelegate.delegates.cuda import CUDADelegate, device, find
from litedelegate.delegates.cuda.device import CUDADevice, blocks
from litedelegate.delegates.gpu.device import Launch
from litedelegate.delegates.gpu.prelude import prelude
from litedelegate.kernels.device import MACROS, TYPES
from litedelegate.runtime.delegate import BuildError

# explicit vectors, which CPUs alone are given
FOR_CPUS = {"VEC", "VSPLAT", "VLOAD", "VSTORE", "VCONVERT", "EVENS", "ODDS"}
FOR_CPUS |= {"DOT4_U8I8", "LOOKUP_16", "WORD_AT"}


# -- the vocabulary


def test_the_prelude_has_the_vocabulary() -> None:
    text = prelude("litedelegate.delegates.cuda")
    assert set(MACROS) - FOR_CPUS <= set(re.findall(r"#define (\w+)", text))
    assert set(TYPES) <= set(re.findall(r"typedef [\w ]+ (\w+);", text))


# -- running


def test_a_model(delegate: CUDADelegate) -> None:
    interpreter = Interpreter(model_content=residual(), delegates=[delegate])
    for seed in range(4):
        close(interpreter.run({"x": sample(seed)})["y"], sample(seed))
    coverage = interpreter.delegate_coverage()
    assert {n.placed_on for n in coverage.nodes} == {"cuda"}
    (partition,) = coverage.partitions
    assert list(partition.kernels) == ["CONV_2D+MUL+ADD+RELU6"]


def test_by_name(cupy: Any) -> None:
    name = "litedelegate.delegates.cuda:CUDADelegate"
    interpreter = Interpreter(model_content=residual(), delegates=[name])
    close(interpreter.run({"x": sample()})["y"], sample())
    assert cupy.machine.launched == 1


def test_a_zero_divisor_is_raised_and_the_next_call_runs(delegate: CUDADelegate) -> None:
    interpreter = Interpreter(model_content=division(), delegates=[delegate])
    x, good, bad = (np.array(v, np.int32) for v in ([7, -7, 5], [2, 2, -1], [2, 0, 1]))
    for _ in range(3):
        np.testing.assert_array_equal(interpreter.run({"x": x, "d": good})["y"], [3, -3, -5])
        with pytest.raises(RuntimeError, match="Division by 0"):
            interpreter.run({"x": x, "d": bad})


def test_from_the_second_run_on_a_partition_is_a_graph(delegate: CUDADelegate, cupy: Any) -> None:
    interpreter = Interpreter(model_content=two_steps(), delegates=[delegate])
    x = np.arange(120, dtype=np.float32).reshape(3, 40)
    for run in range(4):
        got = interpreter.run({"x": x + run})["z"]
        np.testing.assert_allclose(got, x + run - (x + run).sum(1, keepdims=True), rtol=1e-5)
        assert cupy.machine.graphs == run
    assert delegate.device.unrecorded == []


@pytest.mark.parametrize("stage", ["begin_capture", "end_capture"])
def test_what_cannot_be_captured_is_launched(
    delegate: CUDADelegate, cupy: Any, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    original = getattr(cupy.cuda.Stream, stage)

    def fails(self: Any) -> None:
        if stage == "end_capture":
            original(self)
        raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported", "not today")

    monkeypatch.setattr(cupy.cuda.Stream, stage, fails)
    interpreter = Interpreter(model_content=two_steps(), delegates=[delegate])
    x = np.ones((3, 40), np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(interpreter.run({"x": x})["z"], x - 40)
    assert cupy.machine.graphs == 0
    (why,) = delegate.device.unrecorded
    assert "not today" in why


def test_a_launch_that_fails_in_a_capture_ends_it(
    delegate: CUDADelegate, cupy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = cupy_standin.kernels.Function.__call__

    def fails(self: Any, *args: Any, stream: Any) -> None:
        if stream.is_capturing():
            raise CUDARuntimeError("cudaErrorStreamCaptureInvalidated", "in a capture")
        original(self, *args, stream=stream)

    monkeypatch.setattr(cupy_standin.kernels.Function, "__call__", fails)
    interpreter = Interpreter(model_content=two_steps(), delegates=[delegate])
    x = np.ones((3, 40), np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(interpreter.run({"x": x})["z"], x - 40)
    assert len(delegate.device.unrecorded) == 1
    with delegate.device.capturing() as stream:
        assert not stream.is_capturing()


def test_without_graphs(cupy: Any) -> None:
    delegate = CUDADelegate(graphs=False)
    interpreter = Interpreter(model_content=two_steps(), delegates=[delegate])
    for _ in range(3):
        interpreter.run({"x": np.ones((3, 40), np.float32)})
    assert cupy.machine.graphs == 0 and delegate.device.unrecorded == []


class Foreign:
    """Another library's stream."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._stream.ptr


class Old:
    def __init__(self, stream: Any) -> None:
        self.cuda_stream = stream.ptr


@pytest.mark.parametrize("wrapped", [lambda s: s, Foreign, Old, lambda s: s.ptr])
def test_the_stream_is_the_users(cupy: Any, wrapped: Any) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    delegate = CUDADelegate(stream=wrapped(stream))
    assert delegate.device.stream.ptr == stream.ptr
    interpreter = Interpreter(model_content=two_steps(), delegates=[delegate])
    for _ in range(3):
        interpreter.run({"x": np.ones((3, 40), np.float32)})
    assert stream.queue.done > 0


def test_graphs_on_the_default_stream(cupy: Any) -> None:
    """It cannot be captured; captures are made on another one."""
    delegate = CUDADelegate(stream=cupy.cuda.Stream.null)
    interpreter = Interpreter(model_content=two_steps(), delegates=[delegate])
    x = np.ones((3, 40), np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(interpreter.run({"x": x})["z"], x - 40)
    assert delegate.device.unrecorded == [] and cupy.machine.graphs == 2


def test_what_others_enqueue_is_no_part_of_a_capture(
    delegate: CUDADelegate, cupy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread on the same delegate: its copies in the midst of a capture."""
    original, inside = cupy_standin.kernels.Function.__call__, []
    y = on_device(cupy, np.zeros(4, np.float32))

    def slow(self: Any, *args: Any, stream: Any) -> None:
        original(self, *args, stream=stream)
        if stream.is_capturing():
            inside.append(stream.ptr)
            delegate.device.upload(y.data, np.ones(4, np.float32))

    monkeypatch.setattr(cupy_standin.kernels.Function, "__call__", slow)
    interpreter = Interpreter(model_content=two_steps(), delegates=[delegate])
    x = np.ones((3, 40), np.float32)
    for _ in range(3):
        interpreter.run({"x": x})
    assert len(inside) == 2 and delegate.device.stream.ptr not in inside
    y.set(np.zeros(4, np.float32))
    interpreter.run({"x": x})
    assert not y.get().any()


def test_streams_by_an_older_cupy(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    monkeypatch.delattr(cupy.cuda.Stream, "from_external")
    monkeypatch.delattr(cupy_standin.memory.Stream, "from_external")
    for wrapped in (Foreign, Old, lambda s: s.ptr):
        assert CUDADelegate(stream=wrapped(stream)).device.stream.ptr == stream.ptr


def test_large_arrays_are_not_pinned(
    delegate: CUDADelegate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "_MOST_PINNED", 16)
    interpreter = Interpreter(model_content=residual(), delegates=[delegate])
    for seed in range(3):
        close(interpreter.run({"x": sample(seed)})["y"], sample(seed))


def test_what_is_no_stream(cupy: Any) -> None:
    with pytest.raises(Unavailable, match=r"got stream='fast'; takes a stream of CuPy or torch"):
        CUDADelegate(stream="fast")


def test_the_allocator_is_the_users(cupy: Any) -> None:
    sizes = []

    def allocator(nbytes: int) -> Any:
        sizes.append(nbytes)
        return cupy.cuda.alloc(nbytes)

    delegate = CUDADelegate(allocator=allocator)
    interpreter = Interpreter(model_content=residual(), delegates=[delegate])
    close(interpreter.run({"x": sample()})["y"], sample())
    assert len(sizes) == 2  # one arena, one block of constants


def test_two_interpreters_on_two_threads(delegate: CUDADelegate) -> None:
    wrong: list[str] = []

    def work(seed: int) -> None:
        interpreter = Interpreter(model_content=residual(), delegates=[delegate])
        for turn in range(5):
            x = sample(10 * seed + turn)
            try:
                close(interpreter.run({"x": x})["y"], x)
            except AssertionError as e:
                wrong.append(str(e))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_times(delegate: CUDADelegate, cupy: Any) -> None:
    """Copies and launches, each with its span, in order; graphs are left aside meanwhile."""
    made = delegate.device
    text = "KERNEL void k(GLOBAL i32* RESTRICT p) { IN_GRID(5, 1, 1) p[GID0] = p[GID0] * 2; }"
    kernel, buffer, got = made.build(text, ["k"])["k"], made.allocate(20), np.zeros(5, np.int32)
    run = made.record([Launch(kernel, (buffer,), (5,))] * 3)
    for _ in range(2):
        with made.trace() as trace:
            made.upload(buffer, np.arange(5, dtype=np.int32))
            run()
            made.download(buffer, got)
        made.synchronise()
        np.testing.assert_array_equal(got, [0, 8, 16, 24, 32])
        times = [t for span in trace.spans() for t in (span.start, span.end)]
        assert len(times) == 10 and times == sorted(times)
    assert cupy.machine.graphs == 0


# -- devices


def test_the_device_is_chosen(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CUDADelegate().device.index == 0
    for wanted in (1, "1", "stand-in b"):
        delegate = CUDADelegate(wanted)
        assert delegate.device.index == 1 and delegate.device.name == "Stand-in B (CUDA 1)"
        interpreter = Interpreter(model_content=two_steps(), delegates=[delegate])
        x = np.ones((3, 40), np.float32)
        for _ in range(3):
            np.testing.assert_array_equal(interpreter.run({"x": x})["z"], x - 40)
        assert cupy.machine.current == 0
    monkeypatch.setenv(find.VARIABLE, "B")
    assert CUDADelegate().device.index == 1
    monkeypatch.setenv(find.VARIABLE, "7")
    words = f"no CUDA device fits {find.VARIABLE} '7'; there are 0: Stand-in A; 1: Stand-in B"
    with pytest.raises(Unavailable, match=words):
        CUDADelegate()


def test_what_is_known_of_the_device(cupy: Any) -> None:
    known = CUDADevice().capability
    assert (known.name, known.api, known.kind) == ("sm_90", "cuda", "gpu")
    assert known.compute_units == 132 and known.local_memory == 49152


@pytest.mark.parametrize(("has", "gets"), [("89", "sm_89"), ("119", "compute_110")])
def test_a_device_newer_than_the_compiler(cupy: Any, has: str, gets: str) -> None:
    cupy.machine.capability = has
    assert CUDADevice().compiler.architecture == gets


def test_a_device_older_than_the_compiler(cupy: Any) -> None:
    cupy.machine.capability = "70"
    with pytest.raises(Unavailable, match=r"compiles for compute capabilities .75.*device has 70"):
        CUDADevice()


def test_no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(Unavailable, match=r"needs CuPy.*pip install 'litedelegate\[cuda\]'"):
        CUDADelegate()


def test_no_driver(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> int:
        raise CUDARuntimeError("cudaErrorInsufficientDriver", "driver version is insufficient")

    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", fails)
    monkeypatch.setattr(find, "_DRIVER", "libnowhere.so.1")
    with pytest.raises(Unavailable, match=r"InsufficientDriver.*looked for as libnowhere\.so\.1"):
        CUDADelegate()
    monkeypatch.setattr(find, "_DRIVER", None)  # the program itself: there is one
    with pytest.raises(Unavailable, match=r"serves CUDA 13\.0, and CuPy was built for 13\.0"):
        CUDADelegate()


def test_no_device(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy.machine, "devices", 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(Unavailable, match=r"no CUDA device\. CUDA_VISIBLE_DEVICES='' hides"):
        CUDADelegate()


def test_no_compiler(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> Any:
        raise RuntimeError("CuPy failed to load libnvrtc.so.13")

    monkeypatch.setattr(cupy.cuda.nvrtc, "getVersion", fails)
    with pytest.raises(Unavailable, match=r"libnvrtc\.so\.13.*pip install nvidia-cuda-nvrtc"):
        CUDADelegate()


# -- programs


def test_built_programs_are_kept(cupy: Any, tmp_path: Path) -> None:
    def run() -> None:
        interpreter = Interpreter(
            model_content=residual(), delegates=[CUDADelegate(cache=tmp_path)]
        )
        close(interpreter.run({"x": sample()})["y"], sample())

    run()
    run()
    assert cupy.cuda.nvrtc.compiled == 1
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(b"damaged")
    run()
    assert cupy.cuda.nvrtc.compiled == 2
    run()
    assert cupy.cuda.nvrtc.compiled == 2
    cupy.machine.capability = "80"
    run()
    assert cupy.cuda.nvrtc.compiled == 3


def test_what_does_not_compile(delegate: CUDADelegate) -> None:
    with pytest.raises(BuildError, match=r"NVRTC does not build the kernels: .*"):
        delegate.device.build("KERNEL void k(GLOBAL i32* p) { p[0] = nonsense; }", ["k"])


@pytest.mark.parametrize(
    ("grid", "group", "want"),
    [
        ((1,), None, ((1, 1, 1), (1, 1, 1))),
        ((1000,), None, ((8, 1, 1), (128, 1, 1))),
        ((7, 100), None, ((1, 7, 1), (8, 16, 1))),
        ((64, 9), None, ((2, 3, 1), (32, 4, 1))),
        ((1, 5_000_000), None, ((1, 39063, 1), (1, 128, 1))),
        ((3, 60_000_000), None, ((3, 58594, 1), (1, 1024, 1))),
        ((64, 32), (16, 16), ((4, 2, 1), (16, 16, 1))),
    ],
)
def test_blocks(grid: Any, group: Any, want: Any) -> None:
    assert blocks(grid, group) == want


@pytest.mark.parametrize(
    ("grid", "group"), [((1, 1 << 27), None), ((17,), (16,)), ((4, 70_000 * 8), (4, 8))]
)
def test_grids_that_do_not_fit(grid: Any, group: Any) -> None:
    with pytest.raises(BuildError, match="a grid of"):
        blocks(grid, group)


# -- faults: the model runs


def test_no_memory(delegate: CUDADelegate, cupy: Any) -> None:
    cupy.machine.room = 1000
    interpreter = Interpreter(model_content=residual(), delegates=[delegate])
    close(interpreter.run({"x": sample()})["y"], sample())
    refusals = [r for n in interpreter.delegate_coverage().nodes for r in n.refusals]
    assert any(r.code == "BUILD_FAILED" and "has no" in r.text for r in refusals)


def test_the_device_is_lost(delegate: CUDADelegate, cupy: Any) -> None:
    interpreter = Interpreter(model_content=residual(), delegates=[delegate])
    close(interpreter.run({"x": sample()})["y"], sample())
    cupy.machine.fault = CUDARuntimeError("cudaErrorIllegalAddress", "the device is lost")
    with pytest.warns(UserWarning, match="taken off"):
        close(interpreter.run({"x": sample(2)})["y"], sample(2))
    coverage = interpreter.delegate_coverage()
    assert any(r.code == "DEVICE" for n in coverage.nodes for r in n.refusals)


# -- real models


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("mobilenet_v1_0.25_128_u8", "75"),
        ("kws_dscnn_int8", "90"),  # tensor cores, which OpenCL acts out slowly
        ("resnet8_int8", "75"),
        ("vww_96_f32", "75"),
        ("resnet8_f32", "90"),
    ],
)
def test_real_models(cupy: Any, tmp_path: Path, models: Path, name: str, capability: str) -> None:
    cupy.machine.capability = capability
    delegate = CUDADelegate(cache=tmp_path)
    results = []
    for delegates in ([], [delegate]):
        interpreter = Interpreter(str(models / f"{name}.tflite"), delegates=delegates)
        interpreter.allocate_tensors()
        for i, tensor in enumerate(interpreter.get_input_details()):
            values = np.random.default_rng(i).integers(0, 100, tensor["shape"])
            interpreter.set_tensor(tensor["index"], values.astype(tensor["dtype"]))
        for _ in range(2):
            interpreter.invoke()
        outputs = interpreter.get_output_details()
        results.append([interpreter.get_tensor(t["index"]) for t in outputs])
    assert {n.placed_on for n in interpreter.delegate_coverage().nodes} == {"cuda"}
    for want, got in zip(*results, strict=True):
        if want.dtype == np.float32:
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-4 * np.abs(want).max())
        else:
            np.testing.assert_array_equal(got, want)
