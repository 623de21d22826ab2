"""A partition on a CUDA device: with inputs and outputs in users' arrays, and asynchronous."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...runtime.delegate import Partition
from ..gpu.delegate import PlanKernel
from ..gpu.plan import Plan
from .device import CUDADevice


class CUDAKernel(PlanKernel):
    """As its base; `partition.handles` are CuPy arrays."""

    def __init__(self, device: CUDADevice, partition: Partition, fuse: bool) -> None:
        super().__init__(device, partition, fuse)
        self._device = device

    def invoke(self) -> None:
        self.invoke_async().wait()

    def invoke_async(self) -> Started:
        plan = self._plan
        arrays: Mapping[int, Any] = {
            i: array
            for i, array in self._partition.handles.items()
            if i in self._inputs or i in self._outputs
        }
        if arrays:
            self._device.follow()
        plan.place({i: (array.data.ptr, array.data) for i, array in arrays.items()})
        for key, host in self._inputs.items():
            if key not in arrays:
                plan.upload(key, host)
        plan.enqueue()
        for key, host in self._outputs.items():
            if key not in arrays:
                plan.download(key, host)
        return Started(plan, self._device)


class Started:
    """An invoke that is under way (`runtime.pending.Pending`).

    `event` is a CuPy event behind all of its work: other streams can wait for it.
    """

    def __init__(self, plan: Plan, device: CUDADevice) -> None:
        self._plan = plan
        self.event = device.mark()

    def wait(self) -> None:
        self._plan.synchronise()

    def done(self) -> bool:
        try:
            return bool(self.event.done)
        except Exception:  # a fault of the device: `wait` raises it
            return True
