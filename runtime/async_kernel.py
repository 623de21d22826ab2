"""Asynchronous operators: what one offers (`AsyncKernel`), and how the runtime drives it.

The calls are those of TensorFlow Lite's TfLiteAsyncKernel: buffers are registered, attributes
settled, the kernel prepared; then each execution is a task that is evaluated, waited for, finished.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..kernels.api import Context, Node, OpError
from ..kernels.types import Array
from .lifetimes import OBJECTS

if TYPE_CHECKING:
    from .node import LiveNode
    from .subgraph import LiveSubgraph
    from .tensor import LiveTensor

HOST_MEMORY = "host_memory"  # the type of the buffers that this runtime registers
NO_SYNC = "no_sync_obj"  # kTfLiteSyncTypeNoSyncObj: who waits calls `wait`


class IoType(enum.IntEnum):
    UNKNOWN = 0
    INPUT = 1
    OUTPUT = 2


class BufferKey(enum.IntEnum):
    """TfLiteBufferAttrKey: what an `AttributeMap` says of a buffer."""

    RESOURCE_TYPE_NAME = 1
    ALIGNMENT = 2
    PADDING = 3
    OFFSET = 4
    SIZE = 5
    CURRENT_HOST_COHERENCY_STATE = 6
    PREFERRED_HOST_COHERENCY_STATE = 7
    CURRENT_HOST_CACHE_STATE = 8
    PREFERRED_HOST_CACHE_STATE = 9


class SyncKey(enum.IntEnum):
    """TfLiteSynchronizationAttrKey."""

    OBJECT_TYPE_NAME = 1


class AttributeMap(dict["int | str", "int | str | bool"]):
    """Attributes by `BufferKey` or `SyncKey`, and custom ones by name."""

    BUFFER, SYNC = 1, 2

    def __init__(self, kind: int, values: Any = ()) -> None:
        super().__init__(values)
        self.kind = kind


class ExecutionTask:
    """One execution: which buffers it works on, and what the kernel keeps with it."""

    def __init__(self, buffers: dict[int, int], names: dict[tuple[int, str], int]) -> None:
        """`buffers`: handles by tensor; `names`: tensors by `IoType` and name."""
        self.buffers = buffers
        self.names = names
        self.syncs: dict[int, Any] = {}  # synchronisation objects by tensor
        self.data: Any = None  # the kernel's own
        self.status = 0


class AsyncKernel:
    """What `Registration.async_kernel(context, node)` gives: an operator that starts its work and
    is waited for. `eval`, `wait` and `register_buffer` are to be given; OpError says what fails.

    `eval`, `wait` and `finish` come one after the other for each task, from one thread; the work
    itself is done where the kernel likes.
    """

    def supported_buffer_types(self, io: IoType) -> Sequence[str]:
        return (HOST_MEMORY,)

    def supported_synchronizations(self, io: IoType) -> Sequence[str]:
        return (NO_SYNC,)

    def register_buffer(
        self, context: Context, io: IoType, buffer: Array, attributes: AttributeMap, handle: int
    ) -> None:
        """`buffer` is a tensor's memory until it is unregistered; tasks name it by its handle."""
        raise NotImplementedError

    def unregister_buffer(self, context: Context, handle: int) -> None:
        """Nothing, by default."""

    def reconcile_restrictions(
        self, context: Context, node: Node, tensor: int, wanted: AttributeMap
    ) -> tuple[AttributeMap, AttributeMap]:
        """What holds for a tensor's buffers (or synchronisations), and what cannot be met."""
        return wanted, AttributeMap(wanted.kind)

    def set_attributes(
        self, context: Context, node: Node, tensor: int, attributes: AttributeMap
    ) -> None:
        """What `reconcile_restrictions` gave. Nothing, by default."""

    def prepare(self, context: Context, node: Node) -> None:
        """After attributes were set. Nothing, by default."""

    def eval(self, context: Context, node: Node, task: ExecutionTask) -> None:
        """Starts the work and comes back."""
        raise NotImplementedError

    def wait(self, context: Context, task: ExecutionTask) -> None:
        """Blocks until the work is done."""
        raise NotImplementedError

    def finish(self, context: Context, task: ExecutionTask) -> None:
        """Lets go of what belongs to the task; called whatever `wait` said. Nothing, by default."""


