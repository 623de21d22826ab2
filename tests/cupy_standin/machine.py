"""A machine with GPUs that are not there: memory, streams, captures; kernels run on OpenCL.

Nothing that is enqueued runs before somebody waits, so that who reads too early reads garbage:
memory is filled with it when it is allocated and when it is freed.
"""

from __future__ import annotations

import ctypes
import threading
import warnings
import weakref
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from litedelegate.delegates.opencl.device import OpenCLDevice
from litedelegate.delegates.opencl.find import library
from litedelegate.kernels.types import Array

FRESH, FREED = 0xCD, 0xDD
Work = Callable[[], None]


class CUDARuntimeError(RuntimeError):
    """As in `cupy_backends/cuda/api/runtime.pyx`: the status's name and words."""

    def __init__(self, status: str, text: str = "") -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Allocation:
    """Memory of a device, or pinned memory of the host (`device` None)."""

    def __init__(self, machine: Machine, nbytes: int, device: int | None) -> None:
        self.nbytes = nbytes
        self.device = device
        # 512 bytes: CuPy's pool (`memory.pyx`, `_allocation_unit_size`) aligns to that
        self._all: Array = machine.host_memory(nbytes + 512)
        skip = -self._all.ctypes.data % 512
        self.data = self._all[skip : skip + nbytes]
        self.data[:] = FRESH
        self.address = self.data.ctypes.data
        self.live = True

    def free(self) -> None:
        self.live = False
        self.data[:] = FREED


class Machine:
    """`devices` GPUs of one compute capability, whose kernels run on `opencl`."""

    def __init__(self, opencl: OpenCLDevice, devices: int = 2, capability: str = "90") -> None:
        self.opencl = opencl
        self.cl = cl = library()
        self.context = cl.Context([opencl.device])
        self.queue = cl.CommandQueue(self.context)
        self.devices = devices
        self.capability = capability
        self.room: int | None = None  # bytes that are left, where that is limited
        self.fault: Exception | None = None  # what the next wait raises, as a lost device does
        self.local = threading.local()
        self.lock = threading.RLock()
        self.streams: weakref.WeakSet[Any] = weakref.WeakSet()
        self.launched = 0  # kernels that ran
        self.graphs = 0  # launches of graphs
        self.copies: Counter[int] = Counter()  # by kind: 1 to the device, 2 from it
        self._allocations: list[weakref.ref[Allocation]] = []
        self._graves: deque[Allocation] = deque(maxlen=64)
        self._default: dict[int, Queue] = {}

    def host_memory(self, nbytes: int) -> Array:
        """Memory that the host and the OpenCL device share, at the same addresses."""
        cl = self.cl
        flags = cl.svm_mem_flags.READ_WRITE | cl.svm_mem_flags.SVM_FINE_GRAIN_BUFFER
        return cl.svm_empty(self.context, flags, (nbytes,), np.uint8)

    def build(self, source: str) -> Any:
        """An OpenCL program. RuntimeError with the compiler's words."""
        cl, cache, device = self.cl, self.opencl.cache, self.opencl.device
        versions = [device.platform.version, device.name, device.driver_version, cl.VERSION_TEXT]
        parts = ["stand-in", source, *versions]
        options = ["-cl-mad-enable", "-cl-fp32-correctly-rounded-divide-sqrt"]
        with self.lock, warnings.catch_warnings():  # which is of the whole process
            warnings.simplefilter("ignore", cl.CompilerWarning)
            known = cache.get(parts)
            if known is not None:
                return cl.Program(self.context, [device], [known]).build(options)
            program = cl.Program(self.context, source)
            try:
                program.build(options, cache_dir=False)
            except cl.Error as e:
                raise RuntimeError(str(e)) from e
        cache.put(parts, program.get_info(cl.program_info.BINARIES)[0])
        return program

    # -- the thread's current device, and streams within it

    @property
    def current(self) -> int:
        return getattr(self.local, "device", 0)

    @current.setter
    def current(self, index: int) -> None:
        if not 0 <= index < self.devices:
            raise CUDARuntimeError("cudaErrorInvalidDevice", "invalid device ordinal")
        self.local.device = index

    def default_queue(self) -> Queue:
        """The default stream of the current device."""
        if self.current not in self._default:
            self._default[self.current] = Queue(self, self.current, True)
        return self._default[self.current]

    @property
    def entered(self) -> list[Queue]:
        """Streams that this thread has made current, the last one counts."""
        if not hasattr(self.local, "entered"):
            self.local.entered = []
        found: list[Queue] = self.local.entered
        return found

    @property
    def current_queue(self) -> Queue:
        return self.entered[-1] if self.entered else self.default_queue()

    # -- memory

    def allocate(self, nbytes: int, device: int | None) -> Allocation:
        if device is not None and self.room is not None:
            if nbytes > self.room:
                raise MemoryError(f"Out of memory allocating {nbytes:,} bytes")
            self.room -= nbytes
        made = Allocation(self, nbytes, device)
        self._allocations = [r for r in self._allocations if r() is not None]
        self._allocations.append(weakref.ref(made))
        return made

    def bury(self, allocation: Allocation) -> None:
        """Frees it; its address is not given out again for a while."""
        allocation.free()
        self._graves.append(allocation)

    def find(self, address: int) -> Allocation | None:
        for reference in self._allocations:
            known = reference()
            if known is not None and 0 <= address - known.address < max(known.nbytes, 1):
                return known
        return None

    def device_memory(self, address: int, nbytes: int, device: int) -> Allocation:
        """The allocation, which must be of this device, alive and large enough."""
        known = self.find(address)
        if known is None or known.device is None:
            raise CUDARuntimeError("cudaErrorInvalidValue", f"{address:#x} is no device memory")
        if known.device != device:
            raise CUDARuntimeError(
                "cudaErrorIllegalAddress", f"memory of device {known.device} on device {device}"
            )
        if address + nbytes > known.address + known.nbytes:
            raise CUDARuntimeError("cudaErrorInvalidValue", f"{nbytes} bytes are beyond the end")
        if not known.live:
            raise CUDARuntimeError("cudaErrorIllegalAddress", "the memory was freed")
        return known


def bytes_at(address: int, nbytes: int) -> Array:
    kind = ctypes.c_uint8 * nbytes
    return np.frombuffer(kind.from_address(address), np.uint8)


class Queue:
    """What a stream has to do, in order. `capture` is the work that is being captured, if any."""

    def __init__(self, machine: Machine, device: int, blocking: bool) -> None:
        self.machine = machine
        self.device = device
        self.blocking = blocking
        self.work: deque[Work] = deque()
        self.done = 0
        self.capture: list[Work] | None = None
        self.invalid = False
        machine.streams.add(self)

    def put(self, work: Work) -> None:
        if self.capture is not None:
            self.capture.append(work)
        else:
            self.work.append(work)

    def put_all(self, work: Sequence[Work]) -> None:
        for item in work:
            self.put(item)

    def must_not_capture(self, what: str) -> None:
        """CUDA's programming guide, "Prohibited and Unhandled Operations" of stream capture."""
        if self.capture is not None:
            self.invalid = True
            raise CUDARuntimeError(
                "cudaErrorStreamCaptureUnsupported", f"{what} while the stream is capturing"
            )

    def drain(self, upto: int | None = None) -> None:
        """Runs what is enqueued, or the first `upto` of all that ever was."""
        with self.machine.lock:
            if self.machine.fault is not None:
                raise self.machine.fault
            while self.work and (upto is None or self.done < upto):
                work = self.work.popleft()
                self.done += 1
                work()
