"""The CUDA delegate's host code, on a strict stand-in for CuPy: see `cupy_standin`."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cupy_standin
import numpy as np
import pytest
from cupy_standin import CUDARuntimeError
from devices import for_standin
from test_opencl import division, residual

from litedelegate import Interpreter, ModelBuilder, Unavailable
from litedelegate.delegates.cuda import CUDADelegate, device, find
from litedelegate.delegates.cuda.device import CUDADevice, blocks
from litedelegate.delegates.gpu.device import Launch
from litedelegate.kernels.device import MACROS, TYPES
from litedelegate.kernels.types import Array
from litedelegate.runtime.delegate import BuildError

ROOT = Path(__file__).parent.parent
# explicit vectors, which CPUs alone are given
FOR_CPUS = {"VEC", "VSPLAT", "VLOAD", "VSTORE", "VCONVERT", "DOT4_U8I8", "LOOKUP_16"}
KERNEL = "KERNEL void k(PARAMETERS) { IN_GRID(5, 1, 1) p[GID0] = p[GID0] * 2; }".replace(
    "PARAMETERS", "GLOBAL i32* RESTRICT p"
)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = cupy_standin.make(for_standin())
    monkeypatch.setattr(device, "library", lambda: made)
    return made


@pytest.fixture
def delegate(cupy: Any, tmp_path: Path) -> Iterator[CUDADelegate]:
    made = CUDADelegate(cache=tmp_path)
    yield made
    assert not cupy.machine.entered and cupy.machine.current == 0  # all is as it was


def sample(seed: int = 6) -> Array:
    return np.random.default_rng(seed).standard_normal((1, 7, 5, 19)).astype(np.float32)


def numpys(x: Array) -> Array:
    y: Array = Interpreter(model_content=residual()).run({"x": x})["y"]
    return y


def close(got: Array, x: Array) -> None:
    want = numpys(x)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


def two_steps() -> bytes:
    """Two kernels: a sum that is read twice cannot ride in both."""
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (3, 40))
    axis = g.constant("axis", np.array([1], np.int32))
    y = g.op("SUM", [x, axis], ("sum", (3, 1), "float32"), keep_dims=True)
    z = g.op("SUB", [x, y], ("z", (3, 40), "float32"), fused_activation_function="NONE")
    g.outputs(z)
    return b.build()


# -- the vocabulary


def test_the_prelude_has_the_vocabulary() -> None:
    prelude = (ROOT / "delegates" / "cuda" / "prelude.h").read_text()
    assert set(MACROS) - FOR_CPUS <= set(re.findall(r"#define (\w+)", prelude))
    assert set(TYPES) <= set(re.findall(r"typedef [\w ]+ (\w+);", prelude))


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


# -- arrays on the device


def on_device(cupy: Any, x: Array) -> Any:
    array = cupy.ndarray(x.shape, x.dtype)
    array.set(x)
    return array


class ByInterface:
    """Another library's array that has `__cuda_array_interface__` alone."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = array.shape
        self.__cuda_array_interface__ = array.__cuda_array_interface__


class ByDLPack:
    def __init__(self, array: Any, device: tuple[int, int] | None = None) -> None:
        self.array = array
        self.shape = array.shape
        self.streams: list[int] = []
        self._device = device or array.__dlpack_device__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, stream: int) -> Any:
        self.streams.append(stream)
        return self.array.data.ptr, self.array.shape, self.array.dtype


@pytest.mark.parametrize("wrapped", [lambda a: a, ByInterface, ByDLPack])
def test_nothing_goes_through_the_host(delegate: CUDADelegate, cupy: Any, wrapped: Any) -> None:
    interpreter = Interpreter(model_content=residual(), delegates=[delegate])
    close(interpreter.run({"x": sample()})["y"], sample())
    arrays = [on_device(cupy, sample(s)) for s in (3, 4)]
    before = cupy.machine.copies.copy()
    for turn in range(4):
        got = interpreter.run({"x": wrapped(arrays[turn % 2])}, on_device=True)["y"]
        assert isinstance(got, cupy.ndarray)
        assert cupy.machine.copies == before
        close(got.get(), sample(3 + turn % 2))
    # and the next one is the host's again
    close(interpreter.run({"x": sample(5)})["y"], sample(5))
    assert arrays[0].get()[0, 0, 0, 0] == sample(3)[0, 0, 0, 0]


