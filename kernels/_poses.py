"""Decodes what PoseNet predicts into people (PersonLab, arXiv:1803.08225).

For each of 17 keypoints and each cell of a coarse grid there are a score, as log-odds, and an
offset to the keypoint nearby; for each edge of a tree of keypoints, both ways, an offset from one
keypoint to the other. Coordinates are (y, x) in cells.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .types import Array

Point = tuple[float, float]

KEYPOINTS = 17
# keypoints: nose, then left and right eye, ear, shoulder, elbow, wrist, hip, knee and ankle
_TREE = (
    *((0, 1), (1, 3), (0, 2), (2, 4), (0, 5), (5, 7), (7, 9), (5, 11), (11, 13), (13, 15)),
    *((0, 6), (6, 8), (8, 10), (6, 12), (12, 14), (14, 16)),
)
EDGES = len(_TREE)
_REFINEMENTS = 5
_MASK_REFINEMENTS = 2


def _steps() -> list[list[tuple[int, int]]]:
    """From each keypoint: its neighbours, and the channels of the y offsets to them.

    The offsets come in four blocks: y and x away from the nose, y and x towards it.
    """
    steps: list[list[tuple[int, int]]] = [[] for _ in range(KEYPOINTS)]
    for k, (parent, child) in enumerate(_TREE):
        steps[parent].append((child, k))
    for k, (parent, child) in enumerate(_TREE):
        steps[child].append((parent, 2 * EDGES + k))
    return steps


_STEPS = _steps()


@dataclass(frozen=True, slots=True)
class Person:
    points: Array  # [17, 2]
    scores: Array  # [17], probabilities


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A place for a keypoint. A heap of candidates hands out the best first.

    They compare by the score alone: so Python's heap goes through equal ones as libstdc++'s does,
    and with it the reference.
    """

    score: float
    keypoint: int
    place: Point

    def __lt__(self, other: _Candidate) -> bool:
        return self.score > other.score


class _Grid:
    """[height, width, channels], read between cells one value at a time."""

    def __init__(self, values: Array) -> None:
        self.height, self.width, self.channels = values.shape
        self.item = values.reshape(-1).item

    def inside(self, y: float, x: float) -> Point:
        # NaN is taken for 0
        return min(max(0.0, y), self.height - 1.0), min(max(0.0, x), self.width - 1.0)

    def sample(self, point: Point, channel: int) -> float:
        """Bilinear between the four cells around a point inside."""
        item: Callable[[int], float] = self.item
        y, x = point
        row, column = int(y), int(x)
        down, across = y - row, x - column
        at = (row * self.width + column) * self.channels + channel
        right = self.channels if across else 0
        below = self.width * self.channels if down else 0
        top = (1 - across) * item(at) + across * item(at + right)
        bottom = (1 - across) * item(at + below) + across * item(at + below + right)
        return (1 - down) * top + down * bottom

    def follow(self, point: Point, y_channel: int, x_channel: int) -> Point:
        y, x = point
        return self.inside(y + self.sample(point, y_channel), x + self.sample(point, x_channel))


