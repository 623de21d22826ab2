"""Random numbers: RANDOM_UNIFORM, RANDOM_STANDARD_NORMAL, MULTINOMIAL, STABLEHLO_RNG_BIT_GENERATOR.

With seeds, the numbers are TensorFlow Lite's to the bit (up to the last one of sine and logarithm);
each invoke goes on where the one before it ended, and allocation starts anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ._check import arity, gives
from ._counter_rng import (
    Philox,
    counters_from,
    normal_floats,
    philox,
    threefry,
    unit_doubles,
    unit_floats,
)
from .api import (
    Binding,
    Context,
    Node,
    NodeSpec,
    OpError,
    Registration,
    Run,
    Shape,
    Tensor,
    op,
    take,
)
from .types import Array, DType


class _State:
    """What a node keeps between invokes."""

    generator = Philox((0, 0), 0)


def _init(context: Context, options: Any) -> _State:
    return _State()


def _input(node: Node, i: int) -> Tensor:
    tensor = node.inputs[i] if i < len(node.inputs) else None
    if tensor is None:
        raise OpError(f"{node.op} needs input {i}, which is absent")
    return tensor


def _prepare(context: Context, node: Node) -> None:
    spec = node.spec
    arity(spec, 1)
    shape = spec.input(0)
    take(spec, "the shape", shape, DType.INT32)
    gives(spec, DType.FLOAT32)
    if shape.rank != 1:
        raise OpError(f"the shape {shape.name!r} has {shape.rank} dimensions; {spec.op} takes one")
    node.user_data.generator = Philox.seeded(int(node.options.seed), int(node.options.seed2))
    if shape.const is None:
        context.set_dynamic(node.outputs[0])
    else:
        context.resize(node.outputs[0], _dimensions(shape.const))


def _dimensions(values: Array) -> Shape:
    shape = tuple(int(d) for d in values)
    if any(d < 0 for d in shape):
        raise OpError(f"shape {list(shape)} has a negative dimension")
    return shape


def _uniform(generator: Philox, y: Array) -> None:
    y[...] = unit_floats(generator.draw(y.size)).reshape(y.shape)


def _normal(generator: Philox, y: Array) -> None:
    bits = generator.draw(y.size + y.size % 2)
    y[...] = normal_floats(bits)[: y.size].reshape(y.shape)


def _invoke(fill: Callable[[Philox, Array], None]) -> Callable[[Context, Node], None]:
    def invoke(context: Context, node: Node) -> None:
        output = node.outputs[0]
        if output.is_dynamic:
            context.resize(output, _dimensions(_input(node, 0).array))
        fill(node.user_data.generator, output.array)

    return invoke


# -- MULTINOMIAL


def _prepare_multinomial(context: Context, node: Node) -> None:
    spec = node.spec
    arity(spec, 2)
    logits, samples = spec.input(0), spec.input(1)
    take(spec, "the logits", logits, DType.FLOAT32)
    take(spec, "the number of samples", samples, DType.INT32)
    gives(spec, DType.INT32, DType.INT64)
    if logits.rank != 2 or logits.shape[1] == 0 or samples.rank != 0:
        raise OpError(
            f"logits {list(logits.shape)} and a number of samples {list(samples.shape)}; "
            "MULTINOMIAL takes [batch, classes], with one class or more, and a scalar"
        )
    node.user_data.generator = Philox.seeded(int(node.options.seed), int(node.options.seed2))
    if samples.const is None:
        context.set_dynamic(node.outputs[0])
    else:
        context.resize(node.outputs[0], (logits.shape[0], _count(samples.const)))


def _count(samples: Array) -> int:
    count = int(samples)
    if count < 0:
        raise OpError(f"MULTINOMIAL is to draw {count} samples")
    return count


def _invoke_multinomial(context: Context, node: Node) -> None:
    logits, output = _input(node, 0).array, node.outputs[0]
    if output.is_dynamic:
        context.resize(output, (logits.shape[0], _count(_input(node, 1).array)))
    y, generator = output.array, node.user_data.generator
    batch, samples = y.shape
    start = Philox(generator.key, generator.counter)
    # each invoke takes a fixed share of the sequence, whatever it uses
    generator.skip(batch * (-(-samples // 4) * 4) * 2 * 256)
    draws = unit_doubles(start.draw(2 * y.size).reshape(-1, 2)).reshape(y.shape)
    finite = np.isfinite(logits)
    lowest = np.finfo(np.float32).min
    most = np.max(logits, axis=1, keepdims=True, where=finite, initial=lowest).astype(np.float64)
    weights = np.where(finite, np.exp(np.where(finite, logits, 0) - most), 0.0)
    cumulative = np.cumsum(weights, axis=1)
    for row, draw, out in zip(cumulative, draws, y, strict=True):
        out[...] = np.searchsorted(row, draw * row[-1], side="right")


# -- STABLEHLO_RNG_BIT_GENERATOR


def _infer_bits(node: NodeSpec) -> list[Shape]:
    arity(node, 1, 2)
    state = node.input(0)
    take(node, "the state", state, DType.UINT64)
    gives(node, DType.UINT64)
    gives(node, DType.INT32, DType.UINT32, DType.INT64, DType.UINT64, output=1)
    lengths = (2,) if _is_threefry(node) else (2, 3)
    if state.rank != 1 or state.shape[0] not in lengths:
        raise OpError(
            f"a state of shape {list(state.shape)}; {node.options.algorithm} takes one of "
            f"{' or '.join(map(str, lengths))} elements"
        )
    return [state.shape, node.outputs[1].shape]


def _is_threefry(node: NodeSpec | Binding) -> bool:
    name = str(node.options.algorithm)
    if name not in ("THREEFRY", "PHILOX", "DEFAULT"):
        raise OpError(f"algorithm {name}; taken: THREEFRY, PHILOX, DEFAULT")
    return name == "THREEFRY"


def _bind_bits(b: Binding) -> Run | None:
    state, after, y = b.xi(0), b.y[0], b.y[1].reshape(-1).view(np.uint32)
    generate, words = (threefry, 2) if _is_threefry(b) else (philox, 4)

    def run() -> None:
        blocks = -(-y.size // words)
        key = int(state[0])
        # only the lower 64 bits count up
        counters = np.empty((blocks, words), np.uint32)
        counters[:, :2] = counters_from(int(state[1]), blocks, 2)
        counters[:, 2:] = state[2 if state.size == 3 else 0 :][:1].view(np.uint32)[: words - 2]
        y[...] = generate((key & 0xFFFFFFFF, key >> 32), counters).reshape(-1)[: y.size]
        after[...] = state
        after[1] = (int(state[1]) + blocks) & ((1 << 64) - 1)

    return run


OPS: Mapping[str, Registration] = {
    "RANDOM_UNIFORM": Registration(
        name="RANDOM_UNIFORM", init=_init, prepare=_prepare, invoke=_invoke(_uniform)
    ),
    "RANDOM_STANDARD_NORMAL": Registration(
        name="RANDOM_STANDARD_NORMAL", init=_init, prepare=_prepare, invoke=_invoke(_normal)
    ),
    "MULTINOMIAL": Registration(
        name="MULTINOMIAL",
        init=_init,
        prepare=_prepare_multinomial,
        invoke=_invoke_multinomial,
    ),
    "STABLEHLO_RNG_BIT_GENERATOR": op("STABLEHLO_RNG_BIT_GENERATOR", _infer_bits, _bind_bits),
}