def test_dlpack_is_given_the_stream(delegate: CUDADelegate, cupy: Any) -> None:
    x = ByDLPack(on_device(cupy, sample()))
    interpreter = Interpreter(model_content=residual(), delegates=[delegate])
    close(interpreter.run({"x": x})["y"], sample())
    assert x.streams == [delegate.device.stream.ptr]


def test_what_fills_the_array_is_waited_for(delegate: CUDADelegate, cupy: Any) -> None:
    """Work of the default stream, enqueued and not done, counts."""
    x = on_device(cupy, np.zeros((1, 7, 5, 19), np.float32))
    source = cupy.cuda.alloc_pinned_memory(x.nbytes)
    np.frombuffer(source, np.float32)[:] = sample().reshape(-1)
    interpreter = Interpreter(model_content=residual(), delegates=[delegate])
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    cupy.cuda.runtime.memcpyAsync(x.data.ptr, source.ptr, x.nbytes, 1, 0)
    interpreter.invoke()
    close(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]), sample())


def test_an_array_stays_set_until_another_value_is(delegate: CUDADelegate, cupy: Any) -> None:
    interpreter = Interpreter(model_content=residual(), delegates=[delegate])
    interpreter.allocate_tensors()
    (given,) = interpreter.get_input_details()
    (made,) = interpreter.get_output_details()
    x = on_device(cupy, sample())
    interpreter.set_tensor(given["index"], x)
    for seed in (6, 7):
        x.set(sample(seed))
        interpreter.invoke()
        close(interpreter.get_tensor(made["index"]), sample(seed))
    np.testing.assert_array_equal(interpreter.get_tensor(given["index"]), sample(7))
    interpreter.set_tensor(given["index"], sample(8))
    interpreter.invoke()
    close(interpreter.get_tensor(made["index"]), sample(8))
    np.testing.assert_array_equal(x.get(), sample(7))  # the user's array is as it was


def test_an_output_in_the_users_array(delegate: CUDADelegate, cupy: Any) -> None:
    interpreter = Interpreter(model_content=residual(), delegates=[delegate])
    interpreter.allocate_tensors()
    (made,) = interpreter.get_output_details()
    y = on_device(cupy, np.zeros((7, 95), np.float32))
    interpreter.set_buffer_handle(made["index"], ByDLPack(y), delegate)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], sample())
    interpreter.invoke()
    close(y.get(), sample())
    close(interpreter.get_tensor(made["index"]), sample())
    elsewhere = ByDLPack(y, (2, 1))
    with pytest.raises(ValueError, match="on a device that cuda does not reach"):
        interpreter.set_buffer_handle(made["index"], elsewhere, delegate)


def test_nodes_on_numpy_get_and_give_copies(delegate: CUDADelegate, cupy: Any) -> None:
    for op in ("MUL", "CONV_2D", "RESHAPE"):
        interpreter = Interpreter(model_content=residual(), delegates=[delegate], exclude=[op])
        got = interpreter.run({"x": on_device(cupy, sample())}, on_device=True)["y"]
        close(got.get(), sample())
    interpreter = Interpreter(model_content=residual(), delegates=[delegate], only=[])
    got = interpreter.run({"x": on_device(cupy, sample())}, on_device=True)["y"]
    close(got.get(), sample())


def test_an_output_that_numpy_reads_on_its_way(delegate: CUDADelegate, cupy: Any) -> None:
    b = ModelBuilder()
    g = b.subgraph("main")
    y = g.op("NEG", [g.input("x", (4,))], ("y", (4,), "float32"))
    g.outputs(y, g.op("EXP", [y], ("z", (4,), "float32")))
    interpreter = Interpreter(model_content=b.build(), delegates=[delegate], exclude=["EXP"])
    x = np.arange(4, dtype=np.float32)
    for _ in range(3):
        got = interpreter.run({"x": on_device(cupy, x)}, on_device=True)
        np.testing.assert_array_equal(got["y"].get(), -x)
        np.testing.assert_allclose(got["z"].get(), np.exp(-x), rtol=1e-6)


def test_a_resized_input_on_the_device(delegate: CUDADelegate, cupy: Any) -> None:
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (2, 3), shape_signature=(-1, 3))
    g.outputs(g.op("NEG", [x], ("y", (2, 3), "float32", None, (-1, 3))))
    interpreter = Interpreter(model_content=b.build(), delegates=[delegate])
    for rows in (2, 5, 2):
        x_value = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
        got = interpreter.run({"x": on_device(cupy, x_value)}, on_device=True)["y"]
        np.testing.assert_array_equal(got.get(), -x_value)


