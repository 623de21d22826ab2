"""Geometry of MediaPipe's face landmarks: a crop around some of them as a 4x4 matrix.

Source of the formulas: MediaPipe's TensorFlow Lite operations, versions 1 and 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .types import Array


def crop_matrix(landmarks: Array, o: Mapping[str, Any]) -> Array:
    """[4, 4] of landmarks [n, 3] (version 2): from positions in the crop to positions in the image.

    `o`: left_rotation_idx, right_rotation_idx, target_rotation_radians, subset_idxs, scale_x,
    scale_y, output_width, output_height.
    """
    left, right = landmarks[o["left_rotation_idx"]], landmarks[o["right_rotation_idx"]]
    angle = o["target_rotation_radians"] - math.atan2(right[1] - left[1], right[0] - left[0])
    turned = landmarks[list(o["subset_idxs"]), :2] @ _rotation(angle).T
    low, high = turned.min(axis=0), turned.max(axis=0)
    size = np.array([o["output_width"], o["output_height"]], np.float64)
    scale = np.array([o["scale_x"], o["scale_y"]]) * (high - low) / size
    back = _rotation(-angle)
    matrix = np.eye(4)
    matrix[:2, :2] = back * scale
    matrix[:2, 3] = back @ ((low + high) / 2) - matrix[:2, :2] @ (size / 2)
    return matrix


def crop_matrix_1(landmarks: Array, o: Mapping[str, Any]) -> Array:
    """[4, 4] of landmarks [n, 3] (version 1), which has its z column at another place.

    `o`: left_rotation_idx, right_rotation_idx, subset, bbox_size_multiplier, landmarks_range,
    input_width, input_height, output_width, output_height.
    """
    left, right = landmarks[o["left_rotation_idx"]], landmarks[o["right_rotation_idx"]]
    with np.errstate(all="ignore"):
        angle = -float(np.arctan((right[1] - left[1]) / (right[0] - left[0])))
    turned = landmarks[list(o["subset"]), :2] @ _rotation(angle).T
    low, high = turned.min(axis=0), turned.max(axis=0)
    scale = (high - low) * o["bbox_size_multiplier"] / o["landmarks_range"]
    back = _rotation(-angle)
    into = np.array([o["output_width"], o["output_height"]], np.float64) - 1
    out_of = (np.array([o["input_width"], o["input_height"]], np.float64) - 1) / 2
    middle = (back @ ((low + high) / 2)) / o["landmarks_range"] * 2 - 1
    linear = back * scale
    matrix = np.zeros((4, 4))
    matrix[:2, :2] = out_of[:, None] * linear * (2 / into)
    matrix[:2, 3] = out_of * (middle - linear.sum(axis=1)) + out_of
    matrix[2, 2] = matrix[3, 3] = 1
    return matrix


def _rotation(angle: float) -> Array:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, -s], [s, c]])


def transform(points: Array, matrix: Array, scale: float, out: Array) -> None:
    """out = points [..., 2 or 3] moved in x and y by `matrix` [4, 4], its shift times `scale`."""
    moved = points[..., :2] @ matrix[:2, :2].T + matrix[:2, 3] * np.float32(scale)
    out[..., 2:] = points[..., 2:]
    out[..., :2] = moved


def sample(x: Array, matrix: Array, centered: bool, out: Array) -> None:
    """out[0, i, j] = x at matrix @ (j, i, 0, 1), bilinear; 0 outside. x: [1, h, w, c].

    `centered`: positions are those of the middles of pixels.
    """
    height, width = x.shape[1:3]
    rows, columns = out.shape[1:3]
    linear, shift = matrix[:2, :2], matrix[:2, 3]
    if centered:
        half = np.float32(0.5)
        shift = shift + (linear[:, 0] * half + linear[:, 1] * half - half)
    j, i = np.arange(columns, dtype=np.float32), np.arange(rows, dtype=np.float32)[:, None]
    at_x = linear[0, 0] * j + linear[0, 1] * i + shift[0]
    at_y = linear[1, 0] * j + linear[1, 1] * i + shift[1]
    inside = (at_x >= 0) & (at_x <= width - 1) & (at_y >= 0) & (at_y <= height - 1)
    at_x, at_y = np.where(inside, at_x, 0), np.where(inside, at_y, 0)
    left, top = np.floor(at_x), np.floor(at_y)
    right_part, lower_part = ((at_x - left)[..., None], (at_y - top)[..., None])
    c, r = left.astype(np.intp), top.astype(np.intp)
    # what lies beyond the last column or row has no weight
    c1, r1 = np.minimum(c + 1, width - 1), np.minimum(r + 1, height - 1)
    image = x[0]
    upper = (1 - right_part) * image[r, c] + right_part * image[r, c1]
    lower = (1 - right_part) * image[r1, c] + right_part * image[r1, c1]
    out[0] = np.where(inside[..., None], lower_part * lower + (1 - lower_part) * upper, 0)
