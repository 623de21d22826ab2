"""The versioned table that is handed to libraries: `LiteDelegateHost` of the header."""

from __future__ import annotations

import ctypes
from ctypes import c_uint32

from . import _async_table, _table  # their entries, in the header's order
from ._entries import entries
from ._table import ABI


class Host(ctypes.Structure):
    """`LiteDelegateHost` of the header."""

    _fields_ = [
        ("size", c_uint32),
        ("abi", c_uint32),
        *((name, kind) for name, kind, _ in entries),
    ]


HOST = Host(ctypes.sizeof(Host), ABI, *(kind(function) for _, kind, function in entries))

__all__ = ["ABI", "HOST", "Host", "_async_table", "_table"]
