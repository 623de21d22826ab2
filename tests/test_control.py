"""Control flow, variables and hash tables, on small models through the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from litedelegate import Interpreter, ModelBuilder, Registration

pytestmark = pytest.mark.filterwarnings("ignore::litedelegate.PositionalInputWarning")

Body = Callable[[Any, Sequence[Any]], Sequence[Any]]


def run(model: bytes, *feeds: Any, **more: Any) -> list[np.ndarray]:
    return invoke(allocated(model, **more), *feeds)


def allocated(model: bytes, **more: Any) -> Interpreter:
    interpreter = Interpreter(model_content=model, **more)
    interpreter.allocate_tensors()
    return interpreter


def invoke(interpreter: Interpreter, *feeds: Any) -> list[np.ndarray]:
    for detail, value in zip(interpreter.get_input_details(), feeds, strict=True):
        interpreter.set_tensor(detail["index"], np.asarray(value, detail["dtype"]))
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def scalar(g: Any, value: int, name: str = "c") -> Any:
    return g.constant(name, np.array(value, np.int32))


def graph(b: ModelBuilder, name: str, inputs: Sequence[tuple[Any, str]], body: Body) -> int:
    """A subgraph of that body; its index."""
    g = b.subgraph(name)
    ins = [g.input(f"{name}_{i}", shape, dtype) for i, (shape, dtype) in enumerate(inputs)]
    g.outputs(*body(g, ins))
    return int(g.index)


def loop(
    state: Sequence[tuple[Any, str]],
    body: Body,
    outs: Sequence[tuple[Any, str]] | None = None,
    op: str = "WHILE",
) -> bytes:
    """A model that runs `body` while the first variable, an int32 scalar, is below the last."""
    b = ModelBuilder()
    main = b.subgraph("main")
    ins = [main.input(f"in{i}", shape, dtype) for i, (shape, dtype) in enumerate(state)]

    def below(g: Any, v: Sequence[Any]) -> Sequence[Any]:
        return [g.op("LESS", [v[0], v[-1]], ("go", (), "bool"))]

    cond = graph(b, "cond", state, below)
    done = graph(b, "body", state, body)
    main.outputs(
        *main.op(
            op,
            ins,
            [(f"out{i}", shape, dtype) for i, (shape, dtype) in enumerate(outs or state)],
            cond_subgraph_index=cond,
            body_subgraph_index=done,
        )
    )
    return b.build()


INT: tuple[Any, str] = ((), "int32")


def bump(g: Any, v: Any, name: str = "next") -> Any:
    return g.op("ADD", [v, scalar(g, 1)], (name, (), "int32"))


# -- WHILE


@pytest.mark.parametrize("op", ["WHILE", "STABLEHLO_WHILE"])
def test_a_loop_runs_as_often_as_its_condition_says(op: str) -> None:
    def body(g: Any, v: Sequence[Any]) -> Sequence[Any]:
        return [bump(g, v[0]), g.op("ADD", [v[1], v[1]], ("twice", (3,), "int32")), v[2]]

    interpreter = allocated(loop([INT, ((3,), "int32"), INT], body, op=op))
    for times in (3, 0, 5, 1):
        count, doubled, limit = invoke(interpreter, 0, [1, -2, 3], times)
        assert (count, limit) == (max(times, 0), times)
        np.testing.assert_array_equal(doubled, np.array([1, -2, 3]) * 2**times)


def test_a_loop_may_exchange_its_variables() -> None:
    def body(g: Any, v: Sequence[Any]) -> Sequence[Any]:
        return [bump(g, v[0]), v[2], v[1], v[3]]

    pair = ((2,), "float32")
    interpreter = allocated(loop([INT, pair, pair, INT], body))
    for times in (0, 1, 2, 3):
        _, x, y, _ = invoke(interpreter, 0, [1, 2], [3, 4], times)
        first, second = ([3, 4], [1, 2]) if times % 2 else ([1, 2], [3, 4])
        np.testing.assert_array_equal(x, first)
        np.testing.assert_array_equal(y, second)


def test_a_variable_may_grow() -> None:
    def body(g: Any, v: Sequence[Any]) -> Sequence[Any]:
        joined = g.op("CONCATENATION", [v[1], v[1]], ("joined", (4,), "float32"), axis=0)
        return [bump(g, v[0]), joined, v[2]]

    interpreter = allocated(loop([INT, ((2,), "float32"), INT], body))
    for times in (2, 0, 4, 1):
        _, grown, _ = invoke(interpreter, 0, [1, 2], times)
        np.testing.assert_array_equal(grown, np.tile([1, 2], 2**times))


def test_a_loop_takes_the_shape_that_its_input_is_resized_to() -> None:
    def body(g: Any, v: Sequence[Any]) -> Sequence[Any]:
        return [bump(g, v[0]), g.op("ADD", [v[1], v[1]], ("twice", (2,), "float32")), v[2]]

    interpreter = Interpreter(model_content=loop([INT, ((2,), "float32"), INT], body))
    for size in (2, 5, 1):
        index = interpreter.get_input_details()[1]["index"]
        interpreter.resize_tensor_input(index, [size])
        interpreter.allocate_tensors()
        _, doubled, _ = invoke(interpreter, 0, np.ones(size), 3)
        np.testing.assert_array_equal(doubled, np.full(size, 8))


def test_loops_in_loops_and_branches() -> None:
    """Row sums of a triangle: for i < n: for j < i: total += j if j is even else 10 * j."""
    b = ModelBuilder()
    main = b.subgraph("main")
    ins = [main.input(n, (), "int32") for n in ("i", "total", "n")]

    def times(k: int) -> Body:
        def body(g: Any, v: Sequence[Any]) -> Sequence[Any]:
            product = g.op("MUL", [v[0], scalar(g, k)], ("product", (), "int32"))
            return [g.op("ADD", [v[1], product], ("sum", (), "int32"))]

        return body

    even, odd = (graph(b, f"times{k}", [INT, INT], times(k)) for k in (1, 10))

    def below(g: Any, v: Sequence[Any]) -> Sequence[Any]:
        return [g.op("LESS", [v[0], v[2]], ("go", (), "bool"))]

    def inner(g: Any, v: Sequence[Any]) -> Sequence[Any]:
        rest = g.op("FLOOR_MOD", [v[0], scalar(g, 2, "two")], ("rest", (), "int32"))
        is_even = g.op("EQUAL", [rest, scalar(g, 0, "zero")], ("even", (), "bool"))
        (total,) = g.op(
            "IF",
            [is_even, v[0], v[1]],
            [("added", (), "int32")],
            then_subgraph_index=even,
            else_subgraph_index=odd,
        )
        return [bump(g, v[0]), total, v[2]]

    state = [INT, INT, INT]
    below_index, inner_index = graph(b, "below", state, below), graph(b, "inner", state, inner)

    def outer(g: Any, v: Sequence[Any]) -> Sequence[Any]:
        _, total, _ = g.op(
            "WHILE",
            [scalar(g, 0, "zero"), v[1], v[0]],
            [(f"r{k}", (), "int32") for k in range(3)],
            cond_subgraph_index=below_index,
            body_subgraph_index=inner_index,
        )
        return [bump(g, v[0]), total, v[2]]

    outer_cond = graph(b, "outer_cond", state, below)
    outer_index = graph(b, "outer", state, outer)
    main.outputs(
        *main.op(
            "WHILE",
            ins,
            [(f"out{k}", (), "int32") for k in range(3)],
            cond_subgraph_index=outer_cond,
            body_subgraph_index=outer_index,
        )
    )
    interpreter = allocated(b.build())
    for n in (6, 0, 9):
        want = sum(j * (10 if j % 2 else 1) for i in range(n) for j in range(i))
        assert invoke(interpreter, 0, 0, n)[1] == want


def test_a_body_is_prepared_once_where_its_shapes_stay() -> None:
    calls = {"prepare": 0, "invoke": 0}

    def prepare(context: Any, node: Any) -> None:
        calls["prepare"] += 1
        context.resize(node.outputs[0], node.inputs[0].shape)

    def twice(context: Any, node: Any) -> None:
        calls["invoke"] += 1
        np.add(node.inputs[0].array, node.inputs[0].array, out=node.outputs[0].array)

    def body(g: Any, v: Sequence[Any]) -> Sequence[Any]:
        return [bump(g, v[0]), g.custom("Twice", [v[1]], ("twice", (2,), "float32")), v[2]]

    model = loop([INT, ((2,), "float32"), INT], body)
    op = Registration(name="Twice", custom=True, prepare=prepare, invoke=twice)
    interpreter = allocated(model, custom_ops={"Twice": op})
    prepared = calls["prepare"]
    for _ in range(2):
        invoke(interpreter, 0, [1, 2], 10)
    assert calls == {"prepare": prepared, "invoke": 20}


def test_a_condition_must_be_one_bool() -> None:
    b = ModelBuilder()
    main = b.subgraph()
    x = main.input("x", (), "int32")
    cond = graph(b, "cond", [INT], lambda g, v: [bump(g, v[0])])
    body = graph(b, "body", [INT], lambda g, v: [bump(g, v[0])])
    main.outputs(
        *main.op(
            "WHILE",
            [x],
            [("out", (), "int32")],
            cond_subgraph_index=cond,
            body_subgraph_index=body,
        )
    )
    with pytest.raises(RuntimeError, match=r"gives int32\[\]; taken: one bool"):
        allocated(b.build())


# -- IF, STABLEHLO_CASE, CALL, STABLEHLO_COMPOSITE


def choice(op: str, selector: str, branches: Sequence[Body], out_shape: Any = (2,)) -> bytes:
    b = ModelBuilder()
    main = b.subgraph("main")
    chosen = main.input("chosen", (), selector)
    x = main.input("x", (2,))
    indices = [graph(b, f"branch{i}", [((2,), "float32")], body) for i, body in enumerate(branches)]
    options: dict[str, Any] = {"branch_subgraph_indices": indices}
    if op == "IF":
        options = {"then_subgraph_index": indices[0], "else_subgraph_index": indices[1]}
    main.outputs(*main.op(op, [chosen, x], [("out", out_shape, "float32")], **options))
    return b.build()


def scaled(k: float) -> Body:
    def body(g: Any, v: Sequence[Any]) -> Sequence[Any]:
        factor = g.constant("k", np.array(k, np.float32))
        return [g.op("MUL", [v[0], factor], ("y", (2,), "float32"))]

    return body


def joined(g: Any, v: Sequence[Any]) -> Sequence[Any]:
    return [g.op("CONCATENATION", [v[0], v[0]], ("y", (4,), "float32"), axis=0)]


def test_if_takes_one_branch() -> None:
    interpreter = allocated(choice("IF", "bool", [scaled(2), scaled(-1)]))
    for chosen in (True, False, True):
        (y,) = invoke(interpreter, chosen, [1, 2])
        np.testing.assert_array_equal(y, [2, 4] if chosen else [-1, -2])


def test_branches_may_give_other_shapes() -> None:
    interpreter = allocated(choice("IF", "bool", [joined, scaled(3)]))
    for chosen in (True, False, True):
        (y,) = invoke(interpreter, chosen, [1, 2])
        np.testing.assert_array_equal(y, [1, 2, 1, 2] if chosen else [3, 6])


def test_a_branch_may_give_its_input_back() -> None:
    interpreter = allocated(choice("IF", "bool", [lambda g, v: [v[0]], scaled(3)]))
    np.testing.assert_array_equal(invoke(interpreter, True, [1, 2])[0], [1, 2])
    np.testing.assert_array_equal(invoke(interpreter, False, [1, 2])[0], [3, 6])


def test_a_case_beyond_the_branches_is_the_last() -> None:
    interpreter = allocated(choice("STABLEHLO_CASE", "int32", [scaled(k) for k in (1, 2, 3)]))
    for chosen, k in ((0, 1), (1, 2), (2, 3), (3, 3), (-1, 3)):
        np.testing.assert_array_equal(invoke(interpreter, chosen, [1, 2])[0], [k, 2 * k])


@pytest.mark.parametrize("op", ["CALL", "STABLEHLO_COMPOSITE"])
def test_a_call_runs_its_subgraph(op: str) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", (2,))
    index = graph(b, "callee", [((2,), "float32")], scaled(5))
    options: dict[str, Any] = {"subgraph": index}
    if op == "STABLEHLO_COMPOSITE":
        options = {"name": "test.times5", "decomposition_subgraph_index": index}
    first = main.op(op, [x], [("y", (2,), "float32")], **options)
    second = main.op(op, [first[0]], [("z", (2,), "float32")], **options)
    main.outputs(*second)
    np.testing.assert_array_equal(run(b.build(), [1, 2])[0], [25, 50])


def test_a_branch_of_another_type_is_refused() -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    chosen, x = main.input("chosen", (), "bool"), main.input("x", (2,), "int32")
    index = graph(b, "branch", [((2,), "float32")], scaled(1))
    main.outputs(
        *main.op(
            "IF",
            [chosen, x],
            [("out", (2,), "int32")],
            then_subgraph_index=index,
            else_subgraph_index=index,
        )
    )
    with pytest.raises(RuntimeError, match="input 0 of the branch is float32; IF has int32"):
        allocated(b.build())


# -- variables, CALL_ONCE


def handle(g: Any, name: str, container: str = "") -> Any:
    return g.op(
        "VAR_HANDLE",
        [],
        (f"handle_{container}{name}", (), "resource"),
        container=container,
        shared_name=name,
    )


def counter(read_shape: Sequence[int] = (2,)) -> bytes:
    """total += x, from 100 on; the total is the output."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", (2,))
    once = b.subgraph("once")
    once.op(
        "ASSIGN_VARIABLE",
        [handle(once, "total"), once.constant("start", np.full(2, 100, np.float32))],
        [],
    )
    main.op("CALL_ONCE", [], [], init_subgraph_index=once.index)
    before = main.op("READ_VARIABLE", [handle(main, "total")], ("before", read_shape, "float32"))
    after = main.op("ADD", [before, x], ("after", (2,), "float32"))
    main.op("ASSIGN_VARIABLE", [handle(main, "total"), after], [])
    main.outputs(after)
    return b.build()


