"""`invoke_async`: asynchronous kernels in C and in Python, delegates that offer it, and threads."""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from c_libraries import built, one_op

from litedelegate import (
    AsyncKernel,
    Context,
    Delegate,
    Interpreter,
    Kernel,
    ModelBuilder,
    Node,
    OpError,
    OpLibrary,
    Partition,
    Registration,
    SimpleDelegate,
    load_op_library,
)
from litedelegate.runtime.async_kernel import (
    HOST_MEMORY,
    AttributeMap,
    BufferKey,
    ExecutionTask,
    IoType,
)

X = np.arange(4, dtype=np.float32)


@pytest.fixture(scope="module")
def library() -> Iterator[OpLibrary]:
    yield load_op_library(built("tests/c_ops/waiting.c", "-pthread"))


def model(op: str = "Later", **options: int) -> bytes:
    builder = ModelBuilder()
    g = builder.subgraph("main")
    x = g.input("x", (4,), shape_signature=(-1,))
    y = g.custom(op, [x], ("y", (4,), "float32"), options=options)
    g.outputs(y)
    builder.signature("serving_default", {"x": x}, {"y": y})
    return builder.build()


def ready(content: bytes, library: Any, **more: Any) -> tuple[Interpreter, int]:
    interpreter = Interpreter(model_content=content, custom_ops=library, **more)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], X)
    return interpreter, interpreter.get_output_details()[0]["index"]


# -- in C


def test_a_c_operator_completes_on_a_thread_of_its_own(library: OpLibrary) -> None:
    interpreter, out = ready(model(milliseconds=200), library)
    start = time.perf_counter()
    run = interpreter.invoke_async()
    assert time.perf_counter() - start < 0.15 and not run.done()
    assert run.wait() is None and run.done()
    assert time.perf_counter() - start >= 0.19
    np.testing.assert_array_equal(interpreter.get_tensor(out), 2 * X)
    for _ in range(3):  # buffers stay registered
        interpreter.invoke_async().wait()
    interpreter.close()


def test_buffers_follow_the_memory(library: OpLibrary) -> None:
    with Interpreter(model_content=model(milliseconds=1), custom_ops=library) as interpreter:
        for n in (4, 9, 2, 4):
            interpreter.resize_tensor_input(0, [n])
            interpreter.allocate_tensors()
            interpreter.set_tensor(0, np.arange(n, dtype=np.float32))
            interpreter.invoke_async().wait()
            np.testing.assert_array_equal(interpreter.get_tensor(1), 2 * np.arange(n))


def test_any_other_invoke_waits_for_it(library: OpLibrary) -> None:
    with Interpreter(model_content=model(milliseconds=1), custom_ops=library) as interpreter:
        np.testing.assert_array_equal(interpreter.run({"x": X})["y"], 2 * X)


def test_invoke_is_used_where_there_is_one(library: OpLibrary) -> None:
    interpreter, out = ready(model("Both", milliseconds=1), library)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(out), 3 * X)
    interpreter.invoke_async().wait()
    np.testing.assert_array_equal(interpreter.get_tensor(out), 2 * X)
    interpreter.close()


@pytest.mark.parametrize(
    ("fail", "text"),
    [
        (1, r"no room for buffer \d"),
        (2, "the async prepare fails"),
        (3, "eval fails"),
        (4, "its thread has failed"),
        (5, r"the buffer of 'x' has .* the kernel conflicts in \{2: 4096\}"),
        (6, "finish fails"),
        (7, "a function for a map was called with a handle that is no longer valid"),
    ],
)
def test_errors_come_out_of_wait(fail: int, text: str, library: OpLibrary) -> None:
    interpreter, _ = ready(model(fail=fail, milliseconds=1), library)
    run = interpreter.invoke_async()
    for _ in range(2):
        with pytest.raises(
            RuntimeError, match=rf"{text}[^$]*\nNode number 0 \(Later\) failed to inv"
        ):
            run.wait()
    interpreter.set_tensor(0, X)  # usable again
    with pytest.raises(RuntimeError, match=text):
        interpreter.invoke()
    interpreter.close()


# -- in Python


