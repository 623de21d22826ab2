"""Bodies of StableHLO reductions and scatters: a subgraph on scalars, run on whole vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .api import Context, OpError, Subgraph
from .builtins import BUILTINS
from .types import Array, DType

_UFUNCS: dict[str, np.ufunc] = {
    "ADD": np.add,
    "STABLEHLO_ADD": np.add,
    "MUL": np.multiply,
    "STABLEHLO_MULTIPLY": np.multiply,
    "MAXIMUM": np.maximum,
    "STABLEHLO_MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "STABLEHLO_MINIMUM": np.minimum,
    "LOGICAL_AND": np.logical_and,
    "LOGICAL_OR": np.logical_or,
}
# of integers these work on bits
_ON_BOOL: dict[str, np.ufunc] = {
    "STABLEHLO_AND": np.logical_and,
    "STABLEHLO_OR": np.logical_or,
}


class Body:
    """Subgraph `index`, with `count` values on each side: (a1 .. an, b1 .. bn) -> (c1 .. cn)."""

    def __init__(self, context: Context, index: int, count: int, op: str) -> None:
        self.subgraph: Subgraph = context.subgraph(index)
        inputs, outputs = self.subgraph.inputs, self.subgraph.outputs
        if len(inputs) != 2 * count or len(outputs) != count:
            raise OpError(
                f"{op}: the body takes {len(inputs)} values and gives {len(outputs)}; "
                f"{2 * count} and {count} are needed"
            )

    @property
    def ufunc(self) -> np.ufunc | None:
        """The numpy function that the body is, if it is one operator on its two inputs."""
        ops, inputs = self.subgraph.ops, self.subgraph.inputs
        if len(ops) != 1 or len(inputs) != 2:
            return None
        found = _UFUNCS.get(ops[0])
        if found is None and inputs[0].dtype is DType.BOOL:
            found = _ON_BOOL.get(ops[0])
        # numpy's storage of bfloat16 is no number
        return None if inputs[0].dtype is DType.BFLOAT16 else found

    @property
    def gives(self) -> int | None:
        """0 or 1 where the body gives its first or its second value as it is."""
        inputs, outputs = self.subgraph.inputs, self.subgraph.outputs
        if self.subgraph.ops or len(inputs) != 2:
            return None
        return next((i for i in (0, 1) if inputs[i].index == outputs[0].index), None)

    def __call__(self, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        return run_on_vectors(self.subgraph, [*left, *right])


def run_on_vectors(subgraph: Subgraph, values: Sequence[Array]) -> list[Array]:
    """A subgraph of scalars on vectors of one length: its outputs, as vectors of their own.

    A body of elementwise operators runs once, on whole vectors. Any other (one that gives its
    scalars a shape, or branches on them) runs once for each element.
    """
    size = values[0].size
    if size != 1 and not all(_elementwise(op) for op in subgraph.ops):
        ones = [
            run_on_vectors(subgraph, [v.reshape(-1)[i : i + 1] for v in values])
            for i in range(size)
        ]
        if ones:
            return [np.concatenate(parts) for parts in zip(*ones, strict=True)]
    shape = () if size == 1 else (size,)
    for i in range(len(values)):
        subgraph.resize_input(i, shape)
    subgraph.allocate()
    for tensor, value in zip(subgraph.inputs, values, strict=True):
        tensor.array[...] = value.reshape(shape)
    subgraph.invoke()
    # a constant result has one element still
    return [np.array(np.broadcast_to(t.array.reshape(-1), (size,))) for t in subgraph.outputs]


_FAMILIES = ("arithmetic", "comparison", "unary", "activation", "bitwise")
_OTHERS = (
    "SELECT",
    "SELECT_V2",
    "STABLEHLO_SELECT",
    "STABLEHLO_CLAMP",
    "CAST",
    "STABLEHLO_CONVERT",
)


def _elementwise(op: str) -> bool:
    return op in _OTHERS or BUILTINS.get(op) in _FAMILIES
