"""RFFT2D and its inverse. Right answers: numpy's transform in double precision."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import Case, T


def _case(shape: Sequence[int], lengths: tuple[int, int], name: str) -> Case:
    x = np.random.default_rng(0).standard_normal(tuple(shape)).astype(np.float32)
    want = np.fft.rfft2(x.astype(np.float64), s=lengths).astype(np.complex64)
    return Case("RFFT2D", [x, np.array(lengths, np.int32)], {}, [want], name=name)


def _inverse(shape: Sequence[int], lengths: tuple[int, int], name: str) -> Case:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(tuple(shape)) + 1j * rng.standard_normal(tuple(shape))).astype(
        np.complex64
    )
    rows, columns = lengths[0], lengths[1] // 2 + 1
    padded = np.zeros((*shape[:-2], rows, columns), np.complex128)
    cut = x[..., :rows, :columns]
    padded[..., : cut.shape[-2], : cut.shape[-1]] = cut
    want = np.fft.irfft2(padded, s=lengths).astype(np.float32)
    return Case(
        "IRFFT2D",
        [x, np.array(lengths, np.int32)],
        {},
        [want],
        custom=True,
        name=f"inverse, {name}",
    )


_X = np.zeros((2, 4), np.float32)
_Y = T(np.zeros((2, 3), np.complex64))

CASES = [
    _case((4, 8), (4, 8), "plain"),
    _case((2, 3, 4, 8), (4, 8), "stack of matrices"),
    _case((3, 5), (4, 8), "zeros behind"),
    _case((6, 20), (4, 8), "cut"),
    _case((5, 1, 16), (1, 16), "one row"),
    _case((4, 3), (4, 1), "one column"),
    _case((19, 1, 64), (1, 64), "many rows"),
    _case((3, 2, 50), (1, 128), "one row of two, zeros behind"),
    _case((2, 18, 300), (3, 256), "matrices, cut"),
    _case((1, 2048), (1, 2048), "one long row"),
    _case((5, 7), (5, 7), "lengths that are no powers of two"),
    _case((0, 4, 8), (4, 8), "nothing"),
    _inverse((4, 5), (4, 8), "plain"),
    _inverse((2, 3, 4), (4, 8), "zeros behind"),
    _inverse((6, 9), (4, 8), "cut"),
    _inverse((3, 1, 9), (1, 16), "one row"),
    Case(
        "Irfft2d",
        [np.ones((1, 1), np.complex64), np.array([1, 1], np.int32)],
        b"",
        [np.ones((1, 1), np.float32)],
        custom=True,
        name="the other spelling",
    ),
    Case("RFFT2D", [_X[0], np.array([1, 4], np.int32)], {}, refused="rank 2 or more", outputs=[_Y]),
    Case("RFFT2D", [_X, np.array([4], np.int32)], {}, refused="two lengths", outputs=[_Y]),
    Case("RFFT2D", [_X, np.array([0, 4], np.int32)], {}, refused="must be positive", outputs=[_Y]),
    Case(
        "RFFT2D",
        [_X.astype(np.float64), np.array([2, 4], np.int32)],
        {},
        refused="is float64; RFFT2D takes float32",
        outputs=[_Y],
    ),
]
