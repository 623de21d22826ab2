"""The exception for libraries of custom ops."""

from __future__ import annotations

from ..runtime.capi.binary import LibraryError

ENTRY = "litedelegate_op_library"
ABI_SYMBOL = "litedelegate_op_abi"


class OpLibraryError(LibraryError):
    """A library of custom ops that cannot be loaded; the text says which and why."""


def no_entry(what: str) -> str:
    return (
        f"{what} is a shared library, but not of custom ops: it has no {ENTRY}, which "
        "LITEDELEGATE_OP_LIBRARY(...) in litedelegate/tflite_custom_op.h defines, and no function "
        "Register_... that gives a TfLiteRegistration"
    )
