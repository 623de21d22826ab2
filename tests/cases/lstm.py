"""The LSTM ops. Right answers: floats by the definition below, step by step in float64; integers
from TensorFlow Lite's reference kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from litedelegate.kernels.types import Array, DType

from . import Case, T

FLOAT = {
    "fused_activation_function": "TANH",
    "cell_clip": 0.0,
    "proj_clip": 0.0,
    "asymmetric_quantize_inputs": False,
}


def _floats(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


class Weights:
    """One direction: `gates` holds (input, recurrent, peephole, bias, norm) by gate i, f, c, o."""

    def __init__(
        self,
        seed: int,
        depth: int,
        cells: int,
        outputs: int,
        cifg: bool = False,
        peephole: bool = False,
        norm: bool = False,
        projection: bool = False,
    ) -> None:
        self.gates: list[list[Array | None]] = []
        for g in range(4):
            at = seed + 10 * g
            if cifg and g == 0:
                self.gates.append([None] * 5)
                continue
            self.gates.append(
                [
                    _floats(at, cells, depth),
                    _floats(at + 1, cells, outputs),
                    _floats(at + 2, cells) if peephole and g != 2 else None,
                    _floats(at + 3, cells),
                    _floats(at + 4, cells) if norm else None,
                ]
            )
        self.projection = _floats(seed + 50, outputs, cells) if projection else None
        self.projection_bias = _floats(seed + 51, outputs) if projection else None

    def inputs(self) -> list[Array | None]:
        """In the order of the op: weights, recurrent, peephole, bias, projection."""
        by_kind = [[gate[k] for gate in self.gates] for k in range(4)]
        peephole = [by_kind[2][g] for g in (0, 1, 3)]
        return [
            *by_kind[0],
            *by_kind[1],
            *peephole,
            *by_kind[3],
            self.projection,
            self.projection_bias,
        ]

    @property
    def norms(self) -> list[Array | None]:
        return [gate[4] for gate in self.gates]


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _gate(w: Sequence[Array | None], x: Array, h: Array, c: Array) -> Array:
    weights, recurrent, peephole, bias, norm = w
    assert weights is not None and recurrent is not None and bias is not None
    z = x @ weights.T.astype(np.float64) + h @ recurrent.T.astype(np.float64)
    if peephole is not None:
        z = z + c * peephole
    if norm is None:
        return z + bias
    centred = z - z.mean(axis=1, keepdims=True)
    return centred / np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + 1e-8) * norm + bias


def define(
    w: Weights, x: Array, h: Array, c: Array, clip: float = 0, proj_clip: float = 0
) -> tuple[Array, Array, Array]:
    """Outputs of all steps of x [steps, batch, depth], and the last states."""
    outputs = []
    for step in x.astype(np.float64):
        f = _sigmoid(_gate(w.gates[1], step, h, c))
        i = 1 - f if w.gates[0][0] is None else _sigmoid(_gate(w.gates[0], step, h, c))
        c = f * c + i * np.tanh(_gate(w.gates[2], step, h, c))
        c = np.clip(c, -clip, clip) if clip else c
        h = _sigmoid(_gate(w.gates[3], step, h, c)) * np.tanh(c)
        if w.projection is not None:
            h = h @ w.projection.T.astype(np.float64) + w.projection_bias
            h = np.clip(h, -proj_clip, proj_clip) if proj_clip else h
        outputs.append(h)
    return (np.stack(outputs).astype(np.float32), h.astype(np.float32), c.astype(np.float32))


def _float(
    name: str,
    time_major: bool = True,
    clip: float = 0,
    proj_clip: float = 0,
    op: str = "UNIDIRECTIONAL_SEQUENCE_LSTM",
    **form: bool,
) -> Case:
    steps, batch, depth, cells = 3, 2, 3, 5
    outputs = 4 if form.get("projection") else cells
    steps = 1 if op == "LSTM" else steps
    w = Weights(100, depth, cells, outputs, **form)
    x = _floats(1, steps, batch, depth)
    state, cell = _floats(2, batch, outputs), _floats(3, batch, cells)
    y, h, c = define(w, x, state, cell, clip, proj_clip)
    if op == "LSTM":
        x, y = x[0], y[0]
    elif not time_major:
        x, y = x.swapaxes(0, 1).copy(), y.swapaxes(0, 1).copy()
    options = {**FLOAT, "cell_clip": clip, "proj_clip": proj_clip, "kernel_type": "FULL"}
    return Case(
        op,
        [x, *w.inputs(), T(state, variable=True), T(cell, variable=True), *w.norms],
        {**options, "time_major": time_major, "diagonal_recurrent_tensors": False},
        [y],
        updated={18: h, 19: c},
        name=name,
    )


def _bidirectional(name: str, time_major: bool, merge: bool, auxiliary: str = "") -> Case:
    steps, batch, depth, cells = 3, 2, 3, 4
    forward, backward = Weights(200, depth, cells, cells), Weights(300, depth, cells + 1, cells + 1)
    x, other = _floats(1, steps, batch, depth), _floats(2, steps, batch, depth)
    weights: list[Array | None] = [None] * 8
    fed_forward, fed_backward, f, b = x, x, forward, backward
    if auxiliary == "weighted":
        # the same as one input with both side by side
        weights = [_floats(400 + g, cells, depth) for g in range(4)]
        weights += [_floats(500 + g, cells + 1, depth) for g in range(4)]
        fed_forward = fed_backward = np.concatenate([x, other], axis=2)
        f, b = Weights(200, depth, cells, cells), Weights(300, depth, cells + 1, cells + 1)
        for g in range(4):
            for w, extra in ((f, weights[g]), (b, weights[4 + g])):
                own = w.gates[g][0]
                assert own is not None and extra is not None
                w.gates[g][0] = np.concatenate([own, extra], axis=1)
    elif auxiliary:
        fed_backward = other
    sizes = (cells, cells, cells + 1, cells + 1)
    states = [_floats(10 + k, batch, n) for k, n in enumerate(sizes)]
    y, h, c = define(f, fed_forward, states[0], states[1])
    back, back_h, back_c = define(b, fed_backward[::-1], states[2], states[3])
    wanted = [y, back[::-1].copy()]
    if merge:
        wanted = [np.concatenate(wanted, axis=2)]
    given = [x, other if auxiliary else None]
    if not time_major:
        given = [None if a is None else a.swapaxes(0, 1).copy() for a in given]
        wanted = [a.swapaxes(0, 1).copy() for a in wanted]
    inputs: list[Any] = [given[0], *forward.inputs(), *backward.inputs()]
    inputs += [*(T(s, variable=True) for s in states), given[1], *weights]
    return Case(
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        inputs,
        {**FLOAT, "merge_outputs": merge, "time_major": time_major},
        wanted,
        updated={35: h, 36: c, 37: back_h, 38: back_c},
        name=name,
    )


def _hybrid(name: str, asymmetric: bool, dtype: DType) -> Case:
    """Inputs that are whole multiples of their row's step, and no state: nothing is rounded."""
    rng = np.random.default_rng(7)
    step = np.float32(2**-6)
    top = 255 if asymmetric else 127
    x = np.array([[[top, 3, 0], [top, 0, 64]]], np.float32) * step
    cells, scale = 4, 2.0**-7
    raw = [rng.integers(-127, 128, (cells, 3)).astype(np.int8) for _ in range(4)]
    recurrent = [rng.integers(-127, 128, (cells, cells)).astype(np.int8) for _ in range(4)]
    w = Weights(0, 3, cells, cells)
    bias = [_floats(20 + g, cells) for g in range(4)]
    for g in range(4):
        w.gates[g] = [
            raw[g] * np.float32(scale),
            recurrent[g] * np.float32(scale),
            None,
            bias[g],
            None,
        ]
    zero = np.zeros((2, cells), np.float32)
    y, h, c = define(w, x, zero, zero)

    def stored(a: Array) -> T:
        return T(a.view(dtype.numpy), dtype, scale=scale)

    inputs: list[Any] = [x, *(stored(a) for a in (*raw, *recurrent)), None, None, None, *bias]
    inputs += [None, None, T(zero, variable=True), T(zero, variable=True)]
    return Case(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        inputs,
        {
            **FLOAT,
            "time_major": True,
            "diagonal_recurrent_tensors": False,
            "asymmetric_quantize_inputs": asymmetric,
        },
        [y],
        updated={18: h, 19: c},
        version=3,
        name=name,
    )


