"""Small models that run, for tests of the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from litedelegate import ModelBuilder


def add(shape: Sequence[int] = (1, 4), signature: bool = True) -> bytes:
    """sum = x + y, in that order of inputs; the signature calls them b and a."""
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x:0", shape, shape_signature=(-1, *shape[1:]))
    y = g.input("y:0", shape, shape_signature=(-1, *shape[1:]))
    out = g.op("ADD", [x, y], ("sum:0", shape, "float32"))
    g.outputs(out)
    if signature:
        b.signature("serving_default", {"b": x, "a": y}, {"sum": out})
    return b.build()


def chain(length: int = 4, shape: Sequence[int] = (1, 1000)) -> bytes:
    """`length` additions of 1: tensors t0 to t<length>."""
    b = ModelBuilder()
    g = b.subgraph()
    t = g.input("t0", shape)
    one = g.constant("one", np.ones(1, np.float32))
    for i in range(length):
        t = g.op("ADD", [t, one], (f"t{i + 1}", shape, "float32"))
    g.outputs(t)
    return b.build()


def two_signatures() -> bytes:
    """double(x) = x + x in subgraph 0; square(x) = x * x in subgraph 1."""
    b = ModelBuilder()
    for key, op in (("double", "ADD"), ("square", "MUL")):
        g = b.subgraph(key)
        x = g.input(f"{key}_x", (2,))
        y = g.op(op, [x, x], (f"{key}_y", (2,), "float32"))
        g.outputs(y)
        b.signature(key, {"x": x}, {"y": y})
    return b.build()


def quantised(dtype: str = "uint8", scale: float = 0.0078125, zero_point: int = 128) -> bytes:
    """A quantised input [1, 4], reshaped to an output [4] of the same quantisation."""
    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("image", (1, 4), dtype, scale=scale, zero_point=zero_point)
    y = g.tensor("out", (4,), dtype, scale=scale, zero_point=zero_point)
    shape = g.constant("shape", np.array([4], np.int32))
    g.outputs(g.op("RESHAPE", [x, shape], y))
    return b.build()


def pinned_batch() -> bytes:
    """[1, 2, 2] reshaped to a constant [1, 4]: other batches do not fit."""
    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (1, 2, 2), shape_signature=(-1, 2, 2))
    shape = g.constant("flat_shape", np.array([1, 4], np.int32))
    g.outputs(g.op("RESHAPE", [x, shape], ("flat", (1, 4), "float32")))
    return b.build()


def flexible_batch() -> bytes:
    """relu of [1, 2, 2], reshaped to [-1, 4]."""
    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (1, 2, 2), shape_signature=(-1, 2, 2))
    r = g.op("RELU", [x], ("relu", (1, 2, 2), "float32"))
    shape = g.constant("flat_shape", np.array([-1, 4], np.int32))
    g.outputs(g.op("RESHAPE", [r, shape], ("flat", (1, 4), "float32")))
    return b.build()


def dynamic() -> bytes:
    """range(0, n) + 1, of a length that is known at invoke."""
    b = ModelBuilder()
    g = b.subgraph()
    n = g.input("n", (), "int32")
    zero, one = (g.constant(name, np.int32(v)) for name, v in (("zero", 0), ("one", 1)))
    r = g.op("RANGE", [zero, n, one], ("range", (0,), "int32"))
    g.outputs(g.op("ADD", [r, one], ("numbers", (0,), "int32")))
    return b.build()


def custom(
    *ops: tuple[str, Any], shape: Sequence[int] = (5,), declared: Sequence[int] | None = None
) -> bytes:
    """A chain of custom ops (name, options) on one float tensor."""
    b = ModelBuilder()
    g = b.subgraph()
    t = g.input("x", shape)
    for i, (name, options) in enumerate(ops):
        out = (f"y{i}", shape if declared is None else declared, "float32")
        t = g.custom(name, [t], out, options=options)
    g.outputs(t)
    return b.build()


def counter() -> bytes:
    """A custom op "Count" that adds its input to a variable tensor and returns it."""
    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (2,))
    state = g.variable("state", (2,))
    g.outputs(g.custom("Count", [x, state], ("total", (2,), "float32")))
    return b.build()


def folded() -> bytes:
    """x + (c + c): the inner sum is of constants alone."""
    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (3,))
    c = g.constant("c", np.array([1, 2, 3], np.float32))
    cc = g.op("ADD", [c, c], ("cc", (3,), "float32"))
    g.outputs(g.op("ADD", [x, cc], ("y", (3,), "float32")))
    return b.build()


def versioned(*ops: tuple[str, int]) -> bytes:
    """Unary or binary builtins of one tensor, in the versions given."""
    b = ModelBuilder()
    g = b.subgraph()
    t = g.input("x", (2,))
    for i, (op, version) in enumerate(ops):
        inputs = [t, t] if op in ("ADD", "MUL", "SUB") else [t]
        t = g.op(op, inputs, (f"t{i}", (2,), "float32"), version=version)
    g.outputs(t)
    return b.build()
