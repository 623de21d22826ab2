"""LSTM, UNIDIRECTIONAL_SEQUENCE_LSTM and BIDIRECTIONAL_SEQUENCE_LSTM."""

from __future__ import annotations

import numpy as np

from . import _lstm_basic, _lstm_float, _lstm_integer, _lstm_integer8, _lstm_integer_lower
from ._check import scaled
from ._lower import refuse
from ._lstm_float_lower import add_layer
from ._lstm_layout import (
    AUXILIARY_INPUT,
    BACKWARD,
    FORWARD,
    UNIDIRECTIONAL,
    check,
    present,
    sizes,
)
from ._recurrent import sequence
from ._recurrent_lower import Builder, check_stateful
from .api import Binding, NodeSpec, Run, Shape, op, require, take
from .device import Capability, Lowered
from .types import Array, DType

_FLOAT_OR_INT8 = (DType.FLOAT32, DType.INT8)


def _infer_unidirectional(node: NodeSpec) -> list[Shape]:
    x = node.input(0)
    take(node, "input 0", x, *_FLOAT_OR_INT8)
    take(node, "output", node.outputs[0], x.dtype)
    rank = 2 if node.op == "LSTM" else 3
    require(x.rank == rank, f"input 0 is {x}; {node.op} takes rank {rank}")
    count = len(node.inputs)
    require(count in (20, 24), f"{node.op} takes 20 or 24 inputs; {count} are given")
    batch = x.shape[1] if rank == 3 and node.options.time_major else x.shape[0]
    s = check(node, UNIDIRECTIONAL, batch, x.shape[-1])
    if x.dtype is DType.INT8:
        scaled(node, x, node.input(UNIDIRECTIONAL.output_state), node.outputs[0])
        given = len(node.intermediates)
        taken = (5, 12) if node.op == "LSTM" else (5,)
        require(
            given in taken,
            f"{given} intermediate tensors; {node.op} has {' or '.join(map(str, taken))} with int8",
        )
        if given == 12:
            _lstm_integer8.check(node, UNIDIRECTIONAL, s)
        else:
            _lstm_integer.cell_exponent(node, UNIDIRECTIONAL)
    return [(*x.shape[:-1], s.outputs)]


def _bind_unidirectional(b: Binding) -> Run:
    x, y = b.xi(0), b.y[0]
    if b.op == "LSTM":
        x, y = x[None], y[None]
    else:
        x, y = (sequence(a, b.options.time_major) for a in (x, y))
    s = sizes(b, UNIDIRECTIONAL)
    if x.dtype == np.int8:
        if len(b.intermediates) == 12:
            return _lstm_integer8.layer(b, UNIDIRECTIONAL, s, x, y)
        return _lstm_integer.layer(b, UNIDIRECTIONAL, s, x, y)
    return _lstm_float.layer(b, UNIDIRECTIONAL, s, x, None, y)


def _infer_bidirectional(node: NodeSpec) -> list[Shape]:
    x = node.input(0)
    take(node, "input 0", x, DType.FLOAT32)
    require(x.rank == 3, f"input 0 is {x}; {node.op} takes rank 3")
    require(len(node.inputs) == 48, f"{node.op} takes 48 inputs; {len(node.inputs)} are given")
    merged = node.options.merge_outputs
    require(
        len(node.outputs) == (1 if merged else 2),
        f"merge_outputs is {merged}, but there are {len(node.outputs)} outputs",
    )
    for i, out in enumerate(node.outputs):
        take(node, f"output {i}", out, DType.FLOAT32)
    batch = x.shape[1 if node.options.time_major else 0]
    auxiliary = node.optional(AUXILIARY_INPUT)
    if auxiliary is not None:
        take(node, f"input {AUXILIARY_INPUT}", auxiliary, DType.FLOAT32)
        require(
            auxiliary.rank == 3 and auxiliary.shape[:2] == x.shape[:2],
            f"input {AUXILIARY_INPUT} is {auxiliary}; taken: {[*x.shape[:2]]} and a depth",
        )
    outputs = []
    for at in (FORWARD, BACKWARD):
        weighted = node.optional(at.auxiliary[3]) is not None
        other = auxiliary is not None and not weighted and at is BACKWARD
        depth = auxiliary.shape[2] if other and auxiliary is not None else x.shape[2]
        s = check(node, at, batch, depth)
        outputs.append(s.outputs)
        for g in present(s) if weighted else ():
            spec = node.input(at.auxiliary[g])
            want = (s.cells, auxiliary.shape[2] if auxiliary is not None else -1)
            take(node, f"input {at.auxiliary[g]}", spec, node.input(at.inputs[3]).dtype)
            require(
                spec.shape == want,
                f"input {at.auxiliary[g]} is {spec}; taken: {s.cells} cells by the depth of the "
                f"auxiliary input, input {AUXILIARY_INPUT}",
            )
    if merged:
        return [(*x.shape[:2], sum(outputs))]
    return [(*x.shape[:2], n) for n in outputs]


