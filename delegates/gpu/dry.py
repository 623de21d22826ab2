"""A device that is not there: plans are made for it, and nothing runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ...kernels.api import Run
from ...kernels.device import Capability
from ...kernels.types import Array
from .device import Device, Launch


class DryDevice(Device):
    """A `Device` that has a capability and nothing else."""

    prelude = ""
    alignment = 128

    def __init__(self, capability: Capability) -> None:
        self.capability = capability

    @property
    def name(self) -> str:
        return f"{self.capability.name}, which is not there"

    def allocate(self, nbytes: int) -> Any:
        return None

    def view(self, buffer: Any, offset: int, nbytes: int) -> Any:
        return None

    def upload(self, buffer: Any, array: Array) -> None:
        pass  # constants

    def download(self, buffer: Any, array: Array) -> None:
        self._run()

    def build(self, source: str, names: Sequence[str]) -> Mapping[str, Any]:
        return dict.fromkeys(names)

    def record(self, launches: Sequence[Launch]) -> Run:
        return self._run

    def synchronise(self) -> None:
        pass

    def _run(self) -> NoReturn:
        raise RuntimeError(f"a dry run: the device is {self.name}")
