"""CuPy as a `Device`: one GPU and one stream of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np

from ...kernels.api import Run
from ...kernels.device import Capability
from ...kernels.types import Array
from ...runtime.delegate import BuildError, Unavailable
from ..gpu.cache import ProgramCache
from ..gpu.device import Device, Launch
from ..gpu.prelude import prelude
from .compiler import Compiler
from .find import device_name, find, library
from .recording import Call, Recording, Work
from .trace import EventTrace

Allocator = Callable[[int], Any]

_THREADS = 128  # in a block, where the kernel does not say
_MOST_THREADS = 1024
_MOST_BLOCKS = 65535  # along y and z
_MOST_PINNED = 64 << 20  # bytes of one copy


class CUDADevice(Device):
    """One GPU.

    * `device`: a number or a part of a name; see `find`.
    * `stream`: where all work goes: a CuPy or torch stream, whatever has `__cuda_stream__`, or the
      address of a `cudaStream_t`. Without one, a stream of its own that does not wait for the
      default stream.
    * `allocator`: nbytes -> CuPy's `MemoryPointer`; without one, CuPy's current allocator.
    * `graphs`: launches are captured into CUDA graphs and replayed.
    """

    alignment = 256  # what cudaMalloc promises

    def __init__(
        self,
        device: str | int | None = None,
        cache: ProgramCache | None = None,
        stream: Any = None,
        allocator: Allocator | None = None,
        graphs: bool = True,
        cupy: Any = None,
    ) -> None:
        """`cupy`: the module, by default the one that is installed."""
        self.cupy = cupy if cupy is not None else library()
        self.index = find(self.cupy, device)
        self.cache = cache if cache is not None else ProgramCache()
        self.graphs = graphs
        self.unrecorded: list[str] = []  # why launches could not be captured
        cuda = self.cupy.cuda
        self._device = cuda.Device(self.index)
        self._runtime = cuda.runtime
        self._lock = threading.Lock()
        self._capture_lock = threading.Lock()
        # staging memory that is in use until the stream has passed, and what it is copied to
        self._pending: list[tuple[Any, Array | None]] = []
        self._local = threading.local()
        try:
            with self._device:
                self.stream = _stream(cuda, stream)
                self._for_captures = cuda.Stream(non_blocking=True)
                self.compiler = Compiler(
                    self.cupy, str(self._device.compute_capability), self.cache
                )
                self._driver = f"driver {self._runtime.driverGetVersion()}"
                self.capability = self._read_capability()
        except Unavailable:
            raise
        except Exception as e:
            raise Unavailable(
                f"{device_name(self.cupy, self.index)} is there and cannot be used: "
                f"{type(e).__name__}: {e}"
            ) from e
        self._allocator = allocator if allocator is not None else cuda.alloc
        self.prelude = prelude(__package__)

    @property
    def name(self) -> str:
        return f"{device_name(self.cupy, self.index)} (CUDA {self.index})"

    def identity(self) -> Sequence[str]:
        return [self.name, self._driver, *self.compiler.identity]

    def _read_capability(self) -> Capability:
        found = self._device.attributes
        return Capability(
            name=f"sm_{self._device.compute_capability}",
            kind="gpu",
            compute_units=found["MultiProcessorCount"],
            fp16=True,
            fp64=True,
            subgroup=found["WarpSize"],
            dot4=True,
            mma=int(self._device.compute_capability) >= 75,
            local_memory=found["MaxSharedMemoryPerBlock"],
            work_group=found["MaxThreadsPerBlock"],
            api="cuda",
        )

    def current(self) -> ExitStack:
        """While open, the device and the stream are CuPy's current ones."""
        stack = ExitStack()
        stack.enter_context(self._device)
        stack.enter_context(self.stream)
        return stack

    @contextmanager
    def capturing(self) -> Iterator[Any]:
        """A stream for captures, one at a time."""
        with self._capture_lock:
            yield self._for_captures

    # -- memory

    def allocate(self, nbytes: int) -> Any:
        try:
            # CuPy's pool keeps freed memory for the stream that is current when it is allocated
            with self.current():
                return self._allocator(nbytes)
        except Exception as e:
            raise MemoryError(f"{self.name} has no {nbytes:,} bytes: {e}") from e

    def view(self, buffer: Any, offset: int, nbytes: int) -> Any:
        return buffer + offset

    def upload(self, buffer: Any, array: Array) -> None:
        """By way of pinned memory, which the copy reads while this thread goes on."""
        if array.nbytes > _MOST_PINNED:  # CuPy's pool would keep it; CUDA reads before it returns
            host = np.ascontiguousarray(array).ctypes.data
            self._copy(buffer.ptr, host, array.nbytes, self._runtime.memcpyHostToDevice)
            return
        staging, raw = self._staging(array.nbytes)
        raw[:] = array.reshape(-1).view(np.uint8)
        self._copy(buffer.ptr, staging.ptr, array.nbytes, self._runtime.memcpyHostToDevice)
        with self._lock:
            self._pending.append((staging, None))

    def download(self, buffer: Any, array: Array) -> None:
        staging, _ = self._staging(array.nbytes)
        self._copy(staging.ptr, buffer.ptr, array.nbytes, self._runtime.memcpyDeviceToHost)
        with self._lock:
            self._pending.append((staging, array))

    def _copy(self, target: int, source: int, nbytes: int, kind: int) -> None:
        arguments = target, source, nbytes, kind, self.stream.ptr
        with self._device:
            if self.tracing is None:
                self._runtime.memcpyAsync(*arguments)
            else:
                self.tracing.around(partial(self._runtime.memcpyAsync, *arguments))

    def _staging(self, nbytes: int) -> tuple[Any, Array]:
        """Pinned memory out of CuPy's pool, and an array of its bytes."""
        with self._device:
            staging = self.cupy.cuda.alloc_pinned_memory(nbytes)
        return staging, np.frombuffer(staging, np.uint8, nbytes)

    # -- programs

    def build(self, source: str, names: Sequence[str]) -> Mapping[str, Any]:
        text = f"{self.prelude}\n{source}"
        binary, kept = self.compiler.binary(text, self._driver)
        try:
            return self._load(binary, names)
        except Exception as e:
            if not kept:
                raise BuildError(f"{self.name} does not load the kernels: {e}") from e
        self.compiler.forget(text, self._driver)  # damaged on disk: built anew
        return self.build(source, names)

    def _load(self, binary: bytes, names: Sequence[str]) -> Mapping[str, Any]:
        module = self.cupy.cuda.Module()
        with self._device:
            module.load(binary)
            return {name: module.get_function(name) for name in names}

    # -- running

    def record(self, launches: Sequence[Launch]) -> Run:
        calls: list[Call | Work] = []
        for launch in launches:
            if not launch.grid:
                calls.append(partial(launch.kernel, launch.args))
                continue
            if 0 in launch.grid:  # CuPy would make one block of it
                continue
            grid, block = blocks(launch.grid, launch.group)
            calls.append((launch.kernel, grid, block, launch.args))
        return Recording(self, calls)

    @property
    def tracing(self) -> EventTrace | None:
        """The trace that this thread has open."""
        found: EventTrace | None = getattr(self._local, "trace", None)
        return found

    @contextmanager
    def trace(self) -> Iterator[EventTrace]:
        with self._device:
            self._local.trace = made = EventTrace(self.cupy, self.stream)
        try:
            yield made
        finally:
            self._local.trace = None

    def mark(self) -> Any:
        """A CuPy event behind all that was enqueued."""
        with self._device:
            event = self.cupy.cuda.Event(disable_timing=True)
            event.record(self.stream)
        return event

    def follow(self) -> None:
        """Has the stream wait for what CuPy's current stream has to do: what fills users' arrays.

        torch's work goes to the same one, the default stream, unless it was told otherwise.
        """
        with self._device:
            current = self.cupy.cuda.get_current_stream()
            if current.ptr != self.stream.ptr:
                event = self.cupy.cuda.Event(disable_timing=True)
                event.record(current)
                self.stream.wait_event(event)

    def synchronise(self) -> None:
        # whoever waits copies for all: another thread's copies are done when this one leaves
        with self._lock:
            pending, self._pending = self._pending, []
            with self._device:
                self.stream.synchronize()
            for staging, array in pending:
                if array is not None:
                    raw = np.frombuffer(staging, np.uint8, array.nbytes)
                    array.reshape(-1).view(np.uint8)[:] = raw


