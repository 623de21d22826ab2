"""Splits a graph into subsets that a delegate takes and subsets that it leaves.

A pure function on integers. As in TensorFlow Lite, a subset takes every node of its kind that can
run by then, even past nodes that still wait; so, given the kind of the first, there are as few
subsets as the order allows.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

Ends = tuple[Sequence[int], Sequence[int]]  # tensors a node reads, tensors it makes; -1: absent
Edge = tuple[int, int]  # the second node runs after the first


@dataclass(frozen=True)
class Subset:
    """Nodes of one kind, in an order that runs.

    `inputs`: tensors that its nodes read and do not make, constants included. `outputs`: tensors
    that other subsets read, or the user. Both sorted.
    """

    supported: bool
    nodes: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def partition(
    nodes: Sequence[Ends],
    supported: AbstractSet[int],
    edges: Iterable[Edge] = (),
    outputs: Iterable[int] = (),
) -> list[Subset]:
    """Subsets in an order that runs; their kinds alternate.

    Nodes are numbered as they stand in `nodes`. The first node that can run gives the first subset
    its kind. ValueError for a cycle, or an edge to a node that is not there.
    """
    made_by = {t: i for i, (_, makes) in enumerate(nodes) for t in makes if t >= 0}
    waits = [0] * len(nodes)
    followers: list[list[int]] = [[] for _ in nodes]
    for before, after in {*_data_edges(nodes, made_by), *edges}:
        if not (0 <= before < len(nodes) and 0 <= after < len(nodes)):
            raise ValueError(f"edge {before} -> {after}: there are {len(nodes)} nodes")
        waits[after] += 1
        followers[before].append(after)
    # nodes that can run, the lowest first: [unsupported, supported]
    ready: tuple[list[int], list[int]] = ([], [])
    for i, count in enumerate(waits):
        if not count:
            ready[i in supported].append(i)
    kind = bool(ready[1]) and (not ready[0] or ready[1][0] < ready[0][0])
    groups: list[tuple[bool, list[int]]] = []
    while ready[kind]:
        group: list[int] = []
        queue = ready[kind]
        while queue:
            i = heapq.heappop(queue)
            group.append(i)
            for j in followers[i]:
                waits[j] -= 1
                if not waits[j]:
                    heapq.heappush(ready[j in supported], j)
        groups.append((kind, group))
        kind = not kind
    left = [i for i, count in enumerate(waits) if count]
    if left:
        raise ValueError(f"nodes {left[:8]} wait for each other: the graph has a cycle")
    return _with_ends(nodes, groups, made_by, outputs)


def _data_edges(nodes: Sequence[Ends], made_by: dict[int, int]) -> Iterable[Edge]:
    for i, (reads, _) in enumerate(nodes):
        for t in reads:
            if t in made_by:
                yield made_by[t], i


def _with_ends(
    nodes: Sequence[Ends],
    groups: Sequence[tuple[bool, list[int]]],
    made_by: dict[int, int],
    outputs: Iterable[int],
) -> list[Subset]:
    home = {i: g for g, (_, group) in enumerate(groups) for i in group}
    reads: list[set[int]] = [set() for _ in groups]
    gives: list[set[int]] = [set() for _ in groups]
    for i, (inputs, _) in enumerate(nodes):
        for t in inputs:
            maker = made_by.get(t)
            if t >= 0 and (maker is None or home[maker] != home[i]):
                reads[home[i]].add(t)
                if maker is not None:
                    gives[home[maker]].add(t)
    for t in outputs:
        if t in made_by:
            gives[home[made_by[t]]].add(t)
    return [
        Subset(kind, tuple(group), tuple(sorted(reads[g])), tuple(sorted(gives[g])))
        for g, (kind, group) in enumerate(groups)
    ]
