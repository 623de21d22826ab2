"""Memory, streams, events, graphs and arrays of the stand-in, under the names that CuPy gives."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from litedelegate.kernels.types import Array

from .machine import Allocation, CUDARuntimeError, Machine, Queue, Work, bytes_at


class Memory:
    """`cupy/cuda/memory.pyx`, class Memory (or PooledMemory): freed when nobody holds it.

    CuPy's pool gives it to later work of the same stream alone, so work that is enqueued may still
    use it: it is freed behind that work.
    """

    def __init__(self, machine: Machine, nbytes: int, queue: Queue | None) -> None:
        device = None if queue is None else queue.device
        self._machine = machine
        self._queue = queue
        self.allocation = machine.allocate(nbytes, device)
        self.ptr = self.allocation.address
        self.size = nbytes
        self.device_id = device

    def __del__(self) -> None:
        allocation = getattr(self, "allocation", None)
        if allocation is None:
            return
        bury = partial(self._machine.bury, allocation)
        if self._queue is not None and self._queue.work:
            self._queue.work.append(bury)
        else:
            bury()


class UnownedMemory:
    """`cupy/cuda/memory.pyx`, class UnownedMemory."""

    def __init__(self, ptr: int, size: int, owner: Any, device_id: int = -1) -> None:
        self.ptr, self.size, self.device_id, self._owner = ptr, size, device_id, owner


class MemoryPointer:
    """`cupy/cuda/memory.pyx`, class MemoryPointer."""

    def __init__(self, mem: Any, offset: int) -> None:
        self.mem = mem
        self.ptr = mem.ptr + offset

    @property
    def device_id(self) -> Any:
        return self.mem.device_id

    def __int__(self) -> int:
        return int(self.ptr)

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)


class Stream:
    """`cupy/cuda/stream.pyx`, class Stream. `queue` is the stand-in's."""

    machine: Machine

    def __init__(self, null: bool = False, non_blocking: bool = False, queue: Any = None) -> None:
        current = self.machine.current
        if queue is None and null:
            queue = self.machine.default_queue()
        self.queue = queue if queue is not None else Queue(self.machine, current, not non_blocking)
        default = self.queue is self.machine.default_queue()
        self.ptr = 0 if default else id(self.queue)
        self.device_id = -1 if default else current

    def __enter__(self) -> Stream:
        self._match()
        self.machine.entered.append(self.queue)
        return self

    def __exit__(self, *exc: object) -> None:
        self.machine.entered.pop()

    def _match(self) -> None:
        """`check_stream_device_match`."""
        if self.device_id not in (-1, self.machine.current):
            raise RuntimeError(
                f"The device that the stream is created on ({self.device_id}) does not match with "
                f"the current device ({self.machine.current})"
            )

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr

    @classmethod
    def from_external(cls, given: Any) -> Stream:
        version, address = given.__cuda_stream__()
        assert version == 0
        return ExternalStream(address)

    def synchronize(self) -> None:
        self.queue.must_not_capture("streamSynchronize")
        self.queue.drain()

    @property
    def done(self) -> bool:
        self.queue.must_not_capture("streamQuery")
        return not self.queue.work

    def record(self, event: Event | None = None) -> Event:
        event = event if event is not None else Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        self.queue.put(event.synchronize)

    def begin_capture(self, mode: Any = None) -> None:
        if self.ptr == 0:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        if self.queue.capture is not None:
            raise CUDARuntimeError("cudaErrorIllegalState", "the stream is capturing")
        self.queue.capture, self.queue.invalid = [], False

    def end_capture(self) -> Graph:
        work, self.queue.capture = self.queue.capture, None
        if work is None:
            raise CUDARuntimeError("cudaErrorIllegalState", "the stream is not capturing")
        if self.queue.invalid:
            raise CUDARuntimeError("cudaErrorStreamCaptureInvalidated", "by an earlier error")
        return Graph(work)

    def is_capturing(self) -> bool:
        return self.queue.capture is not None


class ExternalStream(Stream):
    """`cupy/cuda/stream.pyx`, class ExternalStream: its device is not known (-1)."""

    def __init__(self, ptr: int, device_id: int = -1) -> None:
        queue = next(q for q in self.machine.streams if id(q) == ptr)
        super().__init__(queue=queue)
        self.device_id = device_id


class Event:
    """`cupy/cuda/stream.pyx`, class Event."""

    machine: Machine

    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        self._queue: Queue | None = None
        self._upto = 0
        self.time = 0

    def record(self, stream: Any = None) -> None:
        queue: Queue = self.machine.current_queue if stream is None else stream.queue
        queue.must_not_capture("an event of the stand-in")
        queue.put(self._stamp)
        self._queue, self._upto = queue, queue.done + len(queue.work)

    def _stamp(self) -> None:
        self.time = time.perf_counter_ns()

    def synchronize(self) -> None:
        if self._queue is not None:
            self._queue.drain(self._upto)

    @property
    def done(self) -> bool:
        return self._queue is None or self._queue.done >= self._upto


def elapsed(start: Event, end: Event) -> float:
    """`get_elapsed_time`: milliseconds; both have to be done."""
    if not start.time or not end.time:
        raise CUDARuntimeError("cudaErrorNotReady", "device not ready")
    return (end.time - start.time) / 1e6


