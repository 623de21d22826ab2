"""Arithmetic on two tensors, with broadcasting: ADD, SUB, MUL, DIV, MAXIMUM, POW and their kin.

Infinite sums and products stay infinite. The reference clamps them to the greatest finite float,
with XNNPACK they are infinite too; only DIV, where a zero is all it takes, follows the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ._broadcast import broadcast_shape, operands
from ._check import (
    BYTES,
    COMPLEX,
    INTEGERS,
    WIDE_INTEGERS,
    arity,
    gives,
    same_type,
    scaled,
    symmetric,
)
from ._elementwise import clamp, in_blocks, sequence
from ._lower import Forms, Lower, activated, check, plain, refuse, same
from ._quant import activation_range, float_activation_range
from ._quantized_binary import (
    Function,
    bind_quantized,
    lower_quantized,
    quantized_add,
    quantized_div,
    quantized_mul,
    quantized_squared_difference,
    quantized_sub,
)
from ._widen import FLOATS, in_float32
from .api import Bind, Binding, NodeSpec, OpError, Registration, Run, Shape, op, take
from .device import Capability, Fault, Lowered
from .types import Array, DType

_NUMBERS = (*FLOATS, *WIDE_INTEGERS, *BYTES)


def _is_quantized(node: NodeSpec | Binding) -> bool:
    """8-bit numbers stand for reals, int16 ones where a scale is given; StableHLO has none such."""
    if node.op.startswith("STABLEHLO_"):
        return False
    x, y = node.input(0), node.outputs[0]
    return x.dtype in BYTES or (
        x.dtype is DType.INT16 and any(s.quant is not None and s.scale > 0 for s in (x, y))
    )


def _activation(node: NodeSpec | Binding) -> str:
    name: str = node.options.get("fused_activation_function", "NONE")
    return name


def _infer(node: NodeSpec, *dtypes: DType) -> list[Shape]:
    arity(node, 2)
    a, b = node.input(0), node.input(1)
    take(node, "input 0", a, *dtypes)
    same_type(node, a, b)
    gives(node, a.dtype)
    float_activation_range(_activation(node))
    if a.dtype in COMPLEX and _activation(node) != "NONE":
        raise OpError(
            f"Activation is not allowed for {a.dtype.label} input: got {_activation(node)}; "
            f"{node.op} takes NONE with complex types"
        )
    return [broadcast_shape(node, a, b)]


def _infer_quantizable(node: NodeSpec, *dtypes: DType) -> list[Shape]:
    """`_infer`, for ops whose 8-bit and int16 tensors are quantised."""
    shapes = _infer(node, *dtypes)
    if _is_quantized(node):
        scaled(node, node.input(0), node.input(1), node.outputs[0])
        activation_range(_activation(node), node.outputs[0])
    return shapes


def _infer_symmetric(node: NodeSpec, *dtypes: DType) -> list[Shape]:
    """`_infer_quantizable`, for ops whose int16 arithmetic has no zero points."""
    shapes = _infer_quantizable(node, *dtypes)
    if node.input(0).dtype is DType.INT16 and _is_quantized(node):
        symmetric(node, node.input(0), node.input(1), node.outputs[0])
    return shapes


def _infer_mul(node: NodeSpec, *dtypes: DType) -> list[Shape]:
    """MUL also multiplies int16 numbers in [-1, 1) to 8 bits."""
    arity(node, 2)
    if node.input(0).dtype is DType.INT16 and node.outputs[0].dtype in BYTES:
        same_type(node, node.input(0), node.input(1))
        scaled(node, node.outputs[0])
        activation_range(_activation(node), node.outputs[0])
        return [broadcast_shape(node, node.input(0), node.input(1))]
    return _infer_symmetric(node, *dtypes)


def _apply(b: Binding, ufunc: Callable[..., Any], repeat_scalars: bool = False) -> Run:
    """One ufunc call, and the clamp of a fused activation."""
    (x0, x1), y = _views(b, b.y[0], repeat_scalars)
    run = partial(ufunc, x0, x1, out=y)
    return sequence(run, clamp(y, _activation(b))) or run


def _views(b: Binding, y: Array, repeat_scalars: bool = False) -> tuple[list[Array], Array]:
    constant = [b.input(i).const is not None for i in (0, 1)]
    return operands(b.y[0].shape, [b.xi(0), b.xi(1)], constant, y, repeat_scalars)


def _ufunc(ufunc: Callable[..., Any], quantized: Function | None = None) -> Bind:
    def bind(b: Binding) -> Run | None:
        if quantized is not None and (_is_quantized(b) or b.outputs[0].dtype in BYTES):
            return bind_quantized(b, quantized(b))
        return _apply(b, ufunc)

    return bind


def _guarded(b: Binding, run: Run | None) -> Run:
    """`run`, after a check that no divisor is 0."""
    divisor = b.xi(1)

    def checked() -> None:
        if not divisor.all():
            raise OpError(f"Division by 0: {b.input(1).name!r} holds a zero")
        if run is not None:
            run()

    return checked


def _bind_div(b: Binding) -> Run | None:
    dtype = b.input(0).dtype
    if _is_quantized(b):
        run = bind_quantized(b, quantized_div(b))
        zero = np.array(b.input(1).zero_point, b.xi(1).dtype)
        divisor = b.xi(1)

        def checked() -> None:
            if (divisor == zero).any():
                raise OpError(f"Division by 0: {b.input(1).name!r} holds its zero point")
            run()

        return checked
    if dtype in INTEGERS:
        return _guarded(b, _truncated_quotient(b))
    y = b.y[0]
    if dtype in COMPLEX:
        return _apply(b, np.divide)
    # as in the reference, DIV by zero gives the greatest finite number
    greatest = np.finfo(y.dtype).max
    finite = partial(y.clip, np.array(-greatest), np.array(greatest), y)
    clamped = b.op == "DIV" and _activation(b) == "NONE"
    return sequence(_apply(b, np.divide), finite if clamped else None)


def _truncated_quotient(b: Binding) -> Run:
    """C's integer division: towards zero."""
    y = b.y[0]
    (x0, x1), _ = _views(b, y)
    # int32 quotients are exact in float64; int64 ones need the remainder
    if b.input(0).dtype in (DType.INT64, DType.UINT64):

        def wide() -> None:
            quotient, remainder = np.divmod(x0, x1)
            quotient += (remainder != 0) & ((x0 < 0) != (x1 < 0))
            np.copyto(y, quotient.reshape(y.shape))

        return sequence(wide, clamp(y, _activation(b))) or wide
    real = b.scratch(y.shape, np.float64)
    (x0, x1), view = _views(b, real)

    def run() -> None:
        np.divide(x0, x1, out=view)
        np.trunc(real, out=real)
        np.copyto(y, real, casting="unsafe")

    return sequence(run, clamp(y, _activation(b))) or run


