"""TensorFlow Lite's external delegates, in shared libraries."""

from __future__ import annotations

import ctypes
import os
import re
import threading
import weakref
from collections.abc import Callable, Mapping
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import Any

from ..kernels.api import OpError, Tensor
from .capi import calls, structs
from .capi.binary import LibraryError, check_library
from .capi.picture import Picture
from .delegate import Delegate, DelegateContext
from .delegate_context import PlanningContext
from .external_kernel import Planner, picture_of
from .tensor import LiveTensor

CREATE = "tflite_plugin_create_delegate"
DESTROY = "tflite_plugin_destroy_delegate"
_REPORT = ctypes.CFUNCTYPE(None, c_char_p)
_ALLOWS_DYNAMIC = 1  # kTfLiteDelegateFlagsAllowDynamicTensors


class ExternalDelegate(Delegate):
    """An external delegate: a shared library with the two functions of TensorFlow Lite's external
    delegate interface. Several interpreters may use one; it is destroyed when neither they nor the
    user hold it any more.

    `name`, in reports, is the file's, without "lib" and what follows the first dot.
    """

    def __init__(
        self, library: str | os.PathLike[str], options: Mapping[Any, Any] | None = None
    ) -> None:
        """`options` are handed to the library as text.

        ValueError where the library cannot be loaded, lacks a function, or makes no delegate; the
        text gives path and reason.
        """
        self.path = os.fspath(library)
        if not isinstance(self.path, str) or not self.path:
            raise ValueError(f"a delegate's library is the path of a file, not {library!r}")
        if options is not None and not isinstance(options, Mapping):
            raise TypeError(f"a delegate's options are a dictionary, not {type(options).__name__}")
        self.name = os.path.basename(self.path).removeprefix("lib").partition(".")[0] or self.path
        self._lock = threading.Lock()
        self._library = _load(self.path)
        found = _create(self._library, self.path, dict(options or {}))
        self.pointer: int = found
        self._struct = structs.DelegateStruct.from_address(found)
        builder = self._struct.opaque_delegate_builder
        self.opaque = bool(builder)
        self._of: Any = structs.OpaqueDelegateBuilder.from_address(builder) if builder else None
        destroy = getattr(self._library, DESTROY)
        destroy.argtypes, destroy.restype = [c_void_p], None
        # interpreters free their kernels first: theirs were made later
        self._destroy = weakref.finalize(self, destroy, found)
        self.allows_dynamic_tensors = bool(self._functions.flags & _ALLOWS_DYNAMIC)
        if not self._functions.prepare:
            self._destroy()
            raise ValueError(f"{self.path} made a delegate that has no Prepare")

    @property
    def _functions(self) -> Any:
        """What it can do: its own fields, or those of the opaque builder, which come first."""
        return self._of if self.opaque else self._struct

    @property
    def data(self) -> int | None:
        """The delegate's own."""
        found: int | None = self._functions.data
        return found

    def prepare(self, context: DelegateContext) -> None:
        assert isinstance(context, PlanningContext)
        picture = picture_of(context)
        with self._lock:
            picture.planner = planner = Planner(self, context, picture)
            picture.begin(None)
            try:
                status = self._call("prepare", picture)
            finally:
                picture.planner = None
        for other in planner.looked_at.values():
            other.planner = None
            picture.reported += other.reported
            picture.failure = picture.failure or other.failure
        try:
            text = picture.finish(self.name, "Prepare", bool(status))
        except OpError as e:
            raise RuntimeError(str(e)) from e
        if text:
            context.report(f"{self.name}: {text}")

    # -- buffers of its own

    @property
    def has_buffer_handles(self) -> bool:
        return bool(self._functions.copy_from_buffer_handle)

    def copy_from_buffer_handle(self, handle: Any, tensor: Tensor) -> None:
        self._copy("copy_from_buffer_handle", handle, tensor)

    def copy_to_buffer_handle(self, handle: Any, tensor: Tensor) -> None:
        self._copy("copy_to_buffer_handle", handle, tensor)

    def free_buffer_handle(self, handle: Any) -> None:
        if self._functions.free_buffer_handle:
            picture = Picture([])
            calls.fill(picture)
            picture.begin(None)
            self._call("free_buffer_handle", picture, byref(c_int(handle)))
            picture.finish(self.name, "FreeBufferHandle", False)

    def _copy(self, what: str, handle: Any, tensor: Tensor) -> None:
        if not getattr(self._functions, what):
            raise NotImplementedError(f"{self.name} has no function {what}")
        assert isinstance(tensor, LiveTensor)
        picture = Picture([tensor])
        calls.fill(picture)
        picture.point(0)
        struct = picture.struct(0)
        struct.delegate, struct.buffer_handle = self.pointer, handle
        picture.begin(None)
        status = self._call(what, picture, handle, picture.address_of(0))
        picture.finish(self.name, what, bool(status))

    def _call(self, what: str, picture: Picture, *arguments: Any) -> Any:
        """A function of the delegate; those of an opaque one are given its data as well."""
        plain, opaque = _KINDS[what]
        function = (opaque if self.opaque else plain)(getattr(self._functions, what))
        data = (self.data,) if self.opaque else ()
        return function(picture.address, self.pointer, *data, *arguments)

    def _get_native_delegate_pointer(self) -> int:
        return self.pointer