class Graph:
    """`cupy/cuda/graph.pyx`: it keeps addresses, and nothing alive."""

    def __init__(self, work: Sequence[Work]) -> None:
        self._work = list(work)

    def launch(self, stream: Any = None) -> None:
        stream.queue.machine.graphs += 1
        stream.queue.put_all(self._work)


class ndarray:
    """`cupy/_core/core.pyx`: as much of an array as crosses between libraries."""

    machine: Machine

    def __init__(
        self,
        shape: Any,
        dtype: Any = np.float32,
        memptr: MemoryPointer | None = None,
        strides: tuple[int, ...] | None = None,
    ) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype = np.dtype(dtype)
        self.size = int(np.prod(self.shape, dtype=np.int64))
        self.nbytes = self.size * self.dtype.itemsize
        plain = np.empty(self.shape, self.dtype).strides
        self.strides = plain if strides is None else strides
        self.data = memptr if memptr is not None else alloc(self.machine, self.nbytes)

    @property
    def flags(self) -> Any:
        plain = np.empty(self.shape, self.dtype).strides
        return type("Flags", (), {"c_contiguous": self.strides == plain})

    @property
    def device(self) -> Any:
        return type("Device", (), {"id": self.data.device_id})

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "data": (self.data.ptr, False),
            "strides": None if self.flags.c_contiguous else self.strides,
            "version": 3,
            "stream": 1,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.data.device_id

    def get(self) -> Array:
        """Waits for the current stream, as CuPy does."""
        queue = self.machine.current_queue
        queue.must_not_capture("a copy to the host")
        queue.drain()
        self.machine.device_memory(self.data.ptr, self.nbytes, self.data.device_id)
        raw = bytes_at(self.data.ptr, self.nbytes).copy()
        return raw.view(self.dtype).reshape(self.shape)

    def set(self, array: Array) -> None:
        if array.shape != self.shape or array.dtype != self.dtype:
            raise ValueError("the array does not fit")
        self.machine.current_queue.drain()
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        bytes_at(self.data.ptr, self.nbytes)[:] = raw


def asarray(kind: type[ndarray], value: Any) -> ndarray:
    """`_convert_from_cuda_array_interface`: the same memory, once the stream it names has passed.

    A value of 1 is the legacy default stream.
    """
    found = value.__cuda_array_interface__
    if found.get("stream") is not None:
        kind.machine.default_queue().drain()
    return _on(kind, found["data"][0], found["shape"], found["typestr"], found["strides"], value)


def from_dlpack(kind: type[ndarray], value: Any) -> ndarray:
    """`cupy/_core/dlpack.pyx`, from_dlpack: the producer is given the current stream.

    The capsules of the stand-in are (address, shape, dtype).
    """
    device_type, _ = value.__dlpack_device__()
    if device_type not in (2, 13):
        raise TypeError("CPU arrays cannot be directly imported to CuPy.")
    stream = id(kind.machine.current_queue)
    address, shape, dtype = value.__dlpack__(stream=stream)
    return _on(kind, address, shape, dtype, None, value)


def _on(
    kind: type[ndarray], address: int, shape: Any, dtype: Any, strides: Any, owner: Any
) -> ndarray:
    known = kind.machine.find(address)
    assert known is not None and known.device is not None
    memory = UnownedMemory(address, known.nbytes, owner, known.device)
    return kind(shape, dtype, MemoryPointer(memory, 0), strides)


def alloc(machine: Machine, nbytes: int) -> MemoryPointer:
    """`cupy.cuda.alloc`: for the current stream of the current device."""
    queue = machine.current_queue
    if queue.device != machine.current:
        queue = machine.default_queue()
    return MemoryPointer(Memory(machine, nbytes, queue), 0)


def alloc_pinned(machine: Machine, nbytes: int) -> Any:
    """`cupy/cuda/pinned_memory.pyx`: a buffer of signed bytes (`__getbuffer__`) with its address.

    The pool hands freed memory out at once, copies that are under way or not.
    """
    mem = Memory(machine, nbytes, None)
    kind = type("PinnedMemoryPointer", (ctypes.c_int8 * nbytes,), {})
    pointer = kind.from_address(mem.ptr)
    pointer.mem, pointer.ptr = mem, mem.ptr
    return pointer


def memcpy_async(
    machine: Machine, dst: int, src: int, nbytes: int, kind: int, queue: Queue
) -> None:
    """`runtime.memcpyAsync`, with what CUDA's "API synchronization behavior" says of it.

    From memory that is not pinned it reads at once; to such memory it waits.
    """
    machine.copies[kind] += 1
    sides: list[Allocation | None] = []
    for address, host in ((src, kind == 1), (dst, kind == 2)):
        if host:
            known = machine.find(address)
            sides.append(known if known is not None and known.device is None else None)
        else:
            sides.append(machine.device_memory(address, nbytes, queue.device))

    def copy(source: Array | None = None) -> None:
        for side in sides:
            if side is not None and not side.live:
                raise CUDARuntimeError("cudaErrorIllegalAddress", "freed before it was copied")
        bytes_at(dst, nbytes)[:] = bytes_at(src, nbytes) if source is None else source

    if None in sides:
        queue.must_not_capture("a copy with memory that is not pinned")
    if kind == 1 and sides[0] is None:
        queue.put(partial(copy, bytes_at(src, nbytes).copy()))
    else:
        queue.put(copy)
    if kind == 2 and sides[1] is None:
        queue.drain()
