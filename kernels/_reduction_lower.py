"""The device form of reductions along axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ._lower import lanes_for
from ._register_tiles import lanes_of, shares
from .api import NodeSpec
from .device import Capability, Kernel, Lowered, Map
from .types import DType

_C_TYPES = {
    DType.FLOAT64: "f64",
    DType.INT64: "i64",
    DType.UINT64: "u64",
    DType.UINT32: "u32",
}
_SCRATCH = {
    "f32": DType.FLOAT32,
    "f64": DType.FLOAT64,
    "i32": DType.INT32,
    "u32": DType.UINT32,
    "i64": DType.INT64,
    "u64": DType.UINT64,
}
# inputs of one output from which on several work-items share them
_MANY = {"cpu": 1 << 11, "gpu": 1 << 10}
# parts in which neighbours are combined: two vectors of a CPU
_ALONG = 32


def sum_type(dtype: DType) -> str:
    """C type in which values of `dtype` are combined."""
    return "f32" if dtype.is_float and dtype is not DType.FLOAT64 else _C_TYPES.get(dtype, "i32")


def lower_reduction(
    node: NodeSpec,
    capability: Capability,
    axes: Sequence[int],
    start: str,
    combine: str,
    finish: str = "(v)",
    acc: str = "",
    empty: str = "",
    ordered: bool = False,
) -> Lowered:
    """`combine` of `a`, what is folded so far, and `v`; `finish` of `v`; all of type `acc`.

    `start` is neutral: what is folded from it in parts can be combined. `empty`: the result of
    nothing, `start` by default. `ordered`: one after the other, whatever that costs. `finish` may
    read the input as LOAD1.
    """
    x = node.input(0)
    if x.size == 0:
        return Lowered([Map(empty or start, ())])
    strides = [math.prod(x.shape[i + 1 :]) for i in range(x.rank)]
    dims = list(zip(x.shape, strides, strict=True))
    kept = _joined([pair for i, pair in enumerate(dims) if i not in axes])
    folded = _joined([dims[i] for i in axes])
    size, count = (math.prod(d for d, _ in part) for part in (kept, folded))
    cpu = capability.kind == "cpu"
    lanes = _lanes(capability, size, kept[-1][0]) if kept and kept[-1][1] == 1 else 1
    row = len(folded) == 1 and folded[0][1] == 1
    split = _split(capability, size // lanes, count) if not ordered else 1
    kind = acc or sum_type(x.dtype)
    along = _ALONG if cpu and row and count >= _ALONG and not ordered else 1
    floats = cpu and not ordered and x.dtype is DType.FLOAT32 and kind == "f32"
    width = lanes_of(capability)
    if not floats or (along == 1 and lanes % width):
        width = 1
    cycles = size * count / width + 20.0 * size / lanes
    each = 1 if not cpu or split > 1 else max(1, size // lanes // shares(capability, cycles))
    defines = {
        "ACC": kind,
        "START": start,
        "COMBINE(a, v)": f"({combine})",
        "FINISH(v)": f"({finish})" if split == 1 else "(v)",
        "BASE(i)": place_of(kept, "i"),
        "STEP(k)": place_of(folded, "k"),
        "SIZE": size,
        "COUNT": count,
        "LANES": lanes,
        "SPLIT": split,
        # neighbouring work-items of a GPU read neighbours
        "INTERLEAVED": int(not cpu and split > 1),
        "ALONG": along,
        "EACH": each,
        "VW": width,
    }
    uses = ("fixed",)
    output = len(node.outputs) if split > 1 else 0
    grid = (-(-size // lanes // each), split)
    steps = [Kernel("reduce", (0, 0), grid, defines, uses, output)]
    if split == 1:
        return Lowered(steps)
    rest = {
        **defines,
        "FINISH(v)": f"({finish})",
        "BASE(i)": "(i)",
        "STEP(k)": f"((k) * {size})",
        "COUNT": split,
        "LANES": 1,
        "SPLIT": 1,
        "INTERLEAVED": 0,
        "ALONG": 1,
        "EACH": 1,
        "VW": 1,
    }
    steps.append(Kernel("reduce", (len(node.inputs), 0), (size, 1), rest, uses))
    return Lowered(steps, scratch=[((split, size), _SCRATCH[kind])])


def _lanes(capability: Capability, size: int, beside: int) -> int:
    """Neighbouring outputs of a work-item: two vectors on a CPU, if that leaves enough items."""
    enough = 4 * capability.compute_units
    if capability.kind == "gpu":
        return 1
    if beside <= 16:
        return beside
    return 32 if beside % 32 == 0 and size // 32 >= enough else lanes_for(capability, beside)


def _split(capability: Capability, items: int, count: int) -> int:
    """Work-items for the inputs of one output."""
    units = capability.compute_units * (2 if capability.kind == "cpu" else 256)
    if count < _MANY[capability.kind] or items >= units:
        return 1
    return max(1, min(-(-units // items), count // 256))


def _joined(dims: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same (size, stride) with those that follow on each other made one, and no size 1."""
    found: list[tuple[int, int]] = []
    for size, stride in dims:
        if size == 1:
            continue
        if found and found[-1][1] == size * stride:
            found[-1] = (found[-1][0] * size, stride)
        else:
            found.append((size, stride))
    return found


def place_of(dims: Sequence[tuple[int, int]], i: str) -> str:
    """Where flat index `i` over these (size, stride) lies."""
    terms, below = [], 1
    outermost = len(dims) - 1
    for k, (size, stride) in enumerate(reversed(dims)):
        term = f"({i})" if below == 1 else f"({i}) / {below}"
        if k < outermost:
            term += f" % {size}"
        terms.append(term if stride == 1 else f"{term} * {stride}")
        below *= size
    return f"({' + '.join(terms) or '0'})"
