"""Index arithmetic of the StableHLO gather and scatter: windows at places that a tensor gives.

Source: the StableHLO specification, "gather" and "scatter". The names of the two ops differ; here
`window_dims` are offset_dims or update_window_dims, `inserted` collapsed_slice_dims or
inserted_window_dims, `index_map` start_index_map or scatter_dims_to_operand_dims.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._shape import size_of, without
from .api import NodeSpec, OpError, Shape, TensorSpec
from .types import Array


@dataclass(frozen=True)
class Places:
    window_dims: Shape
    inserted: Shape
    index_map: Shape
    index_vector_dim: int

    def check(self, node: NodeSpec, operand: TensorSpec, indices: TensorSpec) -> None:
        depth = (*indices.shape, 1)[self.index_vector_dim : self.index_vector_dim + 1]
        dims = len(self.window_dims) + len(self.inserted)
        if depth != (len(self.index_map),) or dims != operand.rank:
            raise OpError(
                f"{node.op}: {self} does not fit {operand.name!r}, shape {list(operand.shape)}, "
                f"and indices of shape {list(indices.shape)}"
            )
        if not all(0 <= d < operand.rank for d in (*self.inserted, *self.index_map)):
            raise OpError(f"{node.op}: {self} names a dimension that {operand.name!r} lacks")

    def batch_shape(self, indices: Shape) -> Shape:
        return without(indices, self.index_vector_dim)

    def shape(self, batch: Shape, window: Shape) -> Shape:
        """Dimensions of batch and window, each where it belongs in the result (or updates)."""
        rest, inner = iter(batch), iter(window)
        rank = len(batch) + len(window)
        return tuple(next(inner) if d in self.window_dims else next(rest) for d in range(rank))

    def spread(self, batch: Shape, rank: int) -> Shape:
        """`batch` with 1 for each dimension of the window, to broadcast."""
        return self.shape(batch, (1,) * (rank - len(batch)))


def strides_of(shape: Shape) -> Array:
    """Elements between neighbours along each dimension."""
    return np.array([size_of(shape[d + 1 :]) for d in range(len(shape))], np.int64)


def batch_starts(places: Places, indices: Array, rank: int) -> Array:
    """The start in the operand of each window: int64 [windows, rank]."""
    vectors = indices
    if places.index_vector_dim == indices.ndim:
        vectors = indices[..., np.newaxis]
    vectors = np.moveaxis(vectors, places.index_vector_dim, -1)
    start = np.zeros((size_of(vectors.shape[:-1]), rank), np.int64)
    start[:, list(places.index_map)] = vectors.reshape(len(start), -1)
    return start


def window_offsets(places: Places, operand: Shape, sizes: Shape, rank: int) -> Array:
    """Offset of each window element in the operand, shaped to broadcast over the result."""
    offsets = np.zeros((), np.int64)
    strides = strides_of(operand)
    window = [d for d in range(len(operand)) if d not in places.inserted]
    for at, d in zip(places.window_dims, window, strict=True):
        shape = [1] * rank
        shape[at] = sizes[d]
        offsets = offsets + (np.arange(sizes[d]) * strides[d]).reshape(shape)
    return np.asarray(offsets)
