"""What the table of functions that C operators call is put together from."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ._call import note

F = TypeVar("F", bound=Callable[..., Any])

entries: list[tuple[str, Any, Callable[..., Any]]] = []


def entry(result: Any, *arguments: Any, failed: int | None = 1) -> Callable[[F], F]:
    """The next entry of the table, which gives `failed` where it raises."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def guarded(*args: Any) -> Any:
            try:
                return function(*args)
            except BaseException as e:
                note(e)
                return failed

        kind = ctypes.CFUNCTYPE(result, *arguments)
        entries.append((function.__name__, kind, guarded))
        return function

    return decorate
