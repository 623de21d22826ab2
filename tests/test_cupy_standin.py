"""The stand-in for CuPy is strict: what CUDA would let pass and get wrong is an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cupy_standin import CUDARuntimeError

from litedelegate.delegates.cuda.device import CUDADevice
from litedelegate.delegates.gpu.device import Launch

KERNEL = "KERNEL void k(PARAMETERS) { IN_GRID(5, 1, 1) p[GID0] = p[GID0] * 2; }".replace(
    "PARAMETERS", "GLOBAL i32* RESTRICT p"
)


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
