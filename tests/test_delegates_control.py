"""Delegates in the subgraphs of control flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from fake_delegates import Fake
from test_control import INT, bump, loop
from test_delegates import ones

from litedelegate import Interpreter, ModelBuilder

PAIR: tuple[Any, str] = ((2,), "float32")


def branches() -> bytes:
    """c ? x + x : x * x."""
    b = ModelBuilder()
    g = b.subgraph("main")
    for name, op in (("then", "ADD"), ("else", "MUL")):
        branch = b.subgraph(name)
        inner = branch.input("a", (2,))
        branch.outputs(branch.op(op, [inner, inner], (name, (2,), "float32")))
    ends = [g.input("c", (), "bool"), g.input("x", (2,))]
    places = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    g.outputs(*g.op("IF", ends, [("y", (2,), "float32")], **places))
    return b.build()


def doubling(grow: bool = False) -> bytes:
    """x + x, again and again; `grow`: joined instead, so that it has another shape each time."""

    def body(g: Any, v: Sequence[Any]) -> Sequence[Any]:
        twice = g.op("ADD", [v[1], v[1]], ("twice", (2,), "float32"))
        if grow:
            twice = g.op("CONCATENATION", [twice, twice], ("joined", (4,), "float32"), axis=0)
        return [bump(g, v[0]), twice, v[2]]

    return loop([INT, PAIR, INT], body)


def run_loop(interpreter: Interpreter, times: int) -> Any:
    got = interpreter.run({"in0": np.int32(0), "in1": ones(2), "in2": np.int32(times)})
    return got["out1"]


def test_branches_are_delegated() -> None:
    fake = Fake()
    interpreter = Interpreter(model_content=branches(), delegates=[fake])
    for flag, want in ((True, 6), (False, 9)):
        got = interpreter.run({"c": np.array(flag), "x": 3 * ones(2)})["y"]
        np.testing.assert_array_equal(got, want * ones(2))
    report = interpreter.delegate_coverage()
    assert [(n.op, n.subgraph, n.placed_on) for n in report.nodes] == [
        ("IF", 0, "cpu"),
        ("ADD", 1, "fake"),
        ("MUL", 2, "fake"),
    ]
    assert fake.log.count("invoke") == 2


def test_the_body_of_a_loop_is_delegated() -> None:
    fake = Fake("ADD")
    interpreter = Interpreter(model_content=doubling(), delegates=[fake])
    np.testing.assert_array_equal(run_loop(interpreter, 4), 16 * ones(2))
    placed = {(n.subgraph, n.op): n.placed_on for n in interpreter.delegate_coverage().nodes}
    assert placed == {(0, "WHILE"): "cpu", (1, "LESS"): "cpu", (2, "ADD"): "fake"}
    assert fake.log.count("invoke") == 4 and fake.log.count("build") == 1


def test_a_loop_that_grows_a_tensor_is_left_to_numpy_where_it_grows() -> None:
    fake = Fake("ADD")
    interpreter = Interpreter(model_content=doubling(grow=True), delegates=[fake])
    for times in (3, 1, 2):
        got = run_loop(interpreter, times)
        np.testing.assert_array_equal(got, np.full(2 * 2**times, 2**times))
    assert fake.log.count("build") <= 2
    report = interpreter.delegate_coverage()
    assert all(n.refusals for n in report.on_cpu)


@pytest.mark.parametrize("at", [0, 2])
def test_a_fault_in_a_loop_runs_the_whole_model_again(at: int) -> None:
    fake = Fake("ADD")

    def lose(node: Any) -> None:
        if fake.log.count("invoke") > at:
            raise RuntimeError("device lost")

    fake.strikes["invoke"] = lose
    interpreter = Interpreter(model_content=doubling(), delegates=[fake])
    with pytest.warns(UserWarning, match="taken off"):
        got = run_loop(interpreter, 4)
    np.testing.assert_array_equal(got, 16 * ones(2))
    np.testing.assert_array_equal(run_loop(interpreter, 5), 32 * ones(2))
    report = interpreter.delegate_coverage()
    assert {r.code for n in report.on_cpu for r in n.refusals} == {"DEVICE"}


def test_a_fault_in_a_branch() -> None:
    fake = Fake("MUL")
    fake.strikes["invoke"] = RuntimeError("device lost")
    interpreter = Interpreter(model_content=branches(), delegates=[fake])
    assert interpreter.run({"c": np.array(True), "x": 3 * ones(2)})["y"][0] == 6
    with pytest.warns(UserWarning, match="taken off"):
        assert interpreter.run({"c": np.array(False), "x": 3 * ones(2)})["y"][0] == 9
