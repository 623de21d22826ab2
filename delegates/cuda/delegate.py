"""The delegate "cuda"."""

from __future__ import annotations

import os
from typing import Any

from ..gpu.cache import ProgramCache
from ..gpu.delegate import GpuDelegate
from .device import Allocator, CUDADevice


class CUDADelegate(GpuDelegate):
    """Runs nodes on an NVIDIA GPU.

    * `device`: a number or any part of a name; without one, that of the environment's
      LITEDELEGATE_CUDA_DEVICE, else CuPy's current device.
    * `stream`: where the work goes: a stream of CuPy or torch, an object with `__cuda_stream__`, or
      the address of a `cudaStream_t`; by default one of its own.
    * `allocator`: nbytes -> CuPy's `MemoryPointer`; by default CuPy's current allocator, a pool.
    * `graphs`: from its second run on, a partition is one CUDA graph.
    * `cache`: the folder of built programs.

    `Unavailable` where there is no such device, with the cause and what helps.
    """

    device: CUDADevice

    def __init__(
        self,
        device: str | int | None = None,
        *,
        stream: Any = None,
        allocator: Allocator | None = None,
        graphs: bool = True,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        found = CUDADevice(device, ProgramCache(cache), stream, allocator, graphs)
        super().__init__("cuda", found)
