"""One interpreter, one call at a time."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from types import TracebackType


class Guard:
    """Calls that are whole in themselves wait for their turn; those that are steps of a sequence
    must not meet another thread's.

    A thread may enter again from within: a custom op may read its interpreter.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def whole(self) -> AbstractContextManager[object]:
        return self._lock

    def step(self, call: str) -> AbstractContextManager[None]:
        """RuntimeError on entry, where another thread is inside."""
        return _Step(self._lock, call)


class _Step(AbstractContextManager[None]):
    # a plain class: its entry and exit take a third of a generator's time
    __slots__ = ("_call", "_lock")

    def __init__(self, lock: threading.RLock, call: str) -> None:
        self._lock = lock
        self._call = call

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                f"{self._call}() is called while another thread is inside this interpreter. It is "
                "used from two threads: what one sets the other may read. Use run(), which is "
                "atomic, a lock of your own around the sequence, or a clone() for each thread."
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()
