"""Delegates for tests: one that works, by running the nodes' own kernels, and ways to fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from litedelegate import (
    Delegate,
    DelegateContext,
    Kernel,
    Node,
    Partition,
    Registration,
    SimpleDelegate,
    Unsupported,
)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ADD": np.add,
    "MUL": np.multiply,
    "SUB": np.subtract,
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "NEG": np.negative,
    "ABS": np.abs,
    "RELU": lambda x: np.maximum(x, 0),
}


class FakeKernel(Kernel):
    def __init__(self, partition: Partition, owner: Fake) -> None:
        self.partition = partition
        self.owner = owner
        self.launches = ("+".join(n.op for n in partition.nodes),)
        self.freed = 0
        owner.kernels.append(self)

    def attach(self) -> None:
        self.owner.log.append("attach")
        self.owner.strike("attach")

    def invoke(self) -> None:
        self.owner.log.append("invoke")
        p, shared = self.partition, self.partition.shared
        values = {t.index: t.spec.const for t in p.constants}
        for t in p.inputs:
            if t.index in p.handles:
                values[t.index] = p.handles[t.index]
            else:  # what another partition made is not on the host
                values[t.index] = t.array if t.index in p.host_inputs else shared[t.index]
        for node in p.nodes:
            inputs = [values[t.index] for t in node.inputs if t is not None]
            values[node.outputs[0].index] = FUNCTIONS[node.op](*inputs)
            self.owner.strike("invoke", node)
            if node.index in self.owner.wrong:
                values[node.outputs[0].index] = self.owner.wrong[node.index](
                    values[node.outputs[0].index], p
                )
        for t in p.outputs:
            shared[t.index] = values[t.index]
            if t.index in p.handles:
                np.copyto(p.handles[t.index], values[t.index])
            elif t.index in p.host_outputs:
                np.copyto(t.array, values[t.index])

    def free(self) -> None:
        self.freed += 1


class Fake(SimpleDelegate):
    """Takes `ops`; fails where `strikes` says: step -> exception, or a function of the node."""

    def __init__(self, *ops: str, name: str = "fake", **options: Any) -> None:
        self.name = name
        self.ops = ops or tuple(FUNCTIONS)
        self.kernels: list[FakeKernel] = []
        self.log: list[str] = []
        self.strikes: dict[str, Exception | Callable[[Any], None]] = {}
        # of nodes that compute something else: the right result, the partition -> the wrong one
        self.wrong: dict[int, Callable[[Any, Partition], Any]] = {}
        for key, value in options.items():
            setattr(self, key, value)

    def describe(self) -> dict[str, str]:
        return {"device": "none"}

    def strike(self, step: str, what: Any = None) -> None:
        blow = self.strikes.get(step)
        if isinstance(blow, Exception):
            raise blow
        if blow is not None:
            blow(what)

    def prepare(self, context: DelegateContext) -> None:
        self.log.append("prepare")
        super().prepare(context)
        self.strike("prepare", context)

    def lower(self, node: Node, registration: Registration) -> Any:
        self.strike("lower", node)
        if node.op not in self.ops:
            raise Unsupported("OP", f"got {node.op}; takes {', '.join(self.ops)}")
        return node.op

    def build(self, partition: Partition) -> Kernel:
        self.log.append("build")
        self.strike("build", partition)
        return FakeKernel(partition, self)


class Buffers(Fake):
    """Users may hand in arrays, which stand for memory of a device."""

    def copy_from_buffer_handle(self, handle: Any, tensor: Any) -> None:
        self.log.append(f"from {tensor.name}")
        self.strike("copy")
        np.copyto(tensor.array, handle)

    def copy_to_buffer_handle(self, handle: Any, tensor: Any) -> None:
        self.log.append(f"to {tensor.name}")
        np.copyto(handle, tensor.array)

    def free_buffer_handle(self, handle: Any) -> None:
        self.log.append("free")


class Greedy(Delegate):
    """Asks for everything, in one go, by the context's own calls."""

    name = "greedy"

    def prepare(self, context: DelegateContext) -> None:
        context.replace_node_subsets_with_delegate_kernels(
            context.candidates(), lambda p: FakeKernel(p, Fake())
        )


__all__ = ["FUNCTIONS", "Buffers", "Fake", "FakeKernel", "Greedy"]
