"""Device forms of MediaPipe's ops on landmarks and images, and of unpooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._lower import check, f32, literal, refuse, share_for
from ._rows_lower import coordinates, dot, scattered, strides_of
from ._window import Pair, padding_before
from .api import NodeSpec
from .device import Capability, Kernel, Lowered, Map, Read
from .types import DType


def lower_unpool(node: NodeSpec, capability: Capability, stride: Pair, kernel: Pair) -> Lowered:
    """Value by value, in order: of those that meet the last one stays."""
    check(node, capability)
    x, y = node.input(0).shape, node.outputs[0].shape
    image, row, column, channel = coordinates("r", x)
    size = y[1] * y[2] * y[3]
    if node.input(1).dtype is DType.INT32:
        place = (
            f"const i32 at = LOAD1(r); if (at < 0 || at >= {size}) continue; "
            f"to = {image} * {size} + at;"
        )
    else:
        top = padding_before(y[1], kernel[0], stride[0], 1, x[1])
        left = padding_before(y[2], kernel[1], stride[1], 1, x[2])
        place = (
            f"const i32 at = (i32)LOAD1(r), down = at / {kernel[1]}; "
            f"const i32 y = {row} * {stride[0]} - {top} + down; "
            f"const i32 x = {column} * {stride[1]} - {left} + (at - down * {kernel[1]}); "
            f"if (y < 0 || y >= {y[1]} || x < 0 || x >= {y[2]}) continue; "
            f"to = {dot([image, 'y', 'x', channel], strides_of(y))};"
        )
    count = node.input(0).size
    put = scattered(
        capability, count, 1, y[0] * size, place, "STORE(at, v)", (0, 1), value="LOAD0(r)"
    )
    return Lowered([Map("0", ()), put])


def lower_matrix(
    node: NodeSpec, capability: Capability, o: Mapping[str, Any], landmarks: Sequence[int]
) -> Lowered:
    """The matrix of a crop around `landmarks`; in float64, as on numpy, where there is that."""
    check(node, capability)
    first = node.version == 1
    real = "f64" if capability.fp64 else "f32"

    def number(v: float) -> str:
        return literal(v, DType.FLOAT64 if capability.fp64 else DType.FLOAT32)

    if first:
        angle = f"(-F_ATAN2((dy) / (dx), ({real})1))"
        scale = [o["bbox_size_multiplier"] / o["landmarks_range"]] * 2
    else:
        angle = f"({number(o['target_rotation_radians'])} - F_ATAN2(dy, dx))"
        scale = [o["scale_x"] / o["output_width"], o["scale_y"] / o["output_height"]]
    subset = np.array(landmarks, np.int32)
    defines: dict[str, object] = {
        "FIRST_VERSION": int(first),
        "LEFT": o["left_rotation_idx"],
        "RIGHT": o["right_rotation_idx"],
        "COUNT": subset.size,
        "ANGLE(dx, dy)": angle,
        "SCALE_X": number(scale[0]),
        "SCALE_Y": number(scale[1]),
        "WIDTH": o["output_width"],
        "HEIGHT": o["output_height"],
    }
    if first:
        defines |= {
            "RANGE": number(o["landmarks_range"]),
            "OUT_OF_X": number((o["input_width"] - 1) / 2),
            "OUT_OF_Y": number((o["input_height"] - 1) / 2),
            "INTO_X": number(o["output_width"] - 1),
            "INTO_Y": number(o["output_height"] - 1),
        }
    return Lowered([Kernel("crop_matrix", (0, subset), (1,), defines)])


def lower_landmarks(node: NodeSpec, capability: Capability, size: int, scale: float) -> Lowered:
    """Points of `size` numbers."""
    check(node, capability)
    near = [f"@0[# - # % {size}]", f"@0[# - # % {size} + 1]"]
    x, y = (
        f"{near[0]} * @1[{k}] + {near[1]} * @1[{k + 1}] + @1[{k + 3}] * {f32(scale)}"
        for k in (0, 4)
    )
    text = f"# % {size} == 0 ? {x} : # % {size} == 1 ? {y} : $0"
    return Lowered([Map(text, (Read(0),), (0, 1))])


def lower_sample(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    (_, height, width, channels), y = node.input(0).shape, node.outputs[0].shape
    if not node.input(0).size:
        refuse("SHAPE", f"{node.input(0)}, of no elements", "one or more")
    count = y[1] * y[2]
    each = share_for(capability, count)
    defines = {
        "EACH": each,
        "COUNT": count,
        "OW": y[2],
        "H": height,
        "W": width,
        "C": channels,
        "CENTERED": int(node.version > 1),
    }
    return Lowered([Kernel("sample", (0, 1), (-(-count // each),), defines)])
