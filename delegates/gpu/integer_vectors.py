"""Maps of small integers on CPUs: 16 neighbours at once, where all maps of a kernel allow it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from ...kernels.device import Capability
from ...kernels.types import DType
from .indexing import Strides, collapse, index_text, row_major, strides_of
from .texts import Bodied, Mapped, Operand

_TYPES = {DType.INT8: "i8", DType.UINT8: "u8", DType.INT16: "i16", DType.INT32: "i32"}
_STORED = (DType.INT8, DType.UINT8, DType.INT16)
_LANES = 16
Body = tuple[str, tuple[int, ...], None]


class Writer(Protocol):
    """What the text of a kernel is made with."""

    capability: Capability

    def pointer(self, operand: Operand, written: bool = False) -> str: ...

    def fresh(self) -> str: ...

    def value_text(self, mapped: Mapped, names: Sequence[str], expression: str, index: str) -> str:
        """`expression` of values `names`, and what it uses noted."""
        ...


def integer_chain(writer: Writer, first: Bodied, rest: Sequence[Mapped]) -> str | None:
    """Lines from the vector `given_`, 16 of i32 at `at_` within a row of what `first` stores, to
    the store of what `rest` make of it. None where one of these works on single values alone.
    """
    out = first.output
    if writer.capability.kind != "cpu" or not out.shape or out.dtype not in _STORED:
        return None
    if not _work(rest, out.dtype):
        return None
    row = int(str(first.step.defines.get("VECTOR_ROW", out.shape[-1])))
    value, place = "given_", "at_"
    lines: list[str] = []
    for mapped in rest:
        names = []
        for i, operand in enumerate(mapped.reads):
            if operand is None:
                names.append(value)
                continue
            strides, offset = strides_of(mapped, i)
            along = _along(mapped.shape, strides, row)
            if along is None:
                return None
            at = index_text(mapped.shape, strides, offset, "at_")
            names.append(_load(writer, lines, operand, at, along))
        value = _evaluate(writer, lines, mapped, names, "at_")
        if mapped.step.strides is not None:
            if _along(mapped.shape, mapped.step.strides, row) != 1:
                return None
            place = index_text(mapped.shape, mapped.step.strides, mapped.step.offset, "at_")
        out = mapped.output
    return " ".join([*lines, _store(writer, out, value, place)])


def integer_body(writer: Writer, maps: Sequence[Mapped], units: int) -> Body | None:
    """A kernel of maps alone. `units`: work-items into which it may be cut."""
    size = math.prod(maps[0].shape)
    if not any(m.step.vector for m in maps):
        return None  # copies: compilers know these
    if writer.capability.kind != "cpu" or size < _LANES or not _work(maps):
        return None
    return _flat(writer, maps, size, units) or _rows(writer, maps, units)


def _flat(writer: Writer, maps: Sequence[Mapped], size: int, units: int) -> Body | None:
    """All operands are single values or lie as the result does."""
    if any(m.step.strides is not None for m in maps):
        return None
    lines: list[str] = []
    value = ""
    for mapped in maps:
        names = []
        for i, operand in enumerate(mapped.reads):
            if operand is None:
                names.append(value)
                continue
            strides, offset = strides_of(mapped, i)
            dims, (kept,) = collapse(mapped.shape, [strides])
            if len(dims) > 1 or any(k > 1 for k in kept):
                return None
            along = kept[0] if kept else 0
            at = f"i + {offset}" if along else str(offset)
            names.append(_load(writer, lines, operand, at, along))
        value = _evaluate(writer, lines, mapped, names, "i")
    store = _store(writer, maps[-1].output, value, "i")
    share = max(256, -(-size // (64 * units)) * 64)
    body = f"""\
