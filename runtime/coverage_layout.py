"""Where the nodes of a graph are drawn: in layers, wrapped into columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import ceil, log, sqrt
from statistics import fmean

WIDTH, HEIGHT, ACROSS, DOWN = 132, 24, 148, 46  # of a box, and from one to the next
BETWEEN = 60  # columns
ASPECT = 2.0  # of the whole, width to height
MOST_COLUMNS = 60
LEAST_WRAPPED = 12  # nodes in a row

Place = tuple[float, float]


def layout(count: int, edges: Sequence[tuple[int, int]]) -> list[Place]:
    """A place for each node: one layer below the last node it reads from, near those it reads.

    Layers run from top to bottom; a long graph goes on in a column to the right.
    """
    makers: list[list[int]] = [[] for _ in range(count)]
    users: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        if a < b:  # files list nodes in an order that runs
            makers[b].append(a)
            users[a].append(b)
    layers = _layers(makers, users)
    most = max(LEAST_WRAPPED, round(sqrt(count * ASPECT * DOWN / ACROSS)))
    x = _across(layers, makers, most)
    layers = [row for layer in layers for row in _wrapped(layer, most)]
    spans = [(min(x[i] for i in layer), max(x[i] for i in layer)) for layer in layers]
    rows = _rows(spans)
    places: list[Place] = [(0.0, 0.0)] * count
    left = 0.0
    for start in range(0, len(layers), rows):
        low = min(span[0] for span in spans[start : start + rows])
        high = max(span[1] for span in spans[start : start + rows])
        for row, layer in enumerate(layers[start : start + rows]):
            for i in layer:
                places[i] = (left + x[i] - low, float(row * DOWN))
        left += high - low + ACROSS + BETWEEN
    return places


def _layers(makers: Sequence[Sequence[int]], users: Sequence[Sequence[int]]) -> list[list[int]]:
    """Nodes by depth; what reads from no node stands right above its first reader."""
    depth = [0] * len(makers)
    for i, read in enumerate(makers):
        depth[i] = 1 + max((depth[a] for a in read), default=-1)
    for i, read in enumerate(makers):
        if not read and users[i]:
            depth[i] = min(depth[u] for u in users[i]) - 1
    layers: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for i, d in enumerate(depth):
        layers[d].append(i)
    return layers


def _wrapped(layer: list[int], most: int) -> list[list[int]]:
    """A layer as rows of `most` nodes at most; neighbours stay neighbours."""
    rows = ceil(len(layer) / most)
    return [layer[row::rows] for row in range(rows)]


def _across(layers: Sequence[list[int]], makers: Sequence[Sequence[int]], most: int) -> list[float]:
    """Each node below the middle of those it reads, as far as its neighbours leave room.

    Sorts the layers.
    """
    x = [0.0] * len(makers)
    for layer in layers:
        wishes = {i: fmean(x[a] for a in makers[i]) if makers[i] else 0.0 for i in layer}
        layer.sort(key=wishes.__getitem__)
        for row in _wrapped(layer, most):
            taken = -float("inf")
            for i in row:
                taken = x[i] = max(wishes[i], taken + ACROSS)
            pushed = fmean(x[i] - wishes[i] for i in row)  # to the right, all of it
            for i in row:
                x[i] -= pushed
    return x


def _rows(spans: Sequence[tuple[float, float]]) -> int:
    """Layers in a column, such that the drawing is about as wide as a screen."""

    def unlike(rows: int) -> float:
        starts = range(0, len(spans), rows)
        width = sum(
            max(b for _, b in spans[s : s + rows]) - min(a for a, _ in spans[s : s + rows])
            for s in starts
        )
        return abs(log((width + len(starts) * (ACROSS + BETWEEN)) / (rows * DOWN) / ASPECT))

    choices = sorted({ceil(len(spans) / c) for c in range(1, min(len(spans), MOST_COLUMNS) + 1)})
    return min(reversed(choices), key=unlike, default=1)


def size(places: Sequence[Place]) -> Place:
    """Width and height of a drawing."""
    return (
        max((x for x, _ in places), default=0.0) + WIDTH,
        max((y for _, y in places), default=0.0) + HEIGHT,
    )


def stack(drawings: Sequence[Sequence[Place]], gap: float) -> list[float]:
    """The tops of drawings that stand one below the other."""
    return list(accumulate((size(d)[1] + gap for d in drawings[:-1]), initial=gap))
