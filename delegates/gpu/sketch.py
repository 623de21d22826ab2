"""A partition lowered and fused, before anything is built: what it costs can be told from that."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ...kernels.api import Node, NodeSpec
from ...kernels.builtins import find_builtin
from ...kernels.device import Capability, Lowered
from ...kernels.types import DType
from ...runtime.cost import CostProfile, PartitionCost, crossing, estimate, rate_key
from ...runtime.delegate import Partition
from .draft import Draft
from .fuse import Fused, Item
from .pads import Lower, fold_pads
from .variables import Held, Variables

# what becomes of a node: its device form, the items of a call, or a variable read or written
Claim = Lowered | Sequence[Item] | Held


class Sketch:
    """`reading` and `leaving`: the tensors that its plan reads and makes, `variables` apart."""

    def __init__(
        self, capability: Capability, partition: Partition, fuse: bool, alignment: int
    ) -> None:
        """`alignment`: of tensors in the plan's memory, in bytes."""
        self._capability = capability
        self.variables = Variables()
        items: list[Item] = []
        lower: list[Lower | None] = []
        for node, registration in zip(partition.nodes, partition.registrations, strict=True):
            claim = partition.claims[node.index]
            own = _items(node, claim, self.variables)
            items += own
            ours = isinstance(claim, Lowered) and registration is find_builtin(node.op)
            again = registration.lower if ours else None
            lower += [None if again is None else partial(_again, again, capability)] * len(own)
        self._specs = [item.spec for item in items]
        # variables, which are inputs too, are given back as they are left
        self.leaving = [*partition.outputs, *partition.variables]
        self.reading = [t for t in partition.inputs if t.dtype is not DType.RESOURCE]
        self.inputs = [*(t.index for t in self.reading), *self.variables.inputs]
        self.outputs = [*(t.index for t in self.leaving), *self.variables.outputs]
        self.items = fold_pads(items, lower, self.outputs) if fuse else items
        ends, half = (self.inputs, self.outputs), capability.half
        self.draft = Draft(capability, self.items, *ends, fuse, half, alignment)

    def cost(self, partition: Partition, device: CostProfile, host: CostProfile) -> PartitionCost:
        """By its launches, where `runtime.cost.partition_cost` counts nodes."""
        return PartitionCost(
            sum(host.seconds(rate_key(spec), estimate(spec)) for spec in self._specs),
            device.per_partition + sum(self._launches(device)),
            device.transfer(crossing(partition)),
        )

    def _launches(self, device: CostProfile) -> list[float]:
        units = self._capability.compute_units if self._capability.kind == "cpu" else 1
        parts = Counter(i for f in self.draft.fuser.kernels for i in dict.fromkeys(f.items))
        work = partial(self._work, device, parts)
        found = []
        for text, kernels in zip(self.draft.launches, self.draft.launch_kernels, strict=True):
            # one work-item leaves the other cores idle
            alone = units if text.grid and math.prod(text.grid) == 1 else 1
            found.append(device.per_node + alone * sum(map(work, kernels)))
        return found

    def _work(self, device: CostProfile, parts: Mapping[int, int], fused: Fused) -> float:
        """Of one kernel: what stays within it is not stored. `parts`: kernels of each item."""
        arithmetic = 0.0
        for i in dict.fromkeys(fused.items):
            spec = self.items[i].spec
            arithmetic += device.arithmetic(rate_key(spec), estimate(spec)) / parts[i]
        sizes = {o.key: math.prod(o.shape) * o.dtype.bits // 8 for o in fused.reads}
        sizes[fused.output.key] = math.prod(fused.output.shape) * fused.output.dtype.bits // 8
        return max(arithmetic, sum(sizes.values()) / device.bytes)


def _again(lower: Callable[..., Lowered], capability: Capability, spec: NodeSpec) -> Lowered:
    return lower(spec, capability)


def _items(node: Node, claim: Claim, variables: Variables) -> Sequence[Item]:
    if isinstance(claim, Held):
        return [variables.item(node, claim)]
    return [item_of(node, claim)] if isinstance(claim, Lowered) else claim


def item_of(node: Node, lowered: Lowered) -> Item:
    return Item(
        node.spec,
        [-1 if t is None else t.index for t in node.inputs],
        [t.index for t in node.outputs],
        lowered,
    )
