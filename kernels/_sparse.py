"""Dense values of a constant that a model stores sparsely (the schema's SparsityParameters)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .api import OpError, Shape, TensorSpec
from .types import Array


def densify(spec: TensorSpec) -> Array:
    """The whole tensor, of `spec.shape`; elements that are not stored are 0.

    `spec.const` holds the stored values in one dimension. Source of the layout: the schema's
    comment on SparsityParameters (TACO's dense and compressed dimensions).
    """
    sparsity, stored = spec.sparsity, spec.const
    if sparsity is None or stored is None:
        raise OpError(f"{spec.name!r} is no sparse constant")
    order = [int(d) for d in sparsity.traversal_order]
    blocks = [] if sparsity.block_map is None else [int(d) for d in sparsity.block_map]
    levels = sparsity.dim_metadata
    if sorted(order) != list(range(spec.rank + len(blocks))) or len(levels) != len(order):
        raise OpError(
            f"{spec.name!r}: traversal_order {order} and {len(levels)} levels do not fit a tensor "
            f"of {spec.rank} dimensions with {len(blocks)} blocked"
        )
    coordinates = _coordinates(levels)
    expanded: dict[int, Array] = dict(zip(order, coordinates, strict=True))
    sizes = {
        blocks[d - spec.rank]: int(level.dense_size)
        for d, level in zip(order, levels, strict=True)
        if d >= spec.rank
    }
    index = []
    for d in range(spec.rank):
        position = expanded[d] * sizes.get(d, 1)
        if d in blocks:
            position = position + expanded[spec.rank + blocks.index(d)]
        index.append(position)
    return _place(spec.shape, index, stored, spec.name)


def _coordinates(levels: Any) -> list[Array]:
    """For each level, the coordinate of every stored value."""
    found: list[Array] = []
    count = 1
    for level in levels:
        if level.format == "DENSE":
            size = int(level.dense_size)
            found = [np.repeat(c, size) for c in found]
            found.append(np.tile(np.arange(size), count))
            count *= size
        else:
            segments = np.asarray(level.array_segments, np.int64)
            lengths = segments[1 : count + 1] - segments[:count]
            found = [np.repeat(c, lengths) for c in found]
            found.append(np.asarray(level.array_indices, np.int64)[: int(lengths.sum())])
            count = int(lengths.sum())
    return found


def _place(shape: Shape, index: list[Array], stored: Array, name: str) -> Array:
    dense = np.zeros(shape, stored.dtype)
    values = stored.reshape(-1)
    count = index[0].size if index else 1
    if values.size < count or any(
        i.size and i.max() >= s for i, s in zip(index, shape, strict=True)
    ):
        raise OpError(
            f"{name!r}: {values.size} stored values do not fill {list(shape)} as laid out"
        )
    dense[tuple(index)] = values[:count]
    return dense