@dataclass(frozen=True, slots=True)
class Decoder:
    """Finds people. The radius is in cells."""

    max_people: int
    threshold: float
    radius: float

    def people(self, scores: Array, short: Array, middle: Array) -> list[tuple[float, Person]]:
        """Scores and people, best first. [height, width, 17], [.., 34] and [.., 64]."""
        grids = _Grid(scores), _Grid(short), _Grid(middle)
        found: list[tuple[float, Person]] = []
        queue = self._candidates(scores, short)
        while queue and len(found) < self.max_people:
            root = heapq.heappop(queue)
            if any(self._near(root.place, person.points[root.keypoint]) for _, person in found):
                continue
            person = _grow(root, *grids)
            score = float(np.mean(person.scores, dtype=np.float64))
            if score >= self.threshold:
                found.append((score, person))
        found.sort(key=lambda one: -one[0])
        found = list(self._rescored([person for _, person in found]))
        found.sort(key=lambda one: -one[0])
        return [one for one in found if one[0] >= self.threshold]

    def _candidates(self, scores: Array, short: Array) -> list[_Candidate]:
        """A heap of the greatest scores of all 3x3 cells, with the places they point to."""
        height, width, _ = scores.shape
        padded = np.full((height + 2, width + 2, KEYPOINTS), -np.inf, np.float32)
        padded[1:-1, 1:-1] = scores
        highest = padded[:-2, :-2].copy()
        for i, j in itertools.product(range(3), range(3)):
            np.maximum(highest, padded[i : i + height, j : j + width], out=highest)
        odds = 1 / (self.threshold + 1e-6) - 1
        least = -math.log(odds) if odds > 0 else math.inf
        inside = _Grid(scores).inside
        heap: list[_Candidate] = []
        for y, x, k in np.argwhere((scores >= highest) & (scores >= least)).tolist():
            place = inside(y + float(short[y, x, k]), x + float(short[y, x, KEYPOINTS + k]))
            heapq.heappush(heap, _Candidate(float(scores[y, x, k]), k, place))
        return heap

    def _near(self, a: Sequence[float] | Array, b: Sequence[float] | Array) -> bool:
        return bool((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 <= self.radius**2)

    def _rescored(self, people: list[Person]) -> Iterator[tuple[float, Person]]:
        """Leaves out of each score the keypoints that lie on those of a better person."""
        for i, person in enumerate(people):
            covered = np.zeros(KEYPOINTS, bool)
            for better in people[:i]:
                apart = person.points - better.points
                covered |= np.einsum("kc,kc->k", apart, apart) <= self.radius**2
            yield float(person.scores[~covered].sum()) / KEYPOINTS, person


def _grow(root: _Candidate, scores: _Grid, short: _Grid, middle: _Grid) -> Person:
    """The person around one keypoint: goes on from the best keypoint known to its neighbours."""
    points = np.zeros((KEYPOINTS, 2))
    odds = np.zeros(KEYPOINTS, np.float32)
    known = [False] * KEYPOINTS
    queue = [replace(root, score=scores.sample(root.place, root.keypoint))]
    while queue:
        best = heapq.heappop(queue)
        if known[best.keypoint]:
            continue
        known[best.keypoint] = True
        points[best.keypoint], odds[best.keypoint] = best.place, best.score
        for child, channel in _STEPS[best.keypoint]:
            if known[child]:
                continue
            place = middle.follow(best.place, channel, channel + EDGES)
            for _ in range(_REFINEMENTS):
                place = short.follow(place, child, KEYPOINTS + child)
            heapq.heappush(queue, _Candidate(scores.sample(place, child), child, place))
    return Person(points, 1 / (1 + np.exp(-odds)))


def masks(long: Array, people: Sequence[Person], out: Array) -> None:
    """Writes 1 into out[p] at each cell [height, width] that belongs to person p.

    `long` holds the offsets from each cell to all keypoints, [height, width, 34].
    """
    height, width, _ = long.shape
    if not people:
        return
    ends = np.array([height - 1, width - 1], np.float32)
    offsets = long.reshape(height, width, 2, KEYPOINTS).transpose(0, 1, 3, 2)
    k = np.arange(KEYPOINTS)
    at = np.indices((height, width), np.float32).transpose(1, 2, 0)[:, :, None]
    at = np.broadcast_to(at, offsets.shape)
    for _ in range(1 + _MASK_REFINEMENTS):
        low = at.astype(np.intp)
        high = np.minimum(low + 1, ends.astype(np.intp))
        share = at - low
        down, across = share[..., :1], share[..., 1:]
        (r, c), (below, right) = np.moveaxis(low, -1, 0), np.moveaxis(high, -1, 0)
        top = (1 - across) * offsets[r, c, k] + across * offsets[r, right, k]
        bottom = (1 - across) * offsets[below, c, k] + across * offsets[below, right, k]
        at = np.clip(at + (1 - down) * top + down * bottom, 0, ends)
    points = np.stack([person.points for person in people])
    apart = at[:, :, None] - points
    nearest = np.einsum("hwpkc,hwpkc->hwp", apart, apart).argmin(-1)
    rows, columns = np.indices(nearest.shape)
    out[nearest, rows, columns] = 1
