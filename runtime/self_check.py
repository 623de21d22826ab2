"""The self-check that users can ask for: what a delegate computes, against numpy on equal inputs.

A kernel is wrapped: after it has run, its nodes are computed again by their own registrations. A
tensor that the host can see is taken from the delegate, so that each node is fed what the delegate
fed it. `Delegation` makes a plan with all tensors in sight first, in which each node is judged by
itself, and then the plan that is to run, where a node's tensors may be hidden in its partition.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..kernels.api import Node, OpError, Registration, Tensor
from ..kernels.types import Array, DType, bfloat16_to_float32
from .delegate import DeviceTime, Kernel, Partition
from .node import LiveNode, NodeBinding
from .pending import Pending
from .tensor import LiveTensor

if TYPE_CHECKING:
    from .subgraph import LiveSubgraph

# of a tensor's largest value; sums in another order; several nodes in a row that nobody sees
CLOSE, LONG_SUM, CHAIN = 2e-5, 1e-4, 2e-3
# of a tensor's range, on average: what follows where floats were rounded to integers out of sight
GROSS = 0.1
SUMS = frozenset({
    *("CONV_2D", "DEPTHWISE_CONV_2D", "CONV_3D", "TRANSPOSE_CONV", "CONV_3D_TRANSPOSE"),
    *("FULLY_CONNECTED", "BATCH_MATMUL", "SVDF", "RNN", "LSTM", "SUM", "MEAN", "REDUCE_PROD"),
    *("UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM", "CUMSUM", "SOFTMAX"),
    *("UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN", "L2_NORMALIZATION"),
})  # fmt: skip
OPAQUE = (DType.RESOURCE, DType.VARIANT, DType.STRING)


@dataclass(frozen=True)
class Difference:
    """A result of a delegate that is not numpy's."""

    subgraph: int
    node: int
    op: str
    output: str  # the tensor's name
    delegate: str
    text: str

    def __str__(self) -> str:
        return f"node {self.node} ({self.op}), output {self.output!r}: {self.text}"


class SelfCheckError(RuntimeError):
    """`exact`: the nodes of `differences` are to blame, and no others."""

    def __init__(
        self, partition: Partition, differences: Sequence[Difference], exact: bool
    ) -> None:
        super().__init__(f"self-check: {'; '.join(map(str, differences[:3]))}")
        self.partition = partition
        self.differences = differences
        self.exact = exact


@dataclass(frozen=True)
class Value:
    """A tensor as numpy has it, and how exactly a delegate must agree."""

    array: Array
    chain: int = 0  # nodes in a row, out of sight, that made it; 0: the delegate's own
    floats: bool = False  # made of floats
    rounded: bool = False  # floats became integers on the way, out of sight, so that steps differ


