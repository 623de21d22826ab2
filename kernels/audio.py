"""AudioSpectrogram and Mfcc, custom ops of speech models; in float64 as the reference has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._check import option_map
from .api import Binding, NodeSpec, OpError, Run, Shape, op, require, take
from .types import Array, DType

# energies below this count as this
_FLOOR = 1e-12


def _options(node: NodeSpec | Binding) -> dict[str, Any]:
    return option_map(node.options)


# -- AudioSpectrogram: samples [count, channels] to [channels, windows, frequencies]


def _window(node: NodeSpec | Binding) -> tuple[int, int, int]:
    """(window, stride, length of the transform: the next power of two)."""
    m = _options(node)
    size, stride = int(m.get("window_size", 0)), int(m.get("stride", 0))
    require(size >= 2, f"window_size is {size}; it is at least 2")
    require(stride >= 1, f"stride is {stride}; it is at least 1")
    return size, stride, 1 << (size - 1).bit_length()


def _infer_spectrogram(node: NodeSpec) -> list[Shape]:
    x = node.input(0)
    take(node, "input 0", x, DType.FLOAT32)
    take(node, "output", node.outputs[0], DType.FLOAT32)
    require(x.rank == 2, f"input 0 is {x}; taken: [samples, channels]")
    size, stride, length = _window(node)
    samples, channels = x.shape
    windows = (samples - size) // stride + 1 if samples >= size else 0
    return [(channels, windows, length // 2 + 1)]


def _bind_spectrogram(b: Binding) -> Run | None:
    x, y = b.xi(0), b.y[0]
    if y.size == 0:
        return None
    size, stride, length = _window(b)
    channels, windows, _ = y.shape
    views = np.lib.stride_tricks.sliding_window_view(x.T, size, axis=1)[:, ::stride]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    padded = b.scratch((channels, windows, length), np.float64)
    squared = bool(_options(b).get("magnitude_squared", False))

    def run() -> None:
        np.multiply(views, hann, out=padded[..., :size])
        padded[..., size:] = 0
        spectrum = np.fft.rfft(padded, axis=-1)
        np.copyto(y, np.square(spectrum.real) + np.square(spectrum.imag), casting="same_kind")
        if not squared:
            np.sqrt(y, out=y)

    return run


# -- Mfcc: spectrograms [channels, windows, frequencies] to cepstral coefficients


def _infer_mfcc(node: NodeSpec) -> list[Shape]:
    x, rate = node.input(0), node.input(1)
    take(node, "input 0", x, DType.FLOAT32)
    take(node, "input 1", rate, DType.INT32)
    take(node, "output", node.outputs[0], DType.FLOAT32)
    require(x.rank == 3, f"input 0 is {x}; taken: [channels, windows, frequencies]")
    require(rate.size == 1, f"input 1 is {rate}; taken: one sample rate")
    m = _options(node)
    channels, count = (
        int(m.get(k, 0)) for k in ("filterbank_channel_count", "dct_coefficient_count")
    )
    require(
        1 <= count <= channels,
        f"dct_coefficient_count is {count} and filterbank_channel_count {channels}; "
        "taken: at least 1, and no more coefficients than channels",
    )
    if rate.const is not None:
        _filterbank(m, x.shape[2], int(rate.const.reshape(-1)[0]))
    return [(*x.shape[:2], count)]


def _bind_mfcc(b: Binding) -> Run | None:
    x, rate, y = b.xi(0), b.xi(1), b.y[0]
    if y.size == 0:
        return None
    m, (frequencies, count) = _options(b), (x.shape[2], y.shape[2])
    channels = int(m["filterbank_channel_count"])
    cosines = _cosines(channels, count)
    banks: dict[int, Array] = {}
    magnitude = b.scratch((y.shape[0] * y.shape[1], frequencies), np.float64)
    mel, result = (b.scratch((len(magnitude), n), np.float64) for n in (channels, count))

    def run() -> None:
        hertz = int(rate.reshape(-1)[0])
        if hertz not in banks:
            banks.clear()
            banks[hertz] = _filterbank(m, frequencies, hertz)
        np.sqrt(x.reshape(magnitude.shape), out=magnitude, dtype=np.float64)
        np.matmul(magnitude, banks[hertz], out=mel)
        np.log(np.maximum(mel, _FLOOR, out=mel), out=mel)
        np.matmul(mel, cosines, out=result)
        np.copyto(y, result.reshape(y.shape), casting="same_kind")

    return run


def _mel(hertz: Any) -> Any:
    return 1127.0 * np.log1p(hertz / 700.0)


def _filterbank(m: dict[str, Any], frequencies: int, rate: int) -> Array:
    """[frequencies, channels]: triangles that overlap by half, evenly spaced on the mel scale."""
    channels = int(m["filterbank_channel_count"])
    low, high = (float(int(m.get(f"{k}_frequency_limit", 0))) for k in ("lower", "upper"))
    if rate <= 0 or frequencies < 2 or not 0 <= low < high:
        raise OpError(
            f"{frequencies} frequencies of a sample rate of {rate}, filtered from {low} to {high} "
            "hertz; taken: a positive rate, two frequencies at least, limits from 0 upwards"
        )
    each = 0.5 * rate / (frequencies - 1)
    first, last = int(1.5 + low / each), int(high / each)
    if last >= frequencies:
        raise OpError(
            f"upper_frequency_limit is {high}; the spectrogram ends at {each * (frequencies - 1)}"
        )
    spacing = (_mel(high) - _mel(low)) / (channels + 1)
    # feet and tops of the triangles
    points = _mel(low) + spacing * np.arange(channels + 2)
    bins = np.arange(first, last + 1)
    mel = _mel(bins * each)
    upper = np.searchsorted(points[1:], mel)  # the first top at or above
    falling = (points[1:][np.minimum(upper, channels)] - mel) / spacing
    bank = np.zeros((frequencies, channels))
    left, right = upper <= channels - 1, (upper >= 1) & (upper <= channels)
    bank[bins[right], upper[right] - 1] += falling[right]
    bank[bins[left], upper[left]] += 1 - falling[left]
    return bank


def _cosines(channels: int, count: int) -> Array:
    """The discrete cosine transform, [channels, count]."""
    angle = np.pi / channels * np.outer(np.arange(channels) + 0.5, np.arange(count))
    return np.asarray(np.sqrt(2.0 / channels) * np.cos(angle))


OPS = {
    "AudioSpectrogram": op("AudioSpectrogram", _infer_spectrogram, _bind_spectrogram, custom=True),
    "Mfcc": op("Mfcc", _infer_mfcc, _bind_mfcc, custom=True),
}
