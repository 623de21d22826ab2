"""The complementary error function, which numpy lacks."""

from __future__ import annotations

import math

import numpy as np

from .types import Array

# Numerical Recipes (Press et al.), erfcc: a Chebyshev fit of relative error below 1.2e-7
_COEFFICIENTS = (
    0.17087277,
    -0.82215223,
    1.48851587,
    -1.13520398,
    0.27886807,
    -0.18628806,
    0.09678418,
    0.37409196,
    1.00002368,
    -1.26551223,
)


def erfc_of_positive(z: Array, t: Array, y: Array) -> None:
    """y = erfc(z) for z >= 0; `t` is scratch. float32 or float64, all of one shape and distinct."""
    real = z.dtype.type
    np.multiply(z, real(0.5), out=t)
    np.add(t, real(1), out=t)
    np.reciprocal(t, out=t)
    np.multiply(t, real(_COEFFICIENTS[0]), out=y)
    for c in _COEFFICIENTS[1:-1]:
        np.add(y, real(c), out=y)
        np.multiply(y, t, out=y)
    np.add(y, real(_COEFFICIENTS[-1]), out=y)
    np.multiply(z, z, out=z)
    np.subtract(y, z, out=y)
    np.exp(y, out=y)
    np.multiply(y, t, out=y)


def erfc_exact(x: Array) -> Array:
    """erfc, one value at a time: for tables."""
    values = [math.erfc(v) for v in x.reshape(-1).tolist()]
    return np.array(values, np.float64).reshape(x.shape)
