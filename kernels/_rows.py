"""Reductions of the rows of a matrix. numpy's own take 100 ns and more for each row."""

from __future__ import annotations

from functools import partial

import numpy as np

from ._elementwise import sequence
from .api import Run
from .types import Array

# from so many rows on, and up to such a length, turning the matrix first is faster
_ROWS, _LENGTH = 16, 64


def row_maxima(x: Array, turned: Array, out: Array) -> Run:
    """out [rows] = greatest element of each row of x [rows, length]; `turned`: scratch like x."""
    rows, length = x.shape
    if rows < _ROWS or length > _LENGTH:
        return partial(np.maximum.reduce, x, axis=1, out=out)
    columns = turned.reshape(-1)[: x.size].reshape(length, rows)
    return (
        sequence(
            partial(np.copyto, columns, x.T), partial(np.maximum.reduce, columns, axis=0, out=out)
        )
        or _nothing
    )


def row_sums(x: Array, out: Array) -> Run:
    """out [rows] = sum of each row of the float matrix x."""
    return partial(np.matmul, x, np.ones(x.shape[1], x.dtype), out=out)


def _nothing() -> None:
    pass
