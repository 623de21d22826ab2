"""A delegate in fifty lines: float32 ADD, SUB and MUL, on numpy, without the runtime's kernels.

    litedelegate coverage model.tflite --delegate simple_delegate:Arithmetic

(from this folder, or with it on PYTHONPATH).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from litedelegate import DType, Kernel, Node, Partition, Registration, SimpleDelegate, Unsupported

FUNCTIONS: dict[str, np.ufunc] = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply}


class Arithmetic(SimpleDelegate):
    name = "arithmetic"

    def lower(self, node: Node, registration: Registration) -> np.ufunc:
        if node.op not in FUNCTIONS:
            raise Unsupported("OP", f"got {node.op}; takes {', '.join(FUNCTIONS)}")
        for tensor in (*node.spec.inputs, *node.spec.outputs):
            if tensor is not None and tensor.dtype is not DType.FLOAT32:
                raise Unsupported("DTYPE", f"{tensor.name!r} is {tensor}; takes float32")
        if (activation := node.options.fused_activation_function) != "NONE":
            raise Unsupported("OPTION", f"fused_activation_function is {activation}; takes NONE")
        return FUNCTIONS[node.op]

    def build(self, partition: Partition) -> Kernel:
        return Chain(partition)


class Chain(Kernel):
    """One numpy call for each node, into arrays that are there before the first invoke."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.launches = [partition.claims[node.index].__name__ for node in partition.nodes]
        self.inner = {  # tensors that nobody else reads live here
            t.index: np.empty(t.shape, np.float32) for n in partition.nodes for t in n.outputs
        }

    def attach(self) -> None:
        ends = (*self.partition.inputs, *self.partition.constants, *self.partition.outputs)
        arrays = {**self.inner, **{t.index: t.array for t in ends}}
        self.calls: list[tuple[Callable[..., Any], list[Any], Any]] = [
            (
                self.partition.claims[node.index],
                [arrays[t.index] for t in node.inputs if t is not None],
                arrays[node.outputs[0].index],
            )
            for node in self.partition.nodes
        ]

    def invoke(self) -> None:
        for function, inputs, output in self.calls:
            function(*inputs, out=output)
