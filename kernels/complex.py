"""Parts of complex numbers: REAL, IMAG, COMPLEX_ABS."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from ._check import arity, gives
from .api import Binding, NodeSpec, Registration, Run, Shape, op, take
from .types import DType

_PARTS = {DType.COMPLEX64: DType.FLOAT32, DType.COMPLEX128: DType.FLOAT64}


def _infer(node: NodeSpec) -> list[Shape]:
    arity(node, 1)
    x = node.input(0)
    take(node, "input 0", x, *_PARTS)
    gives(node, _PARTS[x.dtype])
    return [x.shape]


def _bind_real(b: Binding) -> Run | None:
    return partial(np.copyto, b.y[0], b.xi(0).real)


def _bind_imag(b: Binding) -> Run | None:
    return partial(np.copyto, b.y[0], b.xi(0).imag)


def _bind_abs(b: Binding) -> Run | None:
    return partial(np.abs, b.xi(0), out=b.y[0])


OPS: Mapping[str, Registration] = {
    "REAL": op("REAL", _infer, _bind_real),
    "IMAG": op("IMAG", _infer, _bind_imag),
    "COMPLEX_ABS": op("COMPLEX_ABS", _infer, _bind_abs),
}
