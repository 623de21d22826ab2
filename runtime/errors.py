"""Errors of a graph that cannot be prepared or run."""

from __future__ import annotations


class NodeError(RuntimeError):
    """A node failed; the text names it: `node` is its index, `op` its name."""

    def __init__(self, text: str, subgraph: int, node: int, op: str) -> None:
        super().__init__(text)
        self.subgraph = subgraph
        self.node = node
        self.op = op


class UnresolvedOpsError(RuntimeError):
    """The model has operators that nobody knows; the text lists them all."""
