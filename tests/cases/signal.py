"""The signal ops of TensorFlow Lite Micro that keep no state.

Right answers: plain formulations in Python's integers, and for the transforms numbers that
tflite-micro computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from litedelegate.kernels.types import Array, DType

from . import Case, T


def _options(**values: Any) -> dict[str, Any]:
    return {"flexbuffer": lambda: values}


def _case(op: str, inputs: Sequence[Any], want: Sequence[Any], name: str = "", **o: Any) -> Case:
    return Case(op, inputs, _options(**o), want, custom=True, name=name)


def _refused(op: str, inputs: Sequence[Any], text: str, outputs: Sequence[DType], **o: Any) -> Case:
    declared = [T([0], d) for d in outputs]
    return Case(op, inputs, _options(**o), refused=text, outputs=declared, custom=True)


def _int16(*values: int) -> Array:
    return np.array(values, np.int16)


def _uint32(*values: int) -> Array:
    return np.array(values, np.uint32)


def _window(x: list[int], weights: list[int], shift: int) -> list[int]:
    products = [v * weights[i % len(weights)] >> shift for i, v in enumerate(x)]
    return [min(max(p, -32768), 32767) for p in products]


_SAMPLES = [1000, -2000, 32767, -32768, -32768, 32767, 5, -5]
_WEIGHTS = [4096, 2048, -4096, 32767]

WINDOW = [
    _case(
        "SignalWindow",
        [_int16(*_SAMPLES).reshape(2, 4), _int16(*_WEIGHTS)],
        [_int16(*_window(_SAMPLES, _WEIGHTS, shift)).reshape(2, 4)],
        shift=shift,
        name=f"shift {shift}",
    )
    for shift in (12, 3, 0)
]
WINDOW += [
    _refused(
        "SignalWindow", [_int16(1, 2, 3), _int16(1, 2)], "whole number", [DType.INT16], shift=12
    ),
    _refused("SignalWindow", [_int16(1), _int16(1)], "'shift' is missing", [DType.INT16]),
    _refused("SignalWindow", [_uint32(1), _int16(1)], "takes int16 there", [DType.INT16], shift=1),
]

AUTO_SCALE = [
    _case("SignalFftAutoScale", [_int16(*x)], [_int16(*y), np.array(bits, np.int32)])
    for x, y, bits in [
        ([1, -3, 7], [4096, -12288, 28672], 12),
        ([0, 0], [0, 0], 0),
        ([16384, -5], [16384, -5], 0),
        ([16383, -16384], [16383, -16384], 0),
        ([16383, -16383], [32766, -32766], 1),
        ([5, -32768, 5], [5, -32768, 5], 0),
    ]
]

# Numbers of tflite-micro. A radix of 4 and 3, of 2 and 5 with zeros added, of 4 and 2.
_RFFT = [
    (
        np.int16,
        12,
        [26024, 11192, 11246, 19988, 6645, -31284, -19163, 20181, 11712, -2042, -8129, 1004],
        [3947, 0, 4810, -1149, -1772, -6213, 5035, 5275, 1127, -2684, 1449, 916, 775, 0],
    ),
    (
        np.int16,
        20,
        [
            *(-9651, -4415, -4284, -8677, 9590, -1950, -8921, -9800, -4441),
            *(-741, -2333, 3999, -1831, -5796, -6898, -9094, 836, -9979),
        ],
        [
            *(-3718, 0, -335, -222, 490, -499, -1538, 1295, 559, 701, 847),
            *(-34, -1071, -422, -1378, 244, -1579, -25, 574, 11, 926, 0),
        ],
    ),
    (
        np.int32,
        16,
        [
            *(-1938070875, -1508329328, 2143945089, -1327221163, 654420351, 1074853741),
            *(-1140270002, -935283267, -279398136, -1016886593, 2036614192, -1384175549),
            *(1708012321, 1278563801, 1478461048, -1650426098),
        ],
        [
            *(-50324404, 0, -46627726, 179962392, -496296380, -18986192, -268053279, 28712699),
            *(-273361666, -320331730, -180232923, -61566813, -76191328, 461309836, 80245743),
            *(-173715112, 633288650, 0),
        ],
    ),
]
_IRFFT = [
    (
        np.int16,
        12,
        [
            *(8656, -7052, 5971, 8390, 16813, -458, -18050),
            *(10870, 875, 11579, 2868, 10677, 17471, -28784),
        ],
        [3589, -3963, 6514, -4756, -4448, -1649, 6659, 1941, -1634, -2024, 2382, 6045],
    ),
    (
        np.int32,
        16,
        [
            *(1971816842, 238783503, 1733070076, -981607885, -594774633, 1630589373),
            *(-1344743097, -1871684740, -541566931, 769578824, -1622437340, 1589518014),
            *(-682669122, -1171158017, 190908805, 1698437255, 1648978740, 1598567362),
        ],
        [
            *(-399912261, 80816692, 650477950, 13417386, -47795831, -181161448, 486271820),
            *(-28331898, -139111873, -298535696, -1299794528, 122577628, 147493573, 94800564),
            *(265285294, 357835820),
        ],
    ),
]
FFT = [
    _case(op, [np.array(x, dtype)], [np.array(y, dtype)], name=f"{length}", fft_length=length)
    for op, table in (("SignalRfft", _RFFT), ("SignalIrfft", _IRFFT))
    for dtype, length, x, y in table
]


def _bins(rows: list[list[float]], length: int) -> Array:
    """The Fourier transform by its definition; pairs in the last dimension."""
    k = range(length // 2 + 1)
    turns = -2j * math.pi / length
    sums = [[sum(v * np.exp(turns * i * n) for n, v in enumerate(row)) for i in k] for row in rows]
    return np.array([[[s.real, s.imag] for s in row] for row in sums], np.float32).reshape(
        len(rows), -1
    )


_REAL = np.random.default_rng(0).standard_normal((2, 14)).astype(np.float32)
FFT += [
    _case("SignalRfft", [_REAL], [_bins(_REAL.tolist(), 14)], name="floats", fft_length=14),
    _case("SignalRfft", [_REAL], [_bins(_REAL.tolist(), 22)], name="zeros added", fft_length=22),
    _case("SignalIrfft", [_bins(_REAL.tolist(), 14)], [_REAL], name="floats", fft_length=14),
    _refused("SignalRfft", [_REAL], "at most fft_length, 12", [DType.FLOAT32], fft_length=12),
    _refused("SignalRfft", [_REAL], "it is even", [DType.FLOAT32], fft_length=15),
    _refused("SignalIrfft", [_REAL], "[.., fft_length + 2], 16", [DType.FLOAT32], fft_length=14),
    _refused("SignalRfft", [_REAL], "takes float32 there", [DType.INT16], fft_length=14),
]

ENERGY = [
    _case(
        "SignalEnergy",
        [_int16(1, 2, -32768, -32768, 300, -400, 7, 8)],
        [_uint32(0, 2**31, 250000, 0)],
        start_index=1,
        end_index=3,
    ),
    _refused(
        "SignalEnergy",
        [_int16(1, 2)],
        "end_index is 2; it is at least 0 and at most 1",
        [DType.UINT32],
        start_index=0,
        end_index=2,
    ),
]


def _bank(x: list[int], w: list[int], u: list[int], tables: list[list[int]]) -> list[int]:
    """Each band's bins go to two channels; the first of all is dropped. Modulo 2**64."""
    channels = [0] * (len(tables[0]) + 1)
    for i, (bin0, weight0, width) in enumerate(zip(*tables, strict=True)):
        for j in range(width):
            channels[i] += w[weight0 + j] * x[bin0 + j]
            channels[i + 1] += u[weight0 + j] * x[bin0 + j]
    return [c % 2**64 for c in channels[1:-1]]


