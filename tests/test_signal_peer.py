"""The signal ops against tflite-micro on random data, where its Python package is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from litedelegate import Interpreter, ModelBuilder
from litedelegate.kernels.types import Array

runtime = pytest.importorskip("tflite_micro").runtime

I16, U32 = np.int16, np.uint32
SUBTRACTION = {
    "alternate_one_minus_smoothing": 15000,
    "alternate_smoothing": 1384,
    "min_signal_remaining": 819,
    "num_channels": 33,
    "one_minus_smoothing": 15975,
    "smoothing": 409,
    "smoothing_bits": 10,
    "spectral_subtraction_bits": 14,
}
BANDS = [(I16, t) for t in ([0, 3, 10, 20, 30], [0, 10, 30, 20, 40], [3, 0, 10, 10, 20])]
LUT = (I16, (32767 / (1 + np.arange(125)) ** 0.8).astype(int).tolist())
# op, options, inputs (type and shape, or type and list of values), outputs (type, shape)
NODES: list[tuple[str, dict[str, Any], list[Any], list[Any]]] = [
    ("SignalWindow", {"shift": 12}, [(I16, (2, 40)), (I16, (20,))], [(I16, (2, 40))]),
    ("SignalFftAutoScale", {}, [(I16, (64,))], [(I16, (64,)), (np.int32, ())]),
    ("SignalEnergy", {"start_index": 0, "end_index": 33}, [(I16, (66,))], [(U32, (33,))]),
    (
        "SignalFilterBank",
        {"num_channels": 4},
        [(U32, (50,)), (I16, (60,)), (I16, (60,)), *BANDS],
        [(np.uint64, (4,))],
    ),
    (
        "SignalFilterBankSquareRoot",
        {},
        [(np.uint64, (64,)), (np.int32, 3)],
        [(U32, (64,))],
    ),
    *(
        (
            "SignalFilterBankSpectralSubtraction",
            {**SUBTRACTION, "clamping": clamping},
            [(U32, (33,))],
            [(U32, (33,)), (U32, (33,))],
        )
        for clamping in (False, True)
    ),
    ("SignalPCAN", {"snr_shift": 6}, [(U32, (40,)), (U32, (40,)), LUT], [(U32, (40,))]),
    (
        "SignalFilterBankLog",
        {"input_correction_bits": 3, "output_scale": 1600},
        [(U32, (40,))],
        [(I16, (40,))],
    ),
    *(
        (
            "SignalFramer",
            {"frame_size": 400, "frame_step": 160, "prefill": prefill},
            [(I16, (2, 160))],
            [(I16, (2, 1, 400)), (np.bool_, ())],
        )
        for prefill in (False, True)
    ),
    *(
        ("SignalOverlapAdd", {"T": t, "frame_step": 3}, [(d, (2, 4, 8))], [(d, (2, 12))])
        for t, d in ((7, I16), (0, np.float32))
    ),
    (
        "SignalStacker",
        {
            "num_channels": 3,
            "stacker_left_context": 1,
            "stacker_right_context": 2,
            "stacker_step": 2,
        },
        [(I16, (3,))],
        [(I16, (12,)), (np.bool_, ())],
    ),
    ("SignalDelay", {"delay_length": 11}, [(I16, (2, 4))], [(I16, (2, 4))]),
    *(
        (op, {"T": t, "fft_length": n}, [(d, (2, x))], [(d, (2, y))])
        for t, d in ((7, I16), (2, np.int32), (0, np.float32))
        for n in (64, 90, 96, 480, 512)
        for op, x, y in (("SignalRfft", n - 7, n + 2), ("SignalIrfft", n + 2, n))
    ),
]


def values(what: tuple[Any, Any], rng: np.random.Generator) -> Array:
    dtype, shape = what
    if not isinstance(shape, tuple):
        return np.array(shape, dtype)
    if dtype is np.float32:
        return rng.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    # all magnitudes, from a few bits to the whole range
    bits = int(rng.integers(1, limits.bits))
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True) >> dtype(bits)


@pytest.mark.parametrize(("op", "options", "inputs", "outputs"), NODES)
def test_as_tflite_micro(op: str, options: Any, inputs: list[Any], outputs: list[Any]) -> None:
    b = ModelBuilder()
    g = b.subgraph("main")
    rng = np.random.default_rng(0)
    first = [values(what, rng) for what in inputs]
    refs = [g.input(f"x{i}", x.shape, x.dtype.name) for i, x in enumerate(first)]
    made = [(f"y{i}", shape, np.dtype(d).name) for i, (d, shape) in enumerate(outputs)]
    g.outputs(*g.custom(op, refs, made, options=options))
    model = bytes(b.build())
    ours, theirs = (
        Interpreter(model_content=model),
        runtime.Interpreter.from_bytes(model, arena_size=1 << 20),
    )
    for call in range(12):
        if call == 8:
            ours.reset_all_variables()
            theirs.reset()
        x = [values(what, rng) for what in inputs]
        for i, value in enumerate(x):
            theirs.set_input(value, i)
        theirs.invoke()
        got = ours.run({f"x{i}": value for i, value in enumerate(x)})
        whole = outputs[-1][0] is not np.bool_ or bool(got[made[-1][0]])
        for i, (name, _, kind) in enumerate(made):
            want = np.array(theirs.get_output(i))
            if kind == "float32":
                np.testing.assert_allclose(got[name], want, atol=1e-5 * np.abs(want).max())
            elif whole or i:  # what is not there yet is not compared
                np.testing.assert_array_equal(got[name], want)
