"""The device form of an op: what `lower` returns, and what it may know of the device.

`lower(node, capability) -> Lowered` needs no device and imports nothing but numpy: it gives the
text and data with which a delegate computes the node, or raises `Unsupported`. Check is build: a
delegate takes a node exactly when `lower` succeeds.

A step is a `Map`, one expression evaluated for each element, or a `Kernel`, a body in
`kernels/device/*.c`. Both reach tensors through loads and stores that the delegate writes, so that
it can join steps: a `Map` that follows a step in the same shape is evaluated on the values that the
step is about to store.

The text is C in OpenCL's spelling, on the closed vocabulary `MACROS`; each backend defines it in a
prelude. Values have a compute type: f32 for float32, float16 and bfloat16, f64, i32 for bool and
integers of up to 32 bits but uint32 (u32), i64, u64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from ..types import Array, DType

# Every name that a prelude defines, and what it means. A body uses no other name of a backend.
MACROS: Mapping[str, str] = {
    "KERNEL": "begins the definition of a kernel (returns void)",
    "DEVICE": "begins the definition of a function",
    "GLOBAL": "address space of buffers",
    "CONST_ARG": "address space and qualifier of buffers that are only read",
    "LOCAL": "address space of memory shared by a work-group",
    "REAL": "f64, where the device has it, else f32",
    "RESTRICT": "a pointer whose memory no other one reaches",
    "BARRIER": "BARRIER(): waits for the work-group, and orders its local memory",
    "GID0": "position in the grid, dimension 0 (fastest)",
    "GID1": "position in the grid, dimension 1",
    "GID2": "position in the grid, dimension 2",
    "LID0": "position in the work-group, dimension 0",
    "LID1": "position in the work-group, dimension 1",
    "IN_GRID": "IN_GRID(x, y, z): leaves work-items beyond the grid, where it is made of whole "
    "groups; written by the delegate, as the first line of kernels without a group",
    "LOAD_HALF": "LOAD_HALF(pointer, i): float16 number i as f32",
    "STORE_HALF": "STORE_HALF(pointer, i, value): f32 to float16, to nearest even",
    "PACK_HALVES": "PACK_HALVES(low, high): two f32 as float16, to nearest even, in an i32",
    # four neighbours, on GPUs: i is a multiple of 4, v an array of their compute type
    "READ_FOUR": "READ_FOUR(p, i, v): v[0] ... v[3] are the f32, i8 or u8 of numbers i to i + 3",
    "READ_FOUR_HALVES": "READ_FOUR_HALVES(p, i, v): the same of float16",
    "WRITE_FOUR": "WRITE_FOUR(type, p, i, v): v[0] ... v[3] as `type`, to numbers i to i + 3",
    "WRITE_FOUR_HALVES": "WRITE_FOUR_HALVES(p, i, v): the same to float16",
    "AS_F32": "the f32 of 32 bits (u32)",
    "AS_U32": "the 32 bits of an f32",
    "RAISE": "RAISE(pointer): marks a fault (any order, any number of times)",
    "MAD": "MAD(a, b, c): a * b + c, fused or not, scalars or vectors: the fastest form",
    "F_EXP": "exp",
    "F_LOG": "log",
    "F_SQRT": "sqrt, correctly rounded where the device can",
    "F_SIN": "sin",
    "F_COS": "cos",
    "F_TANH": "tanh",
    "F_ERFC": "erfc",
    "F_EXPM1": "exp(x) - 1",
    "F_POW": "pow",
    "F_ATAN2": "atan2",
    "F_CBRT": "cube root",
    "F_ABS": "absolute value of floats",
    "F_COPYSIGN": "F_COPYSIGN(a, b): |a| with the sign of b",
    "F_FLOOR": "floor",
    "F_CEIL": "ceil",
    "F_RINT": "to nearest, halves to even",
    "F_TRUNC": "towards zero",
    "F_MOD": "C's fmod",
    "F_MIN": "the lesser float; where one is NaN, the other",
    "F_MAX": "the greater float; where one is NaN, the other",
    "DOT4_I8I8": "DOT4_I8I8(c, a, b): an i32 plus the four products of the i8 in two i32",
    # matrix units, where `mma` is true: the 32 work-items of each part of a group call it together
    "MMA_SCRATCH": "MMA_SCRATCH(n): declares what these want in a group of n work-items",
    "MMA_I8": "MMA_I8(c, a, b): adds to c a 16 x 32 by 32 x 8 product of i8; a work-item has "
    "c[4], a[4] and b[2], i32, laid out as PTX has it for mma.m16n8k32",
    "MMA_F16": "MMA_F16(c, a, b): adds to c, f32, a 16 x 16 by 16 x 8 product of halves, two in "
    "each i32 of a and b, as PTX has it for mma.m16n8k16",
    # devices of kind "cpu" alone: explicit vectors of W lanes, W a literal or a #define
    "VEC": "VEC(type, W): the type of a vector",
    "VSPLAT": "VSPLAT(type, W, scalar): a vector of one value",
    "VLOAD": "VLOAD(W, pointer): W neighbours, at any alignment",
    "VSTORE": "VSTORE(W, vector, pointer)",
    "VCONVERT": "VCONVERT(type, W, vector): lane by lane, as a cast does",
    "EVENS": "EVENS(type, W, a, b): lanes 0, 2, 4 … of vector a, then those of b",
    "ODDS": "ODDS(type, W, a, b): lanes 1, 3, 5 … of vector a, then those of b",
    "LOOKUP_16": "LOOKUP_16(table, v): 16 of the 256 i8 or u8 at `table`, for the low bytes of the "
    "16 i32 in v",
    "WORD_AT": "WORD_AT(pointer): the i32 of four u8 or i8, at any alignment",
    "DOT4_U8I8": "DOT4_U8I8(c, a, b): vectors of 16 i32: each of c plus four products of a's u8 "
    "and b's i8; where `dot4` is true",
}
# C types of the vocabulary, which a prelude defines too
TYPES = ("f32", "f64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
# those in which elements are stored
C_TYPES: Mapping[DType, str] = {
    DType.FLOAT32: "f32",
    DType.FLOAT16: "u16",
    DType.BFLOAT16: "u16",
    DType.FLOAT64: "f64",
    DType.BOOL: "u8",
    DType.INT8: "i8",
    DType.UINT8: "u8",
    DType.INT16: "i16",
    DType.UINT16: "u16",
    DType.INT32: "i32",
    DType.UINT32: "u32",
    DType.INT64: "i64",
    DType.UINT64: "u64",
    DType.INT4: "i8",
    DType.INT2: "i8",
    DType.UINT4: "u8",
    DType.COMPLEX64: "i64",  # moved, and no more
}


@dataclass(frozen=True, slots=True)
class Capability:
    """What `lower` may know of a device. `vector_width`: float32 lanes of a CPU's registers."""

    name: str
    kind: str  # "cpu" or "gpu"
    compute_units: int = 1
    vector_width: int = 1
    fp16: bool = False  # arithmetic on halves; storing them needs nothing
    fp64: bool = False
    subgroup: int = 0
    dot4: bool = False
    mma: bool = False  # of bytes and of halves
    local_memory: int = 0  # bytes
    work_group: int = 256
    half: bool = False  # the user's wish: floats may be stored and multiplied as halves
    api: str = "opencl"  # or "cuda": whose compiler reads the text


