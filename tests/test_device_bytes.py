"""Convolutions of bytes of random geometry on OpenCL devices, CPU-shaped, to the bit as on numpy.

Channels that fill no vector or no word, groups, tiles and vectors moved back to an edge, windows
that reach far outside; with four products at a time where the compiler has them, and without.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from devices import NAMES, device
from harness import Prepared

from litedelegate.delegates.gpu.fuse import Item
from litedelegate.delegates.gpu.plan import Plan
from litedelegate.delegates.opencl import instructions
from litedelegate.kernels.api import NodeSpec, Options, Quantization, TensorSpec
from litedelegate.kernels.builtins import find_builtin
from litedelegate.kernels.types import Array, DType

COUNT = 10


def _quantised(array: Array, scale: Any, zero: int, axis: int, const: bool) -> TensorSpec:
    kinds = {"int8": DType.INT8, "uint8": DType.UINT8, "int32": DType.INT32}
    scales = np.atleast_1d(np.asarray(scale, np.float32))
    quant = Quantization(scales, np.full(scales.shape, zero, np.int64), axis)
    return TensorSpec(array.shape, kinds[array.dtype.name], quant, array if const else None, "t")


def _drawn(op: str, rng: np.random.Generator) -> tuple[NodeSpec, list[Array]]:
    """A node without its output's shape, and its inputs."""

    def one(*choices: Any) -> Any:
        return choices[rng.integers(len(choices))]

    kind = one(np.int8, np.int8, np.uint8)
    info = np.iinfo(kind)
    size = (int(rng.integers(4, 24)), int(rng.integers(4, 40)))
    kernel = one((1, 1), (3, 3), (2, 4))
    if op == "CONV_2D":
        groups = one(1, 1, 2, 8) if kind is np.int8 else 1
        channels, units = groups * one(1, 3, 4, 16, 20), groups * one(1, 4, 12, 16, 33)
        shape, axis = (units, *kernel, channels // groups), 0
    else:
        channels = units = one(1, 15, 16, 24, 48)
        shape, axis = (1, *kernel, units), 3

    def bytes_of(*shape: int) -> Array:
        return rng.integers(info.min, info.max + 1, shape).astype(kind)

    arrays = [bytes_of(one(1, 2), *size, channels), bytes_of(*shape)]
    arrays.append(rng.integers(-3000, 3000, units).astype(np.int32))
    signed = kind is np.int8
    scales = rng.uniform(0.002, 0.02, units).astype(np.float32) if signed else np.float32(0.01)
    specs = [
        _quantised(arrays[0], 0.03, int(rng.integers(info.min, info.max + 1)), 0, False),
        _quantised(arrays[1], scales, 0 if signed else int(rng.integers(100, 160)), axis, True),
        _quantised(arrays[2], np.float32(0.03) * scales, 0, 0, True),
    ]
    out = _quantised(arrays[0][:0], one(0.3, 1.0), int(info.min if signed else 128), 0, False)
    dilation = one((1, 1), (1, 1), (2, 1))
    options = Options(
        padding=one("SAME", "SAME", "VALID"),
        stride_h=one(1, 1, 2),
        stride_w=one(1, 2),
        dilation_h_factor=dilation[0],
        dilation_w_factor=dilation[1],
        depth_multiplier=1,
        fused_activation_function=one("NONE", "RELU", "RELU6"),
        quantized_bias_type=DType.FLOAT32,
    )
    return NodeSpec(op, specs, [replace(out, shape=())], options, 1), arrays


@pytest.mark.parametrize("dot4", [True, False])
@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D"])
@pytest.mark.parametrize("backend", sorted(NAMES))
def test_to_the_bit(backend: str, op: str, dot4: bool) -> None:
    found = device(backend)
    capability = replace(found.capability, dot4=found.capability.dot4 and dot4)
    registration = find_builtin(op)
    assert registration is not None
    assert registration.lower is not None
    items, values, want = [], {}, {}
    for i in range(COUNT):
        node, arrays = _drawn(op, np.random.default_rng(i))
        (expected,) = Prepared(registration, node, arrays).run()
        node = replace(node, outputs=[replace(node.outputs[0], shape=expected.shape)])
        numbers = [4 * i, 4 * i + 1, 4 * i + 2]
        lowered = registration.lower(node, capability)
        items.append(Item(node, numbers, [4 * i + 3], lowered))
        values[4 * i], want[4 * i + 3] = arrays[0], expected.copy()
    plan = Plan(found, items, list(values), list(want))
    got = {k: np.empty_like(v) for k, v in want.items()}
    plan.run(values, got)
    for k, expected in want.items():
        np.testing.assert_array_equal(got[k], expected, err_msg=f"geometry {k // 4}")


@pytest.mark.parametrize("backend", sorted(NAMES))
def test_a_compiler_that_ends_its_process_is_asked_in_another(backend: str) -> None:
    found = device(backend)
    # the intrinsic takes vectors of bytes, or of words: one of the two ends the process, or fails
    words = 'int16 f(int16, int16, int16) __asm__("llvm.x86.avx512.vpermi2var.qi.512");'
    source = f"{words} kernel void k(global int16* p) {{ *p = f(p[0], p[1], p[2]); }}"
    assert not instructions.survives(found, source)
    assert instructions.survives(found, "kernel void k(global int* p) { *p = 1; }")
