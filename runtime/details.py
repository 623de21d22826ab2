"""The dictionaries that describe tensors and operators, with the keys and numpy types of TensorFlow
Lite's interpreter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.types import Array, DType

if TYPE_CHECKING:
    from .subgraph import LiveSubgraph
    from .tensor import LiveTensor


class TensorDetails(dict[str, Any]):
    """What `get_input_details` and its like give for a tensor.

    `shape_is` says what the shape is worth: "known"; "stale", an input was resized since and
    `allocate_tensors` will settle it; or "dynamic", each invoke settles it.
    """

    shape_is = "known"

    def __repr__(self) -> str:
        text = super().__repr__()
        if self.shape_is == "stale":
            return f"{text} (shape is stale: an input was resized, allocate_tensors() settles it)"
        if self.shape_is == "dynamic":
            return f"{text} (shape is dynamic: each invoke settles it)"
        return text


def numpy_type(dtype: DType) -> type[Any]:
    """The numpy scalar type that details name for a tensor: strings are `np.bytes_`, as in
    TensorFlow Lite.
    """
    if dtype is DType.STRING:
        return np.bytes_
    if dtype is DType.BFLOAT16:
        extended = bfloat16()
        return np.uint16 if extended is None else extended.type
    return dtype.numpy.type


def bfloat16() -> np.dtype[Any] | None:
    """ml_dtypes' bfloat16 where that package is installed; else values are the uint16 of their
    bits.
    """
    try:
        import ml_dtypes
    except ImportError:
        return None
    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


def tensor_details(
    subgraph: LiveSubgraph, index: int, compress_zero_points: bool = False
) -> TensorDetails:
    tensor = subgraph.tensors[index]
    signature = tensor.shape_signature if tensor.const is None else None
    own = index < subgraph.own_tensors  # delegates can add more
    source = subgraph.definition.tensors[index] if own else None
    details = TensorDetails(
        name=tensor.name,
        index=index,
        shape=np.array(tensor.shape, np.int32),
        shape_signature=np.array(signature or tensor.shape, np.int32),
        dtype=numpy_type(tensor.dtype),
        quantization=_legacy(tensor),
        quantization_parameters=_parameters(subgraph, tensor, compress_zero_points),
        sparsity_parameters=_sparsity(source.sparsity if source is not None else None),
    )
    if tensor.is_dynamic:
        details.shape_is = "dynamic"
    elif (
        subgraph.stale
        and tensor.const is None
        and not tensor.variable
        and index not in subgraph.input_indices
    ):
        details.shape_is = "stale"
    return details


def _legacy(tensor: LiveTensor) -> tuple[float, int]:
    """Scale and zero point where there is one of each."""
    quant = tensor.quant
    if quant is None or quant.scale.size != 1 or quant.block_size:
        return 0.0, 0
    return float(quant.scale.flat[0]), int(quant.zero_point.flat[0])


def _parameters(
    subgraph: LiveSubgraph, tensor: LiveTensor, compress_zero_points: bool
) -> dict[str, Any]:
    quant = tensor.quant
    if quant is None:
        return {
            "scales": np.empty(0, np.float32),
            "zero_points": np.empty(0, np.int32),
            "quantized_dimension": 0,
            "block_size": 0,
        }
    zero_points = quant.zero_point.reshape(-1).astype(np.int32)
    scales = quant.scale.reshape(-1).astype(np.float32)
    if quant.block_size:
        scales = scales.astype(np.float16)
        details = subgraph.definition.tensors[tensor.index].quantization_parameters.details
        if details.zero_points <= 0:
            zero_points = zero_points[:0]
    elif compress_zero_points and zero_points.size and (zero_points == zero_points[0]).all():
        zero_points = zero_points[:1]
    return {
        "scales": scales,
        "zero_points": zero_points,
        "quantized_dimension": quant.axis,
        "block_size": quant.block_size,
    }


def _sparsity(sparsity: Any) -> dict[str, Any]:
    if sparsity is None:
        return {}

    def integers(values: Any) -> Array:
        return np.asarray(() if values is None else values, np.int32)

    found: dict[str, Any] = {"traversal_order": integers(sparsity.traversal_order)}
    if sparsity.block_map:
        found["block_map"] = integers(sparsity.block_map)
    found["dim_metadata"] = [
        {"format": 0, "dense_size": d.dense_size}
        if d.format == "DENSE"
        else {
            "format": 1,
            "array_segments": integers(d.array_segments),
            "array_indices": integers(d.array_indices),
        }
        for d in sparsity.dim_metadata
    ]
    return found


def op_details(subgraph: LiveSubgraph, index: int) -> dict[str, Any]:
    """What `_get_ops_details` gives for a node."""
    definition = subgraph.definition.operators[index]

    def types(indices: tuple[int, ...]) -> list[type[Any]]:
        return [numpy_type(subgraph.tensors[i].dtype) for i in indices if i >= 0]

    return {
        "index": index,
        "op_name": definition.op,
        "inputs": np.array(definition.inputs, np.int32),
        "outputs": np.array(definition.outputs, np.int32),
        "operand_types": types(definition.inputs),
        "result_types": types(definition.outputs),
    }


def node_details(subgraph: LiveSubgraph, index: int) -> dict[str, Any]:
    """`op_details`, and the node's version, its attributes by the schema's names, and its place.

    `options` are a builtin's attributes; `custom_options` the bytes of a custom op's (with
    `.flexbuffer()`), else None.
    """
    definition = subgraph.definition.operators[index]
    node = subgraph.nodes[index]
    return {
        **op_details(subgraph, index),
        "subgraph": subgraph.index,
        "version": definition.version,
        "custom": definition.custom,
        "options": dict(definition.options),
        "custom_options": definition.custom_options if definition.custom else None,
        "intermediates": np.array(definition.intermediates, np.int32),
        "input_names": [None if t is None else t.name for t in node.inputs],
        "output_names": [t.name for t in node.outputs],
    }
