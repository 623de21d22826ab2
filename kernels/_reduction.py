"""What reductions on numpy and on devices share: axes, and the multipliers of quantised sums."""

from __future__ import annotations

from ._quant import quantize_multiplier
from ._shape import axis_of
from .api import Binding, NodeSpec
from .types import DType

GREATEST_BFLOAT16 = 3.3895313892515355e38
SMALL_INTEGERS = (DType.INT8, DType.UINT8, DType.INT16)


def axes_of(node: NodeSpec | Binding, values: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Sorted, each once. A scalar has nothing to reduce, whatever the axes."""
    return tuple(sorted({axis_of(node, v, rank) for v in values})) if rank else ()


def real_multiplier(b: Binding | NodeSpec) -> tuple[int, int]:
    """Input scale over output scale; 1 where they have none."""
    x, y = b.input(0).scale, b.outputs[0].scale
    return quantize_multiplier(x / y if x and y else 1.0)


def mean_multiplier(b: Binding | NodeSpec, count: int) -> tuple[int, int]:
    """`real_multiplier` over `count`."""
    multiplier, shift = real_multiplier(b)
    # scaled up so that few bits are lost
    up = min(count.bit_length() - 1, 32, 31 + shift)
    return (multiplier << up) // count, shift - up
