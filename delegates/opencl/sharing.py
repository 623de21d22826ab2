"""The host's memory as the device's: for CPUs and GPUs that share it, nothing need be copied."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ...kernels.types import Array
from .find import library

# How arrays of the host can be arguments of kernels:
# "svm": any pointer can (OpenCL 2's fine-grained system memory);
# "direct": a buffer over the array, which host and device see alike, as was tried out;
# "mapped": such a buffer, which belongs to the host only while it is mapped;
# "none": memory is apart, or said to be.
Mode = Literal["svm", "direct", "mapped", "none"]

# where a driver may take a buffer over an array for its own memory; elsewhere it copies in secret
_ALIGNMENT = 64
_TRIAL = "kernel void trial(global int* p) { p[0] += 1; p[1000] += p[0]; }"


class HostMemory:
    """Wraps arrays of the host for one device and queue."""

    def __init__(self, device: Any, context: Any, mode: Mode | None = None) -> None:
        """`mode`: None: the best that the device has."""
        self._cl = library()
        self._context = context
        self.mode: Mode = self._find(device) if mode is None else mode

    def _find(self, device: Any) -> Mode:
        cl = self._cl
        if device.svm_capabilities & cl.device_svm_capabilities.FINE_GRAIN_SYSTEM:
            return "svm"
        if not device.host_unified_memory:
            return "none"
        cpu = device.type & cl.device_type.CPU
        return "direct" if cpu and self._seen_alike() else "mapped"

    def _seen_alike(self) -> bool:
        """Tries whether host and device see each other's changes with nothing but `finish`."""
        cl = self._cl
        raw = np.zeros(1024 + _ALIGNMENT, np.int32)
        start = -raw.ctypes.data % _ALIGNMENT // raw.itemsize
        array = raw[start : start + 1024]
        try:
            queue = cl.CommandQueue(self._context)
            with warnings.catch_warnings():  # Intel's compiler says "done"
                warnings.simplefilter("ignore", cl.CompilerWarning)
                program = cl.Program(self._context, _TRIAL).build(cache_dir=False)
            kernel = cl.Kernel(program, "trial")
            buffer = self._over(array)
            kernel.set_arg(0, buffer)
            for value in (1, 10):
                array[0] = value
                cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
                queue.finish()
                if array[0] != value + 1:
                    return False
        except cl.Error:
            return False
        return bool(array[1000] == 2 + 11)

    def _over(self, array: Array) -> Any:
        flags = self._cl.mem_flags
        raw = array.reshape(-1).view(np.uint8)
        return self._cl.Buffer(self._context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=raw)

    def wrap(self, array: Array, queue: Any) -> Any | None:
        """An argument of kernels, which keeps the array alive; None where it has to be copied."""
        if self.mode == "svm":
            return self._cl.SVM(array.reshape(-1).view(np.uint8))
        if self.mode == "none" or array.ctypes.data % _ALIGNMENT or not array.flags.writeable:
            return None
        buffer = self._over(array)
        return Mapped(self._cl, buffer, queue) if self.mode == "mapped" else buffer

    def lend(self, buffers: Sequence[Any], queue: Any) -> None:
        if self.mode == "mapped":
            for buffer in buffers:
                buffer.unmap(queue)

    def give_back(self, buffers: Sequence[Any], queue: Any) -> None:
        if self.mode == "mapped":
            for buffer in buffers:
                buffer.map(queue)


class Mapped:
    """A buffer over an array, mapped whenever the device does not work with it."""

    def __init__(self, cl: Any, buffer: Any, queue: Any) -> None:
        self._cl = cl
        self.buffer = buffer
        self._mapping: Any = None
        self.map(queue)

    def map(self, queue: Any) -> None:
        flags = self._cl.map_flags
        self._mapping, _ = self._cl.enqueue_map_buffer(
            queue,
            self.buffer,
            flags.READ | flags.WRITE,
            0,
            (self.buffer.size,),
            np.uint8,
            is_blocking=False,
        )

    def unmap(self, queue: Any) -> None:
        if self._mapping is not None:
            self._mapping.base.release(queue)
            self._mapping = None
