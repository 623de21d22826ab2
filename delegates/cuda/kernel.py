"""A partition on a CUDA device: with inputs and outputs in users' arrays, and asynchronous."""

from __future__ import annotations

from ...runtime.delegate import Partition
from ..gpu.delegate import PlanKernel
from ..gpu.plan import Plan
from .device import CUDADevice


class CUDAKernel(PlanKernel):
    """As its base; `partition.handles` are CuPy arrays."""

    def __init__(
        self, device: CUDADevice, partition: Partition, fuse: bool, half: bool = False
    ) -> None:
        super().__init__(device, partition, fuse, half)
        self._device = device
        self._crossing = {t.index for t in (*partition.inputs, *self._leaving)}

    def invoke_async(self) -> Started:
        self._refresh()
        self._plan.start()
        return Started(self._plan, self._device)

    def _refresh(self) -> None:
        """Before each invoke: handles may be others than before."""
        super()._refresh()
        arrays = {i: a for i, a in self._partition.handles.items() if i in self._crossing}
        if arrays:
            self._device.follow()
        self._plan.place({i: (a.data.ptr, a.data) for i, a in arrays.items()})


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
