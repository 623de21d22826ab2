"""Tensor element types: their TensorFlow Lite names and numbers, and the numpy storage of each.

numpy has no bfloat16, int4 or int2. Their storage is chosen here and nowhere else: bfloat16 is kept
as the uint16 of its bits, the sub-byte integers are unpacked to one int8 (or uint8) for each
element.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class DType(enum.IntEnum):
    """Element type of a tensor, numbered as `TensorType` in the schema."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT32 = 2
    UINT8 = 3
    INT64 = 4
    STRING = 5
    BOOL = 6
    INT16 = 7
    COMPLEX64 = 8
    INT8 = 9
    FLOAT64 = 10
    COMPLEX128 = 11
    UINT64 = 12
    RESOURCE = 13
    VARIANT = 14
    UINT32 = 15
    UINT16 = 16
    INT4 = 17
    BFLOAT16 = 18
    INT2 = 19
    UINT4 = 20
    FLOAT8_E4M3FN = 21
    FLOAT8_E5M2 = 22

    @property
    def label(self) -> str:
        """Name as messages and reports print it: `float32`."""
        return self.name.lower()

    @property
    def numpy(self) -> np.dtype[Any]:
        """dtype of the array that holds such a tensor."""
        return _STORAGE[self]

    @property
    def bits(self) -> int:
        """Size of one element in a model file; 0 where it has no fixed size."""
        return _BITS.get(self, 8 * _STORAGE[self].itemsize)

    @property
    def is_float(self) -> bool:
        return self in _FLOATS

    @property
    def is_integer(self) -> bool:
        return self in _INTEGERS

    @property
    def is_complex(self) -> bool:
        return self in (DType.COMPLEX64, DType.COMPLEX128)

    def range(self) -> tuple[int, int]:
        """Least and greatest value of an integer type."""
        if self not in _INTEGERS:
            raise ValueError(f"{self.label} is no integer type")
        if self.name.startswith("U"):
            return 0, (1 << self.bits) - 1
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1


_STORAGE: dict[DType, np.dtype[Any]] = {
    DType.FLOAT32: np.dtype(np.float32),
    DType.FLOAT16: np.dtype(np.float16),
    DType.INT32: np.dtype(np.int32),
    DType.UINT8: np.dtype(np.uint8),
    DType.INT64: np.dtype(np.int64),
    DType.STRING: np.dtype(object),
    DType.BOOL: np.dtype(np.bool_),
    DType.INT16: np.dtype(np.int16),
    DType.COMPLEX64: np.dtype(np.complex64),
    DType.INT8: np.dtype(np.int8),
    DType.FLOAT64: np.dtype(np.float64),
    DType.COMPLEX128: np.dtype(np.complex128),
    DType.UINT64: np.dtype(np.uint64),
    DType.RESOURCE: np.dtype(object),
    DType.VARIANT: np.dtype(object),
    DType.UINT32: np.dtype(np.uint32),
    DType.UINT16: np.dtype(np.uint16),
    DType.INT4: np.dtype(np.int8),
    DType.BFLOAT16: np.dtype(np.uint16),
    DType.INT2: np.dtype(np.int8),
    DType.UINT4: np.dtype(np.uint8),
    DType.FLOAT8_E4M3FN: np.dtype(np.int8),
    DType.FLOAT8_E5M2: np.dtype(np.int8),
}
_BITS: dict[DType, int] = {
    DType.INT4: 4,
    DType.UINT4: 4,
    DType.INT2: 2,
    DType.STRING: 0,
    DType.RESOURCE: 0,
    DType.VARIANT: 0,
}
_FLOATS = frozenset({DType.FLOAT32, DType.FLOAT16, DType.FLOAT64, DType.BFLOAT16})
_INTEGERS = frozenset(d for d in DType if d.name.startswith(("INT", "UINT")))


def unpack_bits(packed: Array, dtype: DType, size: int) -> Array:
    """Elements of a packed INT4, UINT4 or INT2 buffer, low bits first, as an array [size]."""
    raw = packed.view(np.uint8).reshape(-1)
    if dtype is DType.INT2:
        parts = [(raw << s).view(np.int8) >> 6 for s in (6, 4, 2, 0)]
    elif dtype is DType.INT4:
        parts = [(raw << 4).view(np.int8) >> 4, raw.view(np.int8) >> 4]
    elif dtype is DType.UINT4:
        parts = [raw & 15, raw >> 4]
    else:
        raise ValueError(f"{dtype.label} is not packed")
    return np.stack(parts, axis=-1).reshape(-1)[:size]


def pack_bits(values: Array, dtype: DType) -> Array:
    """The inverse of `unpack_bits`: uint8, a last unfilled byte ends in zero bits."""
    bits = dtype.bits
    per = 8 // bits
    flat = np.zeros(-(-values.size // per) * per, np.uint8)
    flat[: values.size] = values.reshape(-1).astype(np.int8).view(np.uint8) & ((1 << bits) - 1)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return np.asarray(np.bitwise_or.reduce(flat.reshape(-1, per) << shifts, axis=1), np.uint8)


def bfloat16_to_float32(bits: Array) -> Array:
    """float32 values of bfloat16 bits (uint16)."""
    # an explicit type: numpy 1 widens a scalar that is shifted by a plain 16
    return np.left_shift(bits, 16, dtype=np.uint32).view(np.float32)


def float32_to_bfloat16(values: Array) -> Array:
    """bfloat16 bits (uint16) of float32 values, rounded to nearest even.

    Every NaN becomes the quiet one of its sign.
    """
    # not ascontiguousarray, which makes a scalar one in a row
    raw = np.asarray(values, np.float32, order="C").view(np.uint32)
    rounded = ((raw + 0x7FFF + ((raw >> 16) & 1)) >> 16).astype(np.uint16)
    quiet = ((raw >> 16) & 0x8000 | 0x7FC0).astype(np.uint16)
    return np.asarray(np.where(np.isnan(values), quiet, rounded))
