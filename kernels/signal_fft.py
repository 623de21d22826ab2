"""Signal ops of TensorFlow Lite Micro around the Fourier transform: SignalWindow,
SignalFftAutoScale, SignalRfft, SignalIrfft, SignalEnergy.

Complex numbers are pairs in the last dimension. On int16 and int32 the results equal the
reference's; the float transforms are numpy's. Of SignalFftAutoScale a fault is not copied: after a
-32768 the reference forgets the greatest value it has seen, and what it scales can overflow.
"""

from __future__ import annotations

import numpy as np

from ._fixed_fft import FixedFFT
from ._signal import arity, last, number, typed, vector
from .api import Binding, NodeSpec, Run, Shape, op, require, take
from .types import DType

_TRANSFORMED = (DType.INT16, DType.INT32, DType.FLOAT32)


# -- SignalWindow: int16 samples times weights, saturated; the weights repeat


def _infer_window(node: NodeSpec) -> list[Shape]:
    typed(node, [DType.INT16, DType.INT16], [DType.INT16])
    x, weights = node.input(0), vector(node, 1)
    require(
        x.rank > 0 and weights.size > 0 and x.size % weights.size == 0,
        f"input 0 is {x} and input 1 {weights}; taken: a whole number of windows",
    )
    number(node.options, "shift", 0, 31)
    return [x.shape]


def _bind_window(b: Binding) -> Run:
    shift = number(b.options, "shift")
    weights = b.xi(1)
    x, y = (a.reshape(-1, weights.size) for a in (b.xi(0), b.y[0]))
    wide = b.scratch(x.shape, np.int32)

    def run() -> None:
        np.multiply(x, weights, out=wide, dtype=np.int32)
        np.right_shift(wide, shift, out=wide)
        np.clip(wide, -32768, 32767, out=wide)
        np.copyto(y, wide, casting="same_kind")

    return run


# -- SignalFftAutoScale: int16 [n] shifted left as far as they stay int16, and by how many bits


def _infer_auto_scale(node: NodeSpec) -> list[Shape]:
    typed(node, [DType.INT16], [DType.INT16, DType.INT32])
    return [vector(node, 0).shape, ()]


def _bind_auto_scale(b: Binding) -> Run:
    x, (y, bits) = b.xi(0), b.y

    def run() -> None:
        most = max(int(x.max(initial=0)), -int(x.min(initial=0)))
        shift = max(0, 15 - most.bit_length()) if most else 0
        np.left_shift(x, np.int16(shift), out=y)
        bits[()] = shift

    return run


# -- SignalRfft: real [.., n], zeros added up to fft_length, to bins [.., fft_length + 2]


def _length(node: NodeSpec | Binding) -> int:
    length = number(node.options, "fft_length", 2)
    require(length % 2 == 0, f"fft_length is {length}; it is even")
    return length


def _infer_rfft(node: NodeSpec) -> list[Shape]:
    arity(node, 1, 1)
    x, length = node.input(0), _length(node)
    take(node, "input 0", x, *_TRANSFORMED)
    take(node, "output 0", node.outputs[0], x.dtype)
    outer, n = last(node, 0)
    require(n <= length, f"input 0 is {x}; taken: at most fft_length, {length}, samples")
    return [(*outer, length + 2)]


def _bind_rfft(b: Binding) -> Run:
    length, x = _length(b), b.xi(0)
    n = x.shape[-1]
    rows = x.reshape(-1, n)
    out = b.y[0].reshape(len(rows), length // 2 + 1, 2)
    padded = b.scratch((len(rows), length), x.dtype)
    fixed = None if x.dtype == np.float32 else FixedFFT(length, x.dtype, inverse=False)

    def run() -> None:
        padded[:, :n] = rows
        padded[:, n:] = 0
        if fixed is not None:
            fixed.forward(padded, out)
        else:
            spectrum = np.fft.rfft(padded)
            out[..., 0], out[..., 1] = spectrum.real, spectrum.imag

    return run


# -- SignalIrfft: bins [.., fft_length + 2] to real [.., fft_length]; integers come out as the sum
# over the bins divided by half the length, rounded at each stage


def _infer_irfft(node: NodeSpec) -> list[Shape]:
    arity(node, 1, 1)
    x, length = node.input(0), _length(node)
    take(node, "input 0", x, *_TRANSFORMED)
    take(node, "output 0", node.outputs[0], x.dtype)
    outer, n = last(node, 0)
    require(n == length + 2, f"input 0 is {x}; taken: [.., fft_length + 2], {length + 2}")
    return [(*outer, length)]


def _bind_irfft(b: Binding) -> Run:
    length = _length(b)
    x = b.xi(0).reshape(-1, length // 2 + 1, 2)
    out = b.y[0].reshape(len(x), length)
    if x.dtype == np.float32:
        spectrum = b.scratch(x.shape[:2], np.complex64)

        def run() -> None:
            spectrum.real, spectrum.imag = x[..., 0], x[..., 1]
            out[...] = np.fft.irfft(spectrum, length)

        return run
    fixed = FixedFFT(length, x.dtype, inverse=True)
    return lambda: fixed.inverse(x, out)


# -- SignalEnergy: the squared magnitude of the bins from start_index up to end_index, the others
# zero (in the reference, what was in memory)


def _infer_energy(node: NodeSpec) -> list[Shape]:
    typed(node, [DType.INT16], [DType.UINT32])
    x = vector(node, 0)
    require(x.size % 2 == 0, f"input 0 is {x}; taken: pairs")
    end = number(node.options, "end_index", 0, x.size // 2)
    number(node.options, "start_index", 0, end)
    return [(x.size // 2,)]


def _bind_energy(b: Binding) -> Run:
    start, end = (number(b.options, f"{k}_index") for k in ("start", "end"))
    x, y = b.xi(0).reshape(-1, 2)[start:end], b.y[0]
    squares = b.scratch(x.shape, np.int32)

    def run() -> None:
        np.multiply(x, x, out=squares, dtype=np.int32)
        y.fill(0)
        # one sum, of two times (-32768)**2, is no int32 but a uint32
        np.add(squares[:, 0], squares[:, 1], out=y[start:end], dtype=np.uint32, casting="unsafe")

    return run


OPS = {
    "SignalWindow": op("SignalWindow", _infer_window, _bind_window, inplace=(0,), custom=True),
    "SignalFftAutoScale": op(
        "SignalFftAutoScale", _infer_auto_scale, _bind_auto_scale, inplace=(0,), custom=True
    ),
    "SignalRfft": op("SignalRfft", _infer_rfft, _bind_rfft, custom=True),
    "SignalIrfft": op("SignalIrfft", _infer_irfft, _bind_irfft, custom=True),
    "SignalEnergy": op("SignalEnergy", _infer_energy, _bind_energy, custom=True),
}
