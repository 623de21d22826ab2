"""Threads: `run` takes turns, clones run side by side, low-level calls that meet are told so."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import toy_models

from litedelegate import InterleavedThreadsWarning, Interpreter, MutableOpResolver, Registration
from litedelegate.runtime.blas import one_thread
from litedelegate.runtime.threads import Pool


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


def test_run_from_many_threads_on_one_interpreter() -> None:
    interpreter = Interpreter(model_content=toy_models.chain(20))

    def work(i: int) -> bool:
        return all(
            (interpreter.run({"t0": np.full((1, 1000), i * 1000 + k, np.float32)})["t20"]
             == i * 1000 + k + 20).all()
            for k in range(50)
        )  # fmt: skip

    assert all(in_threads(4, work))


def test_runs_of_different_shapes_from_two_threads() -> None:
    interpreter = Interpreter(model_content=toy_models.flexible_batch())

    def work(i: int) -> bool:
        x = np.full((i + 1, 2, 2), i + 1, np.float32)
        return all((interpreter.run({"x": x})["flat"] == x.reshape(-1, 4)).all() for _ in range(50))

    assert all(in_threads(3, work))


def test_signature_runners_take_turns() -> None:
    interpreter = Interpreter(model_content=toy_models.two_signatures())
    runners = [interpreter.get_signature_runner(k) for k in ("double", "square")]

    def work(i: int) -> bool:
        x = np.array([3, 5], np.float32)
        expected = [6, 10] if i == 0 else [9, 25]
        return all(runners[i](x=x)["y"].tolist() == expected for _ in range(100))

    assert all(in_threads(2, work))


def test_clones_in_threads() -> None:
    one = Interpreter(model_content=toy_models.chain(20))

    def work(i: int) -> bool:
        with one.clone() as clone:
            clone.allocate_tensors()
            out = clone.get_output_details()[0]["index"]
            for k in range(30):
                clone.set_tensor(0, np.full((1, 1000), i + k, np.float32))
                clone.invoke()
                if not (clone.get_tensor(out) == i + k + 20).all():
                    return False
        return True

    assert all(in_threads(4, work))


def waiting() -> tuple[Interpreter, threading.Event, threading.Event]:
    """An interpreter whose invoke waits; and the events that it has begun and may end."""
    begun, go_on = threading.Event(), threading.Event()

    def invoke(context: Any, node: Any) -> None:
        begun.set()
        assert go_on.wait(10)
        node.outputs[0].array[...] = node.inputs[0].array

    def prepare(context: Any, node: Any) -> None:
        context.resize(node.outputs[0], node.inputs[0].shape)

    resolver = MutableOpResolver()
    resolver.add_custom("Wait", Registration(prepare=prepare, invoke=invoke))
    content = toy_models.custom(("Wait", None), shape=(2,))
    interpreter = Interpreter(model_content=content, op_resolver=resolver)
    interpreter.allocate_tensors()
    return interpreter, begun, go_on


@pytest.mark.parametrize("call", ["invoke", "set", "get", "allocate", "resize", "view"])
def test_low_level_calls_that_meet_another_threads_are_told(call: str) -> None:
    interpreter, begun, go_on = waiting()
    calls: dict[str, Callable[[], Any]] = {
        "invoke": interpreter.invoke,
        "set": lambda: interpreter.set_tensor(0, np.zeros(2, np.float32)),
        "get": lambda: interpreter.get_tensor(0),
        "allocate": interpreter.allocate_tensors,
        "resize": lambda: interpreter.resize_tensor_input(0, [3]),
        "view": interpreter.tensor(0),
    }
    other = threading.Thread(target=interpreter.invoke)
    other.start()
    try:
        assert begun.wait(10)
        with pytest.raises(RuntimeError, match=r"used from two threads.*run\(\).*clone\(\)"):
            calls[call]()
    finally:
        go_on.set()
        other.join()
    calls[call]()  # nobody else is inside: all is well


def test_two_threads_with_a_lock_of_their_own_get_no_errors() -> None:
    """Setting, invoking and reading in turn, as scripts for tf.lite do: no false alarms."""
    interpreter = Interpreter(model_content=toy_models.chain(5))
    interpreter.allocate_tensors()
    out = interpreter.get_output_details()[0]["index"]
    lock = threading.Lock()

    def work(i: int) -> bool:
        for k in range(100):
            with lock:
                interpreter.set_tensor(0, np.full((1, 1000), i * 100 + k, np.float32))
                interpreter.invoke()
                got = interpreter.get_tensor(out)
            if not (got == i * 100 + k + 5).all():
                return False
        return True

    assert all(in_threads(2, work))


def in_another_thread(work: Callable[[], Any]) -> None:
    in_threads(1, lambda _: work())


def steps() -> tuple[Interpreter, Callable[[float], None], Callable[[], Any]]:
    """An interpreter of x + 1, and how to set its input and read its output."""
    interpreter = Interpreter(model_content=toy_models.chain(1, (2,)))
    interpreter.allocate_tensors()
    out = interpreter.get_output_details()[0]["index"]
    return (
        interpreter,
        lambda v: interpreter.set_tensor(0, np.full(2, v, np.float32)),
        lambda: interpreter.get_tensor(out).tolist(),
    )


@pytest.mark.parametrize("then", ["nothing", "invoke", "run"])
def test_a_thread_whose_inputs_were_replaced_is_warned(then: str) -> None:
    interpreter, put, get = steps()

    def other() -> None:
        if then == "run":
            interpreter.run({"t0": [5, 5]})
            return
        put(5)
        if then == "invoke":
            interpreter.invoke()
            assert get() == [6, 6]

    put(1)
    in_another_thread(other)
    with pytest.warns(InterleavedThreadsWarning, match=r"this thread did not set.*run\(\)"):
        if then == "invoke":
            get()
        else:
            interpreter.invoke()
    put(2)  # from here on all is well, and nothing is said
    interpreter.invoke()
    assert get() == [3, 3]


def test_one_flow_through_several_threads_is_no_fault() -> None:
    interpreter, put, get = steps()
    put(1)
    in_another_thread(interpreter.invoke)
    assert get() == [2, 2]
    in_another_thread(lambda: put(3))
    interpreter.invoke()
    assert get() == [4, 4]
    interpreter.run({"t0": [7, 7]})
    interpreter.invoke()
    assert get() == [8, 8]


def test_close_waits_for_a_run() -> None:
    interpreter, begun, go_on = waiting()
    results: list[Any] = []
    running = threading.Thread(target=lambda: results.append(interpreter.run({"x": [1, 2]})))
    running.start()
    assert begun.wait(10)
    closing = threading.Thread(target=interpreter.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    go_on.set()
    running.join()
    closing.join()
    assert results[0]["y0"].tolist() == [1, 2]
    with pytest.raises(ValueError, match="closed"):
        interpreter.run({"x": [1, 2]})


# -- the threads inside


def test_a_pool_runs_all_tasks_and_waits() -> None:
    pool = Pool(3)
    done = np.zeros(100, int)

    def task(i: int) -> Callable[[], None]:
        def run() -> None:
            done[i] += 1

        return run

    for _ in range(5):
        pool.run([task(i) for i in range(100)])
    pool.close()
    assert (done == 5).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_pool_that_has_worked_works_in_a_forked_child() -> None:
    pool = Pool(3)
    done = np.zeros(8, int)
    tasks = [functools.partial(np.add, done[i : i + 1], 1, done[i : i + 1]) for i in range(8)]
    pool.run(tasks)
    child = os.fork()
    if child == 0:  # a copy with the pool's queue, but none of its threads
        status = 1
        try:
            with one_thread:
                pool.run(tasks)
            pool.close()
            status = 0 if (done == 2).all() else 2
        finally:
            os._exit(status)
    deadline = time.monotonic() + 20
    ended, status = 0, -1
    while not ended and time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if not ended:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert (ended, status) == (child, 0)
    pool.close()


@pytest.mark.parametrize("which", [0, 1, 5])
def test_an_error_in_a_task_is_raised_after_the_others_are_done(which: int) -> None:
    pool = Pool(2)
    done: list[int] = []

    def task(i: int) -> Callable[[], None]:
        def run() -> None:
            if i == which:
                raise KeyError(i)
            done.append(i)

        return run

    with pytest.raises(KeyError):
        pool.run([task(i) for i in range(6)])
    assert sorted(done) == [i for i in range(6) if i != which]
    pool.run([task(9)])
    pool.close()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_result_does_not_depend_on_the_number_of_threads(threads: int) -> None:
    x = np.random.default_rng(0).normal(size=(64, 2, 2)).astype(np.float32)
    interpreter = Interpreter(model_content=toy_models.flexible_batch(), num_threads=threads)
    np.testing.assert_array_equal(
        interpreter.run({"x": x})["flat"], np.maximum(x, 0).reshape(64, 4)
    )
