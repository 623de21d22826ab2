"""NVRTC, modules and kernels of the stand-in: the delegate's text behind the prelude of OpenCL."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np

from litedelegate.delegates.gpu.prelude import prelude

from .machine import CUDARuntimeError, Machine, Queue
from .memory import MemoryPointer, ndarray

_MAGIC = b"stand-in of a cubin\0"
_KERNEL = re.compile(r"\bKERNEL\s+void\s+(\w+)\s*\(([^)]*)\)")
_SCALARS = {
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "u8": np.uint8,
    "i16": np.int16,
    "u16": np.uint16,
    "i32": np.int32,
    "u32": np.uint32,
    "i64": np.int64,
    "u64": np.uint64,
}
# as the one of CUDA: blocks reach beyond the grid
_GUARD = """#undef IN_GRID
#define IN_GRID(x, y, z) if (GID0 >= (x) || GID1 >= (y) || GID2 >= (z)) return;
"""
_PRELUDE = prelude("litedelegate.delegates.cuda")


class NVRTCError(RuntimeError):
    """`cupy_backends/cuda/libs/nvrtc.pyx`, class NVRTCError."""


class Nvrtc:
    """`cupy_backends/cuda/libs/nvrtc.pyx`: the functions of that module."""

    NVRTCError = NVRTCError

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._programs: dict[int, tuple[str, str]] = {}  # text and log
        self.compiled = 0

    def getVersion(self) -> tuple[int, int]:
        return 13, 0

    def getSupportedArchs(self) -> tuple[int, ...]:
        return 75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121

    def createProgram(self, source: str, name: str, headers: Any, include_names: Any) -> int:
        if not isinstance(source, str) or not isinstance(name, str):
            raise TypeError("createProgram takes text")
        number = len(self._programs) + 1
        self._programs[number] = source, ""
        return number

    def compileProgram(self, program: int, options: Any) -> None:
        source, _ = self._programs[program]
        architectures = [o for o in options if re.fullmatch(r"-arch=(sm|compute)_\d+a?", o)]
        if len(architectures) != 1:
            raise NVRTCError(f"NVRTC_ERROR_INVALID_OPTION ({options})")
        self.compiled += 1
        try:
            _build(self._machine, source)
        except RuntimeError as e:  # PyOpenCL's, or of a text that is not the delegate's
            self._programs[program] = source, str(e)
            raise NVRTCError("NVRTC_ERROR_COMPILATION (6)") from e

    def getProgramLog(self, program: int) -> str:
        return self._programs[program][1]

    def getCUBIN(self, program: int) -> bytes:
        """Without the last byte, as CuPy's."""
        return _MAGIC + self._programs[program][0].encode()

    def getPTX(self, program: int) -> bytes:
        return self.getCUBIN(program)

    def destroyProgram(self, program: int) -> None:
        self._programs[program] = "", ""


def _build(machine: Machine, text: str) -> dict[str, tuple[Any, list[str]]]:
    """Each kernel's maker and parameters. RuntimeError where OpenCL does not take the text."""
    if not text.startswith(_PRELUDE):
        raise RuntimeError("the text does not begin with the prelude of CUDA")
    body = text[len(_PRELUDE) :]
    parameters = {
        m[1]: [p.strip() for p in m[2].split(",") if p.strip()] for m in _KERNEL.finditer(body)
    }
    program = machine.build(f"{machine.opencl.prelude}\n{_GUARD}{body}")
    make = machine.cl.Kernel
    return {name: (partial(make, program, name), given) for name, given in parameters.items()}


class Module:
    """`cupy/cuda/function.pyx`, class Module."""

    machine: Machine

    def __init__(self) -> None:
        self._kernels: dict[str, tuple[Any, list[str]]] = {}

    def load(self, cubin: bytes) -> None:
        if not isinstance(cubin, bytes):
            raise TypeError("load takes bytes")
        if not cubin.startswith(_MAGIC):
            raise CUDARuntimeError("CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid")
        text = cubin[len(_MAGIC) :].rstrip(b"\0").decode()
        self._kernels = _build(self.machine, text)
        self._device = self.machine.current

    def get_function(self, name: str) -> Function:
        if name not in self._kernels:
            raise CUDARuntimeError("CUDA_ERROR_NOT_FOUND", "named symbol not found")
        make, parameters = self._kernels[name]
        return Function(self.machine, name, make, parameters, self._device)


