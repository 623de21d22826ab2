"""What nodes cost: work by operator family, and named profiles of what does it.

Rough on purpose: the figures decide whether a partition is worth its transfers, not how long an
invoke takes. A profile is data; one that was measured on a device is another object of the same
class. Reports that must not change from machine to machine use the fixed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from ..kernels.api import Node, NodeSpec, OpError, Tensor, TensorSpec
from .delegate import Partition


@dataclass(frozen=True)
class Cost:
    """`operations`: multiplications and additions; `bytes`: read and written, constants too;
    `calls`: of numpy, about, where numpy runs it.
    """

    operations: int = 0
    bytes: int = 0
    calls: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.operations + other.operations,
            self.bytes + other.bytes,
            self.calls + other.calls,
        )


def estimate(node: NodeSpec) -> Cost:
    """The work of a node whose shapes are known. An unknown operator counts as elementwise."""
    tensors = [t for t in (*node.inputs, *node.outputs) if t is not None]
    count = _FAMILIES.get(node.op, _elementwise)
    try:
        operations = count(node)
    except (OpError, AttributeError, IndexError, ZeroDivisionError):  # a node no kernel takes
        operations = _elementwise(node)
    return Cost(operations, sum(nbytes(t) for t in tensors), _calls(node))


def _calls(node: NodeSpec) -> int:
    """Small nodes take numpy as long as it is called for them; integers are requantised."""
    calls = _CALLS.get(node.op, 2)
    if node.op in _MOVES:
        return calls
    x = node.inputs[0] if node.inputs else None
    if x is not None and x.dtype.is_integer and x.quant is not None:
        calls *= 3
    if _FAMILIES.get(node.op) is _recurrent and x is not None and x.rank == 3:
        calls *= x.shape[0 if getattr(node.options, "time_major", False) else 1]
    return calls


def nbytes(tensor: TensorSpec) -> int:
    return tensor.size * tensor.dtype.bits // 8


def _out(node: NodeSpec) -> int:
    return sum(t.size for t in node.outputs)


def _elementwise(node: NodeSpec) -> int:
    """One operation for each element of the larger side: reductions read more than they write."""
    return max(_out(node), max((t.size for t in node.inputs if t is not None), default=0))


def _transcendental(node: NodeSpec) -> int:
    return 16 * _out(node)


def _move(node: NodeSpec) -> int:
    return 0


def _conv(node: NodeSpec) -> int:
    weights = node.input(1)  # [out, height, width, in]
    return 2 * _out(node) * prod(weights.shape[1:])


def _depthwise(node: NodeSpec) -> int:
    return 2 * _out(node) * prod(node.input(1).shape[1:3])


def _conv_3d(node: NodeSpec) -> int:
    return 2 * _out(node) * prod(node.input(1).shape[:-1])  # [..., in, out]


def _transposed(node: NodeSpec) -> int:
    """Each element of the input is multiplied with all weights of its channel."""
    weights, x = node.input(1), node.input(2)
    return 2 * x.size * weights.size // x.shape[-1]


def _fully_connected(node: NodeSpec) -> int:
    return 2 * node.outputs[0].size * node.input(1).shape[-1]


def _product(node: NodeSpec) -> int:
    x = node.input(0)
    return 2 * _out(node) * x.shape[-2 if node.options.adj_x else -1]


def _pool(node: NodeSpec) -> int:
    return _out(node) * int(node.options.filter_height) * int(node.options.filter_width)


def _recurrent(node: NodeSpec) -> int:
    """All weight matrices, once for each row of the input."""
    x = node.input(0)
    weights = sum(t.size for t in node.inputs[1:] if t is not None and t.rank == 2)
    return 2 * weights * x.size // x.shape[-1]


# by the numpy kernels; others make about two
_CALLS = {
    **dict.fromkeys(("CONV_2D", "CONV_3D", "RESIZE_BILINEAR", "STABLEHLO_COMPOSITE"), 8),
    **dict.fromkeys(("DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "CONV_3D_TRANSPOSE"), 12),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), 10),
    **dict.fromkeys(("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION", "HARD_SWISH"), 5),
    **dict.fromkeys(("FULLY_CONNECTED", "BATCH_MATMUL"), 3),
    **dict.fromkeys(("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM"), 15),
    **dict.fromkeys(("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "SVDF"), 4),
    "BIDIRECTIONAL_SEQUENCE_RNN": 8,
}


_FAMILIES: dict[str, Callable[[NodeSpec], int]] = {
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "CONV_3D": _conv_3d,
    "CONV_3D_TRANSPOSE": _transposed,
    "TRANSPOSE_CONV": _transposed,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _product,
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), _pool),
    **dict.fromkeys(
        (
            *("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM", "SVDF"),
            *("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN"),
        ),
        _recurrent,
    ),
    **dict.fromkeys(
        (
            *("EXP", "LOG", "LOGISTIC", "TANH", "SIN", "COS", "ELU", "GELU", "POW", "SOFTMAX"),
            *("LOG_SOFTMAX", "RSQRT", "SQRT", "DIV"),
        ),
        _transcendental,
    ),
    **dict.fromkeys(
        (
            *("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "SHAPE", "RANK", "TRANSPOSE", "CONCATENATION"),
            *("PACK", "UNPACK", "SPLIT", "SPLIT_V", "SLICE", "STRIDED_SLICE", "GATHER", "PAD"),
            *("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE", "IF", "WHILE"),
            *("PADV2", "MIRROR_PAD", "TILE", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "BROADCAST_TO"),
        ),
        _move,
    ),
}


_MOVES = frozenset(op for op, family in _FAMILIES.items() if family is _move)


@dataclass(frozen=True)
class CostProfile:
    """How fast something runs. Times in seconds, rates in 1/s."""

    name: str
    operations: float
    bytes: float
    per_node: float  # a launch, or a call
    per_partition: float = 0.0  # to start one and to wait for it
    per_transfer: float = 0.0  # of one tensor to or from the host
    transfer_bytes: float = float("inf")
    per_call: float = 0.0  # of numpy
    # operations per second of operators that run at another rate than the rest
    by_op: Mapping[str, float] = field(default_factory=dict)

    def seconds(self, op: str, cost: Cost) -> float:
        """A node's: bound by its arithmetic or by its memory traffic."""
        rate = self.by_op.get(op, self.operations)
        calls = self.per_node + self.per_call * cost.calls
        return calls + max(cost.operations / rate, cost.bytes / self.bytes)

    def transfer(self, tensors: Sequence[TensorSpec]) -> float:
        return sum(self.per_transfer + nbytes(t) / self.transfer_bytes for t in tensors)


