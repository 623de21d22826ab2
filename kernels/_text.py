"""What the text ops share: string tensors, and outputs whose size the text settles.

A string tensor is an object array of bytes. These ops are prepared and invoked on the Context, so
that the text is read once for a call; their outputs are dynamic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._check import option_map
from .api import Context, Node, NodeSpec, OpError, Registration
from .types import Array

# one value for each output, in order
Call = Callable[[NodeSpec, Sequence[Array]], Sequence[Array]]


def dynamic(name: str, check: Callable[[NodeSpec], None], call: Call) -> Registration:
    """A registration of an op whose outputs' shapes depend on values."""

    def prepare(context: Context, node: Node) -> None:
        check(node.spec)
        for output in node.outputs:
            context.set_dynamic(output)

    def invoke(context: Context, node: Node) -> None:
        x = [t.array for t in node.inputs if t is not None]
        results = call(node.spec, x)
        for output, value in zip(node.outputs, results, strict=True):
            context.resize(output, value.shape)
            output.array[...] = value

    return Registration(name=name, prepare=prepare, invoke=invoke, custom=True)


def strings(values: Sequence[bytes]) -> Array:
    """A string tensor [n]."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def option(options: Any, name: str) -> Any:
    found = option_map(options)
    if name not in found:
        raise OpError(f"the option {name!r} is missing; the options are {found!r}")
    return found[name]


def offsets(counts: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Where rows of these lengths begin and end in a row: [len + 1]."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(dtype)


def row_splits(splits: Array, size: int, what: str) -> Array:
    """Checked row splits of `size` values, as intp."""
    found = splits.reshape(-1).astype(np.intp)
    if not found.size or found[0] != 0 or found[-1] != size or (np.diff(found) < 0).any():
        raise OpError(f"{what} is {found.tolist()}; taken: from 0 to {size}, never less again")
    return found
