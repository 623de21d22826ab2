"""TRANSPOSE and its StableHLO form."""

from __future__ import annotations

import numpy as np
from stored import STORED, moved

from . import Case, T

_X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def _perm(*dims: int) -> T:
    return T(np.array(dims, np.int32))


CASES = [
    Case("TRANSPOSE", [_X, _perm(2, 0, 1)], {}, [_X.transpose(2, 0, 1)]),
    Case("TRANSPOSE", [_X, _perm(-1, 1, -3)], {}, [_X.transpose(2, 1, 0)]),
    Case("TRANSPOSE", [_X, _perm(0, 1, 2)], {}, [_X]),
    Case("TRANSPOSE", [_X, T(np.array([1, 0, 2]))], {}, [_X.transpose(1, 0, 2)]),
    Case("TRANSPOSE", [np.float32(2), T(np.zeros(0, np.int32))], {}, [np.float32(2)]),
    Case(
        "TRANSPOSE",
        [np.zeros((2, 0, 3), np.float32), _perm(2, 1, 0)],
        {},
        [np.zeros((3, 0, 2), np.float32)],
    ),
    Case(
        "TRANSPOSE",
        [np.arange(2**6).reshape((2,) * 6).astype(np.int8), _perm(5, 0, 4, 1, 3, 2)],
        {},
        [np.arange(2**6).reshape((2,) * 6).transpose(5, 0, 4, 1, 3, 2).astype(np.int8)],
    ),
    *(Case("TRANSPOSE", [x, _perm(1, 0)], {}, [moved(x, np.transpose)]) for x in STORED),
    *(
        Case("TRANSPOSE", [_X, _perm(*perm)], {}, refused=text, outputs=[T(_X)])
        for perm, text in (
            ((0, 1, 3), "permutations array is out of bounds"),
            ((0, 1), "permutations array is out of bounds"),
            ((0, 1, 1), "each dimension once"),
        )
    ),
    Case("STABLEHLO_TRANSPOSE", [_X], {"permutation": (1, 2, 0)}, [_X.transpose(1, 2, 0)]),
]