class Checked(Kernel):
    """A delegate's kernel, whose first `times` invokes are checked."""

    def __init__(
        self,
        kernel: Kernel,
        partition: Partition,
        subgraph: LiveSubgraph,
        times: int,
        tolerance: float,
    ) -> None:
        self._kernel = kernel
        self._partition = partition
        self._subgraph = subgraph
        self._left = times
        self._tolerance = tolerance
        self._open = subgraph.graph.delegation.open
        self.launches = kernel.launches

    def attach(self) -> None:
        self._kernel.attach()

    def free(self) -> None:
        self._kernel.free()

    def invoke(self) -> None:
        if not self._left or self._partition.handles:  # which the host does not see
            self._kernel.invoke()
            return
        before = {t.index: t.array.copy() for t in self._partition.variables}
        self._kernel.invoke()
        self._left -= 1
        self._check(before)

    def invoke_async(self) -> Pending | None:
        return None if self._left else self._kernel.invoke_async()

    def invoke_timed(self) -> Sequence[DeviceTime]:
        if not self._left:
            return self._kernel.invoke_timed()
        self.invoke()
        return ()

    def _check(self, state: dict[int, Array]) -> None:
        p = self._partition
        seen = {t.index for t in p.outputs}
        values = {t.index: Value(t.array) for t in p.inputs}
        values |= {t.index: Value(t.spec.const) for t in p.constants if t.spec.const is not None}
        values |= {index: Value(array) for index, array in state.items()}
        found: list[Difference] = []
        for node, registration in zip(p.nodes, p.registrations, strict=True):
            made = self._compute(node, registration, values)
            if None in made and self._open:  # else its inputs may be what is not known
                self._subgraph.graph.delegation.unchecked[p.subgraph, node.index] = node.op
            for tensor, value in zip(node.outputs, made, strict=True):
                if tensor.index in seen:
                    values[tensor.index] = Value(tensor.array)
                    self._compare(found, node, tensor, value)
                elif value is not None:
                    values[tensor.index] = value
        for tensor in p.variables:
            user = next(n for n in reversed(p.nodes) if tensor in n.inputs)
            value = Value(state[tensor.index], len(p.nodes), tensor.dtype.is_float)
            self._compare(found, user, tensor, value)
        if found:
            hidden = {t.index for n in p.nodes for t in n.outputs} - seen
            raise SelfCheckError(p, found, exact=not hidden)

    def _compare(
        self, found: list[Difference], node: Node, tensor: Tensor, want: Value | None
    ) -> None:
        if want is None:
            return
        text = unlike(tensor.array, want, tensor.dtype, node.op, self._tolerance)
        if text is not None:
            p, name = self._partition, tensor.name
            found.append(Difference(p.subgraph, node.index, node.op, name, p.delegate, text))

    def _compute(
        self, node: Node, registration: Registration, values: dict[int, Value]
    ) -> list[Value | None]:
        """What numpy makes of the node; None for what cannot be known here."""
        nothing: list[Value | None] = [None] * len(node.outputs)
        tensors = [t for t in (*node.inputs, *node.outputs) if t is not None]
        inputs = [None if t is None else values.get(t.index) for t in node.inputs]
        lost = any(t is not None and v is None for t, v in zip(node.inputs, inputs, strict=True))
        if lost or any(t.dtype in OPAQUE for t in tensors):
            return nothing
        arrays = [np.empty(t.shape, t.dtype.numpy) for t in node.outputs]
        try:
            run = self._bind(
                node, registration, [None if v is None else v.array for v in inputs], arrays
            )
            if run is None:
                return nothing
            run()
        except OpError:  # the values' fault, which the delegate did not raise
            raise
        except Exception as e:
            self._subgraph.report(
                f"self-check: node {node.index} ({node.op}) is not compared, for numpy's own "
                f"kernel raised {type(e).__name__}: {e}"
            )
            return nothing
        given = [(v, t.dtype) for v, t in zip(inputs, node.inputs, strict=True) if v and t]
        floats = any(not (d.is_integer or d is DType.BOOL) for _, d in given)
        chain = 1 + max((v.chain for v, _ in given), default=0)
        unseen = any(v.chain and not (d.is_integer or d is DType.BOOL) for v, d in given)
        return [
            Value(
                array,
                chain,
                floats,
                any(v.rounded for v, _ in given) or (unseen and not t.dtype.is_float),
            )
            for t, array in zip(node.outputs, arrays, strict=True)
        ]

    def _bind(
        self,
        node: Node,
        registration: Registration,
        x: list[Array | None],
        y: list[Array],
    ) -> Callable[[], object] | None:
        graph = self._subgraph.graph
        if registration.bind is not None:
            graph.workspace.begin()
            kept = node.kept if isinstance(node, LiveNode) else {}
            binding = NodeBinding(node.spec, x, y, graph.workspace, graph.pool, kept)
            return registration.bind(binding) or (lambda: None)
        if registration.invoke is None or node.temporaries or not isinstance(node, LiveNode):
            return None
        twin, invoke = copy.copy(node), registration.invoke
        twin.inputs = [_twin(t, a) for t, a in zip(node.inputs, x, strict=True)]
        twin.outputs = [_on(t, a) for t, a in zip(node.outputs, y, strict=True)]
        return lambda: invoke(self._subgraph, twin)


def from_outside(nodes: Iterable[LiveNode]) -> Iterator[int]:
    """Tensors that are made of what numpy cannot be given here, such as variables of a device: they
    have to be seen, or all that follows could not be computed.
    """
    for node in nodes:
        if any(t is not None and t.dtype in OPAQUE for t in node.inputs):
            yield from (t.index for t in node.outputs if t.dtype not in OPAQUE)


def _twin(tensor: LiveTensor | None, array: Array | None) -> LiveTensor | None:
    return None if tensor is None or array is None else _on(tensor, array)


def _on(tensor: LiveTensor, array: Array) -> LiveTensor:
    """The tensor in other memory."""
    twin = copy.copy(tensor)
    twin.array_or_none = array
    return twin


def unlike(got: Array, want: Value, dtype: DType, op: str, tolerance: float = 0.0) -> str | None:
    """How a delegate's tensor differs from numpy's by more than it may; None where it does not."""
    a, b = (_comparable(x, dtype) for x in (got, want.array))
    if not a.size:
        return None
    whole = dtype.is_integer or dtype is DType.BOOL
    same = got == want.array if whole else (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return None
    off = np.where(same, 0.0, np.maximum(np.abs(a - b), whole))  # NaN where one side is
    finite = np.abs(b[np.isfinite(b)])
    top = float(finite.max()) if finite.size else 0.0
    if want.rounded:
        if np.isfinite(off).all() and off.mean() <= max(GROSS * top, 1.0):
            return None
        limit = 0.0
    elif dtype.is_integer and want.floats:
        limit = 1.0
    elif dtype.is_integer or dtype is DType.BOOL:
        limit = 0.0
    elif want.chain > 1:
        limit = max(CHAIN, tolerance, _DIGITS.get(dtype, 0.0)) * top
    else:
        limit = max(LONG_SUM if op in SUMS else CLOSE, tolerance, _DIGITS.get(dtype, 0.0)) * top
    wrong = ~(off <= limit)
    if not wrong.any():
        return None
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    at = f"at {list(first)} it is {got[first]}, and {want.array[first]} on numpy"
    return f"{int(wrong.sum())} of {a.size} elements differ; {at}"


# what the last digit of a type is worth, twice
_DIGITS = {DType.FLOAT16: 2e-3, DType.BFLOAT16: 1.6e-2}


def _comparable(array: Array, dtype: DType) -> Array:
    if dtype is DType.BFLOAT16:
        array = bfloat16_to_float32(array)
    # float64 holds all integers of up to 53 bits; complex numbers are told apart as they are
    made: Array = array if array.dtype.kind == "c" else array.astype(np.float64)
    return made
