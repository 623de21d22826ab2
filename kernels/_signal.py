"""What the signal ops of TensorFlow Lite Micro share: options, checks, and state between calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ._check import option_map
from .api import (
    Context,
    Infer,
    Node,
    NodeSpec,
    OpError,
    Registration,
    Shape,
    TensorSpec,
    require,
    take,
)
from .types import Array, DType


def number(options: Any, name: str, low: int | None = None, high: int | None = None) -> int:
    """An integer option, which must be there and lie from `low` to `high`."""
    found = option_map(options)
    if name not in found:
        raise OpError(f"the option {name!r} is missing; the options are {found!r}")
    value = int(found[name])
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = [f"at least {low}"] if low is not None else []
        bounds += [f"at most {high}"] if high is not None else []
        raise OpError(f"{name} is {value}; it is {' and '.join(bounds)}")
    return value


def arity(node: NodeSpec, inputs: int, outputs: int) -> None:
    require(
        (len(node.inputs), len(node.outputs)) == (inputs, outputs),
        f"{node.op} has {inputs} inputs and {outputs} outputs; the model gives it "
        f"{len(node.inputs)} and {len(node.outputs)}",
    )


def typed(node: NodeSpec, inputs: Sequence[DType], outputs: Sequence[DType]) -> None:
    """Checks how many inputs and outputs there are, and their types."""
    arity(node, len(inputs), len(outputs))
    for i, dtype in enumerate(inputs):
        take(node, f"input {i}", node.input(i), dtype)
    for i, dtype in enumerate(outputs):
        take(node, f"output {i}", node.outputs[i], dtype)


def last(node: NodeSpec, i: int) -> tuple[Shape, int]:
    """The outer shape of input `i`, and its last dimension, which is not empty."""
    x = node.input(i)
    require(x.rank > 0 and x.size > 0, f"input {i} is {x}; taken: one dimension at least, not 0")
    return x.shape[:-1], x.shape[-1]


def vector(node: NodeSpec, i: int, size: int | None = None) -> TensorSpec:
    """Input `i`, which must have one dimension, of `size`."""
    x = node.input(i)
    require(
        x.rank == 1 and (size is None or x.shape == (size,)),
        f"input {i} is {x}; taken: [{'any' if size is None else size}]",
    )
    return x


class State(Protocol):
    """What a node keeps from one call to the next."""

    def prepare(self, node: NodeSpec) -> None:
        """Makes the state; does nothing where there is one for these shapes."""
        ...

    def reset(self) -> None:
        """Back to the start."""
        ...

    def run(self, x: Sequence[Array], y: Sequence[Array]) -> None: ...


def stateful(name: str, infer: Infer, make: Callable[[], State]) -> Registration:
    """A registration of an op that keeps a `State`; it does not depend on values but in `run`."""

    def init(context: Context, options: Any) -> State:
        return make()

    def prepare(context: Context, node: Node) -> None:
        spec = node.spec
        for output, shape in zip(node.outputs, infer(spec), strict=True):
            assert shape is not None
            context.resize(output, shape)
        node.user_data.prepare(spec)

    def invoke(context: Context, node: Node) -> None:
        x = [t.array for t in node.inputs if t is not None]
        node.user_data.run(x, [t.array for t in node.outputs])

    def reset(context: Context, user_data: Any) -> None:
        user_data.reset()

    return Registration(
        name=name, init=init, prepare=prepare, invoke=invoke, reset=reset, custom=True
    )
