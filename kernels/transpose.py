"""TRANSPOSE and its StableHLO form."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.lib.stride_tricks import as_strided

from ._lower import check, indices, layout, moved
from ._reduction_lower import place_of, sum_type
from ._shape import Values, copies, copy, integers, known, like, rank_is, settled, size_of
from .api import Binding, NodeSpec, OpError, Registration, Run, Shape, TensorSpec, op, take
from .device import Capability, Kernel, Lowered
from .types import Array, DType

# bytes from which on a transpose does not fit a core's cache, elements in a strip of it, and in a
# row that is long enough to be read strip by strip; a row of so many bytes is a short one
_LARGE, _STRIP, _ROW = 1 << 17, 64, 32
# on devices: sides of a tile below which there is nothing to gain, rows of work-items in a tile of
# a GPU, and tiles in one launch there
_LEAST_SIDE, _SIDE, _MOST_GROUPS = 8, 8, 65535


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
    return settled(b, (1,), lambda: _turned(b.y[0], b.xi(0).transpose(integers(b, 1))))


def _turned(y: Array, x: Array) -> Run:
    """Copies a transposed view; where rows become long columns, in strips of these.

    A strip is read while its lines are still in cache: up to three times faster. So is one column
    after the other where there are few of them, as channels of an image.
    """
    if y.nbytes < _LARGE or x.strides[-1] == x.itemsize:
        return copy(y, x)
    shape, strides = [x.shape[0]], [x.strides[0]]
    for n, stride in zip(x.shape[1:], x.strides[1:], strict=True):
        # what lies one behind the other in both is one dimension
        if strides[-1] == n * stride or n == 1:
            shape[-1] *= n
            strides[-1] = strides[-1] if n == 1 else stride
        else:
            shape.append(n)
            strides.append(stride)
    x, y = as_strided(x, shape, strides), y.reshape(shape)
    row = max(n for n, s in zip(shape, strides, strict=True) if s == x.itemsize)
    strip = shape[-1]
    if strip * x.itemsize <= _ROW:
        strip = 1
    elif strip >= 2 * _STRIP and row >= _ROW:
        strip = _STRIP
    return copies(
        [(y[..., i : i + strip], x[..., i : i + strip]) for i in range(0, shape[-1], strip)]
    )


def _infer_stablehlo(node: NodeSpec) -> list[Shape | None]:
    x = node.input(0)
    like(node, x, node.outputs[0])
    return [_permuted(node, x, tuple(node.options.permutation))]


def _bind_stablehlo(b: Binding) -> Run | None:
    return _turned(b.y[0], b.xi(0).transpose(tuple(b.options.permutation)))


# which vectors of 16 are stored of
_SMALL = (DType.INT8, DType.UINT8, DType.INT16)


def _lower(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    stablehlo = node.op.startswith("STABLEHLO_")
    perm = tuple(node.options.permutation) if stablehlo else indices(node.input(1))
    x = node.input(0)
    tiled = _lower_tiled(x, perm, capability)
    return Lowered([tiled or moved(x.shape, lambda a: a.transpose(perm))])


def _lower_tiled(x: TensorSpec, perm: Values, capability: Capability) -> Kernel | None:
    """In tiles, where the last dimension moves; None where rows stay together or are few."""
    shape, read = layout(x.shape, lambda a: a.transpose(perm))
    dims = _joined(shape, read.strides or ())
    beside = [i for i, (size, stride) in enumerate(dims) if stride == 1 and size > 1]
    if not x.size or len(dims) < 2 or not beside or beside[0] == len(dims) - 1:
        return None
    q, last = beside[0], len(dims) - 1
    (rows, _), (columns, in_row) = dims[q], dims[last]
    if min(rows, columns) < _LEAST_SIDE:
        return None
    outs = [size_of([d for d, _ in dims[i + 1 :]]) for i in range(len(dims))]
    others = [i for i in range(last) if i != q]
    matrices = size_of([dims[i][0] for i in others])
    gpu = capability.kind == "gpu"
    tile = 32 if gpu else next(n for n in (16, 8, 4) if n <= min(rows, columns) or n == 4)
    tiles = -(-columns // tile) * matrices
    if gpu and tiles > _MOST_GROUPS:
        return None
    wanted = 1 if gpu else 4 * capability.compute_units
    share = -(-rows // -(-wanted // tiles))
    span = -(-share // tile) * tile
    each = max(1, tiles // wanted)
    defines: dict[str, object] = {
        "SHARED": int(gpu),
        "KIND": sum_type(x.dtype),
        "VECTORS": int(x.dtype is DType.FLOAT32 or (x.dtype in _SMALL and tile == 16)),
        "TILE": tile,
        "TURN": f"turn_{tile}",
        "VECTOR_ROW": columns,
        "SIDE": _SIDE,
        "SPAN": span,
        "EACH": each,
        "TILES": tiles,
        "ROWS": rows,
        "COLUMNS": columns,
        "IN_ROW": in_row,
        "OUT_ROW": outs[q],
        "IN_BASE(m)": place_of([dims[i] for i in others], "m"),
        "OUT_BASE(m)": place_of([(dims[i][0], outs[i]) for i in others], "m"),
    }
    if gpu:
        grid: tuple[int, ...] = (-(-rows // tile) * tile, tiles * _SIDE)
        return Kernel("transpose", (0,), grid, defines, group=(tile, _SIDE))
    return Kernel("transpose", (0,), (-(-rows // span), -(-tiles // each)), defines, ("turn",))


def _joined(shape: Shape, strides: Sequence[int]) -> list[tuple[int, int]]:
    """(size, stride) of the dimensions, those made one that follow on each other in both."""
    dims: list[tuple[int, int]] = []
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if dims and dims[-1][1] == size * stride:
            dims[-1] = (dims[-1][0] * size, stride)
        else:
            dims.append((size, stride))
    return dims


OPS: dict[str, Registration] = {
    "TRANSPOSE": op("TRANSPOSE", _infer, _bind, versions=(1, 9), lower=_lower),
    "STABLEHLO_TRANSPOSE": op(
        "STABLEHLO_TRANSPOSE", _infer_stablehlo, _bind_stablehlo, lower=_lower
    ),
}
