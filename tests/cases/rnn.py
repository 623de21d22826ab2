"""RNN, its sequences, SVDF. Right answers: by definition in float64; integers by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from litedelegate.kernels.types import Array, DType

from . import Case, T

OPTIONS = {"fused_activation_function": "TANH", "asymmetric_quantize_inputs": False}


def _floats(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def _define(x: Array, w: Array, r: Array, b: Array, h: Array) -> tuple[Array, Array]:
    """Outputs of all steps of x [steps, batch, depth], and the last state."""
    outputs = []
    for step in x.astype(np.float64):
        h = np.tanh(step @ w.T.astype(np.float64) + h @ r.T.astype(np.float64) + b)
        outputs.append(h)
    return np.stack(outputs).astype(np.float32), h.astype(np.float32)


def _sequence(name: str, time_major: bool, op: str = "UNIDIRECTIONAL_SEQUENCE_RNN") -> Case:
    steps, batch, depth, units = 1 if op == "RNN" else 4, 2, 3, 5
    x, w, r = _floats(1, steps, batch, depth), _floats(2, units, depth), _floats(3, units, units)
    b, h = _floats(4, units), _floats(5, batch, units)
    y, last = _define(x, w, r, b, h)
    if op == "RNN":
        x, y = x[0], y[0]
    elif not time_major:
        x, y = x.swapaxes(0, 1).copy(), y.swapaxes(0, 1).copy()
    return Case(
        op,
        [x, w, r, b, T(h, variable=True)],
        {**OPTIONS, "time_major": time_major},
        [y],
        updated={4: last},
        name=name,
    )


def _both(name: str, time_major: bool, merge: bool, auxiliary: str = "") -> Case:
    steps, batch, depth, units = 3, 2, 3, 4
    x, other = _floats(1, steps, batch, depth), _floats(2, steps, batch, depth)
    forward = [_floats(3, units, depth), _floats(4, units, units), _floats(5, units)]
    backward = [
        _floats(6, units + 1, depth),
        _floats(7, units + 1, units + 1),
        _floats(8, units + 1),
    ]
    extra: list[Array | None] = [None, None]
    fed_forward, fed_backward = x, x
    first, second = list(forward), list(backward)
    if auxiliary == "weighted":
        # the same as one input with both side by side
        own, back = _floats(9, units, depth), _floats(10, units + 1, depth)
        extra = [own, back]
        fed_forward = fed_backward = np.concatenate([x, other], axis=2)
        first[0], second[0] = (
            np.concatenate(pair, axis=1) for pair in ((first[0], own), (second[0], back))
        )
    elif auxiliary:
        fed_backward = other
    states = [_floats(11, batch, units), _floats(12, batch, units + 1)]
    y, h = _define(fed_forward, *first, states[0])
    z, g = _define(fed_backward[::-1], *second, states[1])
    wanted = [y, z[::-1].copy()]
    if merge:
        wanted = [np.concatenate(wanted, axis=2)]
    given = [x, other if auxiliary else None]
    if not time_major:
        given = [None if a is None else a.swapaxes(0, 1).copy() for a in given]
        wanted = [a.swapaxes(0, 1).copy() for a in wanted]
    inputs: list[Any] = [given[0], *forward, T(states[0], variable=True)]
    inputs += [*backward, T(states[1], variable=True), given[1], *extra]
    return Case(
        "BIDIRECTIONAL_SEQUENCE_RNN",
        inputs,
        {**OPTIONS, "merge_outputs": merge, "time_major": time_major},
        wanted,
        updated={4: h, 8: g},
        name=name,
    )


def _activation(name: str, want: list[float]) -> Case:
    zero = np.zeros((1, 3), np.float32)
    return Case(
        "RNN",
        [
            np.array([[1.0]], np.float32),
            np.array([[-7.0], [0.5], [8.0]], np.float32),
            np.zeros((3, 3), np.float32),
            np.zeros(3, np.float32),
            T(zero, variable=True),
        ],
        {**OPTIONS, "fused_activation_function": name},
        [np.array([want], np.float32)],
        updated={4: np.array([want], np.float32)},
        name=f"activation {name}",
    )


def _hybrid(asymmetric: bool) -> Case:
    """Inputs that are whole multiples of their step, and no state: nothing is rounded."""
    top = 255.0 if asymmetric else 127.0
    x = np.array([[top, 0.0], [0.0, 0.0]], np.float32)
    zero = np.zeros((2, 2), np.float32)
    y = np.maximum(x @ np.array([[1.0, 2.0], [-1.0, 0.5]]).T + [1.0, 2.0], 0).astype(np.float32)
    return Case(
        "RNN",
        [
            x,
            T(np.array([[2, 4], [-2, 1]], np.int8), scale=0.5),
            T(np.array([[2, 4], [-2, 1]], np.int8), scale=0.5),
            np.array([1.0, 2.0], np.float32),
            T(zero, variable=True),
        ],
        {"fused_activation_function": "RELU", "asymmetric_quantize_inputs": asymmetric},
        [y],
        updated={4: y},
        version=3 if asymmetric else 2,
        name="int8 weights, asymmetric" if asymmetric else "int8 weights",
    )


def _svdf(name: str, bias: bool) -> Case:
    batch, depth, units, rank, memory = 2, 3, 2, 2, 4
    filters = units * rank
    x, feature, time = (
        _floats(1, batch, depth),
        _floats(2, filters, depth),
        _floats(3, filters, memory),
    )
    b, state = _floats(4, units), _floats(5, batch, filters * memory)
    window = state.reshape(batch, filters, memory)
    new = np.concatenate([window[..., 1:], (x @ feature.T)[..., None]], axis=2)
    y = np.einsum("bfm,fm->bf", new.astype(np.float64), time)
    y = y.reshape(batch, units, rank).sum(axis=2) + (b if bias else 0)
    return Case(
        "SVDF",
        [x, feature, time, b if bias else None, T(state, variable=True)],
        {**OPTIONS, "fused_activation_function": "RELU", "rank": rank},
        [np.maximum(y, 0).astype(np.float32)],
        updated={4: new.reshape(state.shape).astype(np.float32)},
        name=name,
    )


def _svdf_hybrid() -> Case:
    return Case(
        "SVDF",
        [
            np.array([[127.0, -64.0]], np.float32),
            T(np.array([[2, 1]], np.int8), scale=0.5),
            T(np.array([[1, -4]], np.int8), scale=0.25),
            None,
            T(np.array([[9.0, 3.0]], np.float32), variable=True),
        ],
        {**OPTIONS, "fused_activation_function": "NONE", "rank": 1},
        # the feature is 127 - 32; the window then holds 3 and 95
        [np.array([[3 * 0.25 - 95]], np.float32)],
        updated={4: np.array([[3.0, 95.0]], np.float32)},
        version=2,
        name="SVDF, int8 weights",
    )


def _svdf_integer(activation: str = "RELU", **more: Any) -> Case:
    return Case(
        "SVDF",
        [
            T(np.array([[10, -3]], np.int8), scale=0.5, zero_point=-2),
            T(np.array([[3, 5], [100, 100]], np.int8), scale=0.25),
            T(np.array([[100, 200], [1, -2]], np.int16), scale=0.125),
            T(np.array([7], np.int32), scale=0.25),
            T(np.array([[11, 2, 30, -3]], np.int16), scale=2.0, variable=True),
        ],
        {**OPTIONS, "fused_activation_function": activation, "rank": 2},
        version=3,
        name=f"SVDF, integer, {activation}",
        **more,
    )


CASES = [
    _sequence("time first", True),
    _sequence("batch first", False),
    _sequence("one step", True, "RNN"),
    _both("both directions", True, False),
    _both("both directions, merged, batch first", False, True),
    _both("auxiliary input for the backward layer", False, False, "other"),
    _both("auxiliary input with weights", True, True, "weighted"),
    _activation("NONE", [-7, 0.5, 8]),
    _activation("RELU", [0, 0.5, 8]),
    _activation("RELU6", [0, 0.5, 6]),
    _activation("RELU_N1_TO_1", [-1, 0.5, 1]),
    _activation("SIGN_BIT", [1, 0, 0]),
    _hybrid(False),
    _hybrid(True),
    _svdf("SVDF", True),
    _svdf("SVDF without bias", False),
    _svdf_hybrid(),
    # features: (12 * 3 - 5) / 16 = 1.9 and 1100 / 16 = 68.75; windows [2, 2] and [-3, 69]; their
    # sums 200 + 400 and -3 - 138, with the bias 466; times 2 / 8 / 4, and the zero point
    _svdf_integer(
        want=[T(np.array([[29 + 4]], np.int8), scale=4.0, zero_point=4)],
        updated={4: np.array([[2, 2, -3, 69]], np.int16)},
    ),
    _svdf_integer(
        "NONE",
        refused="fused activation NONE; taken with int8: RELU",
        outputs=[T(np.array([[0]], np.int8), scale=4.0)],
    ),
    Case(
        "RNN",
        [
            _floats(1, 2, 3),
            _floats(2, 5, 3),
            T(np.zeros((5, 5), np.int8), DType.INT8, scale=1.0),
            _floats(4, 5),
            T(_floats(5, 2, 5), variable=True),
        ],
        OPTIONS,
        refused="is int8; RNN takes float32",
        outputs=[T(_floats(1, 2, 5))],
    ),
    Case(
        "RNN",
        [_floats(1, 2, 3), _floats(2, 5, 3), _floats(3, 5, 5), _floats(4, 5), _floats(5, 2, 5)],
        OPTIONS,
        refused="input 4 is no variable",
        outputs=[T(_floats(1, 2, 5))],
    ),
]
