"""PAD in front of convolutions becomes padding of their own, which is not written to memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from ...kernels.api import NodeSpec, Options, Unsupported
from ...kernels.device import Lowered
from .fuse import Item
from .library import Library

# lowers an item's node again, of other inputs and options
Lower = Callable[[NodeSpec], Lowered]
Pads = tuple[tuple[int, int], tuple[int, int]]

_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")


def fold_pads(
    items: Sequence[Item], lower: Sequence[Lower | None], wanted: Collection[int]
) -> list[Item]:
    """`items` without the PADs that only convolutions read. `lower`: of each item, None where it is
    not to be changed; `wanted`: tensors that others read."""
    readers: dict[int, set[int]] = defaultdict(set)
    for number, item in enumerate(items):
        for key in item.inputs:
            readers[key].add(number)
    kept: dict[int, Item] = dict(enumerate(items))
    for number, item in enumerate(items):
        pads = _pads(item.spec)
        if pads is None:
            continue
        key = item.outputs[0]
        if key in wanted or not readers[key]:
            continue
        folded = {n: _folded(items[n], lower[n], item, pads) for n in readers[key]}
        if None not in folded.values():
            del kept[number]
            kept |= {n: i for n, i in folded.items() if i is not None}
    return list(kept.values())


def _pads(spec: NodeSpec) -> Pads | None:
    """What is added before and behind height and width; None for what a convolution cannot do."""
    if spec.op not in ("PAD", "PADV2"):
        return None
    x, paddings, y = spec.input(0), spec.input(1).const, spec.outputs[0]
    if paddings is None or x.rank != 4 or (x.scale, x.zero_point) != (y.scale, y.zero_point):
        return None
    value = spec.optional(2)
    if value is not None and (value.const is None or (value.const != x.zero_point).any()):
        return None
    images, height, width, channels = ((int(a), int(z)) for a, z in paddings)
    return (height, width) if images == channels == (0, 0) else None


def _folded(item: Item, lower: Lower | None, pad: Item, pads: Pads) -> Item | None:
    """`item`, a convolution of what `pad` gives, of what it reads; None where that cannot be."""
    key, spec = pad.outputs[0], item.spec
    if lower is None or spec.op not in _CONVOLUTIONS or key in item.inputs[1:]:
        return None
    if any(isinstance(step, Library) for step in item.lowered.steps):
        return None
    options = Options({**spec.options, "explicit_paddings": pads})
    spec = replace(spec, inputs=[pad.spec.inputs[0], *spec.inputs[1:]], options=options)
    try:
        lowered = lower(spec)
    except Unsupported:
        return None
    return Item(spec, [pad.inputs[0], *item.inputs[1:]], item.outputs, lowered)
