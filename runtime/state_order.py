"""What must keep its order among nodes that read and change state."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from .node import LiveNode

State = frozenset[Hashable]
# of nodes of which it is not known: subgraphs that they run, custom ops, random numbers
ALL: State = frozenset({"all"})
NONE: State = frozenset()
_VARIABLES = ("READ_VARIABLE", "ASSIGN_VARIABLE")


def handles(nodes: Iterable[LiveNode]) -> dict[int, Hashable]:
    """The variables that tensors of handles stand for: tensor number -> name."""
    return {
        n.outputs[0].index: (n.options.container or "", n.options.shared_name or "")
        for n in nodes
        if n.op == "VAR_HANDLE" and not n.registration.custom
    }


def state_of(node: LiveNode, variables: Mapping[int, Hashable]) -> State:
    """The variables that a node reads or changes; `variables` are those of `handles`."""
    tensors = frozenset(("tensor", t.index) for t in node.inputs if t is not None and t.variable)
    if node.registration.custom:
        return tensors if node.registration.pure else ALL
    if node.op == "VAR_HANDLE":
        return NONE
    if node.op in _VARIABLES and node.inputs[0] is not None:
        name = variables.get(node.inputs[0].index)
        return ALL if name is None else frozenset({("resource", name)})
    return tensors if node.registration.pure else ALL


def edges(states: Sequence[State]) -> list[tuple[int, int]]:
    """Pairs of places, of which the first must come first; as many as there are places, about.

    Nodes of one variable keep their order, and nodes of `ALL` theirs with those of any.
    """
    found: list[tuple[int, int]] = []
    last: dict[Hashable, int] = {}  # who touched a variable last
    since: list[int] = []  # those with state since the last of ALL
    wall: int | None = None
    for place, state in enumerate(states):
        if not state:
            continue
        if state & ALL:
            found += [(before, place) for before in since]
            if wall is not None and not since:
                found.append((wall, place))
            wall, since, last = place, [], {}
            continue
        before = {last[key] for key in state if key in last}
        if not before and wall is not None:
            before = {wall}
        found += [(b, place) for b in sorted(before)]
        last.update(dict.fromkeys(state, place))
        since.append(place)
    return found
