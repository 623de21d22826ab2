"""What adds the ops of the shared libraries that are loaded, by the names of their ops."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator

from .resolver import MutableOpResolver

Registerer = Callable[[MutableOpResolver], None]


class Registerers:
    """Libraries by name, held weakly: of several that are loaded the last one counts."""

    def __init__(self) -> None:
        self._found: dict[str, list[weakref.ref[Registerer]]] = {}

    def add(self, name: str, registerer: Registerer) -> None:
        alive = [r for r in self._found.get(name, ()) if r() is not None]
        self._found[name] = [*alive, weakref.ref(registerer)]

    def get(self, name: str) -> Registerer | None:
        alive = [made for r in self._found.get(name, ()) if (made := r()) is not None]
        return alive[-1] if alive else None

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._found if self.get(name) is not None)


NAMED_REGISTERERS = Registerers()