def _diagonal() -> Case:
    """Diagonal recurrent weights are the same as full ones with zeros elsewhere."""
    w = Weights(100, 3, 4, 4)
    full = Weights(100, 3, 4, 4)
    for g in range(4):
        w.gates[g][1] = _floats(60 + g, 4)
        full.gates[g][1] = np.diag(_floats(60 + g, 4))
    x, state = _floats(1, 3, 2, 3), _floats(2, 2, 4)
    y, h, c = define(full, x, state, state)
    states = [T(state, variable=True), T(state, variable=True)]
    return Case(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        [x, *w.inputs(), *states],
        {**FLOAT, "time_major": True, "diagonal_recurrent_tensors": True},
        [y],
        updated={18: h, 19: c},
        version=4,
        name="diagonal recurrent weights",
    )


def _numbers(start: int, low: int, high: int, *shape: int) -> Array:
    """Numbers in [low, high] without a pattern that a mistake would miss."""
    n = int(np.prod(shape))
    return (low + (start + np.arange(1, n + 1) ** 2 * 7919) % (high - low + 1)).reshape(shape)


def integer_inputs(cifg: bool, peephole: bool, norm: bool, projection: bool) -> list[T | None]:
    batch, depth, cells, outputs = 2, 3, 4, 3 if projection else 4

    def weights(start: int, *shape: int) -> T:
        return T(_numbers(start, -127, 127, *shape).astype(np.int8), scale=0.01)

    def fine(start: int) -> T:
        return T(_numbers(start, -32767, 32767, cells).astype(np.int16), scale=3e-5)

    def bias(start: int, n: int) -> T:
        return T(_numbers(start, -30000, 30000, n).astype(np.int32), scale=1e-6)

    gates = [g for g in range(4) if not (cifg and g == 0)]
    x = T(_numbers(5, -128, 127, 2, batch, depth).astype(np.int8), scale=0.02, zero_point=3)
    inputs: list[T | None] = [x, *[None] * 23]
    for g in gates:
        inputs[1 + g] = weights(10 + g, cells, depth)
        inputs[5 + g] = weights(20 + g, cells, outputs)
        inputs[12 + g] = bias(40 + g, cells)
        if norm:
            inputs[20 + g] = fine(60 + g)
        if peephole and g != 2:
            inputs[9 + (0, 1, 9, 2)[g]] = fine(30 + g)
    if projection:
        inputs[16], inputs[17] = weights(50, outputs, cells), bias(51, outputs)
    state = np.full((batch, outputs), -5, np.int8)
    inputs[18] = T(state, scale=0.01, zero_point=-5, variable=True)
    inputs[19] = T(np.zeros((batch, cells), np.int16), scale=2.0**-11, variable=True)
    return inputs


