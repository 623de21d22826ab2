"""Small models for tests of the CUDA delegate, and their right answers."""

from __future__ import annotations

from typing import Any

import numpy as np
from test_opencl import residual

from litedelegate import Interpreter, ModelBuilder
from litedelegate.kernels.types import Array


def sample(seed: int = 6) -> Array:
    return np.random.default_rng(seed).standard_normal((1, 7, 5, 19)).astype(np.float32)


def numpys(x: Array) -> Array:
    y: Array = Interpreter(model_content=residual()).run({"x": x})["y"]
    return y


def close(got: Array, x: Array) -> None:
    want = numpys(x)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


def two_steps() -> bytes:
    """Two kernels: a sum that is read twice cannot ride in both."""
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (3, 40))
    axis = g.constant("axis", np.array([1], np.int32))
    y = g.op("SUM", [x, axis], ("sum", (3, 1), "float32"), keep_dims=True)
    z = g.op("SUB", [x, y], ("z", (3, 40), "float32"), fused_activation_function="NONE")
    g.outputs(z)
    return b.build()


def on_device(cupy: Any, x: Array) -> Any:
    array = cupy.ndarray(x.shape, x.dtype)
    array.set(x)
    return array
