"""AvgPool3D and MaxPool3D. Right answers: the definition, window by window."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from definitions import same_padding

from litedelegate.kernels.types import Array

from . import Case, T

Triple = tuple[int, int, int]


def _options(kernel: Any, stride: Any, padding: str, form: str = "NDHWC") -> dict[str, Any]:
    found = {
        "data_format": form,
        "padding": padding,
        "ksize": [1, *kernel, 1],
        "strides": [1, *stride, 1],
    }
    return {"flexbuffer": lambda: found}


def _pooled(op: str, values: Array) -> float:
    if op == "MaxPool3D":
        return float(values.max())
    total = float(values.astype(np.float64).sum())
    if values.dtype.kind == "f":
        return total / values.size
    return math.trunc((total + math.copysign(values.size // 2, total)) / values.size)


def _case(op: str, x: Any, kernel: Triple, stride: Triple, padding: str, scale: float = 0) -> Case:
    before, out = [], []
    for n, k, s in zip(x.shape[1:4], kernel, stride, strict=True):
        pad, count = same_padding(n, k, s) if padding == "SAME" else (0, (n - k) // s + 1)
        before.append(pad)
        out.append(count)
    y = np.zeros((len(x), *out, x.shape[4]), x.dtype)
    for n, *places, c in np.ndindex(*y.shape):
        starts = [p * s - b for p, s, b in zip(places, stride, before, strict=True)]
        seen = tuple(slice(max(a, 0), a + k) for a, k in zip(starts, kernel, strict=True))
        y[(n, *places, c)] = _pooled(op, x[(n, *seen, c)])
    return Case(
        op,
        [T(x, scale=scale)],
        _options(kernel, stride, padding),
        [T(y, scale=scale)],
        tolerance=1e-6,
        custom=True,
        name=f"{x.dtype}{list(x.shape)} by {kernel} every {stride}, {padding}",
    )


def _random(kind: Any, shape: tuple[int, ...] = (2, 5, 6, 7, 3)) -> Array:
    rng = np.random.default_rng(7)
    if kind is np.float32:
        return rng.standard_normal(shape).astype(kind)
    ends = np.iinfo(kind)
    return rng.integers(ends.min, ends.max, shape, kind, endpoint=True)


_X = np.array([0, 6, 2, 4, 4, 5, 1, 4, 3, 2, 10, 7, 2, 3, 5, 1], np.float32).reshape(1, 2, 2, 4, 1)
_WINDOWS: list[tuple[Triple, Triple]] = [
    ((2, 2, 2), (2, 2, 2)),
    ((3, 1, 2), (1, 2, 3)),
    ((1, 4, 3), (3, 1, 1)),
    ((1, 1, 1), (2, 2, 2)),
    ((5, 6, 7), (1, 1, 1)),
]


def _by_hand(op: str, kernel: Triple, want: list[float]) -> Case:
    y = np.array(want, np.float32).reshape(1, 1, 1, 2, 1)
    return Case(op, [_X], _options(kernel, (2, 2, 2), "VALID"), [y], custom=True)


def _refused(text: str, x: Any = _X, **changed: Any) -> Case:
    given = {"kernel": (2, 2, 2), "stride": (1, 1, 1), "padding": "SAME"} | changed
    options = _options(**given)
    return Case("AvgPool3D", [x], options, refused=text, outputs=[T(x)], custom=True, name=text)


CASES = [
    *(
        _case(op, _random(kind), *window, padding, 0.0 if kind is np.float32 else 0.5)
        for op, kind, window, padding in itertools.product(
            ("AvgPool3D", "MaxPool3D"), (np.float32, np.int8, np.int16), _WINDOWS, ("SAME", "VALID")
        )
    ),
    _by_hand("AvgPool3D", (2, 2, 2), [3.125, 4.25]),
    _by_hand("AvgPool3D", (2, 1, 2), [2.75, 5.75]),
    _by_hand("MaxPool3D", (2, 2, 2), [6, 10]),
    _case("MaxPool3D", np.zeros((0, 2, 2, 2, 1), np.float32), (2, 2, 2), (1, 1, 1), "SAME"),
    Case(
        "MaxPool3D",
        [np.array([np.nan, -np.inf, 1, np.nan], np.float32).reshape(1, 1, 1, 4, 1)],
        _options((1, 1, 2), (1, 1, 2), "SAME"),
        [np.array([np.finfo(np.float32).min, 1], np.float32).reshape(1, 1, 1, 2, 1)],
        custom=True,
        name="not a number",
    ),
    _refused("takes a 5-dimensional input", x=_X[0]),
    *(
        _case(op, np.arange(start, start + 8).astype(kind).reshape(1, 2, 2, 2, 1), *both, "VALID")
        for op, both in itertools.product(("AvgPool3D", "MaxPool3D"), [((2, 2, 2), (1, 1, 1))])
        for kind, start in ((np.float16, -3), (np.float64, -3), (np.uint8, 200))
    ),
    _refused("is uint16; AvgPool3D takes", x=_X.astype(np.uint16)),
    _refused("data_format 'NCDHW'", form="NCDHW"),
    _refused("with strides [1, 0, 1, 1, 1]", stride=(0, 1, 1)),
    _refused("with ksize [1, 2, 2, 1]", kernel=(2, 2)),
    _refused("padding EXPLICIT; taken: SAME, VALID", padding="EXPLICIT"),
    _refused("a window of (4, 2, 2) does not fit", kernel=(4, 2, 2), padding="VALID"),
]
