"""Signal ops of TensorFlow Lite Micro from a spectrum to features: SignalFilterBank,
SignalFilterBankSquareRoot, SignalFilterBankSpectralSubtraction, SignalPCAN, SignalFilterBankLog.

All on integers, and equal to the reference; sums wrap around at 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._check import option_map
from ._signal import number, stateful, typed, vector
from .api import Binding, NodeSpec, OpError, Run, Shape, op, require
from .types import Array, DType

_U32, _U64, _INT16, _INT32 = DType.UINT32, DType.UINT64, DType.INT16, DType.INT32


# -- SignalFilterBank: a spectrum [n] to the energy of overlapping triangular bands [channels].
# Band i gives its bins times `weights` to channel i - 1 and times `unweights` to channel i.


def _infer_bank(node: NodeSpec) -> list[Shape]:
    typed(node, [_U32, _INT16, _INT16, _INT16, _INT16, _INT16], [_U64])
    channels = number(node.options, "num_channels", 1)
    vector(node, 0)
    vector(node, 2, vector(node, 1).size)
    tables = [vector(node, i, channels + 1).const for i in (3, 4, 5)]
    if all(t is not None for t in tables):
        _places([t for t in tables if t is not None], node.input(0).size, node.input(1).size)
    return [(channels,)]


def _places(tables: Sequence[Array], bins: int, weights: int) -> tuple[Array, Array, Array]:
    """For each product of all bands its bin and its weight, and where each band ends."""
    bin0, weight0, width = (t.astype(np.intp) for t in tables)
    wrong = (width < 0) | (bin0 < 0) | (weight0 < 0)
    wrong |= (width > 0) & ((bin0 + width > bins) | (weight0 + width > weights))
    if wrong.any():
        i = int(wrong.argmax())
        raise OpError(
            f"band {i} starts at bin {bin0[i]} and weight {weight0[i]} and is {width[i]} wide; "
            f"there are {bins} bins and {weights} weights"
        )
    ends = np.cumsum(width)
    within = np.arange(int(ends[-1])) - np.repeat(ends - width, width)
    return np.repeat(bin0, width) + within, np.repeat(weight0, width) + within, ends


def _bind_bank(b: Binding) -> Run:
    x, (weights, unweights, *tables), y = b.xi(0), [b.xi(i) for i in range(1, 6)], b.y[0]
    fixed = all(b.input(i).const is not None for i in (3, 4, 5))
    places = _places(tables, x.size, weights.size) if fixed else None

    def run() -> None:
        bins, at, ends = places or _places(tables, x.size, weights.size)
        energy = x[bins].astype(np.uint64)
        weighted, unweighted = (_sums(energy, w[at], ends) for w in (weights, unweights))
        np.add(weighted[1:], unweighted[:-1], out=y)

    return run


def _sums(energy: Array, weights: Array, ends: Array) -> Array:
    """Of the products up to each end from the one before: exact, as all is modulo 2**64."""
    total = np.zeros(energy.size + 1, np.uint64)
    np.cumsum(energy * weights.astype(np.int64).view(np.uint64), out=total[1:])
    return np.diff(total[ends], prepend=np.uint64(0))


# -- SignalFilterBankSquareRoot: uint64 [n] and a shift to uint32 [n]; nearest, then shifted right


def _infer_root(node: NodeSpec) -> list[Shape]:
    typed(node, [_U64, _INT32], [_U32])
    bits = node.input(1)
    require(bits.size == 1, f"input 1 is {bits}; taken: one number of bits")
    if bits.const is not None:
        _shift(bits.const)
    return [vector(node, 0).shape]


def _shift(bits: Array) -> int:
    value = int(bits.reshape(-1)[0])
    if not 0 <= value < 32:
        raise OpError(f"the roots are to be shifted by {value} bits; taken: 0 to 31")
    return value


def _bind_root(b: Binding) -> Run:
    x, bits, y = b.xi(0), b.xi(1), b.y[0]

    def run() -> None:
        np.right_shift(_root(x), np.uint64(_shift(bits)), out=y, casting="unsafe")

    return run


def _root(x: Array) -> Array:
    """The nearest square root of uint64; 65535 up to 2**32 and 2**32 - 1 above are the greatest."""
    most = np.uint64(0xFFFFFFFF)
    one = np.uint64(1)
    root = np.minimum(np.sqrt(x.astype(np.float64)).astype(np.uint64), most)
    # float64 is off by one at most
    root -= root * root > x
    grown = np.minimum(root + one, most)
    root = np.where(grown * grown <= x, grown, root)
    limit = np.where(x > most, most, np.uint64(0xFFFF))
    root += (x - root * root > root) & (root != limit)
    return root


# -- SignalFilterBankSpectralSubtraction: uint32 [n] less a running estimate of the noise, and that
# estimate, with smoothing_bits more bits


def _infer_subtraction(node: NodeSpec) -> list[Shape]:
    typed(node, [_U32], [_U32, _U32])
    shape = vector(node, 0, number(node.options, "num_channels", 0)).shape
    number(node.options, "smoothing_bits", 0, 31)
    number(node.options, "spectral_subtraction_bits", 0, 63)
    for name in _COEFFICIENTS:
        number(node.options, name)
    return [shape, shape]


_COEFFICIENTS = (
    *("smoothing", "one_minus_smoothing", "alternate_smoothing"),
    *("alternate_one_minus_smoothing", "min_signal_remaining"),
)


class _Subtraction:
    def __init__(self) -> None:
        self.noise = np.zeros(0, np.uint32)

    def prepare(self, node: NodeSpec) -> None:
        options, size = node.options, node.input(0).size
        new, old, odd_new, odd_old, least = (
            np.uint64(number(options, name) % 2**32) for name in _COEFFICIENTS
        )
        odd = np.arange(size) % 2 == 1
        self.new, self.old = np.where(odd, odd_new, new), np.where(odd, odd_old, old)
        self.least = least
        self.finer = np.uint32(number(options, "smoothing_bits"))
        self.bits = np.uint64(number(options, "spectral_subtraction_bits"))
        self.clamping = bool(option_map(options).get("clamping", False))
        if self.noise.size != size:
            self.noise = np.zeros(size, np.uint32)

    def reset(self) -> None:
        self.noise.fill(0)

    def run(self, x: Sequence[Array], y: Sequence[Array]) -> None:
        signal = x[0] << self.finer
        mixed = signal * self.new + self.noise * self.old
        noise = (mixed >> self.bits).astype(np.uint32)
        estimate = np.minimum(noise, signal)
        floor = (x[0].astype(np.uint64) * self.least >> self.bits).astype(np.uint32)
        np.maximum((signal - estimate) >> self.finer, floor, out=y[0])
        self.noise[...] = estimate if self.clamping else noise
        y[1][...] = self.noise


# -- SignalPCAN: per-channel automatic gain: uint32 [n] times a gain that depends on the noise
# estimate [n], compressed. The gain is a table of 33 parabolas, one for each length of the
# estimate in bits.

_LUT = 125
_SNR_BITS, _OUTPUT_BITS = 12, 6


def _infer_pcan(node: NodeSpec) -> list[Shape]:
    typed(node, [_U32, _U32, _INT16], [_U32])
    x = vector(node, 0)
    vector(node, 1, x.size)
    lut = vector(node, 2)
    require(lut.size >= _LUT, f"input 2 is {lut}; taken: a table of {_LUT} values at least")
    number(node.options, "snr_shift", 0, 63)
    return [x.shape]


def _bind_pcan(b: Binding) -> Run:
    x, noise, lut, y = b.xi(0), b.xi(1), b.xi(2), b.y[0]
    shift = np.uint64(number(b.options, "snr_shift"))

    def run() -> None:
        gain = _gain(noise, lut).astype(np.uint32).astype(np.uint64)
        snr = (x * gain >> shift).astype(np.uint32)
        square = snr * snr >> np.uint32(2 + 2 * _SNR_BITS - _OUTPUT_BITS)
        linear = (snr >> np.uint32(_SNR_BITS - _OUTPUT_BITS)) - np.uint32(1 << _OUTPUT_BITS)
        np.copyto(y, np.where(snr < 2 << _SNR_BITS, square, linear))

    return run


def _gain(x: Array, lut: Array) -> Array:
    """int16 gains of uint32 estimates: for 0, 1 and 2 the first values of the table."""
    length = _bit_length(x)
    at = np.where(x > 2, 4 * length - 6, 0)
    constant, slope, curve = (lut[at + i].astype(np.int32) for i in range(3))
    up, down = (np.maximum(d, 0).astype(np.uint32) for d in (11 - length, length - 11))
    part = ((x << up >> down) & np.uint32(0x3FF)).astype(np.int32)
    value = ((curve * part >> 5) + (slope << 5)) * part
    value = ((value + (1 << 14)) >> 15) + constant
    return np.where(x > 2, value, lut[np.minimum(x, 2)]).astype(np.int16)


def _bit_length(x: Array) -> Array:
    """Of uint32, which float64 holds exactly."""
    return np.frexp(x.astype(np.float64))[1]


# -- SignalFilterBankLog: the natural logarithm of uint32 [n], scaled, as int16


def _infer_log(node: NodeSpec) -> list[Shape]:
    typed(node, [_U32], [_INT16])
    number(node.options, "input_correction_bits", 0, 31)
    number(node.options, "output_scale")
    return [vector(node, 0).shape]


def _bind_log(b: Binding) -> Run:
    x, y = b.xi(0), b.y[0]
    correction = np.uint32(number(b.options, "input_correction_bits"))
    scale = np.uint32(number(b.options, "output_scale") % 2**32)
    table = _log_table()

    def run() -> None:
        scaled = x << correction
        value = _log(np.maximum(scaled, 1), scale, table)
        np.copyto(y, np.where(scaled > 1, np.minimum(value, 32767), 0), casting="unsafe")

    return run


_STEPS_BITS = 7


def _log_table() -> Array:
    """How much log2(1 + t) lies above t, at 128 steps from 0 to 1, in 1 / 65536."""
    t = np.arange((1 << _STEPS_BITS) + 1) / (1 << _STEPS_BITS)
    return np.rint(65536 * (np.log2(1 + t) - t)).astype(np.int32)


def _log(x: Array, scale: np.uint32, table: Array) -> Array:
    """scale * log(x) of uint32 x > 0, by a table of log2 and straight lines; uint32 that wrap."""
    whole = _bit_length(x).astype(np.int64) - 1
    up, down = (np.maximum(d, 0) for d in (16 - whole, whole - 16))
    part = ((x.astype(np.int64) - (np.int64(1) << whole)) << up >> down).astype(np.int32)
    step = part >> (16 - _STEPS_BITS)
    low = table[step]
    part_of_step = part - (step << (16 - _STEPS_BITS))
    fraction = part + low + ((table[step + 1] - low) * part_of_step >> 16)
    binary = (whole.astype(np.uint64) << np.uint64(16)) + fraction.astype(np.uint64)
    # 45426 / 65536 is the logarithm of 2
    natural = (np.uint64(45426) * binary + np.uint64(32768) >> np.uint64(16)).astype(np.uint32)
    return np.asarray((scale * natural + np.uint32(32768)) >> np.uint32(16))


OPS = {
    "SignalFilterBank": op("SignalFilterBank", _infer_bank, _bind_bank, custom=True),
    "SignalFilterBankSquareRoot": op(
        "SignalFilterBankSquareRoot", _infer_root, _bind_root, custom=True
    ),
    "SignalFilterBankSpectralSubtraction": stateful(
        "SignalFilterBankSpectralSubtraction", _infer_subtraction, _Subtraction
    ),
    "SignalPCAN": op("SignalPCAN", _infer_pcan, _bind_pcan, inplace=(0,), custom=True),
    "SignalFilterBankLog": op("SignalFilterBankLog", _infer_log, _bind_log, custom=True),
}
