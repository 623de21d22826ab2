"""A partition on an OpenCL device, with inputs and outputs in users' arrays."""

from __future__ import annotations

from collections.abc import Hashable

from ...kernels.api import OpError
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
        self._made = {t.index for t in partition.outputs}

    def _refresh(self) -> None:
        """Before each invoke: handles may be others than before."""
        super()._refresh()
        given = {i: b for i, b in self._partition.handles.items() if i in self._crossing}
        taken: dict[Hashable, int] = {}
        for i, buffer in given.items():
            other = taken.setdefault(buffer.address, i)
            if other != i and {i, other} & self._made:
                raise OpError(
                    f"tensors {other} and {i} share a buffer, and one of them is written: give "
                    "each its own"
                )
            buffer.wait(self._library)
        self._plan.place(
            {i: (b.address, b.memory) for i, b in given.items() if b.memory is not None}
        )
