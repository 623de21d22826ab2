"""cuBLAS in place of the shared forms: the same cases, on the stand-in; what it is given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from harness import Prepared, infer
from test_ops import ALL, GOOD, arrays, compare, node, registration

from litedelegate import Interpreter, ModelBuilder
from litedelegate.delegates.cuda import CUDADelegate
from litedelegate.delegates.cuda.cublas import Cublas
from litedelegate.delegates.cuda.device import CUDADevice
from litedelegate.delegates.gpu.fuse import Item
from litedelegate.delegates.gpu.plan import Plan
from litedelegate.kernels.api import Unsupported
from litedelegate.kernels.types import Array, DType

OPS = ("FULLY_CONNECTED", "BATCH_MATMUL", "CONV_2D")
KEYS = [
    k
    for k in GOOD
    if ALL[k].op in OPS and all(s is None or s.dtype is DType.FLOAT32 for s in node(ALL[k]).inputs)
]
# what it is not for, and what it says of it
LEFT = {
    "window": "a window of more than a pixel",
    "activation": "the activation",
    "empty": "no elements",
    "no depth": "no depth",
    "sparse": "types other than float32",
    "broadcast": "batches that broadcast",
}


@pytest.mark.parametrize("key", KEYS)
def test_the_same_cases(cupy: Any, key: str) -> None:
    case = ALL[key]
    spec, given = node(case), arrays(case)
    shapes = infer(registration(case), spec)
    outputs = [
        replace(o, shape=s) for o, s in zip(spec.outputs, shapes, strict=True) if s is not None
    ]
    spec = replace(spec, outputs=outputs)
    found = CUDADevice()
    try:
        lowered = Cublas(found, tf32=False, least=0).lower(spec)
    except Unsupported as e:
        assert any(text in e.text for text in LEFT.values()), e.text
        return
    ins = list(range(len(spec.inputs)))
    live = [i for i in ins if spec.inputs[i] is not None and spec.inputs[i].const is None]
    out = np.full(outputs[0].shape, 77, np.float32)
    plan = Plan(found, [Item(spec, ins, [100], lowered)], live, [100])
    for _ in range(3):
        plan.run({i: given[i] for i in live}, {100: out})
    assert len(cupy.cuda.cublas.calls) == 3
    want = Prepared(registration(case), node(case), given).run()[0]
    if case.tolerance < 1e-5:
        case = replace(case, tolerance=1e-5)
    compare(out, want, replace(case.wanted[0], value=want), case, "output 0")


def test_some_cases_are_taken(cupy: Any) -> None:
    found, taken = Cublas(CUDADevice(), tf32=False, least=0), set()
    for key in KEYS:
        spec = node(ALL[key])
        shapes = infer(registration(ALL[key]), spec)
        outputs = [replace(o, shape=s) for o, s in zip(spec.outputs, shapes, strict=True)]
        try:
            found.lower(replace(spec, outputs=outputs))
            taken.add(spec.op)
        except Unsupported:
            continue
    assert taken == set(OPS)


def classifier(rows: int = 8) -> bytes:
    """EXP, FULLY_CONNECTED with RELU, EXP: kernels before and behind a product."""
    rng = np.random.default_rng(3)
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.op("NEG", [g.input("x", (rows, 32))], ("a", (rows, 32), "float32"))
    sums = g.constant("axis", np.array([1], np.int32))
    mean = g.op("MEAN", [x, sums], ("m", (rows, 1), "float32"), keep_dims=True)
    x = g.op("SUB", [x, mean], ("c", (rows, 32), "float32"), fused_activation_function="NONE")
    w = g.constant("w", rng.standard_normal((16, 32)).astype(np.float32))
    bias = g.constant("b", rng.standard_normal(16).astype(np.float32))
    y = g.op(
        "FULLY_CONNECTED",
        [x, w, bias],
        ("f", (rows, 16), "float32"),
        fused_activation_function="RELU",
        weights_format="DEFAULT",
        keep_num_dims=False,
        asymmetric_quantize_inputs=False,
    )
    g.outputs(g.op("SQRT", [y], ("y", (rows, 16), "float32")))
    return b.build()


def results(delegates: list[Any], x: Array) -> list[Array]:
    interpreter = Interpreter(model_content=classifier(), delegates=delegates)
    return [interpreter.run({"x": x + i})["y"] for i in range(4)]


@pytest.mark.parametrize("tf32", [False, True])
def test_in_a_model(cupy: Any, tf32: bool) -> None:
    x = np.random.default_rng(2).standard_normal((8, 32)).astype(np.float32)
    delegate = CUDADelegate(cublas_from=0, tf32=tf32)
    for got, want in zip(results([delegate], x), results([], x), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * want.max())
    assert cupy.cuda.cublas.calls == [("sgemm", 3 if tf32 else 0)] * 4
    assert cupy.cuda.cublas.getMathMode(1) == 0  # as it was
    assert cupy.machine.graphs > 0 and delegate.device.unrecorded == []


def test_small_products_are_ours(cupy: Any) -> None:
    x = np.ones((8, 32), np.float32)
    results([CUDADelegate()], x)
    results([CUDADelegate(cublas=False, cublas_from=0)], x)
    assert cupy.cuda.cublas.calls == []


def test_without_cublas(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> int:
        raise ImportError("libcublas.so.13: cannot open shared object file")

    monkeypatch.setattr(cupy.cuda, "get_cublas_handle", fails)
    x = np.random.default_rng(2).standard_normal((8, 32)).astype(np.float32)
    for got, want in zip(results([CUDADelegate(cublas_from=0)], x), results([], x), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * want.max())
    assert cupy.cuda.cublas.calls == []
