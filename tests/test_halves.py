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


def test_what_a_body_points_at_stays(target: Device) -> None:
    """Indices, tables and inputs of kernels that read by pointers: the answer is float32's."""
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (1, 6, 6, 8))
    y = g.op("EXP", [x], ("e", (1, 6, 6, 8), "float32"))
    weights = np.random.default_rng(1).standard_normal((4, 3, 3, 8)).astype(np.float32)
    w, bias = g.constant("w", weights), g.constant("b", np.ones(4, np.float32))
    options = {
        "padding": "VALID",
        "stride_w": 1,
        "stride_h": 1,
        "dilation_w_factor": 1,
        "dilation_h_factor": 1,
        "fused_activation_function": "NONE",
    }
    g.outputs(g.op("CONV_2D", [y, w, bias], ("z", (1, 4, 4, 4), "float32"), **options))
    content = b.build()
    value = np.random.default_rng(2).standard_normal((1, 6, 6, 8)).astype(np.float32)
    want = Interpreter(model_content=content).run({"x": value})["z"]
    got = run(content, GpuDelegate("gpu", target, half=True), value)
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-3 * np.abs(want).max())
