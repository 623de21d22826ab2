"""What a backend offers: little more than memory, a compiler and a queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from ...kernels.api import Run
from ...kernels.device import Capability
from ...kernels.types import Array


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: `grid` are work-items, fastest dimension first; `group` those that share local
    memory, None where it does not matter. Without a grid `kernel` is a library's call, made with
    the arguments as a list."""

    kernel: Any
    args: tuple[Any, ...]
    grid: tuple[int, ...]
    group: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A kernel or a copy that ran: from when to when, in ns of the device's clock."""

    start: int
    end: int


class Trace(Protocol):
    """What was enqueued while it was open, timed."""

    def spans(self) -> Sequence[Span]:
        """In the order in which it was enqueued; to be asked after `synchronise`."""
        ...


class Device(Protocol):
    """A device. All calls but `download` and `synchronise` may return before the work is done.

    Backends derive from it: the methods with a body are optional.
    """

    capability: Capability
    prelude: str  # text that defines `kernels.device.MACROS` and the types
    alignment: int  # bytes, of views into a buffer
    builders: int = 1  # threads that may call `build` at once

    @property
    def name(self) -> str: ...

    def identity(self) -> Sequence[str]:
        """What tells it from others, drivers and versions included."""
        return [self.name]

    def allocate(self, nbytes: int) -> Any:
        """A buffer; MemoryError where there is no room."""
        ...

    def view(self, buffer: Any, offset: int, nbytes: int) -> Any:
        """A part of a buffer, as an argument of launches and copies."""
        ...

    def upload(self, buffer: Any, array: Array) -> None:
        """`array` (contiguous) must not change before `synchronise`."""
        ...

    def download(self, buffer: Any, array: Array) -> None:
        """What all launches before it left; `array` holds it after `synchronise`."""
        ...

    def wrap(self, array: Array) -> Any | None:
        """A buffer that is the array's own memory, for devices that share the host's; None: copy.

        Between `lend` and `give_back` it is the device's, else the host's.
        """
        return None

    def lend(self, buffers: Sequence[Any]) -> None:
        """Wrapped arrays to the device, with what the host wrote to them."""
        return None

    def give_back(self, buffers: Sequence[Any]) -> None:
        """And to the host, after `synchronise`, with what the launches left."""
        return None

    def build(self, source: str, names: Sequence[str]) -> Mapping[str, Any]:
        """The kernels of a program by name; the prelude is put in front.

        `BuildError`, with the compiler's log, where it does not take the text.
        """
        ...

    def building(self) -> AbstractContextManager[None]:
        """Open around calls of `build`, of which `builders` may come at once."""
        return nullcontext()

    def record(self, launches: Sequence[Launch]) -> Run:
        """A callable that enqueues all launches in order."""
        ...

    def trace(self) -> AbstractContextManager[Trace] | None:
        """Times what this thread enqueues while it is open: copies, and each launch. None where the
        device cannot.
        """
        return None

    def synchronise(self) -> None:
        """Waits for all that was enqueued."""
        ...
