"""Delegates without a device: what one would take, and how it would be fused, on a named one."""

from __future__ import annotations

from collections.abc import Mapping

from ...kernels.device import PROFILES
from ...runtime.cost import GPU, OPENCL_CPU
from .delegate import GpuDelegate
from .dry import DryDevice


class DryDelegate(GpuDelegate):
    """The delegate `name` as it would be on the device `profile` of `kernels.device.PROFILES`.

    Costs are those of a fixed profile, so that a report is the same on each machine. ValueError
    for a name that is none of them.
    """

    def __init__(self, name: str, profile: str) -> None:
        if profile not in PROFILES:
            raise ValueError(f"{profile!r} is no known device; there are {', '.join(PROFILES)}")
        capability = PROFILES[profile]
        super().__init__(name, DryDevice(capability))
        self.profile = OPENCL_CPU if capability.kind == "cpu" else GPU

    def describe(self) -> Mapping[str, str]:
        return {"device": f"{self.device.name}: a dry run"}
