"""MediaPipe's ops on landmarks: a crop's matrix, points and images moved by it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ._check import float_images, option_map
from ._landmarks import crop_matrix, crop_matrix_1, sample, transform
from ._mediapipe_lower import lower_landmarks, lower_matrix, lower_sample
from .api import Binding, NodeSpec, OpError, Run, Shape, op
from .device import Capability, Lowered


def _options(node: NodeSpec | Binding, *keys: str) -> dict[str, Any]:
    """The FlexBuffer of the options, which must have these keys."""
    found = option_map(node.options)
    missing = [k for k in keys if k not in found]
    if missing:
        raise OpError(f"{node.op}: the options lack {', '.join(missing)}")
    return dict(found)


def _infer_matrix(node: NodeSpec) -> list[Shape]:
    first = node.version == 1
    float_images(node, 1, 4 if first else 3)
    x = node.input(0)
    o = _matrix_options(node)
    indices = [o["left_rotation_idx"], o["right_rotation_idx"], *_subset(o, first)]
    if x.size % 3 or not _subset(o, first) or not 0 <= min(indices) <= max(indices) < x.size // 3:
        raise OpError(
            f"{node.op}: landmarks {min(indices)} to {max(indices)} are asked for; {list(x.shape)} "
            f"holds {x.size // 3} of 3 coordinates"
        )
    return [(1, 4, 4)]


def _subset(o: Mapping[str, Any], first: bool) -> list[int]:
    return list(o["subset" if first else "subset_idxs"])


def _matrix_options(node: NodeSpec | Binding) -> dict[str, Any]:
    keys = ["left_rotation_idx", "right_rotation_idx", "output_width", "output_height"]
    if node.version == 1:
        keys += ["subset", "bbox_size_multiplier", "landmarks_range"]
        keys += ["input_width", "input_height"]
    else:
        keys += ["subset_idxs", "target_rotation_radians", "scale_x", "scale_y"]
    o = _options(node, *keys)
    positive = {k for k in o if k.startswith(("output", "input", "scale", "landmarks_range"))}
    wrong = sorted(k for k in positive if not o[k] > 0)
    if wrong:
        raise OpError(f"{node.op}: {wrong[0]} is {o[wrong[0]]}; it must be above 0")
    return o


def _bind_matrix(b: Binding) -> Run:
    o, y, landmarks = _matrix_options(b), b.y[0][0], b.xi(0).reshape(-1, 3)
    make = crop_matrix_1 if b.version == 1 else crop_matrix

    def run() -> None:
        y[...] = make(landmarks.astype(np.float64), o)

    return run


def _infer_landmarks(node: NodeSpec) -> list[Shape]:
    float_images(node, 2, 4 if node.version == 1 else 3)
    x, matrix = node.input(0), node.input(1)
    dimensions = _dimensions(node)
    if dimensions not in (2, 3) or x.shape[-1] % dimensions or matrix.size != 16:
        raise OpError(
            f"{node.op} moves points of 2 or 3 dimensions by 16 numbers; got {dimensions} "
            f"dimensions, input {list(x.shape)} and matrix {list(matrix.shape)}"
        )
    return [x.shape]


def _dimensions(node: NodeSpec | Binding) -> int:
    if node.version == 1:
        return int(_options(node, "dimensions", "scale")["dimensions"])
    return node.input(0).shape[-1]


def _bind_landmarks(b: Binding) -> Run:
    scale = _scale(b)
    points, y = (a.reshape(-1, _dimensions(b)) for a in (b.xi(0), b.y[0]))
    return partial(transform, points, b.xi(1).reshape(4, 4), scale, y)


def _infer_sample(node: NodeSpec) -> list[Shape]:
    float_images(node, 2)
    x, matrix = node.input(0), node.input(1)
    o = _options(node, "output_height", "output_width")
    if x.shape[0] != 1 or matrix.size != 16:
        raise OpError(
            f"{node.op} takes one image and a matrix of 16 numbers; got {list(x.shape)} and "
            f"{list(matrix.shape)}"
        )
    return [(1, int(o["output_height"]), int(o["output_width"]), x.shape[3])]


def _bind_sample(b: Binding) -> Run:
    return partial(sample, b.xi(0), b.xi(1).reshape(4, 4), b.version > 1, b.y[0])


def _lower_matrix(node: NodeSpec, capability: Capability) -> Lowered:
    o = _matrix_options(node)
    return lower_matrix(node, capability, o, _subset(o, node.version == 1))


def _scale(node: NodeSpec | Binding) -> float:
    return float(_options(node, "scale")["scale"]) if node.version == 1 else 1.0


def _lower_landmarks(node: NodeSpec, capability: Capability) -> Lowered:
    return lower_landmarks(node, capability, _dimensions(node), _scale(node))


OPS = {
    r.name: r
    for r in (
        op(
            "Landmarks2TransformMatrix",
            _infer_matrix,
            _bind_matrix,
            versions=(1, 2),
            custom=True,
            lower=_lower_matrix,
        ),
        op(
            "TransformLandmarks",
            _infer_landmarks,
            _bind_landmarks,
            versions=(1, 2),
            custom=True,
            lower=_lower_landmarks,
        ),
        op(
            "TransformTensorBilinear",
            _infer_sample,
            _bind_sample,
            versions=(1, 2),
            custom=True,
            lower=lower_sample,
        ),
    )
}
