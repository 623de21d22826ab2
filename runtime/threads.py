"""A few threads that share the row blocks of one node; numpy lets go of the interpreter lock inside
its loops.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

import numpy as np

Run = Callable[[], object]


def available_threads() -> int:
    """CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Pool:
    """`threads - 1` workers, started when first used; the calling thread does its share."""

    def __init__(self, threads: int) -> None:
        self.threads = max(1, threads)
        self._work: SimpleQueue[tuple[Run, SimpleQueue[BaseException | None]] | None] = (
            SimpleQueue()
        )
        self._workers: list[threading.Thread] = []
        self._start = threading.Lock()
        self._process = os.getpid()

    def run(self, tasks: Sequence[Run]) -> None:
        """Runs all tasks and waits; raises the first error."""
        if self._process != os.getpid():
            self._forget()
        if not self._workers:
            self._begin()
        done: SimpleQueue[BaseException | None] = SimpleQueue()
        for task in tasks[1:]:
            self._work.put((task, done))
        error: BaseException | None = None
        try:
            tasks[0]()
        except BaseException as e:  # the others still write into shared arrays: wait for them first
            error = e
        for _ in tasks[1:]:
            error = done.get() or error
        if error is not None:
            raise error

    def close(self) -> None:
        if self._process != os.getpid():
            self._forget()
        for _ in self._workers:
            self._work.put(None)
        for worker in self._workers:
            worker.join()
        self._workers = []

    def _forget(self) -> None:
        """After a fork: the queue and the list came along, the threads did not."""
        self._work = SimpleQueue()
        self._workers = []
        self._start = threading.Lock()
        self._process = os.getpid()

    def _begin(self) -> None:
        with self._start:
            if self._workers:
                return
            self._workers = [
                threading.Thread(
                    target=_serve, args=(self._work,), daemon=True, name=f"litedelegate-{i}"
                )
                for i in range(1, self.threads)
            ]
            for worker in self._workers:
                worker.start()


def _serve(work: SimpleQueue[tuple[Run, SimpleQueue[BaseException | None]] | None]) -> None:
    np.seterr(all="ignore")  # this thread's own: see LiveSubgraph.invoke
    while (item := work.get()) is not None:
        task, done = item
        try:
            task()
        except BaseException as e:  # handed to the thread that waits
            done.put(e)
        else:
            done.put(None)
        del item, task, done