def _bind_floor_div(b: Binding) -> Run | None:
    y = b.y[0]
    if y.dtype.kind != "f":
        return _guarded(b, _apply(b, np.floor_divide))
    # the quotient is taken in double precision, as in the reference
    real = b.scratch(y.shape, np.float64)
    (x0, x1), view = _views(b, real)

    def run() -> None:
        np.divide(x0, x1, out=view, dtype=np.float64)
        np.floor(real, out=real)
        np.copyto(y, real, casting="unsafe")

    return _guarded(b, run)


def _bind_floor_mod(b: Binding) -> Run | None:
    x, divisor, y = b.xi(0), b.xi(1).reshape(-1), b.y[0]
    if y.dtype.kind != "f" and divisor.size == 1 and x.shape == y.shape:
        # numpy divides by one number ten times as fast as it finds remainders
        make = partial(_floor_mod_block, divisor)
        return _guarded(b, in_blocks(b, (x, y), make, (y.dtype,)))
    run = _apply(b, np.remainder)
    return run if b.y[0].dtype.kind == "f" else _guarded(b, run)


def _floor_mod_block(divisor: Array, x: Array, y: Array, work: Array) -> Run:
    def run() -> None:
        np.floor_divide(x, divisor[0], out=work)
        np.multiply(work, divisor, out=work)
        np.subtract(x, work, out=y)

    return run


def _bind_remainder(b: Binding) -> Run | None:
    """C's remainder: the sign of the dividend."""
    run = _apply(b, np.fmod)
    return run if b.y[0].dtype.kind == "f" else _guarded(b, run)


def _bind_maximum(b: Binding) -> Run | None:
    return _extreme(b, np.maximum, np.fmax)


def _bind_minimum(b: Binding) -> Run | None:
    return _extreme(b, np.minimum, np.fmin)


