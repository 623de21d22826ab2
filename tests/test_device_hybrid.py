"""Floats by integer weights on devices, where a row has values that are not finite."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from devices import NAMES, device

from litedelegate import Interpreter, ModelBuilder
from litedelegate.delegates.opencl import OpenCLDelegate

ROWS = {
    "nan": [1.0, np.nan, -2.0, 3.0],
    "infinity": [1.0, 2.0, np.inf, 0.0],
    "minus infinity": [-np.inf, 2.0, 1.0, 0.0],
    "both": [np.inf, -np.inf, 1.0, 0.0],
    "plain": [0.5, -1.0, 2.0, 4.0],
    "zeros": [0.0, 0.0, 0.0, 0.0],
    "large": [3.3e38, 1e38, 2e38, 0.0],
}


def model(asymmetric: bool, per_unit: bool) -> bytes:
    rng = np.random.default_rng(3)
    scales = [0.001, 0.002, 0.003, 0.001, 0.002] if per_unit else [0.001]
    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (len(ROWS), 4))
    weights = rng.integers(-127, 128, (5, 4)).astype(np.int8)
    w = g.constant("w", weights, scale=scales, zero_point=[0] * len(scales))
    bias = g.constant("b", rng.standard_normal(5).astype(np.float32))
    y = g.op(
        "FULLY_CONNECTED",
        [x, w, bias],
        ("y", (len(ROWS), 5), "float32"),
        version=9,
        asymmetric_quantize_inputs=asymmetric,
    )
    g.outputs(y)
    return b.build()


@pytest.mark.parametrize("per_unit", [False, True])
@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("backend", NAMES)
def test_rows_of_no_finite_numbers(
    backend: str, asymmetric: bool, per_unit: bool, tmp_path: Path
) -> None:
    """A row with NaN or an infinity gives NaN, as on numpy, and costs no other row anything."""
    name = device(backend).device.platform.name.strip()
    delegate = OpenCLDelegate(name, cache=tmp_path, costs="none")
    x = np.array(list(ROWS.values()), np.float32)
    content = model(asymmetric, per_unit)
    with Interpreter(model_content=content) as interpreter, np.errstate(all="ignore"):
        want = interpreter.run({"x": x})["y"]
    with Interpreter(model_content=content, delegates=[delegate]) as interpreter:
        got = interpreter.run({"x": x})["y"]
        assert interpreter.delegate_coverage().totals.delegated == {"opencl": 1}
    assert [bool(np.isnan(row).all()) for row in want] == [True] * 4 + [False] * 3
    for row, expected, key in zip(got, want, ROWS, strict=True):
        np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-6, err_msg=key)
