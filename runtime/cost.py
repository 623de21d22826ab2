"""What nodes cost: work by operator family, and named profiles of what does it.

Rough on purpose: the figures decide whether a partition is worth its transfers, not how long an
invoke takes. A profile is data; one that was measured on a device is another object of the same
class. Reports that must not change from machine to machine use the fixed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from ..kernels.api import NodeSpec, OpError, Tensor, TensorSpec
from .delegate import Partition


@dataclass(frozen=True)
class Cost:
    """`operations`: multiplications and additions; `bytes`: read and written, constants too.

    What numpy does beside, where it runs the node: `calls` of it, about, and `copied`, bytes of
    values that it puts elsewhere on the way (the pixels under a window, integers as floats).
    """

    operations: int = 0
    bytes: int = 0
    calls: int = 0
    copied: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.operations + other.operations,
            self.bytes + other.bytes,
            self.calls + other.calls,
            self.copied + other.copied,
        )


def estimate(node: NodeSpec) -> Cost:
    """The work of a node whose shapes are known. An unknown operator counts as elementwise."""
    tensors = [t for t in (*node.inputs, *node.outputs) if t is not None]
    count = _FAMILIES.get(node.op, _elementwise)
    try:
        operations, copied = count(node), _copied(node)
    except (OpError, AttributeError, IndexError, ZeroDivisionError):  # a node no kernel takes
        operations, copied = _elementwise(node), 0
    return Cost(operations, sum(nbytes(t) for t in tensors), _calls(node), copied)


def rate_key(node: NodeSpec) -> str:
    """What `CostProfile.by_op` knows the node by: products of bytes, and of floats with integer
    weights, run at rates of their own.
    """
    if node.op not in _PRODUCTS:
        return node.op
    if _hybrid(node):
        return f"{node.op} hybrid"
    return f"{node.op} int8" if _of_bytes(node) else node.op


def _hybrid(node: NodeSpec) -> bool:
    kinds = [t.dtype.is_float for t in node.inputs[:2] if t is not None]
    return kinds == [True, False]


def _of_bytes(node: NodeSpec) -> bool:
    return _quantized(node) and all(t is not None and t.dtype.bits == 8 for t in node.inputs[:2])


def _quantized(node: NodeSpec) -> bool:
    x = node.inputs[0] if node.inputs else None
    return x is not None and x.dtype.is_integer and x.quant is not None


def _calls(node: NodeSpec) -> int:
    """Small nodes take numpy as long as it is called for them; integers are requantised."""
    calls = _CALLS.get(node.op, 2)
    x = node.inputs[0] if node.inputs else None
    if node.op in _ROUNDED and _quantized(node):
        calls = 2 * calls + 4
    elif node.op in _PRODUCTS and _hybrid(node):
        calls += 10  # rows of floats are quantised
    if _FAMILIES.get(node.op) is _recurrent and x is not None and x.rank == 3:
        calls *= 3 if _quantized(node) else 1
        calls *= x.shape[0 if getattr(node.options, "time_major", False) else 1]
    return calls


def _copied(node: NodeSpec) -> int:
    """See `Cost`: passes over values, each of which reads and writes a float."""
    values = _out(node) if node.op in _PRODUCTS else _elementwise(node)
    passes = _PASSES.get(node.op, 0)
    if _quantized(node) and node.op not in _MOVES:
        passes += 10 if node.op in _ROUNDED else 4
    values *= passes
    if node.op == "CONV_2D":
        x, weights = node.input(0), node.input(1)  # [out, height, width, in]
        if prod(weights.shape[1:3]) > 1:
            values += _out(node) // weights.shape[0] * prod(weights.shape[1:])
        if _quantized(node):
            values += x.size
    return 8 * values


def nbytes(tensor: TensorSpec) -> int:
    return tensor.size * tensor.dtype.bits // 8


def _out(node: NodeSpec) -> int:
    return sum(t.size for t in node.outputs)


def _elementwise(node: NodeSpec) -> int:
    """One operation for each element of the larger side: reductions read more than they write."""
    return max(_out(node), max((t.size for t in node.inputs if t is not None), default=0))


def _transcendental(node: NodeSpec) -> int:
    return _EACH.get(node.op, 16) * _out(node)


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


_PRODUCTS = frozenset(
    (
        *("CONV_2D", "DEPTHWISE_CONV_2D", "CONV_3D", "CONV_3D_TRANSPOSE", "TRANSPOSE_CONV"),
        *("FULLY_CONNECTED", "BATCH_MATMUL"),
    )
)
# whose integers are brought to the output's scale; those of others are looked up, or moved
_ROUNDED = _PRODUCTS | {
    *("ADD", "SUB", "MUL", "SQUARED_DIFFERENCE", "AVERAGE_POOL_2D", "MEAN", "SUM", "SOFTMAX"),
    *("LOG_SOFTMAX", "RESIZE_BILINEAR", "L2_NORMALIZATION"),
}

# calls of numpy, by what small nodes take; others make about two
_CALLS = {
    **dict.fromkeys(("SLICE", "STRIDED_SLICE", "RESHAPE", "EXPAND_DIMS", "VAR_HANDLE"), 1),
    **dict.fromkeys(("CONV_2D", "CONV_3D", "LOGISTIC", "MEAN", "SUM"), 6),
    **dict.fromkeys(("RESIZE_BILINEAR", "STABLEHLO_COMPOSITE", "CALL"), 8),
    **dict.fromkeys(("DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "CONV_3D_TRANSPOSE"), 9),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D", "BATCH_MATMUL"), 12),
    **dict.fromkeys(("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION"), 16),
    **dict.fromkeys(("HARD_SWISH", "GELU", "ELU"), 20),
    **dict.fromkeys(("QUANTIZE", "FLOOR_DIV", "FLOOR_MOD", "DIV"), 10),
    **dict.fromkeys(("FULLY_CONNECTED", "SPLIT", "PRELU", "SQUARED_DIFFERENCE", "DEQUANTIZE"), 4),
    **dict.fromkeys(("MINIMUM", "MAXIMUM", "RELU", "RELU6", "PAD"), 3),
    **dict.fromkeys(("READ_VARIABLE", "ASSIGN_VARIABLE"), 3),
    **dict.fromkeys(("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM"), 16),
    **dict.fromkeys(("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "SVDF"), 6),
    "BIDIRECTIONAL_SEQUENCE_RNN": 12,
}
# over values that numpy goes through more often than once
_PASSES = {
    "RESIZE_BILINEAR": 12,
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), 4),
    **dict.fromkeys(("TRANSPOSE", "DEPTH_TO_SPACE", "SPACE_TO_DEPTH", "HARD_SWISH"), 3),
    **dict.fromkeys(("MEAN", "SUM", "PRELU", "SQUARED_DIFFERENCE"), 2),
}
# operations for each value, where EXP has 16
_EACH = {"SOFTMAX": 64, "LOG_SOFTMAX": 64, "LOGISTIC": 32, "TANH": 32, "GELU": 48, "POW": 48}


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
    copied: float = float("inf")  # bytes of `Cost.copied`
    # operations per second of operators that run at another rate than the rest, by `rate_key`
    by_op: Mapping[str, float] = field(default_factory=dict)

    def arithmetic(self, key: str, cost: Cost) -> float:
        """Seconds of a node's operations; `key`: its `rate_key`."""
        rate = self.by_op.get(key) or self.by_op.get(key.partition(" ")[0], self.operations)
        return cost.operations / rate

    def seconds(self, key: str, cost: Cost) -> float:
        """A node's: bound by its arithmetic or by its memory traffic."""
        calls = self.per_node + self.per_call * cost.calls + cost.copied / self.copied
        return calls + max(self.arithmetic(key, cost), cost.bytes / self.bytes)

    def transfer(self, tensors: Sequence[TensorSpec]) -> float:
        return sum(self.per_transfer + nbytes(t) / self.transfer_bytes for t in tensors)


