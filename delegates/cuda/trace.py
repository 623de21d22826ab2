"""How long copies and kernels take, by CUDA events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..gpu.device import Span


class EventTrace:
    """Spans between pairs of events; times are those since the trace was opened."""

    def __init__(self, cupy: Any, stream: Any) -> None:
        self._cuda = cupy.cuda
        self._stream = stream
        self._begin = self._mark()
        self._pairs: list[tuple[Any, Any]] = []

    def _mark(self) -> Any:
        event = self._cuda.Event()
        event.record(self._stream)
        return event

    def around(self, work: Callable[[], object]) -> None:
        """Enqueues `work` between two events."""
        before = self._mark()
        work()
        self._pairs.append((before, self._mark()))

    def spans(self) -> Sequence[Span]:
        return [Span(self._since(a), self._since(b)) for a, b in self._pairs]

    def _since(self, event: Any) -> int:
        # in milliseconds, to half a microsecond
        return int(self._cuda.get_elapsed_time(self._begin, event) * 1e6)
