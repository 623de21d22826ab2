"""The basic LSTM kernel: one matrix for all gates, state in and out, float32 or uint8.

Inputs: x [batch, depth], previous activation [batch, n], weights [4n, depth + n], bias [4n],
previous state [batch, n]. Outputs: activation, state, and two that are working memory: x and
activation side by side, and the gates input, cell, forget, output. The new activation and state
are written over the previous ones too.
"""

from __future__ import annotations

import numpy as np

from ._fixedpoint16 import logistic_table, multiply, tanh_table, times_pot
from ._lower import refuse, values
from ._matmul import exact_product, operand_type
from ._quant import quantize_multiplier
from ._recurrent_lower import Builder, check_stateful, dense, dense_integers
from .api import Binding, NodeSpec, Run, Shape, require, take
from .device import Capability, Kernel, Lowered, Map, Read
from .types import Array, DType

_FLOATS = (DType.FLOAT32,) * 9
# of the five inputs and the four outputs
_INTEGERS = (
    DType.UINT8,
    DType.UINT8,
    DType.UINT8,
    DType.INT32,
    DType.INT16,
    DType.UINT8,
    DType.INT16,
    DType.UINT8,
    DType.INT16,
)
STATE_SCALE = 2.0**-11  # 4 integer bits


def infer(node: NodeSpec) -> list[Shape]:
    require(
        (len(node.inputs), len(node.outputs)) == (5, 4),
        f"the basic kernel has 5 inputs and 4 outputs; the model gives it {len(node.inputs)} and "
        f"{len(node.outputs)}",
    )
    x, before, weights, bias, state = (node.input(i) for i in range(5))
    take(node, "input 0", x, DType.FLOAT32, DType.UINT8)
    types = _FLOATS if x.dtype is DType.FLOAT32 else _INTEGERS
    for i in range(5):
        take(node, f"input {i}", node.input(i), types[i])
    for i in range(4):
        take(node, f"output {i}", node.outputs[i], types[5 + i])
    require(x.rank == 2 and before.rank == 2, f"inputs 0 and 1 are {x} and {before}; taken: rank 2")
    batch, depth = x.shape
    n = before.shape[1]
    for i, spec, shape in (
        (1, before, (batch, n)),
        (2, weights, (4 * n, depth + n)),
        (3, bias, (4 * n,)),
        (4, state, (batch, n)),
    ):
        require(spec.shape == shape, f"input {i} is {spec}; taken: {list(shape)}")
    if x.dtype is DType.UINT8:
        scale = node.outputs[1].scale
        require(
            abs(scale / STATE_SCALE - 1) < 1e-3,
            f"the state has the scale {scale}; taken with uint8: 2^-11",
        )
    return [(batch, n), (batch, n), (batch, depth + n), (batch, 4 * n)]


def bind(b: Binding) -> Run:
    x, before, state = b.xi(0), b.xi(1), b.xi(4)
    joined = b.y[2]
    step = _float_step(b) if b.input(0).dtype is DType.FLOAT32 else _integer_step(b)
    depth = x.shape[1]

    def run() -> None:
        np.copyto(joined[:, :depth], x)
        np.copyto(joined[:, depth:], before)
        step()
        np.copyto(before, b.y[0])
        np.copyto(state, b.y[1])

    return run


def _float_step(b: Binding) -> Run:
    before, sums = b.xi(4), b.y[3]
    activation, state = b.y[0], b.y[1]
    batch, n = before.shape
    gates = b.scratch(sums.shape)
    i, g, f, o = (gates[:, k * n : (k + 1) * n] for k in range(4))
    spare = b.scratch((batch, n))
    half = np.float32(0.5)

    def run() -> None:
        np.matmul(b.y[2], b.xi(2).T, out=sums)
        np.add(sums, b.xi(3), out=sums)
        np.copyto(gates, sums)
        for gate in (i, f, o):  # sigmoid(x) = tanh(x / 2) / 2 + 1/2
            np.multiply(gate, half, out=gate)
        np.tanh(gates, out=gates)
        for gate in (i, f, o):
            np.multiply(gate, half, out=gate)
            np.add(gate, half, out=gate)
        np.multiply(i, g, out=spare)
        np.multiply(f, before, out=state)
        np.add(state, spare, out=state)
        np.tanh(state, out=activation)
        np.multiply(activation, o, out=activation)

    return run


