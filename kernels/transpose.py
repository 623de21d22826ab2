"""TRANSPOSE and its StableHLO form."""

from __future__ import annotations

from ._shape import Values, copy, integers, known, like, rank_is, settled
from .api import Binding, NodeSpec, OpError, Registration, Run, Shape, TensorSpec, op, take
from .types import DType


def _permuted(node: NodeSpec, x: TensorSpec, perm: Values) -> Shape:
    if len(perm) != x.rank or not all(-x.rank <= p < x.rank for p in perm):
        raise OpError(
            f"Transpose op permutations array is out of bounds: {list(perm)} for {x.name!r} "
            f"of rank {x.rank}"
        )
    front = [p % x.rank for p in perm]
    if len(set(front)) != x.rank:
        raise OpError(f"{node.op} takes each dimension once; got {list(perm)}")
    return tuple(x.shape[p] for p in front)


def _infer(node: NodeSpec) -> list[Shape | None]:
    x, perm = node.input(0), node.input(1)
    like(node, x, node.outputs[0])
    take(node, "permutation", perm, DType.INT32, DType.INT64)
    rank_is(node, "permutation", perm, 1)
    values = known(perm)
    return [None if values is None else _permuted(node, x, values)]


def _bind(b: Binding) -> Run | None:
    return settled(b, (1,), lambda: copy(b.y[0], b.xi(0).transpose(integers(b, 1))))


def _infer_stablehlo(node: NodeSpec) -> list[Shape | None]:
    x = node.input(0)
    like(node, x, node.outputs[0])
    return [_permuted(node, x, tuple(node.options.permutation))]


def _bind_stablehlo(b: Binding) -> Run | None:
    return copy(b.y[0], b.xi(0).transpose(tuple(b.options.permutation)))


OPS: dict[str, Registration] = {
    "TRANSPOSE": op("TRANSPOSE", _infer, _bind, versions=(1, 9)),
    "STABLEHLO_TRANSPOSE": op("STABLEHLO_TRANSPOSE", _infer_stablehlo, _bind_stablehlo),
}
