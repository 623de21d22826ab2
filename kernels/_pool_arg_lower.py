"""The device form of pooling that says where the largest values are."""

from __future__ import annotations

import numpy as np

from ._lower import check, f32, share_for
from ._window import Window
from .api import NodeSpec
from .device import Capability, Kernel, Lowered

_LEAST, _MOST = float(np.finfo(np.float32).min), float(np.finfo(np.float32).max)


def lower_pool_arg(
    node: NodeSpec,
    capability: Capability,
    window: Window,
    kind: str,
    first: str,
    place: str,
    low: float = _LEAST,
    high: float = _MOST,
) -> Lowered:
    """Values to output 0, within `low` and `high`, and places to output 1.

    `kind`: C type of a place. `first`: that of channel `c` where no value is above the least
    number. `place`: of position (`y`, `x`), tap (`ky`, `kx`), channel `c`.
    """
    check(node, capability)
    x, y = node.input(0), node.outputs[0]
    if not y.size:
        return Lowered([])
    each = share_for(capability, y.size)
    defines: dict[str, object] = {
        "EACH": each,
        "SIZE": y.size,
        "C": x.shape[3],
        "KIND": kind,
        "LEAST": f32(_LEAST),
        "LOW": f32(low),
        "HIGH": f32(high),
        "FIRST(c)": first,
        "PLACE(y, x, ky, kx, c)": place,
    }
    for names, pair in (
        ("HW", window.size),
        (("KH", "KW"), window.kernel),
        (("SH", "SW"), window.stride),
        (("PH", "PW"), window.before),
        (("OH", "OW"), window.out),
    ):
        defines |= dict(zip(names, pair, strict=True))
    grid = (-(-y.size // each),)
    return Lowered(
        [Kernel("pool_arg", (0,), grid, {**defines, "PLACES": k}, output=k) for k in (0, 1)]
    )