def _extreme(
    b: Binding, keeps_nan: Callable[..., Any], drops_nan: Callable[..., Any]
) -> Run | None:
    """Where either is NaN: the second of MAXIMUM and MINIMUM, `x0 > x1 ? x0 : x1` in C; the first
    of the StableHLO forms, `std::max(x0, x1)`."""
    if b.y[0].dtype.kind != "f":
        return _apply(b, keeps_nan, repeat_scalars=True)
    kept = 0 if b.op.startswith("STABLEHLO_") else 1
    if not _has_nan(b, kept):
        return _apply(b, drops_nan, repeat_scalars=True)
    if not _has_nan(b, 1 - kept):
        return _apply(b, keeps_nan, repeat_scalars=True)
    x, y = _views(b, b.y[0])
    return sequence(partial(drops_nan, *x, out=y), partial(keeps_nan, y, x[kept], out=y))


def _has_nan(b: Binding, i: int) -> bool:
    const = b.input(i).const
    return const is None or bool(np.isnan(b.xi(i)).any())


def _bind_pow(b: Binding) -> Run | None:
    y, exponent = b.y[0], b.xi(1)
    if y.dtype.kind != "f":
        return _integer_pow(b)
    if b.input(1).const is not None and exponent.size == 1 and b.xi(0).shape == y.shape:
        value = float(exponent.reshape(-1)[0])
        if value == 2.0:
            return partial(np.square, b.xi(0), y)
        if value == 1.0:
            return None if np.shares_memory(b.xi(0), y) else partial(np.copyto, y, b.xi(0))
    return _apply(b, np.power)


def _integer_pow(b: Binding) -> Run | None:
    """In double precision, as in the reference: what does not fit becomes the least integer."""
    y, exponent = b.y[0], b.xi(1)
    real = b.scratch(y.shape, np.float64)
    (x0, x1), view = _views(b, real)
    least, end = float(np.iinfo(y.dtype).min), -float(np.iinfo(y.dtype).min)

    def run() -> None:
        if (exponent < 0).any():
            raise OpError(
                f"POW does not support negative value for {b.input(1).dtype.label}: "
                f"{b.input(1).name!r} holds {exponent.min()}"
            )
        np.power(x0, x1, out=view, dtype=np.float64)
        real[(real >= end) | (real < least)] = least
        np.copyto(y, real, casting="unsafe")

    return run


def _bind_stablehlo_power(b: Binding) -> Run | None:
    """Integers wrap; those to a negative power are 0, but for 1 and -1."""
    if b.y[0].dtype.kind == "f":
        return _bind_pow(b)
    x, exponent, y = b.xi(0), b.xi(1), b.y[0]

    def run() -> None:
        negative = exponent < 0
        vanishes = negative & (np.abs(x) != 1)
        # 1 and -1 to a negative power: what its lowest bit gives
        np.power(x, np.where(negative, exponent & 1, exponent), out=y)
        y[vanishes] = 0

    return run


def _bind_squared_difference(b: Binding) -> Run | None:
    if b.input(0).dtype in BYTES:
        return bind_quantized(b, quantized_squared_difference(b))
    return sequence(_apply(b, np.subtract), partial(np.multiply, b.y[0], b.y[0], b.y[0]))


def _infer_squared_difference(node: NodeSpec, *dtypes: DType) -> list[Shape]:
    shapes = _infer(node, *dtypes)
    if node.input(0).dtype in BYTES:
        scaled(node, node.input(0), node.input(1), node.outputs[0])
    return shapes


def _infer_add_n(node: NodeSpec, *dtypes: DType) -> list[Shape]:
    if len(node.inputs) < 1:
        raise OpError("ADD_N has no input; it takes one or more")
    arity(node, len(node.inputs))
    first = node.input(0)
    take(node, "input 0", first, *dtypes)
    gives(node, first.dtype)
    for i in range(1, len(node.inputs)):
        spec = node.input(i)
        same_type(node, first, spec)
        if spec.shape != first.shape:
            raise OpError(
                f"input {i} {spec.name!r} has shape {list(spec.shape)} and input 0 "
                f"{list(first.shape)}; ADD_N takes inputs of one shape"
            )
    return [first.shape]


def _bind_add_n(b: Binding) -> Run | None:
    x, y = [b.xi(i) for i in range(len(b.inputs))], b.y[0]
    if len(x) == 1:
        return None if np.shares_memory(x[0], y) else partial(np.copyto, y, x[0])
    rest = (partial(np.add, y, a, y) for a in x[2:])
    return sequence(partial(np.add, x[0], x[1], y), *rest)


