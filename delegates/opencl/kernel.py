"""A partition on an OpenCL device, with inputs and outputs in users' arrays."""

from __future__ import annotations

from ...runtime.delegate import Partition
from ..gpu.delegate import PlanKernel
from .device import OpenCLDevice


class OpenCLKernel(PlanKernel):
    """As its base; `partition.handles` are `DeviceBuffer`s."""

    def __init__(
        self, device: OpenCLDevice, partition: Partition, fuse: bool, half: bool = False
    ) -> None:
        super().__init__(device, partition, fuse, half)
        self._library = device.library
        self._crossing = {t.index for t in (*partition.inputs, *self._leaving)}

    def _refresh(self) -> None:
        """Before each invoke: handles may be others than before."""
        super()._refresh()
        given = {i: b for i, b in self._partition.handles.items() if i in self._crossing}
        for buffer in given.values():
            buffer.wait(self._library)
        self._plan.place(
            {i: (b.address, b.memory) for i, b in given.items() if b.memory is not None}
        )