_SPECTRUM = [4294967295, 0, 7, 100000, 3000000000, 12, 4000000000]
_UP = [100, 4096, -3, 32767, 5, 0, -32768]
_DOWN = [3996, 0, 4099, 17, 4091, 4096, 32767]
_BANDS = [[1, 0, 2, 5], [4, 0, 1, 5], [2, 0, 3, 2]]


def _bank_inputs(tables: list[list[int]], const: bool) -> list[Any]:
    rest = [_int16(*_UP), _int16(*_DOWN), *(_int16(*t) for t in tables)]
    return [_uint32(*_SPECTRUM), *(T(a, const=const) for a in rest)]


BANK = [
    _case(
        "SignalFilterBank",
        _bank_inputs(_BANDS, const),
        [np.array(_bank(_SPECTRUM, _UP, _DOWN, _BANDS), np.uint64)],
        name=f"tables constant: {const}",
        num_channels=3,
    )
    for const in (False, True)
]
BANK += [
    _refused(
        "SignalFilterBank",
        _bank_inputs([[1, 0, 2, 6], *_BANDS[1:]], const),
        "band 3 starts at bin 6 and weight 5 and is 2 wide; there are 7 bins and 7 weights",
        [DType.UINT64],
        num_channels=3,
    )
    for const in (False, True)
]


