"""Arithmetic on devices: expressions of two values, floats, integers that wrap, and quantised."""

from __future__ import annotations

from ._check import BYTES
from ._division import activation_of, is_quantized
from ._lower import Forms, Lower, activated, check, plain, refuse, same
from ._quantized_binary import (
    Function,
    lower_quantized,
    quantized_div,
    quantized_squared_difference,
)
from ._widen import FLOATS
from .api import NodeSpec
from .device import Capability, Fault, Lowered
from .types import DType

# what std::max and std::min give: the first where either is NaN
HLO_LARGER, HLO_LESSER = same("$0 < $1 ? $1 : $0"), same("$1 < $0 ? $1 : $0")
SUM, DIFFERENCE, PRODUCT = (
    Forms(f"$0 {sign} $1", f"(TYPE)((WRAP)$0 {sign} (WRAP)$1)") for sign in "+-*"
)
_FINITE = "clamp_f32($0 / $1, -3.402823466e38f, 3.402823466e38f)"
QUOTIENT = Forms("$0 / $1", "divide_TYPE($0, $1)", "$1 == 0 ? 0 : $0 / $1")


def lower_binary(
    forms: Forms, quantized: Function | None = None, checks_divisor: bool = False
) -> Lower:
    """`checks_divisor`: a divisor of 0 is an error, on integers."""

    def lower(node: NodeSpec, capability: Capability) -> Lowered:
        check(node, capability)
        x, y, divisor = node.input(0), node.outputs[0], node.input(1)
        if quantized is not None and (is_quantized(node) or y.dtype in BYTES):
            zero = f"$1 == {divisor.zero_point}"
            text = f"Division by 0: {divisor.name!r} holds its zero point"
            faults = (Fault(zero, text),) if checks_divisor else ()
            return lower_quantized(node, capability, quantized(node), *faults)
        text = activated(forms.of(x), activation_of(node), x)
        faults = ()
        if checks_divisor and (node.op.startswith("FLOOR_D") or not x.dtype.is_float):
            faults = (Fault("$1 == 0", f"Division by 0: {divisor.name!r} holds a zero"),)
        return plain(text, "arithmetic", reads=2, faults=faults)

    return lower


def lower_div(node: NodeSpec, capability: Capability) -> Lowered:
    """Floats stay finite, but not with a fused activation."""
    forms = QUOTIENT
    if activation_of(node) == "NONE" and node.input(0).dtype in FLOATS:
        if node.input(0).dtype is not DType.FLOAT32:
            refuse("DTYPE", f"{node.input(0).name!r} of {node.input(0).dtype.label}", "float32")
        forms = Forms(_FINITE)
    return lower_binary(forms, quantized_div, True)(node, capability)


def lower_floor_div(node: NodeSpec, capability: Capability) -> Lowered:
    if node.input(0).dtype in FLOATS and not capability.fp64:
        refuse("DEVICE", f"floats on {capability.name}", "a device that has float64")
    return lower_binary(_FLOOR_QUOTIENT, None, True)(node, capability)


_FLOOR_QUOTIENT = Forms(
    "F_FLOOR((f64)$0 / (f64)$1)", "floor_divide_TYPE($0, $1)", "$1 == 0 ? 0 : $0 / $1"
)
FLOOR_REMAINDER = Forms(
    "floor_mod_f32($0, $1)", "floor_mod_TYPE($0, $1)", "$1 == 0 ? 0 : $0 % $1", narrow=True
)


REMAINDER = Forms("F_MOD($0, $1)", "$1 == 0 || $1 == -1 ? 0 : $0 % $1", "$1 == 0 ? 0 : $0 % $1")


def lower_squared_difference(node: NodeSpec, capability: Capability) -> Lowered:
    if node.input(0).dtype in BYTES:
        check(node, capability)
        return lower_quantized(node, capability, quantized_squared_difference(node))
    x = node.input(0)
    check(node, capability)
    forms = Forms("($0 - $1) * ($0 - $1)", "(TYPE)(((WRAP)$0 - (WRAP)$1) * ((WRAP)$0 - (WRAP)$1))")
    return plain(forms.of(x), reads=2)


def lower_add_n(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    n, x = len(node.inputs), node.input(0)
    forms = Forms(
        " + ".join(f"${i}" for i in range(n)),
        f"(TYPE)({' + '.join(f'(WRAP)${i}' for i in range(n))})",
    )
    return plain(forms.of(x), reads=n)
