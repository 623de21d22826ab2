"""Pooling of float32 on CPUs: vectors of channels."""

from __future__ import annotations

from math import ceil

from ._convolution_parts import window_macros
from ._register_tiles import lanes_of, shares
from ._window import Window
from .api import NodeSpec
from .device import Capability, Kernel, Lowered


def lower_float_pool(
    node: NodeSpec, capability: Capability, window: Window, start: str, finish: str
) -> Lowered:
    """`start`: the first value; `finish`: of the combined values `v` and their `count`. For at
    least 2 channels.
    """
    channels = node.input(0).shape[3]
    lanes = lanes_of(capability)
    while lanes > channels:
        lanes //= 2
    blocks = ceil(channels / lanes)
    rows = node.input(0).shape[0] * window.out[0]
    taps = window.kernel[0] * window.kernel[1]
    wanted = shares(capability, float(rows * window.out[1] * blocks * (taps + 8)))
    band = max(1, rows // wanted)
    share = min(blocks, max(1, blocks * ceil(rows / band) // wanted))
    larger = "((v) > (a) ? (v) : (a))"  # what is less, or NaN, leaves it so
    join = larger if node.op == "MAX_POOL_2D" else "((a) + (v))"
    defines = {
        **window_macros(window),
        "START": start,
        "COMBINE(a, v)": "((a) + (v) * (v))" if node.op == "L2_POOL_2D" else join,
        "JOIN(a, v)": join,
        "FINISH(v, count)": f"({finish})",
        "C": channels,
        "VW": lanes,
        "ROWS": rows,
        "BAND": band,
        "SHARE": share,
    }
    grid = (ceil(blocks / share), ceil(rows / band))
    return Lowered([Kernel("pool_f32_cpu", (0,), grid, defines, uses=("fixed",))])
