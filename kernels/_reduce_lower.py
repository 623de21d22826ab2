"""Device forms of the reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from ._convolution_parts import window_macros
from ._lower import Lower, check, f32, indices, literal
from ._quant import quantize_multiplier
from ._reduction import GREATEST_BFLOAT16, SMALL_INTEGERS, axes_of, mean_multiplier, real_multiplier
from ._reduction_lower import lower_reduction, sum_type
from ._register_tiles import shares
from ._shape import size_of
from ._window import Window
from .api import NodeSpec, TensorSpec
from .device import Capability, Kernel, Lowered
from .types import DType

_BYTES = {DType.INT8: "i8", DType.UINT8: "u8"}
# bytes beyond which a single row is worth several cores
_MOST_ALONE = 1 << 19


@dataclass(frozen=True, slots=True)
class _Beside:
    """Sums of `count` bytes each for `channels` neighbours, in `rows` rows: as a pool has them."""

    rows: int
    count: int
    channels: int

    @staticmethod
    def of(x: TensorSpec, axes: Sequence[int], capability: Capability) -> _Beside | None:
        """None where a CPU does it in another way."""
        if capability.kind != "cpu" or x.dtype not in _BYTES or not axes or not x.size:
            return None
        first, last = axes[0], axes[-1] + 1
        shape = x.shape
        found = _Beside(size_of(shape[:first]), size_of(shape[first:last]), size_of(shape[last:]))
        few = found.rows < capability.compute_units and x.size > _MOST_ALONE
        together = len(axes) == last - first and found.channels >= 16
        return found if together and not few else None

    def kernel(self, x: TensorSpec, finish: str, capability: Capability) -> Lowered:
        share = ceil(self.rows / shares(capability, x.size / 16))
        window = Window((self.count, 1), (self.count, 1), (1, 1), (1, 1), (0, 0), (1, 1))
        defines: dict[str, object] = {
            **window_macros(window),
            "XT": _BYTES[x.dtype],
            "MAXIMUM": 0,
            "FINISH(v, count, inverse)": finish,
            "C": self.channels,
            "M": self.rows,
            "ROWS": share,
        }
        grid = (ceil(self.rows / share),)
        return Lowered([Kernel("pool_i8_cpu", (0,), grid, defines, uses=("int8_cpu",))])


def lower_sum(node: NodeSpec, capability: Capability) -> Lowered:
    """SUM and MEAN."""
    check(node, capability)
    x, y = node.input(0), node.outputs[0]
    axes = axes_of(node, indices(node.input(1)), x.rank)
    count = size_of([x.shape[i] for i in axes])
    mean, acc, finish = node.op == "MEAN", sum_type(x.dtype), "(v)"
    if x.dtype in SMALL_INTEGERS and count:
        q, shift = mean_multiplier(node, count) if mean else real_multiplier(node)
        offset = int(np.int64(x.zero_point * count).astype(np.int32))
        stored = f"multiply_quantized((v) - {offset}, {q}, {shift})"
        low, high = y.dtype.range()
        beside = _Beside.of(x, axes, capability)
        if beside is not None and shift <= 0:
            right = f"VSPLAT(i32, 16, {-shift})"
            stored = f"requantize_16(v - {offset}, VSPLAT(i32, 16, {q}), {right})"
            return beside.kernel(
                x, f"clamp_16({stored} + {y.zero_point}, {low}, {high})", capability
            )
        finish = f"clamp_to((i64){stored} + {y.zero_point}, {low}, {high})"
    elif mean and x.dtype.is_float:
        finish = f"(v) / ({acc}){count}"
    elif mean:
        acc = "u64" if x.dtype.name.startswith("U") else "i64"
        finish = f"(v) / ({acc}){count}"
    nothing = "0"
    if mean and x.dtype.is_float:
        nothing = f32(math.nan)
    return lower_reduction(node, capability, axes, "0", "(a) + (v)", finish, acc, nothing)


def lower_logical(sign: str, start: str) -> Lower:
    def lower(node: NodeSpec, capability: Capability) -> Lowered:
        check(node, capability)
        axes = axes_of(node, indices(node.input(1)), node.input(0).rank)
        return lower_reduction(node, capability, axes, start, f"(a) {sign} (v)")

    return lower


def lower_prod(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x = node.input(0)
    axes = axes_of(node, indices(node.input(1)), x.rank)
    if x.quant is not None and x.dtype in SMALL_INTEGERS:
        return _lower_quantized_prod(node, capability, axes)
    kind = sum_type(x.dtype)
    wrapping = {"i32": "u32", "i64": "u64"}.get(kind, kind)
    combine = "(a) && (v)" if x.dtype is DType.BOOL else "(a) * (v)"
    return lower_reduction(node, capability, axes, "1", combine, acc=wrapping)


def _lower_quantized_prod(node: NodeSpec, capability: Capability, axes: Sequence[int]) -> Lowered:
    """As `_quantized_prod`: the first term is not rescaled, which a sum of 0 stands for."""
    x, y = node.input(0), node.outputs[0]
    low, high = y.dtype.range()
    count = size_of([x.shape[i] for i in axes])
    if not count:
        return lower_reduction(node, capability, axes, "0", "(a)")
    q, shift = quantize_multiplier(x.scale / float(np.power(y.scale, 1.0 / count)))

    def rescaled(text: str) -> str:
        return f"(i64)(i32)multiply_quantized_wide({text}, {q}, {shift})"

    term = f"((i64)(v) - {x.zero_point})"
    combine = f"k == 0 ? {term} : {rescaled(f'(a) * {term}')}"
    finish = f"clamp_to({rescaled('(v)')} + {y.zero_point}, {low}, {high})"
    return lower_reduction(node, capability, axes, "0", combine, finish, "i64", ordered=True)


def lower_extreme(largest: bool) -> Lower:
    def lower(node: NodeSpec, capability: Capability) -> Lowered:
        check(node, capability)
        x = node.input(0)
        axes = axes_of(node, indices(node.input(1)), x.rank)
        sign = ">" if largest else "<"
        if x.dtype.is_float and len(axes) == x.rank and x.size:
            # a NaN that comes first stays
            first = "LOAD0(base + j)"
            finish = "LOAD1(0) != LOAD1(0) ? LOAD1(0) : (v)"
            combine = "F_MAX(a, v)" if largest else "F_MIN(a, v)"
            return lower_reduction(node, capability, axes, first, combine, finish)
        if x.dtype.is_float:
            most = GREATEST_BFLOAT16
            if x.dtype is not DType.BFLOAT16:
                most = float(np.finfo(x.dtype.numpy).max)
            start = literal(-most if largest else most, x.dtype)
            combine = "F_MAX(a, v)" if largest else "F_MIN(a, v)"
            return lower_reduction(node, capability, axes, start, combine)
        low, high = (0, 1) if x.dtype is DType.BOOL else x.dtype.range()
        start = literal(low if largest else high, x.dtype)
        return lower_reduction(node, capability, axes, start, f"(a) {sign} (v) ? (a) : (v)")

    return lower
