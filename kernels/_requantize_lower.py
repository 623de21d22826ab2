"""Requantisation in the device form for CPUs: 16 channels at once, to the bit as numpy has it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._lower import refuse
from ._scaling import Scaling
from .types import Array

LANES = 16
# what is added to results so that all are positive, where cutting off is rounding down
_LIFT = 256


@dataclass(frozen=True, slots=True, eq=False)
class Requantised:
    """Constants that a kernel reads as operands from `first` on, and its macros: CONSTANTS(n) loads
    those of channels n …, among them `bias`, into variables whose names a body must not use;
    REQUANTISE(v) makes stored values, LIFT too large, of sums to which the bias was added."""

    constants: list[Array]
    defines: dict[str, object]


def requantised(scaling: Scaling, bound: Array, first: int) -> Requantised:
    """`bound` [channels]: the largest absolute sums, the scaling's offset included."""
    s = scaling
    if s.rounded is not None:
        return _rounded(s, s.rounded, bound, first)
    return _positive(s, bound, first) or _integers(s, first)


def _macros(
    first: int, values: dict[str, Array], scaling: Scaling, text: str, lift: int = 0
) -> Requantised:
    units = scaling.offset.size
    types = {"int32": "i32", "float64": "f64"}
    loads, constants = [], []
    for i, (name, array) in enumerate(values.items()):
        padded = np.zeros(max(units, LANES), array.dtype)
        padded[:units] = array
        constants.append(padded)
        kind = types[str(array.dtype)]
        loads.append(f"const VEC({kind}, 16) {name} = VLOAD(16, IN{first + i} + (n));")
    low, high = scaling.low + lift, scaling.high + lift
    defines: dict[str, object] = {
        "CONSTANTS(n)": " ".join(loads),
        "REQUANTISE(v)": f"clamp_16({text}, {low}, {high})",
        "LIFT": lift,
    }
    return Requantised(constants, defines)


def _bias(scaling: Scaling) -> Array:
    """Added to sums that wrap, as the reference's do."""
    return scaling.offset.astype(np.int32)


def _rounded(scaling: Scaling, real: Array, bound: Array, first: int) -> Requantised:
    if (bound >= 1 << 31).any() or (bound * np.abs(real) >= 1 << 30).any():
        refuse("QUANT", "sums beyond 32 bits", "smaller ones")
    values = {"bias": _bias(scaling), "real": np.ascontiguousarray(real, np.float64)}
    text = f"round_products_16(v, real) + {scaling.zero}"
    return _macros(first, values, scaling, text)


def _integers(scaling: Scaling, first: int) -> Requantised:
    values = {
        "bias": _bias(scaling),
        "multiplier": scaling.q.astype(np.int32),
        "down": np.maximum(-scaling.shift, 0).astype(np.int32),
    }
    sums = "v"
    if (scaling.shift > 0).any():
        values["up"] = np.maximum(scaling.shift, 0).astype(np.int32)
        sums = "v << up"
    text = f"requantize_16({sums}, multiplier, down) + {scaling.zero}"
    return _macros(first, values, scaling, text)


def _positive(scaling: Scaling, bound: Array, first: int) -> Requantised | None:
    """Where nothing below the zero point is stored: one product and one sum in float64, and both
    are exact where the result is not clamped; see `_requantize` for the formula."""
    multiplier, nudge = scaling.factors()
    right = np.maximum(-scaling.shift, 0)
    # results have at most 10 bits before the point and 31 + right after it
    if scaling.low < scaling.zero or (scaling.shift > 0).any() or (right > 12).any():
        return None
    if (bound * multiplier >= 1 << 30).any():
        return None
    values = {
        "bias": _bias(scaling),
        "real": multiplier,
        "rest": nudge + 0.5 + scaling.zero + _LIFT,
    }
    text = "VCONVERT(i32, 16, VCONVERT(f64, 16, v) * real + rest)"
    return _macros(first, values, scaling, text, _LIFT)
