"""Tensors of the main subgraph that live in a delegate's own buffers: no copy to or from the host.

As in TensorFlow Lite, the user gives a handle that means something to the delegate. An input is
then read, and an output written, where the handle says; the host gets a copy when it asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..kernels.api import Shape
from .delegate import Delegate
from .tensor import LiveTensor

if TYPE_CHECKING:
    from .plan import Plan
    from .subgraph import LiveSubgraph


@dataclass
class _Held:
    delegate: Delegate
    handle: Any
    given: bool  # an input: the buffer is what counts
    shape: Shape  # that the tensor had when the buffer was given
    stale: bool = False  # an output that was made in the buffer
    lent: bool = False  # the host's next value takes the tensor back
    others: bool = False  # an output that others read on their way: the host needs it

    def check(self, tensor: LiveTensor) -> None:
        """ValueError where the tensor is no longer what the buffer was given for."""
        if tensor.is_dynamic:
            raise ValueError(
                f"{tensor.name!r} is in a buffer of {self.delegate.name}, and its shape is known "
                "only while the model runs: take the buffer back (a handle of None)"
            )
        if tensor.shape != self.shape:
            raise ValueError(
                f"{tensor.name!r} has the shape {tensor.shape} and is in a buffer of "
                f"{self.delegate.name} that was given for {self.shape}: give another, or take it "
                "back (a handle of None)"
            )


class Handles:
    """What `Interpreter.set_buffer_handle` was given."""

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}
        self._of: dict[int, dict[int, Any]] = {}  # by delegate: what its kernels see

    def __bool__(self) -> bool:
        return bool(self._held)

    def of(self, delegate: Delegate) -> Mapping[int, Any]:
        """Handles by tensor number: always the present ones."""
        return self._of.setdefault(id(delegate), {})

    def put(
        self,
        tensor: LiveTensor,
        handle: Any,
        delegate: Delegate,
        given: bool,
        lent: bool = False,
    ) -> None:
        """`given`: the tensor is an input; `lent`: until the host writes another value, which
        leaves the buffer as it is."""
        self.drop(tensor)
        self._held[tensor.index] = _Held(delegate, handle, given, tensor.shape, lent=lent)
        self._of.setdefault(id(delegate), {})[tensor.index] = handle

    def drop(self, tensor: LiveTensor) -> None:
        """The handle is freed; the host has the value from here on, if the buffer's fits."""
        held = self._held.get(tensor.index)
        if held is not None and tensor.array_or_none is not None and tensor.shape == held.shape:
            self.fetch(tensor)
        self.forget(tensor)

    def forget(self, tensor: LiveTensor) -> None:
        """As `drop`; whatever value the host has."""
        held = self._held.pop(tensor.index, None)
        if held is not None:
            self._of[id(held.delegate)].pop(tensor.index, None)
            held.delegate.free_buffer_handle(held.handle)

    def array(self, tensor: LiveTensor) -> Any | None:
        """The buffer as its delegate shows it to users; None where there is none."""
        held = self._held.get(tensor.index)
        return None if held is None else held.delegate.array_of(held.handle)

    def fetch(self, tensor: LiveTensor) -> None:
        """Before the host reads."""
        held = self._held.get(tensor.index)
        if held is not None and (held.given or held.stale):
            held.check(tensor)
            held.delegate.copy_from_buffer_handle(held.handle, tensor)
            held.stale = False

    def store(self, tensor: LiveTensor) -> None:
        """After the host wrote."""
        held = self._held.get(tensor.index)
        if held is not None and held.lent:
            self.forget(tensor)
        elif held is not None:
            held.check(tensor)
            held.delegate.copy_to_buffer_handle(held.handle, tensor)
            held.stale = False

    def before(self, subgraph: LiveSubgraph, plan: Plan) -> None:
        """Before an invoke: inputs that others read, too, come to the host; outputs that others
        read are made there. ValueError where a buffer no longer fits."""
        for index, held in self._held.items():
            held.check(subgraph.tensors[index])
            held.others = any(
                t is not None and t.index == index
                for node, delegate in plan.runs(subgraph)
                if delegate is not held.delegate
                for t in node.inputs
            )
            if held.given and held.others:
                held.delegate.copy_from_buffer_handle(held.handle, subgraph.tensors[index])
            elif held.others:
                self._of[id(held.delegate)].pop(index, None)
            else:
                self._of[id(held.delegate)][index] = held.handle

    def after(self, subgraph: LiveSubgraph, plan: Plan) -> None:
        """After an invoke: outputs that others made go to their buffers."""
        makers = {t.index: d for node, d in plan.runs(subgraph) for t in node.outputs}
        for index, held in self._held.items():
            if index not in makers:
                continue
            held.stale = makers[index] is held.delegate and not held.others
            if not held.stale:
                held.delegate.copy_to_buffer_handle(held.handle, subgraph.tensors[index])

    def take_off(self, subgraph: LiveSubgraph, delegate: Delegate) -> None:
        """The delegate has failed: inputs come to the host while they can; its handles are freed.

        RuntimeError where an input is lost.
        """
        for index, held in list(self._held.items()):
            if held.delegate is not delegate:
                continue
            tensor = subgraph.tensors[index]
            held.stale = False  # the invoke is run again
            try:
                self.drop(tensor)
            except Exception as e:
                raise RuntimeError(
                    f"input {tensor.name!r} was in a buffer of {delegate.name}, which has failed, "
                    f"and cannot be had: {type(e).__name__}: {e}"
                ) from e

    def close(self, report: Callable[[str], None]) -> None:
        held, self._held = self._held, {}
        for h in held.values():
            try:
                h.delegate.free_buffer_handle(h.handle)
            except Exception as e:  # the others are still to be freed
                report(f"{h.delegate.name}: freeing a buffer raised {type(e).__name__}: {e}")
