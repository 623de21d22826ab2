"""The delegate "cuda"."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ...kernels.api import Tensor
from ...runtime.delegate import Kernel, Partition
from ..gpu.cache import ProgramCache
from ..gpu.delegate import GpuDelegate
from . import buffers
from .device import Allocator, CUDADevice
from .kernel import CUDAKernel


class CUDADelegate(GpuDelegate):
    """Runs nodes on an NVIDIA GPU.

    * `device`: a number or any part of a name; without one, that of the environment's
      LITEDELEGATE_CUDA_DEVICE, else CuPy's current device.
    * `stream`: where the work goes: a stream of CuPy or torch, an object with `__cuda_stream__`, or
      the address of a `cudaStream_t`; by default one of its own.
    * `allocator`: nbytes -> CuPy's `MemoryPointer`; by default CuPy's current allocator, a pool.
    * `graphs`: from its second run on, a partition is one CUDA graph.
    * `cache`: the folder of built programs.

    Its buffer handles are CuPy arrays. `Unavailable` where there is no such device, with the cause
    and what helps.
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

    def kernel(self, partition: Partition, fuse: bool) -> Kernel:
        return CUDAKernel(self.device, partition, fuse)

    # -- inputs and outputs in users' arrays

    def take_array(self, value: Any, tensor: Tensor) -> Any | None:
        return buffers.imported(self.device, value, tensor.spec)

    def new_buffer(self, tensor: Tensor) -> Any | None:
        return buffers.new(self.device, tensor.spec)

    def array_of(self, handle: Any) -> Any:
        return handle

    def copy_from_buffer_handle(self, handle: Any, tensor: Tensor) -> None:
        self.device.follow()
        if handle.size:
            self.device.download(handle.data, tensor.array)
        self.device.synchronise()

    def copy_to_buffer_handle(self, handle: Any, tensor: Tensor) -> None:
        self.device.follow()
        if handle.size:
            self.device.upload(handle.data, np.ascontiguousarray(tensor.array))
        self.device.synchronise()
