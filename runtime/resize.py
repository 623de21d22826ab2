"""Other shapes for inputs: which may be asked for, and what to say when one does not fit."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import NodeError
from .subgraph import LiveSubgraph
from .tensor import FOLDED, MMAP
from .verifier_tensors import MAX_RANK

MOST_VALUES = 16


def explain(subgraph: LiveSubgraph, error: RuntimeError) -> RuntimeError:
    """The error, with the inputs that were resized and the small integer constants that pin the
    failed node's shape.
    """
    resized = [t for t in subgraph.inputs if t.shape != t.declared_shape]
    if not resized or not isinstance(error, NodeError) or error.subgraph != subgraph.index:
        return error
    changes = ", ".join(
        f"{t.name!r} from {list(t.declared_shape)} to {list(t.shape)}" for t in resized
    )
    text = f"{error}\nResized: {changes}."
    pins = [
        t
        for t in subgraph.nodes[error.node].inputs
        if t is not None
        and t.allocation in (MMAP, FOLDED)
        and t.const is not None
        and t.dtype.is_integer
        and t.quant is None
        and t.const.size <= MOST_VALUES
        and repr(t.name) not in str(error)
    ]
    for t in pins:
        assert t.const is not None
        text += (
            f" Tensor {t.index} {t.name!r} = {t.const.tolist()} is a constant of the model and "
            "fixes the shape there: "
            "this model cannot be resized so, unless it is converted with that dimension unknown "
            "(-1)."
        )
    return NodeError(text, error.subgraph, error.node, error.op)


def check_resize(subgraph: LiveSubgraph, index: int, shape: Sequence[int], strict: bool) -> None:
    """RuntimeError unless tensor `index` is an input that may get this shape.

    With `strict` only dimensions that are -1 in its shape signature may change.
    """
    count = len(subgraph.tensors)
    if not 0 <= index < count:
        raise RuntimeError(
            "tensor_index < context_.tensors_size && tensor_index >= 0 was not true: "
            f"there is no tensor {index}, the model has {count}"
        )
    tensor = subgraph.tensors[index]
    if index not in subgraph.input_indices:
        raise RuntimeError(
            "Attempting to resize a fixed-size tensor. "
            f"Tensor {index} {tensor.name!r} is no input of the model"
        )
    if len(shape) > MAX_RANK:
        raise RuntimeError(
            f"the shape for input {index} {tensor.name!r} has {len(shape)} dimensions; at most "
            f"{MAX_RANK} are taken"
        )
    if min(shape, default=0) < 0:
        raise RuntimeError(
            f"the shape {list(shape)} for input {index} {tensor.name!r} has a negative dimension"
        )
    if not strict:
        return
    signature = tensor.shape_signature or tensor.declared_shape
    if len(signature) != len(shape):
        raise RuntimeError(
            f"tensor->dims->size != dims.size() ({len(signature)} != {len(shape)}): "
            f"input {index} {tensor.name!r} keeps its rank"
        )
    for i, (fixed, wanted) in enumerate(zip(signature, shape, strict=True)):
        if fixed not in (-1, wanted):
            raise RuntimeError(
                f"Attempting to resize dimension {i} of tensor {index} with value {fixed} to "
                f"{wanted}. ResizeInputTensorStrict only allows mutating unknown dimensions "
                "identified by -1."
            )
