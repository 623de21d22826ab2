"""VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE: tensors that outlive an invoke, found by name.

A variable is known by its container and shared name, in all subgraphs of an interpreter alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._memory import aligned_copy
from ._resource import arity, check_handle, give_handle, resource
from .api import Context, Node, OpError, Registration, Shape
from .types import Array, DType


class Variable:
    """A named value, None until it is assigned."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.value: Array | None = None
        self.dtype: DType | None = None

    def assign(self, value: Array, dtype: DType) -> None:
        held = self.value
        if held is None or self.dtype is not dtype or held.shape != value.shape:
            self.value, self.dtype = aligned_copy(value), dtype
        else:
            np.copyto(held, value)


def _init_handle(context: Context, options: Any) -> Variable:
    container, name = options.container or "", options.shared_name or ""
    variable: Variable = context.resources.setdefault(("variable", container, name), Variable(name))
    return variable


def _prepare_handle(context: Context, node: Node) -> None:
    arity(node, 0, 1)
    output = node.outputs[0]
    if output.dtype is not DType.RESOURCE:
        raise OpError(f"output 0 is {output.dtype.label}; {node.op} gives resource")
    context.resize(output, output.shape)


class _Read:
    """What the file says of a node's output: its shape, once the node was prepared."""

    declared: Shape | None = None


def _init_read(context: Context, options: Any) -> _Read:
    return _Read()


def _prepare_read(context: Context, node: Node) -> None:
    arity(node, 1, 1)
    check_handle(node)
    output, read = node.outputs[0], node.user_data
    if read.declared is None:
        read.declared = output.shape
    if read.declared:
        context.resize(output, read.declared)
    else:
        # the file writes an unknown shape and a scalar's alike
        context.set_dynamic(output)


def _read(context: Context, node: Node) -> None:
    variable, output = resource(node, Variable), node.outputs[0]
    if variable.value is None:
        raise OpError(
            f"variable {variable.name!r} is read before a value was assigned to it; "
            f"ASSIGN_VARIABLE must run first (CALL_ONCE runs a model's initialisation)"
        )
    if variable.dtype is not output.dtype:
        got = variable.dtype.label if variable.dtype is not None else "nothing"
        raise OpError(f"variable {variable.name!r} holds {got}; the output is {output.dtype.label}")
    if output.is_dynamic:
        context.resize(output, variable.value.shape)
    elif variable.value.shape != output.shape:
        raise OpError(
            f"variable {variable.name!r} holds the shape {list(variable.value.shape)}; "
            f"the model declares {list(output.shape)} where it is read"
        )
    np.copyto(output.array, variable.value)


def _prepare_assign(context: Context, node: Node) -> None:
    arity(node, 2, 0)
    check_handle(node)
    if node.inputs[1] is None:
        raise OpError(f"{node.op} needs input 1, the value, which is absent")


def _assign(context: Context, node: Node) -> None:
    value = node.inputs[1]
    if value is not None:
        resource(node, Variable).assign(value.array, value.dtype)


OPS = {
    "VAR_HANDLE": Registration(
        name="VAR_HANDLE", init=_init_handle, prepare=_prepare_handle, invoke=give_handle
    ),
    "READ_VARIABLE": Registration(
        name="READ_VARIABLE", init=_init_read, prepare=_prepare_read, invoke=_read
    ),
    "ASSIGN_VARIABLE": Registration(
        name="ASSIGN_VARIABLE", prepare=_prepare_assign, invoke=_assign
    ),
}
