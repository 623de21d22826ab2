"""The delegate "opencl"."""

from __future__ import annotations

import os
from functools import partial

from ...runtime.cost import CostProfile
from ...runtime.delegate import Unavailable
from ..gpu.cache import ProgramCache
from ..gpu.calibrate import checked, choose
from ..gpu.delegate import GpuDelegate
from .device import OpenCLDevice
from .find import matching


class OpenCLDelegate(GpuDelegate):
    """Runs nodes on an OpenCL device.

    * `device`: an index or any part of the name of a device or of its driver; without one, that of
      the environment's LITEDELEGATE_OPENCL_DEVICE, else any. Of those that fit it is the first
      whose compiler works, GPUs before CPUs.
    * `cache`: the folder of built programs, and of what was measured.
    * `half`: float32 that stays on the device is stored in 16 bits, and computed with in 32.
    * `costs`: by which partitions are chosen that pay: see `gpu.calibrate.choose`.

    `Unavailable` where there is no such device.
    """

    def __init__(
        self,
        device: str | int | None = None,
        cache: str | os.PathLike[str] | None = None,
        half: bool = False,
        costs: str | CostProfile | None = None,
    ) -> None:
        wanted = checked(costs)
        programs = ProgramCache(cache)
        found = open_device(device, programs)
        plain = partial(GpuDelegate, "opencl", found)
        super().__init__("opencl", found, half, partial(choose, wanted, found, programs, plain))


def open_device(wanted: str | int | None, programs: ProgramCache) -> OpenCLDevice:
    """The first device that fits and whose compiler works: a driver may not know its CPU."""
    faults = []
    for device in matching(wanted):
        try:
            return OpenCLDevice(device, programs)
        except Unavailable as e:
            faults.append(str(e))
    raise Unavailable("\n".join(faults))
