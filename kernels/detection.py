"""TFLite_Detection_PostProcess: decodes boxes and suppresses the lesser of two that overlap.

Inputs: box encodings [1, boxes, 4 or more], class scores [1, boxes, classes, with or without a
background class in front], anchors [boxes, 4]; boxes and anchors are (y, x, h, w). Outputs: boxes
[1, slots, 4] as (ymin, xmin, ymax, xmax), classes [1, slots], scores [1, slots], count [1]; slots
that stay empty are zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._check import option_map
from .api import Binding, NodeSpec, OpError, Run, Shape, TensorSpec, op, require, take
from .types import Array, DType

NAME = "TFLite_Detection_PostProcess"
_TYPES = (DType.FLOAT32, DType.UINT8, DType.INT8)
# candidates are looked at in blocks: most often the first few hundred fill all slots
_BLOCK = 128
_SORT_FIRST = 1024


@dataclass(frozen=True, slots=True)
class _Parameters:
    max_detections: int
    max_classes: int
    per_class: int
    regular: bool
    score_threshold: np.float32
    iou_threshold: np.float32
    classes: int
    scales: tuple[np.float32, ...]  # of y, x, h, w

    @classmethod
    def read(cls, options: Any) -> _Parameters:
        m = option_map(options)
        result = cls(
            int(m.get("max_detections", 0)),
            int(m.get("max_classes_per_detection", 0)),
            int(m.get("detections_per_class", 100)),
            bool(m.get("use_regular_nms", False)),
            np.float32(m.get("nms_score_threshold", 0)),
            np.float32(m.get("nms_iou_threshold", 0)),
            int(m.get("num_classes", 0)),
            tuple(np.float32(m.get(f"{k}_scale", 0)) for k in "yxhw"),
        )
        require(
            bool(0 < result.iou_threshold <= 1),
            f"nms_iou_threshold is {result.iou_threshold}; it is above 0 and at most 1",
        )
        require(
            result.max_detections >= 0 and result.max_classes > 0,
            f"max_detections is {result.max_detections} and max_classes_per_detection "
            f"{result.max_classes}; they are at least 0 and 1",
        )
        require(
            not result.regular or result.per_class > 0,
            f"detections_per_class is {result.per_class}; it is at least 1",
        )
        require(result.classes > 0, f"num_classes is {result.classes}; it is at least 1")
        return result


def _infer(node: NodeSpec) -> list[Shape]:
    boxes, scores, anchors = (node.input(i) for i in range(3))
    take(node, "input 0", boxes, *_TYPES)
    take(node, "input 1", scores, *_TYPES)
    take(node, "input 2", anchors, boxes.dtype)
    for i, out in enumerate(node.outputs):
        take(node, f"output {i}", out, DType.FLOAT32)
    require(
        boxes.rank == 3 and boxes.shape[0] == 1 and boxes.shape[2] >= 4,
        f"input 0 is {boxes}; taken: [1, boxes, 4 or more]",
    )
    count = boxes.shape[1]
    require(anchors.shape == (count, 4), f"input 2 is {anchors}; taken: [{count}, 4]")
    p = _Parameters.read(node.options)
    require(
        scores.rank == 3
        and scores.shape[:2] == (1, count)
        and scores.shape[2] - p.classes in (0, 1),
        f"input 1 is {scores}; taken: [1, {count}, {p.classes}], or {p.classes + 1} with a "
        "background class",
    )
    slots = p.max_detections * p.max_classes
    return [(1, slots, 4), (1, slots), (1, slots), (1,)]


def _bind(b: Binding) -> Run:
    p = _Parameters.read(b.options)
    count = b.input(0).shape[1]
    encoded, anchor, corners = (b.scratch((count, 4)) for _ in range(3))
    scores = b.scratch((count, p.classes))
    read_boxes = _reader(b.input(0), b.xi(0)[0, :, :4], encoded)
    read_scores = _reader(b.input(1), b.xi(1)[0, :, -p.classes :], scores)
    read_anchors = _reader(b.input(2), b.xi(2), anchor)
    boxes_out, classes_out, scores_out, count_out = b.y
    select = _regular if p.regular else _fast

    def run() -> None:
        read_boxes()
        read_scores()
        read_anchors()
        _decode(encoded, anchor, p.scales, corners)
        for y in b.y:
            y.fill(0)
        box, label, score, number = select(p, corners, scores)
        n = len(label)
        boxes_out[0, :n] = corners[box]
        classes_out[0, :n] = label
        scores_out[0, :n] = score
        count_out[0] = number

    return run


def _reader(spec: TensorSpec, source: Array, target: Array) -> Run:
    """A callable that brings the real values of `source` into `target`."""
    scale, zero = np.float32(spec.scale), np.float32(spec.zero_point)

    def copy() -> None:
        np.copyto(target, source)

    def dequantize() -> None:
        np.subtract(source, zero, out=target)
        np.multiply(target, scale, out=target)

    return copy if spec.dtype is DType.FLOAT32 else dequantize


def _decode(encoded: Array, anchor: Array, scales: tuple[np.float32, ...], corners: Array) -> None:
    """Corners from centre and size; in double, rounded where the peer rounds."""
    e = encoded.astype(np.float64) / np.array(scales, np.float64)
    a = anchor.astype(np.float64)
    centre = (e[:, :2] * a[:, 2:] + a[:, :2]).astype(np.float32)
    half = (0.5 * np.exp(e[:, 2:]) * a[:, 2:]).astype(np.float32)
    np.subtract(centre, half, out=corners[:, :2])
    np.add(centre, half, out=corners[:, 2:])
    if (corners[:, :2] > corners[:, 2:]).any():
        worst = int(np.argmax((corners[:, :2] > corners[:, 2:]).any(axis=1)))
        raise OpError(
            f"box {worst} ends before it begins: {corners[worst].tolist()}; "
            "the anchors or scales are wrong"
        )


Selection = tuple[Array, Array, Array, int]


def _fast(p: _Parameters, corners: Array, scores: Array) -> Selection:
    """Each box competes with its best class; slots of one box lie side by side."""
    best = _best_first(scores, 1)[:, 0]
    top = scores[np.arange(len(scores)), best]
    chosen = _suppress(corners, top, p.score_threshold, p.iou_threshold, p.max_detections)
    if p.max_classes == 1:
        return chosen, best[chosen], top[chosen], len(chosen)
    kept = min(p.max_classes, p.classes)
    ranked = _best_first(scores[chosen], kept)
    # slots beyond the number of classes stay zero
    label = np.zeros((len(chosen), p.max_classes), np.int64)
    score = np.zeros(label.shape, np.float32)
    label[:, :kept] = ranked
    score[:, :kept] = np.take_along_axis(scores[chosen], ranked, axis=1)
    return np.repeat(chosen, p.max_classes), label.reshape(-1), score.reshape(-1), len(chosen)


def _best_first(scores: Array, count: int) -> Array:
    """Classes of each row by falling score, the lower of equals first, NaN last."""
    if np.isnan(scores).any():
        scores = np.where(np.isnan(scores), np.float32(-np.inf), scores)
    if count == 1:
        return np.asarray(scores.argmax(axis=1))[:, None]
    return np.argsort(-scores, axis=1, kind="stable")[:, :count]


def _regular(p: _Parameters, corners: Array, scores: Array) -> Selection:
    """Each class on its own, then the best of all."""
    limit = min(p.per_class, p.max_detections)
    found = [
        _suppress(corners, scores[:, c], p.score_threshold, p.iou_threshold, limit)
        for c in range(p.classes)
    ]
    box = np.concatenate(found)
    label = np.repeat(np.arange(p.classes), [len(f) for f in found])
    score = scores[box, label]
    order = np.argsort(-score, kind="stable")[: p.max_detections]
    return box[order], label[order], score[order], len(order)


def _suppress(
    corners: Array, scores: Array, score_threshold: np.float32, iou: np.float32, limit: int
) -> Array:
    """Indices of at most `limit` boxes by falling score, none overlapping a better one."""
    candidates = np.flatnonzero(scores >= score_threshold)
    values = scores[candidates]
    if len(values) > _SORT_FIRST:
        cut = np.partition(values, len(values) - _SORT_FIRST)[len(values) - _SORT_FIRST]
        some = np.flatnonzero(values >= cut)
        chosen, full = _greedy(corners, candidates[some], values[some], iou, limit)
        if full:
            return chosen
    return _greedy(corners, candidates, values, iou, limit)[0]


def _greedy(
    corners: Array, candidates: Array, values: Array, iou: np.float32, limit: int
) -> tuple[Array, bool]:
    """The boxes kept, and whether that is all there is room for."""
    order = candidates[np.argsort(-values, kind="stable")]
    kept: list[int] = []
    for start in range(0, len(order), _BLOCK):
        block = order[start : start + _BLOCK]
        if len(kept) >= limit:
            break
        free = ~(_overlap(corners[kept], corners[block]) > iou).any(axis=0)
        block = block[free]
        clash = _overlap(corners[block], corners[block]) > iou
        alive = np.ones(len(block), np.bool_)
        for i in range(len(block)):
            if alive[i] and len(kept) < limit:
                kept.append(int(block[i]))
                alive &= ~clash[i]
    return np.array(kept, np.int64), len(kept) >= limit


def _overlap(a: Array, b: Array) -> Array:
    """Intersection over union of each box of `a` with each of `b`; 0 for boxes without area."""
    area_a = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
    area_b = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    low = np.maximum(a[:, None, :2], b[:, :2])
    high = np.minimum(a[:, None, 2:], b[:, 2:])
    side = np.maximum(high - low, np.float32(0))
    shared = side[..., 0] * side[..., 1]
    union = area_a[:, None] + area_b - shared
    real = (area_a[:, None] > 0) & (area_b > 0)
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=real))


OPS = {NAME: op(NAME, _infer, _bind, custom=True)}
