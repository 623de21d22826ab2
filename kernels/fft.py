"""RFFT2D and its inverse: Fourier transforms of real matrices over the last two dimensions.

Of the transform of a real matrix only the left half is kept, [height, width // 2 + 1].
"""

from __future__ import annotations

import numpy as np

from .api import Binding, NodeSpec, Registration, Run, Shape, TensorSpec, op, require, take
from .types import Array, DType


def _lengths(node: NodeSpec) -> tuple[int, int] | None:
    """(height, width) of the transform, if input 1 says them already."""
    spec = node.input(1)
    take(node, "input 1", spec, DType.INT32)
    require(spec.shape == (2,), f"input 1 is {spec}; taken: the two lengths of the transform")
    if spec.const is None:
        return None
    height, width = (int(v) for v in spec.const)
    require(
        height > 0 and width > 0,
        f"the lengths of the transform are {height} and {width}; they must be positive",
    )
    return height, width


def _matrices(node: NodeSpec) -> TensorSpec:
    x = node.input(0)
    require(x.rank >= 2, f"input 0 is {x}; {node.op} takes matrices (rank 2 or more)")
    return x


def _infer(node: NodeSpec) -> list[Shape | None]:
    x = _matrices(node)
    take(node, "input 0", x, DType.FLOAT32)
    take(node, "output", node.outputs[0], DType.COMPLEX64)
    lengths = _lengths(node)
    if lengths is None:
        return [None]
    height, width = lengths
    return [(*x.shape[:-2], height, width // 2 + 1)]


def _bind(b: Binding) -> Run | None:
    x, y = b.xi(0), b.y[0]
    if y.size == 0:
        return None
    height, width = (int(v) for v in b.xi(1))
    # in double, as the peer does it
    padded = b.scratch((*x.shape[:-2], height, width), np.float64)
    refresh = _fitter(x, padded)

    def run() -> None:
        refresh()
        spectrum = np.fft.rfft(padded, axis=-1)
        if height > 1:
            spectrum = np.fft.fft(spectrum, axis=-2)
        np.copyto(y, spectrum, casting="same_kind")

    return run


def _fitter(x: Array, padded: Array) -> Run:
    """A callable that copies x into the corner of `padded`, cut or followed by zeros."""
    rows, columns = (min(a, p) for a, p in zip(x.shape[-2:], padded.shape[-2:], strict=True))
    source, corner = x[..., :rows, :columns], padded[..., :rows, :columns]
    right, below = padded[..., :rows, columns:], padded[..., rows:, :]

    def run() -> None:
        np.copyto(corner, source)
        right.fill(0)
        below.fill(0)

    return run


def _infer_inverse(node: NodeSpec) -> list[Shape | None]:
    x = _matrices(node)
    take(node, "input 0", x, DType.COMPLEX64)
    take(node, "output", node.outputs[0], DType.FLOAT32)
    lengths = _lengths(node)
    return [None if lengths is None else (*x.shape[:-2], *lengths)]


def _bind_inverse(b: Binding) -> Run | None:
    x, y = b.xi(0), b.y[0]
    if y.size == 0:
        return None
    height, width = (int(v) for v in b.xi(1))
    padded = b.scratch((*x.shape[:-2], height, width // 2 + 1), np.complex128)
    refresh = _fitter(x, padded)

    def run() -> None:
        refresh()
        spectrum = np.fft.ifft(padded, axis=-2) if height > 1 else padded
        np.copyto(y, np.fft.irfft(spectrum, n=width, axis=-1), casting="same_kind")

    return run


def _inverse(name: str) -> Registration:
    return op(name, _infer_inverse, _bind_inverse, custom=True)


OPS = {
    "RFFT2D": op("RFFT2D", _infer, _bind),
    # TensorFlow's name for it, and the one of TensorFlow Lite's tests
    "IRFFT2D": _inverse("IRFFT2D"),
    "Irfft2d": _inverse("Irfft2d"),
}
