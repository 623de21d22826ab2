"""RNN and its sequences, and SVDF.

Faults of the reference's BIDIRECTIONAL_SEQUENCE_RNN that are not repeated here: it steps through an
auxiliary input by the depth of the other one; time-major with integer weights it runs the whole
sequence once for each step; batch-major it never reads an auxiliary input without weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ._activation import activation
from ._hybrid import HybridWeights
from ._recurrent import Weights, by_steps, multiply, quantizer, rows, sequence, stored
from ._recurrent_lower import Builder, check_stateful
from ._rnn_lower import add_layer, lower_svdf
from ._svdf import bind as bind_svdf
from ._svdf import infer as infer_svdf
from .api import Binding, NodeSpec, Run, Shape, op, require, take
from .device import Capability, Lowered
from .types import Array, DType

_WEIGHTS = (DType.FLOAT32, DType.INT8, DType.UINT8)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Input numbers of one direction."""

    weights: int
    recurrent: int
    bias: int
    state: int
    auxiliary: int = -1


_ONE = _Layout(1, 2, 3, 4)
_FORWARD = _Layout(1, 2, 3, 4, 10)
_BACKWARD = _Layout(5, 6, 7, 8, 11)
_AUXILIARY_INPUT = 9


def _check(node: NodeSpec, at: _Layout, batch: int, depth: int) -> int:
    """Checks one direction's tensors; its number of units."""
    weights = node.input(at.weights)
    take(node, f"input {at.weights}", weights, *_WEIGHTS)
    require(weights.rank == 2, f"input {at.weights} is {weights}; taken: [units, depth]")
    units = weights.shape[0]
    for i, shape, dtype in (
        (at.weights, (units, depth), weights.dtype),
        (at.recurrent, (units, units), weights.dtype),
        (at.bias, (units,), DType.FLOAT32),
        (at.state, (batch, units), DType.FLOAT32),
    ):
        spec = node.input(i)
        require(spec.shape == shape, f"input {i} is {spec}; taken: {list(shape)}")
        take(node, f"input {i}", spec, dtype)
    require(
        node.input(at.state).variable,
        f"input {at.state} is no variable; {node.op} keeps its state there",
    )
    return units


def _infer_one(node: NodeSpec) -> list[Shape]:
    x = node.input(0)
    take(node, "input 0", x, DType.FLOAT32)
    take(node, "output", node.outputs[0], DType.FLOAT32)
    rank = 2 if node.op == "RNN" else 3
    require(x.rank == rank, f"input 0 is {x}; {node.op} takes rank {rank}")
    batch = x.shape[1] if rank == 3 and node.options.time_major else x.shape[0]
    return [(*x.shape[:-1], _check(node, _ONE, batch, x.shape[-1]))]


def _bind_one(b: Binding) -> Run:
    x, y = b.xi(0), b.y[0]
    if b.op == "RNN":
        return _layer(b, _ONE, x[None], None, y[None])
    x, y = (sequence(a, b.options.time_major) for a in (x, y))
    return _layer(b, _ONE, x, None, y)


def _infer_two(node: NodeSpec) -> list[Shape]:
    x, auxiliary = node.input(0), node.optional(_AUXILIARY_INPUT)
    take(node, "input 0", x, DType.FLOAT32)
    require(x.rank == 3, f"input 0 is {x}; {node.op} takes rank 3")
    merged = node.options.merge_outputs
    require(
        len(node.outputs) == (1 if merged else 2),
        f"merge_outputs is {merged}, but there are {len(node.outputs)} outputs",
    )
    for i, out in enumerate(node.outputs):
        take(node, f"output {i}", out, DType.FLOAT32)
    if auxiliary is not None:
        take(node, f"input {_AUXILIARY_INPUT}", auxiliary, DType.FLOAT32)
        require(
            auxiliary.rank == 3 and auxiliary.shape[:2] == x.shape[:2],
            f"input {_AUXILIARY_INPUT} is {auxiliary}; taken: {[*x.shape[:2]]} and a depth",
        )
    batch = x.shape[1 if node.options.time_major else 0]
    units = []
    for at in (_FORWARD, _BACKWARD):
        weights = node.optional(at.auxiliary)
        depth = x.shape[2]
        if auxiliary is not None and weights is None and at is _BACKWARD:
            depth = auxiliary.shape[2]
        n = _check(node, at, batch, depth)
        units.append(n)
        if weights is not None:
            want = (n, auxiliary.shape[2] if auxiliary is not None else -1)
            take(node, f"input {at.auxiliary}", weights, node.input(at.weights).dtype)
            require(
                weights.shape == want,
                f"input {at.auxiliary} is {weights}; taken: {n} units by the depth of the "
                f"auxiliary input, input {_AUXILIARY_INPUT}",
            )
    return [(*x.shape[:2], sum(units))] if merged else [(*x.shape[:2], n) for n in units]


