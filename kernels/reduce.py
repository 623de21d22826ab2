"""Reductions along axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ._check import COMPLEX, NUMBERS
from ._quant import (
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_64,
    quantize_multiplier,
)
from ._reduce_lower import lower_extreme, lower_logical, lower_prod, lower_sum
from ._reduction import (
    GREATEST_BFLOAT16,
    SMALL_INTEGERS,
    axes_of,
    mean_multiplier,
    real_multiplier,
)
from ._shape import (
    INDEX,
    integers,
    known,
    like,
    same_quantization,
    settled,
    size_of,
    view,
)
from .api import Binding, NodeSpec, OpError, Registration, Run, Shape, op, take
from .types import Array, DType, bfloat16_to_float32, float32_to_bfloat16


def _infer(node: NodeSpec, *dtypes: DType) -> list[Shape | None]:
    x, axis, y = node.input(0), node.input(1), node.outputs[0]
    take(node, "input 0", x, *dtypes)
    take(node, "axis", axis, *INDEX)
    like(node, x, y)
    if x.dtype is DType.INT16 and (x.zero_point or y.zero_point):
        raise OpError(f"{node.op} of int16 takes zero point 0 at input and output")
    values = known(axis)
    if values is None:
        return [None]
    axes = axes_of(node, values, x.rank)
    if node.options.keep_dims:
        return [tuple(1 if i in axes else d for i, d in enumerate(x.shape))]
    return [tuple(d for i, d in enumerate(x.shape) if i not in axes)]


class Folded:
    """Input and output with neighbouring dimensions of one kind, kept or reduced, made one.

    x: the input so; y: the output with 1 for each reduced dimension; axes: those dimensions;
    count: the number of elements that make one.
    """

    def __init__(self, b: Binding) -> None:
        x, y = b.xi(0), b.y[0]
        reduced = axes_of(b, integers(b, 1), x.ndim)
        self.all = len(reduced) == x.ndim
        sizes: list[int] = []
        kinds: list[bool] = []
        for i, d in enumerate(x.shape):
            kind = i in reduced
            if kinds and kinds[-1] == kind:
                sizes[-1] *= d
            else:
                sizes.append(d)
                kinds.append(kind)
        self.x: Array = x.reshape(sizes)
        self.y: Array = y.reshape([1 if k else d for d, k in zip(sizes, kinds, strict=True)])
        self.axes = tuple(i for i, k in enumerate(kinds) if k)
        self.count = size_of([sizes[i] for i in self.axes])

    def matrix(self) -> tuple[int, int, int] | None:
        """[outer, reduced, inner] of the input, where the reduced dimensions are neighbours."""
        if len(self.axes) != 1:
            return None
        i = self.axes[0]
        return size_of(self.x.shape[:i]), self.x.shape[i], size_of(self.x.shape[i + 1 :])


def _each(make: Callable[[Binding, Folded], Run | None]) -> Callable[[Binding], Run | None]:
    return lambda b: settled(b, (1,), lambda: make(b, Folded(b)))


def _ufunc(ufunc: np.ufunc, f: Folded, **how: Any) -> Run:
    """`ufunc` along the axes, straight into the output."""
    return partial(ufunc.reduce, f.x, axis=f.axes, out=f.y, keepdims=True, **how)


def _weighted(b: Binding, f: Folded, x: Array, y: Array, weight: float) -> Run:
    """y = weight * sum of x along the axes, as a matrix product where that is faster."""
    add = _plain_sum(f, x, y)
    if weight == 1:
        return add

    def run() -> None:
        add()
        # after the sum: a rounded weight in each term adds up, 1e-4 over 50,000 terms
        np.multiply(y, weight, out=y)

    return run


def _plain_sum(f: Folded, x: Array, y: Array) -> Run:
    shape = f.matrix()
    if shape is not None and (shape[0] <= 16 or shape[2] == 1 or shape[1] * shape[2] >= 256):
        outer, count, inner = shape
        if inner == 1:
            ones = np.ones(count, x.dtype)
            return partial(np.matmul, x.reshape(outer, count), ones, y.reshape(outer))
        row = np.ones((1, 1, count), x.dtype)
        return partial(np.matmul, row, x.reshape(shape), y.reshape(outer, 1, inner))
    return partial(np.add.reduce, x, axis=f.axes, out=y, keepdims=True)


def _float_sum(b: Binding, f: Folded, weight: float) -> Run:
    """SUM and MEAN of floats. Half types are summed in float32."""
    dtype = b.input(0).dtype
    if dtype in (DType.FLOAT32, DType.FLOAT64):
        return _weighted(b, f, f.x, f.y, weight)
    wide, total = b.scratch(f.x.shape), b.scratch(f.y.shape)
    add = _weighted(b, f, wide, total, weight)

    def run() -> None:
        wide[...] = bfloat16_to_float32(f.x) if dtype is DType.BFLOAT16 else f.x
        add()
        f.y[...] = float32_to_bfloat16(total) if dtype is DType.BFLOAT16 else total

    return run


def _stored_sum(b: Binding, f: Folded, multiplier: int, shift: int) -> Run:
    """The sum of quantised values, requantised by `multiplier` and `shift`.

    Source: TensorFlow Lite's reference mean and sum of quantised values.
    """
    x, y = b.input(0), b.outputs[0]
    low, high = y.dtype.range()
    total = b.scratch(f.y.shape, np.int32)
    bits = 16 if x.dtype is DType.INT16 else 8
    shape = f.matrix()
    if shape is not None and f.x.size >= 4096 and f.count << bits <= 1 << 24:
        # exact: no partial sum leaves the integers of float32
        wide, real = b.scratch(f.x.shape), b.scratch(f.y.shape)
        add = _weighted(b, f, wide, real, 1.0)

        def count_up() -> None:
            wide[...] = f.x
            add()
            total[...] = real

    else:

        def count_up() -> None:
            np.add.reduce(f.x, axis=f.axes, dtype=np.int32, out=total, keepdims=True)

    # int32 throughout, wrapping
    offset = np.int64(x.zero_point * f.count).astype(np.int32)

    def run() -> None:
        count_up()
        np.subtract(total, offset, out=total)
        scaled = multiply_by_quantized_multiplier(total, multiplier, shift)
        scaled += y.zero_point
        np.clip(scaled, low, high, out=scaled)
        f.y[...] = scaled

    return run


def _sum(b: Binding, f: Folded) -> Run | None:
    x = b.input(0)
    if f.x.size == 0:
        return partial(f.y.fill, 0)
    if x.dtype.is_float:
        return _float_sum(b, f, 1.0)
    if x.dtype in SMALL_INTEGERS:
        # TensorFlow Lite's reference kernel reads int8 and int16 as uint8 here, a fault that is not
        # copied: the values are read as what they are
        return _stored_sum(b, f, *real_multiplier(b))
    return _ufunc(np.add, f, dtype=f.x.dtype)


def _mean(b: Binding, f: Folded) -> Run | None:
    x = b.input(0)
    if f.x.size == 0:
        return partial(f.y.fill, np.nan if x.dtype in _PLAIN_FLOATS else _empty_mean(x.dtype))
    if x.dtype.is_float:
        return _float_sum(b, f, 1.0 / f.count)
    if x.dtype in SMALL_INTEGERS:
        return _stored_sum(b, f, *mean_multiplier(b, f.count))
    wide = np.uint64 if x.dtype.name.startswith("U") else np.int64
    total, sign = b.scratch(f.y.shape, wide), b.scratch(f.y.shape, wide)

    def run() -> None:
        np.add.reduce(f.x, axis=f.axes, dtype=wide, out=total, keepdims=True)
        # towards zero
        np.sign(total, out=sign)
        np.abs(total, out=total)
        np.floor_divide(total, wide(f.count), out=total)
        np.multiply(total, sign, out=total)
        f.y[...] = total.astype(f.y.dtype)

    return run


_PLAIN_FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.FLOAT64)


def _empty_mean(dtype: DType) -> int:
    """Mean of nothing: integers have no NaN; 0x7FC0 are the bits of bfloat16's."""
    return 0x7FC0 if dtype is DType.BFLOAT16 else 0


