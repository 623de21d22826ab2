"""TILE, BROADCAST_TO, BROADCAST_ARGS and the StableHLO broadcast."""

from __future__ import annotations

import numpy as np
from stored import STORED, moved

from . import Case, T

_X = np.arange(6, dtype=np.float32).reshape(2, 3)
_NONE = T(np.zeros(0, np.int32))

CASES = [
    Case("TILE", [_X, [2, 3]], {}, [np.tile(_X, (2, 3))]),
    Case("TILE", [_X, np.array([1, 1])], {}, [_X]),
    Case("TILE", [_X, [0, 2]], {}, [np.zeros((0, 6), np.float32)]),
    Case("TILE", [np.float32(2), _NONE], {}, [np.float32(2)]),
    *(Case("TILE", [x, [1, 2]], {}, [moved(x, lambda v: np.tile(v, (1, 2)))]) for x in STORED),
    Case("TILE", [_X, [2, -1]], {}, refused="must be non-negative", outputs=[T(_X)]),
    Case("TILE", [_X, [2]], {}, refused="a multiplier for each dimension", outputs=[T(_X)]),
    Case("BROADCAST_TO", [_X, [2, 2, 3]], {}, [np.stack([_X, _X])], version=2),
    Case("BROADCAST_TO", [[[1.0], [2]], np.array([2, 3])], {}, [[[1.0] * 3, [2] * 3]], version=2),
    Case("BROADCAST_TO", [np.float32(7), [2]], {}, [[7.0, 7]], version=2),
    Case("BROADCAST_TO", [np.float32(7), _NONE], {}, [np.float32(7)], version=2),
    Case("BROADCAST_TO", [[[1.0]], [0, 2]], {}, [np.zeros((0, 2), np.float32)], version=2),
    Case(
        "BROADCAST_TO",
        [np.ones((1,) * 8, np.int8), [2] * 8],
        {},
        [np.ones((2,) * 8, np.int8)],
        version=2,
    ),
    *(
        Case("BROADCAST_TO", [_X, shape], {}, refused=text, outputs=[T(_X)], version=2)
        for shape, text in (
            ([3], "must be broadcastable from input shape"),
            ([2, 4], "must be broadcastable from input shape"),
        )
    ),
    Case("BROADCAST_ARGS", [[2, 1, 5], [3, 1]], {}, [[2, 3, 5]]),
    Case("BROADCAST_ARGS", [np.array([4]), np.array([4])], {}, [np.array([4])]),
    Case("BROADCAST_ARGS", [_NONE, [1, 2]], {}, [[1, 2]]),
    Case("BROADCAST_ARGS", [_NONE, _NONE], {}, [_NONE]),
    Case(
        "BROADCAST_ARGS",
        [[2, 3], [2, 4]],
        {},
        refused="do not broadcast together",
        outputs=[T([0])],
    ),
    Case(
        "STABLEHLO_BROADCAST_IN_DIM",
        [[1.0, 2, 3]],
        {"broadcast_dimensions": (1,)},
        [[[1.0, 2, 3], [1, 2, 3]]],
    ),
    Case(
        "STABLEHLO_BROADCAST_IN_DIM",
        [_X],
        {"broadcast_dimensions": (2, 0)},
        [np.stack([_X.T, _X.T], 1)],
    ),
    Case(
        "STABLEHLO_BROADCAST_IN_DIM",
        [np.float32(4)],
        {"broadcast_dimensions": ()},
        [[[4.0, 4]]],
    ),
    Case(
        "STABLEHLO_BROADCAST_IN_DIM",
        [_X],
        {"broadcast_dimensions": (0,)},
        refused="broadcast_dimensions [0]",
        outputs=[T(_X)],
    ),
]
