"""REVERSE_V2 and REVERSE_SEQUENCE."""

from __future__ import annotations

import numpy as np
from stored import STORED, moved

from . import Case, T

_X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

CASES = [
    Case("REVERSE_V2", [_X, [1]], {}, [_X[:, ::-1]]),
    Case("REVERSE_V2", [_X, [-1, 0]], {}, [_X[::-1, :, ::-1]]),
    Case("REVERSE_V2", [_X, T(np.zeros(0, np.int32))], {}, [_X]),
    *(Case("REVERSE_V2", [x, [0, 1]], {}, [moved(x, np.flip)]) for x in STORED),
    Case("REVERSE_V2", [_X, [3]], {}, refused="taken: -3 to 2", outputs=[T(_X)]),
    Case(
        "REVERSE_SEQUENCE",
        [[[1, 2, 3], [4, 5, 6]], [2, 3]],
        {"seq_dim": 1, "batch_dim": 0},
        [[[2, 1, 3], [6, 5, 4]]],
    ),
    Case(
        "REVERSE_SEQUENCE",
        [_X, np.array([0, 1, 2])],
        {"seq_dim": 0, "batch_dim": 1},
        [np.stack([_X[:, 0], _X[:, 1], _X[::-1, 2]], 1)],
    ),
    Case(
        "REVERSE_SEQUENCE",
        [_X, [5, 0]],
        {"seq_dim": 1, "batch_dim": 0},
        refused="length 5 of row 0; taken: 0 to 3",
        outputs=[T(_X)],
    ),
    Case(
        "REVERSE_SEQUENCE",
        [_X, [1, 1]],
        {"seq_dim": 1, "batch_dim": 1},
        refused="two different dimensions",
        outputs=[T(_X)],
    ),
]
