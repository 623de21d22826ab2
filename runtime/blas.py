"""numpy's BLAS keeps to one thread while a model runs.

BLAS threads spin while they wait: for each other, for their next call, and beside our own row
blocks. Where the CPUs are busy a product of microseconds then takes milliseconds. So `num_threads`
counts the threads of `threads.Pool` alone, each of which calls BLAS for its own rows.
"""

from __future__ import annotations

import functools
import os
import threading
from typing import Any


class _OneThread:
    """The setting is the process's: who enters first changes it, who leaves last restores it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: list[tuple[Any, int]] = []

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = [(library, library.get_num_threads()) for library in _libraries()]
                for library, _ in self._before:
                    _set(library, 1)

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside <= 0:  # below 0 in a child that was forked in mid-run
                self._inside = 0
                for library, threads in self._before:
                    _set(library, threads)

    def forget(self) -> None:
        """After a fork: those who were inside stayed behind, one of them maybe with the lock."""
        self._lock = threading.Lock()
        if self._inside:
            self._inside = 0
            for library, threads in self._before:
                _set(library, threads)


one_thread = _OneThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_thread.forget)


def _set(library: Any, threads: int) -> None:
    # newer threadpoolctl heeds only the thread that was first to set, while it lives; here any
    # thread may run a model, and `_OneThread` sees to it that they agree
    release = getattr(library, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)
    library.set_num_threads(threads)


@functools.cache
def _libraries() -> tuple[Any, ...]:
    """The BLAS libraries that are loaded, by the time a model first runs."""
    from threadpoolctl import ThreadpoolController  # 4 ms, spared to those who only read models

    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)
