"""Roll. Right answers: numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import Case, T

_X = np.arange(24, dtype=np.int32).reshape(2, 3, 4)


def _case(x: Any, shift: Any, axis: Any, kind: Any = np.int32) -> Case:
    want = np.roll(x, shift, axis)
    return Case(
        "Roll",
        [x, np.array(shift, kind), np.array(axis, kind)],
        {},
        [want],
        custom=True,
        name=f"{x.dtype}{list(x.shape)} by {shift} along {axis}",
    )


def _refused(inputs: list[Any], text: str) -> Case:
    return Case("Roll", inputs, {}, refused=text, outputs=[T(_X)], custom=True, name=text)


CASES = [
    _case(_X, 1, 2),
    _case(_X, -1, 0),
    _case(_X, 5, -2, np.int64),
    _case(_X, 0, 1),
    _case(_X, (1, 2), (0, 2)),
    _case(_X, (1, 1, -3), (2, 2, 1)),
    _case(_X.astype(np.float32), (7, -9, 4), (0, 1, 2)),
    _case(_X.astype(np.uint8), 2, 1),
    _case(np.array([b"a", b"b", b"c"], object), 1, 0),
    _case(np.zeros((0, 3), np.float32), 1, 1),
    _refused([_X, np.array([1], np.int32), np.array([0, 1], np.int32)], "1 shifts for 2 axes"),
    _refused([_X, np.array(1, np.int32), np.array(3, np.int32)], "Invalid axis 3"),
    _refused([_X, np.array(1.0, np.float32), np.array(0, np.int32)], "is float32; Roll takes"),
]
