"""Custom ops in shared libraries: `load_op_library`."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..kernels.api import Registration
from ..runtime.capi.binary import check_library
from ..runtime.registerers import NAMED_REGISTERERS
from ..runtime.resolver import MutableOpResolver
from ._classic import classic_operator, registering
from ._errors import ABI_SYMBOL, ENTRY, OpLibraryError, no_entry
from ._host import ABI, HOST
from ._operator import COperator, OperatorStruct, entry_point

__all__ = ["OpLibrary", "OpLibraryError", "load_op_library", "registration_at"]

_ROOM = 1024  # operators in one library
_WHY_ROOM = 512


class OpLibrary(Mapping[str, Registration]):
    """The custom ops of a shared library, by name.

    It goes where custom ops go: `Interpreter(custom_ops=library)`,
    `InterpreterWithCustomOps(custom_op_registerers=[library])`, or `library(resolver)`. The library
    is unloaded when neither this object nor an interpreter or resolver that has its ops is left.
    """

    def __init__(self, name: str, ops: Mapping[str, Registration]) -> None:
        self.name = name
        self._ops = dict(ops)

    def __getitem__(self, op: str) -> Registration:
        return self._ops[op]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ops)

    def __len__(self) -> int:
        return len(self._ops)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __call__(self, resolver: MutableOpResolver) -> None:
        """Adds all ops to a resolver."""
        for name, registration in self._ops.items():
            resolver.add_custom(name, registration)

    def __repr__(self) -> str:
        return f"<library {self.name} of {', '.join(self._ops) or 'no ops'}>"


def load_op_library(
    library: str | os.PathLike[str] | bytes | bytearray | memoryview,
    *,
    functions: Mapping[str, str] | None = None,
    private_file: bool = False,
) -> OpLibrary:
    """Loads a shared library of custom ops: one that was built with
    `litedelegate/tflite_custom_op.h`, or a classic one with functions `TfLiteRegistration*
    Register_X()`, over TensorFlow Lite's own structs.

    Of a classic library all functions of such a name are called; `functions` names them instead,
    {"name of the op": "name of the function"}, and can name more of a library of the other kind.

    `library` is a path, or the library's bytes. Bytes are loaded from memory and reach no disk: on
    Linux alone. Elsewhere `private_file=True` lets them into a file that only this user can read,
    for as long as they are loaded. The library runs in this process: load what you trust.
    OpLibraryError, a ValueError, for what is no such library, or is for another machine or ABI.
    """
    if isinstance(library, bytes | bytearray | memoryview):
        data, what = bytes(library), f"the library of {len(library)} bytes"
        classic = _check(data, what, functions)
        loaded = _from_memory(data, what, private_file)
    else:
        path = os.path.abspath(os.fspath(library))
        what = os.fspath(library)
        try:
            data = Path(path).read_bytes()
        except (OSError, ValueError) as e:  # ValueError: a path with a zero in it
            shown = path if path.isprintable() else ascii(path)
            text = getattr(e, "strerror", None) or e
            raise OpLibraryError(f"{shown} cannot be read: {text}") from e
        classic = _check(data, what, functions)
        loaded = _Loaded(path, what)
    ops = {} if classic is not None and not _has_entry(loaded) else _operators(loaded)
    for name, symbol in (classic or {}).items():
        op = _classic(loaded, name, symbol, given=functions is not None)
        if op.name in ops:
            raise OpLibraryError(f"{what} has two operators named {op.name!r}")
        ops[op.name] = op
    made = OpLibrary(what, ops)
    for name in (*made, *(classic or {}).values()):
        NAMED_REGISTERERS.add(name, made)
    return made


def _check(data: bytes, what: str, functions: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """The functions of a classic library that are to be called, by the names of their ops; None
    for a library of the other kind.
    """
    symbols = check_library(data, what, OpLibraryError)
    if symbols is None:  # not to be told from the file
        return functions
    if functions is not None:
        missing = sorted(set(functions.values()) - set(symbols))
        if missing:
            raise OpLibraryError(f"{what} has no function {', '.join(missing)}")
        return functions
    if ENTRY in symbols:
        return None
    found = registering(symbols)
    if not found:
        raise OpLibraryError(no_entry(what))
    return found


def _has_entry(loaded: _Loaded) -> bool:
    return hasattr(loaded.dll, ENTRY)


def _classic(loaded: _Loaded, name: str, symbol: str, *, given: bool) -> Registration:
    """What a function `TfLiteRegistration* Register_X()` gives; its name counts, if it has one and
    none is `given`.
    """
    try:
        function = ctypes.CFUNCTYPE(ctypes.c_void_p)((symbol, loaded.dll))
    except AttributeError as e:
        raise OpLibraryError(f"{loaded.what} has no function {symbol}") from e
    made = classic_operator(function(), loaded, loaded.what, name, ours=_has_entry(loaded))
    found = made.registration()
    return replace(found, name=name) if given else found


def registration_at(address: int, library: object = None) -> Registration:
    """A `Registration` of a `TfLiteRegistration*` that a program has at hand, to be given to
    `MutableOpResolver.add_custom`. `library` is kept for as long as the operator can be called.
    OpLibraryError for one that has no invoke.
    """
    return classic_operator(
        address, library, f"the registration at {address:#x}", "?"
    ).registration()


class _Loaded:
    """A library in this process; gone with the last reference."""

    def __init__(self, path: str, what: str, fd: int = -1, remove: bool = False) -> None:
        self.what = what
        try:
            # the functions run without Python's lock: what they call takes it
            self.dll = ctypes.CDLL(path)
        except (OSError, UnicodeDecodeError) as e:  # its words can hold what a broken file has
            _discard(path, fd, remove)
            raise OpLibraryError(f"{what} cannot be loaded: {e}") from e
        handle: int = self.dll._handle
        finalize = weakref.finalize(self, _unload, handle, path, fd, remove)
        # at exit interpreters free their ops, and the system unloads: a file is still to be removed
        finalize.atexit = remove


def _unload(handle: int, path: str, fd: int, remove: bool) -> None:
    import _ctypes

    if sys.platform == "win32":
        _ctypes.FreeLibrary(handle)
    else:
        _ctypes.dlclose(handle)
        if fd >= 0 and _resident(path):
            return  # the loader knows it by this descriptor's number, which must not be reused
    _discard(path, fd, remove)


def _discard(path: str, fd: int, remove: bool) -> None:
    if fd >= 0:
        os.close(fd)
    if remove:
        Path(path).unlink(missing_ok=True)
        Path(path).parent.rmdir()


def _resident(path: str) -> bool:
    """Whether the system kept a library that was closed, as it may."""
    import _ctypes

    try:
        _ctypes.dlopen(path, os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return False
    return True


def _from_memory(data: bytes, what: str, private_file: bool) -> _Loaded:
    if sys.platform == "linux" and hasattr(os, "memfd_create"):
        try:
            fd = os.memfd_create("litedelegate-ops", os.MFD_CLOEXEC)
            with open(fd, "wb", closefd=False) as file:
                file.write(data)
        except OSError as e:
            raise OpLibraryError(f"{what} cannot be held in memory: {e}") from e
        # The descriptor stays open while the library is loaded: the loader takes another library
        # under the same name for this one.
        return _Loaded(f"/proc/self/fd/{fd}", what, fd)
    if not private_file:
        raise OpLibraryError(
            "a library is loaded from memory on Linux alone; on this system "
            "load_op_library(..., private_file=True) writes it to a file of yours until it is "
            "unloaded"
        )
    return _from_private_file(data, what)


def _from_private_file(data: bytes, what: str) -> _Loaded:
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    folder = tempfile.mkdtemp(prefix="litedelegate-")  # mode 0700
    path = os.path.join(folder, f"ops{suffix}")
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o700), "wb") as file:
        file.write(data)
    return _Loaded(path, what, remove=True)


def _operators(loaded: _Loaded) -> dict[str, Registration]:
    dll, what = loaded.dll, loaded.what
    try:
        abi = (ctypes.c_uint32 * 3).in_dll(dll, ABI_SYMBOL)
        hand_over = entry_point(dll, ENTRY)
    except (ValueError, AttributeError) as e:
        raise OpLibraryError(no_entry(what)) from e
    version, table, operator = abi
    if version != ABI or table > HOST.size or operator > ctypes.sizeof(OperatorStruct):
        raise OpLibraryError(
            f"{what} was built for ABI {version} with a table of {table} bytes; this version has "
            f"ABI {ABI} with {HOST.size} bytes: build it with the header of this version"
        )
    pointers = (ctypes.POINTER(OperatorStruct) * _ROOM)()
    why = ctypes.create_string_buffer(_WHY_ROOM)
    count = hand_over(ctypes.addressof(HOST), pointers, _ROOM, why, _WHY_ROOM)
    if count < 0:
        raise OpLibraryError(f"{what}: {why.value.decode('utf-8', 'replace')}")
    ops: dict[str, Registration] = {}
    for i in range(count):
        made: Any = COperator(pointers[i], loaded, what)
        if made.name in ops:
            raise OpLibraryError(f"{what} has two operators named {made.name!r}")
        ops[made.name] = made.registration()
    return ops
