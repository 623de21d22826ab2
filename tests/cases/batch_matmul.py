"""BATCH_MATMUL. Right answers: numpy's matmul; integers by the definition, worked out by hand."""

from __future__ import annotations

import numpy as np
from definitions import stored

from litedelegate.kernels.types import DType

from . import Case, T


def _options(adj_x: bool = False, adj_y: bool = False, asymmetric: bool = False) -> dict[str, bool]:
    return {"adj_x": adj_x, "adj_y": adj_y, "asymmetric_quantize_inputs": asymmetric}


def _floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _plain(x: np.ndarray, y: np.ndarray, adj_x: bool, adj_y: bool, name: str) -> Case:
    left = x.swapaxes(-1, -2) if adj_x else x
    right = y.swapaxes(-1, -2) if adj_y else y
    want = np.matmul(left.astype(np.float64), right.astype(np.float64)).astype(np.float32)
    return Case("BATCH_MATMUL", [x, y], _options(adj_x, adj_y), [want], name=name)


def _integers(
    depth: int, zero_x: int, zero_y: int, name: str, rows: int = 3, columns: int = 4
) -> Case:
    rng = np.random.default_rng(depth)
    x = rng.integers(-128, 128, (2, rows, depth), np.int8)
    y = rng.integers(-128, 128, (2, depth, columns), np.int8)
    total = (x.astype(np.int64) - zero_x) @ (y.astype(np.int64) - zero_y)
    want = stored(total, np.full(columns, 1 / 1024), 5, -128, 127)
    return Case(
        "BATCH_MATMUL",
        [
            T(x, scale=0.25, zero_point=zero_x),
            T(y, scale=0.25, zero_point=zero_y),
        ],
        _options(),
        [T(want.astype(np.int8), scale=64.0, zero_point=5)],
        version=2,
        name=name,
    )


_X, _Y = _floats(2, 3), _floats(3, 4, seed=1)

