"""Lookups: EMBEDDING_LOOKUP and its sparse form, HASHTABLE_LOOKUP; LSH_PROJECTION, SKIP_GRAM."""

from __future__ import annotations

import numpy as np

from . import _skip_gram
from ._farmhash import fingerprint64
from ._lower import check
from ._rows_lower import rows
from .api import Binding, NodeSpec, OpError, Run, Shape, op, require, take
from .device import Capability, Lowered, Map, Read
from .types import Array, DType

_REAL = (DType.FLOAT32, DType.FLOAT16)
_STORED = (DType.INT8, DType.UINT8, DType.INT4, DType.INT2)


def _rows(op_name: str, index: Array, count: int) -> None:
    """Refuses row numbers outside [0, count)."""
    if index.size and (index.min() < 0 or index.max() >= count):
        wrong = index[(index < 0) | (index >= count)][0]
        raise OpError(
            f"{op_name}: index out of bounds. Got {wrong}, and bounds are [0, {count - 1}]"
        )


# -- EMBEDDING_LOOKUP


def _infer_lookup(node: NodeSpec) -> list[Shape]:
    index, value, out = node.input(0), node.input(1), node.outputs[0]
    take(node, "input 0", index, DType.INT32)
    require(index.rank == 1, f"input 0 is {index}; taken: rank 1")
    require(value.rank >= 2, f"input 1 is {value}; taken: rank 2 or more")
    if value.dtype in _STORED:
        take(node, "output", out, value.dtype, *_REAL)
    else:
        take(node, "output", out, value.dtype)
    q = value.quant
    if q is not None and out.dtype is not value.dtype:
        require(not q.zero_point.any(), f"input 1 has zero point {q.zero_point.flat[0]}; taken: 0")
        rows, row = value.shape[0], value.size // max(value.shape[0], 1)
        wanted = row // q.block_size * rows if q.block_size else rows
        require(
            q.scale.size == 1 or (q.scale.size == wanted and (q.block_size > 0 or q.axis == 0)),
            f"input 1 has {q.scale.size} scales along dimension {q.axis}; taken: one, or one for "
            f"each of its {rows} rows, or for each block of a row",
        )
    return [(index.shape[0], *value.shape[1:])]


def _bind_lookup(b: Binding) -> Run | None:
    index, value, y, spec = b.xi(0), b.xi(1), b.y[0], b.input(1)
    if y.size == 0:
        return None
    count = spec.shape[0]
    if b.outputs[0].dtype is spec.dtype:

        def copy() -> None:
            _rows("Embedding Lookup", index, count)
            np.take(value, index, axis=0, out=y, mode="clip")

        return copy
    # old files call int8 values uint8
    stored = value.view(np.int8).reshape(count, -1)
    scale = spec.quant.scale if spec.quant is not None else np.zeros(1, np.float32)
    per_row = scale.size > 1
    # one scale for each block of each row
    scale = scale.reshape(count if per_row else 1, -1, 1)
    found = b.scratch((len(index), stored.shape[1]), np.int8)
    blocks = found.reshape(len(index), scale.shape[1], -1)
    real = b.scratch(blocks.shape)

    def run() -> None:
        _rows("Embedding Lookup", index, count)
        np.take(stored, index, axis=0, out=found, mode="clip")
        np.multiply(blocks, scale[index] if per_row else scale, out=real)
        np.copyto(y, real.reshape(y.shape), casting="same_kind")

    return run