def _integer_step(b: Binding) -> Run:
    before, gates = b.xi(4), b.y[3]
    n = before.shape[1]
    zero = b.input(2).zero_point
    largest = 128 * max(zero, 255 - zero)
    depth = b.y[2].shape[1]
    kind = operand_type(depth, largest)
    values = b.scratch(b.y[2].shape, kind)
    total = b.scratch(gates.shape, np.int64)
    weights, constant = b.xi(2), b.input(2).const is not None
    packed = b.scratch(weights.shape, kind)
    if constant:
        packed = b.once("weights", lambda: weights.astype(kind) - kind.type(zero))
    product = exact_product(values, packed.T, total, largest, b.scratch)
    q, shift = quantize_multiplier(4096 * b.input(3).scale)
    left, right = max(shift, 0), max(-shift, 0)
    logistic, tanh = logistic_table(), tanh_table(3)

    def run() -> None:
        np.subtract(b.y[2], kind.type(128), out=values)
        if not constant:
            np.subtract(weights, kind.type(zero), out=packed)
        product()
        # rounded twice, halves upwards, as the matrix library under the reference does it
        high = (((total + b.xi(3)) << left) * q + (1 << 30)) >> 31
        scaled = (high + (1 << right >> 1)) >> right
        np.clip(scaled, -32768, 32767, out=gates, casting="unsafe")
        i, f, o = (_looked_up(logistic, gates[:, k * n : (k + 1) * n]) for k in (0, 2, 3))
        g = _looked_up(tanh, gates[:, n : 2 * n])
        kept = multiply(f, before.astype(np.int64))
        state = np.clip(times_pot(multiply(i, g), -4) + kept, -32768, 32767)
        squashed = _looked_up(tanh, times_pot(state, 1))
        result = times_pot(multiply(o, squashed), -8)
        np.copyto(b.y[1], state, casting="unsafe")
        np.clip(result + 128, 0, 255, out=b.y[0], casting="unsafe")

    return run


def _looked_up(table: Array, index: Array) -> Array:
    return np.asarray(table.take(index, mode="wrap"), np.int64)


# -- devices


def lower(node: NodeSpec, capability: Capability) -> Lowered:
    """The gates' sums are output 3; the rest is one expression each."""
    check_stateful(node, capability)
    x, before = node.input(0), node.input(1)
    (batch, depth), n = x.shape, before.shape[1]
    wide = depth + n
    if not before.variable or not node.input(4).variable:
        refuse("OPTION", "an activation or a state that is no variable", "variables")
    b = Builder(node)
    activation, state, joined, sums = (len(node.inputs) + i for i in range(4))
    b.steps += [
        Map(
            "$0",
            (Read(source),),
            shape=(batch, columns),
            output=2,
            strides=(wide, 1),
            offset=offset,
        )
        for source, columns, offset in ((0, depth, 0), (1, n, depth))
    ]
    gate_i, gate_g, gate_f, gate_o = (
        Read(sums, strides=(4 * n, 1), offset=k * n) for k in range(4)
    )
    integer = x.dtype is DType.UINT8
    gates = _integer_gates if integer else _float_gates
    b.steps.append(gates(node, capability, joined, batch))
    cell, result = _INTEGER_CELL if integer else _FLOAT_CELL
    tables = (logistic_table(), tanh_table(3)) if integer else ()
    uses = ("fixed", "fixed16")
    of_cell, of_result = (gate_i, gate_g, gate_f, Read(4)), (Read(state), gate_o)
    b.steps += [
        Map(cell, of_cell, tables, uses, output=1, shape=(batch, n)),
        Map(result, of_result, tables, uses, shape=(batch, n)),
    ]
    b.states += [(1, Map("$0", (Read(activation),))), (4, Map("$0", (Read(state),)))]
    return b.lowered()


def _opened(gate: str) -> str:
    return f"(F_TANH({gate} * 0.5f) * 0.5f + 0.5f)"


# the cell of gates input, cell, forget and the cell before; the activation of cell and output gate
_FLOAT_CELL = (
    f"{_opened('$0')} * F_TANH($1) + {_opened('$2')} * $3",
    f"F_TANH($0) * {_opened('$1')}",
)
_INTEGER_CELL = (
    "clamp_to(shifted_right_16(times_16(@0[(u16)$0], @1[(u16)$1]), 4) "
    "+ times_16(@0[(u16)$2], $3), -32768, 32767)",
    "clamp_to(shifted_right_16(times_16(@0[(u16)$1], "
    "@1[(u16)clamp_to(2 * $0, -32768, 32767)]), 8) + 128, 0, 255)",
)


def _float_gates(node: NodeSpec, capability: Capability, joined: int, batch: int) -> Kernel:
    bias = values(node.input(3))
    return dense(capability, joined, batch, values(node.input(2)), 3, [("n", bias)])


def _integer_gates(node: NodeSpec, capability: Capability, joined: int, batch: int) -> Kernel:
    """Rounded twice, halves upwards: see `_integer_step`."""
    weights = values(node.input(2)).astype(np.int16) - np.int16(node.input(2).zero_point)
    q, shift = quantize_multiplier(4096 * node.input(3).scale)
    left, right = max(shift, 0), max(-shift, 0)
    high = f"(((((i64)(v) + LOAD3(n)) << {left}) * {q} + ((i64)1 << 30)) >> 31)"
    finish = f"clamp_to(({high} + {(1 << right) >> 1}) >> {right}, -32768, 32767)"
    bias = (values(node.input(3)),)
    return dense_integers(capability, joined, batch, weights, 128, finish, 3, bias)
