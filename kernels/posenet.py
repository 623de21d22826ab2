"""PosenetDecoderOp of Coral's models: people from PoseNet's heat maps and offsets.

Inputs: heat maps [1, height, width, 17], short offsets [.., 34], offsets between keypoints
[.., 64], and for masks the offsets to all keypoints [.., 34]. Outputs: keypoints [1, people, 17, 2]
as (y, x) in pixels, their scores [1, people, 17], scores of the people, their count, and masks
[1, people, height, width]; what stays empty is zero.

Three faults of the reference are not copied: without people its first mask is full, masks that are
not square are scrambled, and from the left eye to the nose it reads the offsets of another edge.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ._check import option_map
from ._poses import EDGES, KEYPOINTS, Decoder, masks
from .api import Binding, NodeSpec, Run, Shape, op, require, take
from .types import Array, DType

NAME = "PosenetDecoderOp"
_CHANNELS = (KEYPOINTS, 2 * KEYPOINTS, 4 * EDGES, 2 * KEYPOINTS)


def _options(node: NodeSpec | Binding) -> tuple[Decoder, int]:
    """What decodes, and how many pixels a cell has."""
    found = option_map(node.options)
    most, stride = int(found.get("max_detections", 0)), int(found.get("stride", 0))
    require(
        most >= 0 and stride > 0,
        f"max_detections is {most} and stride {stride}; they are at least 0 and 1",
    )
    threshold, radius = (float(found.get(k, 0)) for k in ("score_threshold", "nms_radius"))
    return Decoder(most, threshold, radius / stride), stride


def _infer(node: NodeSpec) -> list[Shape]:
    count = len(node.inputs)
    require(
        (count, len(node.outputs)) in ((3, 4), (4, 5)),
        f"{node.op} with {count} inputs and {len(node.outputs)} outputs; taken: 3 and 4, or 4 and "
        "5 with masks",
    )
    height, width = (*node.input(0).shape, 0, 0, 0)[1:3]
    for i, channels in enumerate(_CHANNELS[:count]):
        x = node.input(i)
        take(node, f"input {i}", x, DType.FLOAT32, DType.UINT8)
        require(
            x.shape == (1, height, width, channels) and x.size > 0,
            f"input {i} is {x}; taken: [1, height, width, {channels}], all of one size",
        )
    for i, y in enumerate(node.outputs):
        take(node, f"output {i}", y, DType.FLOAT32)
    most = _options(node)[0].max_people
    shapes: list[Shape] = [(1, most, KEYPOINTS, 2), (1, most, KEYPOINTS), (1, most), (1,)]
    return shapes if count == 3 else [*shapes, (1, most, height, width)]


def _bind(b: Binding) -> Run:
    decoder, stride = _options(b)
    count = len(b.inputs)
    fields = [b.scratch(b.input(i).shape[1:]) for i in range(count)]
    read = []
    for i, field in enumerate(fields):
        spec, cell = b.input(i), stride if i else 1  # scores have no length
        read.append(partial(_dequantize, b.xi(i)[0], spec.scale, spec.zero_point, cell, field))
    outputs = b.y

    def run() -> None:
        for step in read:
            step()
        found = decoder.people(*fields[:3])
        for y in outputs:
            y.fill(0)
        points, keypoint_scores, scores, number = outputs[:4]
        for i, (score, person) in enumerate(found):
            np.multiply(person.points, stride, out=points[0, i], casting="same_kind")
            keypoint_scores[0, i], scores[0, i] = person.scores, score
        number[0] = len(found)
        if count == 4:
            masks(fields[3], [person for _, person in found], outputs[4][0])

    return run


def _dequantize(x: Array, scale: float, zero_point: int, cell: int, y: Array) -> None:
    """Real values of x, lengths in cells of so many pixels."""
    if x.dtype == np.uint8:
        np.subtract(x, np.float32(zero_point), out=y)
        np.multiply(y, np.float32(scale) * np.float32(1 / cell), out=y)
    else:
        np.multiply(x, np.float32(1 / cell), out=y)


OPS = {NAME: op(NAME, _infer, _bind, custom=True)}