_KINDS = {
    "prepare": (structs.DELEGATE_PREPARE, structs.OPAQUE_PREPARE),
    "copy_from_buffer_handle": (structs.COPY, structs.OPAQUE_COPY),
    "copy_to_buffer_handle": (structs.COPY, structs.OPAQUE_COPY),
    "free_buffer_handle": (structs.FREE_HANDLE, structs.OPAQUE_FREE_HANDLE),
}


def load_delegate(
    library: str | os.PathLike[str], options: Mapping[Any, Any] | None = None
) -> ExternalDelegate:
    """An `ExternalDelegate`; ValueError "Failed to load delegate from …" where it cannot be had."""
    try:
        return ExternalDelegate(library, options)
    except ValueError as e:
        raise ValueError(f"Failed to load delegate from {os.fspath(library)}\n{e}") from e


def _load(path: str) -> ctypes.CDLL:
    if os.path.dirname(path) and os.path.isfile(path):
        try:
            check_library(Path(path).read_bytes(), "it")
        except (OSError, LibraryError) as e:
            raise ValueError(f"tried {_tried(path)}: {e}") from e
    try:
        # its functions run without Python's lock: what they call back takes it
        loaded = ctypes.CDLL(path)
    except (OSError, UnicodeDecodeError) as e:  # its words can hold what a broken file has
        raise ValueError(f"tried {_tried(path)}: {_why(str(e), path)}") from e
    missing = [name for name in (CREATE, DESTROY) if not hasattr(loaded, name)]
    if missing:
        raise ValueError(
            f"{path} is loaded but lacks the function{'s' * (len(missing) > 1)} "
            f"{' and '.join(missing)}: "
            "it is no external delegate of TensorFlow Lite"
        )
    return loaded


def _create(library: ctypes.CDLL, path: str, options: dict[Any, Any]) -> int:
    messages: list[str] = []
    callback = _REPORT(lambda text: messages.append((text or b"").decode("utf-8", "replace")))
    create: Callable[..., int | None] = ctypes.CFUNCTYPE(
        c_void_p, POINTER(c_char_p), POINTER(c_char_p), c_size_t, _REPORT
    )((CREATE, library))
    strings = c_char_p * len(options)
    keys = strings(*(str(k).encode() for k in options))
    values = strings(*(str(v).encode() for v in options.values()))
    made = create(keys, values, len(options), callback)
    if not made:
        raise ValueError(f"{path} made no delegate: {' '.join(messages) or 'it gave no reason'}")
    return made


def _tried(path: str) -> str:
    if os.path.dirname(path):
        absolute = os.path.abspath(path)
        there = "the file is there" if os.path.exists(absolute) else "there is no such file"
        return f"{absolute} ({there})"
    return f"{path} on the loader's search path"


def _why(error: str, path: str) -> str:
    """The system's words, and what they mean."""
    lacking = re.match(r"(\S+): cannot open shared object file", error)
    if lacking and lacking[1] != path:
        return f"it needs the library {lacking[1]}, which is not found ({error})"
    symbol = re.search(r"undefined symbol: (\w+)", error)
    if symbol:
        return (
            f"it needs the function {symbol[1]}, which no library that it names has ({error}). A "
            "delegate has to bring what it uses of TensorFlow Lite's code."
        )
    return error
