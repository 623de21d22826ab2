"""One interpreter, one call at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Guard:
    """Calls that are whole in themselves wait for their turn; those that are steps of a sequence
    must not meet another thread's.

    A thread may enter again from within: a custom op may read its interpreter.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()

    @contextmanager
    def whole(self) -> Iterator[None]:
        with self._lock:
            yield

    @contextmanager
    def step(self, call: str) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                f"{call}() is called while another thread is inside this interpreter. It is used "
                "from two threads: "
                "what one sets the other may read. Use run(), which is atomic, a lock of your own "
                "around the whole "
                "sequence, or a clone() for each thread."
            )
        try:
            yield
        finally:
            self._lock.release()
