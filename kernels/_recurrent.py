"""What the float recurrent ops share: products with float or integer weights, sequences."""

from __future__ import annotations

import numpy as np

from ._hybrid import HybridWeights, RowQuantizer
from ._sparse import densify
from .api import Binding
from .types import Array

# float [units, depth], or integers with their scales
Weights = Array | HybridWeights


def stored(b: Binding, i: int) -> Array:
    """Weights, dense, as int8 or float32: old files call int8 weights uint8."""
    array = b.xi(i) if b.input(i).sparsity is None else densify(b.input(i))
    return array.view("i1") if array.dtype == "u1" else array


def multiply(weights: Weights, x: Array, out: Array, quantizer: RowQuantizer | None) -> None:
    """out[r] = weights . x[r]; integer weights need a quantiser of the shape of x."""
    if isinstance(weights, HybridWeights):
        assert quantizer is not None
        quantizer(x)
        weights.multiply(quantizer, out)
    else:
        np.matmul(x, weights.T, out=out)


def quantizer(b: Binding, weights: int, rows: int, depth: int) -> RowQuantizer | None:
    """What `multiply` needs for the weights at input `weights`."""
    if b.xi(weights).dtype.kind == "f":
        return None
    return RowQuantizer(b.scratch, (rows, depth), b.options.asymmetric_quantize_inputs)


def rows(x: Array) -> Array:
    """All vectors of a sequence, as they lie in memory."""
    return (x if x.flags.c_contiguous else x.swapaxes(0, 1)).reshape(-1, x.shape[-1])


def by_steps(vectors: Array, like: Array) -> Array:
    """Vectors in the order of `rows(like)` as [steps, batch, units]."""
    steps, batch, _ = like.shape
    if like.flags.c_contiguous:
        return vectors.reshape(steps, batch, -1)
    return vectors.reshape(batch, steps, -1).swapaxes(0, 1)


def sequence(x: Array, time_major: bool) -> Array:
    """[steps, batch, depth], whichever of the two comes first in memory."""
    return x if time_major else x.swapaxes(0, 1)
