"""Functions of one tensor, element by element: ABS, EXP, LOG, SQRT, RSQRT, SIN, FLOOR, SIGN …"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ._check import COMPLEX, INTEGERS, WIDE_INTEGERS, elementwise, scaled, symmetric
from ._elementwise import in_blocks, spread
from ._inverse_sqrt import inverse_sqrt
from ._logistic import bind_logistic
from ._lower import Forms, Lower, check, plain, through_table
from ._lut import domain, exactly, map_values, saturate, table_of
from ._quant import multiply_by_quantized_multiplier, quantize_multiplier
from ._widen import FLOATS, in_float32
from .api import Binding, NodeSpec, OpError, Registration, Run, Shape, TensorSpec, op
from .device import Capability, Fault, Lowered
from .types import Array, DType

_INTEGERS = (DType.INT32, DType.INT64, DType.INT16, DType.INT8)

Make = Callable[[Binding], "Run | None"]
Table = Callable[[TensorSpec, TensorSpec], Array]


def _quantized(node: NodeSpec | Binding) -> bool:
    """8 bits always; int16 where a scale is given."""
    x = node.input(0)
    return x.dtype in (DType.INT8, DType.UINT8) or (
        x.dtype is DType.INT16 and x.quant is not None and x.scale > 0
    )


def _row(
    name: str,
    make: Make | Callable[..., Any],
    device: Forms | str,
    dtypes: tuple[DType, ...] = FLOATS,
    versions: tuple[int, int] = (1, 1),
    table: Table | None = None,
    quantized: tuple[DType, ...] = (DType.INT8, DType.INT16),
    defined_from: str = "",
    custom: bool = False,
) -> Registration:
    """`make` is a ufunc or binds plain numbers; `table` gives all outputs of a quantised node.
    `device` is the function of `$0` for a device, as `Forms` or of floats alone.

    With `defined_from`, quantised inputs below their zero point are an error of that text.
    """
    types = (*dtypes, *(q for q in quantized if table is not None and q not in dtypes))

    def infer(node: NodeSpec) -> list[Shape]:
        shape = elementwise(node, *types)
        plain = node.input(0).dtype in dtypes
        if table is not None and (_quantized(node) or not plain):
            scaled(node, node.input(0), node.outputs[0])
            if node.input(0).dtype is DType.INT16:
                symmetric(node, node.input(0), node.outputs[0])
        return [shape]

    def bind(b: Binding) -> Run | None:
        if table is not None and _quantized(b):
            values = b.once("table", lambda: table(b.input(0), b.outputs[0]))
            run = spread(b, (b.xi(0), b.y[0]), partial(map_values, table=values))
            return _checked(b, run, defined_from) if defined_from else run
        if isinstance(make, np.ufunc):
            return spread(b, (b.xi(0), b.y[0]), lambda x, y: partial(make, x, out=y))
        run_plain: Run | None = make(b)
        return run_plain

    lower = _lower(device, table, defined_from)
    return op(
        name,
        infer,
        in_float32(bind),
        versions=versions,
        inplace=(0,),
        lower=lower,
        custom=custom,
    )


def _lower(device: Forms | str, table: Table | None, defined_from: str) -> Lower:
    forms = Forms(device) if isinstance(device, str) else device

    def lower(node: NodeSpec, capability: Capability) -> Lowered:
        check(node, capability)
        x = node.input(0)
        if table is not None and _quantized(node):
            below = Fault(f"$0 < {x.zero_point}", f"{defined_from}: {x.name!r} holds one below it")
            faults = (below,) if defined_from else ()
            return through_table(table(x, node.outputs[0]), *faults)
        return plain(forms.of(x))

    return lower


def _checked(b: Binding, run: Run, text: str) -> Run:
    x, zero = b.xi(0), b.input(0).zero_point

    def checked() -> None:
        if x.size and int(x.min()) < zero:
            raise OpError(f"{text}: {b.input(0).name!r} holds one below its zero point {zero}")
        run()

    return checked


def _make_rsqrt(b: Binding) -> Run | None:
    one = np.array(1, b.y[0].dtype)

    def make(x: Array, y: Array) -> Run:
        def run() -> None:
            np.sqrt(x, out=y)
            np.divide(one, y, out=y)

        return run

    return in_blocks(b, (b.xi(0), b.y[0]), make)


# -- quantised


def _abs_table(x: TensorSpec, y: TensorSpec) -> Array:
    values = np.abs(domain(x.dtype) - x.zero_point)
    if x.scale != y.scale:
        ratio = float(np.float32(x.scale) / np.float32(y.scale))
        values = multiply_by_quantized_multiplier(values, *quantize_multiplier(ratio))
    return saturate(values + y.zero_point, y.dtype)


def _exp_table(x: TensorSpec, y: TensorSpec) -> Array:
    return table_of(exactly(np.exp), x, y)


def _log_table(x: TensorSpec, y: TensorSpec) -> Array:
    least = np.float32(y.dtype.range()[0] - y.zero_point) * np.float32(y.scale)

    def log(v: Array) -> Array:
        return np.where(v <= 0, least, exactly(np.log)(v))

    return table_of(log, x, y)


def _sqrt_table(x: TensorSpec, y: TensorSpec) -> Array:
    """Rounded towards zero, as in the reference; inputs below zero are refused when it runs."""
    real = np.float32(x.scale) * np.maximum(domain(x.dtype) - x.zero_point, 0).astype(np.float32)
    stored = np.trunc(np.sqrt(real) / np.float32(y.scale)).astype(np.int64)
    return saturate(stored + y.zero_point, y.dtype)


def _rsqrt_table(x: TensorSpec, y: TensorSpec) -> Array:
    if x.dtype is DType.INT16:
        most = np.float32(32767) * np.float32(y.scale)

        def rsqrt(v: Array) -> Array:
            return np.where(v <= 0, most, np.float32(1) / np.sqrt(v))

        return table_of(rsqrt, x, y)
    q, shift = quantize_multiplier(float(1 / (np.sqrt(np.float32(x.scale)) * np.float32(y.scale))))
    value = np.maximum(domain(x.dtype) - x.zero_point, 0)
    inverse, inverse_shift = inverse_sqrt(value)
    bits = 20  # keeps the intermediate an integer
    fine = multiply_by_quantized_multiplier(np.ones_like(value), inverse, inverse_shift + bits)
    stored = multiply_by_quantized_multiplier(fine, q, shift - bits) + y.zero_point
    return saturate(np.where(value == 0, y.dtype.range()[1], stored), y.dtype)


_ABS = Forms("F_ABS($0)", "$0 < 0 ? (TYPE)((WRAP)0 - (WRAP)$0) : $0")
_NEGATIVE = Forms("-$0", "(TYPE)((WRAP)0 - (WRAP)$0)")
_SQUARE = Forms("$0 * $0", "(TYPE)((WRAP)$0 * (WRAP)$0)")
_SIGN = Forms("$0 > 0 ? 1 : $0 < 0 ? -1 : $0 == 0 ? 0 : $0", "($0 > 0) - ($0 < 0)")
_SIGNED = (*FLOATS, *_INTEGERS)

OPS: Mapping[str, Registration] = {
    r.name: r
    for r in (
        _row(
            "ABS",
            np.abs,
            _ABS,
            (*FLOATS, DType.INT32, DType.INT64, DType.INT16),
            (1, 5),
            _abs_table,
        ),
        _row("NEG", np.negative, _NEGATIVE, (*_SIGNED, *COMPLEX)),
        _row("SQUARE", np.square, _SQUARE, (*FLOATS, *WIDE_INTEGERS, *COMPLEX)),
        _row("SIGN", np.sign, _SIGN, _SIGNED, (1, 2)),
        _row("FLOOR", np.floor, "F_FLOOR($0)"),
        _row("CEIL", np.ceil, "F_CEIL($0)"),
        _row("ROUND", np.rint, "F_RINT($0)"),
        _row("EXP", np.exp, "F_EXP($0)", FLOATS, (1, 2), _exp_table),
        _row("LOG", np.log, "F_LOG($0)", FLOATS, (1, 2), _log_table),
        _row(
            "SQRT",
            np.sqrt,
            "F_SQRT($0)",
            FLOATS,
            (1, 2),
            _sqrt_table,
            defined_from="Sqrt is only defined for non-negative values",
        ),
        _row(
            "RSQRT",
            _make_rsqrt,
            "1 / F_SQRT($0)",
            FLOATS,
            (1, 3),
            _rsqrt_table,
            defined_from="Rsqrt is only defined for positive values",
        ),
        _row("SIN", np.sin, "F_SIN($0)", FLOATS, (1, 2)),
        _row("COS", np.cos, "F_COS($0)", FLOATS, (1, 2)),
        _row("STABLEHLO_ABS", np.abs, _ABS, _SIGNED),
        _row("STABLEHLO_NEGATE", np.negative, _NEGATIVE, (*FLOATS, *INTEGERS, *COMPLEX)),
        _row("STABLEHLO_LOGISTIC", bind_logistic, "1 / (1 + F_EXP(-$0))"),
        _row("STABLEHLO_COSINE", np.cos, "F_COS($0)", (*FLOATS, *COMPLEX)),
        _row("STABLEHLO_EXPONENTIAL", np.exp, "F_EXP($0)", (*FLOATS, *COMPLEX)),
        _row("STABLEHLO_FLOOR", np.floor, "F_FLOOR($0)"),
        _row("STABLEHLO_LOG", np.log, "F_LOG($0)", (*FLOATS, *COMPLEX)),
        _row("STABLEHLO_RSQRT", _make_rsqrt, "1 / F_SQRT($0)", (*FLOATS, *COMPLEX)),
        _row("STABLEHLO_TANH", np.tanh, "F_TANH($0)", (*FLOATS, *COMPLEX)),
        _row("STABLEHLO_CBRT", np.cbrt, "F_CBRT($0)"),
    )
}