def _integer(name: str, form: Sequence[bool], want: Any, state: Any, cell: Any) -> Case:
    inner = [T(np.zeros(1, np.int16), scale=0.003 * (k + 1)) for k in range(4)]
    inner.append(T(np.zeros(1, np.int8), scale=0.008, zero_point=7))
    return Case(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        integer_inputs(*form),
        {**FLOAT, "time_major": True, "diagonal_recurrent_tensors": False},
        [T(np.array(want, np.int8), scale=0.01, zero_point=-5)],
        updated={18: np.array(state, np.int8), 19: np.array(cell, np.int16)},
        version=3,
        intermediates=inner,
        name=name,
    )


def eight_inputs() -> list[T | None]:
    """No input gate, no peephole, layer normalisation and a projection."""
    inputs = integer_inputs(True, False, True, True)
    inputs[0] = T(inputs[0].array[0], scale=0.02, zero_point=3) if inputs[0] else None
    inputs[19] = T(np.zeros((2, 4), np.int16), scale=2.0**-15, variable=True)
    return inputs


def eight_intermediates() -> list[T]:
    values = np.zeros(1, np.int8)
    return [T(values, scale=0.005 + 0.001 * k, zero_point=k % 5 - 2) for k in range(12)]


def _eight(want: Any, state: Any, cell: Any) -> Case:
    return Case(
        "LSTM",
        eight_inputs(),
        {**FLOAT, "kernel_type": "FULL"},
        [T(np.array(want, np.int8), scale=0.01, zero_point=-5)],
        updated={18: np.array(state, np.int8), 19: np.array(cell, np.int16)},
        intermediates=eight_intermediates(),
        name="integer, 8-bit gate sums",
    )


