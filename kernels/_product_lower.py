"""The device form of BATCH_MATMUL."""

from __future__ import annotations

from math import ceil, prod

import numpy as np

from ._lower import check, refuse, types
from ._matrix_unit import halves_do
from ._product_float_lower import Operand, lower_float_product
from ._quant import quantize_multiplier
from ._register_tiles import shares
from .api import NodeSpec
from .device import Capability, Kernel, Lowered
from .types import DType

_FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64)
_WHOLE = (DType.INT8, DType.INT16, DType.INT32, DType.INT64)
# a work-item of cycles for each multiplication where no vectors are used
_SLOW = 2.0
# of a GPU's tiles: rows and columns, what a work-item makes of them, how deep
_TILE, _EACH, _DEEP = 32, 4, 16
_MOST_MATRICES = 65535  # blocks along CUDA's third dimension
_COMPUTED = {DType.FLOAT64: "f64", DType.INT64: "i64"} | dict.fromkeys(_FLOATS[:3], "f32")
_COMPUTED |= dict.fromkeys(_WHOLE[:3], "i32")


def lower_batch_matmul(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, y, out = node.input(0), node.input(1), node.outputs[0]
    types(node, x, *_FLOATS, *_WHOLE)
    if x.dtype.is_float and not y.dtype.is_float:
        refuse("QUANT", f"{y.dtype.label} on the right of {x.dtype.label}", "floats there")
    a, b = Operand(x, node.options.adj_x), Operand(y, node.options.adj_y)
    floats = all(s.dtype is DType.FLOAT32 for s in (x, y, out))
    if capability.kind == "cpu" and floats and a.size[1] and out.size:
        return lower_float_product(node, capability, a, b)
    return _plain(node, capability, a, b)


def _plain(node: NodeSpec, capability: Capability, a: Operand, b: Operand) -> Lowered:
    """One sum after the other; on GPUs, of all but small ones, tiles of them."""
    out = node.outputs[0]
    (m, depth), n = a.size, b.size[1]
    batch = out.shape[:-2]
    count = prod(batch)
    cpu = capability.kind == "cpu"
    wanted = shares(capability, _SLOW * out.size * depth) if cpu else 1
    rows, wide = (max(1, ceil(count * m / wanted)), n) if cpu else (1, 1)
    (a_m, a_k), (b_k, b_n) = a.steps, b.steps
    defines = {
        "BATCH": count,
        "M": m,
        "N": n,
        "DEPTH": depth,
        "ROWS": rows,
        "WIDE": wide,
        "A(b)": a.begin(batch, m * depth, "(b)"),
        "B(b)": b.begin(batch, depth * n, "(b)"),
        "A_M": a_m,
        "A_K": a_k,
        "B_K": b_k,
        "B_N": b_n,
        **_arithmetic(node, depth),
    }
    if not cpu and min(m, n, depth) >= _EACH and count <= _MOST_MATRICES:
        x, y = node.input(0), node.input(1)
        if x.dtype is y.dtype is DType.FLOAT32 and halves_do(capability, y.const):
            return _halves(defines)
        defines |= {
            "TILE": _TILE,
            "EACH": _EACH,
            "DEEP": _DEEP,
            "VALUE": _COMPUTED[x.dtype],
        }
        group = ((_TILE // _EACH) ** 2, 1, 1)
        grid3 = (ceil(m / _TILE) * group[0], ceil(n / _TILE), count)
        return Lowered([Kernel("matmul_tiles", (0, 1), grid3, defines, ("fixed",), group=group)])
    grid = (ceil(n / max(wide, 1)), ceil(count * m / rows))
    return Lowered([Kernel("matmul", (0, 1), grid, defines, ("fixed",))])


def _halves(defines: dict[str, object]) -> Lowered:
    """On the matrix unit."""
    m, n, depth, count = (int(str(defines[name])) for name in ("M", "N", "DEPTH", "BATCH"))
    tile = 64 if min(m, n) > 32 else 32
    even = depth % 2 == 0
    defines = {
        **defines,
        "TILE": tile,
        "DEEP": _DEEP,
        "A_PAIRS": int(even and defines["A_K"] == 1),
        "B_PAIRS": int(even and defines["B_K"] == 1),
    }
    group = (tile * tile // 32, 1, 1)
    grid = (ceil(m / tile) * group[0], ceil(n / tile), count)
    return Lowered([Kernel("matmul_mma", (0, 1), grid, defines, ("mma_tile",), group=group)])


def _arithmetic(node: NodeSpec, depth: int) -> dict[str, object]:
    """ACC, SUM and FINISH of the operands' type."""
    x, y, out = node.input(0), node.input(1), node.outputs[0]
    if x.dtype.is_float:
        acc = "f64" if x.dtype is DType.FLOAT64 else "f32"
        return {"ACC": acc, "SUM(s, v, w)": "MAD(v, w, s)", "FINISH(s)": "s"}
    if x.dtype in (DType.INT32, DType.INT64):  # sums wrap
        acc, own = ("u32", "i32") if x.dtype is DType.INT32 else ("u64", "i64")
        return {
            "ACC": acc,
            "SUM(s, v, w)": f"(s) + ({acc})(v) * ({acc})(w)",
            "FINISH(s)": f"({own})(s)",
        }
    raw = out.dtype is DType.INT32
    zero_x, zero_y = (0, 0) if raw else (x.zero_point, y.zero_point)
    acc = "i64" if x.dtype is DType.INT16 else "i32"
    if acc == "i32" and depth >= 1 << 15:
        refuse("SHAPE", f"a depth of {depth}", f"less than {1 << 15} on int8")
    finish = "s"
    if not raw:
        # float32, as the peer multiplies the scales here
        scale = float(np.float32(x.scale) * np.float32(y.scale)) / out.scale
        q, shift = (int(v) for v in quantize_multiplier(scale))
        low, high = out.dtype.range()
        name = "multiply_quantized_wide" if acc == "i64" else "multiply_quantized"
        finish = f"clamp_to((i64){name}(s, {q}, {shift}) + {out.zero_point}, {low}, {high})"
    return {
        "ACC": acc,
        "SUM(s, v, w)": f"(s) + ({acc})((v) - {zero_x}) * ((w) - {zero_y})",
        "FINISH(s)": finish,
    }
