"""Inputs and outputs in a delegate's own buffers."""

from __future__ import annotations

from typing import Any

import pytest
from fake_delegates import Buffers, Fake
from test_delegates import ones, zigzag

from litedelegate import Interpreter


def made(*ops: str) -> tuple[Interpreter, Buffers, Any, Any, int]:
    """zigzag with t0 and t6 in buffers; the number of t6."""
    buffers = Buffers(*ops)
    interpreter = Interpreter(model_content=zigzag(), delegates=[buffers])
    interpreter.allocate_tensors()
    last = interpreter.get_output_details()[0]["index"]
    x, y = 2 * ones(1, 4), 0 * ones(1, 4)
    interpreter.set_buffer_handle(0, x, buffers)
    interpreter.set_buffer_handle(last, y, buffers)
    buffers.log.clear()
    return interpreter, buffers, x, y, last


def test_nothing_is_copied_until_somebody_asks() -> None:
    interpreter, buffers, x, y, last = made()
    interpreter.invoke()
    assert y[0, 0] == 30 and buffers.log == ["invoke"]
    assert [interpreter.get_tensor(last)[0, 0] for _ in range(2)] == [30, 30]
    assert buffers.log == ["invoke", "from t6"]
    x[:] = 1
    interpreter.invoke()
    assert y[0, 0] == 22 and interpreter.tensor(last)()[0, 0] == 22
    assert interpreter.get_tensor(0)[0, 0] == 1  # what is in the buffer


def test_what_the_host_writes_goes_to_the_buffer() -> None:
    interpreter, buffers, x, _, last = made()
    interpreter.set_tensor(0, ones(1, 4))
    assert x[0, 0] == 1
    interpreter.invoke()
    assert interpreter.get_tensor(last)[0, 0] == 22
    assert interpreter.run({"t0": 2 * ones(1, 4)})["t6"][0, 0] == 30
    assert x[0, 0] == 2 and buffers.log.count("to t0") == 2


def test_numpy_nodes_at_the_ends_get_their_copies() -> None:
    interpreter, buffers, _, y, _ = made("ADD")  # the last node, MUL, runs on numpy
    interpreter.invoke()
    assert y[0, 0] == 30 and "to t6" in buffers.log and "from t0" not in buffers.log
    interpreter, buffers, _, y, _ = made("MUL")  # the first one does
    interpreter.invoke()
    assert y[0, 0] == 30 and "from t0" in buffers.log and "to t6" not in buffers.log


def test_handles_are_taken_back_and_freed() -> None:
    interpreter, buffers, _, y, last = made()
    interpreter.invoke()
    interpreter.set_buffer_handle(last, None, buffers)
    assert buffers.log == ["invoke", "from t6", "free"]
    interpreter.set_tensor(0, ones(1, 4))
    interpreter.invoke()
    assert interpreter.get_tensor(last)[0, 0] == 22 and y[0, 0] == 30
    interpreter.close()
    assert buffers.log.count("free") == 2


@pytest.mark.parametrize("lost", [False, True])
def test_a_fault_brings_inputs_to_the_host_while_they_can_be_had(lost: bool) -> None:
    interpreter, buffers, _, _, last = made()
    interpreter.invoke()
    buffers.strikes["invoke"] = RuntimeError("device lost")
    if lost:
        buffers.strikes["copy"] = RuntimeError("and its memory")
        with pytest.raises(RuntimeError, match=r"input 't0' was in a buffer of fake.*its memory"):
            interpreter.invoke()
        return
    with pytest.warns(UserWarning, match="taken off"):
        interpreter.invoke()
    assert interpreter.get_tensor(last)[0, 0] == 30


def test_what_cannot_have_a_handle() -> None:
    interpreter, buffers, x, _, _ = made()
    with pytest.raises(ValueError, match="is no input or output"):
        interpreter.set_buffer_handle(3, x, buffers)
    with pytest.raises(ValueError, match="none of this interpreter's delegates"):
        interpreter.set_buffer_handle(0, x, Fake())
    plain = Fake()
    interpreter = Interpreter(model_content=zigzag(), delegates=[plain])
    with pytest.raises(ValueError, match="fake has no buffer handles"):
        interpreter.set_buffer_handle(0, x, plain)