# for dry runs: what `lower` would say on a device that is not there
PROFILES: Mapping[str, Capability] = {
    c.name: c
    for c in (
        Capability("pocl-cpu", "cpu", 2, 16, fp64=True, local_memory=1 << 18, work_group=1024),
        Capability("intel-cpu", "cpu", 2, 16, fp16=True, fp64=True, local_memory=1 << 18),
        Capability("opencl-gpu", "gpu", 16, 1, fp16=True, local_memory=1 << 15),
        *(
            Capability(
                f"sm_{n}", "gpu", units, 1, True, True, 32, True, True, 48 << 10, 1024, api="cuda"
            )
            for n, units in (
                (75, 40),
                (80, 108),
                (86, 84),
                (89, 128),
                (90, 132),
                (100, 148),
                (120, 170),
            )
        ),
    )
}


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """An operand of a `Map`: an input of the node by number, or a constant.

    Without `strides` it broadcasts, right-aligned, to the map's shape. With them, element
    [i0, i1, …] of the map reads element offset + sum(i * stride) of the flat operand.
    """

    source: int | Array
    dtype: DType | None = None  # of a constant, where numpy's type does not say
    strides: tuple[int, ...] | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """A text that an op brings along, where ours are named: `Kernel.file`, and `uses`.

    It is written on `MACROS`, for all backends, or, with `api` "opencl" or "cuda", in that language
    alone; a delegate of the other one refuses the node. Functions share one name space with those
    of other ops: begin their names with the op's. A body's own `#define`s end with it.
    """

    text: str
    api: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Fault:
    """What a step raises when `condition` is true of any element."""

    condition: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """`expression` for each element of `shape` (the output's, unless given).

    `$0`, `$1` … are the values of `reads`; `@0`, `@1` … are pointers to `tables`, constants that
    the expression indexes (or inputs, by number); `#` is the flat index. The value goes to the
    element of `output` with the same index, or where `strides` and `offset` say. `uses` names the
    texts in `kernels/device` whose functions occur, or holds them (`Source`).

    For CPUs `vector` is the same of 16 neighbours, integers of up to 32 bits: vectors of i32, the
    result within the output's range. `function` is the same of numpy arrays of stored values, where
    all reads are of 8 bits.
    """

    expression: str = "$0"
    reads: tuple[Read, ...] = (Read(0),)
    tables: tuple[int | Array, ...] = ()
    uses: tuple[str | Source, ...] = ()
    faults: tuple[Fault, ...] = ()
    output: int = 0
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    offset: int = 0
    vector: str = ""
    function: Callable[..., Array] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A body, the text `file`.c or a `Source`, run once for each point of `grid` (fastest dimension
    first).

    In it `KERNEL_NAME(…)` opens the kernel; `IN0` … are pointers to the operands in `reads`, and
    `LOAD0(i)` … their element i as a value; `STORE(i, value)` stores element i of the output, each
    exactly once. `defines` are the shapes, tiles and choices, as macros. `FAULT0` … mark the
    `faults`, what the step raises. On GPUs `LOAD_WORD0(i)` …, `LOAD_FOUR0(i, v)` … and
    `STORE_FOUR(i, v)` move several elements at once (`delegates/gpu/fours.py`). A body that is
    `raw` may use `OUT`, a pointer to the output, to read what it has written; nothing is evaluated
    before its stores. In others `OUT` is defined (`#ifdef`) where no map was joined: there they may
    store vectors of the output's type. On CPUs, where all maps that were joined work on vectors of
    float32, `STORE_VECTOR(W, i, vector)` stores W neighbours, which lie in one row: of the output's
    last dimension, or of `VECTOR_ROW` elements where that is defined; of outputs of 8 and 16 bits
    it stores 16, from vectors of i32.
    """

    file: str | Source
    reads: tuple[int | Array, ...]
    grid: tuple[int, ...]
    defines: Mapping[str, object] = field(default_factory=dict)
    uses: tuple[str | Source, ...] = ()
    output: int = 0
    group: tuple[int, ...] | None = None
    faults: tuple[str, ...] = ()
    raw: bool = False


Step = Map | Kernel


@dataclass(frozen=True, slots=True, eq=False)
class Lowered:
    """A node in its device form: `steps` in order, or, without any, output 0 is the bytes of
    input `view`.

    `Step.output` beyond the node's outputs names `scratch`, tensors of (shape, type) that live for
    the node, and beyond these the inputs `state`, variables that the node leaves changed. A step
    reads scratch i as input `len(node.inputs) + i`, and behind all scratch the outputs.
    """

    steps: Sequence[Step] = ()
    view: int | None = None
    scratch: Sequence[tuple[tuple[int, ...], DType]] = ()
    state: Sequence[int] = ()


def sources(lowered: Lowered) -> list[Source]:
    """The texts that the op brought along."""
    given: list[str | Source] = [u for step in lowered.steps for u in step.uses]
    given += [step.file for step in lowered.steps if isinstance(step, Kernel)]
    return [g for g in given if isinstance(g, Source)]


@cache
def text(name: str | Source) -> str:
    """The text `name`.c of this folder, or the one that is given."""
    if isinstance(name, Source):
        # compilers' words name the line of this text, and not of the program around it
        return f'#line 1 "text of the op"\n{name.text}\n#line 1 "program"\n'
    return files(__package__).joinpath(f"{name}.c").read_text("utf-8")
