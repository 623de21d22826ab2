"""Partitioning: TensorFlow Lite's own examples, then random graphs against the properties."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litedelegate.runtime.partition import Ends, Subset, partition

# 0 -> 1 -> 2* -> 3* -> 5 and 1 -> 4 -> 5, as drawn in LiteRT's graph_info.h; node i makes tensor i
FORKED: list[Ends] = [
    ((9,), (0,)),
    ((0,), (1,)),
    ((1,), (2,)),
    ((2,), (3,)),
    ((1,), (4,)),
    ((3, 4), (5,)),
]


def kinds(subsets: Sequence[Subset]) -> list[tuple[bool, tuple[int, ...]]]:
    return [(s.supported, s.nodes) for s in subsets]


def test_data_alone_orders_the_nodes() -> None:
    found = partition(FORKED, {2, 3}, outputs=[5])
    assert kinds(found) == [(False, (0, 1, 4)), (True, (2, 3)), (False, (5,))]
    assert [s.inputs for s in found] == [(9,), (1,), (3, 4)]
    assert [s.outputs for s in found] == [(1, 4), (3,), (5,)]


def test_a_control_edge_holds_a_node_back() -> None:
    found = partition(FORKED, {2, 3}, [(3, 4)], [5])
    assert kinds(found) == [(False, (0, 1)), (True, (2, 3)), (False, (4, 5))]


def test_absent_inputs_and_no_nodes() -> None:
    assert partition([], set()) == []
    assert partition([((-1, 3), (0,))], {0}) == [Subset(True, (0,), (3,), ())]


def test_what_cannot_run_is_refused() -> None:
    with pytest.raises(ValueError, match=r"nodes \[0, 1\] wait for each other"):
        partition([((1,), (0,)), ((0,), (1,))], set())
    with pytest.raises(ValueError, match="edge 0 -> 7: there are 1 nodes"):
        partition([((), (0,))], set(), [(0, 7)])


@st.composite
def graphs(
    draw: st.DrawFn, most: int = 30
) -> tuple[list[Ends], set[int], list[tuple[int, int]], list[int]]:
    count = draw(st.integers(0, most))
    nodes: list[Ends] = []
    edges = []
    for i in range(count):
        earlier = st.integers(-1, max(i - 1, 0) if i else -1)
        nodes.append((draw(st.lists(earlier, max_size=3)), (i,)))
        if i and draw(st.integers(0, 3)) == 0:
            edges.append((draw(st.integers(0, i - 1)), i))
    supported = {i for i in range(count) if draw(st.booleans())}
    outputs = [i for i in range(count) if draw(st.booleans())]
    return nodes, supported, edges, outputs


def needs(nodes: Sequence[Ends], edges: Sequence[tuple[int, int]]) -> list[set[int]]:
    """The nodes that must run before each node."""
    found = [{t for t in reads if t >= 0} for reads, _ in nodes]
    for before, after in edges:
        found[after].add(before)
    return found


@given(graphs())
def test_properties(graph: tuple[list[Ends], set[int], list[tuple[int, int]], list[int]]) -> None:
    nodes, supported, edges, outputs = graph
    subsets = partition(nodes, supported, edges, outputs)
    order = [i for s in subsets for i in s.nodes]
    assert sorted(order) == list(range(len(nodes)))
    done: set[int] = set()
    before = needs(nodes, edges)
    for i in order:
        assert before[i] <= done
        done.add(i)
    assert all(s.nodes and all((i in supported) == s.supported for i in s.nodes) for s in subsets)
    assert all(a.supported != b.supported for a, b in pairwise(subsets))
    for s in subsets:
        own = set(s.nodes)
        read = {t for i in s.nodes for t in nodes[i][0] if t >= 0}
        others = {t for i in order if i not in own for t in nodes[i][0]}
        assert set(s.inputs) == read - own
        assert set(s.outputs) == own & (others | set(outputs))


def fewest(nodes: Sequence[Ends], supported: set[int], edges: Sequence[tuple[int, int]]) -> int:
    """By trying every order whose first node is of the kind of the first that can run."""
    before = needs(nodes, edges)
    first = next(i for i, b in enumerate(before) if not b) in supported
    best = len(nodes)

    def visit(done: frozenset[int], kind: bool, count: int) -> None:
        nonlocal best
        if count >= best:
            return
        if len(done) == len(nodes):
            best = count
            return
        for i, b in enumerate(before):
            if i not in done and b <= done:
                same = (i in supported) == kind
                if done or same:
                    visit(done | {i}, i in supported, count + (not same))

    visit(frozenset(), first, 1)
    return best


@given(graphs(most=6))
def test_no_order_gives_fewer(
    graph: tuple[list[Ends], set[int], list[tuple[int, int]], list[int]],
) -> None:
    nodes, supported, edges, _ = graph
    if nodes:
        assert len(partition(nodes, supported, edges)) == fewest(nodes, supported, edges)


@pytest.mark.parametrize("kind", ["alternating", "blocks", "wide"])
def test_6092_nodes_in_a_tenth_of_a_second(kind: str) -> None:
    count = 6092
    if kind == "wide":  # none waits for another
        nodes: list[Ends] = [((), (i,)) for i in range(count)]
    else:
        nodes = [((i - 1,), (i,)) for i in range(count)]
    every = 2 if kind == "alternating" else 200
    supported = {i for i in range(count) if i // (every // 2) % 2}
    times = []
    for _ in range(3):
        start = time.perf_counter()
        subsets = partition(nodes, supported, [(i, i + 1) for i in range(0, count - 1, 7)])
        times.append(time.perf_counter() - start)
    assert min(times) < 0.1
    if kind != "wide":
        runs = [k for k, _ in groupby(i in supported for i in range(count))]
        assert [s.supported for s in subsets] == runs
