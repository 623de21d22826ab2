"""aeq.hadamard_rotation and BroadcastGradientArgs. Right answers: by definition, and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import Case, T


def _rotation(shape: tuple[int, ...], size: int) -> Case:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    want = x.reshape(-1, size).astype(np.float64) @ matrix / np.sqrt(size)
    return Case(
        "aeq.hadamard_rotation",
        [x],
        {"flexbuffer": lambda: {"hadamard_size": size}},
        [want.reshape(shape).astype(np.float32)],
        custom=True,
        name=f"{list(shape)} by {size}",
    )


def _refused(size: int, text: str) -> Case:
    x = np.zeros((1, 12), np.float32)
    return Case(
        "aeq.hadamard_rotation",
        [x],
        {"flexbuffer": lambda: {"hadamard_size": size}},
        refused=text,
        outputs=[T(x)],
        custom=True,
        name=text,
    )


def _gradient(first: list[int], second: list[int], want: Any, kind: Any = np.int32) -> Case:
    given = [np.array(first, kind), np.array(second, kind)]
    form: dict[str, Any] = {"want": None, "refused": want, "outputs": [T(given[0])] * 2}
    if not isinstance(want, str):
        form = {"want": [np.array(axes, kind) for axes in want]}
    return Case(
        "BroadcastGradientArgs", given, {}, custom=True, name=f"{first} and {second}", **form
    )


CASES = [
    _rotation((1, 8), 4),
    _rotation((2, 3, 16), 16),
    _rotation((1, 128), 64),
    _rotation((1, 256), 256),
    _rotation((2, 3), 1),
    _rotation((0, 4), 4),
    _refused(6, "hadamard_size is 6; taken: a power of two"),
    _refused(8, "a last dimension that 8 divides"),
    _gradient([2, 3], [2, 3], ([], [])),
    _gradient([1, 3], [2, 3], ([0], [])),
    _gradient([4, 1, 1], [3, 1], ([1, 2], [0, 2]), np.int64),
    _gradient([], [2, 1], ([0, 1], [1])),
    _gradient([2, 3], [4, 3], "the shapes [2, 3] and [4, 3] do not broadcast"),
]