def _basic() -> Case:
    depth, cells, batch = 3, 2, 2
    x, h, c = _floats(1, batch, depth), _floats(2, batch, cells), _floats(3, batch, cells)
    weights, bias = _floats(4, 4 * cells, depth + cells), _floats(5, 4 * cells)
    both = np.concatenate([x, h], axis=1)
    sums = both.astype(np.float64) @ weights.T + bias
    i, g, f, o = (sums[:, k * cells : (k + 1) * cells] for k in range(4))
    state = _sigmoid(i) * np.tanh(g) + _sigmoid(f) * c
    y = (_sigmoid(o) * np.tanh(state)).astype(np.float32)
    state, sums = state.astype(np.float32), sums.astype(np.float32)
    return Case(
        "LSTM",
        [x, T(h, variable=True), weights, bias, T(c, variable=True)],
        {**FLOAT, "kernel_type": "BASIC"},
        [y, state, both, sums],
        updated={1: y, 4: state},
        version=2,
        name="basic kernel",
    )


def _basic_integer() -> Case:
    """Weights of 0 leave the biases: gates of sigmoid(1), tanh(-1), sigmoid(2), sigmoid(-1)."""
    n, depth = 1, 2
    weights = T(np.full((4, 3), 100, np.uint8), scale=0.5, zero_point=100)
    bias = T(np.array([4096, -4096, 8192, -4096], np.int32), scale=2.0**-12)
    state = np.array([[2048]], np.int16)  # 1.0
    return Case(
        "LSTM",
        [
            T(np.array([[7, 200]], np.uint8), scale=2.0**-7, zero_point=128),
            T(np.full((1, n), 128, np.uint8), scale=2.0**-7, zero_point=128, variable=True),
            weights,
            bias,
            T(state, scale=2.0**-11, variable=True),
        ],
        {**FLOAT, "kernel_type": "BASIC"},
        [
            T(np.array([[139]], np.uint8), scale=2.0**-7, zero_point=128),
            T(np.array([[663]], np.int16), scale=2.0**-11),
            T(np.array([[7, 200, 128]], np.uint8), scale=2.0**-7, zero_point=128),
            T(np.array([[4096, -4096, 8192, -4096]], np.int16), scale=2.0**-12),
        ],
        updated={1: np.full((1, n), 139, np.uint8), 4: np.array([[663]], np.int16)},
        version=2,
        name=f"basic kernel, uint8, depth {depth}",
    )


def _refused(change: int, value: Any, text: str, base: Case | None = None) -> Case:
    case = base or _float("base")
    inputs = list(case.inputs)
    inputs[change] = value
    return Case(
        case.op,
        inputs,
        case.options,
        refused=text,
        outputs=case.declared,
        version=case.version,
        intermediates=case.intermediates,
        name=f"refused: input {change}",
    )


_INTEGER = _integer(
    "integer",
    (False, False, False, False),
    [[[7, 96, 6, 7], [7, 87, 6, 7]], [[7, 21, 6, 6], [7, 7, 7, 7]]],
    [[7, 21, 6, 6], [7, 7, 7, 7]],
    [[-2, 539, -183, -159], [-7, 1, -70, -76]],
)

