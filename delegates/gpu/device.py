"""What a backend offers: little more than memory, a compiler and a queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


class Device(Protocol):
    """A device. All calls but `download` and `synchronise` may return before the work is done."""

    capability: Capability
    prelude: str  # text that defines `kernels.device.MACROS` and the types
    alignment: int  # bytes, of views into a buffer

    @property
    def name(self) -> str: ...

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

    def build(self, source: str, names: Sequence[str]) -> Mapping[str, Any]:
        """The kernels of a program by name; the prelude is put in front.

        `BuildError`, with the compiler's log, where it does not take the text.
        """
        ...

    def record(self, launches: Sequence[Launch]) -> Run:
        """A callable that enqueues all launches in order."""
        ...

    def synchronise(self) -> None:
        """Waits for all that was enqueued."""
        ...
