"""MediaPipe's custom ops. Right answers: the definition (see `definitions`)."""

from __future__ import annotations

import struct

import numpy as np
from definitions import transposed

from . import Case, T


def _transposed(name: str, padding: int, size: tuple[int, int], before: tuple[int, int]) -> Case:
    rng = np.random.default_rng(len(name))
    x = rng.standard_normal((2, 3, 4, 3)).astype(np.float32)
    w = rng.standard_normal((2, 4, 3, 3)).astype(np.float32)
    b = rng.standard_normal(2).astype(np.float32)
    want = transposed(x, w, size, (2, 2), before) + b
    return Case(
        "Convolution2DTransposeBias",
        [x, T(w, const=True), T(b, const=True)],
        struct.pack("<3i", padding, 2, 2),
        [want.astype(np.float32)],
        name=name,
        custom=True,
    )


CASES = [
    # a full result of 8x9, of which SAME cuts 4 - 2 % 2 - 1 rows and 3 - 3 % 2 - 1 columns
    _transposed("SAME", 1, (5, 8), (1, 0)),
    _transposed("VALID", 2, (8, 9), (0, 0)),
    Case(
        "Convolution2DTransposeBias",
        [
            np.zeros((1, 2, 2, 3), np.float32),
            np.zeros((2, 2, 2, 3), np.float32),
            np.zeros(2, np.float32),
        ],
        b"",
        refused="has 0 bytes of options; it takes at least 12",
        outputs=[T(0.0)],
        name="options",
        custom=True,
    ),
]
