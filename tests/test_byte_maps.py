"""Maps of bytes on CPUs: arithmetic on vectors for all pairs, and chains that become one table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from devices import NAMES, device
from harness import Prepared

from litedelegate.delegates.gpu.fuse import Item
from litedelegate.delegates.gpu.plan import Plan
from litedelegate.kernels import _quantized_binary
from litedelegate.kernels.api import NodeSpec, Options, Quantization, TensorSpec
from litedelegate.kernels.builtins import find_builtin
from litedelegate.kernels.device import Map
from litedelegate.kernels.types import Array, DType

Affine = tuple[float, int]
# of a, b and the result: equal scales bring ties, far ones saturate
_SCALES: list[tuple[Affine, Affine, Affine]] = [
    ((0.02, 3), (0.02, -7), (0.04, -5)),
    ((0.017, -128), (0.0031, 12), (0.0123, 0)),
    ((0.5, 0), (0.25, 127), (0.125, -128)),
    ((0.0471, 11), (0.0913, -3), (0.31, 90)),
]
_VALUES = np.arange(-128, 128).astype(np.int8)
_A, _B = np.repeat(_VALUES, 256).reshape(64, 1024), np.tile(_VALUES, 256).reshape(64, 1024)


def _spec(shape: Sequence[int], affine: Affine, name: str) -> TensorSpec:
    quant = Quantization(np.array([affine[0]], np.float32), np.array([affine[1]]))
    return TensorSpec(tuple(shape), DType.INT8, quant, None, name)


class _Graph:
    """Nodes in their device form, and what numpy makes of them: `values` by tensor."""

    def __init__(self, backend: str) -> None:
        self.device = device(backend)
        self.specs: list[TensorSpec] = []
        self.values: list[Array] = []
        self.items: list[Item] = []

    def given(self, value: Array, affine: Affine) -> int:
        self.specs.append(_spec(value.shape, affine, f"t{len(self.specs)}"))
        self.values.append(value)
        return len(self.specs) - 1

    def op(self, name: str, inputs: Sequence[int], affine: Affine) -> int:
        registration = find_builtin(name)
        assert registration is not None
        assert registration.lower is not None
        out = _spec(self.values[inputs[0]].shape, affine, f"t{len(self.specs)}")
        options = Options(fused_activation_function="NONE", pot_scale_int16=False)
        node = NodeSpec(name, [self.specs[i] for i in inputs], [out], options)
        lowered = registration.lower(node, self.device.capability)
        self.items.append(Item(node, inputs, [len(self.specs)], lowered))
        (value,) = Prepared(registration, node, [self.values[i] for i in inputs]).run()
        self.specs.append(out)
        self.values.append(value)
        return len(self.specs) - 1

    def check(self, inputs: Sequence[int], outputs: Sequence[int]) -> Plan:
        plan = Plan(self.device, self.items, inputs, outputs)
        got = {i: np.full_like(self.values[i], 77) for i in outputs}
        plan.run({i: self.values[i] for i in inputs}, got)
        for i, array in got.items():
            np.testing.assert_array_equal(array, self.values[i])
        return plan


@pytest.mark.parametrize("integers", [False, True], ids=["any", "integers"])
@pytest.mark.parametrize("backend", NAMES)
def test_all_pairs(backend: str, integers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the integer arithmetic that stands in where floats are not exact."""
    if integers:
        monkeypatch.setattr(_quantized_binary.Rescaled, "of_bytes", lambda *_: "")
    graph = _Graph(backend)
    outputs = []
    inputs = []
    for a, b, y in _SCALES:
        given = [graph.given(_A, a), graph.given(_B, b)]
        outputs += [graph.op(name, given, y) for name in ("ADD", "SUB", "MUL")]
        inputs += given
    vectors = []
    for item in graph.items:
        (step,) = item.lowered.steps
        assert isinstance(step, Map)
        vectors.append(step.vector)
    assert all("requantize_16" in v for v in vectors if v) if integers else any(vectors)
    graph.check(inputs, outputs)


@pytest.mark.parametrize("backend", NAMES)
def test_functions_of_a_byte_are_one_table(backend: str) -> None:
    graph = _Graph(backend)
    x = graph.given(_A, (0.05, 3))
    shown = graph.op("LOGISTIC", [x], (1 / 256, -128))
    silu = graph.op("MUL", [x, shown], (0.03, -100))
    last = graph.op("TANH", [graph.op("QUANTIZE", [silu], (0.06, 0))], (1 / 128, 0))
    plan = graph.check([x], [last])
    assert len(plan.kernels) == 1


@pytest.mark.parametrize("backend", NAMES)
def test_what_others_read_stays(backend: str) -> None:
    """An inner tensor that is an output, and one of two that a sum reads."""
    graph = _Graph(backend)
    x, other = graph.given(_A, (0.05, 3)), graph.given(_B, (0.04, 0))
    shown = graph.op("LOGISTIC", [x], (1 / 256, -128))
    silu = graph.op("MUL", [x, shown], (0.03, -100))
    total = graph.op("ADD", [silu, other], (0.07, 5))
    graph.check([x, other], [shown, silu, total])


@pytest.mark.parametrize("size", [1, 15, 16, 17, 255, 257, 1025])
@pytest.mark.parametrize("backend", NAMES)
def test_sizes(backend: str, size: int) -> None:
    graph = _Graph(backend)
    x = graph.given(_A.reshape(-1)[-size:].copy(), (0.05, 3))
    y = graph.given(_B.reshape(-1)[-size:].copy(), (0.04, 0))
    total = graph.op("ADD", [graph.op("LOGISTIC", [x], (1 / 256, -128)), y], (0.03, -100))
    graph.check([x, y], [total])


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("backend", NAMES)
def test_resizing_of_channels(backend: str, dtype: DType, half: bool) -> None:
    """About the width of vectors, to sizes that put weights at all kinds of places."""
    registration = find_builtin("RESIZE_BILINEAR")
    assert registration is not None
    assert registration.lower is not None
    target, rng = device(backend), np.random.default_rng(7)
    low, high = dtype.range()
    items, inputs, outputs = [], {}, {}
    for number, channels in enumerate((15, 16, 21, 32)):
        x = rng.integers(low, high + 1, (2, 7, 5, channels)).astype(dtype.numpy)
        quant = Quantization(np.array([0.1], np.float32), np.array([3]))
        size = np.array([12, 17], np.int32)
        specs = [
            TensorSpec(x.shape, dtype, quant, None, "x"),
            TensorSpec((2,), DType.INT32, None, size, "size"),
        ]
        out = TensorSpec((2, 12, 17, channels), dtype, quant, None, "y")
        options = Options(align_corners=False, half_pixel_centers=half)
        node = NodeSpec("RESIZE_BILINEAR", specs, [out], options)
        first = 10 * number
        lowered = registration.lower(node, target.capability)
        items.append(Item(node, [first, first + 1], [first + 2], lowered))
        inputs[first] = x
        (outputs[first + 2],) = Prepared(registration, node, [x, size]).run()
    got = {i: np.full_like(v, 77) for i, v in outputs.items()}
    Plan(target, items, list(inputs), list(outputs)).run(inputs, got)
    for i, array in got.items():
        np.testing.assert_array_equal(array, outputs[i])
