"""CONV_3D and CONV_3D_TRANSPOSE. Right answers: the definition, place by place."""

from __future__ import annotations

from typing import Any

import numpy as np
from definitions import same_padding

from litedelegate.kernels.types import Array

from . import Case, T

Triple = tuple[int, int, int]


def _options(stride: Triple, dilation: Triple, padding: str, activation: str) -> dict[str, Any]:
    names = {"padding": padding, "fused_activation_function": activation}
    return {
        **names,
        **{f"stride_{d}": s for d, s in zip("dhw", stride, strict=True)},
        **{f"dilation_{d}_factor": s for d, s in zip("dhw", dilation, strict=True)},
    }


def _geometry(
    size: tuple[int, ...], kernel: tuple[int, ...], stride: Triple, dilation: Triple, padding: str
) -> tuple[list[int], list[int]]:
    """Padding in front, and output size of a convolution."""
    before, out = [], []
    for n, k, s, d in zip(size, kernel, stride, dilation, strict=True):
        pad, count = same_padding(n, k, s, d)
        before.append(pad if padding == "SAME" else 0)
        out.append(count if padding == "SAME" else (n - (k - 1) * d - 1) // s + 1)
    return before, out


def _pairs(
    large: tuple[int, ...],
    small: tuple[int, ...],
    kernel: tuple[int, ...],
    before: list[int],
    stride: Triple,
    dilation: Triple,
) -> Any:
    """(place in the convolution's output, tap, place in its input) of all that lies inside."""
    for place in np.ndindex(*small):
        for tap in np.ndindex(*kernel):
            at = tuple(
                p * s - b + t * d
                for p, s, b, t, d in zip(place, stride, before, tap, dilation, strict=True)
            )
            if all(0 <= i < n for i, n in zip(at, large, strict=True)):
                yield place, tap, at


def _random(*shape: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _plain(
    name: str,
    x: tuple[int, ...],
    weights: tuple[int, ...],
    stride: Triple = (1, 1, 1),
    dilation: Triple = (1, 1, 1),
    padding: str = "SAME",
    bias: bool = True,
) -> Case:
    a, w, b = _random(*x, seed=1), _random(*weights, seed=2), _random(weights[4], seed=3)
    before, out = _geometry(x[1:4], weights[:3], stride, dilation, padding)
    want = np.zeros((x[0], *out, weights[4]))
    for place, tap, at in _pairs(x[1:4], tuple(out), weights[:3], before, stride, dilation):
        want[(slice(None), *place)] += a[(slice(None), *at)].astype(np.float64) @ w[tap]
    want = np.maximum(want + (b if bias else 0), 0)
    return Case(
        "CONV_3D",
        [a, w, T(b, const=True) if bias else None],
        _options(stride, dilation, padding, "RELU"),
        [want.astype(np.float32)],
        name=name,
    )


def _transposed(
    name: str,
    size: tuple[int, ...],
    weights: tuple[int, ...],
    stride: Triple = (1, 1, 1),
    dilation: Triple = (1, 1, 1),
    padding: str = "SAME",
    const: bool = True,
) -> Case:
    before, small = _geometry(size, weights[:3], stride, dilation, padding)
    a = _random(2, *small, weights[4], seed=1)
    w, b = _random(*weights, seed=2), _random(weights[3], seed=3)
    want = np.zeros((2, *size, weights[3]))
    for place, tap, at in _pairs(size, tuple(small), weights[:3], before, stride, dilation):
        want[(slice(None), *at)] += a[(slice(None), *place)].astype(np.float64) @ w[tap].T
    shape = np.array([2, *size, weights[3]], np.int32)
    return Case(
        "CONV_3D_TRANSPOSE",
        [T(shape, const=const), w, a, T(b, const=const)],
        _options(stride, dilation, padding, "NONE"),
        [(want + b).astype(np.float32)],
        name=name,
    )


CASES = [
    _plain("SAME", (2, 4, 5, 6, 3), (3, 3, 2, 3, 4)),
    _plain("VALID", (1, 4, 5, 6, 3), (2, 3, 2, 3, 4), padding="VALID"),
    _plain("strides", (1, 5, 6, 7, 2), (3, 3, 3, 2, 3), stride=(2, 3, 2), bias=False),
    _plain("strides above the kernel", (1, 5, 9, 7, 2), (1, 2, 2, 2, 3), stride=(2, 4, 3)),
    _plain("dilated", (1, 6, 7, 8, 2), (2, 3, 3, 2, 3), dilation=(3, 2, 2)),
    _plain("several blocks", (1, 2, 40, 40, 12), (2, 3, 3, 12, 2)),
    _transposed("SAME", (4, 5, 6), (3, 3, 2, 4, 3), stride=(2, 2, 3)),
    _transposed("VALID", (4, 5, 7), (2, 3, 3, 4, 3), stride=(2, 2, 2), padding="VALID"),
    _transposed("dilated", (5, 6, 7), (2, 3, 3, 2, 3), dilation=(3, 2, 2)),
    _transposed("a shape known at the call", (4, 5, 6), (3, 3, 2, 4, 3), const=False),
    Case(
        "CONV_3D",
        [np.zeros((1, 4, 4, 4, 2), np.float32), np.zeros((2, 2, 2, 3, 2), np.float32), None],
        _options((1, 1, 1), (1, 1, 1), "SAME", "NONE"),
        refused="weights of as many channels; got [1, 4, 4, 4, 2] and [2, 2, 2, 3, 2]",
        outputs=[T(0.0)],
        name="channels",
    ),
    Case(
        "CONV_3D_TRANSPOSE",
        [
            T(np.array([1, 4, 4, 5, 2], np.int32), const=True),
            np.zeros((2, 2, 2, 2, 3), np.float32),
            np.zeros((1, 2, 2, 2, 3), np.float32),
        ],
        _options((2, 2, 2), (1, 1, 1), "SAME", "NONE"),
        refused="output shape [1, 4, 4, 5, 2] does not go with input [1, 2, 2, 2, 3]",
        outputs=[T(0.0)],
        name="output shape",
    ),
]
