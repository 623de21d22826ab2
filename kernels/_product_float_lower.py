"""BATCH_MATMUL of float32 on CPUs: as convolutions over a row of pixels, or as dot products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

import numpy as np

from ._register_tiles import choose_tile, lanes_of, shares
from ._tiled_lower import Product, Tiling, rows_of
from .api import NodeSpec, Shape, TensorSpec
from .device import Capability, Kernel, Lowered, Map, Read
from .types import DType

# rows of the left matrices up to which the right ones are read where they lie: packing them would
# take longer than it saves; if their rows lie along the sums, up to which dot products are
_FEW, _DOTS = 32, 8


@dataclass(frozen=True, slots=True)
class Operand:
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


def lower_float_product(node: NodeSpec, capability: Capability, a: Operand, b: Operand) -> Lowered:
    """As convolutions of one row of pixels. Right matrices are packed, here if they are known, else
    on the device unless the rows are few; adjoint left ones are transposed before.
    """
    out = node.outputs[0]
    (m, depth), n = a.size, b.size[1]
    batch = out.shape[:-2]
    count, lanes = prod(batch), lanes_of(capability)
    if prod(b.batch) == 1 and prod(a.batch) == count:  # one product for all rows
        m, count = m * count, 1
    steps: list[Map | Kernel] = []
    scratch: list[tuple[Shape, DType]] = []

    def through(step: Map | Kernel, shape: Shape) -> int:
        """The number of the tensor that `step` makes."""
        steps.append(step)
        scratch.append((shape, DType.FLOAT32))
        return len(node.inputs) + len(scratch) - 1

    left = 0
    if a.adjoint:
        shape = (*a.batch, a.size[0], depth)
        left = through(_turned(a, shape, 1 + len(scratch)), shape)

    def begins(each: int) -> tuple[str, str]:
        """Where the left and the right matrix `n` begin; the right ones are `each` apart."""
        if count == 1:
            return "0", "0"
        return a.begin(batch, a.size[0] * depth, "(n)"), b.begin(batch, each, "(n)")

    constant = b.spec.const
    narrow = min(lanes, 8 if min(n, depth) < 16 else 16)
    if constant is None and b.adjoint and m <= _DOTS and min(n, depth) >= narrow:
        kernel = _dots(capability, (count, m, n, depth), narrow, begins(depth * n), left)
        return Lowered([*steps, kernel], scratch=scratch)
    product = Product(rows_of(m), count, depth, n)
    direct = constant is None and not b.adjoint and m <= _FEW and n >= lanes
    if direct:
        tile = choose_tile(lanes, 1, m, n // lanes * lanes, depth)
        tiling = Tiling.dealt(product, capability, tile, copies=False)
    else:
        tiling = Tiling.of(product, capability)
    each = depth * n if direct else tiling.blocks * tiling.tile.channels * depth
    right: int | np.ndarray = 1
    if constant is not None:
        right = tiling.pack(constant if b.adjoint else constant.swapaxes(-1, -2))
    elif not direct:
        shape = (prod(b.batch), tiling.blocks, depth, tiling.tile.channels)
        right = through(_pack(tiling, b, shape, 1 + len(scratch), capability), shape)
    finish = {"FINISH(v)": "(v)", "FINISH_VECTOR(v)": "(v)"}
    image, weights = begins(each)
    kernel = tiling.kernel((left, right), None, finish, 0, image, weights, direct)
    return Lowered([*steps, kernel], scratch=scratch)


def _dots(
    capability: Capability,
    sizes: tuple[int, int, int, int],
    lanes: int,
    begins: tuple[str, str],
    left: int,
) -> Kernel:
    """`sizes`: matrices, rows of the left ones and of the right ones, their length."""
    count, m, n, depth = sizes
    blocks = ceil(n / lanes)
    wanted = shares(capability, count * blocks * m * (depth * lanes / 32 + 64))
    share = max(1, count * blocks // wanted)
    defines = {
        "BATCH": count,
        "M": m,
        "N": n,
        "DEPTH": depth,
        "VW": lanes,
        "BLOCKS": blocks,
        "SHARE": share,
        "A(n)": begins[0],
        "B(n)": begins[1],
    }
    grid = (ceil(count * blocks / share),)
    return Kernel("dots_cpu", (left, 1), grid, defines)


def _turned(a: Operand, shape: Sequence[int], output: int) -> Map:
    """The step that transposes the matrices of input 0."""
    steps = [1]
    for d in reversed(a.spec.shape[1:]):
        steps.append(steps[-1] * d)
    strides = tuple(reversed(steps))
    strides = (*strides[:-2], strides[-1], strides[-2])
    return Map(reads=(Read(0, strides=strides),), shape=tuple(shape), output=output)


def _pack(tiling: Tiling, b: Operand, shape: Shape, output: int, capability: Capability) -> Kernel:
    """The step that packs input 1."""
    matrices, blocks, depth, channels = shape
    wanted = shares(capability, prod(shape) / 2)
    share = max(1, depth * matrices * blocks // wanted) if matrices * blocks < wanted else depth
    lanes = tiling.tile.lanes
    share = min(ceil(share / lanes) * lanes, depth)
    (step_k, step_n), n = b.steps, b.size[1]
    defines = {
        "BLOCKS": blocks,
        "NR": channels,
        "SHARE": share,
        "DEPTH": depth,
        "N": n,
        "STEP_K": step_k,
        "STEP_N": step_n,
        "VW": lanes,
        "TURN": f"turn_{lanes}",
    }
    grid = (ceil(depth / share), matrices * blocks)
    return Kernel("pack", (1,), grid, defines, ("turn",), output)
