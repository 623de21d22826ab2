"""Parts of complex numbers: REAL, IMAG, COMPLEX_ABS."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from ._check import arity, gives
from ._lower import Lower, refuse, share_for
from ._register_tiles import lanes_of
from .api import Binding, NodeSpec, Registration, Run, Shape, op, take
from .device import Capability, Kernel, Lowered, Map
from .types import DType

_LEAST = 1024  # numbers for which it is worth waking another core
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


def _lower(text: str) -> Lower:
    """An expression of the pointer `@0` to pairs of floats."""

    def lower(node: NodeSpec, capability: Capability) -> Lowered:
        x = node.input(0)
        if x.dtype is not DType.COMPLEX64:
            refuse("DTYPE", f"{x.name!r} of {x.dtype.label}", "complex64")
        pairs = text.replace("@0", "((CONST_ARG f32*)@0)")
        return Lowered([Map(pairs, (), (0,), ("complex",))])

    return lower


def _lower_abs(node: NodeSpec, capability: Capability) -> Lowered:
    x, lanes = node.input(0), lanes_of(capability)
    wide = x.shape[-1] if x.rank else 1
    if capability.kind == "gpu" or x.dtype is not DType.COMPLEX64 or wide < lanes:
        return _lower("size_of_pair(@0[2 * #], @0[2 * # + 1])")(node, capability)
    rows = x.size // wide
    each = share_for(capability, rows, max(1, _LEAST // wide))
    defines = {"ROWS": rows, "N": wide, "EACH": each, "VW": lanes}
    return Lowered([Kernel("complex_abs_cpu", (0,), (-(-rows // each),), defines)])


OPS: Mapping[str, Registration] = {
    "REAL": op("REAL", _infer, _bind_real, lower=_lower("@0[2 * #]")),
    "IMAG": op("IMAG", _infer, _bind_imag, lower=_lower("@0[2 * # + 1]")),
    "COMPLEX_ABS": op("COMPLEX_ABS", _infer, _bind_abs, lower=_lower_abs),
}
