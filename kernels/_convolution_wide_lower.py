"""Device forms of convolutions and FULLY_CONNECTED on int16, and of floats by integer weights.

One work-item for each output, in the bodies that GPUs are given for other types too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ._convolution import hybrid_values, scaling, weight_scales, weight_values
from ._convolution_parts import real_products, window_macros
from ._lower import activated, check, refuse, types, values
from ._scaling import Scaling
from ._window import Window
from .api import NodeSpec
from .device import Capability, Kernel, Lowered, Map, Read, Step
from .types import Array, DType

Scale = Callable[..., Scaling]


def is_wide(node: NodeSpec) -> bool:
    """Whether the forms of this module are the node's: int16, or float32 by integers."""
    x, weights = node.input(0).dtype, node.input(1).dtype
    return x is DType.INT16 or (x is DType.FLOAT32 and not weights.is_float)


def lower_wide(
    node: NodeSpec,
    capability: Capability,
    window: Window,
    channels: int,
    asymmetric: bool = False,
    scale: Scale = scaling,
    depthwise: bool = False,
) -> Lowered:
    """Of weights [units, …, depth], or [1, height, width, units] of a depthwise convolution, and an
    input of `channels`.

    `asymmetric`: floats are quantised with a zero point.
    """
    check(node, capability)
    x, spec = node.input(0), node.input(1)
    types(node, node.outputs[0], x.dtype)
    stored = values(spec)
    hybrid = x.dtype is DType.FLOAT32
    weights = hybrid_values(stored) if hybrid else weight_values(spec, stored)
    units = weights.shape[-1] if depthwise else weights.shape[0]
    if depthwise:
        packed: Array = weights.reshape(-1, units)
    else:
        packed = weights.reshape(units, -1, weights.shape[-1]).transpose(1, 2, 0)
    small = weights.min(initial=0) >= -128 and weights.max(initial=0) < 128
    packed = np.ascontiguousarray(packed, np.int8 if small else np.int16)
    form = _Form(node, window, packed, channels)
    return form.hybrid(capability, asymmetric) if hybrid else form.integer(capability, scale)


class _Form:
    def __init__(self, node: NodeSpec, window: Window, packed: Array, channels: int) -> None:
        self._node, self._packed = node, packed
        units = packed.shape[-1]
        rows = node.outputs[0].size // max(units, 1)
        self._units, self._pixels = units, window.out[0] * window.out[1]
        self._images = rows // max(self._pixels, 1)
        self._bias = node.optional(2)
        self._depthwise = packed.ndim == 2
        self._defines: dict[str, object] = {
            **window_macros(window),
            "M": rows,
            "N": units,
            "C": channels,
            "XT": "i16",
            "WT": "i8" if packed.dtype == np.int8 else "i16",
            "INTEGER": 1,
            "ZERO": 0,
        }
        if self._depthwise:
            self._defines.update(MULTIPLIER=units // channels, VW=1, PIXELS=1)
        else:
            self._defines["GROUPS"] = channels // packed.shape[1]

    def integer(self, capability: Capability, scale: Scale) -> Lowered:
        """Sums of 64 bits, which products of 24 need."""
        node, units = self._node, self._units
        stored = None if self._bias is None else values(self._bias)
        s: Scaling = scale(node, node.input(0), node.input(1), np.zeros(units), stored, units)
        constants = [s.offset.astype(np.int64)]
        uses: tuple[str, ...] = ("fixed",)
        if s.rounded is not None:
            real, name, use = real_products(node, capability, s.rounded, "round_product_wide")
            constants += real
            uses = ("fixed", use)
        else:
            constants += [s.q.astype(np.int32), s.shift.astype(np.int32)]
            name = "multiply_quantized_wide" if s.wide else "multiply_quantized"
        factors = "".join(f", IN{i}[n]" for i in range(3, 2 + len(constants)))
        product = f"{name}((v) + IN2[n]{factors})"
        finish = f"clamp_to((i64){product} + {s.zero}, {s.low}, {s.high})"
        return Lowered([self._kernel(0, [*constants], finish, "i64", uses)])

    def hybrid(self, capability: Capability, asymmetric: bool) -> Lowered:
        """Each row of x, an image or what FULLY_CONNECTED multiplies, gets a scale of its own."""
        node = self._node
        x, spec = node.input(0), node.input(1)
        if spec.quant is not None and spec.quant.block_size:
            refuse("QUANT", f"{spec.name!r} with scales for blocks", "one, or one for each unit")
        rows = self._images
        depth = x.size // max(rows, 1)
        first = len(node.inputs)  # scratch: scale, inverse and zero point of each row; integers
        steps: list[Step] = []
        defines = {"ROWS": rows, "DEPTH": depth, "ASYMMETRIC": int(asymmetric)}
        steps.append(Kernel("hybrid_rows", (0,), (rows,), defines, ("fixed",), output=1))
        inverse, zero = (Read(first, strides=(3, 0), offset=i) for i in (1, 2))
        reads = (Read(0, strides=(depth, 1)), inverse, zero)
        text = "hybrid_value($0, $1, $2)"
        steps.append(Map(text, reads, uses=("fixed",), output=2, shape=(rows, depth)))
        scales = np.broadcast_to(weight_scales(spec), self._units).astype(np.float32)
        constants: list[int | Array] = [first, scales]
        row = f"m / {self._pixels}"
        # the scales first: a sum near the largest float must not overflow on one of them alone
        finish = f"(f32)(v) * (IN2[3 * ({row})] * IN3[n])"
        if self._bias is not None:
            constants.append(values(self._bias).reshape(-1).astype(np.float32))
            finish += " + IN4[n]"
        activation = node.options.fused_activation_function
        if activation == "TANH":
            finish = f"F_TANH({finish})"
        else:
            finish = activated(finish, activation, node.outputs[0])
        steps.append(self._kernel(first + 1, constants, finish, "i32", ("arithmetic",)))
        shapes = [((rows, 3), DType.FLOAT32), ((rows, depth), DType.INT16)]
        return Lowered(steps, scratch=shapes)

    def _kernel(
        self, x: int, more: list[int | Array], finish: str, sums: str, uses: tuple[str, ...]
    ) -> Kernel:
        defines = {**self._defines, "ACC": sums, "FINISH(n, v)": f"({finish})"}
        file = "depthwise" if self._depthwise else "conv_direct"
        grid = (self._units, int(str(self._defines["M"])))
        return Kernel(file, (x, self._packed, *more), grid, defines, uses)
