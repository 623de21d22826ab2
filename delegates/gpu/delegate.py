"""The delegate that backends derive from: they bring a `Device`, it does the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...kernels.api import Node, NodeSpec, Registration, Tensor, Unsupported
from ...kernels.builtins import find_builtin
from ...kernels.device import Capability, Lowered
from ...kernels.types import Array, DType
from ...runtime.cost import CostProfile
from ...runtime.delegate import DelegateContext, DeviceTime, Kernel, Partition
from ...runtime.simple_delegate import SimpleDelegate
from .custom import check_form
from .device import Device
from .dry import DryDevice
from .fuse import Item
from .inline import inlined
from .pads import Lower, fold_pads
from .plan import Plan
from .variables import OPS, Held, Variables, held

# what becomes of a node: its device form, the items of a call, or a variable read or written
Claim = Lowered | Sequence[Item] | Held
# of the device and of the host
Costs = Callable[[], tuple[CostProfile | None, CostProfile]]

HALF_TOLERANCE = 5e-2  # of a tensor's largest value, after layers that were stored in halves


class GpuDelegate(SimpleDelegate):
    """Takes every node whose op has a device form that fits the device.

    Check is build: what `lower` gives is what runs.
    """

    uses_blas = False

    def __init__(
        self, name: str, device: Device, half: bool = False, costs: Costs | None = None
    ) -> None:
        """`half`: float32 that stays on the device is stored in 16 bits, computed with in 32.
        `costs`: gives the profiles by which partitions are chosen, when they are first needed;
        without it all are taken.
        """
        self.name = name
        self.device = device
        self.half = half
        self._capability = replace(device.capability, half=half)
        self._costs = costs

    def prepare(self, context: DelegateContext) -> None:
        if self._costs is not None:
            (self.profile, self.host_profile), self._costs = self._costs(), None
        super().prepare(context)

    @property
    def tolerance(self) -> float:  # type: ignore[override]
        return HALF_TOLERANCE if self.half else 0.0

    def describe(self) -> Mapping[str, str]:
        found = {"device": self.device.name}
        cache: Any = getattr(self.device, "cache", None)
        if cache is not None and cache.hits + cache.misses:
            found["programs"] = f"{cache.hits} of {cache.hits + cache.misses} found built"
        return found

    def lower(self, node: Node, registration: Registration) -> Lowered:
        lowered = self._lower(node.spec, registration)
        if registration.custom:
            _check(lowered, node, self.device.capability)
        return lowered

    def _lower(self, spec: NodeSpec, registration: Registration) -> Lowered:
        if registration.lower is None:
            raise Unsupported("OP", f"got {spec.op}; it has no device form")
        if registration.infer is not None and None in registration.infer(spec):
            raise Unsupported("DYNAMIC", "got an output whose shape depends on values")
        lowered: Lowered = registration.lower(spec, self._capability)
        return lowered

    def claim(self, context: DelegateContext, node: Node, registration: Registration) -> Claim:
        if node.op in OPS and not registration.custom:
            return held(context, node, self.device.capability)
        called = context.called(node)
        if called is None:
            return self.lower(node, registration)
        return inlined(context, node, called, self._lower)

    def build(self, partition: Partition) -> Kernel:
        return self.kernel(partition, fuse=True)

    def build_unfused(self, partition: Partition) -> Kernel:
        return self.kernel(partition, fuse=False)

    def kernel(self, partition: Partition, fuse: bool) -> Kernel:
        return PlanKernel(self.device, partition, fuse, self.half)


class PlanKernel(Kernel):
    """A partition as a `Plan`."""

    def __init__(
        self, device: Device, partition: Partition, fuse: bool, half: bool = False
    ) -> None:
        self._variables = Variables()
        capability = replace(device.capability, half=half)
        items: list[Item] = []
        lower: list[Lower | None] = []
        for node, registration in zip(partition.nodes, partition.registrations, strict=True):
            claim = partition.claims[node.index]
            own = _items(node, claim, self._variables)
            items += own
            ours = isinstance(claim, Lowered) and registration is find_builtin(node.op)
            again = registration.lower if ours else None
            lower += [None if again is None else partial(_again, again, capability)] * len(own)
        self._partition = partition
        # variables, which are inputs too, are given back as they are left
        self._leaving = [*partition.outputs, *partition.variables]
        self._reading = [t for t in partition.inputs if t.dtype is not DType.RESOURCE]
        inputs = [*(t.index for t in self._reading), *self._variables.inputs]
        outputs = [*(t.index for t in self._leaving), *self._variables.outputs]
        if fuse:
            items = fold_pads(items, lower, outputs)
        self._plan = Plan(device, items, inputs, outputs, fuse, half)
        self.launches = self._plan.kernels
        self._inputs: Mapping[int, Array] = {}
        self._outputs: Mapping[int, Array] = {}

    def attach(self) -> None:
        """What another partition of this delegate makes is read where it is; see `runtime.delegate`
        for who attaches first.
        """
        self._bind(running=False)

    def _bind(self, running: bool) -> None:
        partition = self._partition
        leaving = {*partition.host_outputs, *(t.index for t in partition.variables)}
        own = [t for t in self._reading if t.index in partition.host_inputs]
        kept = self._variables.arrays(running)
        assigned = {key: kept[key] for key in self._variables.outputs}
        self._inputs = {t.index: _array(t) for t in own} | kept
        self._outputs = {t.index: _array(t) for t in self._leaving if t.index in leaving} | assigned
        others = [t.index for t in self._reading if t.index not in partition.host_inputs]
        self._plan.bind(self._inputs, self._outputs, {i: partition.shared[i] for i in others})
        for t in partition.outputs:
            partition.shared[t.index] = self._plan.home(t.index)

    def _refresh(self) -> None:
        if self._variables.stale:
            self._bind(running=True)

    def invoke(self) -> None:
        self._refresh()
        self._plan.invoke()

    def invoke_timed(self) -> Sequence[DeviceTime]:
        self._refresh()
        return self._plan.invoke_timed()


def _again(lower: Callable[..., Lowered], capability: Capability, spec: NodeSpec) -> Lowered:
    return lower(spec, capability)


def _items(node: Node, claim: Claim, variables: Variables) -> Sequence[Item]:
    if isinstance(claim, Held):
        return [variables.item(node, claim)]
    return [_item(node, claim)] if isinstance(claim, Lowered) else claim


def _item(node: Node, lowered: Lowered) -> Item:
    return Item(
        node.spec,
        [-1 if t is None else t.index for t in node.inputs],
        [t.index for t in node.outputs],
        lowered,
    )


def _check(lowered: Lowered, node: Node, capability: Capability) -> None:
    """`Unsupported` where what an op from outside gives is none, or makes no plan: the fault of
    this node, which must not cost its neighbours.
    """
    check_form(lowered, node.spec, capability)
    inputs = [t.index for t in node.inputs if t is not None and t.spec.const is None]
    outputs = [t.index for t in node.outputs]
    Plan(DryDevice(capability), [_item(node, lowered)], inputs, outputs)


def _array(tensor: Tensor) -> Array:
    array = tensor.array
    if not array.flags.c_contiguous:
        raise ValueError(f"the memory of {tensor.name!r} is not contiguous")
    return array
