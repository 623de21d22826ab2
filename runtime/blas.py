"""numpy's BLAS keeps to one thread while a model runs.

BLAS threads spin while they wait: for each other, for their next call, and beside our own row
blocks. Where the CPUs are busy a product of microseconds then takes milliseconds. So `num_threads`
counts the threads of `threads.Pool` alone, each of which calls BLAS for its own rows.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections.abc import Callable
from typing import Any

_Set = Callable[[int], Any]


class _OneThread:
    """The setting is the process's: who enters first changes it, who leaves last restores it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: list[tuple[_Set, int]] = []

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = [(put, n) for get, put in _libraries() if (n := get()) != 1]
                for put, _ in self._before:
                    put(1)

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside <= 0:  # below 0 in a child that was forked in mid-run
                self._inside = 0
                self._restore()

    def _restore(self) -> None:
        for put, threads in self._before:
            put(threads)

    def forget(self) -> None:
        """After a fork: those who were inside stayed behind, one of them maybe with the lock."""
        self._lock = threading.Lock()
        if self._inside:
            self._inside = 0
            self._restore()


one_thread = _OneThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_thread.forget)


@functools.cache
def _libraries() -> tuple[tuple[Callable[[], int], _Set], ...]:
    """What asks and sets the threads of each BLAS that is loaded by the time a model first runs."""
    from threadpoolctl import ThreadpoolController  # 4 ms, spared to those who only read models

    found = ThreadpoolController().select(user_api="blas").lib_controllers
    return tuple((_getter(library), _setter(library)) for library in found)


def _getter(library: Any) -> Callable[[], int]:
    found: Callable[[], int] = _own_function(library, "get") or library.get_num_threads
    return found


def _setter(library: Any) -> _Set:
    return _own_function(library, "set") or functools.partial(_set, library)


def _own_function(library: Any, verb: str) -> Any | None:
    """OpenBLAS's own, where its threads are the process's: a tenth of the time of threadpoolctl's.

    An invoke of a small model is over in 10 µs.
    """
    if library.internal_api != "openblas" or library.threading_layer == "openmp":
        return None
    for prefix, suffix in itertools.product(("", "scipy_"), ("", "64_", "_64")):
        found = getattr(library.dynlib, f"{prefix}openblas_{verb}_num_threads{suffix}", None)
        if found is not None:
            return found
    return None


def _set(library: Any, threads: int) -> None:
    # newer threadpoolctl heeds only the thread that was first to set, while it lives; here any
    # thread may run a model, and `_OneThread` sees to it that they agree
    release = getattr(library, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)
    library.set_num_threads(threads)