CASES = [
    _plain(_floats(2, 3), _floats(3, 4), False, False, "matrices"),
    _plain(_floats(3, 2), _floats(4, 3), True, True, "both adjoint"),
    _plain(_floats(2, 5, 3), _floats(1, 3, 4), False, False, "one right matrix for all"),
    _plain(_floats(5, 3), _floats(2, 4, 3), False, True, "one left matrix for all"),
    _plain(_floats(2, 1, 3, 5), _floats(4, 3, 6), True, False, "broadcast, ranks differ"),
    _plain(_floats(2, 1, 1, 1, 3, 5), _floats(2, 3, 2, 1, 5, 2), False, False, "rank 6"),
    _plain(_floats(64, 64, 32), _floats(64, 32, 48), False, False, "enough work for threads"),
    _plain(_floats(3, 37, 20), _floats(3, 45, 20), False, True, "columns that fill no vector"),
    _plain(_floats(2, 20, 37), _floats(45, 20), True, True, "both adjoint, edges of tiles"),
    _plain(_floats(2, 1, 34, 17), _floats(3, 17, 33), False, False, "ranks differ, edges of tiles"),
    _plain(_floats(3, 37), _floats(45, 37), False, True, "few rows, right rows along the sums"),
    _plain(_floats(2, 1, 4, 11), _floats(3, 9, 11), False, True, "few rows, narrow, broadcast"),
    _plain(_floats(37, 2), _floats(19, 37), True, True, "few rows, both adjoint"),
    _plain(_floats(3, 2, 19), _floats(3, 19, 83), False, False, "few rows of three matrices"),
    _plain(_floats(3, 50, 19), _floats(3, 83, 19), False, True, "packed, edges of vectors"),
    _plain(_floats(50, 19), _floats(2, 19, 83), False, False, "packed, rows of 83"),
    _plain(_floats(5, 1), _floats(2, 1, 4), False, False, "depth 1"),
    _plain(_floats(5, 0), _floats(0, 4), False, False, "depth 0 gives zeros"),
    _plain(_floats(3, 5, 0), _floats(1, 0, 4), False, False, "depth 0 in a stack"),
    _plain(_floats(0, 5), _floats(5, 4), False, False, "no rows"),
    Case(
        "BATCH_MATMUL",
        [np.full((1, 4), 255, np.float16), np.full((4, 1), 100, np.float16)],
        _options(),
        [np.full((1, 1), np.inf, np.float16)],
        name="float16 overflows at the end only",
    ),
    Case(
        "BATCH_MATMUL",
        [T([[1.5, 2.0]], DType.BFLOAT16), T([[2.0], [3.0]], DType.BFLOAT16)],
        _options(),
        [T([[9.0]], DType.BFLOAT16)],
    ),
    Case(
        "BATCH_MATMUL",
        [np.array([[2**24 + 1, 1]], np.int32), np.array([[1], [1]], np.int32)],
        _options(),
        [np.array([[2**24 + 2]], np.int32)],
        name="int32 is exact",
    ),
    _integers(50, 3, -7, "int8, edges of tiles", 33, 35),
    _integers(7, 0, 0, "int8"),
    _integers(40, -3, 9, "int8, zero points"),
    _integers(3000, -128, 127, "int8, sums above 2^24"),
    Case(
        "BATCH_MATMUL",
        [
            T(np.full((1, 3000), -128, np.int8), scale=0.5, zero_point=3),
            np.full((3000, 1), -127, np.int8),
        ],
        _options(),
        [np.array([[3000 * 128 * 127]], np.int32)],
        name="int32 output ignores zero points",
    ),
    Case(
        "BATCH_MATMUL",
        [
            T(np.full((1, 100), 32767, np.int16), scale=1.0),
            T(np.full((100, 1), -32768, np.int16), scale=1.0),
        ],
        _options(),
        [T(np.array([[-25]], np.int16), scale=float(2**32))],
        name="int16: 64-bit sums",
    ),
    Case(
        "BATCH_MATMUL",
        [
            T(np.array([[1000, -3]], np.int16), scale=0.5),
            T(np.array([[3], [4]], np.int8), scale=0.5),
        ],
        _options(),
        [T(np.array([[747]], np.int16), scale=1.0)],
        name="int16 by int8",
    ),
    Case(
        "BATCH_MATMUL",
        [
            np.array([[127.0, -64.0], [0.0, 0.0]]).astype(np.float32),
            T(np.array([[2, -1], [1, 0]], np.int8), scale=0.5),
        ],
        _options(),
        [np.array([[95.0, -63.5], [0.0, 0.0]], np.float32)],
        name="hybrid: each row its own scale",
    ),
    Case(
        "BATCH_MATMUL",
        [np.array([[255.0, 0.0]], np.float32), T(np.array([[2, -1], [1, 0]], np.int8), scale=0.5)],
        _options(asymmetric=True),
        [np.array([[255.0, -127.5]], np.float32)],
        name="hybrid, asymmetric",
        version=4,
    ),
    Case(
        "BATCH_MATMUL",
        [
            np.array([[127.0, -64.0]], np.float32),
            T(np.array([[2, -1], [1, 0]], np.int8), scale=[0.5, 2.0], zero_point=[0, 0], axis=1),
        ],
        _options(),
        [np.array([[95.0, -254.0]], np.float32)],
        name="hybrid, a scale for each column",
    ),
    Case("BATCH_MATMUL", [_X, _X], _options(), refused="do not fit", outputs=[T(_X)]),
    Case(
        "BATCH_MATMUL",
        [_floats(2, 2, 2), _floats(3, 2, 2)],
        _options(),
        refused="do not broadcast",
        outputs=[T(_X)],
    ),
    Case("BATCH_MATMUL", [_floats(3), _Y], _options(), refused="rank 2", outputs=[T(_X)]),
    Case(
        "BATCH_MATMUL",
        [np.zeros((2, 3), np.uint8), np.zeros((3, 2), np.uint8)],
        _options(),
        refused="is uint8; BATCH_MATMUL takes float32",
        outputs=[T(_X)],
    ),
    Case(
        "BATCH_MATMUL",
        [_X, np.zeros((3, 2), np.int16)],
        _options(),
        refused="is int16; BATCH_MATMUL takes float32, int8 there",
        outputs=[T(_X)],
    ),
    Case(
        "BATCH_MATMUL",
        [
            T(np.zeros((1, 1), np.int16), scale=1.0, zero_point=1),
            T(np.zeros((1, 1), np.int16), scale=1.0),
        ],
        _options(),
        refused="zero point 1; it is 0 with int16",
        outputs=[T(np.zeros((1, 1), np.int16), scale=1.0)],
    ),
    Case(
        "BATCH_MATMUL",
        [np.complex128([[1, 2j]]), np.complex128([[1j], [1]])],
        _options(),
        [np.complex128([[3j]])],
        name="complex128",
    ),
    Case(
        "BATCH_MATMUL",
        [np.int16([[1]]), np.int16([[1]])],
        _options(),
        refused="without a quantisation scale; BATCH_MATMUL needs one",
        outputs=[T(np.int16([[1]]))],
        name="int16 without scales",
    ),
]
