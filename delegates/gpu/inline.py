"""Calls taken whole: the nodes of the called subgraph, in the place of the node that calls it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from ...kernels.api import Node, NodeSpec, Registration, TensorSpec, Unsupported
from ...kernels.device import Lowered
from ...runtime.delegate import Called, DelegateContext
from .fuse import Item

LowerSpec = Callable[[NodeSpec, Registration], Lowered]

# inner tensors get numbers that no others have
CALLS = itertools.count(1)
_APART = 32


def inlined(context: DelegateContext, node: Node, called: Called, lower: LowerSpec) -> list[Item]:
    """The items of a call; `Unsupported` where a part of it is.

    `lower`: the device form of a node, or `Unsupported`.
    """
    first = next(CALLS) << _APART
    keys: dict[int, int] = {}
    specs: dict[int, TensorSpec] = {}
    for inner, outer in zip(called.inputs, node.inputs, strict=True):
        if outer is None or inner.shape != outer.shape:
            got = "nothing" if outer is None else str(list(outer.shape))
            raise Unsupported("SHAPE", f"got {got} for {inner.name!r}; takes {list(inner.shape)}")
        keys[inner.index], specs[inner.index] = outer.index, outer.spec
    for inner, outer in zip(called.outputs, node.outputs, strict=True):
        if inner.index in keys or inner.spec.const is not None:
            raise Unsupported("OPTION", f"got {inner.name!r}, which no node of the call makes")
        keys[inner.index] = outer.index
    items: list[Item] = []
    for part, registration in called.nodes:
        spec = part.spec
        seen = [
            s if t is None else specs.get(t.index, s)
            for t, s in zip(part.inputs, spec.inputs, strict=True)
        ]
        if any(s is not None and s.variable for s in seen):
            raise Unsupported("OPTION", f"got {part.op} with a variable of the called subgraph")
        try:
            inner_call = context.called(part)
            if inner_call is not None:
                own = inlined(context, part, inner_call, lower)
            else:
                lowered = lower(replace(spec, inputs=seen), registration)
                ins = [-1 if t is None else t.index for t in part.inputs]
                outs = [t.index for t in part.outputs]
                own = [Item(replace(spec, inputs=seen), ins, outs, lowered)]
        except Unsupported as e:
            raise Unsupported(e.code, f"{part.op} of the called subgraph: {e.text}") from e
        items += [_renumbered(item, keys, first) for item in own]
    return items


def _renumbered(item: Item, keys: dict[int, int], first: int) -> Item:
    """With the numbers of the caller's tensors; those of calls further in are apart already."""

    def key(index: int) -> int:
        apart = index < 0 or index >> _APART
        return index if apart else keys.get(index, first + index)

    ins, outs = [key(i) for i in item.inputs], [key(i) for i in item.outputs]
    return Item(item.spec, ins, outs, item.lowered)
