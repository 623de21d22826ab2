"""Ops that move blocks of space into channels or batches, and back."""

from __future__ import annotations

from itertools import product

import numpy as np

from ._lower import check, indices, moved
from ._rows_lower import coordinates, dot, rows, strides_of
from ._shape import (
    INDEX,
    Values,
    copies,
    copy,
    integers,
    known,
    like,
    rank_is,
    same_quantization,
    settled,
    size_of,
    zero_of,
)
from .api import Binding, NodeSpec, OpError, Registration, Run, Shape, op, take
from .device import Capability, Lowered
from .types import Array


def _block(node: NodeSpec) -> int:
    x = node.input(0)
    like(node, x, node.outputs[0])
    rank_is(node, "input 0", x, 4)
    size = int(node.options.block_size)
    if size < 1:
        raise OpError(f"{node.op} takes a block size of 1 or more; got {size}")
    return size


def _depth_to_space(node: NodeSpec) -> list[Shape | None]:
    size = _block(node)
    n, h, w, c = node.input(0).shape
    if c % (size * size):
        raise OpError(
            f"DEPTH_TO_SPACE with block size {size}: {c} channels are no multiple of its square"
        )
    return [(n, h * size, w * size, c // (size * size))]


def _bind_depth_to_space(b: Binding) -> Run | None:
    x, y, s = b.xi(0), b.y[0], b.options.block_size
    n, h, w, _ = x.shape
    c = y.shape[3]
    blocks = x.reshape(n, h, w, s, s, c).transpose(0, 1, 3, 2, 4, 5)
    return copy(y.reshape(n, h, s, w, s, c), blocks)


def _lower_depth_to_space(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    s, c = node.options.block_size, node.outputs[0].shape[3]
    n, h, w, _ = node.input(0).shape

    def move(x: Array) -> Array:
        return x.reshape(n, h, w, s, s, c).transpose(0, 1, 3, 2, 4, 5)

    return Lowered([moved(node.input(0).shape, move)])


def _lower_space_to_depth(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    s, c = node.options.block_size, node.input(0).shape[3]
    n, h, w, _ = node.outputs[0].shape

    def move(x: Array) -> Array:
        return x.reshape(n, h, s, w, s, c).transpose(0, 1, 3, 2, 4, 5)

    return Lowered([moved(node.input(0).shape, move)])


def _space_to_depth(node: NodeSpec) -> list[Shape | None]:
    size = _block(node)
    n, h, w, c = node.input(0).shape
    if h % size or w % size:
        raise OpError(f"SPACE_TO_DEPTH with block size {size}: {h} by {w} is no multiple of it")
    return [(n, h // size, w // size, c * size * size)]


def _bind_space_to_depth(b: Binding) -> Run | None:
    x, y, s = b.xi(0), b.y[0], b.options.block_size
    n, h, w, _ = y.shape
    c = x.shape[3]
    blocks = x.reshape(n, h, s, w, s, c).transpose(0, 1, 3, 2, 4, 5)
    return copy(y.reshape(n, h, w, s, s, c), blocks)


def _blocks(node: NodeSpec, what: str) -> tuple[Values, Values] | None:
    """Block shape and, flat, the paddings or crops; None where they are not known (yet)."""
    x, block, edges = node.input(0), node.input(1), node.input(2)
    like(node, x, node.outputs[0])
    same_quantization(node, x, node.outputs[0])
    take(node, "block_shape", block, *INDEX)
    take(node, what, edges, *INDEX)
    rank_is(node, "block_shape", block, 1)
    if edges.shape != (block.size, 2) or not block.size < x.rank:
        raise OpError(
            f"{node.op} takes a block size and two {what} for each dimension of space of "
            f"{x.name!r}, shape {list(x.shape)}; got shapes {list(block.shape)} and "
            f"{list(edges.shape)}"
        )
    sizes, pairs = known(block), known(edges)
    if sizes is None or pairs is None:
        return None
    if min(sizes, default=1) < 1 or min(pairs, default=0) < 0:
        raise OpError(
            f"{node.op} takes blocks of 1 or more and {what} of 0 or more; "
            f"got {list(sizes)} and {list(pairs)}"
        )
    return sizes, pairs


def _space_to_batch(node: NodeSpec) -> list[Shape | None]:
    values = _blocks(node, "paddings")
    if values is None:
        return [None]
    sizes, pads = values
    shape = list(node.input(0).shape)
    for i, size in enumerate(sizes):
        whole = shape[i + 1] + pads[2 * i] + pads[2 * i + 1]
        if whole % size:
            raise OpError(
                f"SPACE_TO_BATCH_ND: dimension {i + 1}, {whole} with its paddings, is no multiple "
                f"of the block size {size}"
            )
        shape[i + 1] = whole // size
    shape[0] *= size_of(sizes)
    return [tuple(shape)]


def _batch_to_space(node: NodeSpec) -> list[Shape | None]:
    values = _blocks(node, "crops")
    if values is None:
        return [None]
    sizes, crops = values
    shape = list(node.input(0).shape)
    if shape[0] % size_of(sizes):
        raise OpError(
            f"BATCH_TO_SPACE_ND: batch {shape[0]} is no multiple of the blocks {list(sizes)}"
        )
    shape[0] //= size_of(sizes)
    for i, size in enumerate(sizes):
        whole, cut = shape[i + 1] * size, crops[2 * i] + crops[2 * i + 1]
        if cut > whole:
            raise OpError(
                f"BATCH_TO_SPACE_ND: crops of {cut} leave nothing of dimension {i + 1}, {whole}"
            )
        shape[i + 1] = whole - cut
    return [tuple(shape)]


def _meeting(
    batch: Array, space: Array, sizes: Values, before: Values
) -> list[tuple[Array, Array]]:
    """For each offset in a block: the view of `batch` and that of `space` with the same elements.

    `batch` has the shape [blocks * n, ...], `space` [n, ...]; an element h of a batch dimension is
    element h * size + offset - before of the dimension of space.
    """
    blocks = batch.reshape(*sizes, space.shape[0], *batch.shape[1:])
    pairs = []
    for offset in product(*map(range, sizes)):
        inner, outer = [slice(None)], [slice(None)]
        for i, (at, size, skip) in enumerate(zip(offset, sizes, before, strict=True)):
            first = max(0, -((at - skip) // size))
            start = first * size + at - skip
            count = max(0, -(-(space.shape[i + 1] - start) // size))
            count = min(count, max(0, batch.shape[i + 1] - first))
            inner.append(slice(first, first + count))
            outer.append(slice(start, start + count * size, size))
        pairs.append((blocks[offset][tuple(inner)], space[tuple(outer)]))
    return [(a, z) for a, z in pairs if a.size]


def _bind_space_to_batch(b: Binding) -> Run | None:
    x, y = b.xi(0), b.y[0]

    def make() -> Run:
        sizes, pads = integers(b, 1), integers(b, 2)
        moves = _meeting(y, x, sizes, pads[::2])
        fill = [(y, np.asarray(zero_of(b.outputs[0])))] if any(pads) else []
        return copies([*fill, *moves])

    return settled(b, (1, 2), make)


def _bind_batch_to_space(b: Binding) -> Run | None:
    x, y = b.xi(0), b.y[0]

    def make() -> Run:
        sizes, crops = integers(b, 1), integers(b, 2)
        return copies([(s, t) for t, s in _meeting(x, y, sizes, crops[::2])])

    return settled(b, (1, 2), make)


def _lower_blocks(node: NodeSpec, capability: Capability) -> Lowered:
    """SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND: each row of the output finds its own."""
    check(node, capability)
    x, y = node.input(0).shape, node.outputs[0].shape
    sizes, before = indices(node.input(1)), indices(node.input(2))[::2]
    dims = len(sizes) + 1
    inner = size_of(y[dims:])
    at = coordinates("r", y[:dims])
    to_batch = node.op == "SPACE_TO_BATCH_ND"
    images = x[0] if to_batch else y[0]
    # offset within the block, and the image: of a batch dimension
    parts = coordinates(at[0], [*sizes, images]) if to_batch else []
    lines, places, blocks = [], [], []
    for i, (size, cut) in enumerate(zip(sizes, before, strict=True)):
        if to_batch:
            lines.append(f"const i32 p{i} = {at[i + 1]} * {size} + {parts[i]} - {cut};")
            places.append(f"p{i}")
        else:
            lines.append(f"const i32 p{i} = {at[i + 1]} + {cut};")
            places.append(f"p{i} / {size}")
            blocks.append(f"p{i} % {size}")
    image = parts[-1] if to_batch else dot([*blocks, at[0]], strides_of([*sizes, images]))
    strides = [s * inner for s in strides_of(x[:dims])]
    lines.append(f"from = {dot([f'({image})', *places], strides)};")
    fill = ""
    if to_batch and any(indices(node.input(2))):
        fill = str(zero_of(node.outputs[0]))
        outside = [f"p{i} < 0 || p{i} >= {d}" for i, d in enumerate(x[1:dims])]
        lines.append(f"if ({' || '.join(outside)}) from = -1;")
    count = size_of(y[:dims])
    return Lowered([rows(capability, count, inner, " ".join(lines), (0,), fill=fill)])


OPS: dict[str, Registration] = {
    "DEPTH_TO_SPACE": op(
        "DEPTH_TO_SPACE",
        _depth_to_space,
        _bind_depth_to_space,
        versions=(1, 2),
        lower=_lower_depth_to_space,
    ),
    "SPACE_TO_DEPTH": op(
        "SPACE_TO_DEPTH",
        _space_to_depth,
        _bind_space_to_depth,
        versions=(1, 2),
        lower=_lower_space_to_depth,
    ),
    "SPACE_TO_BATCH_ND": op(
        "SPACE_TO_BATCH_ND",
        _space_to_batch,
        _bind_space_to_batch,
        versions=(1, 4),
        lower=_lower_blocks,
    ),
    "BATCH_TO_SPACE_ND": op(
        "BATCH_TO_SPACE_ND",
        _batch_to_space,
        _bind_batch_to_space,
        versions=(1, 4),
        lower=_lower_blocks,
    ),
}
