"""Delegates by name."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from .delegate import Delegate
from .external import load_delegate

ENTRY_POINTS = "litedelegate.delegates"
AUTO = ("cuda", "opencl")  # what "auto" tries, in this order


@dataclass
class Found:
    """The delegates of an interpreter, in order."""

    delegates: list[Delegate] = field(default_factory=list)
    owned: list[Delegate] = field(default_factory=list)  # made here from a name: to be freed
    missing: dict[str, str] = field(default_factory=dict)  # name -> why it could not be made


def check_delegates(
    delegates: Sequence[Any] | None, on_unavailable: str | None = None
) -> tuple[Any, ...]:
    """The list as it was given, when it holds nothing but names and delegates."""
    if on_unavailable not in (None, "error", "fallback"):
        raise ValueError(f'on_unavailable is "error" or "fallback", not {on_unavailable!r}')
    if delegates is None:
        return ()
    if isinstance(delegates, str) or not isinstance(delegates, Sequence):
        raise TypeError(f"delegates is a list of names or delegates, not {delegates!r}")
    for delegate in delegates:
        check_delegate(delegate)
    return tuple(delegates)


def check_delegate(delegate: Any) -> None:
    if not isinstance(delegate, str | Delegate):
        raise TypeError(
            f"a delegate is a name or a `Delegate`, not {delegate!r} ({type(delegate).__name__})"
        )


def find_delegates(
    delegates: Sequence[str | Delegate], on_unavailable: str | None, nodes: str = ""
) -> Found:
    """Makes the delegates that are given by name. `nodes`: what they are for, in words.

    A name is that of an entry point in the group `litedelegate.delegates`, "module:attribute", the
    path of a shared library (`load_delegate`), or "auto": all of cuda and opencl that are there.
    ValueError for one that cannot be made, with "fallback" a warning; for "auto" nothing, with
    "error" ValueError where none of them is there.
    """
    found = Found()
    for wanted in delegates:
        if isinstance(wanted, Delegate):
            found.delegates.append(wanted)
        elif wanted == "auto":
            for name in AUTO:
                _add(found, name, "fallback")
            if on_unavailable == "error" and found.missing.keys() >= set(AUTO):
                raise ValueError("\n".join(found.missing[name] for name in AUTO))
        else:
            _add(found, wanted, on_unavailable or "error", nodes or "the model")
    return found


def _add(found: Found, name: str, on_unavailable: str, nodes: str = "") -> None:
    """`nodes`: what the warning says is left to others; without, there is none."""
    try:
        delegate = make_delegate(name)
    except ValueError as e:
        if on_unavailable == "error":
            raise
        found.missing[name] = str(e)
        if nodes:
            text = f"{e}\nWhat {name} would have run of {nodes} is left to others."
            warnings.warn(text, stacklevel=6)
        return
    found.delegates.append(delegate)
    found.owned.append(delegate)


def make_delegate(name: str) -> Delegate:
    """ValueError with the cause where there is no such delegate, or where it cannot be made."""
    module, colon, attribute = name.partition(":")
    try:
        if re.search(r"\.(so|dylib|dll)(\.|$)", name):
            factory: Any = partial(load_delegate, name)
        elif colon:
            factory = import_module(module)
            for part in attribute.split("."):
                factory = getattr(factory, part)
        else:
            installed = {e.name: e for e in entry_points(group=ENTRY_POINTS)}
            if name not in installed:
                raise ValueError(
                    f"no delegate named {name!r} is installed: the entry-point group "
                    f"{ENTRY_POINTS!r} has {', '.join(sorted(installed)) or 'none'}. "
                    "delegates=[] runs on numpy."
                )
            factory = installed[name].load()
        made = factory()
    except ValueError:
        raise
    except Exception as e:
        raise ValueError(f"the delegate {name!r} cannot be made: {type(e).__name__}: {e}") from e
    if not isinstance(made, Delegate):
        raise ValueError(f"the delegate {name!r} made {made!r}, which is no `Delegate`")
    return made
