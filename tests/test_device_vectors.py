"""Maps on vectors: which expressions are taken, and chains behind convolutions on devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from devices import NAMES, device

from litedelegate.delegates.gpu.fuse import Item
from litedelegate.delegates.gpu.plan import Plan
from litedelegate.delegates.gpu.vectors import Value, on_vectors
from litedelegate.kernels.api import NodeSpec, Options, TensorSpec
from litedelegate.kernels.builtins import find_builtin
from litedelegate.kernels.types import Array, DType

VECTOR, NUMBER = Value("v", True), Value("s", False)


@pytest.mark.parametrize(
    ("expression", "made"),
    [
        ("$0 + $1", "(v + ((f32)s))"),
        ("$1 * 2 - $0", "(((f32)(s * 2)) - v)"),
        ("1 / (1 + F_EXP(-$0))", "(((f32)1) / (((f32)1) + F_EXP((-v))))"),
        ("$0 > 0 ? $0 : $0 * $1", "((v > ((f32)0)) ? v : (v * ((f32)s)))"),
        ("$0 < $1 && !($0 != $0) ? 1 : $1", None),  # -1 and 1 for true do not mix
        ("F_MAX($0, 0.5f)", "F_MAX(v, VSPLAT(f32, W, 0.5f))"),
        (
            "clamp_f32($0, 0x0.0p+0f, AS_F32(0x7F800000u))",
            "((v < 0x0.0p+0f) ? VSPLAT(f32, W, 0x0.0p+0f) : "
            "((v > AS_F32(0x7F800000u)) ? VSPLAT(f32, W, AS_F32(0x7F800000u)) : v))",
        ),
    ],
)
def test_taken(expression: str, made: str | None) -> None:
    got = on_vectors(expression, [VECTOR, NUMBER])
    if made is None:
        assert got is not None
        assert got.vector
    else:
        assert got == Value(made, True)


@pytest.mark.parametrize(
    "expression",
    [
        "($0 > 0) - ($0 < 0)",  # true is -1 on vectors
        "$0 ? 1 : 2",
        "$0 > 0",
        "$0 > 0 == $1 > 0 ? 1 : 2",
        "$0 < 0 && $1 < 0 ? 1 : 2",  # a vector and a number
        "@0[(u8)$0]",
        "(i32)$0",
        "to_bfloat16($0)",
        "F_POW($0, $1)",
        "F_EXP($0, $1)",
        "# + $0",
        "$0 +",
        "$0 $1",
    ],
)
def test_left_to_numbers(expression: str) -> None:
    assert on_vectors(expression, [VECTOR, NUMBER]) is None


def test_without_vectors_text_stays_as_it_is() -> None:
    assert on_vectors("1 / 2 * $1", [VECTOR, NUMBER]) == Value("((1 / 2) * s)", False)


RNG = np.random.default_rng(0)


class Graph:
    """Nodes on tensors by number; number 0 is the one input."""

    def __init__(self, x: Array) -> None:
        self.specs = [TensorSpec(x.shape, DType.FLOAT32, name="x")]
        self.values = [x]
        self.items: list[Item] = []

    def constant(self, value: Array) -> int:
        return self._add(TensorSpec(value.shape, DType.FLOAT32, const=value), value)

    def _add(self, spec: TensorSpec, value: Array) -> int:
        self.specs.append(spec)
        self.values.append(value)
        return len(self.specs) - 1

    def op(
        self, backend: str, name: str, inputs: Sequence[int], want: Array, **options: Any
    ) -> int:
        registration = find_builtin(name)
        assert registration is not None
        assert registration.lower is not None
        out = self._add(TensorSpec(want.shape, DType.FLOAT32, name=name), want)
        node = NodeSpec(
            name, [self.specs[i] for i in inputs], [self.specs[out]], Options(options), 1
        )
        lowered = registration.lower(node, device(backend).capability)
        self.items.append(Item(node, list(inputs), [out], lowered))
        return out


def _convolved(backend: str, graph: Graph, depthwise: bool, units: int) -> int:
    x = graph.values[0]
    shape = (1, 1, 1, x.shape[3]) if depthwise else (units, 1, 1, x.shape[3])
    weights = RNG.standard_normal(shape).astype(np.float32)
    bias = RNG.standard_normal(units).astype(np.float32)
    want = (x * weights[0] if depthwise else x @ weights[:, 0, 0].T) + bias
    return graph.op(
        backend,
        "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D",
        [0, graph.constant(weights), graph.constant(bias)],
        np.maximum(want, 0).astype(np.float32),
        padding="SAME",
        stride_h=1,
        stride_w=1,
        dilation_h_factor=1,
        dilation_w_factor=1,
        depth_multiplier=1,
        fused_activation_function="RELU",
    )


@pytest.mark.parametrize("units", [3, 8, 16, 24, 35, 48])
@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("backend", NAMES)
def test_chains_behind_convolutions(backend: str, depthwise: bool, units: int) -> None:
    """A residual sum, a slope for each channel, a number, and what only numbers take."""
    x = RNG.standard_normal((2, 5, 7, units)).astype(np.float32)
    graph = Graph(x)
    last = _convolved(backend, graph, depthwise, units)
    value = graph.values[last] + x
    last = graph.op(backend, "ADD", [last, 0], value, fused_activation_function="RELU6")
    value = np.clip(value, 0, 6) - 1
    graph.values[last] = value + 1
    last = graph.op(
        backend, "SUB", [last, graph.constant(np.ones(1, np.float32))], value,
        fused_activation_function="NONE",
    )  # fmt: skip
    slope = RNG.standard_normal((1, 1, units)).astype(np.float32)
    value = np.where(value > 0, value, value * slope)
    last = graph.op(backend, "PRELU", [last, graph.constant(slope)], value)
    for odd in (False, True):
        if odd:  # not known to work on vectors: the whole chain is on numbers
            value = np.sign(value)
            last = graph.op(backend, "SIGN", [last], value)
        plan = Plan(device(backend), graph.items, [0], [last])
        assert len(plan.kernels) == 1
        got = np.full(value.shape, 77, np.float32)
        plan.run({0: x}, {last: got})
        if odd:  # but for what rounding takes to the other side of 0
            assert ((got == value) | (abs(graph.values[last - 1]) < 1e-5)).all()
        else:
            np.testing.assert_allclose(got, value, rtol=0, atol=1e-5 * abs(value).max())