@pytest.mark.parametrize("read_shape", [(2,), ()], ids=["static", "unknown"])
def test_a_variable_outlives_an_invoke_and_is_initialised_once(read_shape: Sequence[int]) -> None:
    interpreter = allocated(counter(read_shape))
    for want in ([101, 102], [102, 104], [103, 106]):
        np.testing.assert_array_equal(invoke(interpreter, [1, 2])[0], want)
    interpreter.allocate_tensors()
    np.testing.assert_array_equal(invoke(interpreter, [1, 2])[0], [104, 108])
    # another interpreter has variables of its own
    np.testing.assert_array_equal(run(counter(read_shape), [1, 2])[0], [101, 102])


def test_a_variable_is_known_by_container_and_name() -> None:
    b = ModelBuilder()
    main = b.subgraph()
    x = main.input("x", (2,))
    twice = main.op("ADD", [x, x], ("twice", (2,), "float32"))
    main.op("ASSIGN_VARIABLE", [handle(main, "v", "a"), x], [])
    main.op("ASSIGN_VARIABLE", [handle(main, "v", "b"), twice], [])
    main.outputs(
        *(
            main.op("READ_VARIABLE", [handle(main, "v", c)], (f"read_{c}", (2,), "float32"))
            for c in ("b", "a")
        )
    )
    first, second = run(b.build(), [1, 2])
    np.testing.assert_array_equal(first, [2, 4])
    np.testing.assert_array_equal(second, [1, 2])


