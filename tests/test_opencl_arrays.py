"""OpenCL: users' arrays and buffers as inputs and outputs, on both drivers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_models import close, sample
from devices import NAMES, device

from litedelegate import Delegate, Interpreter, ModelBuilder
from litedelegate.delegates.opencl import OpenCLDelegate
from litedelegate.delegates.opencl.sharing import HostMemory
from litedelegate.kernels.types import Array

cl = pytest.importorskip("pyopencl")
arrays = pytest.importorskip("pyopencl.array")


@pytest.fixture(params=list(NAMES))
def delegate(request: pytest.FixtureRequest, tmp_path: Path) -> OpenCLDelegate:
    found = device(request.param)
    return OpenCLDelegate(found.device.platform.name.strip(), cache=tmp_path)


def negated(*, dynamic: bool = False) -> bytes:
    b = ModelBuilder()
    g = b.subgraph("main")
    signature = (-1, 3) if dynamic else None
    x = g.input("x", (2, 3), shape_signature=signature)
    g.outputs(g.op("NEG", [x], ("y", (2, 3), "float32", None, signature)))
    return b.build()


def copied(delegate: OpenCLDelegate, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of what goes to or from the host from here on."""
    seen: list[int] = []
    for name in ("upload", "download", "wrap"):
        of_device: Callable[[Any, Array], None] = getattr(delegate.device, name)

        def noted(*args: Any, call: Callable[..., Any] = of_device, which: str = name) -> Any:
            if which != "wrap":
                seen.append(args[-1].nbytes)
            return call(*args)

        monkeypatch.setattr(delegate.device, name, noted)
    return seen


def test_nothing_goes_through_the_host(
    delegate: OpenCLDelegate, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = np.arange(6, dtype=np.float32).reshape(2, 3)
    interpreter = Interpreter(model_content=negated(), delegates=[delegate])
    interpreter.run({"x": content})
    given = [arrays.to_device(delegate.queue, content + i) for i in range(2)]
    interpreter.run({"x": given[0]}, on_device=True)
    # the host's own array says what no kernel of this invoke may have read
    host = interpreter.get_input_details()[0]["index"]
    seen = copied(delegate, monkeypatch)
    for turn in range(4):
        got = interpreter.run({"x": given[turn % 2]}, on_device=True)["y"]
        assert isinstance(got, arrays.Array) and got.queue == delegate.queue
        assert seen == []
        np.testing.assert_array_equal(got.get(), -content - turn % 2)
    np.testing.assert_array_equal(interpreter.get_tensor(host), content)
    np.testing.assert_array_equal(interpreter.run({"x": content + 7})["y"], -content - 7)
    np.testing.assert_array_equal(given[0].get(), content)  # the user's array is as it was


def test_a_model_with_constants(delegate: OpenCLDelegate) -> None:
    from test_opencl import residual

    interpreter = Interpreter(model_content=residual(), delegates=[delegate])
    for seed in range(3):
        x = arrays.to_device(delegate.queue, sample(seed))
        close(interpreter.run({"x": x}, on_device=True)["y"].get(), sample(seed))
    for op in ("MUL", "CONV_2D", "RESHAPE"):  # which numpy runs, with copies
        interpreter = Interpreter(model_content=residual(), delegates=[delegate], exclude=[op])
        got = interpreter.run({"x": arrays.to_device(delegate.queue, sample())}, on_device=True)
        close(got["y"].get(), sample())


def test_an_array_stays_set_and_is_read_again(delegate: OpenCLDelegate) -> None:
    interpreter = Interpreter(model_content=negated(), delegates=[delegate])
    interpreter.allocate_tensors()
    x = arrays.to_device(delegate.queue, np.zeros((2, 3), np.float32))
    interpreter.set_tensor(0, x)
    for value in (1, 2):
        x.fill(value)  # enqueued, and waited for
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(1), np.full((2, 3), -value))
    np.testing.assert_array_equal(interpreter.get_tensor(0), np.full((2, 3), 2))
    interpreter.set_tensor(0, np.full((2, 3), 3, np.float32))
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(1), np.full((2, 3), -3))
    np.testing.assert_array_equal(x.get(), np.full((2, 3), 2))


