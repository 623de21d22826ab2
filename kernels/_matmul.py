"""Matrix products: stacks of them, and exact ones of integers through floating-point BLAS."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .api import Run
from .types import Array

# below this many multiplications handing work to another thread costs more than it saves
_PARALLEL_FROM = 1 << 21
# rows that fill the registers of a BLAS kernel
_ROWS = 16


def product(x: Array, y: Array, out: Array) -> Run:
    """A callable that sets out[..., m, n] = x[..., m, k] @ y[..., k, n], broadcasting the rest."""
    # an outer product, as of a depth of 1, is slow in BLAS
    multiply = np.multiply if x.shape[-1] == 1 else np.matmul

    def run() -> None:
        multiply(x, y, out=out)

    return run


def stacked_product(
    x: Array, y: Array, out: Array, threads: int, parallel: Callable[[Sequence[Run]], Run]
) -> Run:
    """`product`, in as few BLAS calls as shapes and threads allow; BLAS itself uses one thread."""
    depth, columns = y.shape[-2:]
    if x.ndim > 2 and y.size == depth * columns and x.flags.c_contiguous and x.size:
        # one right matrix for all rows
        x, y, out = x.reshape(-1, depth), y[(0,) * (y.ndim - 2)], out.reshape(-1, columns)
    if threads < 2 or out.size * depth < _PARALLEL_FROM:
        return product(x, y, out)
    batch = out.shape[:-2]
    axis = next((i for i, d in enumerate(batch) if d >= threads), None)
    if axis is not None:
        x, y = (np.broadcast_to(a, batch + a.shape[-2:]) for a in (x, y))
        cuts = [(slice(None),) * axis + (c,) for c in _cuts(batch[axis], threads)]
        return parallel([product(x[c], y[c], out[c]) for c in cuts])
    if out.shape[-2] >= columns or out.shape[-2] >= _ROWS * threads:
        rows = _cuts(out.shape[-2], threads)
        return parallel([product(x[..., c, :], y, out[..., c, :]) for c in rows])
    return parallel([product(x, y[..., c], out[..., c]) for c in _cuts(columns, threads)])


def _cuts(size: int, parts: int) -> list[slice]:
    edges = [size * i // parts for i in range(parts + 1)]
    return [slice(*e) for e in itertools.pairwise(edges) if e[0] < e[1]]


def operand_type(depth: int, largest: int) -> np.dtype[Any]:
    """The float type for `exact_product`: float32 unless that would cut the sum into slivers."""
    return np.dtype(np.float32 if _exact_depth(largest) >= min(depth, 64) else np.float64)


def exact_product(
    x: Array, y: Array, out: Array, largest: int, scratch: Callable[..., Array]
) -> Run:
    """A callable that sets out = x @ y without rounding, x and y holding integers as floats.

    No product of two elements may exceed `largest`. float32 operands are multiplied in slices of
    the depth whose sums are exact. `out` may be of any type that holds the sums.
    """
    depth = x.shape[-1]
    step = max(depth if x.dtype == np.float64 else min(depth, _exact_depth(largest)), 1)
    if step >= depth and out.dtype == x.dtype:
        return product(x, y, out)
    part = scratch(out.shape, x.dtype)
    cuts = [slice(k, k + step) for k in range(0, max(depth, 1), step)]
    parts = [product(x[..., c], y[..., c, :], part) for c in cuts]

    def run() -> None:
        parts[0]()
        np.copyto(out, part, casting="unsafe")
        for multiply in parts[1:]:
            multiply()
            np.add(out, part, out=out, casting="unsafe")

    return run


def _exact_depth(largest: int) -> int:
    """How many products of that size float32 can add up without rounding."""
    return (1 << 24) // max(largest, 1)