def _bind_bidirectional(b: Binding) -> Run:
    x = b.xi(0)
    auxiliary = None if b.optional(AUXILIARY_INPUT) is None else b.xi(AUXILIARY_INPUT)
    forward, backward = sizes(b, FORWARD), sizes(b, BACKWARD)
    outputs = list(b.y)
    if b.options.merge_outputs:
        outputs = [b.y[0][..., : forward.outputs], b.y[0][..., forward.outputs :]]

    def ordered(a: Array) -> Array:
        return sequence(a, b.options.time_major)

    weighted = b.optional(FORWARD.auxiliary[3]) is not None
    # without weights of its own the auxiliary input is what the backward layer reads
    other = auxiliary if auxiliary is not None and not weighted else x
    added = ordered(auxiliary) if auxiliary is not None and weighted else None
    first = _lstm_float.layer(b, FORWARD, forward, ordered(x), added, ordered(outputs[0]))
    second = _lstm_float.layer(
        b, BACKWARD, backward, ordered(other), added, ordered(outputs[1]), backward=True
    )

    def run() -> None:
        first()
        second()

    return run


def _basic(node: NodeSpec | Binding) -> bool:
    return bool(node.options.kernel_type == "BASIC")


def _infer_lstm(node: NodeSpec) -> list[Shape]:
    return _lstm_basic.infer(node) if _basic(node) else _infer_unidirectional(node)


def _bind_lstm(b: Binding) -> Run:
    return _lstm_basic.bind(b) if _basic(b) else _bind_unidirectional(b)


# -- devices


def _lower_unidirectional(node: NodeSpec, capability: Capability) -> Lowered:
    check_stateful(node, capability)
    x, s = node.input(0), sizes(node, UNIDIRECTIONAL)
    time_major = node.op != "LSTM" and node.options.time_major
    steps, batch = (1, x.shape[0]) if node.op == "LSTM" else _counts(node)
    b = Builder(node)
    if x.dtype is DType.INT8:
        if len(node.intermediates) == 12:
            refuse("QUANT", "gate sums of 8 bits", "those of 16 bits")
        _lstm_integer_lower.add_layer(b, capability, UNIDIRECTIONAL, s, (steps, batch), time_major)
        return b.lowered()
    add_layer(b, capability, UNIDIRECTIONAL, s, (0, steps, batch), time_major, (0, s.outputs, 0))
    return b.lowered()


def _counts(node: NodeSpec) -> tuple[int, int]:
    """Steps and batch."""
    first, second = node.input(0).shape[:2]
    return (first, second) if node.options.time_major else (second, first)


def _lower_bidirectional(node: NodeSpec, capability: Capability) -> Lowered:
    check_stateful(node, capability)
    o = node.options
    steps, batch = _counts(node)
    forward, backward = sizes(node, FORWARD), sizes(node, BACKWARD)
    auxiliary = None if node.optional(AUXILIARY_INPUT) is None else AUXILIARY_INPUT
    weighted = node.optional(FORWARD.auxiliary[3]) is not None
    # without weights of its own the auxiliary input is what the backward layer reads
    other = auxiliary if auxiliary is not None and not weighted else 0
    added = auxiliary if weighted else None
    if o.merge_outputs:
        whole = forward.outputs + backward.outputs
        first, second = (0, whole, 0), (0, whole, forward.outputs)
    else:
        first, second = (0, forward.outputs, 0), (1, backward.outputs, 0)
    b = Builder(node)
    add_layer(b, capability, FORWARD, forward, (0, steps, batch), o.time_major, first, added)
    add_layer(
        b,
        capability,
        BACKWARD,
        backward,
        (other, steps, batch),
        o.time_major,
        second,
        added,
        backward=True,
    )
    return b.lowered()


def _lower_lstm(node: NodeSpec, capability: Capability) -> Lowered:
    if _basic(node):
        return _lstm_basic.lower(node, capability)
    return _lower_unidirectional(node, capability)


OPS = {
    "LSTM": op("LSTM", _infer_lstm, _bind_lstm, versions=(1, 4), pure=False, lower=_lower_lstm),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": op(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        _infer_unidirectional,
        _bind_unidirectional,
        versions=(1, 4),
        pure=False,
        lower=_lower_unidirectional,
    ),
    "BIDIRECTIONAL_SEQUENCE_LSTM": op(
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        _infer_bidirectional,
        _bind_bidirectional,
        versions=(1, 3),
        pure=False,
        lower=_lower_bidirectional,
    ),
}