CASES = [
    _float("float"),
    _float("batch first", time_major=False),
    _float("one step", op="LSTM"),
    _float("no input gate", cifg=True),
    _float("peephole", peephole=True),
    _float("layer norm", norm=True),
    _float("projection", projection=True),
    _float("all at once", cifg=True, peephole=True, norm=True, projection=True),
    _float("all but the missing gate", peephole=True, norm=True, projection=True, op="LSTM"),
    _float("clipped", clip=0.2, proj_clip=0.3, projection=True),
    _diagonal(),
    _hybrid("int8 weights", False, DType.INT8),
    _hybrid("int8 weights that are called uint8", False, DType.UINT8),
    _hybrid("int8 weights, asymmetric", True, DType.INT8),
    _bidirectional("both directions", True, False),
    _bidirectional("both directions, batch first, merged", False, True),
    _bidirectional("auxiliary input for the backward layer", True, False, "other"),
    _bidirectional("auxiliary input with weights, batch first", False, True, "weighted"),
    _INTEGER,
    _integer(
        "integer, peephole",
        (False, True, False, False),
        [[[7, 96, 6, 7], [7, 87, 6, 7]], [[7, 21, 6, 6], [7, 7, 7, 7]]],
        [[7, 21, 6, 6], [7, 7, 7, 7]],
        [[-2, 529, -197, -157], [-7, 2, -74, -75]],
    ),
    _integer(
        "integer, no input gate, layer norm",
        (True, False, True, False),
        [[[25, 6, -5, 6], [25, 6, -5, 8]], [[39, 6, -11, 23], [33, 7, -11, 27]]],
        [[39, 6, -11, 23], [33, 7, -11, 27]],
        [[699, -19, -869, 389], [671, 15, -809, 432]],
    ),
    _integer(
        "integer, projection",
        (False, False, False, True),
        [[[-128, -51, -121], [-128, -45, -124]], [[-128, -30, -128], [-128, 6, -128]]],
        [[-128, -30, -128], [-128, 6, -128]],
        [[-10, 1910, -47, -12], [-34, 219, -17, -6]],
    ),
    _integer(
        "integer, all at once",
        (True, True, True, True),
        [[[-128, 2, -128], [-128, 3, -128]], [[-128, 3, -128], [-128, 2, -128]]],
        [[-128, 3, -128], [-128, 2, -128]],
        [[696, -47, -763, 78], [-1293, 2, 18, -506]],
    ),
    _eight(
        [[-18, -16, -10], [-22, -13, -13]],
        [[-18, -16, -10], [-22, -13, -13]],
        [[6300, -437, -13049, -1804], [6183, -457, -10677, 987]],
    ),
    _refused(
        17,
        None,
        "needs input 17, which is absent",
        _eight([[0] * 3] * 2, [[0] * 3] * 2, [[0] * 4] * 2),
    ),
    _basic(),
    _basic_integer(),
    _refused(
        0, _floats(1, 3, 2), "input 0 is float32[3, 2]; UNIDIRECTIONAL_SEQUENCE_LSTM takes rank 3"
    ),
    _refused(0, np.zeros((3, 2, 3), np.float64), "is float64; UNIDIRECTIONAL_SEQUENCE_LSTM takes"),
    _refused(2, _floats(1, 5, 4), "input 2 is float32[5, 4]; taken: [5, 3]"),
    _refused(6, np.zeros((5, 5), np.int8), "is int8; UNIDIRECTIONAL_SEQUENCE_LSTM takes float32"),
    _refused(10, _floats(1, 5), "input 10 is given, but there is no peephole"),
    _refused(13, None, "needs input 13, which is absent"),
    _refused(18, _floats(2, 2, 5), "input 18 is no variable"),
    _refused(19, T(_floats(3, 2, 4), variable=True), "taken: 10 elements"),
    _refused(
        19,
        T(np.zeros((2, 4), np.int16), scale=0.3, variable=True),
        "taken: a power of two from 2^-15 to 2^-9",
        _INTEGER,
    ),
]
