"""What the device forms of recurrent ops share: packed weights, rows times weights, states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ._hybrid import HybridWeights
from ._lower import check_tensors, lanes_for, refuse, share_for, values
from ._recurrent import Weights
from .api import NodeSpec
from .device import Capability, Kernel, Lowered, Map, Read, Step
from .types import Array, DType

# vectors of sums that a CPU keeps in registers for one row
_VECTORS = 4
_GROUP = 256
# bytes that every device has
_LEAST_MEMORY = 1 << 15


class Constants:
    """A node whose weights are constants, as a `Binding` of which only these are read."""

    def __init__(self, node: NodeSpec) -> None:
        self._node = node

    def xi(self, i: int) -> Array:
        return values(self._node.input(i))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


def constants(node: NodeSpec) -> Any:
    """`Constants`, which stands for the Binding that packing takes."""
    return Constants(node)


@dataclass(slots=True)
class Builder:
    """Steps of a node with scratch, and states that are written at the end."""

    node: NodeSpec
    steps: list[Step] = field(default_factory=list)
    scratch: list[tuple[tuple[int, ...], DType]] = field(default_factory=list)
    states: list[tuple[int, Map]] = field(default_factory=list)

    def add_scratch(self, shape: Sequence[int], dtype: DType = DType.FLOAT32) -> int:
        self.scratch.append((tuple(shape), dtype))
        return len(self.scratch) - 1

    def read(self, scratch: int) -> int:
        """Number of a scratch as an operand."""
        return len(self.node.inputs) + scratch

    def write(self, scratch: int) -> int:
        """Number of a scratch as an output."""
        return len(self.node.outputs) + scratch

    def lowered(self) -> Lowered:
        first = len(self.node.outputs) + len(self.scratch)
        written = [replace(m, output=first + k) for k, (_, m) in enumerate(self.states)]
        return Lowered(
            [*self.steps, *written], scratch=self.scratch, state=[i for i, _ in self.states]
        )


def check_stateful(node: NodeSpec, capability: Capability) -> None:
    """`check`, but variables are taken, and so are the sparse constants that packing takes."""
    specs = [None if s is None or s.variable or s.sparsity else s for s in node.inputs]
    check_tensors((*specs, *node.outputs), capability)


def group_of(capability: Capability, units: int) -> int:
    """Work-items that share a row of the batch."""
    if capability.kind == "cpu":
        return 1
    return max(1, min(_GROUP, capability.work_group, -(-units // 32) * 32))


def work_group(capability: Capability, group: int) -> dict[str, object]:
    """Macros of a group of that size. A CPU's one work-item needs neither barriers nor sharing."""
    if capability.kind == "cpu":
        return {"GROUP": 1, "SYNC": "", "WORK": ""}
    return {"GROUP": group, "SYNC": "BARRIER();", "WORK": "LOCAL"}


