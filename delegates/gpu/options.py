"""Options of delegates: what is none of those taken is refused, not read as true."""

from __future__ import annotations

from typing import Any

import numpy as np


def flag(name: str, value: Any) -> bool:
    """TypeError for anything but True and False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is True or False, not {value!r}")
    return bool(value)
