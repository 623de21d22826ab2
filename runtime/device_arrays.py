"""Arrays of other libraries that live on a device: inputs and outputs of `run` without a copy.

They are known by `__cuda_array_interface__` or DLPack, or to a delegate (`Delegate.is_buffer`). One
that reaches the device makes buffer handles of them (`Delegate.take_array`); how handles are dealt
with is in `handles.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from .delegate import Delegate
from .tensor import LiveTensor

if TYPE_CHECKING:
    from .delegation import Delegation
    from .subgraph import LiveSubgraph

_HOST = (1, 3, 11)  # DLPack's kDLCPU, kDLCUDAHost, kDLROCMHost


def is_device_array(value: Any, delegates: Sequence[Delegate] = ()) -> bool:
    """Whether its data is not the host's, as it says itself or as one of `delegates` knows."""
    if isinstance(value, np.ndarray | np.generic | list | tuple | int | float):
        return False
    where = getattr(value, "__dlpack_device__", None)
    if where is not None:
        return where()[0] not in _HOST
    return hasattr(value, "__cuda_array_interface__") or any(d.is_buffer(value) for d in delegates)


def take(delegate: Delegate, value: Any, tensor: LiveTensor) -> Any:
    """The handle for what a user hands in. ValueError where the delegate does not take it."""
    if not delegate.takes_arrays:
        return value
    here = is_device_array(value, [delegate])
    handle = delegate.take_array(value, tensor) if here else None
    if handle is not None:
        return handle
    if here:
        raise ValueError(
            f"the array for {tensor.name!r} is on a device that {delegate.name} does not reach"
        )
    raise ValueError(
        f"got {value!r} for {tensor.name!r}; {delegate.name} takes arrays on its device, of the "
        "tensor's shape and type"
    )


def lend(delegation: Delegation, tensor: LiveTensor, value: Any) -> None:
    """Has `tensor`, an input of the main subgraph, read where `value` lies.

    ValueError where no delegate reaches it, or it is of another type or shape.
    """
    fault: ValueError | None = None
    for delegate in delegation.delegates:
        try:
            handle = delegate.take_array(value, tensor)
        except ValueError as e:  # another one may be of the right device
            fault = fault or e
            continue
        if handle is not None:
            delegation.handles.put(tensor, handle, delegate, given=True, lent=True)
            return
    if fault is not None:
        raise fault
    raise ValueError(
        f"input {tensor.name!r} got a {type(value).__module__}.{type(value).__qualname__} on a "
        "device, and no delegate of this interpreter takes it: copy it to the host (.cpu(), "
        '.get()), or give the interpreter a delegate of that device (delegates=["cuda"])'
    )


class Lent:
    """What one call of `run` has in buffers of delegates; all is taken back when it is left."""

    def __init__(self, delegation: Delegation, subgraph: LiveSubgraph) -> None:
        self._delegation = delegation
        self._subgraph = subgraph
        self._tensors: dict[int, LiveTensor] = {}
        self._made: set[int] = set()

    def give(self, tensor: LiveTensor, value: Any) -> None:
        if self._subgraph.index != 0:
            raise ValueError(
                f"input {tensor.name!r} got an array on a device; this signature runs subgraph "
                f"{self._subgraph.index}, and only the main one takes those"
            )
        lend(self._delegation, tensor, value)
        self._tensors[tensor.index] = tensor

    def make(self, outputs: Iterable[LiveTensor]) -> None:
        """Has outputs made in new buffers, by the first delegate that has any. One that is an input
        stays where that is.
        """
        for tensor in outputs:
            if tensor.index in self._subgraph.input_indices:
                continue
            for delegate in self._delegation.delegates if self._subgraph.index == 0 else ():
                if tensor.is_dynamic or tensor.dtype.numpy.hasobject:  # made on the host
                    continue
                handle = delegate.new_buffer(tensor)
                if handle is not None:
                    self._delegation.handles.put(tensor, handle, delegate, given=False, lent=True)
                    self._tensors[tensor.index] = tensor
                    self._made.add(tensor.index)
                    break

    def array(self, tensor: LiveTensor) -> Any | None:
        """The output as an array of the device; None where it is on the host."""
        return self._delegation.handles.array(tensor) if tensor.index in self._made else None

    def __enter__(self) -> Lent:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for tensor in self._tensors.values():
            self._delegation.handles.forget(tensor)
