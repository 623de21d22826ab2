"""One interpreter, one call at a time."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol

from ..kernels.api import OpError


class Asynchronous(Protocol):
    """An invoke that was started, and that nobody has waited for yet."""

    @property
    def inside(self) -> bool:
        """Whether this thread runs it."""
        ...

    def settle(self) -> None: ...


class Guard:
    """Calls that are whole in themselves wait for their turn; those that are steps of a sequence
    must not meet another thread's.

    A call from within another one, by an op of the model itself, may read and nothing else: the
    tensors, memory and bindings of the outer call are in use.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.busy: str | None = None  # the call, not a read, that is inside
        self.pending: Asynchronous | None = None  # an invoke that was started

    def whole(self, call: str) -> AbstractContextManager[None]:
        """Waits for other threads. OpError where this thread is inside already."""
        return _Entry(self, call, wait=True)

    def step(self, call: str) -> AbstractContextManager[None]:
        """RuntimeError on entry where another thread is inside, OpError where this one is."""
        return _Entry(self, call, wait=False)

    def read(self, call: str) -> AbstractContextManager[None]:
        """RuntimeError on entry where another thread is inside; this one may be."""
        return _Read(self, call, wait=False)


class _Entry(AbstractContextManager[None]):
    # a plain class: its entry and exit take a third of a generator's time
    __slots__ = ("_call", "_guard", "_wait")

    def __init__(self, guard: Guard, call: str, *, wait: bool) -> None:
        self._guard = guard
        self._call = call
        self._wait = wait

    def __enter__(self) -> None:
        guard = self._guard
        self._await()
        self._acquire()
        busy = guard.busy if guard.pending is None else "invoke_async"
        if busy is not None:
            guard.lock.release()
            raise OpError(
                f"{self._call}() is called from within {busy}() of the same interpreter, by "
                "one of its own ops: it would change what the outer call works on. An op may read "
                "its interpreter (get_tensor, tensor, details); to run the model it needs a "
                "clone()."
            )
        guard.busy = self._call

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._guard.busy = None
        self._guard.lock.release()

    def _await(self) -> None:
        """An asynchronous invoke that was started comes first."""
        pending = self._guard.pending
        if pending is None or pending.inside:
            return
        if not self._wait:
            raise RuntimeError(
                f"{self._call}() is called while an asynchronous invoke is under way: call wait() "
                "of what invoke_async() gave first. A clone() can be used meanwhile."
            )
        pending.settle()

    def _acquire(self) -> None:
        if not self._guard.lock.acquire(blocking=self._wait):
            raise RuntimeError(
                f"{self._call}() is called while another thread is inside this interpreter. It is "
                "used from two threads: what one sets the other may read. Use run(), which is "
                "atomic, a lock of your own around the sequence, or a clone() for each thread."
            )


class _Read(_Entry):
    __slots__ = ()

    def __enter__(self) -> None:
        self._await()
        self._acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._guard.lock.release()
