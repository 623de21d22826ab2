"""`Interpreter.invoke_async`: an invoke that was started, and what it leaves to its `wait`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .guard import Guard
from .pending import Pending

if TYPE_CHECKING:
    from .subgraph import LiveSubgraph

T = TypeVar("T")


class AsyncRun(Generic[T]):
    """An invoke under way. Its interpreter is busy until `wait`, or a call that waits by itself
    (`run`, `close`), has come back.
    """

    def __init__(
        self,
        guard: Guard,
        subgraph: LiveSubgraph,
        invoke: Callable[[], None],
        result: Callable[[], T],
        keep: Any,
        direct: bool = True,
    ) -> None:
        """To be made with the guard held, and begun without.

        `invoke` is what a plain invoke does; `result` makes what `wait` gives. `keep` must not go
        before it is done: the interpreter. With `direct` the delegate that runs all of the subgraph
        runs it on its own, if it can.
        """
        self._guard = guard
        self._subgraph = subgraph
        self._invoke = invoke
        self._result = result
        self._keep = keep
        self._lock = threading.Lock()
        self._over = False
        self._error: BaseException | None = None
        self._value: T | None = None
        self._finished = threading.Event()
        self._thread: threading.Thread | None = None
        self._pending: Pending | None = subgraph.start() if direct else None
        guard.pending = self

    def begin(self) -> AsyncRun[T]:
        if self._pending is None:
            self._thread = threading.Thread(target=self._work, name="litedelegate invoke_async")
            self._thread.start()
        return self

    @property
    def event(self) -> Any:
        """What other work on the delegate's device can wait for (CUDA: a CuPy event); None where
        there is none, and once `wait` has come back.
        """
        return getattr(self._pending, "event", None)

    def done(self) -> bool:
        """Whether `wait` would come back at once."""
        if self._over:
            return True
        if self._pending is not None:
            return self._pending.done()
        return self._finished.is_set()

    def wait(self) -> T:
        """Blocks until it is done; raises what a plain invoke would have raised.

        Gives the outputs by name where a signature was run. May be called again, and from any
        thread.
        """
        self.settle()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def settle(self) -> None:
        """Waits, and keeps what went wrong for `wait`."""
        with self._lock:
            if self._over:
                return
            if self._thread is not None:
                self._finished.wait()
            try:
                if self._thread is None and self._pending is not None:
                    self._pending.wait()
                if self._error is None:
                    self._value = self._result()
            except KeyboardInterrupt:
                raise  # of the caller's wait: it goes on in this memory, and is to be waited for
            except BaseException as e:
                self._error = e
            self._over = True
            self._guard.pending = None
            self._keep = self._invoke = self._result = self._pending = None  # type: ignore[assignment]

    @property
    def inside(self) -> bool:
        """Whether this is the thread that runs it: an op asks for its interpreter."""
        return threading.current_thread() is self._thread

    def _work(self) -> None:
        graph = self._subgraph.graph
        graph.asynchronous = True
        try:
            self._invoke()
        except BaseException as e:
            self._error = e
        finally:
            graph.asynchronous = False
            self._finished.set()