def _bind_two(b: Binding) -> Run:
    x = b.xi(0)
    auxiliary = None if b.optional(_AUXILIARY_INPUT) is None else b.xi(_AUXILIARY_INPUT)
    weighted = b.optional(_FORWARD.auxiliary) is not None
    outputs = list(b.y)
    if b.options.merge_outputs:
        units = b.input(_FORWARD.weights).shape[0]
        outputs = [b.y[0][..., :units], b.y[0][..., units:]]

    def ordered(a: Array) -> Array:
        return sequence(a, b.options.time_major)

    # without weights of its own the auxiliary input is what the backward layer reads
    other = auxiliary if auxiliary is not None and not weighted else x
    added = ordered(auxiliary) if auxiliary is not None and weighted else None
    first = _layer(b, _FORWARD, ordered(x), added, ordered(outputs[0]))
    second = _layer(b, _BACKWARD, ordered(other), added, ordered(outputs[1]), backward=True)

    def run() -> None:
        first()
        second()

    return run


def _weights(b: Binding, i: int) -> Callable[[], Weights]:
    """The weights at input `i`, made anew at each call where they are no constants."""

    def make() -> Weights:
        array = stored(b, i)
        return array if array.dtype.kind == "f" else HybridWeights(array, b.input(i).scale)

    if b.input(i).const is None:
        return make
    held: Weights = b.once(f"weights{i}", make)
    return lambda: held


def _layer(
    b: Binding,
    at: _Layout,
    x: Array,
    auxiliary: Array | None,
    out: Array,
    backward: bool = False,
) -> Run:
    """All steps of one direction: h = activation(W x + A aux + R h + bias)."""
    steps, batch, depth = x.shape
    state, bias = b.xi(at.state), b.xi(at.bias)
    units = state.shape[1]
    from_input, from_state = _weights(b, at.weights), _weights(b, at.recurrent)
    from_auxiliary = _weights(b, at.auxiliary) if auxiliary is not None else None
    early = b.scratch((steps * batch, units))
    added = b.scratch(early.shape) if auxiliary is not None else early
    each = by_steps(early, x)
    z = b.scratch((batch, units))
    quantize_x = quantizer(b, at.weights, steps * batch, depth)
    quantize_h = quantizer(b, at.weights, batch, units)
    quantize_auxiliary = None
    if auxiliary is not None:
        quantize_auxiliary = quantizer(b, at.weights, steps * batch, auxiliary.shape[2])
    act = activation(b.options.fused_activation_function)
    order = range(steps - 1, -1, -1) if backward else range(steps)

    def run() -> None:
        recurrent = from_state()
        multiply(from_input(), rows(x), early, quantize_x)
        if auxiliary is not None and from_auxiliary is not None:
            multiply(from_auxiliary(), rows(auxiliary), added, quantize_auxiliary)
            np.add(early, added, out=early)
        np.add(early, bias, out=early)
        for t in order:
            multiply(recurrent, state, z, quantize_h)
            np.add(z, each[t], out=state)
            act(state)
            np.copyto(out[t], state)

    return run


# -- devices


def _counts(node: NodeSpec) -> tuple[int, int]:
    """Steps and batch."""
    x = node.input(0).shape
    if node.op == "RNN":
        return 1, x[0]
    return (x[0], x[1]) if node.options.time_major else (x[1], x[0])


def _inputs(at: _Layout) -> tuple[int, int, int, int]:
    return at.weights, at.recurrent, at.bias, at.state


def _lower_one(node: NodeSpec, capability: Capability) -> Lowered:
    check_stateful(node, capability)
    time_major = node.op != "RNN" and node.options.time_major
    b, units = Builder(node), node.outputs[0].shape[-1]
    add_layer(b, capability, _inputs(_ONE), (0, *_counts(node)), time_major, (0, units, 0))
    return b.lowered()


def _lower_two(node: NodeSpec, capability: Capability) -> Lowered:
    check_stateful(node, capability)
    o, counts = node.options, _counts(node)
    given = node.optional(_AUXILIARY_INPUT) is not None
    weighted = node.optional(_FORWARD.auxiliary) is not None
    units = [node.input(at.weights).shape[0] for at in (_FORWARD, _BACKWARD)]
    outputs = [(0, sum(units), 0), (0, sum(units), units[0])]
    if not o.merge_outputs:
        outputs = [(0, units[0], 0), (1, units[1], 0)]
    b = Builder(node)
    for at, output in zip((_FORWARD, _BACKWARD), outputs, strict=True):
        backward = at is _BACKWARD
        # without weights of its own the auxiliary input is what the backward layer reads
        source = _AUXILIARY_INPUT if given and not weighted and backward else 0
        added = (_AUXILIARY_INPUT, at.auxiliary) if given and weighted else None
        add_layer(
            b,
            capability,
            _inputs(at),
            (source, *counts),
            o.time_major,
            output,
            added,
            backward,
        )
    return b.lowered()


OPS = {
    "RNN": op("RNN", _infer_one, _bind_one, versions=(1, 3), pure=False, lower=_lower_one),
    "UNIDIRECTIONAL_SEQUENCE_RNN": op(
        "UNIDIRECTIONAL_SEQUENCE_RNN",
        _infer_one,
        _bind_one,
        versions=(1, 3),
        pure=False,
        lower=_lower_one,
    ),
    "BIDIRECTIONAL_SEQUENCE_RNN": op(
        "BIDIRECTIONAL_SEQUENCE_RNN",
        _infer_two,
        _bind_two,
        versions=(1, 3),
        pure=False,
        lower=_lower_two,
    ),
    "SVDF": op("SVDF", infer_svdf, bind_svdf, versions=(1, 4), pure=False, lower=lower_svdf),
}
