"""CUDA: users' arrays in and out, asynchronous invokes; on the stand-in for CuPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_models import close, on_device, sample
from cupy_standin import CUDARuntimeError
from test_opencl import residual

from litedelegate import Interpreter, ModelBuilder
from litedelegate.delegates.cuda import CUDADelegate

# -- arrays on the device


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


@pytest.mark.parametrize("value", [7, "x", [1.0], np.zeros(3, np.float32), object()])
def test_what_is_no_array_of_a_device_is_no_handle(delegate: CUDADelegate, value: Any) -> None:
    interpreter = Interpreter(model_content=residual(), delegates=[delegate])
    with pytest.raises(ValueError, match="for 'x'; cuda takes arrays on its device"):
        interpreter.set_buffer_handle(0, value, delegate)


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
