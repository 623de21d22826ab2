"""Resources: what a handle tensor refers to."""

from __future__ import annotations

from typing import TypeVar

from .api import Context, Node, OpError, Tensor
from .types import DType

R = TypeVar("R")


def give_handle(context: Context, node: Node) -> None:
    """The invoke of an op that makes a handle: its user data into its output."""
    node.outputs[0].array.fill(node.user_data)


def check_handle(node: Node) -> Tensor:
    """Input 0, which must be one resource handle."""
    handle = node.inputs[0] if node.inputs else None
    if handle is None or handle.dtype is not DType.RESOURCE:
        got = "absent" if handle is None else handle.dtype.label
        raise OpError(f"input 0 is {got}; {node.op} takes resource there")
    if handle.spec.size != 1:
        raise OpError(f"input 0 is {handle.spec}; {node.op} takes one handle")
    return handle


def resource(node: Node, kind: type[R]) -> R:
    """What the handle at input 0, which `check_handle` has passed, refers to: a `kind`."""
    handle = node.inputs[0]
    held = handle.array.item() if handle is not None else None
    if not isinstance(held, kind):
        got = "nothing" if held is None else f"a {type(held).__name__.lower()}"
        raise OpError(
            f"the handle at input 0 of {node.op} refers to {got}, not a {kind.__name__.lower()}"
        )
    return held


def arity(node: Node, inputs: int, outputs: int) -> None:
    if (len(node.inputs), len(node.outputs)) != (inputs, outputs):
        raise OpError(
            f"{node.op} has {inputs} inputs and {outputs} outputs; the model gives it "
            f"{len(node.inputs)} and {len(node.outputs)}"
        )
