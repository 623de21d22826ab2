"""PyOpenCL as a `Device`."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ...kernels.api import Run
from ...kernels.device import Capability
from ...kernels.types import Array
from ...runtime.delegate import BuildError, Unavailable
from ...runtime.threads import available_threads
from ..gpu.cache import ProgramCache
from ..gpu.device import Device, Launch, Span
from ..gpu.prelude import prelude
from . import instructions
from .command_buffer import EXTENSION, Call, Commands, Unrecorded, faster
from .find import library
from .sharing import HostMemory, Mapped

SAVED = "(source saved as "  # of PyOpenCL's errors
# a driver can be there and its compiler not know the CPU
_TRIVIAL = "kernel void k(global int* p) { *p = 1; }"


class OpenCLDevice(Device):
    """One OpenCL device, with a context and an in-order queue."""

    def __init__(
        self,
        device: Any,
        cache: ProgramCache | None = None,
        queue: Any = None,
        why: str = "",
    ) -> None:
        """`device`: a `pyopencl.Device`; `queue`: one of its, by default a new one in a context of
        its own; `why`: this device and no other. Unavailable where its compiler does not work.
        """
        self.why = why
        self.library = cl = library()
        self.device = device
        self.cache = cache if cache is not None else ProgramCache()
        # Intel's queues do not keep their contexts alive
        self.context = cl.Context([device]) if queue is None else queue.context
        self.queue = cl.CommandQueue(self.context) if queue is None else queue
        self.builders = available_threads()
        self._traces = threading.local()
        self.alignment = max(self.device.mem_base_addr_align // 8, 64)
        # a driver's own trouble passes (a full disk, a cache of its own): it is asked each time
        fault = self.fault(_TRIVIAL, keep=False)
        if fault:
            raise Unavailable(f"{self.name} does not build even an empty kernel: {fault}")
        self.prelude = prelude(__package__)
        self.host = HostMemory(device, self.context)
        cpu = bool(device.type & cl.device_type.CPU)
        dot4 = instructions.dot4(self) if cpu else []
        self.capability = self._read_capability(bool(dot4))
        # an a * b + c may be contracted; never fast-relaxed-math, with which x != x is false
        self._options = ["-cl-mad-enable"]
        if self.device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT:
            self._options.append("-cl-fp32-correctly-rounded-divide-sqrt")
        if cpu:  # whose own exp is one call for each value
            self._options += [*dot4, *instructions.lookup(self), "-DQUICK_EXP"]

    @property
    def name(self) -> str:
        return f"{self.device.name.strip()} ({self.device.platform.name.strip()})"

    def _read_capability(self, dot4: bool) -> Capability:
        d, cl = self.device, self.library
        cpu = bool(d.type & cl.device_type.CPU)
        extensions = d.extensions.split()
        return Capability(
            name=d.name.strip(),
            kind="cpu" if cpu else "gpu",
            compute_units=d.max_compute_units,
            vector_width=max(1, d.native_vector_width_float),
            fp16="cl_khr_fp16" in extensions,
            fp64="cl_khr_fp64" in extensions,
            dot4=dot4,
            local_memory=d.local_mem_size,
            work_group=d.max_work_group_size,
        )

    def fault(self, source: str, keep: bool = True) -> str:
        """What the compiler says of a text that it does not take; "" where it does. `keep`: with
        the built programs."""
        parts = ["probe", source, *self.identity()]
        known = self.cache.get(parts) if keep else None
        if known is None:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", self.library.CompilerWarning)
                    self.library.Program(self.context, source).build(cache_dir=False)
                known = b""
            except self.library.Error as e:
                known = _log(e).encode()
            if keep:
                self.cache.put(parts, known)
        return known.decode()

    def identity(self) -> list[str]:
        return identity(self.device)

    # -- memory

    def allocate(self, nbytes: int) -> Any:
        cl = self.library
        try:
            return cl.Buffer(self.context, cl.mem_flags.READ_WRITE, nbytes)
        except (cl.MemoryError, cl.LogicError) as e:
            raise MemoryError(f"{self.name} has no {nbytes:,} bytes: {e}") from e

    def view(self, buffer: Any, offset: int, nbytes: int) -> Any:
        return buffer.get_sub_region(offset, nbytes)

    def upload(self, buffer: Any, array: Array) -> None:
        self._copy(buffer, array)

    def download(self, buffer: Any, array: Array) -> None:
        self._copy(array, _memory(buffer))

    def _copy(self, target: Any, source: Any) -> None:
        trace = self.open_trace
        queue = self.queue if trace is None else trace.queue
        event = self.library.enqueue_copy(queue, target, source, is_blocking=False)
        if trace is not None:
            trace.events.append(event)

    def wrap(self, array: Array) -> Any | None:
        return self.host.wrap(array, self.queue)

    def lend(self, buffers: Sequence[Any]) -> None:
        self.host.lend(buffers, self.queue)

    def give_back(self, buffers: Sequence[Any]) -> None:
        self.host.give_back(buffers, self.queue)

    # -- programs

    @contextmanager
    def building(self) -> Iterator[None]:
        with warnings.catch_warnings():  # Intel's compiler says "done" on each build
            warnings.simplefilter("ignore", self.library.CompilerWarning)
            yield

    def build(self, source: str, names: Sequence[str]) -> Mapping[str, Any]:
        program = self._program(f"{self.prelude}\n{source}")
        try:
            made = program.get_info(self.library.program_info.KERNEL_NAMES).split(";")
        except self.library.Error:  # Intel's, of a program without any
            made = []
        if lacking := [name for name in names if name not in made]:
            raise BuildError(f"the text has no kernel {', '.join(lacking)}: it takes KERNEL_NAME")
        return {name: partial(self.library.Kernel, program, name) for name in names}

    def _program(self, source: str) -> Any:
        cl = self.library
        parts = [source, *self._options, *self.identity()]
        binary = self.cache.get(parts)
        if binary is not None:
            try:
                return cl.Program(self.context, [self.device], [binary]).build(self._options)
            except cl.Error:  # damaged, or of a driver that hides its version: built anew
                binary = None
        program = cl.Program(self.context, source)
        try:
            # PyOpenCL's own cache would not see the driver's version
            program.build(self._options, cache_dir=False)
        except cl.Error as e:
            raise BuildError(f"{self.name} does not build the kernels: {_log(e)}") from e
        self.cache.put(parts, program.get_info(cl.program_info.BINARIES)[0])
        return program

    # -- running

    def record(self, launches: Sequence[Launch]) -> Run:
        return Recording(self, launches)

    @cached_property
    def commands(self) -> Commands | None:
        """What records launches, where that was tried here once and found to be quicker."""
        if EXTENSION not in self.device.extensions.split():
            return None
        parts = ["command buffers", *self.identity()]
        known = self.cache.get(parts)
        try:
            commands = Commands(self.library, self.device.platform)
            if known is None:
                with self.building():
                    known = b"faster" * faster(commands, self.context)
                self.cache.put(parts, known)
        except Unrecorded:
            return None
        return commands if known else None

    def synchronise(self) -> None:
        trace = self.open_trace
        (self.queue if trace is None else trace.queue).finish()

    # -- times

    @property
    def open_trace(self) -> OpenCLTrace | None:
        return getattr(self._traces, "open", None)

    @contextmanager
    def trace(self) -> Iterator[OpenCLTrace]:
        """What this thread enqueues goes to a queue of its own, which keeps times."""
        self.queue.finish()
        timed = self.library.command_queue_properties.PROFILING_ENABLE
        made = OpenCLTrace(self.library.CommandQueue(self.context, properties=timed))
        self._traces.open = made
        try:
            yield made
        finally:
            self._traces.open = None
            made.queue.finish()


def identity(device: Any) -> list[str]:
    """What a program that is built for a `pyopencl.Device` depends on beside text and options."""
    p = device.platform
    versions = (p.name, p.version, device.name, device.version, device.driver_version)
    return [*versions, library().VERSION_TEXT, str(device.vendor_id)]


class Recording:
    """Enqueues launches each time it is called; their arguments are set once, each on a kernel
    object of its own.
    """

    def __init__(self, device: OpenCLDevice, launches: Sequence[Launch]) -> None:
        self._device = device
        self._arguments = [launch.args for launch in launches]  # OpenCL does not keep them alive
        self._launches: list[Call] = []
        for launch in launches:
            kernel = launch.kernel()
            # not `set_args`, for which PyOpenCL writes code, and keeps it below the user's home
            for i, arg in enumerate(launch.args):
                kernel.set_arg(i, _memory(arg))
            group = launch.group
            if group is None and device.capability.kind == "cpu":
                group = (1,) * len(launch.grid)
            self._launches.append((kernel, launch.grid, group))
        self._enqueue = device.library.enqueue_nd_range_kernel
        self._calls: list[Run] = [
            partial(self._enqueue, device.queue, *each) for each in self._launches
        ]
        if len(launches) > 1 and device.commands is not None:
            with suppress(Unrecorded):
                self._calls = [device.commands.record(device.queue, self._launches)]

    def __call__(self) -> None:
        trace = self._device.open_trace
        if trace is None:
            for call in self._calls:
                call()
        else:
            trace.events += [self._enqueue(trace.queue, *each) for each in self._launches]


class OpenCLTrace:
    """The events of what was enqueued while it was open."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue
        self.events: list[Any] = []

    def spans(self) -> list[Span]:
        return [Span(e.profile.start, e.profile.end) for e in self.events]


def _memory(buffer: Any) -> Any:
    """What PyOpenCL takes for an argument."""
    return buffer.buffer if isinstance(buffer, Mapped) else buffer


def _log(error: Exception) -> str:
    """The compiler's words in PyOpenCL's error, without its frame; and without the file that
    PyOpenCL leaves behind for each text that does not build.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    for line in lines:
        if line.startswith(SAVED):
            Path(line.removeprefix(SAVED).removesuffix(")")).unlink(missing_ok=True)
    kept = [x for x in lines if x and not x.startswith(("(", "Build on <", "clBuildProgram"))]
    first = next((i for i, x in enumerate(kept) if "error:" in x), 0)  # behind warnings
    return "; ".join(kept[first : first + 20]) or str(error)
