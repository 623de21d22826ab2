"""TensorFlow Lite's numbers for element types and kinds of memory, as C has them."""

from __future__ import annotations

from ...kernels.api import OpError
from ...kernels.types import DType

# TfLiteType counts otherwise than the schema
_ORDER = (
    *("FLOAT32", "INT32", "UINT8", "INT64", "STRING", "BOOL", "INT16", "COMPLEX64", "INT8"),
    *("FLOAT16", "FLOAT64", "COMPLEX128", "UINT64", "RESOURCE", "VARIANT", "UINT32", "UINT16"),
    *("INT4", "BFLOAT16", "INT2", "UINT4", "FLOAT8_E4M3FN", "FLOAT8_E5M2"),
)
TYPE_NUMBERS = {DType[name]: i for i, name in enumerate(_ORDER, 1)}
_DTYPES = {number: dtype for dtype, number in TYPE_NUMBERS.items()}

# TfLiteAllocationType of a tensor's `allocation`, and of the kinds of temporaries
ALLOCATIONS = {
    "none": 0,
    "mmap_ro": 1,
    "arena_rw": 2,
    "arena": 2,
    "arena_rw_persistent": 3,
    "persistent": 3,
    "dynamic": 4,
    "persistent_ro": 5,
}
KINDS = {2: "arena", 3: "persistent", 4: "dynamic"}
DYNAMIC_KIND = 4

CUSTOM_OP = 32  # kTfLiteBuiltinCustom
DELEGATE_OP = 51  # kTfLiteBuiltinDelegate
NO_HANDLE = -1  # kTfLiteNullBufferHandle


def dtype_of_number(number: int) -> DType:
    dtype = _DTYPES.get(number)
    if dtype is None:
        raise OpError(f"there is no TfLiteType {number}")
    return dtype
