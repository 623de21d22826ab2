"""Memory that C may free: TensorFlow Lite's arrays come from malloc, and code that was compiled
against it frees them, or puts others in their place.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable
from ctypes import c_int, c_size_t, c_void_p

_MOST = 1 << 20  # numbers in an array of C's; more is no array

_libc = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
malloc = ctypes.CFUNCTYPE(c_void_p, c_size_t)(("malloc", _libc))
calloc = ctypes.CFUNCTYPE(c_void_p, c_size_t, c_size_t)(("calloc", _libc))
free = ctypes.CFUNCTYPE(None, c_void_p)(("free", _libc))


def block(size: int) -> int:
    """`size` bytes of zeros, at least one. MemoryError where there are none."""
    address: int | None = calloc(1, max(size, 1))
    if not address:
        raise MemoryError(f"malloc has no {size} bytes")
    return address


def copy_of(data: bytes) -> int:
    address = block(len(data))
    ctypes.memmove(address, data, len(data))
    return address


def int_array(values: Iterable[int]) -> int:
    """A TfLiteIntArray."""
    found = list(values)
    return copy_of(bytes((c_int * (len(found) + 1))(len(found), *found)))


def float_array(values: Iterable[float]) -> int:
    """A TfLiteFloatArray."""
    found = list(values)
    return copy_of(bytes(c_int(len(found))) + bytes((ctypes.c_float * len(found))(*found)))


def read_ints(address: int | None) -> tuple[int, ...]:
    """What a TfLiteIntArray holds; nothing for NULL. ValueError for what is none."""
    if not address:
        return ()
    count = c_int.from_address(address).value
    if not 0 <= count <= _MOST:
        raise ValueError(f"a TfLiteIntArray of {count} numbers")
    return tuple((c_int * count).from_address(address + ctypes.sizeof(c_int)))
