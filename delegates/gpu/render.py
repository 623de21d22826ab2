"""From the steps of `lower` to kernel text: loads, stores, and chains of maps on their values."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ...kernels.device import C_TYPES, Capability, Source, text
from ...kernels.types import DType
from .float_vectors import float_body, float_chain
from .fours import load_macros, store_text
from .indexing import Strides, collapse, index_text, row_major, strides_of
from .integer_vectors import integer_body, integer_chain
from .library import Library
from .texts import Bodied, Mapped, Operand, Text

_COMPUTED = {
    DType.FLOAT32: "f32",
    DType.FLOAT16: "f32",
    DType.BFLOAT16: "f32",
    DType.FLOAT64: "f64",
    DType.UINT32: "u32",
    DType.INT64: "i64",
    DType.UINT64: "u64",
    DType.COMPLEX64: "i64",
}
_OPENING = re.compile(r"(KERNEL_NAME\(PARAMETERS\)\s*\{)")


def computed(dtype: DType) -> str:
    """C type in which values of `dtype` are computed."""
    return _COMPUTED.get(dtype, "i32")


def render(
    first: Mapped | Bodied, rest: Sequence[Mapped], capability: Capability, slots: Sequence[int]
) -> Text:
    """One kernel for a step and the maps that follow on its values.

    `slots` number the faults of all maps in order.
    """
    if isinstance(first, Bodied) and isinstance(first.step, Library):
        keys = (*(o.key for o in first.reads), first.output.key)
        return Text("", keys, (), None, (), False, False, first.step.call)
    return _Writer(capability, slots).write(first, rest)


class _Writer:
    def __init__(self, capability: Capability, slots: Sequence[int]) -> None:
        self.capability = capability
        self.slots = iter(slots)
        self.status = False
        self.pointers: dict[tuple[int, bool], tuple[str, DType]] = {}
        self.uses: dict[str | Source, None] = {}
        self.count = 0

    def pointer(self, operand: Operand, written: bool = False) -> str:
        key = (operand.key, written)
        if key not in self.pointers:
            self.pointers[key] = f"ptr_{len(self.pointers)}", operand.dtype
        return self.pointers[key][0]

    def fresh(self) -> str:
        self.count += 1
        return f"tmp_{self.count}"

    def write(self, first: Mapped | Bodied, rest: Sequence[Mapped]) -> Text:
        if isinstance(first, Mapped):
            body, grid, group = self.map_body(first, rest)
        else:
            body, grid, group = self.kernel_body(first, rest)
        parameters = ", ".join(
            f"{'GLOBAL' if written else 'CONST_ARG'} {C_TYPES[dtype]}* RESTRICT {name}"
            for (_, written), (name, dtype) in self.pointers.items()
        )
        if self.status:
            parameters += ", GLOBAL i32* status"
        if group is None:
            ends = ", ".join(str(n) for n in (*grid, 1, 1)[:3])
            body = _OPENING.sub(rf"\1 IN_GRID({ends})", body)
        source = body.replace("PARAMETERS", parameters)
        args = tuple(key for key, _ in self.pointers)
        parts = [*self.uses, first.step.file if isinstance(first, Bodied) else None]
        brought = any(isinstance(p, Source) for p in parts)
        return Text(source, args, grid, group, tuple(self.uses), self.status, brought)

    # -- values

    def load(self, operand: Operand, index: str) -> str:
        p = self.pointer(operand)
        match operand.dtype:
            case DType.FLOAT16:
                return f"LOAD_HALF({p}, {index})"
            case DType.BFLOAT16:
                return f"AS_F32((u32){p}[{index}] << 16)"
        return f"({computed(operand.dtype)}){p}[{index}]"

    def store(self, operand: Operand, index: str, value: str) -> str:
        p = self.pointer(operand, written=True)
        match operand.dtype:
            case DType.FLOAT16:
                return f"STORE_HALF({p}, {index}, {value});"
            case DType.BFLOAT16:
                return f"{p}[{index}] = to_bfloat16({value});"
            case DType.BOOL:
                return f"{p}[{index}] = ({value}) != 0;"
        return f"{p}[{index}] = ({C_TYPES[operand.dtype]})({value});"

    def narrowed(self, dtype: DType, value: str) -> str:
        """The value as it would be after storing and loading; halves keep their digits."""
        if dtype is DType.BOOL:
            return f"({value}) != 0"
        if computed(dtype) == "i32" and dtype is not DType.INT32:
            return f"(i32)({C_TYPES[dtype]})({value})"
        return value

    def evaluate(self, mapped: Mapped, value: str | None, index: str, places: list[str]) -> str:
        """Lines that leave the value of a map in the variable `self.last`.

        `places`: the index of each read.
        """
        lines, names = [], []
        for operand, place in zip(mapped.reads, places, strict=True):
            if operand is None:
                assert value is not None
                names.append(value)
                continue
            name = self.fresh()
            lines.append(f"const {computed(operand.dtype)} {name} = {self.load(operand, place)};")
            names.append(name)
        tables = [self.pointer(t) for t in mapped.tables]
        for fault in mapped.step.faults:
            condition = _substitute(fault.condition, names, tables, index)
            self.status = True
            lines.append(f"if ({condition}) RAISE(status + {next(self.slots)});")
        expression = self.value_text(mapped, names, mapped.step.expression, index)
        dtype = mapped.output.dtype
        self.last = self.fresh()
        lines.append(f"const {computed(dtype)} {self.last} = {self.narrowed(dtype, expression)};")
        return " ".join(lines)

    def value_text(self, mapped: Mapped, names: Sequence[str], expression: str, index: str) -> str:
        """`expression` of values `names`, and what it uses noted."""
        self.uses.update(dict.fromkeys(mapped.step.uses))
        tables = [self.pointer(t) for t in mapped.tables]
        return _substitute(expression, names, tables, index)

    def chain(self, value: str, rest: Sequence[Mapped], out: Operand, index: str) -> str:
        """Lines from a value to its store, by way of all maps."""
        lines, out, place = self.chained(value, rest, out, index)
        return f"{lines} {self.store(out, place, self.last)}"

    def chained(
        self, value: str, rest: Sequence[Mapped], out: Operand, index: str
    ) -> tuple[str, Operand, str]:
        """Lines from a value to the one that is stored, `self.last`; what holds it, and where."""
        self.last = value
        lines = []
        place = index
        for mapped in rest:
            places = [
                "" if o is None else index_text(mapped.shape, *strides_of(mapped, i), index)
                for i, o in enumerate(mapped.reads)
            ]
            lines.append(self.evaluate(mapped, self.last, index, places))
            out = mapped.output
            if mapped.step.strides is not None:
                place = index_text(mapped.shape, mapped.step.strides, mapped.step.offset, index)
        return " ".join(lines), out, place

    def four_chain(self, first: Bodied, rest: Sequence[Mapped], value: str) -> str:
        """As `chain`, for the array `values_` of four, at `at_`; `value` is that of `v_`."""
        plain = "for (i32 k_ = 0; k_ < 4; k_++) STORE(at_ + k_, values_[k_]);"
        if any(m.step.faults or m.step.strides is not None for m in rest):
            return plain
        lines, out, _ = self.chained("out_", rest, first.output, "i_")
        store = store_text(self.pointer(out, written=True), out.dtype, "at_", "four_")
        if store is None:
            return plain
        c_type, made = computed(first.output.dtype), computed(out.dtype)
        return (
            f"{made} four_[4]; for (i32 k_ = 0; k_ < 4; k_++) {{ const i32 i_ = at_ + k_; "
            f"const {c_type} v_ = values_[k_]; const {c_type} out_ = {value}; {lines} "
            f"four_[k_] = {self.last}; }} {store}"
        )

    # -- bodies

    def map_body(
        self, first: Mapped, rest: Sequence[Mapped]
    ) -> tuple[str, tuple[int, ...], tuple[int, ...] | None]:
        maps, units = (first, *rest), 4 * self.capability.compute_units
        vectors = integer_body(self, maps, units) or float_body(self, maps, units)
        if vectors is not None:
            return vectors
        size = math.prod(first.shape)
        reads = [strides_of(first, i) for i in range(len(first.reads))]
        ends = [m for m in (first, *rest) if m.step.strides is not None]
        out = (ends[-1].step.strides or (), ends[-1].step.offset) if ends else None
        rows = self._rows(first, rest, reads, out)
        if rows is None:
            places = [index_text(first.shape, s, o, "i") for s, o in reads]
            lines = [self.evaluate(first, None, "i", places)]
            place = "i" if out is None or rest else index_text(first.shape, out[0], out[1], "i")
            if rest:
                lines.append(self.chain(self.last, rest, first.output, "i"))
            else:
                lines.append(self.store(first.output, place, self.last))
            block = self._block(size)
            body = f"""\