POOLS = ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
# what costs as much as EXP, by the estimate above
LIKE_EXP = tuple(op for op, family in _FAMILIES.items() if family is _transcendental)


def rates(
    depthwise: float, exp: float, hybrid: float, bytes: float | None = None
) -> dict[str, float]:
    """`CostProfile.by_op` of what was measured of one operator of each kind. `hybrid`: of products
    of floats with integer weights; `bytes`: of bytes, where they run at a rate of their own.
    """
    found = {"DEPTHWISE_CONV_2D": depthwise, **dict.fromkeys(POOLS, depthwise / 6)}
    found |= dict.fromkeys(LIKE_EXP, exp)
    others = sorted(_PRODUCTS - {"DEPTHWISE_CONV_2D"})
    found |= {f"{op} hybrid": hybrid for op in others}
    if bytes is not None:
        found |= {f"{op} int8": bytes for op in others}
    return found


# Two cores, by the figures of the kernels: in numpy, matrix products run in BLAS, depthwise
# convolutions do not. CPUs share the host's memory.
NUMPY = CostProfile(
    "numpy", 1.2e11, 1e11, 0.0, per_call=0.3e-6, copied=1e11, by_op=rates(1.3e10, 6e10, 2e10)
)
OPENCL_CPU = CostProfile("opencl-cpu", 2e11, 1e11, 2e-6, 10e-6, by_op=rates(1e11, 6e10, 1e10, 4e11))
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


def crossing(partition: Partition) -> list[TensorSpec]:
    """What has to be moved, with `partition.host_inputs` and `host_outputs` settled: what stays on
    the device is free.
    """
    tensors: list[Tensor] = [
        *(t for t in partition.inputs if t.index in partition.host_inputs),
        *(t for t in partition.outputs if t.index in partition.host_outputs),
    ]
    return [t.spec for t in tensors]


def partition_cost(
    partition: Partition, device: CostProfile, host: CostProfile = NUMPY
) -> PartitionCost:
    """Node by node."""
    costs = [(rate_key(n.spec), estimate(n.spec)) for n in partition.nodes]
    return PartitionCost(
        sum(host.seconds(key, cost) for key, cost in costs),
        device.per_partition + sum(device.seconds(key, cost) for key, cost in costs),
        device.transfer(crossing(partition)),
    )
