"""Whose values the next invoke works on, where several threads call step by step."""

from __future__ import annotations

import warnings
from threading import get_ident


class InterleavedThreadsWarning(RuntimeWarning):
    """A thread goes on with values that another thread has replaced."""


class Turns:
    """Which thread set which input since the last invoke, and who lost a value that way.

    That another thread invokes or reads is no fault: one flow of work may go from thread to thread.
    That it replaces what was set and not yet used hardly ever is meant; the loser is told.
    """

    def __init__(self) -> None:
        self._setter: dict[int, int] = {}  # by tensor
        self._losers: set[int] = set()

    def sets(self, tensor: int) -> None:
        me = get_ident()
        before = self._setter.get(tensor, me)
        self._setter[tensor] = me
        self._losers.discard(me)
        if before != me:
            self._losers.add(before)

    def runs(self, *, own_inputs: bool = False) -> None:
        """An invoke; with `own_inputs` one that sets all inputs itself."""
        if own_inputs:
            self._losers.update(self._setter.values())
            self._losers.discard(get_ident())
        self._setter.clear()

    def goes_on(self, call: str) -> None:
        """A step after setting. Warns, once, the thread whose values are lost."""
        if self._losers and get_ident() in self._losers:
            self._losers.discard(get_ident())
            warnings.warn(
                f"{call}() goes on with inputs that this thread did not set: another thread has "
                "replaced its values before they were used. Use run(), which is atomic, a lock of "
                "your own around the whole sequence, or a clone() for each thread.",
                InterleavedThreadsWarning,
                stacklevel=3,
            )