class Doubling(AsyncKernel):
    """y = 2 * x on a thread; it keeps what it was told."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.buffers: dict[int, Any] = {}
        self.attributes: list[AttributeMap] = []
        self.strike = ""
        self.types: tuple[str, ...] = ("other", HOST_MEMORY)
        self.hold = threading.Event()
        self.hold.set()

    def _note(self, what: str) -> None:
        self.log.append(what)
        if self.strike == what:
            raise OpError(f"{what} fails")

    def supported_buffer_types(self, io: IoType) -> tuple[str, ...]:
        return self.types

    def register_buffer(
        self, context: Context, io: IoType, buffer: Any, attributes: AttributeMap, handle: int
    ) -> None:
        self._note(f"register {io.name.lower()}")
        assert attributes[BufferKey.SIZE] == buffer.nbytes
        self.buffers[handle] = buffer

    def unregister_buffer(self, context: Context, handle: int) -> None:
        self._note("unregister")
        del self.buffers[handle]

    def set_attributes(
        self, context: Context, node: Node, tensor: int, attributes: AttributeMap
    ) -> None:
        self.attributes.append(attributes)

    def prepare(self, context: Context, node: Node) -> None:
        self._note("prepare")

    def eval(self, context: Context, node: Node, task: ExecutionTask) -> None:
        self._note("eval")
        x, y = (self.buffers[task.buffers[t.index]] for t in (node.inputs[0], node.outputs[0]) if t)

        def work() -> None:
            self.hold.wait(10)
            np.multiply(x, 2, out=y)

        task.data = threading.Thread(target=work)
        task.data.start()

    def wait(self, context: Context, task: ExecutionTask) -> None:
        task.data.join()
        self._note("wait")

    def finish(self, context: Context, task: ExecutionTask) -> None:
        self._note("finish")


def doubling(kernel: AsyncKernel) -> dict[str, Registration]:
    def prepare(context: Context, node: Node) -> None:
        x = node.inputs[0]
        assert x is not None
        context.resize(node.outputs[0], x.shape)

    return {"Later": Registration(prepare=prepare, async_kernel=lambda context, node: kernel)}


def test_a_python_kernel_sees_the_whole_order() -> None:
    kernel = Doubling()
    interpreter, out = ready(model(), doubling(kernel))
    kernel.hold.clear()
    run = interpreter.invoke_async()
    assert not run.done()
    kernel.hold.set()
    run.wait()
    np.testing.assert_array_equal(interpreter.get_tensor(out), 2 * X)
    first = ["register input", "register output", "prepare"]
    each = ["eval", "wait", "finish"]
    assert kernel.log == first + each
    assert [a.kind for a in kernel.attributes] == [1, 2, 1, 2]
    assert kernel.attributes[0][BufferKey.RESOURCE_TYPE_NAME] == HOST_MEMORY
    interpreter.invoke_async().wait()
    assert kernel.log == first + 2 * each
    interpreter.close()
    assert kernel.log == first + 2 * each + 2 * ["unregister"] and not kernel.buffers


@pytest.mark.parametrize("strike", ["register output", "prepare", "eval", "wait", "finish"])
def test_a_python_kernel_s_errors(strike: str) -> None:
    kernel = Doubling()
    kernel.strike = strike
    interpreter, _ = ready(model(), doubling(kernel))
    with pytest.raises(RuntimeError, match=f"{strike} fails"):
        interpreter.invoke_async().wait()
    assert ("finish" in kernel.log) == ("wait" in kernel.log)
    kernel.strike = ""
    interpreter.invoke_async().wait()
    np.testing.assert_array_equal(interpreter.get_tensor(1), 2 * X)


def test_what_takes_no_host_memory_is_refused() -> None:
    kernel = Doubling()
    kernel.types = ("AHardwareBuffer",)
    interpreter, _ = ready(model(), doubling(kernel))
    with pytest.raises(RuntimeError, match="of the type AHardwareBuffer; here there is host_memo"):
        interpreter.invoke_async().wait()


def test_what_is_no_kernel() -> None:
    ops = doubling(None)  # type: ignore[arg-type]
    interpreter, _ = ready(model(), ops)
    with pytest.raises(RuntimeError, match="async_kernel gave None, which is no AsyncKernel"):
        interpreter.invoke_async().wait()


# -- the interpreter meanwhile


def waiting() -> tuple[Interpreter, Doubling, Any]:
    kernel = Doubling()
    interpreter, _ = ready(model(), doubling(kernel))
    kernel.hold.clear()
    return interpreter, kernel, interpreter.invoke_async()


def test_the_interpreter_is_guarded_until_wait() -> None:
    interpreter, kernel, run = waiting()
    for call in (
        lambda: interpreter.set_tensor(0, X),
        lambda: interpreter.get_tensor(1),
        interpreter.invoke,
        interpreter.invoke_async,
        interpreter.allocate_tensors,
        lambda: interpreter.resize_tensor_input(0, [2]),
        interpreter.delegate_coverage,
    ):
        with pytest.raises(RuntimeError, match="while an asynchronous invoke is under way: call w"):
            call()
    np.testing.assert_array_equal(interpreter.clone().get_input_details()[0]["shape"], [4])
    kernel.hold.set()
    while not run.done():
        time.sleep(0.001)
    with pytest.raises(RuntimeError, match="under way"):  # done is not waited for
        interpreter.get_tensor(1)
    run.wait()
    np.testing.assert_array_equal(interpreter.get_tensor(1), 2 * X)


def test_run_and_close_wait_themselves() -> None:
    interpreter, kernel, run = waiting()
    threading.Timer(0.05, kernel.hold.set).start()
    np.testing.assert_array_equal(interpreter.run({"x": X + 1})["y"], 2 * X + 2)
    assert run.done() and run.wait() is None
    interpreter, kernel, run = waiting()
    threading.Timer(0.05, kernel.hold.set).start()
    interpreter.close()
    run.wait()
    assert kernel.log[-2:] == 2 * ["unregister"]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that send signals here")
def test_an_interrupted_wait_leaves_it_under_way() -> None:
    """Ctrl-C ends the waiting, not the work, which goes on in the interpreter's memory."""
    hold = threading.Event()

    def slow(x: Any) -> Any:
        hold.wait(20)
        return x + 1

    interpreter = Interpreter(model_content=model("Slow"), custom_ops={"Slow": slow})
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, X)
    run = interpreter.invoke_async()
    known = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            run.wait()
    finally:
        signal.signal(signal.SIGALRM, known)
    assert not run.done()
    with pytest.raises(RuntimeError, match="under way"):
        interpreter.set_tensor(0, X)
    hold.set()
    run.wait()
    np.testing.assert_array_equal(interpreter.get_tensor(1), X + 1)


