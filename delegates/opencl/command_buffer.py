"""Recorded launches: cl_khr_command_buffer, by the function pointers of the extension.

PyOpenCL binds none of it. A device is tried once: a recording is only used where replaying it takes
less time than enqueuing its launches one by one, which is not so on every driver that has it.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import Any

import numpy as np

EXTENSION = "cl_khr_command_buffer"
# PyOpenCL kernel, work-items, work-items of a group (None: the driver's choice)
Call = tuple[Any, tuple[int, ...], tuple[int, ...] | None]

# names, and what the functions take; they give an error code, the first one the buffer
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "clCreateCommandBufferKHR": (c_void_p, c_uint, c_void_p, c_void_p, POINTER(c_int)),
    "clCommandNDRangeKernelKHR": (
        *(c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_uint, c_void_p, c_void_p, c_void_p),
        *(c_uint, c_void_p, c_void_p, c_void_p),
    ),
    "clFinalizeCommandBufferKHR": (c_int, c_void_p),
    "clEnqueueCommandBufferKHR": (c_int, c_uint, c_void_p, c_void_p, c_uint, c_void_p, c_void_p),
    "clReleaseCommandBufferKHR": (c_int, c_void_p),
}
_TRIAL = "kernel void trial(global int* p) { p[get_global_id(0)] += 1; }"
_LAUNCHES, _ROUNDS = 16, 20


class Unrecorded(RuntimeError):
    """The driver does not record these launches."""


class Commands:
    """The functions of the extension for a platform. Unrecorded where it has them not."""

    def __init__(self, cl: Any, platform: Any) -> None:
        self.cl = cl
        try:
            # symbols of the loader, which PyOpenCL's own library is linked with
            address = ctypes.CDLL(cl._cl.__file__).clGetExtensionFunctionAddressForPlatform
        except (AttributeError, OSError) as e:
            raise Unrecorded(f"the loader is not to be reached: {e}") from e
        address.restype, address.argtypes = c_void_p, (c_void_p, c_char_p)
        for name, (result, *takes) in _FUNCTIONS.items():
            found = address(platform.int_ptr, name.encode())
            if not found:
                raise Unrecorded(f"the driver has no {name}")
            setattr(self, name, ctypes.CFUNCTYPE(result, *takes)(found))

    def record(self, queue: Any, calls: Sequence[Call]) -> CommandBuffer:
        return CommandBuffer(self, queue, calls)


class CommandBuffer:
    """Launches, each behind the one before, enqueued at once by calling it."""

    def __init__(self, commands: Any, queue: Any, calls: Sequence[Call]) -> None:
        self._commands, self._queue, self._calls = commands, queue, calls  # kernels are to live
        error = c_int(0)
        queues = (c_void_p * 1)(queue.int_ptr)
        self._buffer = commands.clCreateCommandBufferKHR(1, queues, None, byref(error))
        if error.value:
            self._buffer = None
            raise Unrecorded(f"clCreateCommandBufferKHR gave {error.value}")
        before: Any = None
        for kernel, grid, group in calls:
            here = c_uint(0)
            sizes = (c_size_t * len(grid))(*grid)
            local = None if group is None else (c_size_t * len(group))(*group)
            self._check(
                "clCommandNDRangeKernelKHR",
                *(self._buffer, None, None, kernel.int_ptr, len(grid), None, sizes, local),
                *(int(before is not None), before, byref(here), None),
            )
            before = (c_uint * 1)(here.value)
        self._check("clFinalizeCommandBufferKHR", self._buffer)

    def _check(self, name: str, *arguments: Any) -> None:
        error = getattr(self._commands, name)(*arguments)
        if error:
            raise Unrecorded(f"{name} gave {error}")

    def __call__(self) -> None:
        error = self._commands.clEnqueueCommandBufferKHR(0, None, self._buffer, 0, None, None)
        if error:
            raise RuntimeError(f"clEnqueueCommandBufferKHR gave {error}")

    def __del__(self) -> None:
        if getattr(self, "_buffer", None):
            self._commands.clReleaseCommandBufferKHR(self._buffer)


def faster(commands: Commands, context: Any) -> bool:
    """Tries whether a recording of small launches is right, and quicker than the launches."""
    cl = commands.cl
    queue = cl.CommandQueue(context)
    program = cl.Program(context, _TRIAL).build(cache_dir=False)
    counts = np.zeros(4, np.int32)
    buffer = cl.Buffer(
        context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=counts
    )
    calls: list[Call] = []
    for _ in range(_LAUNCHES):
        kernel = cl.Kernel(program, "trial")
        kernel.set_arg(0, buffer)
        calls.append((kernel, (4,), (1,)))

    def one_by_one() -> None:
        for call in calls:
            cl.enqueue_nd_range_kernel(queue, *call)

    try:
        recorded = commands.record(queue, calls)
        recorded()
        queue.finish()
    except Unrecorded:
        return False
    cl.enqueue_copy(queue, counts, buffer)
    if (counts != _LAUNCHES).any():
        return False
    rounds = [(_seconds(one_by_one, queue), _seconds(recorded, queue)) for _ in range(5)]
    return min(after for _, after in rounds) < 0.9 * min(before for before, _ in rounds)


def _seconds(enqueue: Callable[[], None], queue: Any) -> float:
    start = time.perf_counter()
    for _ in range(_ROUNDS):
        enqueue()
        queue.finish()
    return time.perf_counter() - start
