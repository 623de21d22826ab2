"""The delegate "opencl"."""

from __future__ import annotations

import os
from typing import Any

from ...runtime.delegate import Unavailable
from ..gpu.cache import ProgramCache
from ..gpu.delegate import GpuDelegate
from .device import OpenCLDevice
from .find import VARIABLE, devices


class OpenCLDelegate(GpuDelegate):
    """Runs nodes on an OpenCL device.

    `device`: an index or any part of the name of a device or of its driver; without one, that of
    the environment's LITEDELEGATE_OPENCL_DEVICE, else the first whose driver works, GPUs before
    CPUs. `cache`: the folder of built programs. `Unavailable` where there is no such device.
    """

    def __init__(
        self, device: str | int | None = None, cache: str | os.PathLike[str] | None = None
    ) -> None:
        programs = ProgramCache(cache)
        super().__init__("opencl", _device(device, programs))


def _device(wanted: Any, programs: ProgramCache) -> OpenCLDevice:
    if wanted is not None or os.environ.get(VARIABLE):
        return OpenCLDevice(wanted, programs)
    faults = []
    for device in devices():
        try:
            return OpenCLDevice(device, programs)
        except Unavailable as e:
            faults.append(str(e))
    raise Unavailable("\n".join(faults))
