"""Index tensors that are inputs, with other values at each invoke."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from litedelegate import Interpreter, ModelBuilder
from litedelegate.kernels.types import DType

X = np.arange(16, dtype=np.float32).reshape(4, 4)
_MASKS = dict.fromkeys(("ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "begin_mask"), 0)

# op, the indices of three invokes, options, what each invoke gives
CASES: list[tuple[str, list[list[Any]], dict[str, Any], Any]] = [
    ("SLICE", [[[a, 0], [2, 2]] for a in (0, 2, 1)], {}, lambda a, n: X[a[0] : a[0] + 2, :2]),
    (
        "STRIDED_SLICE",
        [[[a, 1], [a + 2, 3], [1, 1]] for a in (0, 2, 1)],
        {**_MASKS, "end_mask": 0, "offset": False},
        lambda a, z, s: X[a[0] : z[0], 1:3],
    ),
    ("TRANSPOSE", [[[1, 0]], [[0, 1]], [[1, 0]]], {}, lambda p: X.transpose(p)),
    ("REVERSE_V2", [[[0]], [[1]], [[-1]]], {}, lambda axis: np.flip(X, axis)),
    ("MEAN", [[[0]], [[1]], [[-2]]], {"keep_dims": False}, lambda axis: X.mean(tuple(axis))),
    ("REDUCE_MAX", [[[0]], [[1]], [[0]]], {"keep_dims": False}, lambda axis: X.max(tuple(axis))),
    ("CUMSUM", [[0], [1], [0]], {"exclusive": False, "reverse": False}, lambda a: X.cumsum(a)),
    (
        "PAD",
        [[[[1, 0], [0, 1]]], [[[0, 1], [0, 1]]], [[[0, 1], [1, 0]]]],
        {},
        lambda pads: np.pad(X, pads),
    ),
    ("GATHER", [[[0, 1]], [[3, 3]], [[2, 0]]], {"axis": 1, "batch_dims": 0}, lambda i: X[:, i]),
    ("GATHER_ND", [[[[0, 1]]], [[[3, 3]]], [[[2, 0]]]], {}, lambda i: X[tuple(np.transpose(i))]),
    ("TILE", [[[1, 2]], [[2, 1]], [[1, 2]]], {}, lambda n: np.tile(X, n)),
    ("EXPAND_DIMS", [[0], [2], [-1]], {}, lambda axis: np.expand_dims(X, axis)),
    (
        "BROADCAST_TO",
        [[[2, 4, 4]], [[1, 4, 4]], [[3, 4, 4]]],
        {},
        lambda shape: np.broadcast_to(X, shape),
    ),
    ("RESHAPE", [[[2, 8]], [[8, 2]], [[-1, 1]]], {"new_shape": ()}, lambda shape: X.reshape(shape)),
]


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_each_invoke_reads_its_indices(case: Any) -> None:
    op, rounds, options, expected = case
    b = ModelBuilder()
    g = b.subgraph()
    inputs = [g.input("x", X.shape)]
    for i, value in enumerate(rounds[0]):
        inputs.append(g.input(f"index{i}", np.shape(value), "int32"))
    version = 2 if op == "BROADCAST_TO" else 1
    g.outputs(g.op(op, inputs, ("y", (), DType.FLOAT32), version=version, **options))
    interpreter = Interpreter(model_content=b.build())
    # twice round: the second time the values are known already
    for indices in (*rounds, *rounds):
        named = {f"index{i}": np.array(value, np.int32) for i, value in enumerate(indices)}
        got = interpreter.run({"x": X, **named})["y"]
        want = expected(*[np.array(v) if np.ndim(v) else v for v in indices])
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_constant_index_outside_is_an_error_at_invoke_only() -> None:
    """A branch or loop body that never runs may hold one, on an empty list."""
    b = ModelBuilder()
    g = b.subgraph()
    index = [
        g.constant(n, np.array([v], np.int32)) for n, v in (("begin", 4), ("end", 5), ("by", 1))
    ]
    options = {**_MASKS, "end_mask": 0, "offset": False, "shrink_axis_mask": 1}
    x = g.input("x", X.shape)
    g.outputs(g.op("STRIDED_SLICE", [x, *index], ("y", (4,), DType.FLOAT32), **options))
    interpreter = Interpreter(model_content=b.build())
    interpreter.allocate_tensors()
    with pytest.raises(RuntimeError, match="index 4 in dimension 0 of 'x', shape \\[4, 4\\]"):
        interpreter.run({"x": X})
