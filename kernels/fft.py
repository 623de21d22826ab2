"""RFFT2D and its inverse: Fourier transforms of real matrices over the last two dimensions.

Of the transform of a real matrix only the left half is kept, [height, width // 2 + 1].
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ._lower import indices, refuse, share_for, types
from ._recurrent_lower import dense
from ._register_tiles import lanes_of
from .api import Binding, NodeSpec, Registration, Run, Shape, TensorSpec, op, require, take
from .device import Capability, Kernel, Lowered
from .types import Array, DType

_LONGEST = 4096  # width of a transform that is made as a product with a matrix
_IN_LANES = (32, 64, 128, 256, 512, 1024, 2048)  # of those that vectors of a CPU make


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


def _lower(node: NodeSpec, capability: Capability) -> Lowered:
    """Rows, of most lengths as a product with cosines and sines, then columns one by one."""
    x, y = node.input(0), node.outputs[0]
    types(node, x, DType.FLOAT32)
    height, width = indices(node.input(1))
    if width > _LONGEST:
        refuse("SHAPE", f"a transform of width {width}", f"{_LONGEST} at most")
    if not y.size or not x.size:
        refuse("SHAPE", f"{x}, of no elements", "one or more")
    depth, first = x.shape[-1], len(node.outputs)
    if capability.kind == "cpu" and width in _IN_LANES:
        each = x.shape[-2] if height == 1 else 1  # of the rows of a matrix, one counts
        rows = x.size // depth // each
        kernel = _rows(capability, rows, width, each * depth, min(depth, width))
        if height == 1:
            return Lowered([kernel])
        columns = _columns(node, capability, height)
        return Lowered(
            [replace(kernel, output=first), columns], scratch=[((rows, width + 2), DType.FLOAT32)]
        )
    rows, bins = x.size // depth, y.shape[-1]
    turns = np.outer(np.arange(bins), np.arange(depth)) % width
    angle = -2 * np.pi * turns / width
    # what lies beyond the width does not count
    waves = np.stack([np.cos(angle), np.sin(angle)], axis=1) * (np.arange(depth) < width)
    matrix = waves.reshape(2 * bins, depth).astype(np.float32)
    return Lowered(
        [dense(capability, 0, rows, matrix, first), _columns(node, capability, height)],
        scratch=[((rows, 2 * bins), DType.FLOAT32)],
    )


def _rows(capability: Capability, rows: int, width: int, stride: int, used: int) -> Kernel:
    """The transforms of rows that begin `stride` apart, `used` values of each, on a CPU."""
    lanes, half = lanes_of(capability), width // 2
    digits = half.bit_length() - 1
    backwards = [int(f"{k:0{digits}b}"[::-1], 2) for k in range(half)]
    defines = {
        "N": width,
        "ROWS": rows,
        "STRIDE": stride,
        "USED": used,
        "VW": lanes,
        "TURN": f"turn_{lanes}",
        "TWO_FIRST": digits % 2,
    }
    reads = (0, _circle(width)[: half + 1].reshape(-1), np.array(backwards, np.int32))
    return Kernel("rfft_cpu", reads, (-(-rows // lanes),), defines, ("turn",), raw=True)


def _circle(n: int) -> Array:
    """Cosine and sine of k / n of a turn, backwards: [k, 2]."""
    turn = -2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(turn), np.sin(turn)], axis=1).astype(np.float32)


def _columns(node: NodeSpec, capability: Capability, height: int) -> Kernel:
    """The step behind the transforms of rows, which it reads from its own scratch."""
    x, y = node.input(0), node.outputs[0]
    bins = y.shape[-1]
    each = share_for(capability, y.size)
    defines = {
        "EACH": each,
        "SIZE": y.size,
        "BINS": bins,
        "HEIGHT": height,
        "ROWS": min(height, x.shape[-2]),
        "STRIDE": 2 * bins * x.shape[-2],
    }
    reads = (len(node.inputs), _circle(height).reshape(-1))
    return Kernel("dft_columns", reads, (-(-y.size // each),), defines)


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
    "RFFT2D": op("RFFT2D", _infer, _bind, lower=_lower),
    # TensorFlow's name for it, and the one of TensorFlow Lite's tests
    "IRFFT2D": _inverse("IRFFT2D"),
    "Irfft2d": _inverse("Irfft2d"),
}