def _infer_atan2(node: NodeSpec, *dtypes: DType) -> list[Shape]:
    shapes = _infer(node, *dtypes)
    if node.input(0).shape != node.input(1).shape:
        raise OpError(
            f"inputs of shapes {list(node.input(0).shape)} and {list(node.input(1).shape)}; "
            "ATAN2 takes one shape"
        )
    return shapes


# -- devices

# what std::max and std::min give: the first where either is NaN
_HLO_LARGER, _HLO_LESSER = same("$0 < $1 ? $1 : $0"), same("$1 < $0 ? $1 : $0")
_SUM, _DIFFERENCE, _PRODUCT = (
    Forms(f"$0 {sign} $1", f"(TYPE)((WRAP)$0 {sign} (WRAP)$1)") for sign in "+-*"
)
_FINITE = "clamp_f32($0 / $1, -3.402823466e38f, 3.402823466e38f)"
_QUOTIENT = Forms("$0 / $1", "divide_TYPE($0, $1)", "$1 == 0 ? 0 : $0 / $1")


def _lower(forms: Forms, quantized: Function | None = None, checks_divisor: bool = False) -> Lower:
    """`checks_divisor`: a divisor of 0 is an error, on integers."""

    def lower(node: NodeSpec, capability: Capability) -> Lowered:
        check(node, capability)
        x, y, divisor = node.input(0), node.outputs[0], node.input(1)
        if quantized is not None and (_is_quantized(node) or y.dtype in BYTES):
            zero = f"$1 == {divisor.zero_point}"
            text = f"Division by 0: {divisor.name!r} holds its zero point"
            faults = (Fault(zero, text),) if checks_divisor else ()
            return lower_quantized(node, capability, quantized(node), *faults)
        text = activated(forms.of(x), _activation(node), x)
        faults = ()
        if checks_divisor and (node.op.startswith("FLOOR_D") or not x.dtype.is_float):
            faults = (Fault("$1 == 0", f"Division by 0: {divisor.name!r} holds a zero"),)
        return plain(text, "arithmetic", reads=2, faults=faults)

    return lower


def _lower_div(node: NodeSpec, capability: Capability) -> Lowered:
    """Floats stay finite, but not with a fused activation."""
    forms = _QUOTIENT
    if _activation(node) == "NONE" and node.input(0).dtype in FLOATS:
        if node.input(0).dtype is not DType.FLOAT32:
            refuse("DTYPE", f"{node.input(0).name!r} of {node.input(0).dtype.label}", "float32")
        forms = Forms(_FINITE)
    return _lower(forms, quantized_div, True)(node, capability)


def _lower_floor_div(node: NodeSpec, capability: Capability) -> Lowered:
    if node.input(0).dtype in FLOATS and not capability.fp64:
        refuse("DEVICE", f"floats on {capability.name}", "a device that has float64")
    return _lower(_FLOOR_QUOTIENT, None, True)(node, capability)


_FLOOR_QUOTIENT = Forms(
    "F_FLOOR((f64)$0 / (f64)$1)", "floor_divide_TYPE($0, $1)", "$1 == 0 ? 0 : $0 / $1"
)
_FLOOR_REMAINDER = Forms(
    "floor_mod_f32($0, $1)", "floor_mod_TYPE($0, $1)", "$1 == 0 ? 0 : $0 % $1", narrow=True
)


_REMAINDER = Forms("F_MOD($0, $1)", "$1 == 0 || $1 == -1 ? 0 : $0 % $1", "$1 == 0 ? 0 : $0 % $1")


def _lower_squared_difference(node: NodeSpec, capability: Capability) -> Lowered:
    if node.input(0).dtype in BYTES:
        check(node, capability)
        return lower_quantized(node, capability, quantized_squared_difference(node))
    x = node.input(0)
    check(node, capability)
    forms = Forms("($0 - $1) * ($0 - $1)", "(TYPE)(((WRAP)$0 - (WRAP)$1) * ((WRAP)$0 - (WRAP)$1))")
    return plain(forms.of(x), reads=2)


