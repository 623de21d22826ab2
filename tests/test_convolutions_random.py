"""Convolutions of random geometry against their definitions: bit for bit on integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from definitions import convolution, depthwise, output_size, stored
from harness import NodeSpec, Options, Prepared
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from litedelegate.kernels.api import Quantization, TensorSpec
from litedelegate.kernels.builtins import find_builtin
from litedelegate.kernels.types import Array, DType


@st.composite
def geometry(draw: st.DrawFn) -> dict[str, Any]:
    def pair(low: int, high: int) -> tuple[int, int]:
        return draw(st.integers(low, high)), draw(st.integers(low, high))

    found = {
        "size": pair(1, 14),
        "kernel": pair(1, 5),
        "stride": pair(1, 4),
        "dilation": draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (2, 3)])),
        "padding": draw(st.sampled_from(["SAME", "VALID"])),
        "batch": draw(st.integers(1, 3)),
        "channels": draw(st.integers(1, 9)),
        "units": draw(st.integers(1, 9)),
        "groups": draw(st.sampled_from([1, 1, 2, 3])),
        "seed": draw(st.integers(0, 1 << 20)),
    }
    return found


def _options(g: dict[str, Any]) -> Options:
    return Options(
        padding=g["padding"],
        stride_h=g["stride"][0],
        stride_w=g["stride"][1],
        dilation_h_factor=g["dilation"][0],
        dilation_w_factor=g["dilation"][1],
        depth_multiplier=1,
        fused_activation_function="NONE",
        quantized_bias_type=DType.FLOAT32,
    )


def _run(op: str, g: dict[str, Any], arrays: list[Array], scales: list[Any], y: Any) -> Array:
    """One node on int8 or float64; `scales`: (scale, zero point, axis) of each tensor."""
    kinds = {"int8": DType.INT8, "int32": DType.INT32, "float64": DType.FLOAT64}
    specs = [
        TensorSpec(a.shape, kinds[a.dtype.name], _quant(s), a if i else None, f"input{i}")
        for i, (a, s) in enumerate(zip(arrays, scales, strict=True))
    ]
    out = TensorSpec((), kinds[arrays[0].dtype.name], _quant(y), None, "output")
    registration = find_builtin(op)
    assert registration is not None
    node = NodeSpec(op, specs, [out], _options(g), 1)
    prepared = Prepared(registration, node, list(arrays))
    first = prepared.run()[0]
    np.testing.assert_array_equal(first, prepared.run(reverse=True)[0])
    return first


def _quant(q: Any) -> Quantization | None:
    if q is None:
        return None
    scale = np.atleast_1d(np.asarray(q[0], np.float32))
    return Quantization(scale, np.full(scale.shape, q[1], np.int64), q[2])


@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D"])
@pytest.mark.parametrize("floats", [False, True])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(g=geometry())
def test_against_the_definition(op: str, floats: bool, g: dict[str, Any]) -> None:
    _, out = output_size(g["size"], g["kernel"], g["stride"], g["dilation"], g["padding"])
    if min(out) < 1:
        return
    rng = np.random.default_rng(g["seed"])
    if op == "CONV_2D":
        define, axis, units = convolution, 0, g["groups"] * g["units"]
        channels = g["groups"] * g["channels"]
        shape = (units, *g["kernel"], g["channels"])
    else:
        define, axis = depthwise, 3
        channels, units = g["channels"], g["channels"] * g["groups"]
        shape = (1, *g["kernel"], units)
    x_shape = (g["batch"], *g["size"], channels)
    how = (g["stride"], g["dilation"], g["padding"])
    if floats:
        x, w, b = (rng.standard_normal(s) for s in (x_shape, shape, units))
        got = _run(op, g, [x, w, b], [None] * 3, None)
        np.testing.assert_allclose(got, define(x, w, *how) + b, rtol=1e-12, atol=1e-12)
        return
    x, w = (rng.integers(-128, 128, s, np.int8) for s in (x_shape, shape))
    b = rng.integers(-3000, 3000, units).astype(np.int32)
    zero, x_scale, y_scale = int(rng.integers(-128, 128)), np.float32(0.03), np.float32(0.2)
    scales = rng.uniform(0.002, 0.02, units).astype(np.float32)
    sums = define(x.astype(np.int64) - zero, w, *how) + b
    multipliers = np.float64(x_scale) * scales.astype(np.float64) / np.float64(y_scale)
    want = stored(sums, multipliers, -7, -128, 127)
    quants = [(x_scale, zero, 0), (scales, 0, axis), (x_scale * scales, 0, 0)]
    got = _run(op, g, [x, w, b], quants, (y_scale, -7, 0))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize(
    ("op", "size", "kernel", "channels"),
    [("CONV_2D", (65, 65), (1, 1), 96), ("DEPTHWISE_CONV_2D", (29, 65), (5, 5), 64)],
)
def test_a_thread_that_begins_at_the_end_of_an_image(
    op: str, size: tuple[int, int], kernel: tuple[int, int], channels: int, floats: bool
) -> None:
    """Three images in two blocks each: the second of two threads begins with a smaller one."""
    g: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1), "padding": "SAME"}
    rng = np.random.default_rng(0)
    wide = op == "CONV_2D"
    define, axis = (convolution, 0) if wide else (depthwise, 3)
    units = 24 if wide else channels
    shape = (units, *kernel, channels) if wide else (1, *kernel, units)
    x, w = (rng.integers(-128, 128, s, np.int8) for s in ((3, *size, channels), shape))
    sums = define(x.astype(np.int64), w, *g.values())
    scales = [(0.5, 0, 0), (np.full(units, 0.01, np.float32), 0, axis), (0.005, 0, 0)]
    b = np.zeros(units, np.int32)
    if floats:
        args = [a.astype(np.float64) for a in (x, w, b)]
        np.testing.assert_array_equal(_run(op, g, args, [None] * 3, None), sums)
        return
    got = _run(op, g, [x, w, b], scales, (20.0, 0, 0))
    multipliers = np.full(units, np.float64(np.float32(0.5)) * np.float32(0.01) / 20)
    np.testing.assert_array_equal(got, stored(sums, multipliers, 0, -128, 127))
