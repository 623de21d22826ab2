"""Device forms of transposed convolutions: TRANSPOSE_CONV, and MediaPipe's with its bias."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from ._convolution_gpu_lower import transposed
from ._convolution_parts import Parts, claimed, finishing, stored_weights, window_macros
from ._lower import values
from ._register_tiles import lanes_of, shares
from ._tiled_lower import Product, Tiling, rows_of
from ._window import Window
from .api import NodeSpec
from .device import Capability, Kernel, Lowered
from .types import Array, DType

# cycles of a multiplication where no vectors are used
_SLOW = 2.0


@dataclass(frozen=True, slots=True)
class Transposed:
    """A transposed convolution of input number `source`; `window` is that of the convolution whose
    transpose it is, over the output.
    """

    node: NodeSpec
    source: int
    window: Window
    weights: Array  # [units, height, width, channels], real ones
    bias: Array | None
    activation: str = "NONE"

    @property
    def rows(self) -> int:
        """Output pixels."""
        return self.node.outputs[0].size // int(self.weights.shape[0])

    def macros(self) -> dict[str, object]:
        _, high, wide, channels = self.node.input(self.source).shape
        units = self.weights.shape[0]
        return {**window_macros(self.window), "XH": high, "XW": wide, "C": channels, "N": units}


def lower_transposed(
    node: NodeSpec, capability: Capability, source: int, window: Window
) -> Lowered:
    """Of inputs: shape, weights, activation (`source`), bias."""
    plain = replace(node, inputs=[node.input(source), node.input(1), node.optional(3)])
    x, spec = claimed(plain, capability)
    weights = stored_weights(spec)
    units, *_, channels = weights.shape
    if capability.kind == "cpu" and x.dtype.is_float and node.outputs[0].size:
        stored = node.optional(3)
        bias = None if stored is None else values(stored).reshape(-1)
        activation = node.options.fused_activation_function
        t = Transposed(node, source, window, weights, bias, activation)
        return tiled(t, capability)
    if capability.kind == "gpu":
        found = transposed(plain, capability, source, window, weights)
        if found is not None:
            return found
    flat = weights.reshape(units, -1, channels)
    parts = Parts(plain, capability, window, flat, False)
    packed = np.ascontiguousarray(parts.weights.transpose(1, 2, 0))
    pixels = node.outputs[0].size // units
    rows, wide = 1, 1
    if capability.kind == "cpu":
        wanted = shares(capability, _SLOW * pixels * flat.size / max(1, np.prod(window.stride)))
        rows, wide = max(1, ceil(pixels / wanted)), units
    _, high, across, _ = x.shape
    more = {"C": channels, "XH": high, "XW": across, "ZERO": parts.zero, "ROWS": rows, "WIDE": wide}
    grid = (ceil(units / wide), ceil(pixels / rows))
    return parts.kernel("transposed", [source, packed], grid, **more)


def tiled(t: Transposed, capability: Capability) -> Lowered:
    """For float32 and CPUs."""
    whole = tuple(n * k for n, k in zip(t.window.out, t.window.kernel, strict=True))
    if t.window.kernel == t.window.stride and whole == t.window.size:
        return _side_by_side(t, capability)
    return _gathered(t, capability)


def _side_by_side(t: Transposed, capability: Capability) -> Lowered:
    """Kernels that do not overlap: a row of the output is the product of a row of the input and the
    weights of a row of the kernel.
    """
    units, high, wide, channels = t.weights.shape
    (rows, columns), images = t.window.out, t.rows // (t.window.size[0] * t.window.size[1])
    product = Product(rows_of(columns), images * rows * high, channels, wide * units)
    tiling = Tiling.of(product, capability)
    packed = tiling.pack(t.weights.transpose(1, 2, 0, 3).reshape(high, wide * units, channels))
    bias = None if t.bias is None else np.tile(t.bias.astype(np.float32), wide)
    finish = {**finishing(t.activation, lanes_of(capability)), "VECTOR_ROW": wide * units}
    kernel = tiling.kernel(
        (t.source, packed),
        bias,
        finish,
        image=f"(n) / {high} * {columns * channels}",
        weights=f"(n) % {high} * {packed[0].size}",
    )
    return Lowered([kernel])


def _gathered(t: Transposed, capability: Capability) -> Lowered:
    """What each input pixel gives to all outputs that see it, as one product of matrices; then, for
    each output, the sum of these.
    """
    x = t.node.input(t.source)
    units, *kernel, channels = t.weights.shape
    taps, pixels = kernel[0] * kernel[1], x.size // channels
    tiling = Tiling.of(Product(rows_of(pixels), 1, channels, taps * units), capability)
    matrix = t.weights.transpose(1, 2, 0, 3).reshape(taps * units, channels)
    same = {"FINISH(v)": "(v)", "FINISH_VECTOR(v)": "(v)"}
    product = tiling.kernel((t.source, tiling.pack(matrix)), None, same, output=1)
    lanes = lanes_of(capability)
    while lanes > units:
        lanes //= 2
    bias = np.zeros(units, np.float32) if t.bias is None else t.bias.astype(np.float32)
    rows = t.rows // t.window.size[1]
    per_row = t.window.size[1] * ceil(units / lanes) * 8.0
    band = max(1, rows // shares(capability, rows * per_row))
    defines = {
        **t.macros(),
        **finishing(t.activation, lanes),
        "VW": lanes,
        "ROWS": rows,
        "BAND": band,
        "BIAS": "IN1",
    }
    gather = Kernel(
        "gather_taps",
        (len(t.node.inputs), bias),
        (ceil(rows / band),),
        defines,
        ("arithmetic",),
    )
    scratch = ((*x.shape[:3], taps * units), DType.FLOAT32)
    return Lowered([product, gather], scratch=[scratch])
