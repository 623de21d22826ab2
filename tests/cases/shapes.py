"""Shapes that forms for devices treat apart: rank 8, parts of tiles, long and short rows.

What each op must give is numpy's own function of that name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from litedelegate.kernels.types import DType

from . import Case, T

_RNG = np.random.default_rng(8)
_EIGHT = (2, 1, 3, 2, 1, 2, 2, 3)
_X = _RNG.integers(-100, 100, _EIGHT).astype(np.int32)
_I8, _F32, _F16 = (_X.astype(d) for d in (np.int8, np.float32, np.float16))
_LONG = _RNG.integers(-1000, 1000, (3, 5000)).astype(np.int32)
# numbers that bfloat16 can hold, too: what comes first is the same in all types
_ROW = (np.round(_RNG.standard_normal((5, 100)) * 32) / 32).astype(np.float32)
_HOLES = np.where(_ROW > 1.2, np.float32(np.nan), _ROW)


def _ints(*values: int) -> T:
    return T(np.array(values, np.int32))


def _transpose(x: Any, *perm: int) -> Case:
    return Case(
        "TRANSPOSE", [x, _ints(*perm)], {}, [x.transpose(perm)], name=f"{x.shape} {x.dtype}"
    )


def _matrix(rows: int, columns: int, dtype: Any) -> Any:
    return _RNG.integers(-99, 99, (rows, columns)).astype(dtype)


_SHORT = _matrix(33, 5, np.int8)


def _arg(kind: str, x: Any, axis: int, want: Any) -> Case:
    options = {"output_type": DType.INT32}
    name = f"{x.shape} {x.dtype} {axis}"
    return Case(f"ARG_{kind}", [x, np.int32(axis)], options, [want.astype(np.int32)], name=name)


def _numbers_only(x: Any) -> Any:
    """Where the greatest number is; each lane of four has numbers."""
    return np.nanargmax(x, -1)


def _reduce(op: str, x: Any, axes: tuple[int, ...], want: Any, keep: bool = False) -> Case:
    options = {"keep_dims": keep}
    name = f"{x.shape} {x.dtype} {axes}"
    return Case(op, [x, _ints(*axes)], options, [want], name=name, tolerance=1e-4)


def _like_gather(x: Any, at: Any, axis: int, batch: int, want: Any) -> Case:
    options = {"axis": axis, "batch_dims": batch}
    return Case("GATHER", [x, at], options, [want], name=f"{x.shape} {axis} {batch}")


def _scattered() -> Any:
    out = np.zeros((2, 3, 4), np.float32)
    out[1, 2] += [1, 2, 3, 4]
    out[0, 0] += [5, 6, 7, 8]
    out[1, 2] += [9, 9, 9, 9]
    return out


def _updated(x: Any, part: Any, at: tuple[int, ...]) -> Any:
    out = x.copy()
    out[tuple(slice(a, a + n) for a, n in zip(at, part.shape, strict=True))] = part
    return out


def _turned_sequences(x: Any, lengths: Any) -> Any:
    """Along dimension 2, the batch is dimension 0."""
    out = x.copy()
    for row, n in enumerate(lengths):
        out[row, :, :n] = x[row, :, :n][:, ::-1]
    return out


_AT = np.array([[1, 0, 2, 1, 0], [0, 0, 0, 0, 0], [1, 0, 1, 1, 0]], np.int32)
_PART = np.full((1, 1, 2, 1, 1, 2, 1, 2), 7, np.int32)
_START = (1, 0, 1, 1, 0, 0, 1, 1)
_PADS = np.array([[0, 0], [1, 2], [2, 1], [0, 0], [1, 0]], np.int32)
_IMAGE = np.arange(2 * 3 * 4 * 2 * 3, dtype=np.int16).reshape(2, 3, 4, 2, 3)
_IDS = np.array([[2, 0, -1], [0, 2, 2]], np.int32)
_SUMS = np.stack([_F32[0, 0, 1] + _F32[1, 0, 0], 0 * _F32[0, 0, 0], _F32[0, 0, 0]
                  + _F32[1, 0, 1] + _F32[1, 0, 2]])  # fmt: skip

CASES = [
    # parts of tiles of 16 and of 32
    *(_transpose(_matrix(40, 24, d), 1, 0) for d in (np.float32, np.int8, np.float16, np.int64)),
    _transpose(_matrix(17, 99, np.float32), 1, 0),
    _transpose(_matrix(3 * 9, 20, np.float32).reshape(3, 9, 20), 0, 2, 1),
    _transpose(_matrix(2 * 9 * 3, 16, np.int32).reshape(2, 9, 3, 16), 3, 0, 2, 1),
    _transpose(
        _matrix(36, 34, np.float32).reshape(2, 9, 1, 2, 1, 2, 1, 17), *(7, 6, 5, 4, 3, 2, 1, 0)
    ),
    _transpose(_I8, 7, 0, 3, 2, 5, 4, 1, 6),
    # rows of values, columns of them, a NaN here and there
    _arg("MAX", _ROW, 1, np.argmax(_ROW, 1)),
    _arg("MIN", _ROW, 0, np.argmin(_ROW, 0)),
    _arg("MAX", _HOLES, -1, _numbers_only(_HOLES)),
    _arg("MAX", _SHORT, 1, np.argmax(_SHORT, 1)),
    _arg("MIN", _X, -6, np.argmin(_X, 2)),
    _arg("MAX", _F16, 7, np.argmax(_F16, 7)),
    _arg("MIN", _LONG, 1, np.argmin(_LONG, 1)),
    _reduce("SUM", _LONG, (1,), _LONG.sum(1, dtype=np.int32)),
    _reduce("SUM", np.ascontiguousarray(_LONG.T), (0,), _LONG.sum(1, dtype=np.int32)),
    _reduce("REDUCE_MAX", _LONG, (0, 1), _LONG.max()),
    _reduce("REDUCE_MIN", _LONG.astype(np.float32), (1, 0), np.float32(_LONG.min())),
    _reduce("MEAN", _LONG.astype(np.float32), (0,), _LONG.astype(np.float32).mean(0)),
    _reduce("MEAN", _F32, (0, 3, -1), _F32.mean((0, 3, 7), keepdims=True), keep=True),
    _reduce("REDUCE_MAX", _I8, (-6, 5), _I8.max((2, 5))),
    _reduce("REDUCE_ANY", _LONG > 998, (1,), (_LONG > 998).any(1)),
    _reduce("REDUCE_ALL", _LONG > -999, (0, 1), (_LONG > -999).all()),
    _reduce("REDUCE_PROD", _X // 50, (2, 7), np.prod(_X // 50, (2, 7), dtype=np.int32)),
    _like_gather(_X, np.array([2, 0, 2], np.int32), 2, 0, _X[:, :, [2, 0, 2]]),
    _like_gather(_I8, np.array([[1, 0]], np.int64), -1, 0, np.take(_I8, [[1, 0]], 7)),
    _like_gather(
        *(_F32, np.array([[[2, 0, 0]], [[1, 1, 2]]], np.int32), 2, 2),
        np.stack([_F32[0, :, [2, 0, 0]].swapaxes(0, 1), _F32[1, :, [1, 1, 2]].swapaxes(0, 1)]),
    ),
    # one row that several work-items share
    _like_gather(_LONG, np.int32(2), 0, 0, _LONG[2]),
    Case("GATHER_ND", [_X, _AT], {}, [_X[tuple(_AT.T)]]),
    Case(
        "SCATTER_ND",
        [
            np.array([[1, 2], [0, 0], [1, 2]], np.int32),
            np.float32([[1, 2, 3, 4], [5, 6, 7, 8], [9, 9, 9, 9]]),
            _ints(2, 3, 4),
        ],
        {},
        [_scattered()],
    ),
    Case(
        "DYNAMIC_UPDATE_SLICE",
        # the first index is moved so that the part fits
        [_X, _PART, _ints(9, *_START[1:])],
        {},
        [_updated(_X, _PART, _START)],
    ),
    Case(
        "MIRROR_PAD",
        [_IMAGE, T(_PADS)],
        {"mode": "REFLECT"},
        [np.pad(_IMAGE, _PADS, "reflect")],
    ),
    Case(
        "MIRROR_PAD",
        [_IMAGE, T(_PADS)],
        {"mode": "SYMMETRIC"},
        [np.pad(_IMAGE, _PADS, "symmetric")],
    ),
    Case(
        "REVERSE_SEQUENCE",
        [_F32, _ints(2, 3)],
        {"seq_dim": 2, "batch_dim": 0},
        [_turned_sequences(_F32, (2, 3))],
    ),
    Case(
        "ONE_HOT",
        [_I8[0, 0, 0] % 4, np.int32(3), np.float32(1), np.float32(0)],
        {"axis": 1},
        [np.moveaxis((np.arange(3) == (_I8[0, 0, 0] % 4)[..., None]), -1, 1).astype(np.float32)],
    ),
    *(
        Case(
            "CUMSUM",
            [_X, np.int32(axis)],
            {"exclusive": False, "reverse": False},
            [np.cumsum(_X, axis, np.int32)],
        )
        for axis in (-1, 2)
    ),
    Case(
        "TOPK_V2",
        [_F32, np.int32(2)],
        {},
        [
            np.take_along_axis(_F32, np.argsort(-_F32, -1, "stable")[..., :2], -1),
            np.argsort(-_F32, -1, "stable")[..., :2].astype(np.int32),
        ],
    ),
    Case("UNSORTED_SEGMENT_SUM", [_F32[:, 0], T(_IDS), np.int32(3)], {}, [_SUMS]),
    Case("BITWISE_XOR", [_X, _X[0, 0, 0, :, :, :1]], {}, [_X ^ _X[0, 0, 0, :, :, :1]]),
    Case("BITCAST", [_F32], {}, [_F32.view(np.int32)]),
    Case(
        "BITCAST",
        [_X.astype(np.int64)],
        {},
        [_X.astype(np.int64).view(np.int16).reshape(*_EIGHT, 4)],
    ),
    Case(
        "L2_NORMALIZATION",
        [_F32],
        {"fused_activation_function": "NONE"},
        [_F32 / np.maximum(np.sqrt((_F32**2).sum(-1, keepdims=True)), 1e-6)],
    ),
]