def _prod(b: Binding, f: Folded) -> Run | None:
    x = b.input(0)
    if x.quant is not None and x.dtype in SMALL_INTEGERS:
        return _quantized_prod(b, f) if f.x.size else partial(f.y.fill, 0)
    if x.dtype in (DType.FLOAT16, DType.BFLOAT16):
        return _in_float32(b, f, np.multiply, 1.0)
    return _ufunc(np.multiply, f, dtype=f.x.dtype)


def _in_float32(b: Binding, f: Folded, ufunc: np.ufunc, initial: float | None) -> Run:
    bits = b.input(0).dtype is DType.BFLOAT16

    def run() -> None:
        x = bfloat16_to_float32(f.x) if bits else f.x
        value = ufunc.reduce(x, axis=f.axes, dtype=np.float32, keepdims=True, initial=initial)
        f.y[...] = float32_to_bfloat16(value) if bits else value

    return run


def _quantized_prod(b: Binding, f: Folded) -> Run:
    """One rescaled multiplication after the other, so that nothing overflows; the order counts.

    Source: TensorFlow Lite's reference product of quantised values.
    """
    x, y = b.input(0), b.outputs[0]
    low, high = y.dtype.range()
    multiplier, shift = quantize_multiplier(x.scale / float(np.power(y.scale, 1.0 / f.count)))
    kept = [i for i in range(f.x.ndim) if i not in f.axes]
    x_terms = f.x.transpose(*f.axes, *kept)
    terms = [view(x_terms, i) for i in np.ndindex(x_terms.shape[: len(f.axes)])]
    out = f.y.reshape([f.x.shape[i] for i in kept])

    def rescaled(value: Array) -> Array:
        return multiply_by_quantized_multiplier_64(value, multiplier, shift).astype(np.int32)

    def run() -> None:
        product = terms[0].astype(np.int64) - x.zero_point
        for term in terms[1:]:
            product = rescaled(product * (term.astype(np.int64) - x.zero_point)).astype(np.int64)
        out[...] = np.clip(rescaled(product).astype(np.int64) + y.zero_point, low, high)

    return run