def test_what_another_queue_fills_is_waited_for(delegate: OpenCLDelegate) -> None:
    """PyOpenCL's arrays know what fills them."""
    other = cl.CommandQueue(delegate.context)
    interpreter = Interpreter(model_content=negated(), delegates=[delegate])
    interpreter.allocate_tensors()
    gate = cl.UserEvent(delegate.context)
    x = arrays.zeros(other, (2, 3), np.float32)
    x.finish()
    x.add_event(cl.enqueue_fill_buffer(other, x.base_data, np.float32(5), 0, 24, wait_for=[gate]))
    interpreter.set_tensor(0, x)
    gate.set_status(cl.command_execution_status.COMPLETE)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(1), np.full((2, 3), -5))


def test_inputs_and_outputs_in_buffers(delegate: OpenCLDelegate) -> None:
    interpreter = Interpreter(model_content=negated(), delegates=[delegate])
    interpreter.allocate_tensors()
    content = np.arange(6, dtype=np.float32).reshape(2, 3)
    context, flags = delegate.context, cl.mem_flags
    x = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=content)
    y = cl.Buffer(context, flags.READ_WRITE, content.nbytes)
    interpreter.set_buffer_handle(0, x, delegate)
    interpreter.set_buffer_handle(1, y, delegate)
    got = np.empty((2, 3), np.float32)
    for turn in range(3):
        interpreter.invoke()
        cl.enqueue_copy(delegate.queue, got, y)
        np.testing.assert_array_equal(got, -content - turn)
        np.testing.assert_array_equal(interpreter.get_tensor(1), -content - turn)
        interpreter.set_tensor(0, content + turn + 1)  # goes to the buffer
        cl.enqueue_copy(delegate.queue, got, x)
        np.testing.assert_array_equal(got, content + turn + 1)
    interpreter.set_buffer_handle(1, None, delegate)
    interpreter.set_buffer_handle(0, None, delegate)
    interpreter.set_tensor(0, content + 9)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(1), -content - 9)
    cl.enqueue_copy(delegate.queue, got, y)
    np.testing.assert_array_equal(got, -content - 2)  # nobody's any more


@pytest.mark.parametrize("mode", ["direct", "mapped", "none"])
def test_however_memory_is_shared_with_the_host(delegate: OpenCLDelegate, mode: Any) -> None:
    d = delegate.device
    d.host = HostMemory(d.device, d.context, mode)
    interpreter = Interpreter(model_content=negated(), delegates=[delegate])
    for turn, (here, there) in enumerate([(False, False), (True, True), (True, False)] * 2):
        x = np.arange(6, dtype=np.float32).reshape(2, 3) + turn
        given = arrays.to_device(delegate.queue, x) if here else x
        got = interpreter.run({"x": given}, on_device=there)["y"]
        np.testing.assert_array_equal(got.get() if there else got, -x)


def test_an_input_and_an_output_in_one_buffer(delegate: OpenCLDelegate) -> None:
    interpreter = Interpreter(model_content=negated(), delegates=[delegate])
    interpreter.allocate_tensors()
    x = arrays.to_device(delegate.queue, np.ones((2, 3), np.float32))
    interpreter.set_buffer_handle(0, x, delegate)
    interpreter.set_buffer_handle(1, x, delegate)
    with pytest.raises(RuntimeError, match="tensors 0 and 1 share a buffer"):
        interpreter.invoke()
    interpreter.set_buffer_handle(1, None, delegate)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(1), -np.ones((2, 3)))


def test_what_its_owner_lets_go_stays_until_it_is_taken_back(delegate: OpenCLDelegate) -> None:
    interpreter = Interpreter(model_content=negated(), delegates=[delegate])
    interpreter.allocate_tensors()
    y = cl.Buffer(delegate.context, cl.mem_flags.READ_WRITE, 24)
    interpreter.set_buffer_handle(1, y, delegate)
    y.release()
    interpreter.set_tensor(0, np.ones((2, 3), np.float32))
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(1), -np.ones((2, 3)))


