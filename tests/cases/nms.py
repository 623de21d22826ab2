"""NON_MAX_SUPPRESSION_V4 and NON_MAX_SUPPRESSION_V5."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import Case, T

_F = np.float32
# three pairs: each second box overlaps the first by about two thirds, or by all of it
_BOXES = np.array(
    [
        [0, 0, 1, 1],
        [0, 0.1, 1, 1.1],
        [0, -0.1, 1, 0.9],
        [0, 10, 1, 11],
        # the same, its corners the other way round
        [1, 11, 0, 10],
        [0, 100, 1, 101],
    ],
    np.float32,
)
_OVER = np.exp(-((0.9 / 1.1) ** 2))
_SCORES = np.array([0.9, 0.75, 0.6, 0.95, 0.5, 0.3], np.float32)


def _hard(boxes: Any, scores: Any, size: int, least: float, want: list[int], count: int) -> Case:
    inputs = [boxes, scores, np.int32(size), _F(0.5), _F(least)]
    return Case("NON_MAX_SUPPRESSION_V4", inputs, {}, [want, np.int32(count)])


CASES = [
    _hard(_BOXES, _SCORES, 6, 0.0, [3, 0, 5, 0, 0, 0], 3),
    _hard(_BOXES, _SCORES, 2, 0.0, [3, 0], 2),
    _hard(_BOXES, _SCORES, 3, 0.4, [3, 0, 0], 2),
    _hard(_BOXES, _SCORES, 2, 1.0, [0, 0], 0),
    # of equal scores the first comes first
    _hard(np.tile(_BOXES[:1], (5, 1)), np.full(5, 0.5, np.float32), 2, 0.0, [0, 0], 1),
    # a box without area overlaps nothing, and is taken once
    _hard([[0.0, 0, 0, 0], [0, 0, 1, 1]], [0.9, 0.8], 3, 0.0, [0, 1, 0], 2),
    Case(
        "NON_MAX_SUPPRESSION_V5",
        [_BOXES, _SCORES, np.int32(6), _F(1.0), _F(0.0), _F(0.5)],
        {},
        # scores times exp(-overlap^2) for each box chosen before; box 4 lies on box 3
        [
            [3, 0, 1, 5, 2, 0],
            [0.95, 0.9, 0.75 * _OVER, 0.3, 0.6 * _OVER * np.exp(-((0.8 / 1.2) ** 2)), 0],
            np.int32(5),
        ],
    ),
    Case(
        "NON_MAX_SUPPRESSION_V5",
        [_BOXES, _SCORES, np.int32(6), _F(0.5), _F(0.0), _F(0.0)],
        {},
        [[3, 0, 5, 0, 0, 0], [0.95, 0.9, 0.3, 0, 0, 0], np.int32(3)],
    ),
    Case(
        "NON_MAX_SUPPRESSION_V5",
        [_BOXES, _SCORES, np.int32(2), _F(0.5), _F(0.0), _F(-1.0)],
        {},
        refused="Invalid sigma value for soft NMS: -1.0",
        outputs=[T([0]), T([0.0]), T(0)],
    ),
    Case(
        "NON_MAX_SUPPRESSION_V4",
        [_BOXES, _SCORES[:2], np.int32(2), _F(0.5), _F(0.0)],
        {},
        refused="takes boxes [n, 4] and scores [n]",
        outputs=[T([0]), T(0)],
    ),
    Case(
        "NON_MAX_SUPPRESSION_V4",
        [_BOXES, _SCORES, np.int32(-1), _F(0.5), _F(0.0)],
        {},
        refused="max_output_size of 0 or more",
        outputs=[T([0]), T(0)],
    ),
    Case(
        "NON_MAX_SUPPRESSION_V4",
        [_BOXES, _SCORES, np.int32(2), _F(0.5), _F(0.0)],
        {},
        refused="output 1 'output1' is int64; NON_MAX_SUPPRESSION_V4 gives int32",
        outputs=[T([0]), T(np.int64(0))],
    ),
    Case(
        "NON_MAX_SUPPRESSION_V5",
        [_BOXES, _SCORES, np.int32(2), _F(0.5), _F(0.0), _F(0.0)],
        {},
        refused="output 1 'output1' is int32; NON_MAX_SUPPRESSION_V5 gives float32",
        outputs=[T([0]), T([0]), T(0)],
    ),
]
