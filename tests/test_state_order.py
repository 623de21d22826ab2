"""State keeps its order, variable by variable: a stateful model can be delegated in one piece."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_delegates import Fake
from hypothesis import given
from hypothesis import strategies as st

from litedelegate import Interpreter, ModelBuilder
from litedelegate.runtime.state_order import ALL, NONE, State, edges

NAMES = st.frozensets(st.sampled_from("abc"), max_size=2)


@given(st.lists(NAMES | st.just(ALL), max_size=14))
def test_what_shares_state_keeps_its_order(states: list[State]) -> None:
    count = len(states)
    found = edges(states)
    after = [{b for a, b in found if a == place} for place in range(count)]
    reached = [set[int]() for _ in range(count)]
    for a in reversed(range(count)):
        reached[a] = after[a].union(*(reached[b] for b in after[a]))
    for a in range(count):
        assert all(b > a for b in after[a])
        for b in range(a + 1, count):
            clash = states[a] & states[b] or (ALL in (states[a], states[b]))
            if clash and states[a] and states[b]:
                assert b in reached[a], (a, b)
    stateful = sum(bool(s) for s in states)
    assert len(found) <= 3 * stateful


def test_what_shares_nothing_is_free() -> None:
    a, b = frozenset("a"), frozenset("b")
    assert edges([a, b, NONE, a, b]) == [(0, 3), (1, 4)]


def two_variables(barrier: bool) -> bytes:
    """Two steps of: v += x; x = NEG v, each with a variable of its own."""
    b = ModelBuilder()
    g, start = b.subgraph("main"), b.subgraph("start")
    handle_kind = ("handle", (), "resource")
    for name in "uv":
        zero = start.constant(f"zero_{name}", np.zeros(2, np.float32))
        h = start.op("VAR_HANDLE", [], handle_kind, shared_name=name)
        start.op("ASSIGN_VARIABLE", [h, zero], [])
    y = g.input("x", (2,))
    g.op("CALL_ONCE", [], [], init_subgraph_index=1)
    for name in "uv":
        h = g.op("VAR_HANDLE", [], handle_kind, shared_name=name)
        old = g.op("READ_VARIABLE", [h], (f"old_{name}", (2,), "float32"))
        new = g.op("ADD", [old, y], (f"new_{name}", (2,), "float32"))
        g.op("ASSIGN_VARIABLE", [h, new], [])
        if barrier and name == "u":
            new = g.custom("Opaque", [new], ("opaque", (2,), "float32"))
        y = g.op("NEG", [new], (f"neg_{name}", (2,), "float32"))
    g.outputs(y)
    return b.build()


@pytest.mark.parametrize("barrier", [False, True])
def test_a_stateful_model_in_one_partition(barrier: bool) -> None:
    options: dict[str, Any] = {"custom_ops": {"Opaque": lambda x: x}}
    content = two_variables(barrier)
    plain = Interpreter(model_content=content, **options)
    delegated = Interpreter(model_content=content, delegates=[Fake("ADD", "NEG")], **options)
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = rng.normal(size=2).astype(np.float32)
        want, got = plain.run({"x": x}), delegated.run({"x": x})
        (name,) = want
        np.testing.assert_array_equal(got[name], want[name])
    assert len(delegated.delegate_coverage().partitions) == (2 if barrier else 1)
