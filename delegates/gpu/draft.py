"""A plan before there is a device: kernels joined, written out, and gathered into launches."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...kernels.device import Capability
from .fuse import Fused, Fuser, Item
from .grids import in_a_row
from .halves import halve
from .merge import merged
from .render import Text, render


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
    ) -> None:
        """`half`: what stays on the device in float32 is stored in 16 bits."""
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
        launches = merged(todo, capability) if fuse else [(t, 1) for t in todo]
        self.launches = [text for text, _ in launches]
        self.launch_kernels: list[list[Fused]] = []  # of each launch
        self.launch_names: list[str] = []
        at = 0
        for _, count in launches:
            these = live[at : at + count]
            self.launch_kernels.append([fuser.kernels[i] for i in these])
            self.launch_names.append(_name([self.kernels[i] for i in these]))
            at += count


def _name(kernels: Sequence[str]) -> str:
    """Of a launch of these kernels."""
    if len(kernels) == 1:
        return kernels[0]
    of = list(dict.fromkeys(kernels))
    more = f" and {len(of) - 3} more" if len(of) > 3 else ""
    return f"{len(kernels)} kernels: {', '.join(of[:3])}{more}"
