"""SVDF: a dense layer of low rank over a window of time.

Inputs: x [batch, depth], feature weights [filters, depth], time weights [filters, memory], bias
[units] or none, state [batch, filters * memory]. filters = units * rank. The state holds what each
filter said of the last `memory` inputs, the newest last.
"""

from __future__ import annotations

import numpy as np

from ._activation import activation
from ._check import scaled
from ._hybrid import HybridWeights
from ._matmul import exact_product, operand_type
from ._quant import multiply_by_quantized_multiplier, quantize_multiplier
from ._recurrent import Weights, multiply, quantizer, stored
from .api import Binding, NodeSpec, Run, Shape, require, take
from .types import Array, DType


def infer(node: NodeSpec) -> list[Shape]:
    x, feature, time, bias = node.input(0), node.input(1), node.input(2), node.optional(3)
    state, rank = node.input(4), node.options.rank
    take(node, "input 0", x, DType.FLOAT32, DType.INT8)
    integer = x.dtype is DType.INT8
    if integer:
        take(node, "input 1", feature, DType.INT8)
        take(node, "input 2", time, DType.INT16)
        name = node.options.fused_activation_function
        require(name == "RELU", f"fused activation {name}; taken with int8: RELU")
    else:
        take(node, "input 1", feature, DType.FLOAT32, DType.INT8, DType.UINT8)
        take(node, "input 2", time, feature.dtype)
    take(node, "output", node.outputs[0], x.dtype)
    require(x.rank == 2, f"input 0 is {x}; taken: [batch, depth]")
    batch, depth = x.shape
    require(
        feature.rank == 2 and feature.shape[1] == depth,
        f"input 1 is {feature}; taken: [filters, {depth}]",
    )
    filters = feature.shape[0]
    require(rank > 0 and filters % rank == 0, f"the rank {rank} does not divide {filters} filters")
    require(
        time.rank == 2 and time.shape[0] == filters,
        f"input 2 is {time}; taken: [{filters}, memory]",
    )
    units = filters // rank
    if bias is not None:
        take(node, "input 3", bias, DType.INT32 if integer else DType.FLOAT32)
        require(bias.shape == (units,), f"input 3 is {bias}; taken: [{units}]")
    take(node, "input 4", state, DType.INT16 if integer else DType.FLOAT32)
    want = (batch, time.shape[1] * filters)
    require(state.shape == want, f"input 4 is {state}; taken: {list(want)}")
    if integer:
        scaled(node, x, feature, time, state, node.outputs[0])
    require(state.variable, f"input 4 is no variable; {node.op} keeps its state there")
    return [(batch, units)]


def bind(b: Binding) -> Run:
    x, time = b.xi(0), b.xi(2)
    batch, (filters, memory) = x.shape[0], time.shape
    state = b.xi(4).reshape(batch, filters, memory)
    older, newer = state[..., :-1], state[..., 1:]
    moved = b.scratch(older.shape, state.dtype)
    step = (_integer if x.dtype == np.int8 else _float)(b, state)

    def run() -> None:
        np.copyto(moved, newer)
        np.copyto(older, moved)
        step()

    return run


def _window(b: Binding, state: Array) -> Array:
    """The state with rank and time in one dimension: [batch, units, rank * memory]."""
    return state.reshape(state.shape[0], b.y[0].shape[1], -1)


def _float(b: Binding, state: Array) -> Run:
    x, y, newest = b.xi(0), b.y[0], state[..., -1]
    window = _window(b, state)
    product, seen = b.scratch(window.shape), b.scratch(newest.shape)
    quantize = quantizer(b, 1, *x.shape)
    act = activation(b.options.fused_activation_function)
    constant = all(b.input(i).const is not None for i in (1, 2))

    def pack() -> tuple[Weights, Array]:
        feature, time = stored(b, 1), stored(b, 2).reshape(window.shape[1:])
        if feature.dtype.kind == "f":
            return feature, time
        real = time * np.float32(b.input(2).scale)
        return HybridWeights(feature, b.input(1).scale), real

    packed = b.once("weights", pack) if constant else None

    def run() -> None:
        feature, time = packed if packed is not None else pack()
        multiply(feature, x, seen, quantize)
        np.copyto(newest, seen)
        np.multiply(window, time, out=product)
        np.sum(product, axis=-1, out=y)
        if b.optional(3) is not None:
            np.add(y, b.xi(3), out=y)
        act(y)

    return run


def _integer(b: Binding, state: Array) -> Run:
    """Exact to the bit: int16 state, sums of int32, two requantisations."""
    x, y, newest = b.xi(0), b.y[0], state[..., -1]
    f32 = np.float32
    scales = [f32(s.scale) for s in (b.input(0), b.input(1), b.input(4), b.input(2), b.outputs[0])]
    first = quantize_multiplier(float(scales[0] * scales[1] / scales[2]))
    second = quantize_multiplier(float(scales[2] * scales[3] / scales[4]))
    zero, low_zero = b.outputs[0].zero_point, b.input(0).zero_point
    largest = 128 * max(low_zero + 128, 127 - low_zero)
    kind = operand_type(x.shape[1], largest)
    values, total = b.scratch(x.shape, kind), b.scratch(newest.shape, np.int64)
    constant = b.input(1).const is not None

    def pack() -> Array:
        return b.xi(1).T.astype(kind)

    weights = b.once("weights", pack) if constant else b.scratch(b.xi(1).T.shape, kind)
    product = exact_product(values, weights, total, largest, b.scratch)
    window, time = _window(b, state), b.xi(2)
    products = b.scratch(window.shape, np.int64)
    sums = b.scratch(y.shape, np.int64)

    def run() -> None:
        np.subtract(x, kind.type(low_zero), out=values)
        if not constant:
            np.copyto(weights, b.xi(1).T)
        product()
        seen = multiply_by_quantized_multiplier(total, *first)
        np.clip(seen, -32768, 32767, out=newest, casting="unsafe")
        np.multiply(window, time.reshape(window.shape[1:]), out=products, dtype=np.int64)
        np.sum(products, axis=-1, out=sums)
        if b.optional(3) is not None:
            np.add(sums, b.xi(3), out=sums)
        scaled = multiply_by_quantized_multiplier(sums, *second)
        np.clip(scaled + zero, -128, 127, out=y, casting="unsafe")

    return run