def _root(x: int, shift: int) -> int:
    near = math.isqrt(x)
    near += x - near * near > near
    return min(near, 65535 if x < 2**32 else 2**32 - 1) >> shift


_SQUARES = [0, 1, 2, 3, 6, 7, 12, 13, 2**32 - 1, 2**32, 2**40 + 12345, 2**64 - 1]
_SQUARES += [n * n + d for n in (65535, 65536, 99999989, 2**32 - 1) for d in (-1, 0, 1, n, n + 1)]

ROOT = [
    _case(
        "SignalFilterBankSquareRoot",
        [np.array(_SQUARES, np.uint64), np.array(shift, np.int32)],
        [_uint32(*(_root(x, shift) for x in _SQUARES))],
        name=f"shift {shift}",
    )
    for shift in (0, 3)
]
ROOT.append(
    _refused(
        "SignalFilterBankSquareRoot",
        [np.array([4], np.uint64), np.array(32, np.int32)],
        "shifted by 32 bits; taken: 0 to 31",
        [DType.UINT32],
    )
)

# Numbers of tflite-micro.
_LUT = (32767 / (1 + np.arange(125)) ** 0.8).astype(np.int16)
PCAN = [
    _case(
        "SignalPCAN",
        [
            _uint32(0, 1, 100, 5000, 1000000, 2**32 - 1),
            _uint32(0, 2, 3, 1023, 70000, 2**32 - 1),
            _LUT,
        ],
        [_uint32(0, 0, 455, 6748, 311459, 28311487)],
        snr_shift=6,
    ),
    _refused(
        "SignalPCAN",
        [_uint32(1), _uint32(1), _int16(1, 2)],
        "a table of 125 values",
        [DType.UINT32],
        snr_shift=6,
    ),
]
_LOGS = _uint32(0, 1, 2, 3, 1000, 70000, 2**31, 2**32 - 1)
LOG = [
    _case(
        "SignalFilterBankLog",
        [_LOGS],
        [_int16(0, 0, 1109, 1758, 11052, 17848, 32767, 32767)],
        name="plain",
        input_correction_bits=0,
        output_scale=1600,
    ),
    _case(
        "SignalFilterBankLog",
        [_LOGS],
        [_int16(0, 5206, 32767, 11668, 32767, 15355, 0, 11936)],
        name="sums wrap around",
        input_correction_bits=3,
        output_scale=65536,
    ),
]

CASES = [*WINDOW, *AUTO_SCALE, *FFT, *ENERGY, *BANK, *ROOT, *PCAN, *LOG]
