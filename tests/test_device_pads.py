"""PAD in front of convolutions is part of them on devices, and changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices import NAMES, device

from litedelegate import Interpreter, ModelBuilder, Quant
from litedelegate.delegates.gpu.delegate import GpuDelegate
from litedelegate.delegates.gpu.dry import DryDevice
from litedelegate.delegates.opencl import OpenCLDelegate
from litedelegate.kernels.device import PROFILES

PADS = [((1, 1), (1, 1)), ((0, 1), (0, 1)), ((2, 0), (3, 1)), ((5, 4), (0, 6))]


@pytest.fixture(params=list(NAMES))
def delegate(request: pytest.FixtureRequest, tmp_path: Path) -> OpenCLDelegate:
    found = device(request.param)
    return OpenCLDelegate(found.device.platform.name.strip(), cache=tmp_path, costs="none")


def given_quant(quant: Quant | None) -> list[Quant]:
    return [] if quant is None else [quant]


def model(
    pads: Any,
    dtype: str = "float32",
    depthwise: bool = False,
    stride: int = 1,
    value: float | None = None,
    images: int = 0,
    also: bool = False,
) -> bytes:
    """PAD and a 3x3 convolution of 5 channels; `also`: what PAD gives is an output, too."""
    rng = np.random.default_rng(3)
    b = ModelBuilder()
    g = b.subgraph("main")
    floats = dtype == "float32"
    quant, kernel_quant, bias_quant, out_quant = (
        None if floats else Quant(s, z) for s, z in ((0.5, -7), (0.01, 0), (0.005, 0), (0.4, 3))
    )
    x = g.input("x", (2, 9, 8, 5), dtype, quant=quant)
    (top, bottom), (left, right) = pads
    grown = (2 + images, 9 + top + bottom, 8 + left + right, 5)
    paddings = np.array([[images, 0], [top, bottom], [left, right], [0, 0]], np.int32)
    given = [x, g.constant("paddings", paddings)]
    if value is not None:
        given.append(g.constant("value", np.array([value], dtype), quant=quant))
    y = g.op("PAD" if value is None else "PADV2", given, ("y", grown, dtype, *given_quant(quant)))
    shape = (1, 3, 3, 5) if depthwise else (18, 3, 3, 5)
    units = 5 if depthwise else 18
    kernel: Any = rng.integers(-127, 128, shape).astype(np.int8)
    bias: Any = np.arange(units, dtype=np.int32)
    if floats:
        kernel, bias = (rng.standard_normal(s).astype(np.float32) for s in (shape, units))
    weights = g.constant("w", kernel, quant=kernel_quant)
    biases = g.constant("b", bias, quant=bias_quant)
    out = tuple((n - 3) // stride + 1 for n in grown[1:3])
    options = {
        "padding": "VALID",
        "stride_h": stride,
        "stride_w": stride,
        "dilation_h_factor": 1,
        "dilation_w_factor": 1,
        "fused_activation_function": "RELU",
    }
    if depthwise:
        options["depth_multiplier"] = 1
    result = ("z", (grown[0], *out, units), dtype, *given_quant(out_quant))
    z = g.op(
        "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", [y, weights, biases], result, **options
    )
    g.outputs(*((z, y) if also else (z,)))
    return b.build()


def compared(delegate: OpenCLDelegate, content: bytes, integers: bool) -> list[str]:
    """The launches, by what they hold, of a model whose results are numpy's."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((2, 9, 8, 5)).astype(np.float32)
    inputs = {"x": (x * 40).clip(-128, 127).astype(np.int8) if integers else x}
    with Interpreter(model_content=content, delegates=[delegate]) as interpreter:
        got = interpreter.run(inputs)
        report = interpreter.delegate_coverage()
        assert all(n.placed_on == "opencl" for n in report.nodes)
        with Interpreter(model_content=content) as plain:
            for name, want in plain.run(inputs).items():
                if integers:
                    np.testing.assert_array_equal(got[name], want)
                else:
                    limit = 1e-5 * np.abs(want).max()
                    np.testing.assert_allclose(got[name], want, rtol=0, atol=limit)
        (partition,) = report.partitions
        return list(partition.kernels)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("pads", PADS, ids=str)
@pytest.mark.parametrize("depthwise", [False, True], ids=["CONV_2D", "DEPTHWISE"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_one_kernel(
    delegate: OpenCLDelegate, dtype: str, depthwise: bool, pads: Any, stride: int
) -> None:
    kernels = compared(delegate, model(pads, dtype, depthwise, stride), dtype == "int8")
    assert not any("PAD" in k for k in kernels), kernels


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_what_stays_a_pad(delegate: OpenCLDelegate, dtype: str) -> None:
    """A value that a convolution does not pad with, more images, and what others read."""
    integers = dtype == "int8"
    for more in ({"value": 9.0}, {"images": 1}, {"also": True}):
        kernels = compared(delegate, model(PADS[0], dtype, **more), integers)  # type: ignore[arg-type]
        assert any("PAD" in k for k in kernels), (more, kernels)
    zero = compared(delegate, model(PADS[0], dtype, value=-7.0 if integers else 0.0), integers)
    assert not any("PAD" in k for k in zero), zero


@pytest.mark.parametrize("profile", ["sm_90", "opencl-gpu", "pocl-cpu"])
def test_forms_for_other_devices_too(profile: str) -> None:
    delegate = GpuDelegate("any", DryDevice(PROFILES[profile]))
    with Interpreter(model_content=model(PADS[1]), delegates=[delegate]) as interpreter:
        (partition,) = interpreter.delegate_coverage().partitions
        assert not any("PAD" in k for k in partition.kernels)
