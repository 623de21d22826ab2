"""MATRIX_DIAG and MATRIX_SET_DIAG on the last two dimensions."""

from __future__ import annotations

import numpy as np

from ._lower import check, placed
from ._shape import copies, like
from .api import Binding, NodeSpec, OpError, Registration, Run, Shape, op
from .device import Capability, Lowered, Map
from .types import Array


def _diagonal(y: Array) -> Array:
    """A writable view of the main diagonals of the last two dimensions."""
    rows, columns = y.shape[-2:]
    step = min(rows, columns)
    strides = (*y.strides[:-2], y.strides[-2] + y.strides[-1])
    return np.lib.stride_tricks.as_strided(y, (*y.shape[:-2], step), strides)


def _diag(node: NodeSpec) -> list[Shape | None]:
    x = node.input(0)
    like(node, x, node.outputs[0])
    if not x.rank:
        raise OpError("MATRIX_DIAG takes rank 1 or more; got a scalar")
    return [(*x.shape, x.shape[-1])]


def _bind_diag(b: Binding) -> Run | None:
    zero = np.asarray(0, b.y[0].dtype)
    return copies([(b.y[0], zero), (_diagonal(b.y[0]), b.xi(0))])


def _set_diag(node: NodeSpec) -> list[Shape | None]:
    x, diagonal = node.input(0), node.input(1)
    like(node, x, diagonal, node.outputs[0])
    if x.rank < 2 or diagonal.shape != (*x.shape[:-2], min(x.shape[-2:])):
        raise OpError(
            f"MATRIX_SET_DIAG takes matrices and their diagonals; got {x.name!r}, shape "
            f"{list(x.shape)}, and {diagonal.name!r}, shape {list(diagonal.shape)}"
        )
    return [x.shape]


def _bind_set_diag(b: Binding) -> Run | None:
    x, y = b.xi(0), b.y[0]
    diagonal = (_diagonal(y), b.xi(1))
    return copies([diagonal] if np.may_share_memory(x, y) else [(y, x), diagonal])


def _lower_diagonal(node: NodeSpec, capability: Capability) -> Lowered:
    """What is around the diagonal first."""
    check(node, capability)
    given = node.op == "MATRIX_SET_DIAG"
    inside = placed(node.outputs[0].shape, _diagonal, int(given))
    return Lowered([Map() if given else Map("0", ()), inside])


OPS: dict[str, Registration] = {
    "MATRIX_DIAG": op("MATRIX_DIAG", _diag, _bind_diag, lower=_lower_diagonal),
    "MATRIX_SET_DIAG": op(
        "MATRIX_SET_DIAG", _set_diag, _bind_set_diag, inplace=(0,), lower=_lower_diagonal
    ),
}
