"""What is copied before an invoke, in case a delegate fails in it: what may have changed then."""

from __future__ import annotations

import numpy as np
import pytest
from fake_delegates import Fake

from litedelegate import Interpreter, ModelBuilder
from litedelegate.runtime.state import State


def model(order: str) -> bytes:
    """SVDF, which keeps a state, and NEG, in the order of their first letters."""
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (1, 4))
    state = g.variable("state", (1, 4), "float32")
    first = g.constant("first", np.ones((2, 4), np.float32))
    second = g.constant("second", np.ones((2, 2), np.float32))
    for letter in order:
        if letter == "S":
            out = ("svdf", (1, 2), "float32")
            x = g.op("SVDF", [x, first, second, None, state], out, rank=1)
        else:
            shape = (1, 4) if order.startswith("N") else (1, 2)
            x = g.op("NEG", [x], ("neg", shape, "float32"))
    g.outputs(x)
    return b.build()


@pytest.mark.parametrize(("order", "saved"), [("NS", False), ("SN", True)])
def test_variables_that_change_after_the_last_partition(order: str, saved: bool) -> None:
    fake = Fake("NEG")
    interpreter = Interpreter(model_content=model(order), delegates=[fake])
    interpreter.allocate_tensors()
    graph = interpreter._graph
    assert [n.placed_on for n in interpreter.delegate_coverage().nodes].count("fake") == 1
    assert bool(State(graph, graph.subgraphs[0])) is saved
    # either way a fault leaves the variable as one invoke does
    plain = Interpreter(model_content=model(order))
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    for invoke in range(4):
        want = plain.run({"x": x})
        if invoke == 2:
            fake.strikes["invoke"] = RuntimeError("device lost")
            with pytest.warns(UserWarning, match="taken off"):
                got = interpreter.run({"x": x})
        else:
            got = interpreter.run({"x": x})
        for name, value in want.items():
            np.testing.assert_allclose(got[name], value)