def test_parts_of_arrays(delegate: OpenCLDelegate) -> None:
    interpreter = Interpreter(model_content=negated(), delegates=[delegate])
    interpreter.allocate_tensors()
    whole = arrays.to_device(delegate.queue, np.arange(600, dtype=np.float32).reshape(200, 3))
    step = delegate.device.alignment // 4  # rows of 12 bytes that begin where they may
    part = whole[step : step + 2]
    assert part.offset
    interpreter.set_tensor(0, part)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(1), -whole.get()[step : step + 2])
    with pytest.raises(ValueError, match="begins at byte 12 of its buffer; takes a multiple of"):
        interpreter.set_tensor(0, whole[1:3])
    inner = whole.base_data.get_sub_region(0, 240 * 4)
    nested = arrays.Array(
        delegate.queue, (2, 3), np.float32, data=inner, offset=delegate.device.alignment
    )
    with pytest.raises(ValueError, match="not within a part of a buffer"):
        interpreter.set_tensor(0, nested)
    pool = cl.tools.MemoryPool(cl.tools.ImmediateAllocator(delegate.queue))
    pooled = arrays.to_device(delegate.queue, np.ones((2, 3), np.float32), allocator=pool)
    interpreter.set_tensor(0, pooled)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(1), -np.ones((2, 3)))


def test_views_of_one_tensor_are_outputs_of_their_own(delegate: OpenCLDelegate) -> None:
    b = ModelBuilder()
    g = b.subgraph("main")
    t = g.op("NEG", [g.input("x", (2, 3))], ("t", (2, 3), "float32"))
    names = []
    for name, shape in (("r", (3, 2)), ("s", (1, 6))):
        to = g.constant(f"to_{name}", np.array(shape, np.int32))
        names.append(g.op("RESHAPE", [t, to], (name, shape, "float32"), new_shape=shape))
    g.outputs(*names)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for given in ((0,), (1,), (0, 1)):
        interpreter = Interpreter(model_content=b.build(), delegates=[delegate])
        interpreter.allocate_tensors()
        outputs = interpreter.get_output_details()
        buffers = {}
        for i in given:
            buffers[i] = arrays.zeros(delegate.queue, tuple(outputs[i]["shape"]), np.float32)
            interpreter.set_buffer_handle(outputs[i]["index"], buffers[i], delegate)
        interpreter.set_tensor(0, x)
        interpreter.invoke()
        for i, shape in enumerate(((3, 2), (1, 6))):
            np.testing.assert_array_equal(
                interpreter.get_tensor(outputs[i]["index"]), -x.reshape(shape)
            )
            if i in buffers:
                np.testing.assert_array_equal(buffers[i].get(), -x.reshape(shape))


def test_other_shapes(delegate: OpenCLDelegate) -> None:
    """`run` resizes by the array; a buffer that was given for one shape is refused for another."""
    interpreter = Interpreter(model_content=negated(dynamic=True), delegates=[delegate])
    for rows in (2, 5, 0, 2):
        x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
        got = interpreter.run({"x": arrays.to_device(delegate.queue, x)}, on_device=True)["y"]
        np.testing.assert_array_equal(got.get(), -x)
    interpreter.allocate_tensors()
    y = arrays.zeros(delegate.queue, (2, 3), np.float32)
    interpreter.set_buffer_handle(1, y, delegate)
    interpreter.resize_tensor_input(0, (5, 3))
    with pytest.raises(ValueError, match="the shape of 'y' is not known after a resize"):
        interpreter.set_buffer_handle(1, y, delegate)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.ones((5, 3), np.float32))
    with pytest.raises(ValueError, match=r"'y' has the shape \(5, 3\).* was given for \(2, 3\)"):
        interpreter.invoke()
    assert [d.name for d in interpreter.delegates] == ["opencl"]
    interpreter.set_buffer_handle(1, None, delegate)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(1), -np.ones((5, 3)))


