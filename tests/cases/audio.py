"""AudioSpectrogram and Mfcc. Right answers: plain formulations, a filter and a window at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from litedelegate.kernels.types import Array

from . import Case, T


def _options(**values: Any) -> dict[str, Any]:
    return {"flexbuffer": lambda: values}


def _spectrogram(samples: int, channels: int, size: int, stride: int, squared: bool) -> Case:
    x = np.random.default_rng(0).standard_normal((samples, channels)).astype(np.float32)
    hann = [0.5 - 0.5 * math.cos(2 * math.pi * i / size) for i in range(size)]
    length = 2 ** math.ceil(math.log2(size))
    rows = [
        [
            np.abs(np.fft.rfft(x[at : at + size, c] * np.array(hann), length)) ** 2
            for at in range(0, samples - size + 1, stride)
        ]
        for c in range(channels)
    ]
    want = np.array(rows).reshape(channels, -1, length // 2 + 1)
    return Case(
        "AudioSpectrogram",
        [x],
        _options(window_size=size, stride=stride, magnitude_squared=squared),
        [(want if squared else np.sqrt(want)).astype(np.float32)],
        custom=True,
        name=f"{samples} samples, {channels} channels, window {size}, stride {stride}",
    )


def _mel(hertz: float) -> float:
    return 1127 * math.log1p(hertz / 700)


def _coefficients(frame: Array, rate: int, low: float, high: float, channels: int) -> list[float]:
    """Log energies of the triangles of one spectrum."""
    step = (_mel(high) - _mel(low)) / (channels + 1)
    energies = [0.0] * channels
    for i, power in enumerate(frame):
        hertz = i * 0.5 * rate / (len(frame) - 1)
        if i < int(1.5 + low / (0.5 * rate / (len(frame) - 1))) or hertz > high:
            continue
        for c in range(channels):
            top = _mel(low) + step * (c + 1)
            weight = 1 - abs(_mel(hertz) - top) / step
            energies[c] += max(weight, 0) * math.sqrt(power)
    return [math.log(max(e, 1e-12)) for e in energies]


def _mfcc(rate: int, low: int, high: int, channels: int, count: int) -> Case:
    x = np.random.default_rng(1).uniform(0, 4, (2, 3, 65)).astype(np.float32)
    want = np.zeros((2, 3, count))
    for index in np.ndindex(2, 3):
        logs = _coefficients(x[index], rate, low, high, channels)
        for k in range(count):
            terms = (v * math.cos(math.pi / channels * k * (j + 0.5)) for j, v in enumerate(logs))
            want[(*index, k)] = math.sqrt(2 / channels) * sum(terms)
    return Case(
        "Mfcc",
        [x, np.array(rate, np.int32)],
        _options(
            upper_frequency_limit=high,
            lower_frequency_limit=low,
            filterbank_channel_count=channels,
            dct_coefficient_count=count,
        ),
        [want.astype(np.float32)],
        custom=True,
        name=f"rate {rate}, {low} to {high} hertz, {channels} channels, {count} coefficients",
    )


def _refused(op: str, inputs: list[Any], text: str, **options: Any) -> Case:
    return Case(
        op,
        inputs,
        _options(**options),
        refused=text,
        outputs=[T(np.zeros((1, 1, 1), np.float32))],
        custom=True,
        name=text,
    )


_WAVE, _SPECTRUM = np.zeros((8, 1), np.float32), np.zeros((1, 1, 5), np.float32)
_RATE = np.array(16000, np.int32)
_LIMITS = {
    "upper_frequency_limit": 4000,
    "lower_frequency_limit": 20,
    "filterbank_channel_count": 3,
    "dct_coefficient_count": 2,
}

CASES = [
    _spectrogram(20, 1, 8, 3, True),
    _spectrogram(20, 2, 5, 1, False),
    _spectrogram(8, 1, 8, 100, False),
    _spectrogram(4, 2, 8, 1, False),
    _mfcc(16000, 20, 4000, 6, 6),
    _mfcc(8000, 0, 4000, 10, 4),
    _mfcc(16000, 300, 1000, 40, 13),
    _refused("AudioSpectrogram", [_WAVE], "window_size is 1", window_size=1, stride=1),
    _refused("AudioSpectrogram", [_WAVE], "stride is 0", window_size=4),
    _refused("AudioSpectrogram", [_WAVE[0]], "taken: [samples, channels]", window_size=4, stride=1),
    _refused("Mfcc", [_SPECTRUM, np.array(0, np.int32)], "a sample rate of 0", **_LIMITS),
    _refused("Mfcc", [_SPECTRUM, np.array(4000, np.int32)], "ends at 2000", **_LIMITS),
    _refused(
        "Mfcc",
        [_SPECTRUM, _RATE],
        "dct_coefficient_count is 4",
        **{**_LIMITS, "dct_coefficient_count": 4},
    ),
]
