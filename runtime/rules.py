"""What a user allows delegates: which nodes, and whether less than all will do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .node import LiveNode

if TYPE_CHECKING:
    from .graph import Graph

BY_THE_USER = "the user said no: "

Pick = int | str  # a node's number in the main subgraph, an operator, or a tensor's name


def listed_picks(name: str, picks: Iterable[Pick]) -> tuple[Pick, ...]:
    """What the argument `name` holds. TypeError for what is no list of numbers and names."""
    if isinstance(picks, str | bytes) or not isinstance(picks, Iterable):
        raise TypeError(
            f"{name} is a list of node numbers, operators and tensor names, not {picks!r}"
        )
    items = tuple(picks)
    for item in items:
        if isinstance(item, bool) or not isinstance(item, str | int | np.integer):
            raise TypeError(
                f"{name}: {item!r} is neither a node's number nor an operator or tensor's name"
            )
    return items


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Which nodes delegates may have, whether less than all is an error, and what is checked."""

    only: tuple[Pick, ...] | None = None
    exclude: tuple[Pick, ...] = ()
    strict: bool = False
    verify: int = 0  # so many invokes of each plan are compared with numpy

    def bar(self, node: LiveNode, subgraph: int) -> str | None:
        if self.only is not None and not _picked(self.only, node, subgraph):
            return f"{BY_THE_USER}it is not among only={list(self.only)}"
        if _picked(self.exclude, node, subgraph):
            return f"{BY_THE_USER}exclude={list(self.exclude)}"
        return None


def _picked(picks: Sequence[Pick], node: LiveNode, subgraph: int) -> bool:
    known: set[Pick] = {node.op, *(t.name for t in node.outputs)}
    if subgraph == 0:
        known.add(node.index)
    return not known.isdisjoint(picks)


class NoSuchNode(ValueError):
    """`only` or `exclude` picks what is no node of the model."""


def check_picks(graph: Graph, rules: Rules) -> None:
    """`NoSuchNode` for what is none: a slip there would change nothing, silently."""
    nodes = [n for s in graph.subgraphs for n in s.nodes]
    known = {n.op for n in nodes} | {t.name for n in nodes for t in n.outputs}
    count = len(graph.subgraphs[0].nodes)
    for pick in (*(rules.only or ()), *rules.exclude):
        if pick not in known if isinstance(pick, str) else not 0 <= pick < count:
            raise NoSuchNode(
                f"only, exclude: {pick!r} is no node's number (0 to {count - 1}), operator or "
                "output tensor"
            )
