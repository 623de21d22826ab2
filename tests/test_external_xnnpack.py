"""A real delegate as an external one: XNNPACK, out of the wheel of tflite-runtime."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_libraries import built

from litedelegate import Interpreter, ModelBuilder, Quant, load_delegate
from litedelegate.runtime.external import ExternalDelegate

MODELS = Path(__file__).resolve().parent.parent.parent / "shared" / "models"


@pytest.fixture(scope="module")
def xnnpack() -> ExternalDelegate:
    found = importlib.util.find_spec("tflite_runtime")
    if found is None or not found.submodule_search_locations:
        pytest.skip("tflite-runtime is not installed (the extra 'external')")
    (folder,) = found.submodule_search_locations
    (library,) = Path(folder).glob("_pywrap_tensorflow_interpreter_wrapper*.so")
    shim = built("tests/c_ops/xnnpack.c", "-ldl")
    return load_delegate(shim, {"library": library, "flags": 3})


def random_inputs(interpreter: Interpreter) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        d["name"]: rng.random(d["shape"]).astype(np.float32)
        if d["dtype"] == np.float32
        else rng.integers(0, 100, d["shape"]).astype(d["dtype"])
        for d in interpreter.get_input_details()
    }


def conv(dtype: str) -> bytes:
    """A convolution per channel with an activation, a residual sum, a pool."""
    rng = np.random.default_rng(0)
    quantised = dtype == "int8"
    builder = ModelBuilder()
    g = builder.subgraph("main")
    scale = {"scale": 0.05, "zero_point": 3} if quantised else {}
    x = g.input("x", (1, 8, 8, 4), dtype, **scale)
    kernel, bias = rng.standard_normal((4, 3, 3, 4)), rng.standard_normal(4)
    if quantised:
        scales = np.array([0.01, 0.02, 0.015, 0.03], np.float32)
        w = g.constant(
            "w",
            rng.integers(-100, 100, kernel.shape).astype(np.int8),
            quant=Quant(scales, np.zeros(4, np.int64), 0),
        )
        b = g.constant(
            "b",
            rng.integers(-500, 500, 4).astype(np.int32),
            quant=Quant(scales * np.float32(0.05), np.zeros(4, np.int64), 0),
        )
    else:
        w, b = g.constant("w", kernel.astype(np.float32)), g.constant("b", bias.astype(np.float32))
    same = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
    act = "NONE" if quantised else "RELU6"
    y = g.tensor("y", (1, 8, 8, 4), dtype, **scale)
    g.op("CONV_2D", [x, w, b], y, **same, fused_activation_function=act)
    z = g.tensor("z", (1, 8, 8, 4), dtype, **scale)
    g.op("ADD", [x, y], z)
    out = g.tensor("out", (1, 4, 4, 4), dtype, **scale)
    pool = {"padding": "VALID", "stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2}
    g.outputs(g.op("MAX_POOL_2D", [z], out, **pool))
    return builder.build()


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_options_weights_and_quantisation_reach_it(dtype: str, xnnpack: ExternalDelegate) -> None:
    content = conv(dtype)
    numpy, delegated = (Interpreter(model_content=content, delegates=d) for d in ([], [xnnpack]))
    inputs = random_inputs(numpy)
    for _ in range(3):
        want, got = numpy.run(inputs)["out"], delegated.run(inputs)["out"]
        if dtype == "float32":
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
        else:  # it requantises in float: one step
            assert np.abs(got.astype(int) - want).max() <= 1
    report = delegated.delegate_coverage()
    assert (report.totals.nodes, report.totals.cpu) == (3, 0), str(report)
    assert len(report.partitions) == 1


@pytest.mark.parametrize(
    "name",
    [
        "mobilenet_v1_0.25_128_f32",
        "face_landmark_f16w",
        "selfie_segmentation_custom_op",
        "resnet8_f32",
    ],
)
def test_real_models(name: str, xnnpack: ExternalDelegate) -> None:
    path = MODELS / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    numpy, delegated = Interpreter(path), Interpreter(path, delegates=[xnnpack])
    inputs = random_inputs(numpy)
    want, got = numpy.run(inputs), delegated.run(inputs)
    for key, value in want.items():
        np.testing.assert_allclose(got[key], value, atol=1e-4 * float(np.abs(value).max()))
    assert len(delegated.delegate_coverage().partitions) == 1
