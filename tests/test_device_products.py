"""Float products of random geometry on OpenCL devices, CPU-shaped, against the numpy kernels.

All of one kind are one program: channels that fill no vector, tiles moved back to an edge, windows
that reach far outside, one pixel, one unit, groups, images.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from devices import NAMES, device
from harness import Prepared

from litedelegate.delegates.gpu.fuse import Item
from litedelegate.delegates.gpu.plan import Plan
from litedelegate.kernels.api import NodeSpec, Options, TensorSpec
from litedelegate.kernels.builtins import find_builtin
from litedelegate.kernels.types import Array, DType

COUNT = 12


def made_node(op: str, arrays: list[Array], const: list[bool], options: dict[str, Any]) -> NodeSpec:
    registration = find_builtin(op)
    assert registration is not None
    assert registration.infer is not None
    types = {np.dtype(np.float32): DType.FLOAT32, np.dtype(np.int32): DType.INT32}
    specs = [
        TensorSpec(a.shape, types[a.dtype], const=a if c else None, name=f"input{i}")
        for i, (a, c) in enumerate(zip(arrays, const, strict=True))
    ]
    out = TensorSpec((), DType.FLOAT32, name="output")
    node = NodeSpec(op, specs, [out], Options(options), 1)
    (shape,) = registration.infer(node)
    assert shape is not None
    return replace(node, outputs=[replace(out, shape=shape)])


def _floats(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def _windows(rng: np.random.Generator) -> dict[str, Any]:
    dilation = ((1, 1), (1, 1), (2, 1), (2, 3))[rng.integers(4)]
    return {
        "padding": ("SAME", "VALID")[rng.integers(4) // 3],
        "stride_h": int(rng.integers(1, 4)),
        "stride_w": int(rng.integers(1, 4)),
        "dilation_h_factor": dilation[0],
        "dilation_w_factor": dilation[1],
        "depth_multiplier": 1,
        "fused_activation_function": ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")[rng.integers(4)],
    }


def _convolutions(rng: np.random.Generator) -> tuple[list[Array], list[bool], dict[str, Any]]:
    options = _windows(rng)
    kernel = [int(v) for v in rng.integers(1, 6, 2)]
    size = [int(v) for v in rng.integers(13, 34, 2)]
    depth, groups = int(rng.integers(1, 20)), (1, 1, 1, 2)[rng.integers(4)]
    units = int(rng.choice([1, 3, 8, 16, 17, 24, 40, 90])) * groups
    x = _floats(rng, int(rng.integers(1, 3)), *size, depth * groups)
    return (
        [x, _floats(rng, units, *kernel, depth) / np.float32(10), _floats(rng, units)],
        [False, True, True],
        options,
    )


def _depthwise(rng: np.random.Generator) -> tuple[list[Array], list[bool], dict[str, Any]]:
    options = _windows(rng)
    kernel = [int(v) for v in rng.choice([1, 2, 3, 5, 7], 2)]
    size = [int(v) for v in rng.integers(13, 34, 2)]
    channels, multiplier = int(rng.choice([1, 3, 8, 16, 18, 24, 47])), (1, 1, 1, 2)[rng.integers(4)]
    x = _floats(rng, int(rng.integers(1, 3)), *size, channels)
    weights = _floats(rng, 1, *kernel, channels * multiplier)
    return [x, weights, _floats(rng, channels * multiplier)], [False, True, True], options


def _columns(rng: np.random.Generator) -> tuple[list[Array], list[bool], dict[str, Any]]:
    """Sequences: of height alone, long kernels."""
    options = {**_windows(rng), "stride_w": 1, "dilation_w_factor": 1, "padding": "SAME"}
    channels, taps = int(rng.choice([8, 20])), int(rng.integers(2, 32))
    x = _floats(rng, 2, int(rng.integers(32, 90)), 1, channels)
    weights = _floats(rng, 1, taps, 1, channels)
    return [x, weights, _floats(rng, channels)], [False, True, True], options


def _connected(rng: np.random.Generator) -> tuple[list[Array], list[bool], dict[str, Any]]:
    rows, units, depth = (int(rng.choice([1, 2, 5, 16, 33, 70])) for _ in range(3))
    options = {
        "fused_activation_function": "RELU",
        "weights_format": "DEFAULT",
        "keep_num_dims": False,
        "asymmetric_quantize_inputs": False,
    }
    return (
        [_floats(rng, rows, depth), _floats(rng, units, depth), _floats(rng, units)],
        [
            False,
            True,
            True,
        ],
        options,
    )


def _products(rng: np.random.Generator) -> tuple[list[Array], list[bool], dict[str, Any]]:
    rows, depth, columns = (int(rng.choice([1, 2, 7, 20, 37, 70])) for _ in range(3))
    batches = [((), ()), ((3,), (3,)), ((4,), (1,)), ((1,), (2,)), ((2, 1), (3,)), ((2, 3), (2, 3))]
    left, right = batches[rng.integers(len(batches))]
    adjoint = [bool(v) for v in rng.integers(0, 2, 2)]
    x = _floats(rng, *left, *((depth, rows) if adjoint[0] else (rows, depth)))
    y = _floats(rng, *right, *((columns, depth) if adjoint[1] else (depth, columns)))
    options = {"adj_x": adjoint[0], "adj_y": adjoint[1], "asymmetric_quantize_inputs": False}
    return [x, y], [False, bool(rng.integers(2))], options


KINDS = {
    "CONV_2D": _convolutions,
    "DEPTHWISE_CONV_2D": _depthwise,
    "DEPTHWISE_CONV_2D of columns": _columns,
    "FULLY_CONNECTED": _connected,
    "BATCH_MATMUL": _products,
}


@cache
def cases(kind: str) -> list[tuple[NodeSpec, list[Array], Array]]:
    """Nodes, their inputs, and what numpy makes of them."""
    return list(_made(kind))


def _made(kind: str) -> Iterator[tuple[NodeSpec, list[Array], Array]]:
    rng = np.random.default_rng(len(kind))
    op = kind.partition(" ")[0]
    registration = find_builtin(op)
    assert registration is not None
    for _ in range(COUNT):
        arrays, const, options = KINDS[kind](rng)
        node = made_node(op, arrays, const, options)
        (want,) = Prepared(registration, node, list(arrays)).run()
        yield node, arrays, want


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", NAMES)
def test_as_numpy(backend: str, kind: str) -> None:
    target = device(backend)
    items, inputs, outputs = [], {}, {}
    for number, (node, arrays, want) in enumerate(cases(kind)):
        keys = [100 * number + i for i in range(len(arrays))]
        registration = find_builtin(node.op)
        assert registration is not None
        assert registration.lower is not None
        lowered = registration.lower(node, target.capability)
        items.append(Item(node, keys, [100 * number + 50], lowered))
        constant = [s is not None and s.const is not None for s in node.inputs]
        inputs.update({k: a for k, a, c in zip(keys, arrays, constant, strict=True) if not c})
        outputs[100 * number + 50] = np.full(want.shape, 77, np.float32)
    plan = Plan(target, items, list(inputs), list(outputs))
    for _ in range(2):
        plan.run(inputs, outputs)
    for number, (node, _, want) in enumerate(cases(kind)):
        got = outputs[100 * number + 50]
        most = 1e-5 * float(abs(want).max(initial=0))
        what = f"{node.options} on {[str(s) for s in node.inputs]}"
        np.testing.assert_allclose(got, want, rtol=0, atol=most, err_msg=what)
