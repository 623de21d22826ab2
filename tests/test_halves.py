"""Half storage: tensors that stay on the device in 16 bits, computed with in 32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_models import two_steps
from devices import NAMES, cuda_device, device

from litedelegate import Interpreter, ModelBuilder
from litedelegate.delegates.gpu.delegate import GpuDelegate
from litedelegate.delegates.gpu.device import Device
from litedelegate.kernels.types import Array


@pytest.fixture(params=[*NAMES, "cuda-standin"])
def target(request: pytest.FixtureRequest) -> Iterator[Device]:
    backend = request.param
    yield cuda_device(backend) if backend.startswith("cuda") else device(backend)


def run(content: bytes, delegate: Any, x: Array) -> Array:
    interpreter = Interpreter(model_content=content, delegates=[delegate], strict=True)
    for _ in range(3):
        y: Array = interpreter.run({"x": x})["z"]
    return y


def test_a_tensor_between_two_kernels(target: Device) -> None:
    x = np.random.default_rng(0).uniform(1, 2, (3, 40)).astype(np.float32)
    sums = x.sum(axis=1, keepdims=True)
    plain = run(two_steps(), GpuDelegate("gpu", target), x)
    np.testing.assert_allclose(plain, x - sums, rtol=1e-5)
    half = run(two_steps(), GpuDelegate("gpu", target, half=True), x)
    np.testing.assert_allclose(half, x - sums.astype(np.float16).astype(np.float32), rtol=1e-6)
    assert np.abs(half - plain).max() > 1e-4


def convolution(weights: Array, of_exp: bool) -> bytes:
    """z = CONV_2D(EXP(x)), or without EXP."""
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (1, 6, 6, 8))
    y = g.op("EXP", [x], ("e", (1, 6, 6, 8), "float32")) if of_exp else x
    units = len(weights)
    w, bias = g.constant("w", weights), g.constant("b", np.ones(units, np.float32))
    options = {
        "padding": "VALID",
        "stride_w": 1,
        "stride_h": 1,
        "dilation_w_factor": 1,
        "dilation_h_factor": 1,
        "fused_activation_function": "NONE",
    }
    g.outputs(g.op("CONV_2D", [y, w, bias], ("z", (1, 4, 4, units), "float32"), **options))
    return b.build()


@pytest.mark.parametrize("units", [4, 16], ids=["one by one", "matrix unit"])
def test_factors_are_halves_and_sums_are_not(target: Device, units: int) -> None:
    """What bodies reach by LOAD is stored in halves; forms for CPUs have pointers, and stay."""
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((units, 3, 3, 8)).astype(np.float32)
    value = rng.standard_normal((1, 6, 6, 8)).astype(np.float32)
    floats = Interpreter(model_content=convolution(weights, True)).run({"x": value})["z"]
    weights_in_16, input_in_16 = (
        a.astype(np.float16).astype(np.float32) for a in (weights, np.exp(value))
    )
    halves = Interpreter(model_content=convolution(weights_in_16, False)).run({"x": input_in_16})
    got = run(convolution(weights, True), GpuDelegate("gpu", target, half=True), value)
    want = halves["z"] if target.capability.kind == "gpu" else floats
    most = float(np.abs(want).max())
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * most)
    assert np.abs(halves["z"] - floats).max() > 1e-4 * most
