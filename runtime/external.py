"""TensorFlow Lite's external delegates, in shared libraries."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import Any

CREATE = "tflite_plugin_create_delegate"
DESTROY = "tflite_plugin_destroy_delegate"


class ExternalDelegate:
    """An external delegate: a shared library with the two functions of TensorFlow Lite's external
    delegate interface.
    """

    def __init__(
        self, library: str | os.PathLike[str], options: Mapping[Any, Any] | None = None
    ) -> None:
        """`options` are handed to the library as text.

        ValueError where the library cannot be loaded, lacks a function, or makes no delegate; the
        text gives path and reason.
        """
        self._library: ctypes.CDLL | None = None
        self._pointer: int | None = None
        self.path = os.fspath(library)
        if not isinstance(self.path, str) or not self.path:
            raise ValueError(f"a delegate's library is the path of a file, not {library!r}")
        if options is not None and not isinstance(options, Mapping):
            raise TypeError(f"a delegate's options are a dictionary, not {type(options).__name__}")
        try:
            loaded = ctypes.PyDLL(self.path)
        except OSError as e:
            raise ValueError(f"tried {_tried(self.path)}: {e}") from e
        missing = [name for name in (CREATE, DESTROY) if not hasattr(loaded, name)]
        if missing:
            raise ValueError(
                f"{self.path} is loaded but lacks the function{'s' * (len(missing) > 1)} "
                f"{' and '.join(missing)}: "
                "it is no external delegate of TensorFlow Lite"
            )
        self._create(loaded, dict(options or {}))
        self._library = loaded

    def _create(self, library: ctypes.CDLL, options: dict[Any, Any]) -> None:
        messages: list[str] = []
        callback_type = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
        callback = callback_type(lambda text: messages.append(text.decode("utf-8", "replace")))
        create = getattr(library, CREATE)
        strings = ctypes.c_char_p * len(options)
        create.argtypes = [
            ctypes.POINTER(ctypes.c_char_p),
            ctypes.POINTER(ctypes.c_char_p),
            ctypes.c_size_t,
            callback_type,
        ]
        create.restype = ctypes.c_void_p
        keys = strings(*(str(k).encode() for k in options))
        values = strings(*(str(v).encode() for v in options.values()))
        self._pointer = create(keys, values, len(options), callback)
        if not self._pointer:
            raise ValueError(
                f"{self.path} made no delegate: {' '.join(messages) or 'it gave no reason'}"
            )

    def __del__(self) -> None:
        library, self._library = getattr(self, "_library", None), None
        if library is not None:
            destroy = getattr(library, DESTROY)
            destroy.argtypes = [ctypes.c_void_p]
            destroy(self._pointer)

    def _get_native_delegate_pointer(self) -> int | None:
        return self._pointer


def load_delegate(
    library: str | os.PathLike[str], options: Mapping[Any, Any] | None = None
) -> ExternalDelegate:
    """An `ExternalDelegate`; ValueError "Failed to load delegate from …" where it cannot be had."""
    try:
        return ExternalDelegate(library, options)
    except ValueError as e:
        raise ValueError(f"Failed to load delegate from {os.fspath(library)}\n{e}") from e


def _tried(path: str) -> str:
    if os.path.dirname(path):
        absolute = os.path.abspath(path)
        there = "the file is there" if os.path.exists(absolute) else "there is no such file"
        return f"{absolute} ({there})"
    return f"{path} on the loader's search path"
