"""Maps of float32 on CPUs: vectors of neighbours at once, where all maps of a kernel allow it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ...kernels._register_tiles import lanes_of
from ...kernels.types import DType
from .indexing import collapse, index_text, strides_of
from .integer_vectors import Body, Writer
from .texts import Bodied, Mapped
from .vectors import Value, on_vectors

# functions that compilers do not make vectors of by themselves; what has none of them they know
_CALLS = re.compile(r"F_(EXP|EXPM1|LOG|SIN|COS|TANH|ERFC)\b")


def float_chain(writer: Writer, first: Bodied, rest: Sequence[Mapped]) -> str | None:
    """Lines from the vector `given_`, W neighbours from `at_` on in a row of what `first` stores,
    to the store of what `rest` make of it. None where one is not known to work on vectors of
    float32.
    """
    out = rest[-1].output if rest else first.output
    if writer.capability.kind != "cpu" or not first.output.shape:
        return None
    if first.output.dtype is not DType.FLOAT32:
        return None
    row = int(str(first.step.defines.get("VECTOR_ROW", first.output.shape[-1])))
    made = _evaluated(writer, rest, Value("given_", True), row)
    if made is None:
        return None
    lines, value = made
    return f"{lines} VSTORE(W, {value}, {writer.pointer(out, written=True)} + at_);"


def float_body(writer: Writer, maps: Sequence[Mapped], units: int) -> Body | None:
    """A kernel of maps alone, with a function that takes long. `units`: work-items into which it
    may be cut.
    """
    size, lanes = math.prod(maps[0].shape), lanes_of(writer.capability)
    if writer.capability.kind != "cpu" or not any(_CALLS.search(m.step.expression) for m in maps):
        return None
    row = size
    for mapped in maps:
        for i, operand in enumerate(mapped.reads):
            if operand is not None:
                dims, _ = collapse(mapped.shape, [strides_of(mapped, i)[0]])
                row = math.gcd(row, *dims[-1:])
    out = maps[-1].output
    # the last vector of a row is moved back, and computed of what must still be there
    if row < lanes or any(o is not None and o.key == out.key for m in maps for o in m.reads):
        return None
    made = _evaluated(writer, maps, None, row)
    if made is None:
        return None
    lines, value = made
    share = max(256, -(-size // (64 * units)) * 64)
    if row < size:
        share = max(1, share // row) * row
    ends = f"begin + {share} < {size} ? begin + {share} : {size}"
    body = f"""\
#define W {lanes}
KERNEL void KERNEL_NAME(PARAMETERS)
{{
    const i32 begin = GID0 * {share}, end = {ends};
    for (i32 row = begin; row < end; row += {min(row, share)}) {{
        const i32 stop = row + {min(row, share)} < end ? row + {min(row, share)} : end;
        for (i32 from = row; from < stop; from += W) {{
            const i32 at_ = from + W <= stop ? from : stop - W;
            {lines} VSTORE(W, {value}, {writer.pointer(out, written=True)} + at_);
        }}
    }}
}}
#undef W
"""
    return body, (-(-size // share),), None


def _evaluated(
    writer: Writer, maps: Sequence[Mapped], value: Value | None, row: int
) -> tuple[str, str] | None:
    """Lines, and the vector that they leave, of W neighbours from `at_` on in a row."""
    lines = []
    for mapped in maps:
        operands = [o for o in (*mapped.reads, mapped.output) if o is not None]
        step = mapped.step
        if step.tables or step.faults or step.strides is not None:
            return None
        if any(o.dtype is not DType.FLOAT32 for o in operands):
            return None
        reads: list[Value] = []
        for i, operand in enumerate(mapped.reads):
            if operand is None:
                assert value is not None
                reads.append(value)
                continue
            strides, offset = strides_of(mapped, i)
            dims, (kept,) = collapse(mapped.shape, [strides])
            along = kept[-1] if kept else 0
            if along > 1 or (kept and dims[-1] % row):
                return None
            place = (
                f"{writer.pointer(operand)} + {index_text(mapped.shape, strides, offset, 'at_')}"
            )
            name = writer.fresh()
            if along:
                lines.append(f"const VEC(f32, W) {name} = VLOAD(W, {place});")
            else:
                lines.append(f"const f32 {name} = *({place});")
            reads.append(Value(name, bool(along)))
        made = on_vectors(step.expression, reads)
        if made is None or not made.vector:
            return None
        value = Value(writer.fresh(), True)
        lines.append(f"const VEC(f32, W) {value.text} = {made.text};")
    assert value is not None
    return " ".join(lines), value.text
