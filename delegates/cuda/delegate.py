"""The delegate "cuda"."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np

from ...kernels.api import NodeSpec, Registration, Tensor, Unsupported
from ...kernels.builtins import find_builtin
from ...kernels.device import Lowered
from ...runtime.cost import CostProfile
from ...runtime.delegate import Kernel, Partition
from ...runtime.options import device_choice, flag, whole
from ..gpu.cache import ProgramCache
from ..gpu.calibrate import checked, choose
from ..gpu.delegate import GpuDelegate
from . import buffers
from .cublas import Cublas
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
    * `cublas`: products of float32 matrices (FULLY_CONNECTED, BATCH_MATMUL, CONV_2D of one pixel)
      of `cublas_from` operations or more go to cuBLAS, where it is installed; with `tf32` inputs
      are rounded to ten bits there.
    * `half`: float32 that stays on the device is stored in 16 bits, and computed with in 32;
      products of matrices go to tensor cores, as halves that are added in 32, and not to cuBLAS.
    * `cache`: the folder of built programs, and of what was measured.
    * `costs`: by which partitions are chosen that pay: see `gpu.calibrate.choose`.

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
        cublas: bool = True,
        cublas_from: int = 1 << 24,
        tf32: bool = False,
        half: bool = False,
        costs: str | CostProfile | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        wanted, half, graphs = checked(costs), flag("half", half), flag("graphs", graphs)
        cublas, tf32 = flag("cublas", cublas), flag("tf32", tf32)
        programs = ProgramCache(cache)
        found = CUDADevice(device_choice(device), programs, stream, allocator, graphs)
        plain = partial(GpuDelegate, "cuda", found)
        super().__init__("cuda", found, half, partial(choose, wanted, found, programs, plain))
        least = whole("cublas_from", cublas_from)
        # of halves our kernels make products on tensor cores, which float32 cannot reach
        self._cublas = Cublas(found, tf32, least) if cublas and not half else None

    def _lower(self, spec: NodeSpec, registration: Registration) -> Lowered:
        # a replaced builtin is the user's: it means what their code says
        ours = not registration.custom and registration is find_builtin(spec.op)
        if self._cublas is not None and ours:
            try:
                return self._cublas.lower(spec)
            except Unsupported:  # the shared form says what is to be said of this node
                return super()._lower(spec, registration)
        return super()._lower(spec, registration)

    def kernel(self, partition: Partition, fuse: bool) -> Kernel:
        return CUDAKernel(self.device, partition, fuse, self.half)

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
