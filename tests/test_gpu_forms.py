"""Forms for GPUs of random geometry, on the stand-in of CUDA, against the numpy kernels: several
pixels and channels for each work-item, windows that reach outside, bytes to the bit."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from devices import cuda_device
from harness import Prepared

from litedelegate import Interpreter, ModelBuilder
from litedelegate.delegates.gpu.delegate import GpuDelegate
from litedelegate.delegates.gpu.device import Device
from litedelegate.delegates.gpu.fuse import Item
from litedelegate.delegates.gpu.plan import Plan
from litedelegate.kernels.api import NodeSpec, Options, Quantization, TensorSpec
from litedelegate.kernels.builtins import find_builtin
from litedelegate.kernels.types import Array, DType

# how many, and a seed that gives most of the forms
COUNTS = {"DEPTHWISE_CONV_2D": (14, 5), "TRANSPOSE_CONV": (4, 4)}
FLOAT, BYTE, UNSIGNED = DType.FLOAT32, DType.INT8, DType.UINT8


@pytest.fixture(scope="module")
def target() -> Device:
    """Of one compute unit, which small images fill: work-items get strips."""
    found = copy.copy(cuda_device("cuda-standin"))
    found.capability = replace(found.capability, compute_units=1)
    return found


def _values(rng: np.random.Generator, dtype: DType, *shape: int) -> Array:
    if dtype.is_float:
        return rng.standard_normal(shape).astype(np.float32)
    low, high = dtype.range()
    return rng.integers(low, high + 1, shape).astype(dtype.numpy)


def _quant(dtype: DType, scale: Any, zero: int, axis: int = 0) -> Quantization | None:
    if dtype.is_float:
        return None
    scales = np.atleast_1d(np.asarray(scale, np.float32))
    return Quantization(scales, np.full(scales.shape, zero, np.int64), axis)


def _zero(rng: np.random.Generator, dtype: DType) -> int:
    return 0 if dtype.is_float else int(rng.integers(*dtype.range()))


def _node(op: str, specs: list[TensorSpec], out: TensorSpec, options: dict[str, Any]) -> NodeSpec:
    registration = find_builtin(op)
    assert registration is not None and registration.infer is not None
    node = NodeSpec(op, specs, [out], Options(options), 1)
    (shape,) = registration.infer(node)
    assert shape is not None
    return replace(node, outputs=[replace(out, shape=shape)])


def _stepping(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "padding": ("SAME", "VALID")[rng.integers(4) // 3],
        "stride_h": int(rng.integers(1, 3)),
        "stride_w": int(rng.integers(1, 3)),
        "fused_activation_function": ("NONE", "RELU", "RELU6")[rng.integers(3)],
    }


def _depthwise(rng: np.random.Generator, dtype: DType) -> tuple[NodeSpec, list[Array]]:
    dilation = ((1, 1), (1, 1), (2, 1), (2, 3))[rng.integers(4)]
    options = {
        **_stepping(rng),
        "dilation_h_factor": dilation[0],
        "dilation_w_factor": dilation[1],
        "depth_multiplier": 1,
    }
    kernel = [(3, 3), (3, 3), (1, 3), (3, 1), (2, 2), (5, 5), (4, 7), (2, 11)][rng.integers(8)]
    size = [int(v) for v in rng.integers(22, 40, 2)]
    channels, multiplier = int(rng.choice([1, 3, 4, 8, 20])), (1, 1, 1, 2)[rng.integers(4)]
    units = channels * multiplier
    data = np.random.default_rng(1)
    x = _values(data, dtype, int(rng.integers(1, 3)), *size, channels)
    w = _values(data, dtype, 1, *kernel, units)
    b = _values(data, FLOAT, units)
    if not dtype.is_float:
        b = (b * 3000).astype(np.int32)
    each = units if dtype is BYTE else 1
    scales = data.uniform(0.002, 0.02, each).astype(np.float32)
    zero = _zero(data, dtype) if dtype is UNSIGNED else 0
    kinds = FLOAT if dtype.is_float else DType.INT32
    specs = [
        TensorSpec(x.shape, dtype, _quant(dtype, 0.03, _zero(data, dtype)), None, "x"),
        TensorSpec(w.shape, dtype, _quant(dtype, scales, zero, 3), w, "w"),
        TensorSpec(b.shape, kinds, _quant(dtype, 0.03 * scales, 0), b, "b"),
    ]
    out = TensorSpec((), dtype, _quant(dtype, 0.2, _zero(data, dtype)), None, "y")
    return _node("DEPTHWISE_CONV_2D", specs, out, options), [x, w, b]


def _transposed(rng: np.random.Generator, dtype: DType) -> tuple[NodeSpec, list[Array]]:
    """Kernels smaller than the stride, too, and outputs that are no multiple of it."""
    options = _stepping(rng) | {"quantized_bias_type": FLOAT}
    kernel = [(2, 2), (3, 3), (4, 4), (1, 2), (5, 3)][rng.integers(5)]
    size = [int(v) for v in rng.integers(3, 9, 2)]
    channels, units = int(rng.choice([6, 8, 13, 20])), int(rng.choice([4, 8, 35]))
    stride = options["stride_h"], options["stride_w"]
    if options["padding"] == "SAME":
        out = [n * s - int(rng.integers(s)) for n, s in zip(size, stride, strict=True)]
    else:
        out = [
            (n - 1) * s + k + int(rng.integers(s))
            for n, s, k in zip(size, stride, kernel, strict=True)
        ]
    data = np.random.default_rng(2)
    batch = int(rng.integers(1, 3))
    shape = np.array([batch, *out, units], np.int32)
    w = _values(data, dtype, units, *kernel, channels)
    if not dtype.is_float:  # as converters have it: -128 is left out
        w = np.maximum(w, dtype.range()[0] + 1).astype(w.dtype)
    x = _values(data, dtype, batch, *size, channels)
    b = _values(data, FLOAT, units)
    if not dtype.is_float:
        b = (b * 3000).astype(np.int32)
    scales = data.uniform(0.001, 0.01, units if dtype is BYTE else 1).astype(np.float32)
    zero = 128 if dtype is UNSIGNED else 0
    kinds = FLOAT if dtype.is_float else DType.INT32
    specs = [
        TensorSpec((4,), DType.INT32, None, shape, "shape"),
        TensorSpec(w.shape, dtype, _quant(dtype, scales, zero), w, "w"),
        TensorSpec(x.shape, dtype, _quant(dtype, 0.03, _zero(data, dtype)), None, "x"),
        TensorSpec(b.shape, kinds, _quant(dtype, 0.03 * scales, 0), b, "b"),
    ]
    out_spec = TensorSpec((), dtype, _quant(dtype, 0.3, _zero(data, dtype)), None, "y")
    return _node("TRANSPOSE_CONV", specs, out_spec, options), [shape, w, x, b]


KINDS: dict[str, Callable[[np.random.Generator, DType], tuple[NodeSpec, list[Array]]]] = {
    "DEPTHWISE_CONV_2D": _depthwise,
    "TRANSPOSE_CONV": _transposed,
}


@pytest.mark.parametrize("dtype", [FLOAT, BYTE, UNSIGNED], ids=lambda d: str(d.label))
@pytest.mark.parametrize("op", KINDS)
def test_as_numpy(target: Device, op: str, dtype: DType) -> None:
    count, seed = COUNTS[op]
    rng = np.random.default_rng(seed)
    registration = find_builtin(op)
    assert registration is not None and registration.lower is not None
    items, inputs, outputs, wanted, forms = [], {}, {}, {}, set()
    for number in range(count):
        node, arrays = KINDS[op](rng, dtype)
        (wanted[number],) = Prepared(registration, node, list(arrays)).run()
        lowered = registration.lower(node, target.capability)
        for step in lowered.steps:
            forms |= set(getattr(step, "defines", {}).items()) & _STRIPS
            forms.add((op, getattr(step, "file", "")))
        keys = [100 * number + i for i in range(len(arrays))]
        items.append(Item(node, keys, [100 * number + 50], lowered))
        given = zip(keys, arrays, node.inputs, strict=True)
        inputs.update({k: a for k, a, s in given if s is not None and s.const is None})
        outputs[100 * number + 50] = np.full(wanted[number].shape, 77, dtype.numpy)
    assert forms >= _WAYS[op]
    Plan(target, items, list(inputs), list(outputs)).run(inputs, outputs)
    for number, want in wanted.items():
        got, spec = outputs[100 * number + 50], items[number].spec
        most = 1e-5 * float(abs(want).max(initial=0)) if dtype.is_float else 0
        what = f"{spec.options} on {[str(s) for s in spec.inputs]}"
        np.testing.assert_allclose(got, want, rtol=0, atol=most, err_msg=what)


# all of a body's
_STRIPS = {("V", 1), ("V", 4), ("TX", 4), ("TY", 2), ("HELD", 0), ("HELD", 1), ("LOOSE", 1)}
_WAYS = {
    "DEPTHWISE_CONV_2D": _STRIPS,
    "TRANSPOSE_CONV": {("TRANSPOSE_CONV", "conv_tiles"), ("TRANSPOSE_CONV", "transposed")},
}


def _residual(dtype: str) -> bytes:
    """SUM(LOGISTIC(x + DEPTHWISE(x))): what rides behind four values at once, and what cannot. Of
    floats x is -x before, so that halves come and go."""
    b = ModelBuilder()
    g = b.subgraph("main")
    shape, rng = (1, 9, 11, 8), np.random.default_rng(0)
    weights = rng.standard_normal((1, 3, 3, 8)).astype(np.float32)
    bias = rng.standard_normal(8).astype(np.float32)
    quant: dict[str, Any] = {}
    end: dict[str, Any] = {}
    if dtype == "int8":
        quant = {"scale": 0.05, "zero_point": 3}
        end = {"scale": 1 / 256, "zero_point": -128}
        w = g.constant("w", (weights * 40).astype(np.int8), scale=0.01, zero_point=0)
        c = g.constant("b", (bias * 900).astype(np.int32), scale=0.0005, zero_point=0)
    else:
        w, c = g.constant("w", weights), g.constant("b", bias)
    x = g.input("x", shape, dtype, **quant)
    if not quant:
        x = g.op("NEG", [x], ("n", shape, dtype))
    options = {
        "padding": "SAME",
        "stride_w": 1,
        "stride_h": 1,
        "dilation_w_factor": 1,
        "dilation_h_factor": 1,
        "depth_multiplier": 1,
        "fused_activation_function": "NONE",
    }
    y = g.op("DEPTHWISE_CONV_2D", [x, w, c], g.tensor("y", shape, dtype, **quant), **options)
    s = g.tensor("s", shape, dtype, **quant)
    s = g.op("ADD", [y, x], s, fused_activation_function="NONE")
    z = g.op("LOGISTIC", [s], g.tensor("z", shape, dtype, **end))
    axis = g.constant("axis", np.array([1], np.int32))
    g.outputs(g.op("SUM", [z, axis], g.tensor("t", (1, 11, 8), dtype, **end), keep_dims=False))
    return b.build()


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_what_rides_behind_four_values(target: Device, dtype: str, half: bool) -> None:
    content = _residual(dtype)
    delegate = GpuDelegate("gpu", target, half=half)
    interpreter = Interpreter(model_content=content, delegates=[delegate], strict=True)
    rng = np.random.default_rng(1)
    x = _values(rng, FLOAT if dtype == "float32" else BYTE, 1, 9, 11, 8)
    got = interpreter.run({"x": x})["t"]
    want = Interpreter(model_content=content).run({"x": x})["t"]
    most = 0.0 if dtype == "int8" else 5e-3 if half else 1e-5
    np.testing.assert_allclose(got, want, rtol=0, atol=most)
    assert half == (dtype == "float32" and bool(np.abs(got - want).max() > 1e-4)) or most == 0
    (partition,) = interpreter.delegate_coverage().partitions
    before = ["NEG"] if dtype == "float32" else []
    assert partition.kernels == [*before, "DEPTHWISE_CONV_2D+ADD+LOGISTIC", "SUM"]
