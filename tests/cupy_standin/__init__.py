"""A strict stand-in for CuPy: the part of it that the CUDA delegate uses, without a GPU.

Kernels run on an OpenCL CPU device, from the same text. What CUDA or CuPy would let pass and get
wrong is an error here: arguments of another number or type, freed memory, another device's streams
or memory, waiting while a stream captures. What it cannot show: speed, what NVRTC makes of the
text (`test_nvrtc.py` compiles it), real graphs, real cuBLAS, other libraries' arrays.

Each class names the place in CuPy's source (14.2) whose behaviour it has.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

from litedelegate.delegates.opencl.device import OpenCLDevice

from . import kernels, memory
from .cublas import Cublas
from .kernels import Nvrtc, NVRTCError
from .machine import CUDARuntimeError, Machine

__all__ = ["CUDARuntimeError", "Machine", "NVRTCError", "make"]


def make(opencl: OpenCLDevice, devices: int = 2, capability: str = "90") -> Any:
    """A module like `cupy`; its `machine` is the stand-in's own."""
    machine = Machine(opencl, devices, capability)

    def of(kind: type) -> Any:
        return type(kind.__name__, (kind,), {"machine": machine})

    stream = of(memory.Stream)
    external = type("ExternalStream", (memory.ExternalStream,), {"machine": machine})
    stream.from_external = classmethod(lambda cls, given: external(given.__cuda_stream__()[1]))
    stream.null = stream(null=True)
    array = of(memory.ndarray)
    runtime = _runtime(machine)
    cuda = SimpleNamespace(
        runtime=runtime,
        nvrtc=Nvrtc(machine),
        Device=partial(Device, machine),
        Stream=stream,
        ExternalStream=external,
        Event=of(memory.Event),
        get_elapsed_time=memory.elapsed,
        get_current_stream=lambda: stream(queue=machine.current_queue),
        Module=of(kernels.Module),
        cublas=Cublas(machine),
        get_cublas_handle=lambda: 1 + machine.current,
        MemoryPointer=memory.MemoryPointer,
        UnownedMemory=memory.UnownedMemory,
        alloc=partial(memory.alloc, machine),
        alloc_pinned_memory=partial(memory.alloc_pinned, machine),
    )
    return SimpleNamespace(
        __version__="14.2.0",
        machine=machine,
        cuda=cuda,
        ndarray=array,
        asarray=partial(memory.asarray, array),
        from_dlpack=partial(memory.from_dlpack, array),
    )


def _runtime(machine: Machine) -> SimpleNamespace:
    """`cupy_backends/cuda/api/runtime.pyx`."""

    def queue(address: int) -> Any:
        if address == 0:
            return machine.default_queue()
        return next(q for q in machine.streams if id(q) == address)

    def copy(dst: int, src: int, nbytes: int, kind: int, stream: int) -> None:
        memory.memcpy_async(machine, dst, src, nbytes, kind, queue(stream))

    def set_device(index: int) -> None:
        machine.current = index

    return SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        getDeviceCount=lambda: machine.devices,
        getDevice=lambda: machine.current,
        setDevice=set_device,
        getDeviceProperties=lambda i: {"name": f"Stand-in {'AB'[i]}".encode()},
        driverGetVersion=lambda: 13000,
        runtimeGetVersion=lambda: 13000,
        memcpyAsync=copy,
        memcpyHostToDevice=1,
        memcpyDeviceToHost=2,
        memcpyDeviceToDevice=3,
    )


class Device:
    """`cupy/cuda/device.pyx`, class Device."""

    def __init__(self, machine: Machine, device: int | None = None) -> None:
        self._machine = machine
        self.id = machine.current if device is None else int(device)
        self._before: list[int] = []

    def __int__(self) -> int:
        return self.id

    def __enter__(self) -> Device:
        self._before.append(self._machine.current)
        self._machine.current = self.id
        return self

    def __exit__(self, *exc: object) -> None:
        self._machine.current = self._before.pop()

    def use(self) -> Device:
        self._machine.current = self.id
        return self

    @property
    def compute_capability(self) -> str:
        return self._machine.capability

    @property
    def attributes(self) -> dict[str, int]:
        """`_get_attributes`: names without "cudaDevAttr". Figures: an H100's."""
        return {
            "MultiProcessorCount": 132,
            "WarpSize": 32,
            "MaxSharedMemoryPerBlock": 49152,
            "MaxThreadsPerBlock": 1024,
        }
