"""Device forms of ops that move rows to or from places that are computed: text of indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ._lower import HALVES
from ._reduction_lower import sum_type
from .api import NodeSpec, TensorSpec
from .device import Capability, Kernel, Lowered, Map, Read
from .types import Array, DType

# elements of a row from which on a CPU shares a single row out
_LONG_ROW = 4096


def coordinates(i: str, shape: Sequence[int]) -> list[str]:
    """Texts of the coordinates of flat index `i` in a row-major `shape`."""
    found, below = [], 1
    for axis in range(len(shape) - 1, -1, -1):
        if shape[axis] == 1:
            found.append("0")
            continue
        text = i if below == 1 else f"({i} / {below})"
        rest = math.prod(shape[:axis])
        found.append(text if rest == 1 else f"({text} % {shape[axis]})")
        below *= shape[axis]
    return found[::-1]


def strides_of(shape: Sequence[int]) -> list[int]:
    """Elements between neighbours along each dimension."""
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def dot(positions: Sequence[str], strides: Sequence[int]) -> str:
    """Text of the flat index of these coordinates."""
    terms = [
        p if s == 1 else f"{p} * {s}"
        for p, s in zip(positions, strides, strict=True)
        if p != "0" and s
    ]
    return " + ".join(terms) or "0"


def rows(
    capability: Capability,
    count: int,
    inner: int,
    place: str,
    reads: Sequence[int | Array],
    faults: Sequence[str] = (),
    fill: str = "",
    value: str = "",
    uses: Sequence[str] = (),
    output: int = 0,
) -> Kernel:
    """Copies `count` rows of `inner` elements of `reads[0]`.

    `place`: statements that set `from` and `to` for row `r`; unset they are r * inner; with a fault
    they set `bad`. `fill`: what a row with a negative `from` holds. `value`: the text of element
    `at`, LOAD0(at) by default.
    """
    defines: dict[str, object] = {
        "PLACE": place,
        "BAD": "FAULT0" if faults else "",
        "COUNT": count,
        "INNER": max(inner, 1),
        "HOLES": int(bool(fill)),
        "FILL": fill or "0",
    }
    if value:
        defines["VALUE(at)"] = f"({value})"
    if capability.kind == "gpu":
        defines |= {"EACH": 0, "WIDTH": 1}
        grid: tuple[int, ...] = (count * inner,)
    else:
        units = 4 * capability.compute_units
        each = max(1, -(-count // units), min(count, -(-256 // max(inner, 1))))
        width = max(inner, 1)
        if inner >= _LONG_ROW and count < units:
            width = -(-inner // units)
        defines |= {"EACH": each, "WIDTH": width}
        grid = (-(-inner // width), -(-count // each))
    return Kernel("rows", tuple(reads), grid, defines, tuple(uses), output, faults=tuple(faults))


def scattered(
    capability: Capability,
    count: int,
    inner: int,
    out_rows: int,
    place: str,
    put: str,
    reads: Sequence[int | Array],
    faults: Sequence[str] = (),
    value: str = "LOAD0(r * INNER + j)",
    output: int = 0,
) -> Kernel:
    """`put` for each element of `count` rows, in order, where `place` sets `to` for row `r`.

    What it fills must be filled before: it may store to no row, or to one several times.
    """
    units = 4 * capability.compute_units
    width = 1 if capability.kind == "gpu" else max(1, inner)
    blocks = max(1, min(out_rows, units * (4 if capability.kind == "gpu" else 1)))
    block = -(-max(out_rows, 1) // blocks)
    defines = {
        "PLACE": place,
        "PUT(at, v)": put,
        "VALUE(r, j)": f"({value})",
        "COUNT": count,
        "INNER": max(inner, 1),
        "WIDTH": width,
        "BLOCK": block,
    }
    grid = (-(-max(inner, 1) // width), -(-max(out_rows, 1) // block))
    return Kernel(
        "scatter", tuple(reads), grid, defines, output=output, faults=tuple(faults), raw=True
    )


def combining(combine: str, dtype: DType) -> str:
    """`put` of `scattered` that keeps `combine` of `(a)`, what is there, and `(v)`.

    Integers wrap; halves are those of `in_float32_scratch`.
    """
    kind = sum_type(dtype)
    wide = _WRAPPING.get(kind, kind) if "?" not in combine else kind
    text = combine.replace("(a)", "a_").replace("(v)", "v_")
    return (
        f"do {{ const {wide} a_ = ({wide})OUT[at], v_ = ({wide})(v); "
        f"OUT[at] = ({kind})({text}); }} while (0)"
    )


_WRAPPING = {"i32": "u32", "i64": "u64"}


def in_float32_scratch(node: NodeSpec, start: str, put: Kernel) -> Lowered:
    """Fills output 0 with `start`, then runs `put`; sums of halves are rounded at the end."""
    y = node.outputs[0]
    if y.dtype not in HALVES:
        return Lowered([Map(start, ()), put])
    wide = len(node.outputs)
    steps: list[Map | Kernel] = [
        Map(start, (), output=wide, shape=y.shape),
        replace(put, output=wide),
        Map(reads=(Read(len(node.inputs)),)),
    ]
    return Lowered(steps, scratch=[(y.shape, DType.FLOAT32)])


def separable(capability: Capability, tables: Sequence[Sequence[int]], x: Sequence[int]) -> Kernel:
    """y[c0, c1, …] = x[tables[0][c0], tables[1][c1], …]; trailing identities are moved whole."""
    shape, strides = [len(t) for t in tables], strides_of(x)
    keep = len(tables)
    while keep and list(tables[keep - 1]) == list(range(x[keep - 1])):
        keep -= 1
    inner = math.prod(shape[keep:])
    parts = [np.asarray(t, np.int64) * s for t, s in zip(tables[:keep], strides, strict=False)]
    flat = np.concatenate([*parts, np.zeros(1, np.int64)]).astype(np.int32)
    starts = np.cumsum([0, *shape[:keep]])
    terms = [
        f"IN1[{start} + {c}]"
        for start, c in zip(starts, coordinates("r", shape[:keep]), strict=False)
    ]
    place = f"from = {' + '.join(terms) or '0'};"
    return rows(capability, math.prod(shape[:keep]), inner, place, (0, flat))


def clamped_starts(specs: Sequence[TensorSpec], limits: Sequence[int], first: int) -> list[str]:
    """Texts of start indices, moved into 0 .. limit: one vector, or one scalar for each dimension.

    They are read by LOAD`first`, LOAD`first + 1` … Uses "arithmetic".
    """
    found = [f"LOAD{first + k}({i})" for k, spec in enumerate(specs) for i in range(spec.size)]
    return [
        f"(i32)at_least_i64(at_most_i64((i64){text}, {limit}), 0)"
        for text, limit in zip(found, limits, strict=True)
    ]
