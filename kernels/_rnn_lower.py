"""The device forms of simple recurrent layers and of SVDF."""

from __future__ import annotations

import numpy as np

from ._hybrid import HybridWeights
from ._lower import values
from ._quant import quantize_multiplier
from ._recurrent import Weights, stored
from ._recurrent_lower import (
    Builder,
    activation_text,
    blocked,
    check_stateful,
    constants,
    dense,
    dense_integers,
    group_of,
    hybrid_macros,
    local_floats,
    output_map,
    padded,
    series,
    vector_macros,
    work_group,
)
from .api import NodeSpec
from .device import Capability, Kernel, Lowered, Map, Read
from .types import Array, DType


def weights_of(node: NodeSpec, i: int) -> Weights:
    array = stored(constants(node), i)
    if array.dtype.kind == "f":
        return array
    return HybridWeights(array, node.input(i).scale)


def add_layer(
    b: Builder,
    capability: Capability,
    inputs: tuple[int, int, int, int],
    x: tuple[int, int, int],
    time_major: bool,
    output: tuple[int, int, int],
    auxiliary: tuple[int, int] | None = None,
    backward: bool = False,
) -> None:
    """Adds the steps of one direction.

    `inputs`: numbers of the weights, the recurrent ones, the bias and the state. `x`: number of
    the input, steps, batch. `output`: its number, columns, first column. `auxiliary`: numbers of
    another input and of its weights.
    """
    node = b.node
    at_weights, at_recurrent, at_bias, at_state = inputs
    source, steps, batch = x
    weights, recurrent = weights_of(node, at_weights), weights_of(node, at_recurrent)
    units = node.input(at_weights).shape[0]
    added: list[tuple[str, int | Array]] = [("n", values(node.input(at_bias)))]
    if auxiliary is not None:
        more = b.add_scratch((steps * batch, units))
        other = weights_of(node, auxiliary[1])
        b.steps.append(
            dense(capability, auxiliary[0], steps * batch, other, b.write(more), node=node)
        )
        added.append((f"(r) * {units} + n", b.read(more)))
    early = b.add_scratch((steps * batch, units))
    b.steps.append(dense(capability, source, steps * batch, weights, b.write(early), added, node))
    macros = vector_macros(capability, "f32", "f32", units)
    group = group_of(capability, units)
    hybrid = isinstance(recurrent, HybridWeights)
    matrix = recurrent.matrix.T if isinstance(recurrent, HybridWeights) else recurrent
    reads: list[int | Array] = [b.read(early), at_state, blocked(matrix, macros, np.float32)]
    defines: dict[str, object] = {
        **macros,
        **work_group(capability, group),
        "STEPS": steps,
        "UNITS": units,
        "WIDE": padded(units, macros),
        "HYBRID": int(hybrid),
        "BACKWARD": int(backward),
        "EARLY": "IN0",
        "EARLY_ROW(t, row)": f"(t) * {batch} + (row)" if time_major else f"(row) * {steps} + (t)",
        "RECURRENT": "IN2",
        "ACTIVATE(v)": activation_text(node.options.fused_activation_function),
    }
    if isinstance(recurrent, HybridWeights):
        defines["RECURRENT_SCALE"] = "IN3"
        reads.append(np.broadcast_to(recurrent.scale, units).copy())
    local_floats(capability, units, padded(units, macros), units if hybrid else 0)
    result = b.add_scratch((batch, steps * units))
    rows, uses = hybrid_macros(node, hybrid)
    defines |= rows
    grid = (batch * group,)
    out = b.write(result)
    b.steps.append(Kernel("rnn", tuple(reads), grid, defines, uses, out, (group,)))
    shape, read = series(b.read(result), batch, steps, units, steps * units, time_major)
    b.steps.append(output_map(shape, read, *output))
    last = 0 if backward else (steps - 1) * units
    kept = Read(b.read(result), strides=(steps * units, 1), offset=last)
    b.states.append((at_state, Map("$0", (kept,), shape=(batch, units))))


def lower_svdf(node: NodeSpec, capability: Capability) -> Lowered:
    """What the filters say of the input joins the state; the output is a weighted sum over it."""
    check_stateful(node, capability)
    x, y, time = node.input(0), node.outputs[0], node.input(2)
    (batch, _), (filters, memory), units = x.shape, time.shape, y.shape[1]
    window = filters * memory // units
    integer = x.dtype is DType.INT8
    kind = DType.INT16 if integer else DType.FLOAT32
    b = Builder(node)
    seen, state = (
        b.add_scratch((batch, filters), kind),
        b.add_scratch((batch, filters, memory), kind),
    )
    if integer:
        first = quantize_multiplier(
            float(np.float32(x.scale) * np.float32(node.input(1).scale) / _scale(node, 4))
        )
        weights = values(node.input(1))
        finish = f"clamp_to((i64)multiply_quantized(v, {first[0]}, {first[1]}), -32768, 32767)"
        b.steps.append(
            dense_integers(capability, 0, batch, weights, x.zero_point, finish, b.write(seen))
        )
    else:
        b.steps.append(dense(capability, 0, batch, weights_of(node, 1), b.write(seen), node=node))
    row = (filters * memory, memory, 1)
    older = Read(4, strides=row, offset=1)
    b.steps += [
        Map("$0", (older,), output=b.write(state), shape=(batch, filters, memory - 1), strides=row),
        Map(
            "$0",
            (Read(b.read(seen)),),
            output=b.write(state),
            shape=(batch, filters),
            strides=row[:2],
            offset=memory - 1,
        ),
    ]
    if memory == 1:
        b.steps.pop(-2)
    b.steps.append(_window_sum(b, capability, b.read(state), units, window))
    b.states.append((4, Map("$0", (Read(b.read(state)),), shape=(batch, filters, memory))))
    return b.lowered()


def _scale(node: NodeSpec, i: int) -> np.float32:
    return np.float32(node.input(i).scale)


def _window_sum(b: Builder, capability: Capability, state: int, units: int, window: int) -> Kernel:
    node, y = b.node, b.node.outputs[0]
    bias = node.optional(3)
    reads: list[int | Array] = [state]
    if y.dtype is DType.INT8:
        f32 = np.float32
        scale = _scale(node, 4) * _scale(node, 2) / f32(y.scale)
        q, shift = quantize_multiplier(float(scale))
        reads.append(values(node.input(2)).reshape(-1))
        acc, total = "i64", "(v)"
        finish = (
            "clamp_to((i64)multiply_quantized((i32)({}), "
            f"{q}, {shift}) + {y.zero_point}, -128, 127)"
        )
    else:
        time = stored(constants(node), 2)
        real = time if time.dtype.kind == "f" else time * _scale(node, 2)
        reads.append(np.ascontiguousarray(real, np.float32).reshape(-1))
        acc, total = "f32", "(v)"
        finish = activation_text(node.options.fused_activation_function).replace("v", "{}")
    if bias is not None:
        total += f" + LOAD{len(reads)}(u)"
        reads.append(values(bias))
    defines = {
        "ACC": acc,
        "UNITS": units,
        "WINDOW": window,
        "COUNT": y.size,
        "FINISH(v, u)": f"({finish.format(total)})",
    }
    return Kernel("svdf", tuple(reads), (y.size,), defines, ("fixed",))