def test_reading_before_assigning_is_an_error() -> None:
    b = ModelBuilder()
    main = b.subgraph()
    main.outputs(main.op("READ_VARIABLE", [handle(main, "v")], ("y", (2,), "float32")))
    interpreter = allocated(b.build())
    with pytest.raises(RuntimeError, match="variable 'v' is read before a value was assigned"):
        interpreter.invoke()


def test_a_variable_of_another_shape_than_declared_is_an_error() -> None:
    b = ModelBuilder()
    main = b.subgraph()
    x = main.input("x", (3,))
    main.op("ASSIGN_VARIABLE", [handle(main, "v"), x], [])
    main.outputs(main.op("READ_VARIABLE", [handle(main, "v")], ("y", (2,), "float32")))
    interpreter = allocated(b.build())
    with pytest.raises(RuntimeError, match=r"holds the shape \[3\]; the model declares \[2\]"):
        invoke(interpreter, [1, 2, 3])


def test_a_variable_may_change_its_shape_where_the_model_leaves_it_open() -> None:
    b = ModelBuilder()
    main = b.subgraph()
    x = main.input("x", (1,))
    main.op("ASSIGN_VARIABLE", [handle(main, "v"), x], [])
    read = main.op("READ_VARIABLE", [handle(main, "v")], ("y", (), "float32"))
    main.outputs(main.op("ADD", [read, read], ("z", (1,), "float32")))
    interpreter = Interpreter(model_content=b.build())
    for size in (1, 4, 2):
        interpreter.resize_tensor_input(0, [size])
        interpreter.allocate_tensors()
        np.testing.assert_array_equal(invoke(interpreter, np.ones(size))[0], np.full(size, 2))


