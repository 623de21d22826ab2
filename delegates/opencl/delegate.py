"""The delegate "opencl"."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ...kernels.api import Tensor
from ...runtime.cost import CostProfile
from ...runtime.delegate import Kernel, Partition
from ...runtime.options import device_choice, flag
from ..gpu.cache import ProgramCache
from ..gpu.calibrate import checked, choose
from ..gpu.delegate import GpuDelegate
from . import buffers
from .choose import open_device
from .device import OpenCLDevice
from .find import library
from .kernel import OpenCLKernel


class OpenCLDelegate(GpuDelegate):
    """Runs nodes on an OpenCL device.

    * `device`: an index or any part of the name of a device or of its driver; without one, that of
      the environment's LITEDELEGATE_OPENCL_DEVICE, else any. Of those that fit and whose compiler
      works, GPUs come before CPUs, and of several drivers for CPUs the one that was measured to be
      the quickest: see `choose.ranked`.
    * `cache`: the folder of built programs, and of what was measured.
    * `half`: float32 that stays on the device is stored in 16 bits, and computed with in 32.
    * `costs`: by which partitions are chosen that pay: see `gpu.calibrate.choose`.
    * `queue`: the caller's own command queue, in order, in place of a device: the delegate works in
      its context, and its arrays can be inputs and outputs.

    Its buffer handles are PyOpenCL's arrays and buffers of its `context`. `Unavailable`
    where there is no such device; TypeError and ValueError for options that are none.
    """

    device: OpenCLDevice

    def __init__(
        self,
        device: str | int | None = None,
        cache: str | os.PathLike[str] | None = None,
        half: bool = False,
        costs: str | CostProfile | None = None,
        queue: Any = None,
    ) -> None:
        wanted, half = checked(costs), flag("half", half)
        programs = ProgramCache(cache)
        if queue is None:
            measure = wanted in (None, "calibrated")
            found = open_device(device_choice(device), programs, measure)
        elif device is None:
            found = OpenCLDevice(checked_queue(queue).device, programs, queue)
        else:
            raise ValueError(f"got device={device!r} and a queue, which has its device; takes one")
        plain = partial(GpuDelegate, "opencl", found)
        super().__init__("opencl", found, half, partial(choose, wanted, found, programs, plain))

    @property
    def queue(self) -> Any:
        """The command queue that all work goes to, in order."""
        return self.device.queue

    @property
    def context(self) -> Any:
        """Where buffers are to be made."""
        return self.device.context

    def describe(self) -> Mapping[str, str]:
        why = {"chosen": self.device.why} if self.device.why else {}
        return {**super().describe(), **why}

    def kernel(self, partition: Partition, fuse: bool) -> Kernel:
        return OpenCLKernel(self.device, partition, fuse, self.half)

    # -- inputs and outputs in users' arrays

    def is_buffer(self, value: Any) -> bool:
        return buffers.is_buffer(value)

    def take_array(self, value: Any, tensor: Tensor) -> Any | None:
        return buffers.imported(self.device, value, tensor.spec)

    def new_buffer(self, tensor: Tensor) -> Any | None:
        return buffers.new(self.device, tensor.spec)

    def array_of(self, handle: buffers.DeviceBuffer) -> Any:
        return handle.value

    def copy_from_buffer_handle(self, handle: buffers.DeviceBuffer, tensor: Tensor) -> None:
        handle.wait(self.device.library)
        if handle.memory is not None:
            self.device.download(handle.memory, tensor.array)
            self.device.synchronise()

    def copy_to_buffer_handle(self, handle: buffers.DeviceBuffer, tensor: Tensor) -> None:
        handle.wait(self.device.library)
        if handle.memory is not None:
            self.device.upload(handle.memory, np.ascontiguousarray(tensor.array))
            self.device.synchronise()


def checked_queue(queue: Any) -> Any:
    """`queue`, where it is a command queue of PyOpenCL's that runs in order."""
    cl = library()
    if not isinstance(queue, cl.CommandQueue):
        raise TypeError(f"queue is a pyopencl.CommandQueue, not {queue!r}")
    if queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
        raise ValueError("got a queue that runs out of order; takes one that runs in order")
    return queue