def _lower_lookup(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    index, value = node.input(0), node.input(1)
    count = value.shape[0]
    inner = value.size // max(count, 1)
    place = (
        f"const i32 at = LOAD1(r); from = at * {inner}; "
        f"if (at < 0 || at >= {count}) {{ bad = 1; from = 0; }}"
    )
    fault = (
        f"Embedding Lookup: index out of bounds. Got one in {index.name!r}, and bounds are "
        f"[0, {count - 1}]"
    )
    reads: list[int | Array] = [1, 0]
    text = ""
    if node.outputs[0].dtype is not value.dtype:
        scale = value.quant.scale if value.quant is not None else np.zeros(1, np.float32)
        reads.append(np.ascontiguousarray(scale.reshape(-1), np.float32))
        # one scale for each block of each row; old files call int8 values uint8
        block = value.size // scale.size if scale.size > 1 else max(value.size, 1)
        text = f"(f32)(i8)LOAD0(at) * LOAD2((at) / {max(block, 1)})"
    return Lowered([rows(capability, index.size, inner, place, reads, [fault], value=text)])


# -- EMBEDDING_LOOKUP_SPARSE


def _infer_sparse(node: NodeSpec) -> list[Shape | None]:
    ids, indices, dense, weights, value = (node.input(i) for i in range(5))
    for i, spec in enumerate((ids, indices, dense)):
        take(node, f"input {i}", spec, DType.INT32)
    for i, spec in ((3, weights), (4, value)):
        take(node, f"input {i}", spec, DType.FLOAT32)
    take(node, "output", node.outputs[0], DType.FLOAT32)
    require(
        ids.rank == 1 and indices.rank == 2 and dense.rank == 1 and weights.rank == 1,
        f"inputs 0 to 3 are {ids}, {indices}, {dense}, {weights}; taken: ranks 1, 2, 1, 1",
    )
    require(value.rank >= 2, f"input 4 is {value}; taken: rank 2 or more")
    require(
        indices.shape[0] == ids.shape[0] == weights.shape[0] and dense.shape[0] == indices.shape[1],
        f"{ids} ids, {weights} weights, {indices} indices and {dense} as dense shape do not fit",
    )
    if dense.const is None:
        return [None]
    leading = tuple(int(d) for d in dense.const[:-1])
    require(min(leading, default=0) >= 0, f"the dense shape {list(leading)} has a negative size")
    return [(*leading, *value.shape[1:])]


def _bind_sparse(b: Binding) -> Run:
    ids, indices, dense, weights, value = (b.xi(i) for i in range(5))
    count, combiner = value.shape[0], b.options.combiner

    def run() -> None:
        y = b.y[0].reshape(-1, value.size // max(count, 1))
        y.fill(0)
        _rows("Embedding Lookup Sparse", ids, count)
        leading = dense[:-1]
        place = indices[:, :-1]
        if ((place < 0) | (place >= leading)).any():
            raise OpError(f"Embedding Lookup Sparse: an index lies outside of {leading.tolist()}")
        if not ids.size:
            return
        strides = np.append(np.cumprod(leading[:0:-1], dtype=np.int64)[::-1], 1)[: len(leading)]
        bucket = place @ strides if len(leading) else np.zeros(len(ids), np.int64)
        starts = np.flatnonzero(np.append(True, np.diff(bucket) != 0))
        rows = value.reshape(count, -1)[ids] * weights[:, None]
        sums = np.add.reduceat(rows, starts, axis=0)
        if combiner == "MEAN":
            divisor = np.add.reduceat(weights, starts)
        elif combiner == "SQRTN":
            divisor = np.sqrt(np.add.reduceat(np.square(weights), starts))
        else:
            divisor = np.ones(len(starts), np.float32)
        _add_runs(y, bucket[starts], sums, divisor)

    return run


def _add_runs(y: Array, bucket: Array, sums: Array, divisor: Array) -> None:
    """Adds each run to its row and divides the row; a row that comes again goes on from there."""
    order = np.argsort(bucket, kind="stable")
    new = np.append(True, np.diff(bucket[order]) != 0)
    first = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    turn = np.empty(len(order), np.int64)
    turn[order] = np.arange(len(order)) - first
    for k in range(int(turn.max()) + 1):
        now = turn == k
        y[bucket[now]] = (y[bucket[now]] + sums[now]) / divisor[now, None]


# -- HASHTABLE_LOOKUP


def _infer_table(node: NodeSpec) -> list[Shape]:
    lookup, key, value = (node.input(i) for i in range(3))
    for i, spec in ((0, lookup), (1, key)):
        take(node, f"input {i}", spec, DType.INT32)
        require(spec.rank == 1, f"input {i} is {spec}; taken: rank 1")
    take(node, "output 0", node.outputs[0], value.dtype)
    take(node, "output 1", node.outputs[1], DType.UINT8)
    require(
        value.rank >= 1 and value.shape[0] == key.shape[0] > 0,
        f"{key} keys and {value} values; taken: as many keys as rows, one at least",
    )
    require(
        value.dtype is not DType.STRING or value.rank == 1, f"input 2 is {value}; taken: rank 1"
    )
    return [(lookup.shape[0], *value.shape[1:]), (lookup.shape[0],)]


def _bind_table(b: Binding) -> Run:
    lookup, key, value = (b.xi(i) for i in range(3))
    y, hits = b.y
    absent = b"" if value.dtype == object else value.dtype.type(0)

    def run() -> None:
        # the keys are sorted
        at = np.minimum(np.searchsorted(key, lookup), len(key) - 1)
        hit = key[at] == lookup
        y[...] = value[at]
        y[~hit] = absent
        np.copyto(hits, hit)

    return run


def _lower_table(node: NodeSpec, capability: Capability) -> Lowered:
    """The keys are sorted."""
    check(node, capability)
    key, value, found = node.input(1), node.input(2), node.outputs[0]
    inner = value.size // value.shape[0]
    search = f"sorted_place(@0, {key.size}, $0)"
    hit = Map(f"@0[{search}] == $0", (Read(0),), (1,), ("search",), output=1)
    place = (
        f"const i32 key = LOAD1(r), at = sorted_place(IN2, {key.size}, key); "
        f"from = LOAD2(at) == key ? at * {inner} : -1;"
    )
    lookup = rows(capability, found.shape[0], inner, place, (2, 0, 1), fill="0", uses=("search",))
    return Lowered([lookup, hit])


# -- LSH_PROJECTION


def _infer_lsh(node: NodeSpec) -> list[Shape]:
    seeds, x, weight = node.input(0), node.input(1), node.optional(2)
    take(node, "input 0", seeds, DType.FLOAT32)
    take(node, "input 1", x, *(d for d in DType if d.numpy != np.dtype(object)))
    take(node, "output", node.outputs[0], DType.INT32)
    require(
        seeds.rank == 2 and seeds.shape[1] <= 32,
        f"input 0 is {seeds}; taken: [hashes, bits], 32 bits at most",
    )
    require(x.rank >= 1 and x.shape[0] >= 1, f"input 1 is {x}; taken: one item at least")
    if weight is not None:
        take(node, "input 2", weight, DType.FLOAT32)
        require(weight.shape == x.shape[:1], f"input 2 is {weight}; taken: [{x.shape[0]}]")
    kind = node.options.type
    require(kind in ("SPARSE", "DENSE"), f"projection type {kind}; taken: SPARSE, DENSE")
    hashes, bits = seeds.shape
    return [(hashes,) if kind == "SPARSE" else (hashes * bits,)]


def _bind_lsh(b: Binding) -> Run:
    seeds, x, y = b.xi(0), b.xi(1), b.y[0]
    hashes, bits = seeds.shape
    dense = b.options.type == "DENSE"
    items = len(x)
    width = x.nbytes // items
    keys = b.scratch((seeds.size, items, 4 + width), np.uint8)

    def run() -> None:
        # each key is a seed and the bytes of an item
        keys[..., :4] = seeds.reshape(-1, 1).view(np.uint8)[:, None]
        keys[..., 4:] = x.reshape(-1).view(np.uint8).reshape(items, width)
        values = fingerprint64(keys.reshape(-1, 4 + width)).view(np.int64)
        score = values.reshape(seeds.size, items).astype(np.float64)
        if b.optional(2) is not None:
            score *= b.xi(2)
        # one after the other: the sign can hang on the order
        signs = (np.cumsum(score, axis=1)[:, -1] > 0).reshape(hashes, bits)
        if dense:
            np.copyto(y, signs.reshape(-1))
            return
        powers = np.int64(1) << np.arange(bits - 1, -1, -1)
        signature = signs @ powers + (np.arange(hashes, dtype=np.int64) << bits)
        y[...] = signature.astype(np.int32)

    return run


OPS = {
    "EMBEDDING_LOOKUP": op(
        "EMBEDDING_LOOKUP", _infer_lookup, _bind_lookup, versions=(1, 5), lower=_lower_lookup
    ),
    "EMBEDDING_LOOKUP_SPARSE": op("EMBEDDING_LOOKUP_SPARSE", _infer_sparse, _bind_sparse),
    "HASHTABLE_LOOKUP": op("HASHTABLE_LOOKUP", _infer_table, _bind_table, lower=_lower_table),
    "LSH_PROJECTION": op("LSH_PROJECTION", _infer_lsh, _bind_lsh),
    "SKIP_GRAM": op("SKIP_GRAM", _skip_gram.infer, _skip_gram.bind),
}
