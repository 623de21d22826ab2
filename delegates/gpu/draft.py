"""A plan before there is a device: kernels joined, written out, and gathered into launches."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...kernels.device import Capability
from ...runtime.cost import estimate
from .fuse import Fused, Fuser, Item
from .grids import in_a_row
from .halves import halve
from .merge import UNIT, merged
from .render import render
from .texts import Text

# of a kernel that one core does while others would be told of it: a few microseconds
_OPERATIONS, _BYTES = 60_000, 1 << 16


class Draft:
    """Of the nodes `items`, with `inputs` and `outputs` that cross, by number."""

    def __init__(
        self,
        capability: Capability,
        items: Sequence[Item],
        inputs: Sequence[int],
        outputs: Sequence[int],
        fuse: bool = True,
        half: bool = False,
        alignment: int = UNIT,
    ) -> None:
        """`half`: what stays on the device in float32 is stored in 16 bits. `alignment`: of
        tensors in the plan's memory, in bytes."""
        self.items = items
        self.fuse = fuse
        self.fuser = fuser = Fuser(items, inputs, outputs, fuse)
        self.roots = {key: fuser.root(key) for key in (*inputs, *outputs)}
        if half:
            halve(fuser, set(self.roots.values()))
        self.faults: list[tuple[str, int]] = []  # texts of errors, and the items that raise them
        self.texts: list[Text] = []
        for fused in fuser.kernels:
            slots = range(len(self.faults), len(self.faults) + len(fused.faults))
            self.faults += fused.faults
            text = render(fused.first, fused.rest, capability, slots)
            self.texts.append(in_a_row(text, capability))
        self.kernels = [
            "+".join(dict.fromkeys(items[i].spec.op for i in fused.items))
            for fused in fuser.kernels
        ]
        # what has no element needs no launch
        live = [i for i, f in enumerate(fuser.kernels) if math.prod(f.output.shape)]
        todo = [self.texts[i] for i in live]
        launches = [(t, 1) for t in todo]
        if fuse:
            light = {at for at, i in enumerate(live) if _light(fuser.kernels[i], items)}
            apart = set(self.roots.values())
            if alignment % UNIT:  # no offsets that a table could hold
                apart |= {key for text in todo for key in text.args}
            launches = merged(todo, capability, apart, fuser.constants, light)
        self.launches = [text for text, _ in launches]
        self.launch_kernels: list[list[Fused]] = []  # of each launch
        self.launch_names: list[str] = []
        at = 0
        for _, count in launches:
            these = live[at : at + count]
            self.launch_kernels.append([fuser.kernels[i] for i in these])
            self.launch_names.append(_name([self.kernels[i] for i in these]))
            at += count


def _light(kernel: Fused, items: Sequence[Item]) -> bool:
    """Whether one core does it in no more time than a launch takes."""
    costs = [estimate(items[i].spec) for i in dict.fromkeys(kernel.items)]
    operations, nbytes = sum(c.operations for c in costs), sum(c.bytes for c in costs)
    return operations <= _OPERATIONS and nbytes <= _BYTES


def _name(kernels: Sequence[str]) -> str:
    """Of a launch of these kernels."""
    if len(kernels) == 1:
        return kernels[0]
    of = list(dict.fromkeys(kernels))
    more = f" and {len(of) - 3} more" if len(of) > 3 else ""
    return f"{len(kernels)} kernels: {', '.join(of[:3])}{more}"