KERNEL void KERNEL_NAME(PARAMETERS)
{{
    const i32 begin = GID0 * {share};
    const i32 end = begin + {share} < {size} ? begin + {share} : {size};
    for (i32 from = begin; from < end; from += 16) {{
        const i32 i = from + 16 <= end ? from : end - 16;
        {" ".join(lines)} {store}
    }}
}}
"""
    return body, (-(-size // share),), None


def _rows(writer: Writer, maps: Sequence[Mapped], units: int) -> Body | None:
    """One map whose operands have strides: a loop over rows, and one along each."""
    if len(maps) > 1:
        return None
    mapped = maps[0]
    places = [strides_of(mapped, i) for i in range(len(mapped.reads))]
    target = (mapped.step.strides or row_major(mapped.shape), mapped.step.offset)
    shape, strides = collapse(mapped.shape, [s for s, _ in (*places, target)])
    lasts = [s[-1] for s in strides]
    if shape[-1] < _LANES or any(k > 1 for k in lasts) or lasts[-1] != 1:
        return None
    inner, outer = shape[-1], math.prod(shape[:-1])
    bases = " ".join(
        f"const i32 b{k} = {index_text(shape[:-1], s[:-1], o, 'r')};"
        for k, (s, (_, o)) in enumerate(zip(strides, (*places, target), strict=True))
    )
    lines: list[str] = []
    names = []
    for k, operand in enumerate(mapped.reads):
        assert operand is not None
        names.append(_load(writer, lines, operand, f"b{k} + j" if lasts[k] else f"b{k}", lasts[k]))
    value = _evaluate(writer, lines, mapped, names, f"(r * {inner} + j)")
    store = _store(writer, mapped.output, value, f"b{len(names)} + j")
    share = max(-(-outer // units), min(outer, -(-256 // inner)))
    body = f"""\
KERNEL void KERNEL_NAME(PARAMETERS)
{{
    const i32 begin = GID0 * {share};
    const i32 end = begin + {share} < {outer} ? begin + {share} : {outer};
    for (i32 r = begin; r < end; r++) {{
        {bases}
        for (i32 from = 0; from < {inner}; from += 16) {{
            const i32 j = from + 16 <= {inner} ? from : {inner - 16};
            {" ".join(lines)} {store}
        }}
    }}
}}
"""
    return body, (-(-outer // share),), None


def _work(maps: Sequence[Mapped], before: DType | None = None) -> bool:
    """Whether all maps have a form for vectors. `before`: the type that the first one is given."""
    for mapped in maps:
        types = [before if o is None else o.dtype for o in mapped.reads]
        before = mapped.output.dtype
        if mapped.step.faults or before not in _STORED or any(t not in _TYPES for t in types):
            return False
        # a copy, which may not cut values: those that follow would see them whole
        if not mapped.step.vector and (mapped.step.expression != "$0" or types[0] is not before):
            return False
    return True


def _evaluate(
    writer: Writer, lines: list[str], mapped: Mapped, names: Sequence[str], index: str
) -> str:
    name = writer.fresh()
    text = writer.value_text(mapped, names, mapped.step.vector or "$0", index)
    lines.append(f"const VEC(i32, 16) {name} = {text};")
    return name


def _load(writer: Writer, lines: list[str], operand: Operand, at: str, along: int) -> str:
    name, p = writer.fresh(), writer.pointer(operand)
    if along:
        lines.append(f"const VEC(i32, 16) {name} = VCONVERT(i32, 16, VLOAD(16, {p} + {at}));")
    else:
        lines.append(f"const VEC(i32, 16) {name} = VSPLAT(i32, 16, {p}[{at}]);")
    return name


def _store(writer: Writer, out: Operand, value: str, place: str) -> str:
    p = writer.pointer(out, written=True)
    return f"VSTORE(16, VCONVERT({_TYPES[out.dtype]}, 16, {value}), {p} + {place});"


def _along(shape: tuple[int, ...], strides: Strides, row: int) -> int | None:
    """How far 16 neighbours of a row of that length lie apart: 0 or 1; None where otherwise."""
    dims, (kept,) = collapse(shape, [strides])
    along = kept[-1] if kept else 0
    return None if along > 1 or (kept and dims[-1] % row) else along