def vector_macros(capability: Capability, acc: str, stored: str, units: int) -> dict[str, object]:
    """VW and NV for `units`, and what goes with vectors of sums of type `acc`."""
    wide = capability.vector_width if capability.kind == "cpu" else 1
    macros: dict[str, object] = {"VW": wide, "WT": stored, "ACC": acc}
    macros["NV"] = min(_VECTORS, -(-units // wide)) if capability.kind == "cpu" else 1
    if wide == 1:
        return macros | {
            "SUMS": acc,
            "SPLAT(v)": f"(({acc})(v))",
            "WEIGHTS(p)": f"(({acc})*(p))",
            "SPILL(v, p)": "(*(p) = (v))",
        }
    load = "VLOAD(VW, p)"
    return macros | {
        "SUMS": f"VEC({acc}, VW)",
        "SPLAT(v)": f"VSPLAT({acc}, VW, v)",
        "WEIGHTS(p)": load if acc == stored else f"VCONVERT({acc}, VW, {load})",
        "SPILL(v, p)": "VSTORE(VW, v, p)",
    }


def float_macros(capability: Capability, count: int) -> dict[str, object]:
    """EW, which divides `count`, and loads and stores of as many floats."""
    wide = lanes_for(capability, max(count, 1), capability.vector_width)
    if wide == 1:
        vectors = {"FLOATS": "f32", "LOADV(p)": "(*(p))", "STOREV(v, p)": "(*(p) = (v))"}
    else:
        vectors = {
            "FLOATS": "VEC(f32, EW)",
            "LOADV(p)": "VLOAD(EW, p)",
            "STOREV(v, p)": "VSTORE(EW, v, p)",
        }
    return {"EW": wide, **vectors}


def blocked(matrix: Array, macros: Mapping[str, object], dtype: Any) -> Array:
    """Weights [units, depth] as [block][depth][units of a block], filled up with zeros."""
    units, depth = matrix.shape
    block = int(str(macros["VW"])) * int(str(macros["NV"]))
    whole = np.zeros((-(-units // block) * block, depth), dtype)
    whole[:units] = matrix
    return np.ascontiguousarray(whole.reshape(-1, block, depth).transpose(0, 2, 1))


def padded(units: int, macros: Mapping[str, object]) -> int:
    """`units` filled up to whole blocks."""
    block = int(str(macros["VW"])) * int(str(macros["NV"]))
    return -(-units // block) * block


def hybrid_macros(node: NodeSpec, hybrid: bool) -> tuple[dict[str, object], Uses]:
    """HYBRID_ROW, for the way in which the node's options quantise rows, and what kernels use."""
    if not hybrid or not node.options.asymmetric_quantize_inputs:
        return {"HYBRID_ROW": "SYMMETRIC_ROW"}, ("fixed", "recurrent")
    return {"HYBRID_ROW": "ASYMMETRIC_ROW"}, ("fixed", "hybrid", "recurrent")


Uses = tuple[str, ...]


def dense(
    capability: Capability,
    x: int,
    rows: int,
    weights: Weights,
    output: int,
    added: Sequence[tuple[str, int | Array]] = (),
    node: NodeSpec | None = None,
) -> Kernel:
    """Float rows [rows, depth] times weights, and the sum of what is `added`.

    `added`: index text, of row `r` and unit `n`, and the operand. `node`: whose options say how
    rows are quantised for integer weights.
    """
    hybrid = isinstance(weights, HybridWeights)
    matrix = weights.matrix.T if isinstance(weights, HybridWeights) else weights
    units, depth = matrix.shape
    macros = vector_macros(capability, "f32", "f32", units)
    reads: list[int | Array] = [x, blocked(matrix, macros, np.float32)]
    finish = "(v)"
    more: dict[str, object] = {}
    uses: Uses = ("fixed",)
    if isinstance(weights, HybridWeights):
        assert node is not None
        more, uses = hybrid_macros(node, True)
        single = weights.scale.size == 1
        finish = f"(v) * scale * LOAD2({0 if single else 'n'})"
        reads.append(weights.scale)
    for index, operand in added:
        finish += f" + LOAD{len(reads)}({index})"
        reads.append(operand)
    each = share_for(capability, rows, 1)
    defines = {
        **macros,
        **more,
        "EACH": each,
        "ROWS": rows,
        "DEPTH": depth,
        "UNITS": units,
        "HYBRID": int(hybrid),
        "FINISH(r, n, v)": f"({finish})",
    }
    block = int(str(macros["VW"])) * int(str(macros["NV"]))
    grid = (-(-units // block), -(-rows // each))
    return Kernel("dense", tuple(reads), grid, defines, uses, output)


def dense_integers(
    capability: Capability,
    x: int,
    rows: int,
    weights: Array,
    zero: int,
    finish: str,
    output: int,
    extra: Sequence[int | Array] = (),
) -> Kernel:
    """Rows of bytes less `zero`, times weights of int8 or int16 [units, depth]; `finish` of the sum
    `v`, row `r` and unit `n`, which reads what is `extra` as LOAD3, LOAD4 …
    """
    units, depth = weights.shape
    macros = vector_macros(capability, "i32", f"i{8 * weights.itemsize}", units)
    offset = (-zero * weights.sum(axis=1, dtype=np.int64)).astype(np.int32)
    reads: tuple[int | Array, ...] = (x, blocked(weights, macros, weights.dtype), offset, *extra)
    each = share_for(capability, rows, 1)
    defines = {
        **macros,
        "EACH": each,
        "ROWS": rows,
        "DEPTH": depth,
        "UNITS": units,
        "HYBRID": 0,
        "TOTAL(r, n, v)": f"({finish})",
        "FINISH(r, n, v)": "TOTAL(r, n, (v) + LOAD2(n))",
    }
    block = int(str(macros["VW"])) * int(str(macros["NV"]))
    grid = (-(-units // block), -(-rows // each))
    return Kernel("dense", reads, grid, defines, ("fixed",), output)


def activation_text(name: str) -> str:
    """A fused activation of floats `v`, scalars or vectors."""
    texts = {
        "NONE": "(v)",
        "RELU": "F_MAX(v, 0.0f)",
        "RELU6": "F_MIN(F_MAX(v, 0.0f), 6.0f)",
        "RELU_N1_TO_1": "F_MIN(F_MAX(v, -1.0f), 1.0f)",
        "TANH": "F_TANH(v)",
    }
    if name not in texts:
        refuse("OPTION", f"the fused activation {name}", ", ".join(texts))
    return texts[name]


def local_floats(capability: Capability, *counts: int) -> None:
    """Refuses what does not fit into the memory of a work-group."""
    need = 4 * sum(counts)
    if need > max(capability.local_memory, _LEAST_MEMORY):
        refuse(
            "DEVICE",
            f"a layer that works in {need:,} bytes of local memory",
            f"{capability.local_memory:,}, what {capability.name} has",
        )


def series(
    read: int, batch: int, steps: int, units: int, row: int, time_major: bool
) -> tuple[tuple[int, ...], Read]:
    """Outputs [steps, batch, units] out of rows of `row` numbers, in the order of the output."""
    if time_major:
        return (steps, batch, units), Read(read, strides=(units, row, 1))
    return (batch, steps, units), Read(read, strides=(row, units, 1))


def output_map(shape: tuple[int, ...], read: Read, output: int, whole: int, offset: int) -> Map:
    """Stores a series to the columns from `offset` on of an output of `whole` columns."""
    if whole == shape[-1]:
        return Map("$0", (read,), shape=shape, output=output)
    strides = (shape[1] * whole, whole, 1)
    return Map("$0", (read,), shape=shape, output=output, strides=strides, offset=offset)