class Function:
    """`cupy/cuda/function.pyx`, class Function: `__call__`, `_launch` and `_pointer`."""

    def __init__(
        self, machine: Machine, name: str, make: Any, parameters: list[str], device: int
    ) -> None:
        self._machine = machine
        self._name = name
        self._make = make
        self._parameters = parameters
        self._device = device

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Any,
        shared_mem: int = 0,
        stream: Any = None,
    ) -> None:
        if not isinstance(grid, tuple) or not isinstance(block, tuple):
            raise TypeError("grid and block are tuples")
        grid, block = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
        queue = self._queue(stream)
        # CUDA's programming guide, "Technical Specifications per Compute Capability"
        threads = block[0] * block[1] * block[2]
        if not 0 < threads <= 1024 or block[2] > 64 or min(*grid, *block) < 1:
            raise CUDARuntimeError("CUDA_ERROR_INVALID_VALUE", f"block {block}")
        if grid[0] >= 1 << 31 or max(grid[1:]) > 65535:
            raise CUDARuntimeError("CUDA_ERROR_INVALID_VALUE", f"grid {grid}")
        if len(args) != len(self._parameters):
            # CUDA reads beyond the arguments: nobody would notice
            raise AssertionError(
                f"{self._name} takes {len(self._parameters)} arguments, got {len(args)}"
            )
        pairs = zip(args, self._parameters, strict=True)
        given = [self._argument(a, p, queue.device) for a, p in pairs]
        size = tuple(g * b for g, b in zip(grid, block, strict=True))

        def run() -> None:
            cl, kernel = self._machine.cl, self._make()
            for i, (allocation, value) in enumerate(given):
                if allocation is not None:
                    if not allocation.live:
                        raise CUDARuntimeError(
                            "cudaErrorIllegalAddress", f"argument {i} of {self._name} was freed"
                        )
                    kernel.set_arg(i, cl.SVM(allocation.data[value:]))
                else:
                    kernel.set_arg(i, value)
            cl.enqueue_nd_range_kernel(self._machine.queue, kernel, size, block)
            self._machine.queue.finish()
            self._machine.launched += 1

        queue.put(run)

    def _queue(self, stream: Any) -> Queue:
        """As `_get_stream`; the launch fails on another device's stream (CUDA's programming guide,
        "Stream and Event Behavior"), and with a module of another device."""
        queue: Queue = self._machine.current_queue if stream is None else stream.queue
        current = self._machine.current
        if queue.device != current or self._device != current:
            raise CUDARuntimeError(
                "cudaErrorInvalidResourceHandle",
                f"device {current} is current, the stream is device {queue.device}'s, the kernel "
                f"device {self._device}'s",
            )
        return queue

    def _argument(self, value: Any, parameter: str, device: int) -> tuple[Any, Any]:
        """(allocation, offset), or (None, scalar)."""
        pointer = "*" in parameter
        if isinstance(value, ndarray):
            value = value.data
        if isinstance(value, MemoryPointer):
            if not pointer:
                raise AssertionError(f"{self._name}: {parameter!r} is no pointer")
            allocation = self._machine.device_memory(value.ptr, 1, device)
            return allocation, value.ptr - allocation.address
        if isinstance(value, bool | int | float) and not isinstance(value, np.generic):
            # `cupy/_core/_scalar.pyx`: an int goes as int64, a float as float64
            raise AssertionError(f"{self._name}: {parameter!r} got a Python number, {value!r}")
        kind = _SCALARS.get(parameter.removeprefix("const ").split()[0])
        if pointer or kind is None or not isinstance(value, kind):
            raise AssertionError(f"{self._name}: {parameter!r} got {type(value).__name__}")
        return None, value
