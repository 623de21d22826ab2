"""Makers of random graphs: elements moved, as they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from random_graphs import Graph
from random_tensors import Skip, Tensor

from litedelegate.kernels.types import DType


def moved(g: Graph, rank: int = 0) -> Tensor:
    return g.pick(lambda t: len(t.shape) >= rank)


def move(g: Graph, op: str, inputs: Sequence[Tensor], **options: object) -> None:
    x = inputs[0]
    g.add(op, inputs, (x.dtype, x.quant), exact=True, **options)


def _index(g: Graph, values: object) -> Tensor:
    return g.constant(np.asarray(values, np.int64 if g.chance(0.1) else np.int32))


def reshape(g: Graph) -> None:
    x = moved(g)
    size, shape = math.prod(x.shape), []
    if not size:
        raise Skip
    while size > 1 and len(shape) < 7:
        factors = [f for f in range(2, size + 1) if size % f == 0]
        shape.append(g.choose(factors))
        size //= shape[-1]
    shape = [*shape, size] if size > 1 or g.chance(0.3) else shape
    if shape and g.chance(0.3):
        shape[g.whole(0, len(shape) - 1)] = -1
    move(g, "RESHAPE", [x, g.constant(np.array(shape, np.int32))], new_shape=shape)


def squeeze(g: Graph) -> None:
    x = moved(g)
    if g.chance(0.5):
        axis = g.whole(-len(x.shape) - 1, len(x.shape))
        move(g, "EXPAND_DIMS", [x, _index(g, axis)])
        return
    ones = [i for i, d in enumerate(x.shape) if d == 1 and g.chance(0.7)]
    move(g, "SQUEEZE", [x], squeeze_dims=ones)


def transpose(g: Graph) -> None:
    x = moved(g, 1)
    move(g, "TRANSPOSE", [x, g.constant(g.rng.permutation(len(x.shape)).astype(np.int32))])


def part(g: Graph) -> None:
    x = moved(g, 1)
    if g.chance(0.5):
        begin = [g.whole(0, max(d - 1, 0)) for d in x.shape]
        size = [g.whole(min(1, d), d - b) for d, b in zip(x.shape, begin, strict=True)]
        size = [-1 if g.chance(0.15) else s for s in size]
        move(g, "SLICE", [x, _pair_index(g, begin, size)[0], _pair_index(g, begin, size)[1]])
        return
    rank = g.whole(1, len(x.shape))
    step = [g.choose([1, 1, 1, 2, 3, -1, -2]) for _ in range(rank)]
    ends = [[g.whole(-d - 1, d + 1) for d in x.shape[:rank]] for _ in range(2)]
    if g.chance(0.8):  # some are left
        sides = [sorted(g.rng.integers(0, d + 1, 2).tolist()) for d in x.shape[:rank]]
        ends = [
            [s[i if n > 0 else 1 - i] for s, n in zip(sides, step, strict=True)] for i in (0, 1)
        ]
    masks = {
        "begin_mask": g.choose([0, g.whole(0, 255), 255]),
        "end_mask": g.choose([0, g.whole(0, 255), 255]),
        "shrink_axis_mask": g.choose([0, 0, 0, 1 << g.whole(0, rank - 1)]),
        "new_axis_mask": g.choose([0, 0, 0, 0, 1 << g.whole(0, rank - 1)]),
        "ellipsis_mask": g.choose([0, 0, 0, 0, 1 << g.whole(0, rank - 1)]),
    }
    indices = [g.constant(np.array(v, np.int32)) for v in (*ends, step)]
    move(g, "STRIDED_SLICE", [x, *indices], **masks)


def _pair_index(g: Graph, begin: list[int], size: list[int]) -> tuple[Tensor, Tensor]:
    return g.constant(np.array(begin, np.int32)), g.constant(np.array(size, np.int32))


def join(g: Graph) -> None:
    x = moved(g, 1)
    axis = g.whole(0, len(x.shape) - 1)

    def alike(t: Tensor) -> bool:
        cut = [s[:axis] + s[axis + 1 :] for s in (t.shape, x.shape)]
        same = len(t.shape) == len(x.shape) and t.dtype is x.dtype
        return same and cut[0] == cut[1]

    parts = [x] + [g.pick(alike) for _ in range(g.whole(1, 3))]
    if g.chance(0.3):
        shape = (*x.shape[:axis], g.whole(1, 5), *x.shape[axis + 1 :])
        parts.insert(g.whole(0, 1), g.constant(g.random(shape, x.dtype), x.dtype, x.quant))
    quant = x.quant if x.dtype is not DType.UINT8 or g.chance(0.5) else g.quant(x.dtype)
    if x.dtype is DType.UINT8 and g.chance(0.5):
        quant = g.quant(x.dtype)
    elif any(t.quant is not x.quant for t in parts):
        raise Skip
    back = axis - len(x.shape) if g.chance(0.3) else axis
    g.add(
        "CONCATENATION", parts, (x.dtype, quant), exact=True, axis=back,
        fused_activation_function="NONE",
    )  # fmt: skip


def pack(g: Graph) -> None:
    x = moved(g)
    parts = [x]
    for _ in range(g.whole(1, 3)):
        parts.append(
            g.pick(lambda t: t.shape == x.shape and t.dtype is x.dtype and t.quant is x.quant)
        )
    axis = g.whole(-len(x.shape) - 1, len(x.shape))
    move(g, "PACK", parts, values_count=len(parts), axis=axis)


def split(g: Graph) -> None:
    x = moved(g, 1)
    axis = g.whole(0, len(x.shape) - 1)
    d = x.shape[axis]
    out = (x.dtype, x.quant)
    how = g.choose(["SPLIT", "SPLIT_V", "UNPACK"])
    if how == "UNPACK" and 0 < d <= 5:
        g.add("UNPACK", [x], *[out] * d, exact=True, num=d, axis=axis)
    elif how == "SPLIT_V" and d > 1:
        cut = g.whole(1, d - 1)
        sizes = g.constant(np.array([cut, d - cut], np.int32))
        inputs = [x, sizes, g.constant(np.int32(axis))]
        g.add("SPLIT_V", inputs, out, out, exact=True, num_splits=2)
    else:
        fits = [n for n in (2, 3, 4, 5) if d and d % n == 0]
        n = g.choose(fits) if fits else 1
        g.add("SPLIT", [g.constant(np.int32(axis)), x], *[out] * n, exact=True, num_splits=n)


def pad(g: Graph) -> None:
    x = moved(g, 1)
    op = g.choose(["PAD", "PAD", "PADV2", "MIRROR_PAD"])
    inner = (0, max(min((d - 1 for d in x.shape), default=0), 0)) if op == "MIRROR_PAD" else (0, 3)
    pads = [[g.whole(*inner) if g.chance(0.5) else 0 for _ in (0, 1)] for _ in x.shape]
    places = _index(g, np.array(pads).reshape(-1, 2))
    if op == "MIRROR_PAD":
        move(g, op, [x, places], mode=g.choose(["REFLECT", "SYMMETRIC"]))
    elif op == "PADV2":
        move(g, op, [x, places, g.constant(g.random((), x.dtype), x.dtype, x.quant)])
    else:
        move(g, op, [x, places])


def tile(g: Graph) -> None:
    x = moved(g, 1)
    if g.chance(0.5):
        move(g, "TILE", [x, _index(g, [g.choose([1, 1, 2, 3]) for _ in x.shape])])
        return
    shape = [g.whole(1, 4) if d == 1 else d for d in x.shape]
    if g.chance(0.4) and len(shape) < 8:
        shape = [g.whole(1, 3), *shape]
    move(g, "BROADCAST_TO", [x, _index(g, shape)])


def reverse(g: Graph) -> None:
    x = moved(g, 1)
    axis = g.whole(0, len(x.shape) - 1)
    if len(x.shape) > 1 and g.chance(0.4):
        other = (axis + g.whole(1, len(x.shape) - 1)) % len(x.shape)
        lengths = [g.whole(0, x.shape[axis]) for _ in range(x.shape[other])]
        options = {"seq_dim": axis, "batch_dim": other}
        move(g, "REVERSE_SEQUENCE", [x, _index(g, lengths)], **options)
        return
    move(g, "REVERSE_V2", [x, g.constant(np.array([axis], np.int32))])


def gather(g: Graph) -> None:
    x = moved(g, 1)
    axis = g.whole(0, len(x.shape) - 1)
    if not x.shape[axis]:
        raise Skip
    if g.chance(0.3):
        depth = g.whole(1, len(x.shape))
        rows = g.choose([1, 3, 8])
        places = np.stack([g.rng.integers(0, d, rows) for d in x.shape[:depth]], -1)
        move(g, "GATHER_ND", [x, g.constant(places.astype(np.int32))])
        return
    shape = g.choose([(), (1,), (3,), (2, 3), (17,)])
    places = g.rng.integers(0, x.shape[axis], shape).astype(np.int32)
    batch = g.choose([0, 0, 0, axis])
    if batch:
        places = g.rng.integers(0, x.shape[axis], (*x.shape[:batch], 3)).astype(np.int32)
    move(g, "GATHER", [x, g.constant(places)], axis=axis, batch_dims=batch)


def space(g: Graph) -> None:
    x = g.pick(lambda t: len(t.shape) == 4)
    op = g.choose(["SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"])
    block = g.choose([2, 2, 3, 1])
    if op.endswith("_ND"):
        edges = [[g.whole(0, 2), g.whole(0, 2)] for _ in (0, 1)]
        if op == "SPACE_TO_BATCH_ND":
            edges = [
                [a, a + -(d + 2 * a) % block] for (a, _), d in zip(edges, x.shape[1:3], strict=True)
            ]
        sides = [g.constant(np.array(v, np.int32)) for v in ([block, block], edges)]
        move(g, op, [x, *sides])
    else:
        move(g, op, [x], block_size=block)


def update(g: Graph) -> None:
    x = moved(g, 1)
    shape = [g.whole(min(1, d), d) for d in x.shape]
    piece = g.constant(g.random(shape, x.dtype), x.dtype, x.quant)
    start = g.constant(np.array([g.whole(-1, d) for d in x.shape], np.int32))
    move(g, "DYNAMIC_UPDATE_SLICE", [x, piece, start])


def hlo(g: Graph) -> None:
    """StableHLO's ways to move elements."""
    x = moved(g, 1)
    rank = len(x.shape)
    op = g.choose(["PAD", "SLICE", "TRANSPOSE", "BROADCAST_IN_DIM", "CLAMP", "DYNAMIC_SLICE"])
    if op == "PAD":
        value = g.constant(g.random((), x.dtype), x.dtype, x.quant)
        edges = [[g.whole(-1, 2) if g.chance(0.5) else 0 for _ in x.shape] for _ in (0, 1)]
        inner = [g.choose([0, 0, 1, 2]) for _ in x.shape]
        options = {"edge_padding_low": edges[0], "edge_padding_high": edges[1]}
        move(g, "STABLEHLO_PAD", [x, value], **options, interior_padding=inner)
    elif op == "SLICE":
        starts = [g.whole(0, max(d - 1, 0)) for d in x.shape]
        limits = [g.whole(min(a + 1, d), d) for a, d in zip(starts, x.shape, strict=True)]
        steps = [g.whole(1, 2) for _ in x.shape]
        options = {"start_indices": starts, "limit_indices": limits, "strides": steps}
        move(g, "STABLEHLO_SLICE", [x], **options)
    elif op == "TRANSPOSE":
        order = [int(i) for i in g.rng.permutation(rank)]
        move(g, "STABLEHLO_TRANSPOSE", [x], permutation=order)
    elif op == "BROADCAST_IN_DIM":
        more = g.whole(0, 2)
        dims = sorted(int(i) for i in g.rng.choice(rank + more, rank, replace=False))
        shape = [g.whole(1, 3) for _ in range(rank + more)]
        for i, d in zip(dims, x.shape, strict=True):
            shape[i] = d if d > 1 else shape[i]
        to = g.constant(np.array(shape, np.int64))
        move(g, "STABLEHLO_BROADCAST_IN_DIM", [x, to], broadcast_dimensions=dims)
    elif op == "CLAMP":
        low, high = (
            np.sort(g.random((2,), x.dtype))
            if x.dtype is not DType.BOOL
            else g.random((2,), DType.BOOL)
        )
        ends = [g.constant(v, x.dtype, x.quant) for v in (low, high)]
        g.add("STABLEHLO_CLAMP", [ends[0], x, ends[1]], (x.dtype, x.quant), exact=True)
    else:
        sizes = [g.whole(min(1, d), d) for d in x.shape]
        starts = [g.constant(np.int32(g.whole(-1, d))) for d in x.shape]
        move(g, "STABLEHLO_DYNAMIC_SLICE", [x, *starts], slice_sizes=sizes)


MOVES: Sequence[tuple[Callable[[Graph], object], float]] = (
    *[(m, 1.0) for m in (squeeze, pack, tile, reverse, gather, space, update)],
    *[(m, 2.0) for m in (reshape, transpose, split, pad, hlo)],
    *[(m, 3.0) for m in (part, join)],
)
