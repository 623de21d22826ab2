"""MediaPipe's custom ops. Right answers: the definition (see `definitions`)."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from definitions import transposed

from . import Case, T


def _transposed(name: str, padding: int, size: tuple[int, int], before: tuple[int, int]) -> Case:
    rng = np.random.default_rng(len(name))
    x = rng.standard_normal((2, 3, 4, 3)).astype(np.float32)
    w = rng.standard_normal((2, 4, 3, 3)).astype(np.float32)
    b = rng.standard_normal(2).astype(np.float32)
    want = transposed(x, w, size, (2, 2), before) + b
    return Case(
        "Convolution2DTransposeBias",
        [x, T(w, const=True), T(b, const=True)],
        struct.pack("<3i", padding, 2, 2),
        [want.astype(np.float32)],
        name=name,
        custom=True,
    )


def _pool(padding: int, stride: tuple[int, int], size: tuple[int, int], activation: int) -> bytes:
    """TfLitePoolParams: widths before heights."""
    return struct.pack("<6i", padding, *stride[::-1], *size[::-1], activation)


def _flex(**values: Any) -> dict[str, Any]:
    return {"flexbuffer": lambda: values}


def _images(*rows: list[float]) -> np.ndarray:
    """One image of one channel."""
    return np.array(rows, np.float32)[None, :, :, None]


_PLACES = np.array([[3, 0, 1], [2, 3, 3], [1, 1, 0]], np.float32)[None, :, :, None] + np.float32(
    0.1
)

# a quarter turn to the left: the left mark is below the right one
_MARKS = np.array([[[4, 8, 9], [4, 2, 9], [0, 3, 9], [6, 5, 9]]], np.float32)
_TURN = _flex(
    left_rotation_idx=0,
    right_rotation_idx=1,
    target_rotation_radians=0.0,
    subset_idxs=[0, 1, 2, 3],
    scale_x=2.0,
    scale_y=1.0,
    output_width=4,
    output_height=8,
)
# turned, the marks span 6 (times 2) by 6 around (3, 5): a step in x goes 3 up, one in y 3/4 right
_TURNED = [[0, 0.75, 0, 0], [-3, 0, 0, 11], [0, 0, 1, 0], [0, 0, 0, 1]]

_SHIFT = np.array([[1, 0, 0, 0.25], [0, 1, 0, 0.5], [0, 0, 1, 0], [0, 0, 0, 1]], np.float32)

CASES = [
    # a full result of 8x9, of which SAME cuts 4 - 2 % 2 - 1 rows and 3 - 3 % 2 - 1 columns
    _transposed("SAME", 1, (5, 8), (1, 0)),
    _transposed("VALID", 2, (8, 9), (0, 0)),
    Case(
        "Convolution2DTransposeBias",
        [
            np.zeros((1, 2, 2, 3), np.float32),
            np.zeros((2, 2, 2, 3), np.float32),
            np.zeros(2, np.float32),
        ],
        b"",
        refused="has 0 bytes of options; it takes at least 12",
        outputs=[T(0.0)],
        name="options",
        custom=True,
    ),
    Case(
        "MaxPoolingWithArgmax2D",
        [_images([1, 5, 5], [5, 0, -1], [-2, -3, -9])],
        _pool(1, (2, 2), (2, 2), 0),
        [
            _images([5, 5], [-2, -9]),
            # the first of equals; places outside count
            _images([1, 0], [0, 0]) + np.float32(0.1),
        ],
        name="SAME",
        custom=True,
    ),
    Case(
        "MaxPoolingWithArgmax2D",
        [_images([1, 2, 3], [4, 9, 6], [7, 8, np.nan])],
        _pool(2, (1, 1), (2, 2), 3),
        [_images([6, 6], [6, 6]), _images([3, 2], [1, 0]) + np.float32(0.1)],
        name="VALID, RELU6",
        custom=True,
    ),
    Case(
        "MaxUnpooling2D",
        [_images([1, 2, 3], [4, 5, 6], [7, 8, 9]), _PLACES],
        _pool(1, (2, 2), (2, 2), 0),
        [
            _images(
                [0, 0, 2, 0, 0, 3],
                [0, 1, 0, 0, 0, 0],
                [0, 0, 0, 0, 0, 0],
                [4, 0, 0, 5, 0, 6],
                [0, 7, 0, 8, 9, 0],
                [0, 0, 0, 0, 0, 0],
            )
        ],
        name="each to its place",
        custom=True,
    ),
    Case(
        "MaxUnpooling2D",
        [_images([1, 2]), _images([-1, 7])],
        _pool(1, (2, 2), (2, 2), 0),
        [_images([0, 0, 0, 0], [0, 0, 0, 0])],
        name="places outside are left out",
        custom=True,
    ),
    Case(
        "Landmarks2TransformMatrix",
        [_MARKS],
        _TURN,
        [np.array([_TURNED], np.float32)],
        version=2,
        name="version 2, a quarter turn",
        custom=True,
    ),
    Case(
        "Landmarks2TransformMatrix",
        [np.array([1, 2, 9, 3, 2, 9, 2, 4, 9], np.float32).reshape(1, 1, 1, 9)],
        _flex(
            left_rotation_idx=0,
            right_rotation_idx=1,
            subset=[0, 1, 2, 2],
            bbox_size_multiplier=2.0,
            landmarks_range=8.0,
            input_width=9,
            input_height=17,
            output_width=3,
            output_height=5,
        ),
        # a box of 4 by 4 around (2, 3) in a range of 8: half of an image, from 0 and 1/8 on
        [
            np.array(
                [[[2, 0, 0, 0], [0, 2, 0, 2], [0, 0, 1, 0], [0, 0, 0, 1]]],
                np.float32,
            )
        ],
        name="version 1, no turn",
        custom=True,
    ),
    Case(
        "Landmarks2TransformMatrix",
        [np.zeros((1, 1, 3), np.float32)],
        _TURN,
        refused="landmarks 0 to 3 are asked for; [1, 1, 3] holds 1",
        outputs=[T(0.0)],
        version=2,
        name="too few landmarks",
        custom=True,
    ),
    Case(
        "TransformLandmarks",
        [_MARKS, np.array(_TURNED, np.float32)],
        _flex(),
        [np.array([[[6, -1, 9], [1.5, -1, 9], [2.25, 11, 9], [3.75, -7, 9]]], np.float32)],
        version=2,
        name="version 2",
        custom=True,
    ),
    Case(
        "TransformLandmarks",
        [_MARKS[..., :2].reshape(1, 1, 1, 8).copy(), np.array(_TURNED, np.float32)],
        _flex(dimensions=2, scale=2.0),
        [np.array([6, 10, 1.5, 10, 2.25, 22, 3.75, 4], np.float32).reshape(1, 1, 1, 8)],
        version=1,
        name="version 1, two dimensions, a longer shift",
        custom=True,
    ),
    Case(
        "TransformTensorBilinear",
        [_images([0, 4, 8], [8, 12, 16]), _SHIFT],
        _flex(output_height=2, output_width=3),
        [_images([5, 9, 0], [0, 0, 0])],
        version=1,
        name="version 1: 0 outside",
        custom=True,
    ),
    Case(
        "TransformTensorBilinear",
        [_images([0, 4, 8], [8, 12, 16]), np.diag([0.5, 0.5, 1, 1]).astype(np.float32)],
        _flex(output_height=3, output_width=3),
        # x and y are half of the output's, less a quarter
        [_images([0, 0, 0], [0, 3, 5], [0, 7, 9])],
        version=2,
        name="version 2: middles of pixels",
        custom=True,
    ),
    Case(
        "TransformTensorBilinear",
        [_images([0, 4, 8]), _SHIFT],
        _flex(output_height=3),
        refused="the options lack output_width",
        outputs=[T(0.0)],
        version=2,
        name="an option is missing",
        custom=True,
    ),
]
