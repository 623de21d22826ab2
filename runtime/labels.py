"""What reports call the delegates of an interpreter."""

from __future__ import annotations

from collections.abc import Collection

from .delegate import Delegate


class Labels:
    """A delegate's name, and "name#2" … where there are more of that name: each has refusals and
    failures of its own. What a failure was reported under is not given again.
    """

    def __init__(self) -> None:
        self._of: dict[int, str] = {}  # by id: of delegates in use
        self._taken: set[str] = set()

    def add(self, delegate: Delegate, besides: Collection[str]) -> None:
        """Labels a delegate, which may have one already; `besides`: labels of what is missing."""
        if id(delegate) in self._of:
            return
        taken = {*self._taken, *besides}
        label, number = delegate.name, 1
        while label in taken:
            number += 1
            label = f"{delegate.name}#{number}"
        self._of[id(delegate)] = label
        self._taken.add(label)

    def of(self, delegate: Delegate) -> str:
        return self._of[id(delegate)]

    def drop(self, delegate: Delegate, *, again: bool) -> None:
        """The delegate is not used any more; `again`: its label may be another one's."""
        label = self._of.pop(id(delegate))
        if again:
            self._taken.discard(label)
