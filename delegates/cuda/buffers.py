"""Arrays of CuPy, torch and others as inputs and outputs, where they lie.

Each is made a CuPy array on the same memory, by DLPack, which orders the streams of both sides, or
by `__cuda_array_interface__`, at which CuPy waits for the stream that the array names.
"""

from __future__ import annotations

from typing import Any

from ...kernels.api import TensorSpec
from ..gpu.arrays import misfits
from .device import CUDADevice

_CUDA = (2, 13)  # DLPack's kDLCUDA, kDLCUDAManaged
_ALIGNMENT = 16  # bytes: what the widest load of a kernel asks for


def imported(device: CUDADevice, value: Any, spec: TensorSpec) -> Any | None:
    """`value` as a CuPy array on its own memory; None where it is not on this device.

    ValueError where it is not of the tensor's shape and type, in row-major order and aligned.
    """
    where = getattr(value, "__dlpack_device__", None)
    if where is not None and tuple(map(int, where())) not in [(k, device.index) for k in _CUDA]:
        return None
    cupy = device.cupy
    with device.current():
        if isinstance(value, cupy.ndarray):
            array = value
        elif where is not None:
            array = cupy.from_dlpack(value)
        else:
            array = cupy.asarray(value)
    if array.device.id != device.index:
        return None
    faults = misfits(array, spec)
    if array.size and array.data.ptr % _ALIGNMENT:
        faults.append(f"begins at an address that is no multiple of {_ALIGNMENT}: copy it first")
    if faults:
        raise ValueError(f"the array for {spec.name!r} on {device.name} {'; it '.join(faults)}")
    return array


def new(device: CUDADevice, spec: TensorSpec) -> Any:
    """A CuPy array for an output."""
    wanted = spec.dtype.numpy
    memory = device.allocate(max(spec.size * wanted.itemsize, 1))
    return device.cupy.ndarray(spec.shape, wanted, memory)
