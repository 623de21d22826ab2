"""The delegate that backends derive from: they bring a `Device`, it does the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...kernels.api import Node, NodeSpec, Registration, Tensor, Unsupported
from ...kernels.device import Capability, Lowered
from ...kernels.types import Array
from ...runtime.cost import CostProfile, PartitionCost
from ...runtime.delegate import DelegateContext, DeviceTime, Kernel, Partition
from ...runtime.simple_delegate import SimpleDelegate
from .custom import check_form
from .device import Device
from .dry import DryDevice
from .inline import inlined
from .plan import Plan
from .sketch import Claim, Sketch, item_of
from .variables import OPS, held

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

    def cost(self, partition: Partition) -> PartitionCost | None:
        if self.profile is None or (partition.cost is not None and partition.sketch is None):
            return partition.cost
        try:
            if partition.sketch is None:
                alignment = self.device.alignment
                partition.sketch = Sketch(self._capability, partition, True, alignment)
        except Exception:  # it fails again, and is dealt with, where it is built
            return super().cost(partition)
        sketch: Sketch = partition.sketch
        return sketch.cost(partition, self.profile, self.host_profile)

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
        kept, partition.sketch = partition.sketch, None
        if kept is None or not fuse:
            capability = replace(device.capability, half=half)
            kept = Sketch(capability, partition, fuse, device.alignment)
        self._partition = partition
        self._variables, self._leaving, self._reading = kept.variables, kept.leaving, kept.reading
        self._plan = Plan(
            device, kept.items, kept.inputs, kept.outputs, fuse, half, draft=kept.draft
        )
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


def _check(lowered: Lowered, node: Node, capability: Capability) -> None:
    """`Unsupported` where what an op from outside gives is none, or makes no plan: the fault of
    this node, which must not cost its neighbours.
    """
    check_form(lowered, node.spec, capability)
    inputs = [t.index for t in node.inputs if t is not None and t.spec.const is None]
    outputs = [t.index for t in node.outputs]
    Plan(DryDevice(capability), [item_of(node, lowered)], inputs, outputs)


def _array(tensor: Tensor) -> Array:
    array = tensor.array
    if not array.flags.c_contiguous:
        raise ValueError(f"the memory of {tensor.name!r} is not contiguous")
    return array
