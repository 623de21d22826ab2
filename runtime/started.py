"""An invoke that is one kernel of a delegate, between its start and its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..kernels.api import OpError
from .pending import Pending
from .plan import Placed
from .state import State

if TYPE_CHECKING:
    from .delegation import Delegation
    from .subgraph import LiveSubgraph


class Started:
    """Implements `Pending`; made by `Delegation.start`."""

    def __init__(
        self,
        delegation: Delegation,
        subgraph: LiveSubgraph,
        placed: Placed,
        pending: Pending,
        state: State,
    ) -> None:
        self._delegation = delegation
        self._subgraph = subgraph
        self._placed = placed
        self._pending = pending
        self._state = state
        self._waited = False

    @property
    def event(self) -> Any:
        return getattr(self._pending, "event", None)

    def done(self) -> bool:
        return self._pending.done()

    def wait(self) -> None:
        """After a fault of the delegate the invoke is run again without it, as any other is."""
        self._waited = True
        try:
            self._pending.wait()
        except OpError as e:  # the values' fault
            self._subgraph.fail(self._placed.node, "invoke", e)
        except Exception as e:
            if self._delegation.rules.strict:
                self._subgraph.fail(self._placed.node, "invoke", e)
            self._delegation.recover(self._placed.delegate, e, self._state)
            self._subgraph.invoke()
            return
        self._delegation.settle_handles(self._subgraph)

    def abandon(self, report: Callable[[str], None]) -> None:
        """Nobody will wait any more: the kernel must not be freed while it is at work."""
        if self._waited:
            return
        self._waited = True
        try:
            self._pending.wait()
        except Exception as e:
            report(f"an asynchronous invoke that nobody waited for failed: {e}")
