"""A model with operators that are not known here, looked at all the same: what would run where."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from ..kernels.api import Context, Node, OpError, Registration, Unsupported
from .simple_delegate import SimpleDelegate
from .unresolved import FLEX, FLEX_INSTALL

if TYPE_CHECKING:
    from .interpreter import Interpreter


class StandIn(SimpleDelegate):
    """Has operators that no resolver knows keep the shapes that the file declares, and refuses to
    run them, so that a report can be made of the rest. To be the last delegate.
    """

    allows_dynamic_tensors = True

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self._why = why
        self._ops: set[str] = set()

    def find_op(self, op: str, version: int) -> Registration | None:
        if op.startswith(FLEX) is not (self.name == "flex"):
            return None
        self._ops.add(op)
        return Registration(
            name=op, versions=(version, version), custom=True, prepare=_keep, invoke=_refuse
        )

    def lower(self, node: Node, registration: Registration) -> NoReturn:
        if node.op in self._ops:
            raise Unsupported("UNAVAILABLE", self._why)
        raise Unsupported("OP", f"got {node.op}; takes what no resolver knows")


def _keep(context: Context, node: Node) -> None:
    """The declared shapes stay."""


def _refuse(context: Context, node: Node) -> NoReturn:
    raise OpError(f"nothing here runs {node.op}: this interpreter is for a report alone")


def stand_ins(interpreter: Interpreter) -> list[StandIn]:
    """One for TensorFlow's own operators and one for others, where any of them is unresolved."""
    graph = interpreter._graph
    names = [m.op for m in graph.unresolved if m.custom]
    found = []
    if any(n.startswith(FLEX) for n in names):
        found.append(StandIn("flex", graph.no_flex or FLEX_INSTALL))
    if not all(n.startswith(FLEX) for n in names):
        why = "no resolver has it; custom_ops={name: function or Registration} gives one"
        found.append(StandIn("custom_ops", why))
    return found
