"""The Flex delegate: TensorFlow runs the operators that are its own.

An interpreter adds it by itself, after all others, where a model has operators named "Flex…" that
no resolver knows. TensorFlow is imported then, and not before.
"""

from __future__ import annotations

from functools import partial

from ...kernels.api import Context, Node, Registration, Unsupported
from ...runtime.delegate import Kernel, Partition, Unavailable
from ...runtime.simple_delegate import SimpleDelegate
from ...runtime.unresolved import FLEX, FLEX_INSTALL
from .library import is_installed, library
from .node import FlexNode, is_stateful
from .program import Program


class FlexDelegate(SimpleDelegate):
    """Runs each partition of Flex nodes as one function of TensorFlow, on the CPU.

    `Unavailable` where TensorFlow is not installed or, once it is needed, cannot be imported.
    """

    name = "flex"
    allows_dynamic_tensors = True

    def __init__(self) -> None:
        if not is_installed():
            raise Unavailable(f"TensorFlow is not installed; {FLEX_INSTALL}")

    def find_op(self, op: str, version: int) -> Registration | None:
        if not op.startswith(FLEX):
            return None
        name = op.removeprefix(FLEX)
        try:
            op_def = library().op_def(name)
        except Exception as e:
            raise Unavailable(
                f"TensorFlow is installed and cannot be imported: {type(e).__name__}: {e}"
            ) from e
        if op_def is None:
            return None
        return Registration(
            name=op,
            versions=(version, version),
            custom=True,
            init=partial(FlexNode, name),
            free=_free,
            prepare=_prepare,
            invoke=_invoke,
            pure=not is_stateful(op_def),
            profiling_name=_label,
        )

    def lower(self, node: Node, registration: Registration) -> FlexNode:
        made = node.user_data
        if not isinstance(made, FlexNode):
            raise Unsupported("OP", f"got {node.op}; takes TensorFlow's own operators, {FLEX}…")
        made.check(node)
        return made

    def build(self, partition: Partition) -> Kernel:
        return FlexKernel(partition)


class FlexKernel(Kernel):
    def __init__(self, partition: Partition) -> None:
        flex = [node.user_data for node in partition.nodes]
        self.launches = tuple(f.op for f in flex)
        self._partition = partition
        self._resize = flex[0].resize
        self._program = Program(partition.subgraph, partition.nodes, partition.outputs)

    def invoke(self) -> None:
        p = self._partition
        self._program.run(self._resize, p.shared, p.host_inputs, p.host_outputs)

    def free(self) -> None:
        self._partition.shared.clear()


def _free(context: Context, node: FlexNode) -> None:
    node.free()


def _prepare(context: Context, node: Node) -> None:
    node.user_data.prepare(context, node)


def _invoke(context: Context, node: Node) -> None:
    node.user_data.invoke(context, node)


def _label(node: Node) -> str:
    return f"{node.op} (TensorFlow)"
