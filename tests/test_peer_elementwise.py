"""Quantised elementwise ops against ai-edge-litert's reference, on random scales and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from litedelegate import Interpreter, ModelBuilder
from litedelegate.kernels.types import Array, DType

peer = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")

pytestmark = pytest.mark.filterwarnings("ignore::litedelegate.PositionalInputWarning")
SEEDS = range(4)
# output quantisation that the reference insists on
FIXED = {
    ("LOGISTIC", "int8"): (1 / 256, -128),
    ("LOGISTIC", "uint8"): (1 / 256, 0),
    ("LOGISTIC", "int16"): (1 / 32768, 0),
    ("TANH", "int16"): (1 / 32768, 0),
    ("SOFTMAX", "int8"): (1 / 256, -128),
    ("SOFTMAX", "uint8"): (1 / 256, 0),
    ("SOFTMAX", "int16"): (1 / 32768, 0),
    ("LOG_SOFTMAX", "int8"): (16 / 256, 127),
    ("LOG_SOFTMAX", "uint8"): (16 / 256, 255),
    ("L2_NORMALIZATION", "int8"): (1 / 128, 0),
    ("L2_NORMALIZATION", "uint8"): (1 / 128, 128),
}


@dataclass(frozen=True)
class Op:
    name: str
    dtypes: Sequence[str]
    version: int
    options: dict[str, Any] = field(default_factory=dict)
    inputs: int = 1


NONE = {"fused_activation_function": "NONE"}
SUM = {"fused_activation_function": "RELU6", "pot_scale_int16": False}
BYTES, ALL = ("int8", "uint8"), ("int8", "uint8", "int16")
OPS = [
    Op("ADD", ALL, 3, SUM, 2),
    Op("SUB", ALL, 5, SUM, 2),
    Op("MUL", ALL, 4, {"fused_activation_function": "RELU"}, 2),
    Op("SQUARED_DIFFERENCE", ("int8",), 2, {}, 2),
    Op("LESS", BYTES, 2, {}, 2),
    Op("EQUAL", ALL, 4, {}, 2),
    Op("LOGISTIC", ALL, 3),
    Op("TANH", ALL, 3),
    Op("RELU", ALL, 3),
    Op("RELU6", ALL, 3),
    Op("LEAKY_RELU", ALL, 2, {"alpha": 0.3}),
    Op("HARD_SWISH", BYTES, 1),
    Op("GELU", ALL, 2, {"approximate": False}),
    Op("EXP", ("int8", "int16"), 2),
    Op("LOG", ("int8", "int16"), 2),
    Op("ABS", ("int8", "int16"), 3),
    Op("QUANTIZE", ALL, 3),
    Op("SOFTMAX", ALL, 3, {"beta": 1.5}),
    Op("LOG_SOFTMAX", BYTES, 2),
    Op("L2_NORMALIZATION", BYTES, 2, NONE),
]


def quantisation(rng: np.random.Generator, dtype: str) -> tuple[float, int]:
    low, high = DType[dtype.upper()].range()
    scale = float(np.float32(2.0 ** rng.uniform(-8, -1)))
    return scale, 0 if dtype == "int16" else int(rng.integers(low, high))


def run(make: Any, model: bytes, inputs: Sequence[Array], **more: Any) -> Array:
    interpreter = make(model_content=model, **more)
    interpreter.allocate_tensors()
    for details, x in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(details["index"], x)
    interpreter.invoke()
    result: Array = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return result


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("op", "dtype"), [pytest.param(o, d, id=f"{o.name}-{d}") for o in OPS for d in o.dtypes]
)
def test_integers_equal_the_reference(op: Op, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 9, 4))
    shapes = [shape, tuple(n if rng.random() < 0.6 else 1 for n in shape)][: op.inputs]
    kind = np.dtype(dtype)
    limits = np.iinfo(kind)
    inputs = [rng.integers(limits.min, limits.max + 1, s).astype(kind) for s in shapes]
    builder = ModelBuilder()
    graph = builder.subgraph("main")
    tensors = []
    for i, s in enumerate(shapes):
        scale, zero = quantisation(rng, dtype)
        if op.name in ("LESS", "EQUAL") and i:
            scale, zero = 0.125, zero  # scales of 1 and more abort the peer
        tensors.append(graph.input(f"x{i}", s, dtype, scale=scale, zero_point=zero))
    if op.name in ("LESS", "EQUAL"):
        y = graph.tensor("y", shape, "bool")
    else:
        scale, zero = FIXED.get((op.name, dtype)) or quantisation(rng, dtype)
        y = graph.tensor("y", shape, dtype, scale=scale, zero_point=zero)
    graph.outputs(graph.op(op.name, tensors, out=y, version=op.version, **op.options))
    model = builder.build()
    reference = peer.OpResolverType.BUILTIN_REF
    want = run(peer.Interpreter, model, inputs, experimental_op_resolver_type=reference)
    np.testing.assert_array_equal(run(Interpreter, model, inputs), want)
