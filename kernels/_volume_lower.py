"""Device forms of convolutions over depth, height and width, and of the transposed ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._lower import activated, check, lanes_for, share_for, types, values
from .api import NodeSpec, TensorSpec
from .device import Capability, Kernel, Lowered
from .types import Array, DType, bfloat16_to_float32

_NAMES = "DHW"


def axis_macros(**triples: Sequence[int]) -> dict[str, object]:
    """S=(1, 2, 3) as SD 1, SH 2, SW 3; `size` and `out` as D, H, W and OD, OH, OW."""
    prefixes = {"size": "", "out": "O"}
    return {
        prefixes.get(name, name) + axis: int(v)
        for name, triple in triples.items()
        for axis, v in zip(_NAMES, triple, strict=True)
    }


def real_values(spec: TensorSpec) -> Array:
    """A constant of any float type, as float32."""
    stored = values(spec)
    real = bfloat16_to_float32(stored) if spec.dtype is DType.BFLOAT16 else stored
    return np.asarray(real, np.float32)


def lower_volume(
    node: NodeSpec,
    capability: Capability,
    x: int,
    weights: Array,
    bias: TensorSpec | None,
    activation: str,
    macros: dict[str, object],
    transposed: bool,
) -> Lowered:
    """`weights`: float32 [taps, channels, units]. `macros`: sizes, from `axis_macros`."""
    check(node, capability)
    spec, y = node.input(x), node.outputs[0]
    types(node, spec, DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
    units = weights.shape[2]
    if not y.size:
        return Lowered([])
    width = min(lanes_for(capability, units), capability.vector_width)
    vectors = next(v for v in (4, 2, 1) if units % (v * width) == 0)
    if capability.kind == "gpu":
        vectors = 1
    pixels = y.size // units
    each = share_for(capability, pixels, 1)
    reads: list[int | Array] = [x, np.ascontiguousarray(weights, np.float32)]
    finish = "(v)"
    if bias is not None:
        reads.append(real_values(bias).reshape(-1))
        finish = "((v) + LOAD2(n))"
    defines: dict[str, Any] = {
        "ACC": "f32",
        "VW": width,
        "NV": vectors,
        "PIXELS": each,
        "M": pixels,
        "N": units,
        "C": weights.shape[1],
        "TRANSPOSED": int(transposed),
        "FINISH(n, v)": activated(finish, activation, y),
        **macros,
    }
    grid = (units // (vectors * width), -(-pixels // each))
    return Lowered([Kernel("conv_nd", tuple(reads), grid, defines, ("arithmetic",))])
