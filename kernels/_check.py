"""Checks that many families make in `infer`."""

from __future__ import annotations

import math
from typing import Any

from .api import NodeSpec, OpError, Shape, TensorSpec, take
from .types import DType

BYTES = (DType.INT8, DType.UINT8)
COMPLEX = (DType.COMPLEX64, DType.COMPLEX128)
WIDE_INTEGERS = (
    DType.INT16,
    DType.INT32,
    DType.INT64,
    DType.UINT16,
    DType.UINT32,
    DType.UINT64,
)
INTEGERS = (*BYTES, *WIDE_INTEGERS)
NUMBERS = (
    DType.FLOAT32,
    DType.FLOAT16,
    DType.BFLOAT16,
    DType.FLOAT64,
    DType.INT8,
    DType.UINT8,
    DType.INT16,
    DType.UINT16,
    DType.INT32,
    DType.UINT32,
    DType.INT64,
    DType.UINT64,
)
# stored several in a byte
PACKED = (DType.INT4, DType.UINT4, DType.INT2)


def arity(node: NodeSpec, inputs: int, outputs: int = 1) -> None:
    """The node has that many inputs and outputs, none of them absent."""
    if len(node.inputs) != inputs or len(node.outputs) != outputs:
        raise OpError(
            f"{node.op} has {len(node.inputs)} inputs and {len(node.outputs)} outputs; "
            f"it takes {inputs} and gives {outputs}"
        )
    for i in range(inputs):
        node.input(i)


def gives(node: NodeSpec, *dtypes: DType, output: int = 0) -> None:
    """Output `output` is declared with one of these types."""
    spec = node.outputs[output]
    if spec.dtype not in dtypes:
        raise OpError(
            f"output {output} {spec.name!r} is {spec.dtype.label}; "
            f"{node.op} gives {', '.join(d.label for d in dtypes)} here"
        )


def option_map(options: Any) -> dict[str, Any]:
    """The FlexBuffer map of a custom op's options; empty where there are none."""
    try:
        found = options.flexbuffer()
    except ValueError as e:
        raise OpError(f"the custom options ({len(options)} bytes) are no FlexBuffer: {e}") from e
    if found is not None and not isinstance(found, dict):
        raise OpError(f"the custom options are no FlexBuffer map but {found!r}")
    return found or {}


def same_type(node: NodeSpec, a: TensorSpec, b: TensorSpec) -> None:
    if a.dtype is not b.dtype:
        raise OpError(
            f"{a.name!r} is {a.dtype.label} and {b.name!r} is {b.dtype.label}; "
            f"{node.op} takes inputs of one type"
        )


def elementwise(node: NodeSpec, *dtypes: DType) -> Shape:
    """Shape of an op of one input whose output has its type and shape."""
    arity(node, 1)
    x = node.input(0)
    take(node, "input 0", x, *dtypes)
    gives(node, x.dtype)
    return x.shape


def scaled(node: NodeSpec, *specs: TensorSpec) -> None:
    """Each of these tensors is quantised, with one finite scale above zero."""
    for spec in specs:
        if spec.quant is None or not spec.scale > 0:
            raise OpError(
                f"{spec.name!r} is {spec.dtype.label} without a quantisation scale; "
                f"{node.op} needs one there"
            )
        if not math.isfinite(spec.scale):
            raise OpError(f"{spec.name!r} has the scale {spec.scale}, which is no number")
        if spec.quant.per_axis:
            raise OpError(
                f"{spec.name!r} has {spec.quant.scale.size} scales; {node.op} takes one for "
                "the whole tensor"
            )


def symmetric(node: NodeSpec, *specs: TensorSpec) -> None:
    """Each of these tensors has zero point 0, as int16 arithmetic needs it."""
    for spec in specs:
        if spec.zero_point != 0:
            raise OpError(
                f"{spec.name!r} is {spec.dtype.label} with zero point {spec.zero_point}; "
                f"{node.op} takes 0 there"
            )


def float_images(node: NodeSpec, inputs: int, rank: int = 4) -> None:
    """All inputs and outputs are float32; input 0 has that rank."""
    for i in range(inputs):
        take(node, f"input {i}", node.input(i), DType.FLOAT32)
    for y in node.outputs:
        take(node, "the output", y, DType.FLOAT32)
    if node.input(0).rank != rank:
        raise OpError(
            f"{node.op} version {node.version} takes a {rank}-dimensional input; got "
            f"{list(node.input(0).shape)}"
        )
