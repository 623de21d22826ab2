"""PosenetDecoderOp. Right answers: fields are made of people that are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from litedelegate.kernels.types import Array

from . import Case, T

_GRID = (9, 12)
_STRIDE = 16
_EDGES = [
    *((0, 1), (1, 3), (0, 2), (2, 4), (0, 5), (5, 7), (7, 9), (5, 11), (11, 13), (13, 15)),
    *((0, 6), (6, 8), (8, 10), (6, 12), (12, 14), (14, 16)),
]
_EARS_AND_ENDS = [3, 4, 9, 10, 15, 16]  # keypoints from which no others are found
_BODY = np.array(
    [
        *((0, 2), (0, 3), (0, 1), (1, 4), (1, 0), (2, 3), (2, 1), (3, 4), (3, 0)),
        *((4, 4), (4, 0), (5, 3), (5, 1), (6, 3), (6, 1), (8, 3), (8, 1)),
    ]
)
_LEFT, _RIGHT = _BODY, np.add(_BODY, (0, 7))


def _fields(people: list[Array], odds: list[float]) -> list[Array]:
    """Scores that fall off around each keypoint; offsets to those of the nearest person."""
    cells = np.stack(np.indices(_GRID), axis=-1)
    apart = np.stack(people) - cells[:, :, None, None]  # [y, x, person, keypoint, 2]
    far = (apart**2).sum(axis=-1)
    scores = (np.array(odds)[:, None] - 3.0 * far).max(axis=2)
    nearest = np.stack(people)[far.argmin(axis=2), np.arange(17)]  # [y, x, keypoint, 2]
    short = nearest - cells[:, :, None]
    steps = []
    for edges in (_EDGES, [(child, parent) for parent, child in _EDGES]):
        chosen = far.argmin(axis=2)[..., [start for start, _ in edges]]
        ends = np.stack([p[[end for _, end in edges]] for p in people])
        starts = np.stack([p[[start for start, _ in edges]] for p in people])
        steps.append((ends - starts)[chosen, np.arange(len(edges))])
    blocks = [step[..., axis] for step in steps for axis in (0, 1)]
    return [
        scores,
        _STRIDE * np.concatenate([short[..., 0], short[..., 1]], axis=-1),
        _STRIDE * np.concatenate(blocks, axis=-1),
    ]


def _long(people: list[Array]) -> Array:
    """Offsets to all keypoints: of the first person from the left half, else of the second."""
    rows, columns = np.indices(_GRID)
    owner = np.minimum(columns // (_GRID[1] // 2), len(people) - 1)
    apart = np.stack(people)[owner] - np.stack([rows, columns], axis=-1)[:, :, None]
    return _STRIDE * np.concatenate([apart[..., 0], apart[..., 1]], axis=-1)


def _options(most: int, stride: int = _STRIDE) -> dict[str, Any]:
    found = {
        "max_detections": most,
        "score_threshold": 0.5,
        "stride": stride,
        "nms_radius": 10.0,
    }
    return {"flexbuffer": lambda: found}


def _float(x: Array) -> Array:
    return x[None].astype(np.float32)


def _case(
    name: str,
    fields: list[Any],
    most: int,
    found: list[tuple[Array, Any, float]],
    owners: Array | None = None,
) -> Case:
    """`found`: points, scores of the keypoints and of the whole, best first."""
    want = [np.zeros(s, np.float32) for s in ((1, most, 17, 2), (1, most, 17), (1, most), (1,))]
    for i, (points, scores, score) in enumerate(found):
        want[0][0, i] = points * _STRIDE
        want[1][0, i], want[2][0, i] = scores, score
    want[3][0] = len(found)
    if owners is not None:
        want.append(_float(owners == np.arange(most)[:, None, None]))
    inputs = [x if isinstance(x, T) else _float(x) for x in fields]
    options = _options(most)
    return Case("PosenetDecoderOp", inputs, options, want, custom=True, tolerance=1e-6, name=name)


def _chance(odds: Any) -> Any:
    return 1 / (1 + np.exp(-np.asarray(odds, np.float64)))


def _refused(text: str, inputs: list[Any], outputs: int = 4, **options: int) -> Case:
    declared = [T(0.0)] * outputs
    given = _options(**{"most": 2, **options})
    return Case(
        "PosenetDecoderOp", inputs, given, refused=text, outputs=declared, custom=True, name=text
    )


_TWO = _fields([_LEFT, _RIGHT], [4.0, 6.0])
_FOUND = [(_RIGHT, _chance(6), float(_chance(6))), (_LEFT, _chance(4), float(_chance(4)))]
_HALVES = np.indices(_GRID)[1] // (_GRID[1] // 2)

_BYTES = [
    T(np.clip(np.round(f / s) + z, 0, 255)[None].astype(np.uint8), scale=s, zero_point=z)
    for f, s, z in zip(_TWO, (0.25, 1.0, 1.0), (128, 128, 128), strict=True)
]

_TOUCHING = _LEFT.copy()
_TOUCHING[_EARS_AND_ENDS] = _RIGHT[_EARS_AND_ENDS]
_TOUCHED = np.where(np.isin(np.arange(17), _EARS_AND_ENDS), 6.0, 4.0)
_FLOATS = [_float(f) for f in _TWO]

CASES = [
    _case("two people", _TWO, 4, _FOUND),
    _case("bytes", _BYTES, 4, _FOUND),
    _case("the better one", _TWO, 1, _FOUND[:1]),
    _case("no room", _TWO, 0, []),
    _case("nobody", _fields([_LEFT], [-0.1]), 3, []),
    _case(
        "shared keypoints count for the better one",
        _fields([_TOUCHING, _RIGHT], [4.0, 6.0]),
        3,
        [_FOUND[0], (_TOUCHING, _chance(_TOUCHED), float(11 * _chance(4) / 17))],
    ),
    _case("masks", [*_TWO, _long([_LEFT, _RIGHT])], 2, _FOUND, 1 - _HALVES),
    _case(
        "masks of nobody",
        [*_fields([_LEFT], [-0.1]), _long([_LEFT])],
        2,
        [],
        np.full(_GRID, -1),
    ),
    _refused("input 1 is", [_FLOATS[0], _FLOATS[0], _FLOATS[2]]),
    _refused("input 2 is", [*_FLOATS[:2], _FLOATS[2][:, :-1]]),
    _refused("is int8; PosenetDecoderOp takes", [_FLOATS[0].astype(np.int8), *_FLOATS[1:]]),
    _refused("with 3 inputs and 5 outputs", _FLOATS, 5),
    _refused("max_detections is 2 and stride 0", _FLOATS, stride=0),
]
