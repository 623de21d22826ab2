"""Non-maximum suppression of boxes, hard (V4) and soft (V5)."""

from __future__ import annotations

import numpy as np

from ._check import gives
from ._shape import known, rank_is
from .api import Binding, NodeSpec, OpError, Registration, Run, Shape, op, take
from .types import Array, DType


def _infer(node: NodeSpec) -> list[Shape | None]:
    boxes, scores, size = node.input(0), node.input(1), node.input(2)
    soft = node.op == "NON_MAX_SUPPRESSION_V5"
    for i in (0, 1, 3, 4, *((5,) if soft else ())):
        take(node, f"input {i}", node.input(i), DType.FLOAT32)
    take(node, "max_output_size", size, DType.INT32)
    rank_is(node, "boxes", boxes, 2)
    rank_is(node, "scores", scores, 1)
    for i in range(2, 6 if soft else 5):
        rank_is(node, f"input {i}", node.input(i), 0)
    if boxes.shape != (scores.size, 4):
        raise OpError(
            f"{node.op} takes boxes [n, 4] and scores [n]; got {list(boxes.shape)} and "
            f"{list(scores.shape)}"
        )
    if len(node.outputs) != (3 if soft else 2):
        raise OpError(f"{node.op} has {3 if soft else 2} outputs; got {len(node.outputs)}")
    gives(node, DType.INT32)
    gives(node, DType.INT32, output=len(node.outputs) - 1)
    if soft:
        gives(node, DType.FLOAT32, output=1)
    values = known(size)
    if values is None:
        return [None, *([None] if soft else []), ()]
    if values[0] < 0:
        raise OpError(f"{node.op} takes max_output_size of 0 or more; got {values[0]}")
    return [(values[0],), *([(values[0],)] if soft else []), ()]


def _bind(b: Binding) -> Run | None:
    soft = b.op == "NON_MAX_SUPPRESSION_V5"
    boxes, scores, iou, least = b.xi(0), b.xi(1), b.xi(3), b.xi(4)
    indices, count = b.y[0], b.y[-1]

    def run() -> None:
        sigma = float(b.xi(5)) if soft else 0.0
        if sigma < 0:
            raise OpError(f"Invalid sigma value for soft NMS: {sigma}; taken: 0 or more")
        chosen, values = _choose(boxes, scores, len(indices), float(iou), float(least), sigma)
        # slots that are left over hold 0
        indices.fill(0)
        indices[: len(chosen)] = chosen
        if soft:
            b.y[1].fill(0)
            b.y[1][: len(chosen)] = values
        count.fill(len(chosen))

    return run


def _choose(
    boxes: Array, scores: Array, size: int, threshold: float, least: float, sigma: float
) -> tuple[list[int], list[float]]:
    """Chosen boxes, best first, and their (decayed) scores.

    Source: Soft-NMS (Bodla et al. 2017), as TensorFlow Lite orders it: a candidate meets each box
    chosen before it once, the latest first, and goes back into the queue when its score decays.
    """
    corners = np.stack(
        [np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])]
    )
    queue = Queue()
    for box in np.flatnonzero(scores > least).tolist():
        queue.push((float(scores[box]), box, 0))
    room = min(size, len(queue.heap))
    scale = np.float32(-0.5 / sigma) if sigma > 0 else np.float32(0)
    covered = np.zeros(len(boxes), np.bool_)
    chosen: list[int] = []
    values: list[float] = []
    while queue.heap and len(chosen) < room:
        score, box, met = queue.pop()
        if covered[box]:
            continue
        decayed = score
        if sigma > 0 and met < len(chosen):
            overlaps = _overlaps(corners, box, np.array(chosen[met:][::-1]))
            # one after the other, in float32
            terms = np.concatenate([[np.float32(score)], np.exp(scale * overlaps * overlaps)])
            decayed = float(np.multiply.accumulate(terms, dtype=np.float32)[-1])
        if decayed == score:
            chosen.append(box)
            values.append(score)
            covered |= _overlaps(corners, box, np.arange(len(boxes))) >= threshold
            covered[box] = True
        if decayed > least:
            # a chosen one goes back too, and is dropped when it comes: this settles the order of
            # equal scores as it is there
            queue.push((decayed, box, len(chosen) - (decayed == score)))
    return chosen, values


Candidate = tuple[float, int, int]


class Queue:
    """A binary heap, greatest score first, that gives equal scores in the order of C++."""

    def __init__(self) -> None:
        self.heap: list[Candidate] = []

    def push(self, item: Candidate) -> None:
        self.heap.append(item)
        self._up(len(self.heap) - 1, item)

    def _up(self, hole: int, item: Candidate) -> None:
        heap = self.heap
        while hole > 0 and heap[(hole - 1) // 2][0] < item[0]:
            heap[hole] = heap[(hole - 1) // 2]
            hole = (hole - 1) // 2
        heap[hole] = item

    def pop(self) -> Candidate:
        heap = self.heap
        top, item = heap[0], heap.pop()
        if not heap:
            return top
        hole = 0
        while (child := 2 * hole + 2) <= len(heap):
            # the right child where both are equal
            if child == len(heap) or heap[child][0] < heap[child - 1][0]:
                child -= 1
            heap[hole] = heap[child]
            hole = child
        self._up(hole, item)
        return top


def _overlaps(corners: Array, box: int, others: Array) -> Array:
    """Intersection over union of `box` with each of `others`, float32; 0 where one is empty."""
    low, high = corners
    area = np.prod(high[box] - low[box])
    areas = np.prod(high[others] - low[others], axis=1)
    sides = np.maximum(np.minimum(high[box], high[others]) - np.maximum(low[box], low[others]), 0)
    common = sides[:, 0] * sides[:, 1]
    valid = (areas > 0) & (area > 0)
    union = np.where(valid, area + areas - common, np.float32(1))
    return np.asarray(np.where(valid, common / union, np.float32(0)))


OPS: dict[str, Registration] = {
    "NON_MAX_SUPPRESSION_V4": op("NON_MAX_SUPPRESSION_V4", _infer, _bind),
    "NON_MAX_SUPPRESSION_V5": op("NON_MAX_SUPPRESSION_V5", _infer, _bind),
}