def _extreme(b: Binding, f: Folded, largest: bool) -> Run | None:
    """REDUCE_MAX and REDUCE_MIN. A NaN never wins, unless all is reduced and it comes first."""
    dtype = b.input(0).dtype
    if dtype is DType.BOOL:
        return _ufunc(np.logical_or if largest else np.logical_and, f)
    if not dtype.is_float:
        worst = dtype.range()[0 if largest else 1]
        return _ufunc(np.maximum if largest else np.minimum, f, initial=worst)
    ufunc = np.fmax if largest else np.fmin
    if dtype is DType.BFLOAT16:
        bound = -GREATEST_BFLOAT16 if largest else GREATEST_BFLOAT16
    else:
        limit = np.finfo(f.x.dtype)
        bound = float(limit.min if largest else limit.max)
    whole = f.all and f.x.size > 0
    # None: it begins with the first element, which may be infinite
    initial = None if whole else bound
    if dtype is DType.BFLOAT16:
        reduce = _in_float32(b, f, ufunc, initial)
    else:
        reduce = _ufunc(ufunc, f, initial=initial)
    return _with_first_nan(f, reduce) if whole else reduce


def _with_first_nan(f: Folded, reduce: Run) -> Run:
    """`reduce`, but NaN where the first element is."""
    first, out = f.x.reshape(-1)[:1], f.y.reshape(-1)
    bits = f.x.dtype == np.uint16  # bfloat16

    def run() -> None:
        reduce()
        if np.isnan(bfloat16_to_float32(first) if bits else first)[0]:
            out[...] = first

    return run


def _infer_extreme(node: NodeSpec) -> list[Shape | None]:
    if node.input(0).dtype in SMALL_INTEGERS:
        same_quantization(node, node.input(0), node.outputs[0])
    return _infer(node, *NUMBERS, DType.BOOL)


def _infer_prod(node: NodeSpec) -> list[Shape | None]:
    x, y = node.input(0), node.outputs[0]
    if x.quant is not None and x.dtype is DType.UINT8:
        raise OpError("REDUCE_PROD takes no quantised uint8; int8 and int16 may be quantised")
    if x.quant is not None and x.dtype in SMALL_INTEGERS and not y.scale:
        raise OpError(f"REDUCE_PROD: {x.name!r} is quantised, {y.name!r} is not")
    return _infer(node, *NUMBERS, DType.BOOL, *COMPLEX)


def _infer_number(node: NodeSpec) -> list[Shape | None]:
    return _infer(node, *NUMBERS)


def _infer_sum(node: NodeSpec) -> list[Shape | None]:
    return _infer(node, *NUMBERS, DType.BOOL, *COMPLEX)


def _infer_bool(node: NodeSpec) -> list[Shape | None]:
    return _infer(node, DType.BOOL)


OPS: dict[str, Registration] = {
    "MEAN": op("MEAN", _infer_number, _each(_mean), versions=(1, 3), lower=lower_sum),
    "SUM": op("SUM", _infer_sum, _each(_sum), versions=(1, 2), lower=lower_sum),
    "REDUCE_PROD": op("REDUCE_PROD", _infer_prod, _each(_prod), versions=(1, 2), lower=lower_prod),
    "REDUCE_MAX": op(
        "REDUCE_MAX",
        _infer_extreme,
        _each(partial(_extreme, largest=True)),
        versions=(1, 3),
        lower=lower_extreme(True),
    ),
    "REDUCE_MIN": op(
        "REDUCE_MIN",
        _infer_extreme,
        _each(partial(_extreme, largest=False)),
        versions=(1, 3),
        lower=lower_extreme(False),
    ),
    "REDUCE_ANY": op(
        "REDUCE_ANY",
        _infer_bool,
        _each(lambda b, f: _ufunc(np.logical_or, f)),
        lower=lower_logical("||", "0"),
    ),
    "REDUCE_ALL": op(
        "REDUCE_ALL",
        _infer_bool,
        _each(lambda b, f: _ufunc(np.logical_and, f)),
        lower=lower_logical("&&", "1"),
    ),
}
