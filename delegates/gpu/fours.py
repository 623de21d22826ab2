"""Loads and stores of several elements at once, for the bodies that GPUs are given.

`LOAD_WORD0(i)` … is an i32 of what is stored from element i on: four of 8 bits, i being a multiple
of 4, or, of floats, two halves, i being even. `LOAD_FOUR0(i, v)` … are elements i to i + 3 as
values, `STORE_FOUR(i, v)` stores as many, i being a multiple of 4.
"""

from __future__ import annotations

from ...kernels.device import C_TYPES
from ...kernels.types import DType

_BYTES = (DType.INT8, DType.UINT8)
_FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)


def load_macros(number: int, pointer: str, dtype: DType) -> dict[str, str]:
    """Of operand `number`, beside its LOAD."""
    load, macros = f"LOAD{number}", {}
    if dtype in _BYTES:
        macros[f"LOAD_WORD{number}(at)"] = f"((CONST_ARG i32*)({pointer}))[(at) / 4]"
    elif dtype is DType.FLOAT16:
        macros[f"LOAD_WORD{number}(at)"] = f"((CONST_ARG i32*)({pointer}))[(at) / 2]"
    elif dtype in _FLOATS:
        macros[f"LOAD_WORD{number}(at)"] = f"PACK_HALVES({load}(at), {load}((at) + 1))"
    if dtype in _BYTES or dtype is DType.FLOAT32:
        four = f"READ_FOUR({pointer}, at, v)"
    elif dtype is DType.FLOAT16:
        four = f"READ_FOUR_HALVES({pointer}, at, v)"
    else:
        four = f"for (i32 four_ = 0; four_ < 4; four_++) (v)[four_] = {load}((at) + four_)"
    macros[f"LOAD_FOUR{number}(at, v)"] = f"do {{ {four}; }} while (0)"
    return macros


def store_text(pointer: str, dtype: DType, index: str, values: str) -> str | None:
    """Four values at once; None where that is no single store."""
    if dtype in _BYTES or dtype is DType.FLOAT32:
        return f"WRITE_FOUR({C_TYPES[dtype]}, {pointer}, {index}, {values});"
    if dtype is DType.FLOAT16:
        return f"WRITE_FOUR_HALVES({pointer}, {index}, {values});"
    return None