def test_arrays_that_do_not_fit(delegate: CUDADelegate, cupy: Any) -> None:
    interpreter = Interpreter(model_content=residual(), delegates=[delegate])
    half = on_device(cupy, sample().astype(np.float16))
    with pytest.raises(ValueError, match=r"'x' on Stand-in A.* is float16; takes float32"):
        interpreter.run({"x": half})
    interpreter.allocate_tensors()
    index = interpreter.get_input_details()[0]["index"]
    with pytest.raises(ValueError, match=r"has the shape \(3,\); takes \(1, 7, 5, 19\)"):
        interpreter.set_tensor(index, on_device(cupy, np.zeros(3, np.float32)))
    turned = on_device(cupy, sample())
    turned.strides = turned.strides[::-1]
    with pytest.raises(ValueError, match="not in row-major order"):
        interpreter.set_tensor(index, turned)
    larger = on_device(cupy, np.zeros(700, np.float32))
    shifted = cupy.ndarray((1, 7, 5, 19), np.float32, larger.data + 4)
    with pytest.raises(ValueError, match="no multiple of 16"):
        interpreter.set_tensor(index, shifted)
    close(interpreter.run({"x": sample()})["y"], sample())


def test_nobody_takes_the_array(delegate: CUDADelegate, cupy: Any) -> None:
    x = on_device(cupy, sample())
    words = r"'x' got a .*ndarray on a device, and no delegate .* takes it: copy it to the host"
    with pytest.raises(ValueError, match=words):
        Interpreter(model_content=residual()).run({"x": x})
    interpreter = Interpreter(model_content=residual(), delegates=[delegate])
    with pytest.raises(ValueError, match=words.replace("ndarray", "ByDLPack")):
        interpreter.run({"x": ByDLPack(x, (2, 1))})


# -- asynchronous


def started(interpreter: Interpreter, x: Any, y: Any, delegate: CUDADelegate) -> Any:
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    index = interpreter.get_output_details()[0]["index"]
    interpreter.set_buffer_handle(index, y, delegate)
    return interpreter.invoke_async()


def test_an_invoke_comes_back_before_it_is_done(delegate: CUDADelegate, cupy: Any) -> None:
    interpreter = Interpreter(model_content=residual(), delegates=[delegate])
    interpreter.allocate_tensors()
    (made,) = interpreter.get_output_details()
    for seed in range(3):
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], sample(seed))
        launched = cupy.machine.launched
        run = interpreter.invoke_async()
        assert not run.done() and cupy.machine.launched == launched
        run.wait()
        assert run.done()
        close(interpreter.get_tensor(made["index"]), sample(seed))


def test_other_streams_wait_for_its_event(delegate: CUDADelegate, cupy: Any) -> None:
    interpreter = Interpreter(model_content=residual(), delegates=[delegate])
    interpreter.allocate_tensors()
    x, y = on_device(cupy, sample()), on_device(cupy, np.zeros((7, 95), np.float32))
    run = started(interpreter, x, y, delegate)
    other, got = cupy.cuda.Stream(non_blocking=True), np.zeros((7, 95), np.float32)
    other.wait_event(run.event)
    cupy.cuda.runtime.memcpyAsync(got.ctypes.data, y.data.ptr, y.nbytes, 2, other.ptr)
    close(got, sample())  # a copy to memory that is not pinned waits for its stream
    run.wait()
    assert run.event is None


def test_a_device_that_is_lost_meanwhile(delegate: CUDADelegate, cupy: Any) -> None:
    interpreter = Interpreter(model_content=residual(), delegates=[delegate])
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], sample())
    run = interpreter.invoke_async()
    cupy.machine.fault = CUDARuntimeError("cudaErrorIllegalAddress", "the device is lost")
    with pytest.warns(UserWarning, match="taken off"):
        run.wait()
    close(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]), sample())


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


# -- the stand-in is strict


@pytest.fixture
def bare(cupy: Any) -> Any:
    """A device, one of its kernels and a buffer of five numbers for it."""
    made = CUDADevice()
    kernel = made.build(KERNEL, ["k"])["k"]
    buffer = made.allocate(20)
    made.upload(buffer, np.arange(5, dtype=np.int32))
    return made, kernel, buffer


