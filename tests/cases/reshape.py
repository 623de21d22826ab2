"""RESHAPE, SQUEEZE, EXPAND_DIMS and the StableHLO reshape."""

from __future__ import annotations

import numpy as np
from stored import STORED, moved

from . import Case, T

_SIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def _shape(*dims: int) -> T:
    return T(np.array(dims, np.int32))


def _reshape(x: object, shape: T | None, want: object, **options: object) -> Case:
    inputs = [x] if shape is None else [x, shape]
    return Case("RESHAPE", inputs, {"new_shape": (), **options}, [want])


CASES = [
    _reshape(_SIX, _shape(3, 2), _SIX.reshape(3, 2)),
    _reshape(_SIX, _shape(-1), _SIX.reshape(6)),
    _reshape(_SIX, _shape(1, -1, 2), _SIX.reshape(1, 3, 2)),
    _reshape(_SIX, None, _SIX.reshape(6, 1), new_shape=(6, -1)),
    # a shape tensor that is no vector does not count
    _reshape(_SIX, T(np.int32(6)), _SIX.reshape(6), new_shape=(6,)),
    # old files write the shape of a scalar as [0]
    _reshape([7.0], None, np.float32(7), new_shape=(0,)),
    _reshape([7.0], T(np.zeros(0, np.int32), const=True), np.float32(7)),
    _reshape(np.float32(7), _shape(1, 1), [[7.0]]),
    _reshape(np.zeros((0, 3), np.float32), _shape(3, -1), np.zeros((3, 0), np.float32)),
    _reshape(np.zeros((2, 0), np.float32), _shape(0, -1), np.zeros((0, 2), np.float32)),
    *(_reshape(x, _shape(4), moved(x, np.ravel)) for x in STORED),
    Case(
        "RESHAPE",
        [np.zeros((2, 10), np.float32), T(np.array([1, 10], np.int32), const=True)],
        {"new_shape": ()},
        refused="num_input_elements != num_output_elements (20 != 10): RESHAPE of 'input0', shape "
        "[2, 10], to [1, 10] (constant 'input1'); constant 'input1' pins the first dimension to 1",
        outputs=[T(_SIX)],
    ),
    Case(
        "RESHAPE",
        [_SIX, _shape(-1, -1)],
        {"new_shape": ()},
        refused="-1 may stand once",
        outputs=[T(_SIX)],
    ),
    Case(
        "RESHAPE",
        [_SIX, _shape(-6, -1)],
        {"new_shape": ()},
        refused="output shape contains negative dimension",
        outputs=[T(_SIX)],
    ),
    Case(
        "RESHAPE",
        [_SIX, _shape(6)],
        {"new_shape": ()},
        refused="float32 and int32",
        outputs=[T(np.zeros(6, np.int32))],
    ),
    Case("SQUEEZE", [_SIX.reshape(1, 2, 1, 3)], {"squeeze_dims": ()}, [_SIX], version=2),
    Case("SQUEEZE", [_SIX.reshape(1, 2, 1, 3)], {"squeeze_dims": (2,)}, [_SIX.reshape(1, 2, 3)]),
    Case("SQUEEZE", [_SIX.reshape(1, 2, 3, 1)], {"squeeze_dims": (-1, 0, 3)}, [_SIX]),
    Case("SQUEEZE", [[[b"a"], [b"b"]]], {"squeeze_dims": (1,)}, [[b"a", b"b"]], version=2),
    Case("SQUEEZE", [np.float32(3)], {"squeeze_dims": ()}, [np.float32(3)]),
    Case(
        "SQUEEZE",
        [_SIX],
        {"squeeze_dims": (1,)},
        refused="each must be there and be 1",
        outputs=[T(_SIX)],
    ),
    Case("EXPAND_DIMS", [_SIX, np.int32(0)], {}, [_SIX[None]]),
    Case("EXPAND_DIMS", [_SIX, [2]], {}, [_SIX[..., None]]),
    Case("EXPAND_DIMS", [_SIX, np.int64(-2)], {}, [_SIX[:, None]]),
    Case("EXPAND_DIMS", [np.float32(3), np.int32(-1)], {}, [[3.0]]),
    Case("EXPAND_DIMS", [_SIX, np.int32(3)], {}, refused="taken: -3 to 2", outputs=[T(_SIX)]),
    Case(
        "EXPAND_DIMS",
        [T([1], T([1]).type, 0.5), np.int32(0)],
        {},
        refused="does not rescale",
        outputs=[T([[1]], T([1]).type, 0.25)],
    ),
    Case("STABLEHLO_RESHAPE", [_SIX], {}, [_SIX.reshape(3, 1, 2)]),
    Case(
        "STABLEHLO_RESHAPE",
        [_SIX],
        {},
        refused="declared shape of 'output0'",
        outputs=[T(np.zeros(5, np.float32))],
    ),
]