KERNEL void KERNEL_NAME(PARAMETERS)
{{
    const i32 begin = GID0 * {block};
    const i32 end = begin + {block} < {size} ? begin + {block} : {size};
    for (i32 i = begin; i < end; i++) {{
        {" ".join(lines)}
    }}
}}
"""
            return body, (-(-size // block),), None
        return rows

    def _block(self, size: int) -> int:
        """Elements for each work-item: one on a GPU, a share that vectors fill on a CPU."""
        if self.capability.kind == "gpu":
            return 1
        share = -(-size // (4 * self.capability.compute_units))
        return max(256, -(-share // 64) * 64)

    def _rows(
        self,
        first: Mapped,
        rest: Sequence[Mapped],
        reads: list[tuple[Strides, int]],
        out: tuple[Strides, int] | None,
    ) -> tuple[str, tuple[int, ...], tuple[int, ...] | None] | None:
        """On a CPU, a loop over rows and one along each, whose indices need no division."""
        if self.capability.kind == "gpu" or rest:
            return None
        dense = row_major(first.shape)
        target = (dense, 0) if out is None else out
        shape, strides = collapse(first.shape, [s for s, _ in (*reads, target)])
        # dimensions of a row: of few elements they are two
        along = 1 if not shape or shape[-1] >= 8 else 2
        if len(shape) <= along or not math.prod(shape):
            return None
        inner, outer = math.prod(shape[-along:]), math.prod(shape[:-along])
        names = [f"b{k}" for k in range(len(strides))]
        offsets = [o for _, o in (*reads, target)]
        bases = " ".join(
            f"const i32 {n} = {index_text(shape[:-along], s[:-along], o, 'r')};"
            for n, s, o in zip(names, strides, offsets, strict=True)
        )
        counters = ("m", "j")[-along:]
        places = [
            " + ".join([n, *(f"{c} * {t}" for c, t in zip(counters, s[-along:], strict=True) if t)])
            for n, s in zip(names, strides, strict=True)
        ]
        line = self.evaluate(first, None, "i", places[:-1])
        store = self.store(first.output, places[-1], self.last)
        share = max(1, -(-outer // (4 * self.capability.compute_units)))
        share = max(share, min(outer, -(-256 // inner)))
        loops = "".join(
            f"for (i32 {c} = 0; {c} < {d}; {c}++) "
            for c, d in zip(counters, shape[-along:], strict=True)
        )
        before = f"m * {shape[-1]} + " if along > 1 else ""
        body = f"""\
