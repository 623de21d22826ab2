"""A `TfLiteAsyncKernel` of C's as an `AsyncKernel`."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import (
    CFUNCTYPE,
    POINTER,
    c_bool,
    c_char_p,
    c_int,
    c_int32,
    c_size_t,
    c_uint32,
    c_void_p,
)
from typing import Any

from ..kernels.api import Context, Node, OpError
from ..kernels.types import Array
from ..runtime.async_kernel import AsyncKernel, AttributeMap, ExecutionTask, IoType
from ._async_table import LentMap
from ._call import Call, NodeState, lend, take_back


class BackendBuffer(ctypes.Structure):
    """`TfLiteBackendBuffer` of the header."""

    _fields_ = [("ptr", c_void_p)]


_TYPES = CFUNCTYPE(None, c_void_p, c_int, POINTER(POINTER(c_char_p)), POINTER(c_size_t))
_FUNCTIONS = {
    "register_buffer": CFUNCTYPE(
        c_int, c_void_p, c_void_p, c_int, POINTER(BackendBuffer), c_void_p, c_int
    ),
    "register_buffer_slice": CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_void_p, c_int),
    "unregister_buffer": CFUNCTYPE(c_int, c_void_p, c_void_p, c_int),
    "supported_buffer_types": _TYPES,
    "supported_synchronizations": _TYPES,
    "reconcile_restrictions": CFUNCTYPE(
        c_bool, c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_void_p, c_void_p
    ),
    "set_attributes": CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p),
    "set_buffer_attributes": CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p),
    "get_buffer_attributes": CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p),
    "prepare": CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p),
    "eval": CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p),
    "wait": CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p),
    "finish": CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p),
}


class AsyncKernelStruct(ctypes.Structure):
    """`TfLiteAsyncKernel` of the header."""

    _fields_ = [
        ("size", c_uint32),
        ("reserved", c_int32),
        ("kernel_data", c_void_p),
        *((name, c_void_p) for name in _FUNCTIONS),
    ]


class CAsyncKernel(AsyncKernel):
    """Made for one node, whose operator owns the struct."""

    def __init__(self, name: str, address: int, state: NodeState) -> None:
        self._name = name
        self._address = address
        self._state = state
        struct = AsyncKernelStruct.from_address(address)
        if struct.size < ctypes.sizeof(AsyncKernelStruct):
            raise OpError("the async kernel was not made by TfLiteAsyncKernelCreate")
        self._functions = {
            f: kind(getattr(struct, f)) for f, kind in _FUNCTIONS.items() if getattr(struct, f)
        }
        missing = {"register_buffer", "eval", "wait"} - self._functions.keys()
        if missing:
            raise OpError(f"the async kernel lacks {', '.join(sorted(missing))}")
        self._tasks: dict[int, int] = {}  # handles, by the task's identity

    def _call(
        self, step: str, context: Context, node: Node | None, *arguments: Any, failed: int = 1
    ) -> None:
        """A function that gives a status; nothing where there is none."""
        function = self._functions.get(step)
        if function is None:
            return
        with Call(context, self._state, node, f"async {step}") as call:
            handles = (
                (call.context_handle,)
                if node is None
                else (
                    call.context_handle,
                    call.node_handle,
                )
            )
            status = function(self._address, *handles, *arguments)
        call.finish(self._name, status)

    # -- what it takes

    def _types(self, what: str, io: IoType, default: Sequence[str]) -> Sequence[str]:
        function = self._functions.get(what)
        if function is None:
            return default
        types, count = POINTER(c_char_p)(), c_size_t()
        function(self._address, io, ctypes.byref(types), ctypes.byref(count))
        return [(types[i] or b"").decode("utf-8", "replace") for i in range(count.value)]

    def supported_buffer_types(self, io: IoType) -> Sequence[str]:
        return self._types("supported_buffer_types", io, super().supported_buffer_types(io))

    def supported_synchronizations(self, io: IoType) -> Sequence[str]:
        default = super().supported_synchronizations(io)
        return self._types("supported_synchronizations", io, default)

    def reconcile_restrictions(
        self, context: Context, node: Node, tensor: int, wanted: AttributeMap
    ) -> tuple[AttributeMap, AttributeMap]:
        merged, conflict = AttributeMap(wanted.kind), AttributeMap(wanted.kind)
        function = self._functions.get("reconcile_restrictions")
        if function is None:
            return wanted, conflict
        with (
            Call(context, self._state, node, "async reconcile_restrictions") as call,
            _lent(wanted, merged, conflict) as maps,
        ):
            fits = function(self._address, call.context_handle, call.node_handle, tensor, *maps)
        call.finish(self._name, 0 if fits or conflict else 1)
        return merged, conflict

    def set_attributes(
        self, context: Context, node: Node, tensor: int, attributes: AttributeMap
    ) -> None:
        with _lent(attributes) as maps:
            self._call("set_attributes", context, node, tensor, *maps)

    # -- buffers

    def register_buffer(
        self, context: Context, io: IoType, buffer: Array, attributes: AttributeMap, handle: int
    ) -> None:
        boxed = BackendBuffer(buffer.__array_interface__["data"][0])
        with _lent(attributes) as maps:
            self._call("register_buffer", context, None, io, ctypes.byref(boxed), *maps, handle)

    def unregister_buffer(self, context: Context, handle: int) -> None:
        self._call("unregister_buffer", context, None, handle)

    # -- tasks

    def prepare(self, context: Context, node: Node) -> None:
        self._call("prepare", context, node)

    def eval(self, context: Context, node: Node, task: ExecutionTask) -> None:
        handle = self._tasks[id(task)] = lend("task", task)
        try:
            self._call("eval", context, node, handle)
        except BaseException:
            take_back(self._tasks.pop(id(task)))
            raise

    def wait(self, context: Context, task: ExecutionTask) -> None:
        self._call("wait", context, None, self._tasks[id(task)])
        if task.status:
            raise OpError(f"{self._name} set the status {task.status} of its task")

    def finish(self, context: Context, task: ExecutionTask) -> None:
        try:
            self._call("finish", context, None, self._tasks[id(task)])
        finally:
            take_back(self._tasks.pop(id(task)))


@contextmanager
def _lent(*maps: AttributeMap) -> Iterator[list[int]]:
    """Handles of attribute maps, for one call."""
    handles = [lend("map", LentMap(m)) for m in maps]
    try:
        yield handles
    finally:
        for handle in handles:
            take_back(handle)
