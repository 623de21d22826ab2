"""What to say when a model cannot take the shape that its input was given."""

from __future__ import annotations

from .subgraph import LiveSubgraph, NodeError
from .tensor import FOLDED, MMAP

MOST_VALUES = 16


def explain(subgraph: LiveSubgraph, error: NodeError) -> NodeError:
    """The error, with the inputs that were resized and the small integer constants that pin the failed node's shape."""
    resized = [t for t in subgraph.inputs if t.shape != t.declared_shape]
    if not resized or error.subgraph != subgraph.index:
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
    ]
    for t in pins:
        assert t.const is not None
        text += (
            f" Tensor {t.index} {t.name!r} = {t.const.tolist()} is a constant of the model and fixes the shape there: "
            "this model cannot be resized so, unless it is converted with that dimension unknown (-1)."
        )
    return NodeError(text, error.subgraph, error.node, error.op)
