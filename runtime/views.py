"""Live views of tensors, and whether any is still held: memory that somebody looks at must not be
planned anew.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np

from ..kernels.types import Array
from .tensor import LiveTensor

MOST_FORGOTTEN = 64  # views that may be gone before the list is cleared of them


class _Lent:
    """The base of a live view. It lives as long as the view or any slice of it, and keeps the
    memory.
    """

    __slots__ = ("__array_interface__", "__weakref__", "_array")

    def __init__(self, array: Array) -> None:
        self._array = array
        self.__array_interface__ = array.__array_interface__


class Views:
    """The live views of one interpreter."""

    def __init__(self) -> None:
        self._lent: list[tuple[weakref.ref[Any], LiveTensor]] = []

    def lend(self, tensor: LiveTensor) -> Array:
        """A view of the tensor's memory."""
        if len(self._lent) >= MOST_FORGOTTEN:
            self._held()
        array = tensor.array
        if array.dtype == object:
            view = array.view()
            self._lent.append((weakref.ref(view), tensor))
            return view
        lent = _Lent(array)
        self._lent.append((weakref.ref(lent), tensor))
        return np.asarray(lent)

    def ensure_none(self, call: str) -> None:
        """RuntimeError where a view is still held; it names the tensors."""
        if not self._lent:
            return
        held = self._held()
        if held:
            gc.collect()  # a view in a reference cycle is nobody's
            held = self._held()
        if held:
            tensors = ", ".join(
                f"{t.name!r} (tensor {t.index})" for t in {t.index: t for t in held}.values()
            )
            raise RuntimeError(
                "There is at least 1 reference to internal data in the interpreter in the form of "
                "a numpy array or slice: "
                f"a live view of {tensors} is held while {call}() is called. Be sure to only hold "
                "the function returned "
                "from tensor(), or delete the array, or take a copy with get_tensor()."
            )

    def _held(self) -> list[LiveTensor]:
        self._lent = [(ref, tensor) for ref, tensor in self._lent if ref() is not None]
        return [tensor for _, tensor in self._lent]
