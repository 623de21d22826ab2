"""Stacks of matrix products of the types that StableHLO multiplies."""

from __future__ import annotations

import numpy as np

from ._check import COMPLEX, NUMBERS
from ._matmul import exact_product, operand_type, stacked_product
from .api import Binding, Run
from .types import Array, DType

TYPES = (*NUMBERS, *COMPLEX)


def results(dtype: DType) -> tuple[DType, ...]:
    """What a product of that type can be given as: complex numbers only as such."""
    return tuple(d for d in TYPES if d.is_complex or not dtype.is_complex)


def multiply(b: Binding, x: Array, y: Array, out: Array) -> Run:
    """A callable that sets out = x @ y, [batch, rows, columns]."""
    if x.dtype.kind in "fc":
        if out.dtype == x.dtype:
            return stacked_product(x, y, out, b.threads, b.parallel)
        total = b.scratch(out.shape, x.dtype)
        product = stacked_product(x, y, total, b.threads, b.parallel)
    elif x.dtype.itemsize <= 2:
        info = np.iinfo(x.dtype)
        largest = max(-info.min, info.max) ** 2
        kind = operand_type(x.shape[-1], largest)
        left, right = b.scratch(x.shape, kind), b.scratch(y.shape, kind)
        total = b.scratch(out.shape, np.int64)
        exact = exact_product(left, right, total, largest, b.scratch)

        def product() -> None:
            np.copyto(left, x)
            np.copyto(right, y)
            exact()

    else:
        # wide integers wrap around, which no float product can do
        total = b.scratch(out.shape, x.dtype)

        def product() -> None:
            np.matmul(x, y, out=total)

    def run() -> None:
        product()
        np.copyto(out, total, casting="unsafe")

    return run
