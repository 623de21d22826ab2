"""Fused activations on float arrays, in place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .api import OpError
from .types import Array

InPlace = Callable[[Array], None]


def _clipped(low: float, high: float) -> InPlace:
    def clip(x: Array) -> None:
        np.clip(x, low, high, out=x)

    return clip


def _none(x: Array) -> None:
    return None


def _relu(x: Array) -> None:
    np.maximum(x, 0, out=x)


def _tanh(x: Array) -> None:
    np.tanh(x, out=x)


def _sign_bit(x: Array) -> None:
    np.copyto(x, np.signbit(x))


_ACTIVATIONS: dict[str, InPlace] = {
    "NONE": _none,
    "RELU": _relu,
    "RELU_N1_TO_1": _clipped(-1, 1),
    "RELU6": _clipped(0, 6),
    "TANH": _tanh,
    "SIGN_BIT": _sign_bit,
}


def activation(name: str) -> InPlace:
    """The activation of that schema name, as a function that changes its argument."""
    try:
        return _ACTIVATIONS[name]
    except KeyError:
        taken = ", ".join(_ACTIVATIONS)
        raise OpError(f"fused activation {name}; taken: {taken}") from None
