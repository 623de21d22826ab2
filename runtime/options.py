"""Options of delegates: what is none of those taken is refused, not read as true."""

from __future__ import annotations

from typing import Any

import numpy as np


def flag(name: str, value: Any) -> bool:
    """TypeError for anything but True and False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is True or False, not {value!r}")
    return bool(value)


def whole(name: str, value: Any) -> int:
    """TypeError for what is no whole number."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is a whole number, not {value!r}")
    return int(value)


def device_choice(value: Any) -> str | int | None:
    """TypeError for what chooses no device."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"device is a number or a part of a name, not {value!r}")
    return int(value)
