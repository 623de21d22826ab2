"""Where an LSTM finds its inputs, and the checks that all forms of it share.

The gates are, in the order of the inputs: input, forget, cell, output. Without an input gate
("CIFG") its weights are absent and 1 - forget takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass

from .api import Binding, NodeSpec, require, take
from .types import Array, DType


@dataclass(frozen=True, slots=True)
class Layout:
    """Input numbers: four each for weights, biases and norms; three for the peepholes."""

    inputs: tuple[int, ...]
    recurrent: tuple[int, ...]
    peephole: tuple[int, ...]  # input, forget, output
    bias: tuple[int, ...]
    projection: int
    projection_bias: int
    output_state: int
    cell_state: int
    norm: tuple[int, ...] = ()
    auxiliary: tuple[int, ...] = ()

    @classmethod
    def at(
        cls, first: int, state: int, norm: int | None = None, auxiliary: int | None = None
    ) -> Layout:
        def run(start: int, count: int = 4) -> tuple[int, ...]:
            return tuple(range(start, start + count))

        return cls(
            run(first),
            run(first + 4),
            run(first + 8, 3),
            run(first + 11),
            first + 15,
            first + 16,
            state,
            state + 1,
            () if norm is None else run(norm),
            () if auxiliary is None else run(auxiliary),
        )


UNIDIRECTIONAL = Layout.at(1, 18, norm=20)
FORWARD = Layout.at(1, 35, auxiliary=40)
BACKWARD = Layout.at(18, 37, auxiliary=44)
AUXILIARY_INPUT = 39


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the weights of one direction say."""

    depth: int
    cells: int
    outputs: int
    cifg: bool
    peephole: bool
    norm: bool
    projection: bool
    diagonal: bool

    @property
    def gates(self) -> int:
        return 3 if self.cifg else 4


def sizes(node: NodeSpec | Binding, at: Layout) -> Sizes:
    weights, recurrent = node.input(at.inputs[3]), node.input(at.recurrent[3])
    require(weights.rank == 2, f"input {at.inputs[3]} is {weights}; taken: [cells, depth]")
    require(
        recurrent.rank in (1, 2),
        f"input {at.recurrent[3]} is {recurrent}; taken: [cells, outputs], or [cells] if diagonal",
    )
    return Sizes(
        depth=weights.shape[1],
        cells=weights.shape[0],
        outputs=recurrent.shape[-1],
        cifg=node.optional(at.inputs[0]) is None,
        peephole=node.optional(at.peephole[2]) is not None,
        norm=bool(at.norm) and node.optional(at.norm[1]) is not None,
        projection=node.optional(at.projection) is not None,
        diagonal=recurrent.rank == 1,
    )


def present(s: Sizes) -> tuple[int, ...]:
    """The gates that have weights."""
    return (1, 2, 3) if s.cifg else (0, 1, 2, 3)


def check(node: NodeSpec, at: Layout, batch: int, depth: int) -> Sizes:
    """Checks the shapes and types of one direction's tensors; its sizes."""
    s = sizes(node, at)
    clips = node.options.cell_clip, node.options.proj_clip
    require(min(clips) >= 0, f"cell_clip and proj_clip are {clips}; they are at least 0")
    kind = node.input(at.inputs[3]).dtype
    integer = node.input(0).dtype is DType.INT8
    real, fine, sums = (
        (DType.FLOAT32, kind, DType.FLOAT32)
        if not integer
        else (DType.INT8, DType.INT16, DType.INT32)
    )
    if integer:
        take(node, f"input {at.inputs[3]}", node.input(at.inputs[3]), DType.INT8)
    else:
        take(
            node,
            f"input {at.inputs[3]}",
            node.input(at.inputs[3]),
            DType.FLOAT32,
            DType.INT8,
            DType.UINT8,
        )

    def weights(i: int, shape: tuple[int, ...], *dtypes: DType) -> None:
        spec = node.input(i)
        require(spec.shape == shape, f"input {i} is {spec}; taken: {list(shape)}")
        take(node, f"input {i}", spec, *dtypes)

    def absent(what: str, *inputs: int) -> None:
        for i in inputs:
            require(node.optional(i) is None, f"input {i} is given, but there is no {what}")

    across = (s.cells,) if s.diagonal else (s.cells, s.outputs)
    require(not (s.diagonal and integer), "diagonal recurrent weights; not taken with int8")
    require(
        not s.diagonal or s.outputs == s.cells,
        f"diagonal recurrent weights of {s.outputs} for {s.cells} cells",
    )
    for g in present(s):
        weights(at.inputs[g], (s.cells, depth), kind)
        weights(at.recurrent[g], across, DType.FLOAT32 if s.diagonal else kind)
        weights(at.bias[g], (s.cells,), sums)
    if s.cifg:
        absent("input gate", at.recurrent[0], at.peephole[0], at.bias[0])
    for k, i in enumerate(at.peephole):
        if s.peephole and not (k == 0 and s.cifg):
            weights(i, (s.cells,), fine)
        elif not s.peephole:
            absent("peephole to the output gate", i)
    if s.projection:
        weights(at.projection, (s.outputs, s.cells), kind)
        if node.optional(at.projection_bias) is not None:
            weights(at.projection_bias, (s.outputs,), sums)
    else:
        absent("projection", at.projection_bias)
        require(s.outputs == s.cells, f"{s.outputs} outputs of {s.cells} cells need a projection")
    if s.norm:
        for g in present(s):
            weights(at.norm[g], (s.cells,), DType.INT16 if integer else DType.FLOAT32)
    for i, size, dtypes in (
        (at.output_state, batch * s.outputs, (real, DType.INT16) if integer else (real,)),
        (at.cell_state, batch * s.cells, (DType.INT16,) if integer else (real,)),
    ):
        state = node.input(i)
        require(state.variable, f"input {i} is no variable; {node.op} keeps its state there")
        require(state.size == size, f"input {i} is {state}; taken: {size} elements")
        take(node, f"input {i}", state, *dtypes)
    return s


def all_constant(b: Binding, at: Layout) -> bool:
    return all(
        spec is None or spec.const is not None
        for spec in (
            b.optional(i)
            for i in (
                *at.inputs,
                *at.recurrent,
                *at.peephole,
                *at.bias,
                *at.norm,
                *at.auxiliary,
                at.projection,
                at.projection_bias,
            )
        )
    )


def state_of(b: Binding, i: int, batch: int) -> Array:
    """A state as [batch, units]; whatever rank the file gives it."""
    return b.xi(i).reshape(batch, -1)