KERNEL void KERNEL_NAME(PARAMETERS)
{{
    const i32 begin = GID0 * {share};
    const i32 end = begin + {share} < {outer} ? begin + {share} : {outer};
    for (i32 r = begin; r < end; r++) {{
        {bases}
        {loops}{{
            const i32 i = r * {inner} + {before}j;
            {line} {store}
        }}
    }}
}}
"""
        return body, (-(-outer // share),), None

    def kernel_body(
        self, first: Bodied, rest: Sequence[Mapped]
    ) -> tuple[str, tuple[int, ...], tuple[int, ...] | None]:
        step = first.step
        macros = dict(step.defines)
        for k in range(len(step.faults)):
            self.status = True
            macros[f"FAULT{k}"] = f"RAISE(status + {next(self.slots)})"
        if step.raw or not rest:
            macros["OUT"] = self.pointer(first.output, written=True)
        for k, operand in enumerate(first.reads):
            macros[f"IN{k}"] = self.pointer(operand)
            macros[f"LOAD{k}(at)"] = self.load(operand, "(at)")
            if self.capability.kind == "gpu":
                macros |= load_macros(k, self.pointer(operand), operand.dtype)
        self.uses.update(dict.fromkeys(step.uses))
        dtype = first.output.dtype
        stored = self.narrowed(dtype, "given_")
        lines = self.chain("out_", rest, first.output, "at_")
        c_type = computed(dtype)
        macros["STORE(at, value)"] = (
            f"do {{ const {c_type} given_ = (value); const i32 at_ = (at); "
            f"const {c_type} out_ = {stored}; {lines} }} while (0)"
        )
        if "STORE_FOUR" in text(step.file):
            four = self.four_chain(first, rest, self.narrowed(dtype, "v_"))
            four = f"const {c_type}* values_ = (values); const i32 at_ = (at); {four}"
            macros["STORE_FOUR(at, values)"] = f"do {{ {four} }} while (0)"
        vector = float_chain(self, first, rest)
        if vector is not None:
            macros["STORE_VECTOR(W, at, value)"] = (
                f"do {{ const VEC(f32, W) given_ = (value); const i32 at_ = (at); {vector} }} "
                "while (0)"
            )
        vector = integer_chain(self, first, rest)
        if vector is not None:
            macros["STORE_VECTOR(W, at, value)"] = (
                f"do {{ const VEC(i32, 16) given_ = (value); const i32 at_ = (at); {vector} }} "
                "while (0)"
            )
        opened = "".join(f"#define {k} {v}\n" for k, v in macros.items())
        body = text(step.file)
        names = [k.partition("(")[0] for k in macros]
        if isinstance(step.file, Source):
            names += re.findall(r"^\s*#\s*define\s+(\w+)", body, re.M)
        closed = "".join(f"#undef {name}\n" for name in dict.fromkeys(names))
        return f"{opened}{body}{closed}", step.grid, step.group


def _substitute(expression: str, names: Sequence[str], tables: Sequence[str], index: str) -> str:
    expression = re.sub(r"\$(\d+)", lambda m: names[int(m[1])], expression)
    expression = re.sub(r"@(\d+)", lambda m: tables[int(m[1])], expression)
    return f"({expression})".replace("#", f"({index})")
