"""Sums and products of two quantised tensors on a CPU's vectors, to the bit.

On 8 bits there are 65,536 pairs: a form in floats is taken where it was tried on all of them. Else
it is the integer arithmetic itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._lower import f32, f64
from ._lut import domain
from ._quant import multiply_by_quantized_multiplier
from .api import TensorSpec
from .types import Array, DType

# what is added to a sum, or to a factor as its part, to move halves and near halves to their side
_NUDGES = np.array([0.0] + [s * 2.0**-e for e in range(22, 12, -1) for s in (1, -1)])
_FACTORS = np.array([0.0] + [s * 2.0**-e for e in range(34, 18, -2) for s in (1, -1)])
_ULPS = (0, 1, 2, -1, 3, -2)


@dataclass(frozen=True)
class Rescaling:
    """What becomes of a stored value before it is combined: less its zero point, with `left` more
    bits, times q * 2^(shift - 31), if there is a q."""

    zero: int
    left: int = 0
    q: int = 0
    shift: int = 0

    def __call__(self, v: Array) -> Array:
        if not self.q:
            return v - self.zero
        return multiply_by_quantized_multiplier((v - self.zero) << self.left, self.q, self.shift)

    def text(self, value: str) -> str:
        """On vectors, of shifts to the right."""
        real = f"({value} - {self.zero})"
        if not self.q:
            return real
        q = f"VSPLAT(i32, 16, {self.q})"
        return f"requantize_16({real} << {self.left}, {q}, VSPLAT(i32, 16, {-self.shift}))"


@dataclass(frozen=True)
class Ends:
    """Zero point and bounds of stored results."""

    zero: int
    low: int
    high: int

    def clamp(self, text: str) -> str:
        return f"clamp_16({text}, {self.low}, {self.high})"


def in_integers(
    operands: tuple[Rescaling, Rescaling], sign: str, q: int, shift: int, ends: Ends
) -> str:
    """The arithmetic itself; "" where it shifts to the left."""
    if shift > 0 or any(o.shift > 0 for o in operands):
        return ""
    total = f"{operands[0].text('$0')} {sign} {operands[1].text('$1')}"
    right = f"VSPLAT(i32, 16, {-shift})"
    return ends.clamp(f"requantize_16({total}, VSPLAT(i32, 16, {q}), {right}) + {ends.zero}")


def sum_in_floats(
    x0: TensorSpec, x1: TensorSpec, y: TensorSpec, sign: int, pairs: Array, ends: Ends
) -> str:
    """round(a * m0 + b * m1 + rest), where that gives `pairs`, the results for all; "" if not."""
    a, b = (domain(s.dtype).astype(np.float64) for s in (x0, x1))
    scale = float(y.scale)
    m0, m1 = float(x0.scale) / scale, sign * float(x1.scale) / scale
    middle = (ends.low + ends.high + 1) // 2  # floats are finest about 0
    rest = ends.zero - middle - m0 * x0.zero_point - m1 * x1.zero_point
    for name, kind in (("f32", np.float32), ("f64", np.float64)):
        factors = np.array([m0, m1]).astype(kind)
        products = (a.astype(kind) * factors[0])[:, None] + b.astype(kind) * factors[1]
        for nudge in _NUDGES if name == "f32" else _NUDGES / 256:
            total = products + np.array(rest + nudge).astype(kind)
            if np.array_equal(np.clip(np.rint(total) + middle, ends.low, ends.high), pairs):
                literal = f32 if name == "f32" else f64
                constants = ", ".join(literal(float(v)) for v in (*factors, rest + nudge))
                return ends.clamp(f"sum_{name}_16($0, $1, {constants}) + {middle}")
    return ""


def product_in_floats(
    operands: tuple[Rescaling, Rescaling],
    dtypes: tuple[DType, DType],
    factor: float,
    pairs: Array,
    ends: Ends,
) -> str:
    """round(a * b * factor), where that gives `pairs`; "" if not."""
    a, b = (o(domain(d)) for o, d in zip(operands, dtypes, strict=True))
    total = np.multiply.outer(a, b)
    texts = ", ".join(o.text(f"${i}") for i, o in enumerate(operands))
    single = np.float32(factor)
    steps = [single * np.float32(1 + u * 2.0**-23) for u in _ULPS]
    for real in steps:
        scaled = np.rint(total.astype(np.float32) * np.float32(real)) + ends.zero
        if np.array_equal(np.clip(scaled, ends.low, ends.high), pairs):
            return ends.clamp(f"product_f32_16({texts}, {f32(float(real))}) + {ends.zero}")
    for part in _FACTORS:
        real64 = factor * (1 + part)
        scaled = np.rint(total * real64) + ends.zero
        if np.array_equal(np.clip(scaled, ends.low, ends.high), pairs):
            return ends.clamp(f"product_f64_16({texts}, {f64(real64)}) + {ends.zero}")
    return ""
