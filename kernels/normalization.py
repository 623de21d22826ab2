"""L2_NORMALIZATION and LOCAL_RESPONSE_NORMALIZATION, along the last dimension."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from ._check import BYTES, arity, elementwise, gives, scaled
from ._elementwise import BLOCK, in_blocks
from ._inverse_sqrt import inverse_sqrt
from ._lower import check, literal, share_for
from ._lut import saturate
from ._quant import multiply_by_quantized_multiplier
from ._reduction_lower import sum_type
from ._rows import row_sums
from ._widen import FLOATS, in_float32
from .api import Bind, Binding, NodeSpec, OpError, Registration, Run, Shape, op, take
from .device import Capability, Kernel, Lowered
from .types import Array, DType


def _infer_l2(node: NodeSpec) -> list[Shape]:
    arity(node, 1)
    x, y = node.input(0), node.outputs[0]
    take(node, "input 0", x, *FLOATS, *BYTES)
    gives(node, x.dtype)
    activation = node.options.get("fused_activation_function", "NONE")
    if not x.shape or activation != "NONE":
        raise OpError(
            f"shape {list(x.shape)}, fused activation {activation}; L2_NORMALIZATION takes one "
            "dimension or more and NONE"
        )
    if x.dtype in BYTES:
        scaled(node, x, y)
        zero = 128 if y.dtype is DType.UINT8 else 0
        if y.scale != 1 / 128 or y.zero_point != zero:
            raise OpError(
                f"output {y.name!r} has scale {y.scale} and zero point {y.zero_point}; "
                f"L2_NORMALIZATION gives {y.dtype.label} with {1 / 128} and {zero}"
            )
    return [x.shape]


def _bind_l2(b: Binding) -> Run | None:
    depth = b.input(0).shape[-1]
    block = max(1, BLOCK // max(1, depth)) * max(1, depth)
    arrays = (b.xi(0), b.y[0])
    if b.input(0).dtype in BYTES:
        zero = b.input(0).zero_point
        make = partial(_l2_bytes, depth, zero, b.outputs[0].dtype)
        return in_blocks(b, arrays, make, block=block)
    dtype = b.y[0].dtype
    return in_blocks(b, arrays, partial(_l2_floats, depth), (dtype, dtype), block)


def _l2_floats(depth: int, x: Array, y: Array, work: Array, row: Array) -> Run:
    source, target, squares = (a.reshape(-1, depth) for a in (x, y, work))
    total = row[: source.shape[0]]
    norm = total.reshape(-1, 1)
    sums = row_sums(squares, total)
    least, most = np.array(1e-6, y.dtype), np.array(np.inf, y.dtype)

    def run() -> None:
        np.multiply(x, x, out=work)
        sums()
        np.sqrt(norm, out=norm)
        norm.clip(least, most, norm)
        np.divide(source, norm, out=target)

    return run


def _l2_bytes(depth: int, zero: int, dtype: DType, x: Array, y: Array) -> Run:
    source, target = x.reshape(-1, depth), y.reshape(-1, depth)
    middle = 128 if dtype is DType.UINT8 else 0

    def run() -> None:
        real = source.astype(np.int64) - zero
        inverse, shift = inverse_sqrt(np.sum(real * real, axis=1, keepdims=True))
        if middle:
            stored = multiply_by_quantized_multiplier(real * 128, inverse, shift)
        else:
            stored = multiply_by_quantized_multiplier(real, inverse, shift + 7)
        np.copyto(target, saturate(stored + middle, dtype))

    return run


def _infer_local(node: NodeSpec) -> list[Shape]:
    shape = elementwise(node, *FLOATS)
    if len(shape) != 4:
        raise OpError(f"shape {list(shape)}; {node.op} takes four dimensions")
    return [shape]


def _bind_local(b: Binding) -> Run | None:
    """x * (bias + alpha * sum of squares)^-beta.

    The sum runs over channels c - radius to c + radius - 1, as in the reference, which leaves out
    the last one; TensorFlow's own and TensorFlow Lite's optimised kernel take it in.
    """
    x, y = b.xi(0), b.y[0]
    depth, radius = x.shape[-1], int(b.options.radius)
    squares = b.scratch(x.shape, x.dtype)
    total = b.scratch(x.shape, x.dtype)
    bias, alpha, power = (
        np.array(v, x.dtype) for v in (b.options.bias, b.options.alpha, -b.options.beta)
    )

    def run() -> None:
        np.multiply(x, x, out=squares)
        total[...] = 0
        for shift in range(max(-radius, 1 - depth), min(radius, depth)):
            to = slice(max(0, -shift), depth - max(0, shift))
            of = slice(max(0, shift), depth - max(0, -shift))
            np.add(total[..., to], squares[..., of], out=total[..., to])
        np.multiply(total, alpha, out=total)
        np.add(total, bias, out=total)
        np.power(total, power, out=total)
        np.multiply(x, total, out=y)

    return run


# -- devices


def _lower_l2(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, y = node.input(0), node.outputs[0]
    depth = x.shape[-1]
    if not x.size:
        return Lowered([])
    integer, unsigned = x.dtype in BYTES, y.dtype is DType.UINT8
    low, high = y.dtype.range() if integer else (0, 0)
    defines = {
        "ACC": "i32" if integer else sum_type(x.dtype),
        "INTEGER": int(integer),
        "ROWS": x.size // depth,
        "DEPTH": depth,
        "ZERO": x.zero_point,
        # the output's scale is 1 / 128
        "FACTOR": 128 if unsigned else 1,
        "SHIFT": 0 if unsigned else 7,
        "MIDDLE": 128 if unsigned else 0,
        "LOW": low,
        "HIGH": high,
    }
    grid = (x.size // depth,)
    return Lowered([Kernel("normalize", (0,), grid, defines, ("fixed", "inverse_sqrt"))])


def _lower_local(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, o = node.input(0), node.options
    if not x.size:
        return Lowered([])
    each = share_for(capability, x.size)
    defines = {
        "ACC": sum_type(x.dtype),
        "EACH": each,
        "SIZE": x.size,
        "DEPTH": x.shape[-1],
        "RADIUS": int(o.radius),
        **{
            name: literal(v, DType.FLOAT32)
            for name, v in (("BIAS", o.bias), ("ALPHA", o.alpha), ("POWER", -o.beta))
        },
    }
    return Lowered([Kernel("local_response", (0,), (-(-x.size // each),), defines)])


_l2: Bind = in_float32(_bind_l2)
_local: Bind = in_float32(_bind_local)

OPS: Mapping[str, Registration] = {
    r.name: r
    for r in (
        op("L2_NORMALIZATION", _infer_l2, _l2, versions=(1, 2), inplace=(0,), lower=_lower_l2),
        op(
            "LOCAL_RESPONSE_NORMALIZATION",
            _infer_local,
            _local,
            inplace=(0,),
            lower=_lower_local,
        ),
    )
}