def blocks(
    grid: Sequence[int], group: Sequence[int] | None
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """CUDA's grid and block for a grid of work-items. BuildError where it is more than CUDA takes.

    Without a `group` the last blocks reach beyond the grid; the kernels' IN_GRID sees to that.
    """
    x, y, z = (*grid, 1, 1)[:3]
    if group is not None:
        bx, by, bz = (*group, 1, 1)[:3]
        if x % bx or y % by or z % bz:
            raise BuildError(f"a grid of {tuple(grid)} is not whole groups of {tuple(group)}")
    else:
        bx = min(_power(x), 32 if y * z > 1 else _THREADS)
        by = min(_power(y), _THREADS // bx)
        bz = min(_power(z), _THREADS // (bx * by), 64)
        while -(-y // by) > _MOST_BLOCKS and by < _MOST_THREADS:
            by *= 2
        while bx * by * bz > _MOST_THREADS:
            bx, bz = (bx // 2, bz) if bx > 1 else (bx, bz // 2)
    counts = -(-x // bx), -(-y // by), -(-z // bz)
    threads = bx * by * bz
    if max(counts[1:]) > _MOST_BLOCKS or counts[0] >= 1 << 31 or threads > _MOST_THREADS:
        raise BuildError(f"got a grid of {tuple(grid)} work-items; CUDA has no room for that many")
    return counts, (bx, by, bz)


def _power(n: int) -> int:
    """The least power of two that is not less than n."""
    return 1 << max(n - 1, 0).bit_length()


def _stream(cuda: Any, given: Any) -> Any:
    """A stream object of CuPy for what the user gave."""
    if given is None:
        return cuda.Stream(non_blocking=True)
    if hasattr(given, "ptr"):  # CuPy's
        return given
    address = getattr(given, "cuda_stream", given)  # torch's before the protocol
    if not hasattr(given, "__cuda_stream__") and not isinstance(address, int):
        raise Unavailable(
            f"got stream={given!r}; takes a stream of CuPy or torch, an object with "
            "__cuda_stream__, or the address of a cudaStream_t"
        )
    if not hasattr(cuda.Stream, "from_external"):  # CuPy before 14
        if hasattr(given, "__cuda_stream__"):
            address = given.__cuda_stream__()[1]
        return cuda.ExternalStream(address)
    external = given if hasattr(given, "__cuda_stream__") else _Address(address)
    return cuda.Stream.from_external(external)


class _Address:
    """A `cudaStream_t`, in the protocol for streams."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._address