# -- hash tables


def table(fill: bool = True) -> bytes:
    b = ModelBuilder()
    main = b.subgraph("main")
    keys = main.input("keys", (4,), "int64")
    made: dict[str, Any] = {"table_id": 7, "key_dtype": "INT64", "value_dtype": "STRING"}
    if fill:
        once = b.subgraph("once")
        held = once.op("HASHTABLE", [], ("held", (1,), "resource"), **made)
        once.op(
            "HASHTABLE_IMPORT",
            [
                held,
                once.constant("k", np.array([3, -1, 3], np.int64)),
                once.constant("v", np.array([b"three", b"minus", b"again"], object)),
            ],
            [],
        )
        main.op("CALL_ONCE", [], [], init_subgraph_index=once.index)
    held = main.op("HASHTABLE", [], ("held", (1,), "resource"), **made)
    default = main.constant("default", np.array([b"?"], object))
    found = main.op("HASHTABLE_FIND", [held, keys, default], ("found", (4,), "string"))
    size = main.op("HASHTABLE_SIZE", [held], ("size", (1,), "int64"))
    main.outputs(found, size)
    return b.build()


def test_a_table_finds_its_keys() -> None:
    interpreter = allocated(table())
    for _ in range(2):
        found, size = invoke(interpreter, [3, 4, -1, 3])
        assert found.tolist() == [b"three", b"?", b"minus", b"three"]
        assert size.tolist() == [2]


