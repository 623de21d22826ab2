"""Ops that give the same elements another shape."""

from __future__ import annotations

from ._lower import view
from ._shape import INDEX, known, like, reinterpret, same_quantization, size_of
from .api import NodeSpec, OpError, Registration, Shape, TensorSpec, op, take


def _reshape(node: NodeSpec) -> list[Shape | None]:
    """Source of the rules for -1 and for zero-sized dimensions: TensorFlow Lite's reshape."""
    x = node.input(0)
    like(node, x, node.outputs[0])
    tensor = node.optional(1)
    if tensor is not None and tensor.rank == 1 and tensor.dtype in INDEX:
        wanted = known(tensor)
        source = f"constant {tensor.name!r}" if tensor.const is not None else "a scalar"
    else:
        wanted = tuple(node.options.new_shape)
        # files of the first converters write a scalar's shape as [0]
        wanted = () if wanted == (0,) else wanted
        source = "option new_shape"
    return [None if wanted is None else resolve(x, wanted, source)]


def resolve(x: TensorSpec, wanted: Shape, source: str) -> Shape:
    """The shape that `wanted` means for `x`; `source` says where it comes from."""
    if wanted.count(-1) > 1:
        raise OpError(f"RESHAPE to {list(wanted)} ({source}): -1 may stand once only")
    if any(d < -1 for d in wanted):
        raise OpError(
            f"output shape contains negative dimension: RESHAPE to {list(wanted)} ({source})"
        )
    shape = wanted
    if -1 in wanted:
        fixed = [d for d in wanted if d != -1]
        empty = x.size == 0 and size_of(fixed) != 0
        stretch = 0 if empty else _nonzero(x.shape) // _nonzero(fixed)
        shape = tuple(stretch if d == -1 else d for d in wanted)
    if size_of(shape) != x.size:
        text = (
            f"num_input_elements != num_output_elements ({x.size} != {size_of(shape)}): RESHAPE of "
            f"{x.name!r}, shape {list(x.shape)}, to {list(wanted)} ({source})"
        )
        if x.rank and wanted and wanted[0] not in (-1, x.shape[0]):
            text += (
                f"; {source} pins the first dimension to {wanted[0]}: convert the model with -1 "
                f"there, or keep the batch at {wanted[0]}"
            )
        raise OpError(text)
    return shape


def _nonzero(shape: tuple[int, ...] | list[int]) -> int:
    return size_of([d for d in shape if d])


def _squeeze(node: NodeSpec) -> list[Shape | None]:
    x = node.input(0)
    like(node, x, node.outputs[0])
    dims = tuple(node.options.squeeze_dims)
    gone = {d + x.rank if d < 0 else d for d in dims}
    for d in gone:
        if not 0 <= d < x.rank or x.shape[d] != 1:
            raise OpError(
                f"SQUEEZE of dimensions {list(dims)} of {x.name!r}, shape {list(x.shape)}: "
                "each must be there and be 1"
            )
    if not dims:
        gone = {i for i, d in enumerate(x.shape) if d == 1}
    return [tuple(d for i, d in enumerate(x.shape) if i not in gone)]


def _expand_dims(node: NodeSpec) -> list[Shape | None]:
    x, axis = node.input(0), node.input(1)
    like(node, x, node.outputs[0])
    same_quantization(node, x, node.outputs[0])
    take(node, "axis", axis, *INDEX)
    if axis.size != 1:
        raise OpError(f"EXPAND_DIMS takes one axis; got shape {list(axis.shape)}")
    values = known(axis)
    if values is None:
        return [None]
    at = values[0] + x.rank + 1 if values[0] < 0 else values[0]
    if not 0 <= at <= x.rank:
        raise OpError(
            f"Invalid axis: EXPAND_DIMS got axis {values[0]} for a tensor of rank {x.rank}; "
            f"taken: {-x.rank - 1} to {x.rank}"
        )
    return [(*x.shape[:at], 1, *x.shape[at:])]


def _stablehlo_reshape(node: NodeSpec) -> list[Shape | None]:
    x, y = node.input(0), node.outputs[0]
    like(node, x, y)
    return [resolve(x, y.shape, f"declared shape of {y.name!r}")]


OPS: dict[str, Registration] = {
    "RESHAPE": op("RESHAPE", _reshape, reinterpret, inplace=(0,), lower=view),
    "SQUEEZE": op("SQUEEZE", _squeeze, reinterpret, versions=(1, 2), inplace=(0,), lower=view),
    "EXPAND_DIMS": op("EXPAND_DIMS", _expand_dims, reinterpret, inplace=(0,), lower=view),
    "STABLEHLO_RESHAPE": op(
        "STABLEHLO_RESHAPE", _stablehlo_reshape, reinterpret, inplace=(0,), lower=view
    ),
}