def test_an_interpreter_that_is_let_go_stays_until_it_is_done() -> None:
    interpreter, kernel, run = waiting()
    del interpreter
    gc.collect()
    assert "unregister" not in kernel.log
    kernel.hold.set()
    run.wait()
    del run
    gc.collect()
    assert kernel.log[-2:] == 2 * ["unregister"]


def test_an_op_may_read_and_nothing_else() -> None:
    box: list[Any] = []

    def peek(x: Any) -> Any:
        (interpreter,) = box[:1]
        box.append(interpreter.get_tensor(0))
        for call in (interpreter.invoke, lambda: interpreter.run({"x": x})):
            with pytest.raises(OpError, match=r"called from within invoke_async\(\)"):
                call()
        return x

    interpreter, out = ready(model("Peek"), {"Peek": peek})
    box.append(interpreter)
    interpreter.invoke_async().wait()
    np.testing.assert_array_equal(box[1], X)
    np.testing.assert_array_equal(interpreter.get_tensor(out), X)


def test_before_allocation() -> None:
    interpreter = Interpreter(model_content=model(), custom_ops=doubling(Doubling()))
    with pytest.raises(RuntimeError, match="not ready"):
        interpreter.invoke_async()
    interpreter.allocate_tensors()


def test_signatures(library: OpLibrary) -> None:
    interpreter = Interpreter(model_content=model(milliseconds=20), custom_ops=library)
    runner = interpreter.get_signature_runner()
    x = X.copy()
    run = runner.invoke_async(x=x)
    x[:] = -1  # the values are those at the call
    np.testing.assert_array_equal(run.wait()["y"], 2 * X)
    assert run.wait() is run.wait()
    with pytest.raises(ValueError, match="Invalid Input name"):
        runner.invoke_async(z=X)
    with pytest.raises(ValueError, match=r"FLOAT64|float64"):
        runner.invoke_async(x=X.astype(np.float64)).wait()


def test_many_at_once(library: OpLibrary) -> None:
    """Interpreters do not wait for each other."""
    several = [ready(model(milliseconds=200), library) for _ in range(8)]
    start = time.perf_counter()
    runs = [interpreter.invoke_async() for interpreter, _ in several]
    for run in runs:
        run.wait()
    assert time.perf_counter() - start < 8 * 0.2
    for interpreter, out in several:
        np.testing.assert_array_equal(interpreter.get_tensor(out), 2 * X)
        interpreter.close()


# -- delegates


class Event:
    """Work on a device, which this thread stands for."""

    def __init__(self, work: Any, error: Exception | None) -> None:
        self.go = threading.Event()
        self.over = threading.Event()
        self.error = error
        self.waits = 0

        def run() -> None:
            self.go.wait(10)
            work()
            self.over.set()

        threading.Thread(target=run).start()

    def done(self) -> bool:
        return self.over.is_set()

    def wait(self) -> None:
        self.waits += 1
        self.go.set()
        assert self.over.wait(10)
        if self.error is not None:
            raise self.error