class AsyncNode:
    """A node whose operator has an asynchronous kernel: what the plan calls for it.

    An asynchronous invoke drives the kernel; any other calls the operator's own invoke, if it has
    one.
    """

    def __init__(self, subgraph: LiveSubgraph, node: LiveNode) -> None:
        self._subgraph = subgraph
        self._node = node
        self._kernel: AsyncKernel | None = None
        self._registered: dict[int, tuple[int, Array]] = {}  # handle and memory, by tensor
        self._next = 1
        self._prepared = False

    def __call__(self) -> None:
        invoke = self._node.registration.invoke
        if invoke is not None and not (self._subgraph.graph.asynchronous and self._able()):
            invoke(self._subgraph, self._node)
            return
        task = self._start()
        try:
            self._get().wait(self._subgraph, task)
        finally:
            self._get().finish(self._subgraph, task)

    def _able(self) -> bool:
        return not any(t.is_dynamic or t.dtype in OBJECTS for _, t in self._tensors())

    def _tensors(self) -> list[tuple[IoType, LiveTensor]]:
        """Those with buffers: constants are read where they lie."""
        inputs = [t for t in self._node.inputs if t is not None and t.const is None]
        made = [(IoType.OUTPUT, t) for t in self._node.outputs]
        return [*((IoType.INPUT, t) for t in inputs), *made]

    def _get(self) -> AsyncKernel:
        if self._kernel is None:
            make = self._node.registration.async_kernel
            made = make(self._subgraph, self._node) if make is not None else None
            if not isinstance(made, AsyncKernel):
                raise OpError(f"async_kernel gave {made!r}, which is no AsyncKernel")
            self._kernel = made
        return self._kernel

    def _start(self) -> ExecutionTask:
        if not self._able():
            raise OpError("an asynchronous kernel takes no strings, and no shapes that data tell")
        kernel, subgraph, node = self._get(), self._subgraph, self._node
        for io, t in self._tensors():
            held = self._registered.get(t.index)
            if held is None or held[1] is not t.array:
                self._prepared = False
                self._register(kernel, io, t)
        if not self._prepared:
            kernel.prepare(subgraph, node)
            self._prepared = True
        task = ExecutionTask(
            {index: handle for index, (handle, _) in self._registered.items()},
            {(io, t.name): t.index for io, t in self._tensors()},
        )
        kernel.eval(subgraph, node, task)
        return task

    def _register(self, kernel: AsyncKernel, io: IoType, t: LiveTensor) -> None:
        subgraph, node = self._subgraph, self._node
        if t.index in self._registered:
            kernel.unregister_buffer(subgraph, self._registered.pop(t.index)[0])
        self._check_types("buffers", HOST_MEMORY, kernel.supported_buffer_types(io))
        self._check_types("synchronisations", NO_SYNC, kernel.supported_synchronizations(io))
        address = t.array.__array_interface__["data"][0]
        buffer = AttributeMap(
            AttributeMap.BUFFER,
            {
                BufferKey.RESOURCE_TYPE_NAME: HOST_MEMORY,
                BufferKey.ALIGNMENT: min(address & -address, 64) or 64,
                BufferKey.PADDING: 0,
                BufferKey.OFFSET: 0,
                BufferKey.SIZE: t.array.nbytes,
            },
        )
        sync = AttributeMap(AttributeMap.SYNC, {SyncKey.OBJECT_TYPE_NAME: NO_SYNC})
        for wanted in (buffer, sync):
            merged, conflict = kernel.reconcile_restrictions(subgraph, node, t.index, wanted)
            if conflict:
                raise OpError(
                    f"the buffer of {t.name!r} has {dict(wanted)}; the kernel conflicts in "
                    f"{dict(conflict)}"
                )
            kernel.set_attributes(subgraph, node, t.index, merged)
        handle, self._next = self._next, self._next + 1
        kernel.register_buffer(subgraph, io, t.array, buffer, handle)
        self._registered[t.index] = handle, t.array

    def _check_types(self, what: str, wanted: str, supported: Sequence[str]) -> None:
        if wanted not in supported:
            raise OpError(
                f"the asynchronous kernel takes {what} of the type {', '.join(supported) or 'none'}"
                f"; here there is {wanted}"
            )

    def close(self) -> None:
        """Before the node's user data are freed."""
        registered, self._registered = self._registered, {}
        for handle, _ in registered.values():
            self._get().unregister_buffer(self._subgraph, handle)
        self._kernel = None
