"""From a `TfLiteOperator` of a library to a `Registration`."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

from ..kernels.api import Context, Node, Registration
from ._async import CAsyncKernel
from ._call import Call, NodeState
from ._errors import OpLibraryError

_CUSTOM = 32  # kTfLiteBuiltinCustom
_FAILED = ctypes.c_void_p(-1).value  # TfLiteKernelInitFailed()
_INIT = CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_size_t)
_FREE = CFUNCTYPE(None, c_void_p, c_void_p)
_STEP = CFUNCTYPE(c_int32, c_void_p, c_void_p)
_INIT_WITH_DATA = CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_void_p, c_size_t)
_FREE_WITH_DATA = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)
_MAKE_ASYNC = CFUNCTYPE(c_void_p, c_void_p, c_void_p)
_MAKE_ASYNC_WITH_DATA = CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_void_p)
_STEP_WITH_DATA = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_void_p)


class OperatorStruct(ctypes.Structure):
    """`TfLiteOperator` of the header."""

    _fields_ = [
        ("size", c_uint32),
        ("builtin_code", c_int32),
        ("custom_name", c_char_p),
        ("version", c_int32),
        ("reserved", c_int32),
        ("user_data", c_void_p),
        ("init", c_void_p),
        ("free", c_void_p),
        ("prepare", c_void_p),
        ("invoke", c_void_p),
        ("init_with_data", c_void_p),
        ("free_with_data", c_void_p),
        ("prepare_with_data", c_void_p),
        ("invoke_with_data", c_void_p),
        ("async_kernel", c_void_p),
        ("inplace_operator", c_uint64),
        ("async_kernel_with_data", c_void_p),
    ]


# of a library that was built before operators had more
_LEAST = OperatorStruct.async_kernel_with_data.offset


class COperator:
    """An operator whose functions are C's. It holds `library`, which must not be unloaded while
    they can be called.
    """

    def __init__(self, pointer: Any, library: Any, what: str) -> None:
        if not pointer:
            raise OpLibraryError(f"{what} made no operator: a registration function gave NULL")
        size = pointer.contents.size
        if size < _LEAST:
            raise OpLibraryError(f"{what}: an operator was not made by TfLiteOperatorCreate")
        struct = OperatorStruct()
        ctypes.memmove(
            ctypes.addressof(struct),
            ctypes.addressof(pointer.contents),
            min(size, ctypes.sizeof(struct)),
        )
        self.library = library
        self.name = (struct.custom_name or b"").decode("utf-8", "replace")
        self.version = struct.version
        if struct.builtin_code != _CUSTOM or not self.name:
            raise OpLibraryError(
                f"{what}: operator {self.name!r} has the code {struct.builtin_code}; a custom "
                "operator has kTfLiteBuiltinCustom and a name"
            )
        if self.version < 1:
            raise OpLibraryError(f"{what}: {self.name} has version {self.version}; they start at 1")
        self.init = _function(struct, "init", _INIT, _INIT_WITH_DATA)
        self.free = _function(struct, "free", _FREE, _FREE_WITH_DATA)
        self.prepare = _function(struct, "prepare", _STEP, _STEP_WITH_DATA)
        self.invoke = _function(struct, "invoke", _STEP, _STEP_WITH_DATA)
        self.make_async = _function(struct, "async_kernel", _MAKE_ASYNC, _MAKE_ASYNC_WITH_DATA)
        if self.invoke is None and self.make_async is None:
            raise OpLibraryError(f"{what}: {self.name} has no invoke and no async kernel")

    def registration(self) -> Registration:
        return Registration(
            name=self.name,
            versions=(self.version, self.version),
            init=self._init,
            free=self._free,
            prepare=None if self.prepare is None else self._prepare,
            invoke=None if self.invoke is None else self._invoke,
            async_kernel=None if self.make_async is None else self._async_kernel,
            custom=True,
        )

    def _init(self, context: Context, options: Any) -> NodeState:
        raw = bytes(options or b"")
        state = NodeState(raw, ctypes.create_string_buffer(raw, len(raw) + 1))
        if self.init is not None:
            with Call(context, state, None, "init") as call:
                where = ctypes.addressof(state.buffer)
                state.data = self.init(call.context_handle, where, len(raw))
            if state.data == _FAILED:
                state.data = None
                call.finish(self.name, 1)
            call.finish(self.name, 0)
        return state

    def _free(self, context: Context, state: NodeState) -> None:
        if self.free is not None and state.data:
            with Call(context, state, None, "free") as call:
                self.free(call.context_handle, state.data)
            state.data = None
            call.finish(self.name, 0)

    def _prepare(self, context: Context, node: Node) -> None:
        assert self.prepare is not None
        state: NodeState = node.user_data
        with Call(context, state, node, "prepare") as call:
            status = self.prepare(call.context_handle, call.node_handle)
        call.finish(self.name, status)
        for place in state.temporaries:
            added = state.added[place]
            context.temporary(node, added.shape, added.dtype, added.kind)

    def _invoke(self, context: Context, node: Node) -> None:
        assert self.invoke is not None
        with Call(context, node.user_data, node, "invoke") as call:
            status = self.invoke(call.context_handle, call.node_handle)
        if status or call.reported or call.failure is not None:
            call.finish(self.name, status)

    def _async_kernel(self, context: Context, node: Node) -> CAsyncKernel:
        assert self.make_async is not None
        state: NodeState = node.user_data
        with Call(context, state, node, "the making of its async kernel") as call:
            made = self.make_async(call.context_handle, call.node_handle)
        call.finish(self.name, 0 if made else 1)
        return CAsyncKernel(self.name, made, state)


def _function(struct: OperatorStruct, name: str, plain: Any, with_data: Any) -> Any:
    """The function of that name; one "with data" is given the operator's user data first."""
    address = getattr(struct, f"{name}_with_data")
    if address:
        function, data = with_data(address), struct.user_data
        return lambda *arguments: function(data, *arguments)
    address = getattr(struct, name)
    return plain(address) if address else None


def entry_point(library: ctypes.CDLL, name: str) -> Any:
    function = getattr(library, name)
    function.restype = c_int32
    function.argtypes = [
        c_void_p,
        POINTER(POINTER(OperatorStruct)),
        c_int32,
        c_char_p,
        c_int32,
    ]
    return function
