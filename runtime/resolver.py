"""Op resolvers: from the operator codes of a model to registrations."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from ..kernels.api import Registration
from ..kernels.builtins import BUILTINS, CUSTOMS, find_builtin, find_custom
from . import schema

if TYPE_CHECKING:

    class _ByName(enum.EnumMeta):
        def __getattr__(cls, name: str) -> BuiltinOperator: ...

    class BuiltinOperator(enum.IntEnum, metaclass=_ByName):
        """The builtin operators of the schema by name and number: `BuiltinOperator.ADD` is 0."""

else:
    BuiltinOperator = enum.IntEnum(
        "BuiltinOperator", {name: number for number, name in enumerate(schema.BUILTINS)}
    )
_KNOWN = frozenset(schema.BUILTINS)
Op = str | int


def op_key(op: Op, custom: bool | None = None) -> tuple[str, bool]:
    """The name of an operator, and whether it is a custom one.

    `op` is a `BuiltinOperator`, its number, or a name: a builtin's schema name ("CONV_2D") means
    the builtin unless `custom` says otherwise, any other name is a custom op's.
    """
    if isinstance(op, int):
        if custom or not 0 <= op < len(schema.BUILTINS):
            raise ValueError(f"{op!r} is no builtin operator; there are {len(schema.BUILTINS)}")
        return schema.BUILTINS[op], False
    return op, (op not in _KNOWN) if custom is None else custom


class OpResolver(Protocol):
    """Finds the registration of an operator; see `op_key` for `op` and `custom`. None: there is
    none for this version.
    """

    def find_op(
        self, op: Op, version: int = 1, *, custom: bool | None = None
    ) -> Registration | None: ...

    def versions(self, op: Op, *, custom: bool | None = None) -> tuple[int, int] | None:
        """Least and greatest version there is; None where the op is unknown."""
        ...


class MutableOpResolver:
    """A resolver that holds what is put into it; a later registration replaces an earlier one of
    the same op and version.
    """

    def __init__(self) -> None:
        self._ops: dict[tuple[str, bool], list[Registration]] = {}

    def add_builtin(
        self,
        op: Op,
        registration: Registration,
        min_version: int | None = None,
        max_version: int | None = None,
    ) -> None:
        """Takes `registration` for builtin `op`, for its own version range or the given one."""
        name, custom = op_key(op)
        if custom or name == "CUSTOM":
            raise ValueError(
                f"{op!r} is no builtin operator of the schema; use add_custom for a custom op"
            )
        self._add(name, replace(registration, custom=False), False, min_version, max_version)

    def add_custom(
        self,
        op: str,
        registration: Registration,
        min_version: int | None = None,
        max_version: int | None = None,
    ) -> None:
        """Takes `registration` for the custom op of that name."""
        self._add(op, replace(registration, custom=True), True, min_version, max_version)

    def add_all(self, other: MutableOpResolver) -> None:
        """Takes all that `other` holds; what is here of the same op and version is replaced."""
        for (op, custom), registrations in other._ops.items():
            for registration in reversed(registrations):
                self._add(op, registration, custom, *registration.versions)

    def find_op(
        self, op: Op, version: int = 1, *, custom: bool | None = None
    ) -> Registration | None:
        key = op_key(op, custom)
        for registration in self._ops.get(key, ()):
            low, high = registration.versions
            if low <= version <= high:
                return registration
        return self._fallback(*key, version)

    def versions(self, op: Op, *, custom: bool | None = None) -> tuple[int, int] | None:
        return _union(r.versions for r in self._ops.get(op_key(op, custom), ()))

    def _fallback(self, op: str, custom: bool, version: int) -> Registration | None:
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

    `only` limits it to some ops by name (selective registration): the others are unknown and their
    code is never imported.
    """

    def __init__(self, only: Iterable[str] | None = None) -> None:
        super().__init__()
        self._only = None if only is None else frozenset(only)
        unknown = (
            [] if self._only is None else sorted(self._only - BUILTINS.keys() - CUSTOMS.keys())
        )
        if unknown:
            raise ValueError(f"no such op here: {', '.join(unknown)}")

    def add_all(self, other: MutableOpResolver) -> None:
        super().add_all(other)
        if isinstance(other, BuiltinOpResolver) and self._only is not None:
            self._only = None if other._only is None else self._only | other._only

    def versions(self, op: Op, *, custom: bool | None = None) -> tuple[int, int] | None:
        own = self._own(*op_key(op, custom))
        added = super().versions(op, custom=custom)
        return _union(r for r in (added, own.versions if own else None) if r)

    def _fallback(self, op: str, custom: bool, version: int) -> Registration | None:
        own = self._own(op, custom)
        if own is None or not own.versions[0] <= version <= own.versions[1]:
            return None
        return own

    def _own(self, op: str, custom: bool) -> Registration | None:
        if self._only is not None and op not in self._only:
            return None
        return find_custom(op) if custom else find_builtin(op)


class ChainedResolver:
    """Asks one resolver after the other."""

    def __init__(self, *resolvers: OpResolver) -> None:
        self.resolvers = resolvers

    def find_op(
        self, op: Op, version: int = 1, *, custom: bool | None = None
    ) -> Registration | None:
        for resolver in self.resolvers:
            found = resolver.find_op(op, version, custom=custom)
            if found is not None:
                return found
        return None

    def versions(self, op: Op, *, custom: bool | None = None) -> tuple[int, int] | None:
        ranges = (r.versions(op, custom=custom) for r in self.resolvers)
        return _union(r for r in ranges if r)


def _union(ranges: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
    found = list(ranges)
    return (min(r[0] for r in found), max(r[1] for r in found)) if found else None
