"""Small models, made here, that between them use every part of the file format."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from litedelegate.runtime.builder import ModelBuilder, Quant


def quantized() -> bytes:
    """int8 convolution: scales per axis and tensor, a signature, metadata, unknown dimensions."""
    b = ModelBuilder(description="conv", min_runtime_version="2.5.0")
    g = b.subgraph("main")
    x = g.input("x", (1, 4, 4, 1), "int8", scale=0.5, zero_point=3, shape_signature=(-1, 4, 4, 1))
    w = g.constant("w", np.ones((2, 1, 1, 1), np.int8), scale=[0.5, 0.25], zero_point=[0, 0])
    bias = g.constant("b", np.array([1, -1], np.int32), scale=[0.25, 0.125], zero_point=0)
    y = g.op(
        "CONV_2D",
        [x, w, bias],
        ("y", (1, 4, 4, 2), "int8", Quant(1.0, -1, min=-1, max=1)),
        version=3,
        padding="VALID",
        stride_w=1,
        stride_h=1,
    )
    g.outputs(y)
    b.signature("serving_default", {"x": x}, {"y": y})
    return b.build()


def control() -> bytes:
    """A branch, a variable, strings, a custom operator with a FlexBuffer, control edges."""
    b = ModelBuilder()
    g = b.subgraph("main")
    branches = [b.subgraph("then"), b.subgraph("else")]
    for branch, op in zip(branches, ("ABS", "NEG"), strict=True):
        inner = branch.input("a", (2,))
        branch.outputs(branch.op(op, [inner], ("r", (2,), "float32")))
    c = g.input("c", (), "bool")
    x = g.input("x", (2,))
    state = g.variable("s", (2,))
    text = g.constant("t", ["ab", "", "cde"])
    y = g.op("IF", [c, x], [("y", (2,), "float32")], then_subgraph_index=1, else_subgraph_index=2)[
        0
    ]
    z = g.custom("Own", [y, state, text, None], ("z", (2,), "float32"), options={"n": [1, 2.5]})
    g.outputs(z)
    g.control_edges((0, 1))
    return b.build()


def odd() -> bytes:
    """Blockwise int4, sparsity, a variant tensor, the second union of options, intermediates."""
    b = ModelBuilder()
    g = b.subgraph("main")
    inner = b.subgraph("decomposition")
    a = inner.input("a", (2, 4))
    inner.outputs(inner.op("RELU", [a], ("r", (2, 4), "float32")))
    x = g.input("x", (2, 4))
    q = Quant([[0.5, 1.0], [2.0, 4.0]], block_size=2)
    w = g.constant("w", np.arange(8).reshape(2, 4) - 4, "int4", quant=q)
    sparsity = {
        "traversal_order": [0, 1],
        "dim_metadata": [
            {"format": "DENSE", "dense_size": 2},
            {
                "format": "SPARSE_CSR",
                "array_segments": ("Int32Vector", {"values": [0, 1, 2]}),
                "array_indices": ("Uint8Vector", {"values": [3, 0]}),
            },
        ],
    }
    s = g.constant("s", np.array([7, 8], np.float32), shape=(2, 4), sparsity=sparsity)
    v = g.input("v", (), "variant", variant_tensors=[{"shape": [2], "type": 2, "has_rank": True}])
    d = g.op("DENSIFY", [s], ("d", (2, 4), "float32"))
    y = g.op(
        "STABLEHLO_COMPOSITE",
        [x],
        ("y", (2, 4), "float32"),
        name="own.relu",
        decomposition_subgraph_index=1,
        composite_attributes=b"\x01\x02",
    )
    k = g.tensor("k", (0,), "int8", scale=0.5)
    z = g.custom("Odd", [w, d, y, v], ("z", (2, 4), "float32"), options=b"?", intermediates=[k])
    g.outputs(z)
    return b.build()


ALL: dict[str, Callable[[], bytes]] = {"quantized": quantized, "control": control, "odd": odd}
