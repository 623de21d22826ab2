"""Resource variables in a partition: READ_VARIABLE and ASSIGN_VARIABLE on the arrays they hold.

The kernels of a partition read and write the variable in an order that the graph gives; the array
that the runtime keeps is what they start from and what they leave.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ...kernels._lower import check_tensors
from ...kernels._memory import aligned_copy
from ...kernels.api import Node, OpError, TensorSpec, Unsupported
from ...kernels.device import Capability, Lowered, Map, Read
from ...kernels.types import Array
from ...kernels.variables import Variable
from ...runtime.delegate import DelegateContext
from .fuse import Item
from .inline import CALLS

OPS = ("READ_VARIABLE", "ASSIGN_VARIABLE")


@dataclass(frozen=True, eq=False)
class Held:
    """The claim of a node of `OPS`: the variable, and what it holds there."""

    variable: Variable
    spec: TensorSpec


def held(context: DelegateContext, node: Node, capability: Capability) -> Held:
    variable = context.variable(node)
    if variable is None:
        raise Unsupported("OPTION", "got a handle that no VAR_HANDLE of the subgraph makes")
    tensor = node.outputs[0] if node.op == "READ_VARIABLE" else node.inputs[1]
    assert tensor is not None
    spec = tensor.spec
    if spec.const is not None:
        raise Unsupported("POLICY", f"got the constant {tensor.name!r}; takes what is computed")
    check_tensors([spec], capability)
    return Held(variable, replace(spec, name=variable.name, variable=True))


@dataclass(slots=True)
class _Slot:
    key: int
    variable: Variable
    spec: TensorSpec
    read: bool  # before anything is assigned
    assigned: bool
    bound: Array | None = None


@dataclass(slots=True)
class Variables:
    """The variables of one partition, each with a tensor number of its own."""

    slots: dict[int, _Slot] = field(default_factory=dict)

    def item(self, node: Node, held: Held) -> Item:
        """The node as a copy from or to the variable."""
        read, v = node.op == "READ_VARIABLE", held.variable
        slot = self.slots.get(id(v))
        if slot is None:
            slot = self.slots[id(v)] = _Slot(next(CALLS) << 32, v, held.spec, read, not read)
        slot.assigned |= not read
        if (slot.spec.shape, slot.spec.dtype) != (held.spec.shape, held.spec.dtype):
            raise ValueError(f"variable {v.name!r} is {slot.spec} and {held.spec} in one partition")
        if read:
            spec = replace(node.spec, inputs=[slot.spec])
            return Item(spec, [slot.key], [node.outputs[0].index], Lowered([Map()]))
        value = node.inputs[1]
        assert value is not None
        spec = replace(node.spec, inputs=[slot.spec, node.spec.inputs[1]])
        assign = Lowered([Map("$0", (Read(1),))], state=[0])
        return Item(spec, [slot.key, value.index], [], assign)

    @property
    def inputs(self) -> list[int]:
        return [s.key for s in self.slots.values()]

    @property
    def outputs(self) -> list[int]:
        return [s.key for s in self.slots.values() if s.assigned]

    @property
    def stale(self) -> bool:
        """Whether a variable has another array than the kernels were told of."""
        return any(s.variable.value is not s.bound for s in self.slots.values())

    def arrays(self, now: bool) -> dict[int, Array]:
        """The arrays of all variables. OpError, as from numpy, where one cannot be read.

        Not `now`: nothing is to run yet, so any array of the right shape will do.
        """
        return {slot.key: _array(slot, now) for slot in self.slots.values()}


def _array(slot: _Slot, now: bool) -> Array:
    v, spec = slot.variable, slot.spec
    value = v.value
    fits = value is not None and v.dtype is spec.dtype and value.shape == spec.shape
    if not fits:
        if now and slot.read:
            raise OpError(_fault(v, spec))
        value = aligned_copy(np.zeros(spec.shape, spec.dtype.numpy))
        if now:
            v.value, v.dtype = value, spec.dtype
    assert value is not None
    slot.bound = value
    return value


def _fault(v: Variable, spec: TensorSpec) -> str:
    if v.value is None:
        return (
            f"variable {v.name!r} is read before a value was assigned to it; "
            "ASSIGN_VARIABLE must run first (CALL_ONCE runs a model's initialisation)"
        )
    got = v.dtype.label if v.dtype is not None else "nothing"
    return (
        f"variable {v.name!r} holds {got}{list(v.value.shape)}; the model declares {spec} where it "
        "is read"
    )
