"""TFLite_Detection_PostProcess. Right answers: worked out by hand.

Anchors are unit squares and boxes lie at them, so corners are centre -/+ 1/2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from litedelegate.kernels.types import Array

from . import Case, T


def _options(**changed: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "max_detections": 3,
        "max_classes_per_detection": 1,
        "detections_per_class": 2,
        "use_regular_nms": False,
        "nms_score_threshold": 0.0,
        "nms_iou_threshold": 0.5,
        "num_classes": 2,
        "y_scale": 10.0,
        "x_scale": 10.0,
        "h_scale": 5.0,
        "w_scale": 5.0,
        **changed,
    }
    return {"flexbuffer": lambda: {k: v for k, v in values.items() if v is not None}}


# box 1 overlaps box 0 by more than half, box 3 overlaps box 2, box 4 is apart
_CENTRES = np.array([[0.5, 0.5], [0.6, 0.5], [0.5, 10.5], [0.5, 10.6], [0.5, 100.5]], np.float32)
_ANCHORS = np.concatenate([_CENTRES, np.ones((5, 2), np.float32)], axis=1)
_BOXES = np.zeros((1, 5, 4), np.float32)
# background, class 0, class 1
_SCORES = np.array(
    [[[0, 0.9, 0.8], [0, 0.75, 0.72], [0, 0.6, 0.5], [0, 0.93, 0.95], [0, 0.5, 0.4]]], np.float32
)


def _corners(*boxes: int, slots: int = 3) -> Array:
    found = np.concatenate([_CENTRES[list(boxes)] - 0.5, _CENTRES[list(boxes)] + 0.5], axis=1)
    return np.concatenate([found, np.zeros((slots - len(boxes), 4))])[None].astype(np.float32)


def _row(*values: float, slots: int = 3) -> Array:
    return np.array([[*values, *[0.0] * (slots - len(values))]], np.float32)


def _case(
    name: str,
    want: list[Array],
    boxes: Any = _BOXES,
    scores: Any = _SCORES,
    anchors: Any = _ANCHORS,
    **options: Any,
) -> Case:
    return Case(
        "TFLite_Detection_PostProcess",
        [boxes, scores, anchors],
        _options(**options),
        want,
        custom=True,
        name=name,
    )


def _refused(text: str, name: str, inputs: list[Any] | None = None, **options: Any) -> Case:
    out = [T(a) for a in (_corners(), _row(), _row(), np.zeros(1, np.float32))]
    return Case(
        "TFLite_Detection_PostProcess",
        inputs or [_BOXES, _SCORES, _ANCHORS],
        _options(**options),
        refused=text,
        outputs=out,
        custom=True,
        name=name,
    )


_FAST = [_corners(3, 0, 4), _row(1, 0, 0), _row(0.95, 0.9, 0.5), np.array([3], np.float32)]
_MANY = 400

CASES = [
    _case("the best class of each box", _FAST),
    _case(
        "more slots than detections: the tail is zero",
        [
            _corners(3, 0, 4, slots=6),
            _row(1, 0, 0, slots=6),
            _row(0.95, 0.9, 0.5, slots=6),
            np.array([3], np.float32),
        ],
        max_detections=6,
    ),
    _case(
        "no background class",
        _FAST,
        scores=_SCORES[..., 1:].copy(),
    ),
    _case(
        "score threshold",
        [_corners(3), _row(1), _row(0.95), np.array([1], np.float32)],
        nms_score_threshold=0.92,
    ),
    _case(
        "nothing above the threshold",
        [_corners(), _row(), _row(), np.zeros(1, np.float32)],
        nms_score_threshold=2.0,
    ),
    _case(
        "two classes of each box",
        [
            _corners(3, 3, 0, 0, slots=4),
            _row(1, 0, 0, 1, slots=4),
            _row(0.95, 0.93, 0.9, 0.8, slots=4),
            np.array([2], np.float32),
        ],
        max_detections=2,
        max_classes_per_detection=2,
    ),
    _case(
        "more slots for classes than classes",
        [
            _corners(3, 3, 3, 0, 0, 0, slots=6),
            _row(1, 0, 0, 0, 1, 0, slots=6),
            _row(0.95, 0.93, 0, 0.9, 0.8, 0, slots=6),
            np.array([2], np.float32),
        ],
        max_detections=2,
        max_classes_per_detection=3,
    ),
    _case(
        "each class on its own",
        [_corners(3, 3, 0), _row(1, 0, 0), _row(0.95, 0.93, 0.9), np.array([3], np.float32)],
        use_regular_nms=True,
    ),
    _case(
        "each class on its own, one detection each",
        [_corners(3, 3), _row(1, 0), _row(0.95, 0.93), np.array([2], np.float32)],
        use_regular_nms=True,
        detections_per_class=1,
    ),
    _case(
        "boxes without area do not overlap",
        [
            np.full((1, 3, 4), 0.5, np.float32),
            _row(0, 0, 0),
            _row(3, 2, 1),
            np.array([3], np.float32),
        ],
        boxes=np.zeros((1, 3, 4), np.float32),
        scores=np.array([[[1, 0], [2, 0], [3, 0]]], np.float32),
        anchors=np.array([[0.5, 0.5, 0, 0]] * 3, np.float32),
    ),
    _case(
        "equal scores: the first box and the first class",
        [_corners(0, 2, 4), _row(0, 0, 0), _row(0.5, 0.5, 0.5), np.array([3], np.float32)],
        scores=np.full((1, 5, 3), 0.5, np.float32),
    ),
    _case(
        "a box moves and grows with its code",
        [
            np.array([[[1.0, -1.5, 3.0, 4.5], [0, 0, 0, 0], [0, 0, 0, 0]]], np.float32),
            _row(0),
            _row(1),
            np.ones(1, np.float32),
        ],
        # centre (1 + 10 / 10 * 1, 1 + 5 / 10 * 1), sides 2 * 1 and 6 * 1
        boxes=np.array(
            [[[10, 5, 5 * np.log(2), 5 * np.log(6), 99]]],
            np.float32,
        ),
        scores=np.array([[[1, 0]]], np.float32),
        anchors=np.array([[1, 1, 1, 1]], np.float32),
    ),
    _case(
        "uint8",
        [
            np.array([[[-0.5, 9.5, 0.5, 10.5], [0, 0, 0, 0], [0, 0, 0, 0]]], np.float32),
            _row(1),
            _row(0.5),
            np.ones(1, np.float32),
        ],
        boxes=T(np.full((1, 1, 4), 77, np.uint8), scale=0.3, zero_point=77),
        scores=T(np.array([[[3, 13, 53]]], np.uint8), scale=0.01, zero_point=3),
        anchors=T(np.array([[7, 27, 9, 9]], np.uint8), scale=0.5, zero_point=7),
    ),
    _case(
        "many candidates: the kept ones are far down",
        [
            np.array([[[0, 0, 1, 1], [0, 9, 1, 10], [0, 0, 0, 0]]], np.float32),
            _row(0, 0),
            _row(2, 1),
            np.array([2], np.float32),
        ],
        boxes=np.zeros((1, 4 * _MANY, 4), np.float32),
        scores=np.stack([np.linspace(2, 1, 4 * _MANY), np.zeros(4 * _MANY)], axis=1)[None].astype(
            np.float32
        ),
        anchors=np.array([[0.5, 0.5, 1, 1]] * (4 * _MANY - 1) + [[0.5, 9.5, 1, 1]], np.float32),
    ),
    _refused("taken: [5, 4]", "anchors", [_BOXES, _SCORES, _ANCHORS[:4]]),
    _refused("taken: [1, 5, 4]", "classes", num_classes=4),
    _refused("nms_iou_threshold is 0", "threshold", nms_iou_threshold=0.0),
    _refused("num_classes is 0", "no classes", num_classes=None),
    _refused(
        "ends before it begins",
        "negative height",
        [_BOXES, _SCORES, _ANCHORS * np.array([1, 1, -1, 1], np.float32)],
    ),
    _refused("is int16;", "type", [_BOXES.astype(np.int16), _SCORES, _ANCHORS]),
]
