"""Op resolvers: from the operator codes of a model to registrations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from ..kernels.api import Registration
from ..kernels.builtins import BUILTINS, CUSTOMS, find_builtin, find_custom


class OpResolver(Protocol):
    """Finds the registration of an operator.

    `op` is a builtin's schema name ("CONV_2D") or, with `custom`, a custom op's name. None: there is none for this version.
    """

    def find_op(
        self, op: str, version: int = 1, *, custom: bool = False
    ) -> Registration | None: ...

    def versions(self, op: str, *, custom: bool = False) -> tuple[int, int] | None:
        """Least and greatest version there is; None where the op is unknown."""
        ...


class MutableOpResolver:
    """A resolver that holds what is put into it; a later registration replaces an earlier one of the same op and version."""

    def __init__(self) -> None:
        self._ops: dict[tuple[str, bool], list[Registration]] = {}

    def add_builtin(
        self,
        op: str,
        registration: Registration,
        min_version: int | None = None,
        max_version: int | None = None,
    ) -> None:
        """Takes `registration` for builtin `op`, for its own version range or the given one."""
        if op not in BUILTINS:
            raise ValueError(
                f"{op!r} is no builtin operator of the schema; use add_custom for a custom op"
            )
        self._add(op, registration, False, min_version, max_version)

    def add_custom(
        self,
        op: str,
        registration: Registration,
        min_version: int | None = None,
        max_version: int | None = None,
    ) -> None:
        self._add(op, replace(registration, custom=True), True, min_version, max_version)

    def add_all(self, other: MutableOpResolver) -> None:
        """Takes all that `other` holds; what is here of the same op and version is replaced."""
        for (op, custom), registrations in other._ops.items():
            for registration in reversed(registrations):
                self._add(op, registration, custom, *registration.versions)

    def find_op(self, op: str, version: int = 1, *, custom: bool = False) -> Registration | None:
        for registration in self._ops.get((op, custom), ()):
            low, high = registration.versions
            if low <= version <= high:
                return registration
        return self._fallback(op, version, custom)

    def versions(self, op: str, *, custom: bool = False) -> tuple[int, int] | None:
        ranges = [r.versions for r in self._ops.get((op, custom), ())]
        return (min(r[0] for r in ranges), max(r[1] for r in ranges)) if ranges else None

    def _fallback(self, op: str, version: int, custom: bool) -> Registration | None:
        return None

    def _add(
        self, op: str, registration: Registration, custom: bool, low: int | None, high: int | None
    ) -> None:
        low = registration.versions[0] if low is None else low
        high = registration.versions[1] if high is None else high
        if not 1 <= low <= high:
            raise ValueError(f"versions {low} to {high} of {op}: they start at 1 and do not fall")
        named = replace(registration, name=registration.name or op, versions=(low, high))
        self._ops.setdefault((op, custom), []).insert(0, named)


class BuiltinOpResolver(MutableOpResolver):
    """All ops of this package; what is added replaces them.

    `only` limits it to some ops by name (selective registration): the others are unknown and their code is never imported.
    """

    def __init__(self, only: Iterable[str] | None = None) -> None:
        super().__init__()
        self._only = None if only is None else frozenset(only)
        unknown = (
            [] if self._only is None else sorted(self._only - BUILTINS.keys() - CUSTOMS.keys())
        )
        if unknown:
            raise ValueError(f"no such op here: {', '.join(unknown)}")

    def versions(self, op: str, *, custom: bool = False) -> tuple[int, int] | None:
        added = super().versions(op, custom=custom)
        own = self._own(op, custom)
        ranges = [r for r in (added, own.versions if own else None) if r]
        return (min(r[0] for r in ranges), max(r[1] for r in ranges)) if ranges else None

    def _fallback(self, op: str, version: int, custom: bool) -> Registration | None:
        own = self._own(op, custom)
        if own is None or not own.versions[0] <= version <= own.versions[1]:
            return None
        return own

    def _own(self, op: str, custom: bool) -> Registration | None:
        if self._only is not None and op not in self._only:
            return None
        return find_custom(op) if custom else find_builtin(op)
