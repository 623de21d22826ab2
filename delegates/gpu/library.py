"""A step that a vendor's library does, in place of a kernel of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...kernels.device import Kernel


@dataclass(frozen=True, slots=True, eq=False)
class Library(Kernel):
    """`call(buffers)` enqueues it: the buffers of `reads` in order, and that of the output.

    No map rides in it (`raw`). The `Device` gets it as the kernel of a `Launch`.
    """

    call: Callable[[Sequence[Any]], None] | None = None


def library(reads: tuple[int, ...], output: int, call: Callable[[Sequence[Any]], None]) -> Library:
    return Library("", reads, (1,), output=output, raw=True, call=call)
