"""What the `lower` of many ops share: checks, and maps from expressions, tables and views."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ._quant import float_activation_range
from .api import NodeSpec, TensorSpec, Unsupported
from .device import C_TYPES, Capability, Fault, Kernel, Lowered, Map, Read, Step
from .types import Array, DType

Lower = Callable[[NodeSpec, Capability], Lowered]

_NEVER = (DType.STRING, DType.RESOURCE, DType.VARIANT, DType.COMPLEX64, DType.COMPLEX128)
_PACKED = (DType.INT4, DType.UINT4, DType.INT2, DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2)
HALVES = (DType.FLOAT16, DType.BFLOAT16)
# indices on devices are 32 bits
_MOST = 1 << 31


def refuse(code: str, got: str, takes: str) -> NoReturn:
    raise Unsupported(code, f"got {got}; takes {takes}")


def check(node: NodeSpec, capability: Capability) -> None:
    """What every device form needs of its tensors."""
    check_tensors((*node.inputs, *node.outputs), capability)


def check_tensors(specs: Sequence[TensorSpec | None], capability: Capability) -> None:
    for spec in specs:
        if spec is None:
            continue
        if spec.dtype in _NEVER or spec.dtype in _PACKED:
            refuse("DTYPE", f"{spec.name!r} of {spec.dtype.label}", "numbers of 8 to 64 bits")
        if spec.dtype is DType.FLOAT64 and not capability.fp64:
            refuse("DEVICE", f"float64 on {capability.name}", "float64 where the device has it")
        if spec.size >= _MOST:
            refuse("SHAPE", f"{spec}", f"fewer than {_MOST:,} elements")
        if spec.variable:
            refuse("OPTION", f"the variable {spec.name!r}", "tensors that nobody keeps")
        if spec.sparsity is not None:
            refuse("OPTION", f"the sparse {spec.name!r}", "dense tensors")


def types(node: NodeSpec, spec: TensorSpec, *dtypes: DType) -> None:
    if spec.dtype not in dtypes:
        takes = ", ".join(d.label for d in dtypes)
        refuse("DTYPE", f"{spec.name!r} of {spec.dtype.label}", takes)


def f32(value: float) -> str:
    """A float32 literal, exact."""
    v = float(np.float32(value))
    if math.isnan(v):
        return "AS_F32(0x7FC00000u)"
    if math.isinf(v):
        return f"AS_F32({'0x7F800000u' if v > 0 else '0xFF800000u'})"
    return f"({v.hex()}f)"


def literal(value: float, dtype: DType) -> str:
    """A number of that type, as text in its compute type."""
    if dtype is DType.FLOAT64:
        if not math.isfinite(value):
            return f"(f64){f32(value)}"
        return f"((f64){float(value).hex()})"
    if dtype.is_float:
        return f32(value)
    whole = int(value)
    if dtype is DType.UINT64:
        return (
            f"((u64){whole}u)"
            if whole < 1 << 32
            else f"(((u64){whole >> 32}u << 32) | {whole & 0xFFFFFFFF}u)"
        )
    if dtype is DType.UINT32:
        return f"{whole}u"
    if dtype is DType.INT64 and not -(1 << 31) < whole < 1 << 31:
        low = whole & 0xFFFFFFFF
        return f"(i64)(((u64){(whole >> 32) & 0xFFFFFFFF}u << 32) | {low}u)"
    # C has no literal of the least int32
    return f"({whole + 1} - 1)" if whole == -(1 << 31) else f"({whole})"


def stored_element(dtype: DType, pointer: str, index: str) -> str:
    """Element `index` of a pointer to anything, read as numbers of that type."""
    if dtype is DType.FLOAT16:
        return f"LOAD_HALF((CONST_ARG u16*){pointer}, {index})"
    if dtype is DType.BFLOAT16:
        return f"AS_F32((u32)((CONST_ARG u16*){pointer})[{index}] << 16)"
    return f"((CONST_ARG {C_TYPES[dtype]}*){pointer})[{index}]"


def f64(value: float) -> str:
    """A float64 literal, exact, of a finite number."""
    return f"({float(value).hex()})"


def plain(expression: str, *uses: str, reads: int = 1, faults: tuple[Fault, ...] = ()) -> Lowered:
    """One map over the first inputs, which broadcast."""
    return Lowered(
        [Map(expression, tuple(Read(i) for i in range(reads)), uses=uses, faults=faults)]
    )


@dataclass(frozen=True, slots=True)
class Forms:
    """A function of `$0`, `$1` … for each kind of number; "" where there is none.

    In `signed` and `unsigned`, TYPE is the integer type of the values and WRAP the unsigned one of
    its width, in which sums and products wrap. Without `unsigned`, `signed` serves both. `narrow`:
    the float form is of float32 alone, not float64.
    """

    floats: str = ""
    signed: str = ""
    unsigned: str = ""
    narrow: bool = False

    def of(self, spec: TensorSpec) -> str:
        """The function for numbers of that type; refuses where there is none."""
        if spec.dtype.is_float:
            text = "" if self.narrow and spec.dtype is DType.FLOAT64 else self.floats
        elif spec.dtype in _UNSIGNED:
            text = self.unsigned or self.signed
        else:
            text = self.signed
        if not text:
            takes = [n for n in ("floats", "signed", "unsigned") if getattr(self, n)]
            refuse("DTYPE", f"{spec.name!r} of {spec.dtype.label}", " and ".join(takes))
        own, wrap = _C_TYPES.get(spec.dtype, ("i32", "u32"))
        return text.replace("TYPE", own).replace("WRAP", wrap)


def same(text: str) -> Forms:
    """One text for all kinds of numbers."""
    return Forms(text, text)


_UNSIGNED = (DType.UINT32, DType.UINT64)  # smaller ones are computed as i32
_C_TYPES = {
    DType.INT64: ("i64", "u64"),
    DType.UINT64: ("u64", "u64"),
    DType.UINT32: ("u32", "u32"),
}


def activated(text: str, name: str, spec: TensorSpec) -> str:
    """An expression of plain numbers under a fused activation. Uses "arithmetic"."""
    low, high = float_activation_range(name)
    if math.isinf(low) and math.isinf(high):
        return text
    if spec.dtype in (DType.FLOAT64, DType.UINT64):
        refuse("OPTION", f"the activation {name} on {spec.dtype.label}", "NONE there")
    if spec.dtype.is_float:
        return f"clamp_f32({text}, {f32(low)}, {f32(high)})"
    text = f"(i64)({C_TYPES[spec.dtype]})({text})"  # it wraps first
    if not math.isinf(high):
        text = f"at_most_i64({text}, {int(high)})"
    return f"at_least_i64({text}, {int(low)})"


def through_table(table: Array, *faults: Fault, read: int = 0) -> Lowered:
    """Output for each stored 8- or 16-bit value of input `read`, in the order of bit patterns."""
    small = table.size == 256
    text = f"@0[({'u8' if small else 'u16'})$0]"
    stored = _storage(table)
    vector = "VCONVERT(i32, 16, LOOKUP_16(@0, $0))" if small and stored.itemsize == 1 else ""
    function = (lambda v: stored[v.view(np.uint8)]) if small else None
    reads = (Read(read),)
    return Lowered([Map(text, reads, (stored,), faults=faults, vector=vector, function=function)])


def through_pairs(table: Array, *faults: Fault) -> Lowered:
    """Output for each pair of stored 8-bit inputs: `table` is [256, 256], in bit patterns."""
    reads, index = (Read(0), Read(1)), "@0[((u32)(u8)$0 << 8) | (u8)$1]"
    stored = _storage(table)
    flat = (stored.reshape(-1),)
    return Lowered([Map(index, reads, flat, faults=faults, function=partial(_pairs, stored))])


def _pairs(table: Array, v0: Array, v1: Array) -> Array:
    return np.asarray(table[v0.view(np.uint8), v1.view(np.uint8)])


def _storage(table: Array) -> Array:
    return table.view(np.uint8) if table.dtype == np.bool_ else table


def view(node: NodeSpec, capability: Capability) -> Lowered:
    """Output 0 is input 0 in another shape. Other inputs are settled shapes."""
    for spec in (node.input(0), node.outputs[0]):
        if (spec.dtype in _NEVER and spec.dtype is not DType.COMPLEX64) or spec.variable:
            check(node, capability)
    return Lowered(view=0)


def layout(shape: Sequence[int], move: Callable[[Array], Array]) -> tuple[tuple[int, ...], Read]:
    """Shape and strides of a numpy view of a row-major tensor, as a read of input 0.

    `move` may slice, transpose, flip, reshape where that copies nothing, and broadcast.
    """
    strides, step = [], 1
    for d in reversed(shape):
        strides.append(step)
        step *= d
    origin = np.zeros(1, np.int8)  # never read: only addresses count
    whole = as_strided(origin, tuple(shape), tuple(reversed(strides)))
    part = move(whole)
    address = part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return part.shape, Read(0, strides=part.strides, offset=address if part.size else 0)


def moved(
    x: Sequence[int], move: Callable[[Array], Array], source: int = 0, output: int = 0
) -> Map:
    """A map that stores a view of input `source`, densely, to `output`."""
    shape, read = layout(x, move)
    own = Read(source, strides=read.strides, offset=read.offset)
    return Map("$0", (own,), shape=shape, output=output)


def placed(
    y: Sequence[int],
    move: Callable[[Array], Array],
    source: int,
    table: Array | None = None,
) -> Map:
    """A map that stores input `source`, through a table of bytes, to a view of output 0.

    `y`: the output's shape.
    """
    shape, place = layout(y, move)
    return Map(
        "$0" if table is None else "@0[(u8)$0]",
        (Read(source),),
        () if table is None else (table,),
        shape=shape,
        strides=place.strides,
        offset=place.offset,
        vector="" if table is None else "VCONVERT(i32, 16, LOOKUP_16(@0, $0))",
    )


def shifted(step: Step, reads: int, output: int) -> Step:
    """The step with its operands, tensors by number, and its output that much further on."""

    def source(s: int | Array) -> int | Array:
        return s + reads if isinstance(s, int) else s

    if isinstance(step, Kernel):
        moved_reads = tuple(source(s) for s in step.reads)
        return replace(step, reads=moved_reads, output=step.output + output)
    own = tuple(replace(r, source=source(r.source)) for r in step.reads)
    tables = tuple(source(t) for t in step.tables)
    return replace(step, reads=own, tables=tables, output=step.output + output)


def checked(lower: Lower) -> Lower:
    """`lower`, after `check`."""

    def with_check(node: NodeSpec, capability: Capability) -> Lowered:
        check(node, capability)
        return lower(node, capability)

    return with_check


def expression(text: str, *uses: str, reads: int = 1) -> Lower:
    """The `lower` of an op that is one expression of its inputs, whatever their type."""
    return checked(lambda node, capability: plain(text, *uses, reads=reads))


def indices(spec: TensorSpec) -> tuple[int, ...]:
    """The elements of a constant integer tensor."""
    return tuple(int(v) for v in values(spec).reshape(-1)) if spec.size else ()


def lanes_for(capability: Capability, size: int, most: int = 16) -> int:
    """Neighbours for one work-item: as many as divide `size` on a CPU, one on a GPU."""
    if capability.kind == "gpu":
        return 1
    return next(w for w in (16, 8, 4, 2, 1) if w <= most and size % w == 0)


def share_for(capability: Capability, count: int, least: int = 16) -> int:
    """Elements in turn for one work-item: a core's share on a CPU, one on a GPU."""
    if capability.kind == "gpu":
        return 1
    return max(1, min(count, max(least, -(-count // (4 * capability.compute_units)))))


def values(spec: TensorSpec) -> Array:
    """The value of a constant, refused where it is none."""
    if spec.const is None:
        refuse("NOT_CONSTANT", f"{spec.name!r}, which is computed", "a constant there")
    return spec.const