# Two cores, by the figures of the numpy kernels: matrix products run in BLAS, depthwise
# convolutions do not.
NUMPY = CostProfile(
    "numpy", 1.0e11, 6e9, 8e-6, by_op={"DEPTHWISE_CONV_2D": 4e9, "MAX_POOL_2D": 1e9}
)
OPENCL_CPU = CostProfile("opencl-cpu", 1.5e11, 2e10, 3e-6, 30e-6, 1e-6, 2e10)
GPU = CostProfile("gpu", 5e12, 4e11, 4e-6, 20e-6, 10e-6, 1e10)
PROFILES = {p.name: p for p in (NUMPY, OPENCL_CPU, GPU)}


@dataclass(frozen=True)
class PartitionCost:
    """Seconds that a partition takes on the host, on its device, and to get there and back."""

    host: float
    device: float
    transfer: float

    @property
    def saved(self) -> float:
        return self.host - self.device - self.transfer


def node_cost(node: Node) -> Cost:
    return estimate(node.spec)


def partition_cost(
    partition: Partition, device: CostProfile, host: CostProfile = NUMPY
) -> PartitionCost:
    """With `partition.host_inputs` and `host_outputs` settled: what stays on the device is free."""
    costs = [(node.op, node_cost(node)) for node in partition.nodes]
    crossing: list[Tensor] = [
        *(t for t in partition.inputs if t.index in partition.host_inputs),
        *(t for t in partition.outputs if t.index in partition.host_outputs),
    ]
    return PartitionCost(
        sum(host.seconds(op, cost) for op, cost in costs),
        device.per_partition + sum(device.seconds(op, cost) for op, cost in costs),
        device.transfer([t.spec for t in crossing]),
    )
