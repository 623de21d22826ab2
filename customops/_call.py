"""What a C operator holds during one call: handles, buffers, and the errors that it met.

C gets no addresses of Python objects but numbers that are never given twice. They are looked up
and checked at each use, and forgotten when the call returns.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np

from ..kernels.api import Context, Node, OpError, Shape, Tensor
from ..kernels.types import Array, DType
from ..runtime.encoding import encode_strings

ADDED = 1 << 20  # from here on indices mean tensors that an operator added
_STEP = 16
_numbers = itertools.count(1)
_objects: dict[int, tuple[Call | None, str, Any]] = {}
_calls = threading.local()


@dataclass(eq=False)
class Added:
    """A tensor that an operator added; it lives once it is among the node's temporaries."""

    dtype: DType
    kind: str  # as `Context.temporary` has it
    scale: float
    zero_point: int
    shape: Shape = ()


@dataclass(eq=False)
class NodeState:
    """What belongs to one node for as long as it lives: the runtime's user data."""

    options: bytes
    buffer: Any  # the same in C's memory
    data: int | None = None  # what the operator's init returned
    added: list[Added] = field(default_factory=list)
    temporaries: list[int] = field(default_factory=list)  # indices of `added`, in order

    def temporary(self, node: Node | None, index: int) -> Tensor | Added:
        """Of the index that C knows it by: the live tensor where there is one."""
        added = self.added[index - ADDED]
        place = index - ADDED
        if node is not None and place in self.temporaries:
            position = self.temporaries.index(place)
            if position < len(node.temporaries):
                return node.temporaries[position]
        return added


class Call:
    """One call of a function of an operator; a context manager."""

    def __init__(self, context: Context, state: NodeState, node: Node | None, step: str) -> None:
        self.context = context
        self.state = state
        self.node = node
        self.step = step
        self.reported: list[str] = []
        self.failure: BaseException | None = None
        self._handles: dict[int, int] = {}
        self._strings: dict[int, Any] = {}
        self.kept: list[Any] = []  # memory that C was shown
        self.context_handle = self.give("context", context)
        self.node_handle = None if node is None else self.give("node", node)

    def give(self, kind: str, thing: Any) -> int:
        handle = self._handles.get(id(thing))
        if handle is None:
            handle = _STEP * next(_numbers)
            self._handles[id(thing)] = handle
            _objects[handle] = (self, kind, thing)
        return handle

    def __enter__(self) -> Call:
        stack = getattr(_calls, "stack", None)
        if stack is None:
            stack = _calls.stack = []
        stack.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _calls.stack.pop()
        for handle in self._handles.values():
            _objects.pop(handle, None)

    def finish(self, name: str, status: int) -> None:
        """Raises what went wrong; what was only reported goes to the error reporter."""
        failure = self.failure
        if failure is not None and not isinstance(failure, Exception):
            raise failure
        text = "\n".join(self.reported)
        if status:
            raise OpError(text or f"{name} returned status {status} from {self.step}") from failure
        if text:
            self.context.report(f"{name}: {text}")

    def ints(self, values: Sequence[int]) -> Any:
        """An int[] in C's memory, until the call returns."""
        made = (ctypes.c_int * len(values))(*values)
        self.kept.append(made)
        return made

    def strings(self, tensor: Tensor) -> Any:
        """A string tensor in TensorFlow Lite's layout, made once for each value."""
        made = self._strings.get(id(tensor))
        if made is None:
            raw = encode_strings(tensor.array.reshape(-1).tolist())
            # its own memory, aligned for the int32 at its head
            made = self._strings[id(tensor)] = np.frombuffer(raw, np.uint8).copy()
            self.kept.append(made)
        return made

    def changed(self, tensor: Any) -> None:
        self._strings.pop(id(tensor), None)

    def memory(self, tensor: Tensor | Added) -> Array | None:
        """The bytes that C may see; None where there are none in this step."""
        if isinstance(tensor, Added):
            return None
        settled = tensor.spec.const is not None or tensor.spec.variable
        if self.step == "prepare" and not settled:
            inputs = self.node.inputs if self.node is not None else ()
            if not (tensor.is_dynamic and any(tensor is t for t in inputs)):
                return None
        try:
            array = tensor.array
        except RuntimeError:  # no memory yet
            return None
        if tensor.dtype is DType.STRING:
            return np.asarray(self.strings(tensor))
        if array.dtype.hasobject:
            raise OpError(f"tensor {tensor.name!r} is a {tensor.dtype.label}, which C cannot read")
        if array.flags.c_contiguous and array.flags.aligned:
            return array
        if self.node is not None and any(tensor is t for t in self.node.outputs):
            raise OpError(f"output {tensor.name!r} does not lie in one piece of memory")
        copy = np.array(array, order="C")
        self.kept.append(copy)
        return copy


def lend(kind: str, thing: Any) -> int:
    """A handle that is good until it is taken back."""
    handle = _STEP * next(_numbers)
    _objects[handle] = (None, kind, thing)
    return handle


def take_back(handle: int) -> None:
    _objects.pop(handle, None)


def find(handle: int | None, kind: str) -> tuple[Call, Any]:
    """The call and the object of a handle. OpError where it is none (any more)."""
    call, thing = _find(handle, kind)
    assert call is not None
    return call, thing


def find_lasting(handle: int | None, kind: str) -> Any:
    """The object of a handle that was lent."""
    return _find(handle, kind)[1]


def _find(handle: int | None, kind: str) -> tuple[Call | None, Any]:
    entry = _objects.get(handle or 0)
    if entry is None or entry[1] != kind:
        what = "NULL" if not handle else "no longer valid" if entry is None else f"a {entry[1]}"
        raise OpError(
            f"a function for a {kind} was called with a handle that is {what}; "
            "handles are good until the function that was given them returns"
        )
    return entry[0], entry[2]


def note(error: BaseException) -> None:
    """Keeps an error of a callback for when the operator returns: C knows no exceptions."""
    stack = getattr(_calls, "stack", None)
    if not stack:  # a thread of the operator's own
        warnings.warn(f"in a custom op: {error}", stacklevel=3)
        return
    call = stack[-1]
    call.failure = call.failure or error
    name = "" if isinstance(error, OpError | ValueError) else f"{type(error).__name__}: "
    call.reported.append(f"{name}{error}")