def test_what_does_not_fit(delegate: OpenCLDelegate) -> None:
    interpreter = Interpreter(model_content=negated(), delegates=[delegate])
    interpreter.allocate_tensors()
    queue = delegate.queue
    another = cl.Context([queue.device])
    elsewhere = cl.CommandQueue(another)
    turned = arrays.to_device(queue, np.zeros((3, 2), np.float32)).T
    wrong = {
        "is float16; takes float32": arrays.zeros(queue, (2, 3), np.float16),
        r"has the shape \(3, 2\); takes \(2, 3\)": arrays.zeros(queue, (3, 2), np.float32),
        "is not in row-major order": turned,
        "is of another context": arrays.zeros(elsewhere, (2, 3), np.float32),
        "has 20 bytes; takes 24": cl.Buffer(delegate.context, cl.mem_flags.READ_WRITE, 20),
        "has 28 bytes; takes 24": cl.Buffer(delegate.context, cl.mem_flags.READ_WRITE, 28),
    }
    for text, value in wrong.items():
        with pytest.raises(ValueError, match=rf"for 'x' on {queue.device.name[:5]}.*{text}"):
            interpreter.set_buffer_handle(0, value, delegate)
        with pytest.raises(ValueError, match=text):
            interpreter.set_tensor(0, value)
    for value in (np.zeros((2, 3), np.float32), 7, "x"):
        with pytest.raises(ValueError, match="for 'x'; opencl takes arrays on its device"):
            interpreter.set_buffer_handle(0, value, delegate)
    np.testing.assert_array_equal(interpreter.run({"x": np.ones((2, 3), np.float32)})["y"], -1)


def test_the_callers_queue(delegate: OpenCLDelegate, tmp_path: Path) -> None:
    context = cl.Context([delegate.queue.device])
    queue = cl.CommandQueue(context)
    own = OpenCLDelegate(queue=queue, cache=tmp_path)
    assert own.queue is queue
    interpreter = Interpreter(model_content=negated(), delegates=[delegate, own], exclude=[])
    x = arrays.to_device(queue, np.ones((2, 3), np.float32))
    np.testing.assert_array_equal(interpreter.run({"x": x})["y"], -1)  # the second takes it
    unordered = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    with pytest.raises(ValueError, match="takes one that runs in order"):
        OpenCLDelegate(queue=cl.CommandQueue(context, properties=unordered))
    with pytest.raises(TypeError, match=r"queue is a pyopencl\.CommandQueue, not 3"):
        OpenCLDelegate(queue=3)
    with pytest.raises(ValueError, match="got device=0 and a queue, which has its device"):
        OpenCLDelegate(0, queue=queue)


@pytest.mark.parametrize("here", [False, True])
def test_an_input_that_is_an_output_too(delegate: OpenCLDelegate, here: bool) -> None:
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (2, 3))
    g.outputs(x, g.op("NEG", [x], ("y", (2, 3), "float32")))
    interpreter = Interpreter(model_content=b.build(), delegates=[delegate])
    for turn in range(2):
        value = np.arange(6, dtype=np.float32).reshape(2, 3) + turn
        given = arrays.to_device(delegate.queue, value) if here else value
        got = interpreter.run({"x": given}, on_device=True)
        np.testing.assert_array_equal(got["x"], value)
        np.testing.assert_array_equal(got["y"].get(), -value)


def test_nobody_takes_the_array(delegate: OpenCLDelegate) -> None:
    x = arrays.zeros(delegate.queue, (2, 3), np.float32)

    class Known(Delegate):
        """Knows such arrays, and does not reach the device of this one."""

        def prepare(self, context: Any) -> None:
            pass

        def is_buffer(self, value: Any) -> bool:
            return isinstance(value, arrays.Array)

    with pytest.raises(ValueError, match=r"'x' got a pyopencl.* and no delegate .* takes it"):
        Interpreter(model_content=negated(), delegates=[Known()]).run({"x": x})


def test_pips_driver_is_found_whoever_imports_pyopencl_first() -> None:
    device("opencl-intel")
    code = (
        "import pyopencl; from litedelegate.delegates.opencl.find import devices; "
        "print([d.platform.name for d in devices()])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent / "src",
    )
    assert NAMES["opencl-intel"] in done.stdout
