"""The engine: planned memory, in-place, folding, dynamic shapes, resizing; always the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import toy_models
from hypothesis import given, settings
from hypothesis import strategies as st

from litedelegate import Interpreter, ModelBuilder, Registration
from litedelegate.runtime.tensor import ARENA, FOLDED

BINARY = ("ADD", "MUL", "SUB", "MAXIMUM", "MINIMUM")
UNARY = ("RELU", "NEG", "ABS")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[bytes, int]:
    """A graph of elementwise ops on [n, 3] tensors and constants, and its number of inputs."""
    b = ModelBuilder()
    g = b.subgraph()
    count = draw(st.integers(1, 3))
    tensors = [g.input(f"in{i}", (2, 3)) for i in range(count)]
    for i in range(draw(st.integers(0, 2))):
        tensors.append(g.constant(f"c{i}", np.full((1, 3), i + 0.5, np.float32)))
    made = []
    for i in range(draw(st.integers(1, 14))):
        op = draw(st.sampled_from(BINARY + UNARY))
        ends = [draw(st.sampled_from(tensors)) for _ in range(2 if op in BINARY else 1)]
        # constants alone give a tensor of their own shape
        rows = 1 if all(t.shape[0] == 1 for t in ends) else 2
        out = g.op(op, ends, (f"t{i}", (rows, 3), "float32"))
        tensors.append(out)
        made.append(out)
    outputs = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True))
    g.outputs(*outputs)
    return b.build(), count


def values(count: int, rows: int, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {f"in{i}": random.normal(size=(rows, 3)).astype(np.float32) for i in range(count)}


def by_definition(content: bytes, inputs: dict[str, Any]) -> dict[str, Any]:
    """The outputs, by plain numpy with a fresh array for each tensor."""
    do: dict[str, Any] = {
        "ADD": np.add,
        "MUL": np.multiply,
        "SUB": np.subtract,
        "MAXIMUM": np.maximum,
        "MINIMUM": np.minimum,
        "RELU": lambda x: np.maximum(x, 0),
        "NEG": np.negative,
        "ABS": np.abs,
    }
    interpreter = Interpreter(model_content=content)
    graph = interpreter._graph.model.subgraphs[0]
    held: dict[int, Any] = {}
    for i, t in enumerate(graph.tensors):
        constant = interpreter._graph.model.constant(t)
        if constant is not None:
            held[i] = constant
    for i, name in zip(graph.inputs, inputs, strict=True):
        held[i] = inputs[name]
    for op in graph.operators:
        held[op.outputs[0]] = do[op.op](*(held[i] for i in op.inputs))
    return {graph.tensors[i].name: held[i] for i in graph.outputs}


def same(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@given(graphs(), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_any_graph_gives_the_bits_of_the_definition(made: tuple[bytes, int], seed: int) -> None:
    """Twice in a row, resized and back, with all tensors preserved, and on a clone."""
    content, count = made
    interpreter = Interpreter(model_content=content)
    for rows in (2, 2, 5, 1, 2):
        inputs = values(count, rows, seed + rows)
        same(interpreter.run(inputs), by_definition(content, inputs))
    inputs = values(count, 2, seed)
    expected = interpreter.run(inputs)
    same(interpreter.clone().run(inputs), expected)
    everything = Interpreter(model_content=content, experimental_preserve_all_tensors=True)
    same(everything.run(inputs), expected)


@given(graphs())
@settings(max_examples=50, deadline=None)
def test_tensors_that_live_together_lie_apart(made: tuple[bytes, int]) -> None:
    content, _ = made
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    subgraph = interpreter._graph.subgraphs[0]
    plan = [n for n in subgraph.nodes if not n.folded]
    last: dict[int, int] = {}
    for step, node in enumerate(plan):
        last.update({t.index: step for t in node.inputs if t is not None})
    for index in (*subgraph.input_indices, *subgraph.output_indices):
        last[index] = len(plan)
    # after each step, no tensor that is still to be read shares memory with what the step wrote
    for step, node in enumerate(plan):
        (out,) = node.outputs
        if out.allocation != ARENA:
            continue
        written = {t.index for n in plan[:step] for t in n.outputs} | set(subgraph.input_indices)
        for index in written - {out.index}:
            if last.get(index, -1) > step and subgraph.tensors[index].allocation == ARENA:
                assert not np.shares_memory(subgraph.tensors[index].array, out.array)


def tensor(interpreter: Interpreter, name: str) -> Any:
    return next(t for t in interpreter._graph.subgraphs[0].tensors if t.name == name)


def test_a_chain_is_computed_in_place() -> None:
    interpreter = Interpreter(model_content=toy_models.chain(6))
    interpreter.run({"t0": np.zeros((1, 1000), np.float32)})
    first, second = tensor(interpreter, "t1").array, tensor(interpreter, "t2").array
    assert np.shares_memory(first, second)
    assert interpreter.memory.arena <= 2 * 4096


def test_what_a_node_reads_twice_is_not_written_over() -> None:
    """ADD_N adds one input after the other to its output."""
    b = ModelBuilder()
    g = b.subgraph()
    x = g.op("ABS", [g.input("x", (3,))], ("a", (3,), "float32"))
    g.outputs(g.op("ADD_N", [x, x, x], ("y", (3,), "float32")))
    interpreter = Interpreter(model_content=b.build())
    assert interpreter.run({"x": np.float32([-1, 2, 0])})["y"].tolist() == [3, 6, 0]


def test_inputs_are_not_written_over() -> None:
    interpreter = Interpreter(model_content=toy_models.chain(3))
    interpreter.allocate_tensors()
    x = np.arange(1000, dtype=np.float32).reshape(1, 1000)
    interpreter.set_tensor(0, x)
    for _ in range(2):
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(0), x)


def test_an_input_that_was_set_stays_set_when_another_is_resized() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    x, y = g.input("x", (2,)), g.input("y", (3,))
    g.outputs(
        g.op("RELU", [x], ("rx", (2,), "float32")), g.op("RELU", [y], ("ry", (3,), "float32"))
    )
    interpreter = Interpreter(model_content=b.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.array([4, 5], np.float32))
    interpreter.resize_tensor_input(1, [7])
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert interpreter.get_tensor(2).tolist() == [4, 5]


def test_constants_are_folded() -> None:
    calls: list[int] = []

    def bind(binding: Any) -> Any:
        def run() -> None:
            calls.append(binding.index)
            np.add(binding.x[0], binding.x[1], out=binding.y[0])

        return run

    from litedelegate import BuiltinOpResolver

    resolver = BuiltinOpResolver()
    op = Registration(infer=lambda node: [node.input(0).shape], bind=bind, pure=True)
    resolver.add_builtin("ADD", op)
    interpreter = Interpreter(model_content=toy_models.folded(), op_resolver=resolver)
    for _ in range(3):
        assert interpreter.run({"x": [0, 0, 0]})["y"].tolist() == [2, 4, 6]
    assert calls.count(0) == 1 and calls.count(1) == 3
    assert tensor(interpreter, "cc").allocation == FOLDED
    assert interpreter.get_tensor(tensor(interpreter, "cc").index).tolist() == [2, 4, 6]
    assert interpreter.memory.folded == 12


def test_what_is_not_pure_is_not_folded() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    c = g.constant("c", np.ones(2, np.float32))
    g.outputs(g.custom("Next", [c], ("y", (2,), "float32")))
    state = iter(range(10))
    interpreter = Interpreter(
        model_content=b.build(), custom_ops={"Next": lambda c: c * np.float32(next(state))}
    )
    assert [interpreter.run()["y"][0] for _ in range(3)] == [0, 1, 2]


def test_shapes_are_folded_until_a_resize() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (2, 3))
    g.outputs(g.op("SHAPE", [x], ("shape", (2,), "int32"), out_type="INT32"))
    interpreter = Interpreter(model_content=b.build())
    for shape in ((2, 3), (4, 3), (2, 3)):
        assert interpreter.run({"x": np.zeros(shape, np.float32)})["shape"].tolist() == list(shape)


@pytest.mark.parametrize("options", [{}, {"experimental_preserve_all_tensors": True}])
def test_growing_and_shrinking_dynamic_sizes(options: dict[str, Any]) -> None:
    interpreter = Interpreter(model_content=toy_models.dynamic(), **options)
    interpreter.allocate_tensors()
    out = interpreter.get_output_details()[0]["index"]
    for n in (3, 8, 2, 0, 8, 8):
        interpreter.set_tensor(0, np.int32(n))
        interpreter.invoke()
        assert interpreter.get_tensor(out).tolist() == list(range(1, n + 1))
        assert interpreter.get_output_details()[0]["shape"].tolist() == [n]


def test_a_custom_op_behind_a_dynamic_tensor() -> None:
    """Its prepare runs in invoke, again whenever the shape changes."""
    prepared: list[tuple[int, ...]] = []

    def prepare(context: Any, node: Any) -> None:
        prepared.append(node.inputs[0].shape)
        context.resize(node.outputs[0], node.inputs[0].shape)

    def invoke(context: Any, node: Any) -> None:
        np.multiply(node.inputs[0].array, 2, out=node.outputs[0].array)

    b = ModelBuilder()
    g = b.subgraph()
    n = g.input("n", (), "int32")
    zero, one = (g.constant(name, np.int32(v)) for name, v in (("zero", 0), ("one", 1)))
    r = g.op("RANGE", [zero, n, one], ("range", (0,), "int32"))
    g.outputs(g.custom("Twice", [r], ("y", (0,), "int32")))
    interpreter = Interpreter(
        model_content=b.build(),
        custom_ops={"Twice": Registration(prepare=prepare, invoke=invoke)},
    )
    for n_value in (3, 3, 1, 3):
        got = interpreter.run({"n": n_value})["y"]
        assert got.tolist() == [2 * i for i in range(n_value)]
    assert prepared == [(3,), (1,), (3,)]


def test_a_tensor_without_a_producer_is_an_error_that_names_it() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    x, lost = g.input("x", (2,)), g.tensor("lost", (2,))
    g.outputs(g.op("ADD", [x, lost], ("y", (2,), "float32")))
    try:
        content = b.build()
    except ValueError as e:  # the verifier sees it first
        assert "lost" in str(e) or "tensors[1]" in str(e)
        return
    interpreter = Interpreter(model_content=content)
    with pytest.raises(RuntimeError, match=r"Input tensor 1 lacks data.*'lost'"):
        interpreter.allocate_tensors()


def test_an_output_that_is_an_input_or_a_constant() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (2,))
    c = g.constant("c", np.array([7, 8], np.float32))
    g.outputs(x, c)
    out = Interpreter(model_content=b.build()).run({"x": [1, 2]})
    assert {k: v.tolist() for k, v in out.items()} == {"x": [1, 2], "c": [7, 8]}


def test_the_same_tensor_twice_as_input_and_as_output() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (2,))
    r = g.op("NEG", [x], ("r", (2,), "float32"))
    y = g.op("SUB", [r, r], ("y", (2,), "float32"))
    g.outputs(y, r)
    out = Interpreter(model_content=b.build()).run({"x": [1, 2]})
    assert {k: v.tolist() for k, v in out.items()} == {"y": [0, 0], "r": [-1, -2]}


def test_empty_tensors() -> None:
    interpreter = Interpreter(model_content=toy_models.flexible_batch())
    out = interpreter.run({"x": np.zeros((0, 2, 2), np.float32)})["flat"]
    assert out.shape == (0, 4)


@pytest.mark.parametrize("shape", [[1 << 30, 1 << 15, 1 << 15], [1 << 20, 1 << 15, 1 << 8]])
def test_a_size_that_no_memory_holds_is_refused(shape: list[int]) -> None:
    interpreter = Interpreter(model_content=toy_models.flexible_batch())
    interpreter.resize_tensor_input(0, shape)
    with pytest.raises(RuntimeError, match=r"need .* bytes of memory.*'x'"):
        interpreter.allocate_tensors()


def test_single_nodes() -> None:
    from litedelegate import Model
    from litedelegate.runtime.single import NodeRunner

    runner = NodeRunner(Model.from_buffer(toy_models.chain(3, (1, 4))))
    x = np.array([[1, 2, 3, 4]], np.float32)
    for node in (2, 0, 1):
        (y,) = runner.run(node, [x * node, None])
        np.testing.assert_array_equal(y, x * node + 1)
    (y,) = runner.run(0, [np.zeros((3, 4), np.float32), None])
    assert y.shape == (3, 4)
    with pytest.raises(ValueError, match="needs a value for 't0'"):
        runner.run(0, [None, None])
