"""What the device forms of convolutions share: checks, constants, macros, and the form for GPUs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ._convolution import scaling, weight_values
from ._lower import check, f32, refuse, types, values
from ._quant import float_activation_range
from ._scaling import Scaling, mantissas
from ._window import Window
from .api import NodeSpec, TensorSpec
from .device import Capability, Kernel, Lowered
from .types import Array, DType

_C_TYPES = {DType.FLOAT32: "f32", DType.INT8: "i8", DType.UINT8: "u8"}
# of one pixel: what FULLY_CONNECTED slides over
POINT = Window((1, 1), (1, 1), (1, 1), (1, 1), (0, 0), (1, 1))


Scale = Callable[..., Scaling]


def window_macros(window: Window) -> dict[str, object]:
    """H and W of the input, KH and KW of the kernel, strides, dilations, padding, output."""
    pairs = {
        "H W": window.size,
        "KH KW": window.kernel,
        "SH SW": window.stride,
        "DH DW": window.dilation,
        "PT PL": window.before,
        "OH OW": window.out,
    }
    return {k: n for names, pair in pairs.items() for k, n in zip(names.split(), pair, strict=True)}


def finishing(activation: str, lanes: int) -> dict[str, object]:
    """A fused activation of a float32 value and of a vector of them. NaN stays."""
    low, high = float_activation_range(activation)
    value = vector = "(v)"
    if low > -math.inf:
        vector = f"({vector} < {f32(low)} ? VSPLAT(f32, {lanes}, {f32(low)}) : {vector})"
    if high < math.inf:
        vector = f"({vector} > {f32(high)} ? VSPLAT(f32, {lanes}, {f32(high)}) : {vector})"
    if vector != value:
        value = f"clamp_f32(v, {f32(low)}, {f32(high)})"
    return {"FINISH(v)": value, "FINISH_VECTOR(v)": vector}


def real_products(
    node: NodeSpec, capability: Capability, real: Array, name: str
) -> tuple[list[Array], str, str]:
    """Constants of real multipliers, the function of a number and these, and what holds it: `name`
    in float64, or where the device has none, the same in integers."""
    if capability.fp64:
        return [np.ascontiguousarray(real, np.float64)], name, "fixed64"
    try:
        return [*mantissas(real)], "round_real", "round_real"
    except ValueError as e:
        refuse("QUANT", f"{node.op} on {capability.name}: {e}", "positive scales")


class Parts:
    """What all forms share: weights as [units, taps, depth], constants, macros.

    `fold`: the zero point of the input is taken out with the bias, not at each product.
    """

    def __init__(
        self,
        node: NodeSpec,
        capability: Capability,
        window: Window,
        weights: Array,
        fold: bool,
        scale: Scale = scaling,
    ) -> None:
        x, y = node.input(0), node.outputs[0]
        units = weights.shape[0]
        bias = node.optional(2)
        stored = None if bias is None else values(bias).reshape(-1)
        activation = node.options.fused_activation_function
        self.integer = not x.dtype.is_float
        self.uses: tuple[str, ...] = ("fixed",) if self.integer else ("arithmetic",)
        self.constants: list[Array]
        if self.integer:
            sums = weights.reshape(units, -1).sum(axis=1) if fold else np.zeros(units)
            s = scale(node, x, node.input(1), sums, stored, units)
            if s.wide:
                refuse("QUANT", f"{x.dtype.label} of this scaling", "8 bits")
            if (np.abs(s.offset) >= 1 << 31).any():
                refuse("QUANT", "a bias beyond 32 bits", "smaller ones")
            self.constants = [a.astype(np.int32) for a in (s.offset, s.q, s.shift)]
            product = "multiply_quantized((v) + BIAS[n], BIAS1[n], BIAS2[n])"
            if s.rounded is not None:
                multipliers, name, use = real_products(node, capability, s.rounded, "round_product")
                self.constants[1:] = multipliers
                factors = ", ".join(f"BIAS{i + 1}[n]" for i in range(len(multipliers)))
                product = f"{name}((v) + BIAS[n], {factors})"
                self.uses = ("fixed", use)
            finish = f"clamp_to((i64){product} + {s.zero}, {s.low}, {s.high})"
            weights = weights.astype(np.int8 if np.abs(weights).max(initial=0) < 128 else np.int16)
        else:
            low, high = float_activation_range(activation)
            constant = np.zeros(units, np.float32) if stored is None else stored
            self.constants = [constant.astype(np.float32)]
            finish = "(v) + BIAS[n]"
            if activation != "NONE":
                finish = f"clamp_f32({finish}, {f32(low)}, {f32(high)})"
        self.place = "(m)"  # the pixel of the output that row m is
        self.weights = weights
        self.finish = finish
        self.zero = x.zero_point if self.integer else 0
        width = {"int8": "i8", "int16": "i16", "float32": "f32"}[str(weights.dtype)]
        out = y.size // max(units, 1)
        self.defines: dict[str, object] = {
            "M": out,
            "N": units,
            "XT": _C_TYPES[x.dtype],
            "WT": width,
            "ACC": "i32" if self.integer else "f32",
            "INTEGER": int(self.integer),
            **window_macros(window),
        }

    def kernel(
        self,
        file: str,
        reads: list[int | Array],
        grid: tuple[int, ...],
        group: tuple[int, ...] | None = None,
        **more: object,
    ) -> Lowered:
        first = len(reads)
        names = ("BIAS", "BIAS1", "BIAS2")
        places = {n: f"IN{first + i}" for i, n in enumerate(names[: len(self.constants)])}
        finish = self.finish
        for name in reversed(list(places)):
            finish = finish.replace(f"{name}[", f"{places[name]}[")
        defines = {**self.defines, **more, "FINISH(n, v)": f"({finish})"}
        reads += self.constants
        step = Kernel(file, tuple(reads), grid, defines, uses=self.uses, group=group)
        return Lowered([step])


def claimed(node: NodeSpec, capability: Capability) -> tuple[TensorSpec, TensorSpec]:
    check(node, capability)
    x, weights = node.input(0), node.input(1)
    types(node, x, *_C_TYPES)
    types(node, node.outputs[0], x.dtype)
    if x.dtype.is_float and not weights.dtype.is_float:
        refuse("QUANT", f"{weights.dtype.label} weights for floats", "float32 weights")
    types(node, weights, *((x.dtype,) if x.dtype.is_float else (DType.INT8, DType.UINT8)))
    return x, weights


def stored_weights(weights: TensorSpec) -> Array:
    """Weights less their zero point."""
    raw = values(weights)
    return raw if weights.dtype.is_float else weight_values(weights, raw)


def direct(
    node: NodeSpec,
    capability: Capability,
    window: Window,
    weights: Array,
    channels: int,
    scale: Scale = scaling,
) -> Lowered:
    """One work-item for each output, of weights [units, taps, depth]. Takes groups."""
    parts = Parts(node, capability, window, weights, False, scale)
    packed = np.ascontiguousarray(parts.weights.transpose(1, 2, 0))
    grid = (weights.shape[0], int(str(parts.defines["M"])))
    more = {"C": channels, "GROUPS": channels // weights.shape[2], "ZERO": parts.zero}
    return parts.kernel("conv_direct", [0, packed], grid, **more)


def direct_depthwise(
    node: NodeSpec, capability: Capability, window: Window, weights: Array
) -> Lowered:
    """One work-item for each output, of weights [units, taps]."""
    units, channels = weights.shape[0], node.input(0).shape[3]
    parts = Parts(node, capability, window, weights[:, :, None], False)
    packed = np.ascontiguousarray(parts.weights[:, :, 0].T)
    more = {"C": channels, "MULTIPLIER": units // channels, "ZERO": parts.zero}
    grid = (units, int(str(parts.defines["M"])))
    return parts.kernel("depthwise", [0, packed], grid, **more, VW=1, PIXELS=1)
