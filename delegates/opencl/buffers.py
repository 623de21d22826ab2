"""PyOpenCL's arrays and buffers as inputs and outputs, where they lie."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from ...kernels.api import TensorSpec
from ..gpu.arrays import misfits
from .device import OpenCLDevice


@dataclass(frozen=True, slots=True, eq=False)
class DeviceBuffer:
    """A buffer handle: `value` is what the user gave, `memory` its bytes as kernels take them, None
    where there are none. `address` tells it from others.
    """

    value: Any
    memory: Any
    address: Hashable

    def wait(self, cl: Any) -> None:
        """Until what PyOpenCL knows to be filling the array is done."""
        events = getattr(self.value, "events", None)
        if events:
            cl.wait_for_events(events)


def is_buffer(value: Any) -> bool:
    """Whether `value` is an array or a buffer of PyOpenCL's."""
    cl, arrays = sys.modules.get("pyopencl"), sys.modules.get("pyopencl.array")
    if cl is None:
        return False
    return isinstance(value, cl.MemoryObjectHolder) or (
        arrays is not None and isinstance(value, arrays.Array)
    )


def imported(device: OpenCLDevice, value: Any, spec: TensorSpec) -> DeviceBuffer | None:
    """`value` as a handle on its own memory; None where it is nothing of PyOpenCL's.

    ValueError where it is of another context, or not of the tensor's shape and type in row-major
    order; of a buffer, which has neither, where it is not of the tensor's size.
    """
    if not is_buffer(value):
        return None
    nbytes = spec.size * spec.dtype.numpy.itemsize
    if isinstance(value, device.library.MemoryObjectHolder):
        base, offset, kind = value, 0, "buffer"
        faults = _wrong_size(value, nbytes)
    else:
        base, offset, kind = value.base_data, value.offset, "array"
        faults = misfits(value, spec)
        if not faults and not nbytes:
            return DeviceBuffer(value, None, id(value))
    faults += _out_of_reach(device, base, offset)
    if faults:
        raise ValueError(f"the {kind} for {spec.name!r} on {device.name} {'; it '.join(faults)}")
    # a reference of our own: recorded launches may outlive the user's
    memory = device.library.Buffer.from_int_ptr(base.int_ptr, True)
    if offset:
        memory = memory.get_sub_region(offset, nbytes)
    return DeviceBuffer(value, memory, (base.int_ptr, offset))


def _wrong_size(buffer: Any, nbytes: int) -> list[str]:
    if buffer.size == max(nbytes, 1):
        return []
    return [f"has {buffer.size:,} bytes; takes {nbytes:,} (get_sub_region gives a part)"]


def _out_of_reach(device: OpenCLDevice, base: Any, offset: int) -> list[str]:
    if not isinstance(base, device.library.MemoryObjectHolder):
        return [f"lies in {type(base).__name__}; takes what lies in a Buffer: copy it first"]
    if base.context != device.context:
        return [
            "is of another context: make it on the delegate's queue (`OpenCLDelegate.queue`), or "
            "give the delegate yours: OpenCLDelegate(queue=...)"
        ]
    if offset % device.alignment or (offset and getattr(base, "associated_memobject", None)):
        return [
            f"begins at byte {offset} of its buffer; takes a multiple of {device.alignment}, not "
            "within a part of a buffer: copy it first"
        ]
    return []


def new(device: OpenCLDevice, spec: TensorSpec) -> DeviceBuffer:
    """An array of PyOpenCL's for an output."""
    import pyopencl.array

    array = pyopencl.array.empty(device.queue, spec.shape, spec.dtype.numpy)
    made = imported(device, array, spec)
    assert made is not None
    return made
