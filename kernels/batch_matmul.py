"""BATCH_MATMUL: products of matrices, broadcast over all but the last two dimensions."""

from __future__ import annotations

import numpy as np

from ._check import scaled
from ._hybrid import HybridWeights, RowQuantizer
from ._matmul import exact_product, operand_type, stacked_product
from ._product_lower import lower_batch_matmul
from ._quant import (
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_64,
    quantize_multiplier,
)
from ._widen import in_float32
from .api import Binding, NodeSpec, OpError, Run, Shape, TensorSpec, op, require, take
from .types import Array, DType

_PLAIN = (
    DType.FLOAT32,
    DType.FLOAT16,
    DType.BFLOAT16,
    DType.FLOAT64,
    DType.INT32,
    DType.INT64,
    DType.COMPLEX64,
    DType.COMPLEX128,
)
# types of the two inputs and of the output where they are not all the same
_MIXED = {
    (DType.FLOAT32, DType.INT8): (DType.FLOAT32,),
    (DType.INT8, DType.INT8): (DType.INT8, DType.INT32),
    (DType.INT16, DType.INT16): (DType.INT16,),
    (DType.INT16, DType.INT8): (DType.INT16,),
}


def _infer(node: NodeSpec) -> list[Shape]:
    x, y, out = node.input(0), node.input(1), node.outputs[0]
    pair = (x.dtype, y.dtype)
    if pair in _MIXED:
        take(node, "output", out, *_MIXED[pair])
    else:
        take(node, "input 0", x, *_PLAIN, DType.INT8, DType.INT16)
        taken = [b for a, b in _MIXED if a is x.dtype] or [x.dtype]
        take(node, "input 1", y, *([x.dtype] if x.dtype is DType.FLOAT32 else []), *taken)
        take(node, "output", out, x.dtype)
    for i, spec in enumerate((x, y)):
        require(spec.rank >= 2, f"input {i} is {spec}; {node.op} takes matrices (rank 2 or more)")
    rows, depth = _matrix(x, node.options.adj_x)
    depth_y, columns = _matrix(y, node.options.adj_y)
    require(
        depth == depth_y,
        f"{x} (adj_x {node.options.adj_x}) and {y} (adj_y {node.options.adj_y}) do not fit: "
        f"{depth} columns on the left, {depth_y} rows on the right",
    )
    if out.dtype in (DType.INT8, DType.INT16):
        scaled(node, x, y, out)
    if x.dtype is DType.INT16:
        for spec in (x, y, out):
            require(
                spec.zero_point == 0,
                f"{spec.name!r} has zero point {spec.zero_point}; it is 0 with int16",
            )
    if y.quant is not None and y.quant.per_axis:
        require(
            x.dtype is DType.FLOAT32 and y.quant.scale.size == columns,
            f"input 1 has {y.quant.scale.size} scales; taken: one, or with float32 on the left "
            f"one for each of its {columns} columns",
        )
    try:
        batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    except ValueError:
        raise OpError(f"the leading dimensions of {x} and {y} do not broadcast") from None
    return [(*batch, rows, columns)]


def _matrix(spec: TensorSpec, adjoint: bool) -> tuple[int, int]:
    rows, columns = spec.shape[-2:]
    return (columns, rows) if adjoint else (rows, columns)


def _bind(b: Binding) -> Run | None:
    if b.y[0].size == 0:
        return None
    x, y = b.input(0), b.input(1)
    if (x.dtype, y.dtype) == (DType.FLOAT32, DType.INT8):
        return _bind_hybrid(b)
    if x.dtype in (DType.INT8, DType.INT16):
        return _bind_integer(b)
    return stacked_product(_left(b, b.xi(0)), _right(b, b.xi(1)), b.y[0], b.threads, b.parallel)


def _left(b: Binding, x: Array) -> Array:
    return x.swapaxes(-1, -2) if b.options.adj_x else x


def _right(b: Binding, y: Array) -> Array:
    return y.swapaxes(-1, -2) if b.options.adj_y else y


def _bind_integer(b: Binding) -> Run:
    x, y, out = b.input(0), b.input(1), b.outputs[0]
    raw = out.dtype is DType.INT32  # plain sums of the stored values
    zero_x, zero_y = (0, 0) if raw else (x.zero_point, y.zero_point)
    largest = _largest(x, zero_x) * _largest(y, zero_y)
    depth = _matrix(x, b.options.adj_x)[1]
    dtype = operand_type(depth, largest)

    def operand(i: int, zero: int) -> tuple[Array, Run | None]:
        """Input `i` without its zero point, as floats, and how to refresh it."""
        source, spec = b.xi(i), b.input(i)
        if spec.const is not None:
            return b.once(f"operand{i}", lambda: source.astype(dtype) - dtype.type(zero)), None
        values = b.scratch(source.shape, dtype)

        def load() -> None:
            np.subtract(source, dtype.type(zero), out=values)

        return values, load

    left, load_left = operand(0, zero_x)
    right, load_right = operand(1, zero_y)
    left, right = _left(b, left), _right(b, right)
    loads = [f for f in (load_left, load_right) if f is not None]
    if raw:
        return _after(loads, exact_product(left, right, b.y[0], largest, b.scratch))
    total = b.scratch(b.y[0].shape, np.int64)
    multiply = _after(loads, exact_product(left, right, total, largest, b.scratch))
    # float32, as the peer multiplies the scales here
    scale = float(np.float32(x.scale) * np.float32(y.scale)) / out.scale
    q, shift = quantize_multiplier(scale)
    rescale = (
        multiply_by_quantized_multiplier
        if x.dtype is DType.INT8
        else multiply_by_quantized_multiplier_64
    )
    low, high = out.dtype.range()

    def run() -> None:
        multiply()
        stored = rescale(total, q, shift)
        stored += out.zero_point
        np.clip(stored, low, high, out=b.y[0], casting="unsafe")

    return run


def _after(loads: list[Run], multiply: Run) -> Run:
    def run() -> None:
        for load in loads:
            load()
        multiply()

    return run


def _largest(spec: TensorSpec, zero: int) -> int:
    low, high = spec.dtype.range()
    return max(zero - low, high - zero)


def _bind_hybrid(b: Binding) -> Run:
    """Rows of float32 are quantised at each call, each with a scale of its own."""
    y = b.input(1)
    scale = y.quant.scale if y.quant is not None else 0.0
    left, right = _left(b, b.xi(0)), _right(b, b.xi(1)).swapaxes(-1, -2)
    rows = RowQuantizer(b.scratch, left.shape, b.options.asymmetric_quantize_inputs)

    def make() -> HybridWeights:
        return HybridWeights(right, scale)

    weights = b.once("weights", make) if y.const is not None else make()

    def run() -> None:
        if y.const is None:
            weights.load(right)
        rows(left)
        weights.multiply(rows, b.y[0])

    return run


OPS = {
    "BATCH_MATMUL": op(
        "BATCH_MATMUL", _infer, in_float32(_bind), versions=(1, 4), lower=lower_batch_matmul
    )
}
