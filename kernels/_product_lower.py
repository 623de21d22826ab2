"""The device form of BATCH_MATMUL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

import numpy as np

from ._lower import check, refuse, types
from ._matrix_unit import halves_do
from ._quant import quantize_multiplier
from ._register_tiles import shares
from ._tiled_lower import Product, Tiling, rows_of
from .api import NodeSpec, Shape, TensorSpec
from .device import Capability, Kernel, Lowered, Map, Read
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


@dataclass(frozen=True, slots=True)
class _Operand:
    """Matrices [rows, columns] of an input: `batch` of them, with steps in elements."""

    spec: TensorSpec
    adjoint: bool

    @property
    def batch(self) -> Shape:
        return self.spec.shape[:-2]

    @property
    def size(self) -> tuple[int, int]:
        rows, columns = self.spec.shape[-2:]
        return (columns, rows) if self.adjoint else (rows, columns)

    @property
    def steps(self) -> tuple[int, int]:
        """From one row and from one column to the next."""
        across = self.spec.shape[-1]
        return (1, across) if self.adjoint else (across, 1)

    def begin(self, out: Shape, each: int, b: str) -> str:
        """Where matrix `b` of the output's `out` is, of matrices that are `each` apart."""
        terms, below, own = [], 1, each
        shape = (*(1,) * (len(out) - len(self.batch)), *self.batch)
        for d, wide in zip(reversed(shape), reversed(out), strict=True):
            if d > 1:
                terms.append(f"{b} / {below} % {wide} * {own}")
            below, own = below * wide, own * d
        return f"({' + '.join(terms) or '0'})"


def lower_batch_matmul(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, y, out = node.input(0), node.input(1), node.outputs[0]
    types(node, x, *_FLOATS, *_WHOLE)
    if x.dtype.is_float and not y.dtype.is_float:
        refuse("QUANT", f"{y.dtype.label} on the right of {x.dtype.label}", "floats there")
    a, b = _Operand(x, node.options.adj_x), _Operand(y, node.options.adj_y)
    floats = all(s.dtype is DType.FLOAT32 for s in (x, y, out))
    if capability.kind == "cpu" and floats and a.size[1] and out.size:
        return _tiled(node, capability, a, b)
    return _plain(node, capability, a, b)


def _plain(node: NodeSpec, capability: Capability, a: _Operand, b: _Operand) -> Lowered:
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


def _tiled(node: NodeSpec, capability: Capability, a: _Operand, b: _Operand) -> Lowered:
    """As convolutions of one row of pixels: the right matrices are packed, here if they are known,
    else on the device; adjoint left ones are transposed before.
    """
    out = node.outputs[0]
    (m, depth), n = a.size, b.size[1]
    batch = out.shape[:-2]
    together = prod(b.batch) == 1 and (prod(a.batch) == prod(batch))  # one product for all rows
    product = Product(rows_of(m * prod(batch) if together else m), 1, depth, n)
    if not together:
        product = Product(product.window, prod(batch), depth, n)
    tiling = Tiling.of(product, capability)
    block = tiling.blocks * tiling.tile.channels * depth
    steps: list[Map | Kernel] = []
    scratch: list[tuple[Shape, DType]] = []

    def through(step: Map | Kernel, shape: Shape) -> int:
        """The number of the tensor that `step` makes."""
        steps.append(step)
        scratch.append((shape, DType.FLOAT32))
        return len(node.inputs) + len(scratch) - 1

    left = 0
    if a.adjoint:
        shape = (*a.batch, m, depth)
        left = through(_turned(a, shape, 1 + len(scratch)), shape)
    constant = b.spec.const
    if constant is not None:
        columns = constant if b.adjoint else constant.swapaxes(-1, -2)
        right: int | np.ndarray = tiling.pack(columns)
    else:
        shape = (prod(b.batch), tiling.blocks, depth, tiling.tile.channels)
        right = through(_pack(tiling, b, shape, 1 + len(scratch), capability), shape)
    finish = {"FINISH(v)": "(v)", "FINISH_VECTOR(v)": "(v)"}
    image, weights = ("", "0")
    if not together:
        image = a.begin(batch, m * depth, "(n)")
        weights = b.begin(batch, block, "(n)")
    kernel = tiling.kernel((left, right), None, finish, image=image, weights=weights)
    return Lowered([*steps, kernel], scratch=scratch)


def _turned(a: _Operand, shape: Sequence[int], output: int) -> Map:
    """The step that transposes the matrices of input 0."""
    steps = [1]
    for d in reversed(a.spec.shape[1:]):
        steps.append(steps[-1] * d)
    strides = tuple(reversed(steps))
    strides = (*strides[:-2], strides[-1], strides[-2])
    return Map(reads=(Read(0, strides=strides),), shape=tuple(shape), output=output)


def _pack(tiling: Tiling, b: _Operand, shape: Shape, output: int, capability: Capability) -> Kernel:
    """The step that packs input 1."""
    matrices, blocks, depth, channels = shape
    wanted = shares(capability, prod(shape) / 2)
    share = max(1, depth * matrices * blocks // wanted) if matrices * blocks < wanted else depth
    share = min(share, depth)
    (step_k, step_n), n = b.steps, b.size[1]
    defines = {
        "BLOCKS": blocks,
        "NR": channels,
        "SHARE": share,
        "DEPTH": depth,
        "N": n,
        "STEP_K": step_k,
        "STEP_N": step_n,
    }
    grid = (ceil(depth / share), matrices * blocks)
    return Kernel("pack", (1,), grid, defines, output=output)