class AsyncSums(SimpleDelegate):
    name = "sums"

    def __init__(self, **errors: Exception) -> None:
        self.errors = errors
        self.events: list[Event] = []
        self.offered = True

    def lower(self, node: Node, registration: Registration) -> Any:
        return True if node.op == "ADD" else self.refuse(node, "OP", "takes ADD")

    def build(self, partition: Partition) -> Kernel:
        delegate = self

        class Sums(Kernel):
            def invoke(self) -> None:
                for node in partition.nodes:
                    a, b = (t.array for t in node.inputs if t is not None)
                    np.add(a, b, out=node.outputs[0].array)

            def invoke_async(self) -> Event | None:
                if "start" in delegate.errors:
                    raise delegate.errors["start"]
                if not delegate.offered:
                    return None
                event = Event(self.invoke, delegate.errors.get("wait"))
                delegate.events.append(event)
                return event

        return Sums()


def sums(*ops: str) -> bytes:
    builder = ModelBuilder()
    g = builder.subgraph("main")
    t = g.input("x", (4,))
    for i, op in enumerate(ops):
        t = g.op(op, [t, t], (f"t{i}", (4,), "float32"))
    g.outputs(t)
    return builder.build()


def delegated(delegate: Delegate, *ops: str, **more: Any) -> tuple[Interpreter, int]:
    return ready(sums(*(ops or ("ADD",))), None, delegates=[delegate], **more)


def test_a_delegate_s_event_is_what_is_waited_for() -> None:
    delegate = AsyncSums()
    interpreter, out = delegated(delegate)
    run = interpreter.invoke_async()
    (event,) = delegate.events
    assert not run.done()
    event.go.set()
    event.over.wait(10)
    assert run.done() and event.waits == 0
    with pytest.raises(RuntimeError, match="under way"):
        interpreter.get_tensor(out)
    run.wait()
    run.wait()
    assert event.waits == 1
    np.testing.assert_array_equal(interpreter.get_tensor(out), 2 * X)


@pytest.mark.parametrize("ops", [("ADD", "MUL"), ("MUL", "ADD")])
def test_with_numpy_nodes_beside_it_a_thread_runs_all(ops: tuple[str, ...]) -> None:
    delegate = AsyncSums()
    interpreter, out = delegated(delegate, *ops)
    interpreter.invoke_async().wait()
    assert not delegate.events
    want = (2 * X) ** 2 if ops[0] == "ADD" else 2 * X**2
    np.testing.assert_array_equal(interpreter.get_tensor(out), want)


def test_one_that_does_not_offer_it_runs_on_a_thread() -> None:
    delegate = AsyncSums()
    delegate.offered = False
    interpreter, out = delegated(delegate)
    interpreter.invoke_async().wait()
    np.testing.assert_array_equal(interpreter.get_tensor(out), 2 * X)


@pytest.mark.parametrize("where", ["start", "wait"])
def test_a_fault_is_recovered_from_as_in_invoke(where: str) -> None:
    delegate = AsyncSums(**{where: RuntimeError("device lost")})
    interpreter, out = delegated(delegate)
    with pytest.warns(UserWarning, match=r"sums is taken off.*device lost"):
        interpreter.invoke_async().wait()
    np.testing.assert_array_equal(interpreter.get_tensor(out), 2 * X)
    assert interpreter.delegates == ()
    interpreter.invoke_async().wait()


@pytest.mark.parametrize("where", ["start", "wait"])
def test_a_fault_with_strict_and_bad_values_are_errors(where: str) -> None:
    for error, strict in ((RuntimeError("device lost"), True), (OpError("index 9"), False)):
        interpreter, _ = delegated(AsyncSums(**{where: error}), strict=strict)
        with pytest.raises(RuntimeError, match=f"{error}\nNode number 1"):
            interpreter.invoke_async().wait()
        assert len(interpreter.delegates) == 1
        interpreter.invoke()


def test_one_that_nobody_waits_for_is_over_before_its_kernel_is_freed() -> None:
    delegate = AsyncSums(wait=RuntimeError("device lost"))
    interpreter, _ = delegated(delegate)
    interpreter.invoke_async()
    del interpreter
    with pytest.warns(UserWarning, match="nobody waited for failed: device lost"):
        gc.collect()
    assert delegate.events[0].waits == 1 and delegate.events[0].done()


def test_run_waits_for_a_delegate_too() -> None:
    delegate = AsyncSums()
    interpreter, _ = delegated(delegate)
    run = interpreter.invoke_async()
    np.testing.assert_array_equal(interpreter.run({"x": X + 1})["t0"], 2 * X + 2)
    assert run.done() and delegate.events[0].waits == 1
    run = interpreter.invoke_async()
    interpreter.close()
    assert delegate.events[1].waits == 1
    run.wait()


def test_one_op(library: OpLibrary) -> None:
    """Strings have no buffers: such a node is refused where it has nothing but the kernel."""
    text = one_op("Later", [("x", (2,), "string")], ("y", (2,), "string"))
    interpreter = Interpreter(model_content=text, custom_ops=library)
    interpreter.allocate_tensors()
    with pytest.raises(RuntimeError, match="takes no strings"):
        interpreter.invoke_async().wait()
