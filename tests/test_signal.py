"""The signal ops of TensorFlow Lite Micro that keep a state, and its integer transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from litedelegate import Interpreter, ModelBuilder
from litedelegate.kernels._fixed_fft import FixedFFT
from litedelegate.kernels.types import Array

Stream = Iterator[tuple[Any, ...]]
RNG = np.random.default_rng(7)


def interpreter(op: str, x: Array, outputs: list[tuple[Any, ...]], options: Any) -> Interpreter:
    b = ModelBuilder()
    g = b.subgraph("main")
    made = g.custom(op, [g.input("x", x.shape, x.dtype.name)], outputs, options=options)
    g.outputs(*made)
    return Interpreter(model_content=b.build())


def follow(
    op: str,
    calls: list[Array],
    outputs: list[tuple[Any, ...]],
    options: Any,
    plain: Callable[[list[Array]], list[Any]],
) -> None:
    """Calls an op in a row, then again after a reset: `plain` tells all outputs of a row."""
    runtime = interpreter(op, calls[0], outputs, options)
    want = plain(calls)
    for start in range(2):
        runtime.reset_all_variables()
        for i, x in enumerate(calls):
            got = runtime.run({"x": x})
            for name, value in zip([o[0] for o in outputs], want[i], strict=True):
                np.testing.assert_array_equal(got[name], value, err_msg=f"{start}: call {i}")
    # one more reset, the other way
    got = runtime.run({"x": calls[0]}, reset_variables=True)
    np.testing.assert_array_equal(got[outputs[0][0]], want[0][0])


def samples(*shape: int, count: int = 6) -> list[Array]:
    return [RNG.integers(-32768, 32767, shape, np.int16, endpoint=True) for _ in range(count)]


@pytest.mark.parametrize("prefill", [False, True])
@pytest.mark.parametrize(
    ("size", "step", "shape"),
    [(5, 2, (2, 4)), (400, 160, (160,)), (4, 4, (8,)), (12, 3, (2, 1, 3))],
)
def test_framer(size: int, step: int, shape: tuple[int, ...], prefill: bool) -> None:
    def plain(calls: list[Array]) -> list[Any]:
        streams = [[0] * (size - step if prefill else 0) for _ in range(calls[0].size // shape[-1])]
        results = []
        for x in calls:
            rows, valid = [], True
            for stream, new in zip(streams, x.reshape(-1, shape[-1]).tolist(), strict=True):
                for i in range(0, shape[-1], step):
                    stream += new[i : i + step]
                    if len(stream) >= size:
                        rows.append(stream[:size])
                        del stream[:step]
                    else:
                        rows.append([0] * size)
                        valid = False
            results.append((np.array(rows).reshape(*shape[:-1], -1, size), valid))
        return results

    outputs = [("y", (*shape[:-1], shape[-1] // step, size), "int16"), ("valid", (), "bool")]
    options = {"frame_size": size, "frame_step": step, "prefill": prefill}
    follow("SignalFramer", samples(*shape), outputs, options, plain)


@pytest.mark.parametrize("dtype", [np.int16, np.float32])
@pytest.mark.parametrize(
    ("size", "step", "outer"), [(6, 2, (2, 3)), (4, 4, (1,)), (5, 3, (1, 2, 2))]
)
def test_overlap_add(size: int, step: int, outer: tuple[int, ...], dtype: Any) -> None:
    def plain(calls: list[Array]) -> list[Any]:
        streams = [[0.0] * size for _ in range(calls[0].size // (outer[-1] * size))]
        results = []
        for x in calls:
            out = []
            for sums, frames in zip(streams, x.reshape(-1, outer[-1], size).tolist(), strict=True):
                for frame in frames:
                    sums[:] = [a + b for a, b in zip(sums, frame, strict=True)]
                    if dtype == np.int16:
                        sums[:] = [min(max(s, -32768), 32767) for s in sums]
                    out += sums[:step]
                    sums[:] = sums[step:] + [0] * step
            results.append((np.array(out).reshape(*outer[:-1], -1),))
        return results

    calls = [x.astype(dtype) for x in samples(*outer, size)]
    outputs = [("y", (*outer[:-1], outer[-1] * step), np.dtype(dtype).name)]
    b = {"frame_step": step, "T": 7 if dtype == np.int16 else 0}
    follow("SignalOverlapAdd", calls, outputs, b, plain)


@pytest.mark.parametrize(
    ("left", "right", "step", "channels"),
    [(1, 2, 2, 3), (0, 0, 1, 4), (3, 0, 1, 2), (2, 2, 5, 2), (0, 3, 3, 5)],
)
def test_stacker(left: int, right: int, step: int, channels: int) -> None:
    length = left + right + 1

    def plain(calls: list[Array]) -> list[Any]:
        waiting: list[Array] = [calls[0]] * left
        results: list[Any] = []
        for x in calls:
            waiting.append(x)
            if len(waiting) < length:
                results.append((np.zeros(length * channels), False))
            else:
                results.append((np.concatenate(waiting[:length]), True))
                del waiting[:step]
        return results

    outputs = [("y", (length * channels,), "int16"), ("valid", (), "bool")]
    options = {
        "num_channels": channels,
        "stacker_left_context": left,
        "stacker_right_context": right,
        "stacker_step": step,
    }
    follow("SignalStacker", samples(channels, count=13), outputs, options, plain)


@pytest.mark.parametrize(("delay", "shape"), [(3, (2, 5)), (0, (4,)), (11, (2, 1, 4)), (4, (4,))])
def test_delay(delay: int, shape: tuple[int, ...]) -> None:
    def plain(calls: list[Array]) -> list[Any]:
        whole = np.concatenate([np.zeros((*shape[:-1], delay)), *calls], axis=-1)
        n = shape[-1]
        return [(whole[..., i * n : (i + 1) * n],) for i in range(len(calls))]

    options = {"delay_length": delay}
    follow("SignalDelay", samples(*shape), [("y", shape, "int16")], options, plain)


@pytest.mark.parametrize("clamping", [False, True])
def test_spectral_subtraction(clamping: bool) -> None:
    options = {
        "alternate_one_minus_smoothing": 15000,
        "alternate_smoothing": 1384,
        "clamping": clamping,
        "min_signal_remaining": 819,
        "num_channels": 5,
        "one_minus_smoothing": 15975,
        "smoothing": 409,
        "smoothing_bits": 10,
        "spectral_subtraction_bits": 14,
    }

    def plain(calls: list[Array]) -> list[Any]:
        noise = [0] * 5
        results = []
        for x in calls:
            out = []
            for i, v in enumerate(x.tolist()):
                new, old = ((409, 15975), (1384, 15000))[i % 2]
                signal = (v << 10) % 2**32
                noise[i] = (signal * new + noise[i] * old >> 14) % 2**32
                if clamping:
                    noise[i] = min(noise[i], signal)
                left = (signal - min(noise[i], signal)) >> 10
                out.append(max(left, v * 819 >> 14))
            results.append((out, list(noise)))
        return results

    calls = [RNG.integers(0, high, 5, np.uint32) for high in (1000, 10**6, 5, 2**32 - 1, 4000, 9)]
    outputs = [("y", (5,), "uint32"), ("noise", (5,), "uint32")]
    follow("SignalFilterBankSpectralSubtraction", calls, outputs, options, plain)


@pytest.mark.parametrize(
    ("op", "shape", "options", "text"),
    [
        ("SignalFramer", (5,), {"frame_size": 4, "frame_step": 2}, "multiples of frame_step, 2"),
        ("SignalFramer", (6,), {"frame_size": 2, "frame_step": 3}, "frame_step is 3; it is at"),
        ("SignalFramer", (6,), {"frame_size": 2}, "'frame_step' is missing"),
        ("SignalDelay", (6,), {"delay_length": -1}, "delay_length is -1; it is at least 0"),
    ],
)
def test_refusals(op: str, shape: tuple[int, ...], options: Any, text: str) -> None:
    outputs = [("y", shape, "int16"), ("valid", (), "bool")][: 1 + (op == "SignalFramer")]
    runtime = interpreter(op, np.zeros(shape, np.int16), outputs, options)
    with pytest.raises(RuntimeError, match=text):
        runtime.allocate_tensors()


@pytest.mark.parametrize("length", [2, 4, 6, 10, 14, 22, 30, 64, 98, 130, 210, 480, 512])
@pytest.mark.parametrize(("dtype", "near"), [(np.int16, 6), (np.int32, 12)])
def test_integer_transforms_come_near_the_real_ones(length: int, dtype: Any, near: int) -> None:
    most = np.iinfo(dtype).max // 4
    x = RNG.integers(-most, most, (3, length), dtype)
    bins = np.empty((3, length // 2 + 1, 2), dtype)
    FixedFFT(length, np.dtype(dtype), inverse=False).forward(x, bins)
    want = np.fft.rfft(x) / length
    got = bins[..., 0] + 1j * bins[..., 1].astype(np.float64)
    # each stage rounds, and p / 2**15 is no multiple of 1 / p
    tolerance = near + most / 2**13 if dtype == np.int16 else near
    np.testing.assert_allclose(got, want, atol=tolerance)
    back = np.empty_like(x)
    FixedFFT(length, np.dtype(dtype), inverse=True).inverse(bins, back)
    np.testing.assert_allclose(back, x / length, atol=tolerance)
