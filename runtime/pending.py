"""Work that was started and is waited for: what asynchronous execution is made of."""

from __future__ import annotations

from typing import Protocol


class Pending(Protocol):
    """What `delegate.Kernel.invoke_async` gives: work that was started.

    All calls come one at a time, but not always from the thread that started it.
    """

    def wait(self) -> None:
        """Blocks until all is done and the outputs are where `invoke` would have left them.

        Raises what `invoke` would have raised, and is called once.
        """
        ...

    def done(self) -> bool:
        """Whether `wait` would come back at once. Never blocks, never raises."""
        ...
