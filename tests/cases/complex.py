"""Cases of the ops in kernels/complex.py."""

from __future__ import annotations

import numpy as np

from cases import Case, T

_rng = np.random.default_rng(0)
_ROWS = (_rng.standard_normal((5, 37)) + 1j * _rng.standard_normal((5, 37))).astype(np.complex64)
_ROWS[0, :4] = 0, 3e38 - 1e38j, 1e-38j, np.inf

CASES = [
    Case("REAL", [np.complex64([3 + 4j])], {}, [[3.0]]),
    Case("IMAG", [np.complex64([3 + 4j])], {}, [[4.0]]),
    Case("IMAG", [np.complex128([3 + 4j])], {}, [np.float64([4.0])]),
    Case("COMPLEX_ABS", [np.complex64([[3 + 4j], [-1]])], {}, [[[5.0], [1.0]]]),
    Case("COMPLEX_ABS", [_ROWS], {}, [np.abs(_ROWS)], name="rows that fill no vector"),
    Case("REAL", [[1.0]], {}, refused="REAL takes complex64", outputs=[T([1.0])]),
    Case(
        "REAL", [np.complex64([1])], {}, refused="REAL gives float32", outputs=[T(np.float64([1]))]
    ),
]