def _lower_add_n(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    n, x = len(node.inputs), node.input(0)
    forms = Forms(
        " + ".join(f"${i}" for i in range(n)),
        f"(TYPE)({' + '.join(f'(WRAP)${i}' for i in range(n))})",
    )
    return plain(forms.of(x), reads=n)


def _row(
    name: str,
    bind: Bind,
    dtypes: tuple[DType, ...],
    versions: tuple[int, int] = (1, 1),
    infer: Callable[..., list[Shape]] = _infer,
    inplace: tuple[int, ...] = (0, 1),
    lower: Lower | None = None,
    custom: bool = False,
) -> Registration:
    def checked(node: NodeSpec) -> list[Shape]:
        return infer(node, *dtypes)

    return op(
        name,
        checked,
        in_float32(bind),
        versions=versions,
        inplace=inplace,
        lower=lower,
        custom=custom,
    )


_ALL = (*_NUMBERS, *COMPLEX)

OPS: Mapping[str, Registration] = {
    r.name: r
    for r in (
        _row(
            "ADD",
            _ufunc(np.add, quantized_add),
            _ALL,
            (1, 6),
            _infer_symmetric,
            lower=_lower(_SUM, quantized_add),
        ),
        _row(
            "SUB",
            _ufunc(np.subtract, quantized_sub),
            _ALL,
            (1, 5),
            _infer_symmetric,
            lower=_lower(_DIFFERENCE, quantized_sub),
        ),
        _row(
            "MUL",
            _ufunc(np.multiply, quantized_mul),
            _ALL,
            (1, 8),
            _infer_mul,
            lower=_lower(_PRODUCT, quantized_mul),
        ),
        _row("DIV", _bind_div, _ALL, (1, 2), _infer_quantizable, lower=_lower_div),
        _row(
            "MAXIMUM",
            _bind_maximum,
            _NUMBERS,
            (1, 4),
            inplace=(0,),
            lower=_lower(same("$0 > $1 ? $0 : $1")),
        ),
        _row(
            "MINIMUM",
            _bind_minimum,
            _NUMBERS,
            (1, 4),
            inplace=(0,),
            lower=_lower(same("$0 < $1 ? $0 : $1")),
        ),
        _row(
            "POW",
            _bind_pow,
            (*FLOATS, DType.INT32, DType.INT64),
            lower=_lower(Forms("F_POW($0, $1)")),
        ),
        _row("FLOOR_DIV", _bind_floor_div, _NUMBERS, (1, 3), lower=_lower_floor_div),
        _row(
            "FLOOR_MOD",
            _bind_floor_mod,
            _NUMBERS,
            (1, 2),
            lower=_lower(_FLOOR_REMAINDER, None, True),
        ),
        _row(
            "SQUARED_DIFFERENCE",
            _bind_squared_difference,
            (*FLOATS, *WIDE_INTEGERS, DType.INT8, DType.UINT8),
            (1, 2),
            _infer_squared_difference,
            lower=_lower_squared_difference,
        ),
        _row(
            "ADD_N",
            _bind_add_n,
            (*FLOATS, *WIDE_INTEGERS),
            infer=_infer_add_n,
            inplace=(0,),
            lower=_lower_add_n,
        ),
        _row(
            "ATAN2",
            _ufunc(np.arctan2),
            FLOATS,
            infer=_infer_atan2,
            lower=_lower(Forms("F_ATAN2($0, $1)")),
        ),
        _row("STABLEHLO_ADD", _ufunc(np.add), (*_ALL, DType.BOOL), lower=_lower(_SUM)),
        _row("STABLEHLO_SUBTRACT", _ufunc(np.subtract), _ALL, lower=_lower(_DIFFERENCE)),
        _row(
            "STABLEHLO_MULTIPLY", _ufunc(np.multiply), (*_ALL, DType.BOOL), lower=_lower(_PRODUCT)
        ),
        _row("STABLEHLO_DIVIDE", _bind_div, _ALL, lower=_lower(_QUOTIENT, None, True)),
        _row(
            "STABLEHLO_MAXIMUM",
            _bind_maximum,
            (*_NUMBERS, DType.BOOL),
            inplace=(1,),
            lower=_lower(_HLO_LARGER),
        ),
        _row(
            "STABLEHLO_MINIMUM",
            _bind_minimum,
            (*_NUMBERS, DType.BOOL),
            inplace=(1,),
            lower=_lower(_HLO_LESSER),
        ),
        _row(
            "STABLEHLO_POWER",
            _bind_stablehlo_power,
            (*FLOATS, *WIDE_INTEGERS, *BYTES),
            lower=_lower(Forms("F_POW($0, $1)", "(TYPE)power_TYPE($0, $1)", "power_WRAP($0, $1)")),
        ),
        _row(
            "STABLEHLO_REMAINDER",
            _bind_remainder,
            _NUMBERS,
            lower=_lower(_REMAINDER, None, True),
        ),
    )
}