def test_the_host_must_wait(bare: Any) -> None:
    made, kernel, buffer = bare
    made.record([Launch(kernel, (buffer,), (5,))])()
    got = np.zeros(5, np.int32)
    made.download(buffer, got)
    assert not got.any()
    made.synchronise()
    np.testing.assert_array_equal(got, [0, 2, 4, 6, 8])


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (lambda b: (), "takes 1 arguments, got 0"),
        (lambda b: (b, np.int32(1)), "takes 1 arguments, got 2"),
        (lambda b: (5,), "got a Python number, 5"),
        (lambda b: (np.int64(5),), "got int64"),
    ],
)
def test_wrong_arguments(bare: Any, args: Any, words: str) -> None:
    made, kernel, buffer = bare
    with made.current(), pytest.raises(AssertionError, match=words):
        kernel((1,), (5,), args(buffer), stream=made.stream)


def test_wrong_scalars(bare: Any) -> None:
    made, _, buffer = bare
    text = "KERNEL void s(GLOBAL f32* p, f32 v, i32 n) { p[n] = v; }"
    kernel = made.build(text, ["s"])["s"]
    with made.current():
        kernel((1,), (1,), (buffer, np.float32(2), np.int32(1)), stream=made.stream)
        for wrong in ((np.float64(2), np.int32(1)), (np.float32(2), 1), (2.0, np.int32(1))):
            with pytest.raises(AssertionError, match="got"):
                kernel((1,), (1,), (buffer, *wrong), stream=made.stream)


def test_another_devices_stream_or_memory(bare: Any, cupy: Any) -> None:
    made, kernel, buffer = bare
    with cupy.cuda.Device(1):
        with pytest.raises(CUDARuntimeError, match="InvalidResourceHandle"):
            kernel((1,), (5,), (buffer,), stream=made.stream)
        other = cupy.cuda.alloc(20)
        with pytest.raises(RuntimeError, match="does not match with the current device"):
            made.stream.__enter__()
    with pytest.raises(CUDARuntimeError, match="memory of device 1 on device 0"):
        kernel((1,), (5,), (other,), stream=made.stream)


def test_freed_memory(bare: Any, cupy: Any) -> None:
    made, kernel, buffer = bare
    address = buffer.ptr
    made.stream.begin_capture()
    kernel((1,), (5,), (buffer,), stream=made.stream)
    graph = made.stream.end_capture()
    graph.launch(made.stream)
    made.synchronise()
    cupy.machine.bury(cupy.machine.find(address))
    graph.launch(made.stream)
    with pytest.raises(CUDARuntimeError, match="was freed"):
        made.synchronise()


def test_pinned_memory_must_stay(bare: Any, cupy: Any) -> None:
    made, _, buffer = bare
    staging = cupy.cuda.alloc_pinned_memory(20)
    cupy.cuda.runtime.memcpyAsync(buffer.ptr, staging.ptr, 20, 1, made.stream.ptr)
    del staging
    with pytest.raises(CUDARuntimeError, match="freed before it was copied"):
        made.synchronise()


def test_what_must_not_be_captured(bare: Any, cupy: Any) -> None:
    made, _, buffer = bare
    for wrong in (
        made.stream.synchronize,
        lambda: made.stream.done,
        lambda: cupy.cuda.runtime.memcpyAsync(
            np.zeros(20, np.uint8).ctypes.data, buffer.ptr, 20, 2, made.stream.ptr
        ),
    ):
        made.stream.begin_capture()
        with pytest.raises(CUDARuntimeError, match="StreamCaptureUnsupported"):
            wrong()
        with pytest.raises(CUDARuntimeError, match="StreamCaptureInvalidated"):
            made.stream.end_capture()


def test_grids_and_blocks(bare: Any) -> None:
    made, kernel, buffer = bare
    for grid, block in (((1,), (2048,)), ((1, 70_000), (1,)), ((0,), (1,)), ((1,), (1, 1, 65))):
        with pytest.raises(CUDARuntimeError, match="INVALID_VALUE"):
            kernel(grid, block, (buffer,), stream=made.stream)


def test_options_and_binaries(bare: Any, cupy: Any) -> None:
    nvrtc = cupy.cuda.nvrtc
    program = nvrtc.createProgram(f"{bare[0].prelude}{KERNEL}", "k.cu", (), ())
    with pytest.raises(nvrtc.NVRTCError, match="INVALID_OPTION"):
        nvrtc.compileProgram(program, ("-arch=fast",))
    with pytest.raises(CUDARuntimeError, match="INVALID_IMAGE"):
        cupy.cuda.Module().load(b"\x7fELF")
