"""PAD, PADV2, MIRROR_PAD, DILATE and the StableHLO pad."""

from __future__ import annotations

from typing import Any

import numpy as np
from stored import STORED, moved

from litedelegate.kernels.types import DType

from . import Case, T

_X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
_ROWS = np.arange(16 * 32, dtype=np.float32).reshape(16, 32, 1)
_DEEP = np.arange(3 * 4 * 21, dtype=np.float32).reshape(3, 4, 21)
_WIDE = np.arange(2 * 40 * 40 * 3, dtype=np.float32).reshape(2, 40, 40, 3)


def _pads(*pairs: int, dtype: type = np.int32) -> T:
    return T(np.array(pairs, dtype).reshape(-1, 2))


def _pad(x: Any, pairs: tuple[int, ...], value: float = 0) -> Any:
    return np.pad(x, np.array(pairs).reshape(-1, 2), constant_values=value)


def _mirror(mode: str, x: Any, pairs: tuple[int, ...]) -> Case:
    how = {"REFLECT": "reflect", "SYMMETRIC": "symmetric"}[mode]
    want = np.pad(x, np.array(pairs).reshape(-1, 2), mode=how)  # type: ignore[call-overload]
    return Case("MIRROR_PAD", [x, _pads(*pairs)], {"mode": mode}, [want])


def _stablehlo(
    x: Any, value: Any, low: Any, high: Any, interior: Any, want: Any = None, refused: Any = None
) -> Case:
    options = {
        "edge_padding_low": low,
        "edge_padding_high": high,
        "interior_padding": interior,
    }
    return Case(
        "STABLEHLO_PAD",
        [x, value],
        options,
        None if want is None else [want],
        refused=refused,
        outputs=[T(x)] if refused else (),
    )


CASES = [
    Case("PAD", [_X, _pads(1, 0, 2, 3)], {}, [_pad(_X, (1, 0, 2, 3))]),
    Case("PAD", [_X, _pads(0, 0, 0, 0)], {}, [_X]),
    Case("PAD", [_X, _pads(0, 1, 1, 0, dtype=np.int64)], {}, [_pad(_X, (0, 1, 1, 0))]),
    Case("PAD", [_X, _pads(0, 1, 1, 0, dtype=np.int8)], {}, [_pad(_X, (0, 1, 1, 0))]),
    Case("PAD", [np.float32(4), T(np.zeros((0, 2), np.int32))], {}, [np.float32(4)]),
    Case("PAD", [_ROWS, _pads(0, 0, 0, 32, 0, 0)], {}, [_pad(_ROWS, (0, 0, 0, 32, 0, 0))]),
    Case(
        "PADV2",
        [_DEEP, _pads(1, 0, 0, 2, 3, 5), np.float32([-2])],
        {},
        [_pad(_DEEP, (1, 0, 0, 2, 3, 5), -2)],
        name="channels, and rows that are all padding",
    ),
    Case(
        "PAD",
        [_WIDE, _pads(0, 0, 1, 2, 3, 1, 0, 0)],
        {},
        [_pad(_WIDE, (0, 0, 1, 2, 3, 1, 0, 0))],
    ),
    Case(
        "PAD",
        [np.ones((1,) * 6, np.int32), _pads(*(1, 0) * 6)],
        {},
        [_pad(np.ones((1,) * 6, np.int32), (1, 0) * 6)],
    ),
    # a quantised tensor is padded with its zero point
    Case(
        "PAD",
        [T([5], DType.INT8, 0.5, -3), _pads(1, 1)],
        {},
        [T([-3, 5, -3], DType.INT8, 0.5, -3)],
    ),
    *(
        Case("PAD", [x, _pads(0, 1, 1, 0)], {}, [moved(x, lambda v: _pad(v, (0, 1, 1, 0)))])
        for x in STORED
        if x.type is not DType.STRING
    ),
    Case("PAD", [[b"x"], _pads(1, 1)], {}, [[b"", b"x", b""]]),
    Case("PAD", [_X, _pads(1, -1, 0, 0)], {}, refused="greater than equal to 0", outputs=[T(_X)]),
    Case("PAD", [_X, _pads(1, 1)], {}, refused="paddings of shape [2, 2]", outputs=[T(_X)]),
    Case("PADV2", [_X, _pads(1, 1, 0, 2), np.float32(9)], {}, [_pad(_X, (1, 1, 0, 2), 9)]),
    Case(
        "PADV2",
        [_WIDE[0], _pads(2, 1, 0, 0, 0, 0), [9.0]],
        {},
        [_pad(_WIDE[0], (2, 1, 0, 0, 0, 0), 9)],
    ),
    Case(
        "PADV2",
        [T([5], DType.INT8, 0.5, -3), _pads(1, 1), T(np.int8(7), DType.INT8, 0.5, -3)],
        {},
        [T([7, 5, 7], DType.INT8, 0.5, -3)],
    ),
    Case(
        "PADV2",
        [T([5], DType.INT8, 0.5, -3), _pads(1, 1), T(np.int8(7), DType.INT8, 0.25, -3)],
        {},
        refused="does not rescale",
        outputs=[T([7, 5, 7], DType.INT8, 0.5, -3)],
    ),
    _mirror("REFLECT", _X, (1, 0, 2, 2)),
    _mirror("SYMMETRIC", _X, (2, 1, 3, 2)),
    _mirror("SYMMETRIC", _WIDE, (0, 1, 3, 0, 2, 7, 0, 0)),
    _mirror("REFLECT", np.arange(5, dtype=np.int8), (4, 4)),
    Case(
        "MIRROR_PAD",
        [[[0, 1], [2, 3]], _pads(2, 2, 2, 2)],
        {"mode": "REFLECT"},
        refused="dimension 0 of 'input0' is 2, so REFLECT takes at most 1; got 2 and 2",
        outputs=[T([[0]])],
    ),
    Case(
        "MIRROR_PAD",
        [[[0, 1], [2, 3]], _pads(2, 2, 2, 3)],
        {"mode": "SYMMETRIC"},
        refused="SYMMETRIC takes at most 2; got 2 and 3",
        outputs=[T([[0]])],
    ),
    Case(
        "DILATE",
        [_X, [2, 3], np.float32(-1)],
        {},
        [[[1, -1, -1, 2, -1, -1, 3], [-1.0] * 7, [4, -1, -1, 5, -1, -1, 6]]],
    ),
    Case("DILATE", [_X, [1, 1], np.float32(-1)], {}, [_X]),
    Case(
        "DILATE",
        [_X, [0, 1], np.float32(0)],
        {},
        refused="dilations of 1 or more",
        outputs=[T(_X)],
    ),
    _stablehlo([1, 2, 3], np.int32(9), (1,), (2,), (1,), [9, 1, 9, 2, 9, 3, 9, 9]),
    _stablehlo([1, 2, 3], np.int32(9), (-1,), (0,), (1,), [9, 2, 9, 3]),
    _stablehlo([1, 2, 3], np.int32(9), (-2,), (-1,), (1,), [2, 9]),
    _stablehlo([1, 2, 3], np.int32(9), (-5,), (1,), (0,), np.zeros(0, np.int32)),
    _stablehlo(np.zeros(0, np.int32), np.int32(9), (1,), (1,), (3,), [9, 9]),
    _stablehlo([1, 2], np.int32(9), (0,), (0,), (-1,), refused="must be non-negative"),
]