def test_searching_an_empty_table_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="searched before it was filled"):
        run(table(fill=False), [3, 4, -1, 3])


# -- state


def test_a_stateful_lstm_goes_on_from_its_last_call_until_it_is_reset() -> None:
    rng = np.random.default_rng(0)
    b = ModelBuilder()
    main = b.subgraph()
    x = main.input("x", (1, 2, 3))
    weights = [
        main.constant(f"w{i}", rng.standard_normal((4, 3)).astype(np.float32)) for i in range(4)
    ]
    recurrent = [
        main.constant(f"r{i}", rng.standard_normal((4, 4)).astype(np.float32)) for i in range(4)
    ]
    bias = [main.constant(f"b{i}", np.zeros(4, np.float32)) for i in range(4)]
    states = [main.variable(n, (1, 4)) for n in ("output_state", "cell_state")]
    inputs = [x, *weights, *recurrent, None, None, None, *bias, None, None, *states]
    main.outputs(
        main.op(
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            inputs,
            ("y", (1, 2, 4), "float32"),
            fused_activation_function="TANH",
        )
    )
    interpreter = allocated(b.build())
    feed = rng.standard_normal((1, 2, 3))
    (first,) = invoke(interpreter, feed)
    (second,) = invoke(interpreter, feed)
    assert np.abs(first - second).max() > 0.01
    interpreter.reset_all_variables()
    np.testing.assert_array_equal(invoke(interpreter, feed)[0], first)
