"""The logistic function on floats, for LOGISTIC and STABLEHLO_LOGISTIC."""

from __future__ import annotations

import numpy as np

from ._elementwise import in_blocks
from .api import Binding, Run
from .types import Array


def bind_logistic(b: Binding) -> Run | None:
    """y = 1 / (1 + exp(-x)) as exp(x) / (1 + exp(x)), which keeps its digits at negative x."""
    # the reference takes exp(x) itself below -9, off by up to 1.2e-4 of the value: not copied
    one = np.array(1, b.y[0].dtype)
    # below, exp(x) is the result itself; beyond these bounds nothing changes and exp overflows
    bounds = (-87.0, 88.0) if b.y[0].dtype == np.float32 else (-708.0, 709.0)
    low, high = (np.array(v, b.y[0].dtype) for v in bounds)

    def make(x: Array, y: Array, work: Array) -> Run:
        clip = x.clip

        def run() -> None:
            clip(low, high, y)
            np.exp(y, out=y)
            np.add(y, one, out=work)
            np.divide(y, work, out=y)

        return run

    return in_blocks(b, (b.xi(0), b.y[0]), make, (b.y[0].dtype,))
