"""Transposed convolution: each input position adds its weighted kernel to the output."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ._outputs import Outputs
from ._window import Pair
from .api import Run
from .types import Array

# elements of a block of products
_BLOCK = 1 << 18


def pack_transposed(weights: Array, dtype: Any) -> Array:
    """Weights [units, height, width, channels] as [channels, height * width * units]."""
    matrix = weights.transpose(3, 1, 2, 0).reshape(weights.shape[3], -1)
    return np.ascontiguousarray(matrix, dtype)


def scatter(
    scratch: Callable[..., Array],
    x: Array,
    zero: float,
    matrix: Array,
    kernel: Pair,
    stride: Pair,
    before: Pair,
    size: Pair,
    outputs: Callable[[int], Outputs],
) -> list[Run]:
    """Steps of a transposed convolution of x [batch, height, width, channels] less `zero`.

    `matrix`: of `pack_transposed`. `before`: how much of the full result is cut off at the top and
    the left. `size`: height and width of the output.
    """
    batch, height, width, channels = x.shape
    units = matrix.shape[1] // (kernel[0] * kernel[1])
    receiver = outputs(size[0] * size[1])
    rows = max(1, min(height, _BLOCK // max(width * matrix.shape[1], 1)))
    products = scratch((rows, width, *kernel, units), matrix.dtype)
    copy = None
    if x.dtype != matrix.dtype or zero:
        copy = scratch((rows, width, channels), matrix.dtype)
    # kernels that do not overlap need no sum
    apart = kernel[0] <= stride[0] and kernel[1] <= stride[1]
    steps = list(receiver.setup)
    for n in range(batch):
        sums, after = receiver.block(slice(n, n + 1), slice(0, size[0]))
        image = sums.reshape(*size, units)
        steps.append(partial(image.fill, 0))
        for start in range(0, height, rows):
            source = x[n, start : start + rows]
            count = source.shape[0]
            if copy is not None:
                part = copy[:count]
                steps.append(partial(np.copyto, part, source, casting="unsafe"))
                if zero:
                    steps.append(partial(np.subtract, part, matrix.dtype.type(zero), out=part))
                source = part
            block = products[:count]
            flat = block.reshape(count * width, -1)
            steps.append(partial(np.matmul, source.reshape(-1, channels), matrix, out=flat))
            for ky in range(kernel[0]):
                for kx in range(kernel[1]):
                    rows_in, rows_out = overlap(start, count, stride[0], ky - before[0], size[0])
                    columns_in, columns_out = overlap(0, width, stride[1], kx - before[1], size[1])
                    term = block[rows_in, columns_in, ky, kx]
                    if not term.size:
                        continue
                    target = image[rows_out, columns_out]
                    steps.append(
                        partial(np.copyto, target, term)
                        if apart
                        else partial(np.add, target, term, out=target)
                    )
        steps += after
    return steps


def overlap(start: int, count: int, stride: int, offset: int, size: int) -> tuple[slice, slice]:
    """Which of the inputs start ... start + count - 1 fall into the output at index * stride +
    offset: their slice from `start` on, and that of the outputs."""
    first = max(start, -(offset // stride))
    last = min(start + count, -(-(size - offset) // stride))
    if last <= first:
        return slice(0, 0), slice(0, 0)
    begin = first * stride + offset
    return (
        slice(first - start, last - start),
        slice(begin, begin + (last - first - 1) * stride + 1, stride),
    )
