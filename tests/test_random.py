"""Random ops through the interpreter: the sequences of ai-edge-litert, invoke after invoke."""

from __future__ import annotations

import numpy as np
import pytest

from litedelegate import Interpreter, ModelBuilder

SEEDS = {"seed": 7, "seed2": 5}


def drawing(op: str, count: int, seed: int = 7, seed2: int = 5) -> Interpreter:
    builder = ModelBuilder()
    graph = builder.subgraph("main")
    shape = graph.constant("shape", np.int32([count]))
    y = graph.op(op, [shape], out=("y", (count,), "float32"), seed=seed, seed2=seed2)
    graph.outputs(y)
    interpreter = Interpreter(model_content=builder.build())
    interpreter.allocate_tensors()
    return interpreter


def output(interpreter: Interpreter) -> np.ndarray:
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def test_uniform_goes_on_where_it_stopped() -> None:
    interpreter = drawing("RANDOM_UNIFORM", 5)
    first = [0.8669310808181763, 0.0021675825119018555, 0.9194519519805908, 0.4260975122451782]
    second = [0.4932115077972412, 0.8106255531311035, 0.5660725831985474, 0.21148228645324707]
    np.testing.assert_array_equal(output(interpreter)[:4], np.float32(first))
    np.testing.assert_array_equal(output(interpreter)[:4], np.float32(second))
    interpreter.allocate_tensors()


def test_normal() -> None:
    want = [0.007278046105057001, 0.5343581438064575, 0.18353332579135895, -0.3664293885231018]
    np.testing.assert_allclose(output(drawing("RANDOM_STANDARD_NORMAL", 5))[:4], want, atol=1e-6)


def test_normal_is_normal() -> None:
    drawn = output(drawing("RANDOM_STANDARD_NORMAL", 100_000))
    assert abs(drawn.mean()) < 0.02
    assert abs(drawn.std() - 1) < 0.02


def test_without_seeds_numbers_differ() -> None:
    draws = [output(drawing("RANDOM_UNIFORM", 8, 0, 0)) for _ in range(2)]
    assert not np.array_equal(*draws)
    assert all(((d >= 0) & (d < 1)).all() for d in draws)


def test_multinomial() -> None:
    builder = ModelBuilder()
    graph = builder.subgraph("main")
    logits = graph.input("logits", (1, 3))
    count = graph.constant("count", np.int32(8))
    graph.outputs(graph.op("MULTINOMIAL", [logits, count], out=("y", (1, 8), "int64"), **SEEDS))
    interpreter = Interpreter(model_content=builder.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.float32([[0.1, 0.5, 1.0]]))
    assert output(interpreter).tolist() == [[2, 1, 2, 1, 2, 2, 2, 2]]
    assert output(interpreter).tolist() == [[2, 2, 1, 1, 2, 2, 1, 1]]


def test_multinomial_skips_what_has_no_finite_weight() -> None:
    builder = ModelBuilder()
    graph = builder.subgraph("main")
    logits = graph.constant("logits", np.float32([[-np.inf, 0.0, -np.inf]]))
    count = graph.input("count", (), "int32")
    graph.outputs(graph.op("MULTINOMIAL", [logits, count], out=("y", (1, 1), "int32"), **SEEDS))
    interpreter = Interpreter(model_content=builder.build())
    interpreter.allocate_tensors()
    for size in (4, 9, 0):
        interpreter.set_tensor(count.index, np.int32(size))
        assert output(interpreter).tolist() == [[1] * size]


def test_shape_at_run_time() -> None:
    builder = ModelBuilder()
    graph = builder.subgraph("main")
    shape = graph.input("shape", (2,), "int32")
    graph.outputs(graph.op("RANDOM_UNIFORM", [shape], out=("y", (1, 1), "float32"), **SEEDS))
    interpreter = Interpreter(model_content=builder.build())
    interpreter.allocate_tensors()
    for size in ([2, 3], [0, 4], [5, 1]):
        interpreter.set_tensor(shape.index, np.int32(size))
        assert output(interpreter).shape == tuple(size)
    interpreter.set_tensor(shape.index, np.int32([2, -1]))
    with pytest.raises(RuntimeError, match="negative dimension"):
        interpreter.invoke()
