"""Tensors of random graphs, and how far a device may be off."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from litedelegate.kernels.api import Quantization, TensorSpec
from litedelegate.kernels.types import Array, DType

# of a tensor's largest value: DESIGN.md's tolerance, and where the order of a long sum differs
CLOSE, LONG = 1e-5, 1e-4
HALF = 2e-3  # what the last digit of a float16 is worth, twice
# how far the errors of nodes before may show, of what `noise` made of them
SPREAD = 20.0


class Skip(Exception):
    """What was drawn does not fit: something else is drawn."""


@dataclass(eq=False)
class Tensor:
    """`values`: for each set of inputs the exact one and the one with errors; `loose`: it depends
    on floats that were computed, so that a device need not give the same bits.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    quant: Quantization | None = None
    const: Array | None = None
    values: list[tuple[Array, Array]] = field(default_factory=list)
    loose: bool = False
    variable: bool = False
    long: bool = False  # sums of many terms are behind it
    rough: bool = False  # halves are

    def spec(self) -> TensorSpec:
        return TensorSpec(self.shape, self.dtype, self.quant, self.const, self.name, self.variable)

    def __str__(self) -> str:
        quant = "" if self.quant is None else f" {numbers(self.quant)}"
        kind = "=" * (self.const is not None) + "~" * self.variable
        return f"{self.name}{kind} {self.dtype.label}{list(self.shape)}{quant}"


def tolerance(tensor: Tensor) -> float:
    """How far a device may be off: 0 for equal bits."""
    if not tensor.loose:
        return 0.0
    off = max((float(apart(a, b).max(initial=0)) for a, b in tensor.values), default=0.0)
    if not tensor.dtype.is_float:
        return 1.0 + 2 * off if tensor.quant is not None else 0.0
    top = max((largest(a) for a, _ in tensor.values), default=0.0)
    close = HALF if tensor.rough else LONG if tensor.long else CLOSE
    return max(SPREAD * off, close * top)


def differs(tensor: Tensor, got: Array, want: Array) -> str:
    """How a device's result is not numpy's; nothing where it is."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    limit = tolerance(tensor)
    wrong = ~(apart(got, want) <= limit)
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{tensor}: {int(wrong.sum())} of {want.size} are off by more than {limit:.3g}; at "
        f"{list(at)} {got[at]!r}, not {want[at]!r}"
    )


def apart(a: Array, b: Array) -> Array:
    """Distances; 0 where both are the same, NaN where one of them is no number."""
    kind: Any = np.complex128 if a.dtype.kind == "c" else np.float64
    if a.dtype.itemsize == 8 and a.dtype.kind in "iu":
        kind = object
    with np.errstate(all="ignore"):
        same = (a == b) | ((a != a) & (b != b))
        off: Array = np.where(same, 0.0, np.abs(a.astype(kind) - b.astype(kind))).astype(float)
    return off


def largest(a: Array) -> float:
    finite = np.abs(a[np.isfinite(a)])
    return float(finite.max()) if finite.size else 0.0


def tame(a: Array) -> bool:
    return bool(np.isfinite(a).all()) and largest(a) < 1e4


def stable(t: Tensor, a: Array, b: Array) -> bool:
    off = apart(a, b)
    if t.dtype.is_float:
        most = HALF if t.rough else CLOSE
        return bool((off <= most * largest(a) + 1e-12).all())
    limit = 3.0 if t.quant is not None else 0.0
    return bool((off <= limit).all())


def misfit(t: Tensor) -> float:
    """By what the scale is to be multiplied."""
    if t.quant is None or not t.values[0][0].size:
        return 1.0
    low, high = t.dtype.range()
    a = t.values[0][0].astype(np.int64)
    if np.mean((a == low) | (a == high)) > 0.5:
        return 5.0
    return 0.2 if np.ptp(a) < (high - low) / 20 and a.size > 1 else 1.0


def numbers(q: Quantization) -> str:
    first = f"{float(q.scale.flat[0]):.4g}@{int(q.zero_point.flat[0])}"
    return first if q.scale.size == 1 else f"{first}… along {q.axis}"
