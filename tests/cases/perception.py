"""MaxPoolWithArgmax, MaxUnpooling2D, DenseImageWarp. Right answers: the definition, by hand."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from definitions import same_padding

from litedelegate.kernels.types import Array

from . import Case, T

Pair = tuple[int, int]
_LOWEST = np.finfo(np.float32).min


def _options(kernel: Any, stride: Any, padding: str, batch: bool = False) -> dict[str, Any]:
    found = {
        "include_batch_in_index": batch,
        "padding": padding,
        "ksize": [1, *kernel, 1],
        "strides": [1, *stride, 1],
    }
    return {"flexbuffer": lambda: found}


def _argmax(x: Any, kernel: Pair, stride: Pair, padding: str) -> Case:
    before, out = [], []
    for n, k, s in zip(x.shape[1:3], kernel, stride, strict=True):
        pad, count = same_padding(n, k, s) if padding == "SAME" else (0, (n - k) // s + 1)
        before.append(pad)
        out.append(count)
    y = np.zeros((len(x), *out, x.shape[3]), np.float32)
    indices = np.zeros(y.shape, np.int32)
    for n, r, c, d in np.ndindex(*y.shape):
        best, at = _LOWEST, d
        for i, j in np.ndindex(*kernel):
            row, column = r * stride[0] - before[0] + i, c * stride[1] - before[1] + j
            inside = 0 <= row < x.shape[1] and 0 <= column < x.shape[2]
            if inside and x[n, row, column, d] > best:
                best, at = x[n, row, column, d], (row * x.shape[2] + column) * x.shape[3] + d
        y[n, r, c, d], indices[n, r, c, d] = best, at
    return Case(
        "MaxPoolWithArgmax",
        [x],
        _options(kernel, stride, padding),
        [y, indices],
        custom=True,
        name=f"{list(x.shape)} by {kernel} every {stride}, {padding}",
    )


def _pool_by_hand(
    x: list[float],
    shape: tuple[int, ...],
    stride: Pair,
    padding: str,
    y: list[float],
    indices: list[int],
) -> Case:
    size = (1, 2, 2, 1)
    return Case(
        "MaxPoolWithArgmax",
        [np.array(x, np.float32).reshape(shape)],
        _options((2, 3), stride, padding),
        [np.array(y, np.float32).reshape(size), np.array(indices, np.int32).reshape(size)],
        custom=True,
    )


def _pool_refused(text: str, x: Any, **changed: Any) -> Case:
    given = {"kernel": (2, 2), "stride": (1, 1), "padding": "SAME"} | changed
    return Case(
        "MaxPoolWithArgmax",
        [x],
        _options(**given),
        refused=text,
        outputs=[T(1.0), T(1)],
        custom=True,
        name=text,
    )


def _warped(x: Array, flow: Array) -> Array:
    y = np.zeros(x.shape)
    for n, i, j in np.ndindex(*x.shape[:3]):
        at = np.array([i, j], np.float32) - flow[n, i, j]
        floor = np.clip(np.floor(at), 0, np.array(x.shape[1:3]) - 2).astype(int)
        down, across = np.clip(at - floor, 0, 1)
        (r, c), image = floor, x[n].astype(np.float64)
        top = (1 - across) * image[r, c] + across * image[r, c + 1]
        bottom = (1 - across) * image[r + 1, c] + across * image[r + 1, c + 1]
        y[n, i, j] = (1 - down) * top + down * bottom
    return y.astype(np.float32)


def _warp(name: str, shape: tuple[int, ...], spread: float) -> Case:
    rng = np.random.default_rng(len(name))
    x = rng.standard_normal(shape).astype(np.float32)
    flow = (rng.standard_normal((*shape[:3], 2)) * spread).astype(np.float32)
    want = [_warped(x, flow)]
    return Case("DenseImageWarp", [x, flow], {}, want, custom=True, tolerance=1e-6, name=name)


def _warp_refused(text: str, x: tuple[int, ...], flow: tuple[int, ...]) -> Case:
    given = [np.zeros(x, np.float32), np.zeros(flow, np.float32)]
    return Case("DenseImageWarp", given, {}, refused=text, outputs=[T(0.0)], custom=True, name=text)


def _unpool(
    name: str,
    shape: tuple[int, ...],
    indices: list[int],
    stride: Pair,
    padding: int,
    want: list[int],
    out: tuple[int, ...],
) -> Case:
    """Puts 1, 2, 3... where the indices say; windows of 2x2."""
    x = np.arange(1, len(indices) + 1, dtype=np.float32).reshape(shape)
    return Case(
        "MaxUnpooling2D",
        [x, np.array(indices, np.int32).reshape(shape)],
        struct.pack("<6i", padding, stride[1], stride[0], 2, 2, 0),
        [np.array(want, np.float32).reshape(out)],
        custom=True,
        name=name,
    )


_X = np.random.default_rng(1).standard_normal((2, 7, 6, 3)).astype(np.float32)
_TIES = np.random.default_rng(2).integers(0, 3, (1, 6, 6, 2)).astype(np.float32)
_ODD = np.array([np.nan, -np.inf, np.nan, np.nan, 2, np.nan], np.float32).reshape(1, 1, 6, 1)
_FLOW = np.array(
    [
        [[4, 10], [6, 10], [4, 2], [6, 6]],
        [[10, -4], [2, -2], [6, 8], [6, 0]],
        [[2, -2], [10, 6], [4, 4], [2, -4]],
        [[-4, 10], [-4, -4], [-2, 6], [4, 6]],
    ],
    np.float32,
)[None]

CASES = [
    _argmax(_X, (2, 2), (2, 2), "SAME"),
    _argmax(_X, (2, 2), (2, 2), "VALID"),
    _argmax(_X, (3, 2), (1, 3), "SAME"),
    _argmax(_X, (1, 1), (2, 1), "VALID"),
    _argmax(_X, (7, 6), (1, 1), "SAME"),
    _argmax(_X, (9, 9), (4, 4), "SAME"),
    _argmax(_TIES, (3, 3), (2, 2), "SAME"),
    _argmax(_ODD, (1, 2), (1, 2), "VALID"),
    _argmax(np.zeros((0, 2, 2, 1), np.float32), (2, 2), (1, 1), "SAME"),
    _pool_by_hand(
        [0, 0, 0, 0, 0, 0, 7, 0, 0, 10, 0, 0, 0, 0, 0, 0, 20, 0, 0, 19],
        (1, 4, 5, 1),
        (2, 3),
        "SAME",
        [7, 10, 20, 19],
        [6, 9, 16, 19],
    ),
    _pool_by_hand(
        [*[0] * 6, 7, 0, 0, 10, 0, 0, 0, 0, 0, 0, 20, 0, 0, 19, 24, 1, 2, 44],
        (1, 4, 6, 1),
        (2, 2),
        "VALID",
        [7, 10, 24, 24],
        [6, 9, 20, 20],
    ),
    _pool_refused("include_batch_in_index", _X, batch=True),
    _pool_refused("takes a 4-dimensional input", _X[0]),
    _pool_refused("is int8; MaxPoolWithArgmax takes", _X.astype(np.int8)),
    _pool_refused("with ksize [1, 2, 1]", _X, kernel=(2,)),
    _pool_refused("stride 0x1", _X, stride=(0, 1)),
    _unpool(
        "SAME",
        (1, 2, 2, 2),
        [0, 3, 4, 7, 8, 11, 12, 15],
        (2, 1),
        1,
        [1, 0, 0, 2, 3, 0, 0, 4, 5, 0, 0, 6, 7, 0, 0, 8],
        (1, 4, 2, 2),
    ),
    _unpool("VALID", (1, 1, 2, 1), [4, 0], (1, 1), 2, [2, 0, 0, 0, 1, 0], (1, 2, 3, 1)),
    _unpool("images", (2, 1, 1, 1), [3, 1], (2, 2), 1, [0, 0, 0, 1, 0, 2, 0, 0], (2, 2, 2, 1)),
    _unpool("outside", (2, 1, 1, 1), [4, -1], (2, 2), 1, [0] * 8, (2, 2, 2, 1)),
    _unpool("no images", (0, 1, 1, 1), [], (2, 2), 1, [], (0, 2, 2, 1)),
    Case(
        "MaxUnpooling2D",
        [np.zeros((1, 1, 2, 1), np.float32), np.zeros((1, 2, 2, 1), np.int32)],
        struct.pack("<6i", 1, 2, 2, 2, 2, 0),
        refused="differ in shape",
        outputs=[T(0.0)],
        custom=True,
        name="other indices",
    ),
    _warp("still", (1, 4, 5, 2), 0.0),
    _warp("near", (2, 4, 5, 3), 1.0),
    _warp("far", (2, 3, 2, 1), 30.0),
    _warp("none", (0, 3, 2, 1), 1.0),
    Case(
        "DenseImageWarp",
        [np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1), _FLOW],
        {},
        [
            np.array(
                [0, 0, 0, 0, 3, 3, 0, 3, 2, 0, 0, 3, 12, 15, 12, 0],
                np.float32,
            ).reshape(1, 4, 4, 1)
        ],
        custom=True,
        name="corners",
    ),
    _warp_refused("takes images of 2x2 or more", (1, 1, 4, 1), (1, 1, 4, 2)),
    _warp_refused("takes a flow of shape [1, 4, 4, 2]", (1, 4, 4, 1), (1, 4, 4, 3)),
]
