"""Custom ops in Python: the full Registration and functions on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import toy_models

from litedelegate import (
    BuiltinOpResolver,
    Interpreter,
    ModelBuilder,
    MutableOpResolver,
    OpError,
    Registration,
    custom_op,
)

# The numbers of TensorFlow Lite's custom-op guide: y = atan(x + offset), offset 1.
X = np.array([-8, 0.5, 2, 2.2, 201], np.float32)
Y = np.array([-1.4288993, 0.98279375, 1.2490457, 1.2679114, 1.5658458], np.float32)


class Atan:
    """The full form; `log` is what was called, in order."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.registration = Registration(
            init=self.init, free=self.free, prepare=self.prepare, invoke=self.invoke
        )

    def init(self, context: Any, options: Any) -> float:
        self.log.append("init")
        return float(options.flexbuffer()["offset"])

    def free(self, context: Any, offset: float) -> None:
        self.log.append(f"free {offset}")

    def prepare(self, context: Any, node: Any) -> None:
        self.log.append(f"prepare {list(node.inputs[0].shape)}")
        context.resize(node.outputs[0], node.inputs[0].shape)

    def invoke(self, context: Any, node: Any) -> None:
        self.log.append("invoke")
        np.arctan(node.inputs[0].array + np.float32(node.user_data), out=node.outputs[0].array)


def atan_model(offset: float = 1.0, **more: Any) -> bytes:
    return toy_models.custom(("Atan", {"offset": offset}), **more)


def test_the_full_registration() -> None:
    atan = Atan()
    resolver = BuiltinOpResolver()
    resolver.add_custom("Atan", atan.registration)
    with Interpreter(model_content=atan_model(), op_resolver=resolver) as interpreter:
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], X)
        interpreter.invoke()
        got = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        np.testing.assert_allclose(got, Y, rtol=1e-6)
        interpreter.resize_tensor_input(0, [2])
        interpreter.allocate_tensors()
        interpreter.allocate_tensors()
        interpreter.invoke()
    assert atan.log == ["init", "prepare [5]", "invoke", "prepare [2]", "invoke", "free 1.0"]


def test_the_short_form() -> None:
    @custom_op("Atan", shape="same")
    def atan(x: Any, *, offset: float = 0.0) -> Any:
        return np.arctan(x + np.float32(offset))

    interpreter = Interpreter(model_content=atan_model(), custom_ops={"Atan": atan})
    np.testing.assert_allclose(interpreter.run({"x": X})["y0"], Y, rtol=1e-6)
    np.testing.assert_allclose(interpreter.run({"x": X[:2]})["y0"], Y[:2], rtol=1e-6)
    assert atan(0.0, offset=0.0) == 0  # still a function


def test_a_bare_function_and_a_bare_decorator() -> None:
    @custom_op
    def Atan(x: Any, offset: float) -> Any:
        return np.arctan(x + np.float32(offset))

    for op in (Atan, Atan.function, Atan.registration):
        interpreter = Interpreter(model_content=atan_model(), custom_ops={"Atan": op})
        np.testing.assert_allclose(interpreter.run({"x": X})["y0"], Y, rtol=1e-6)


def test_each_node_has_its_own_options() -> None:
    content = toy_models.custom(("Atan", {"offset": 1.0}), ("Atan", {"offset": -1.0}))
    interpreter = Interpreter(model_content=content, custom_ops={"Atan": Atan().registration})
    expected = np.arctan(np.arctan(X + 1) - 1)
    np.testing.assert_allclose(interpreter.run({"x": X})["y1"], expected, rtol=1e-5)


def test_ops_that_are_no_ops() -> None:
    with pytest.raises(TypeError, match="custom op 'Atan' is a Registration or a function"):
        Interpreter(model_content=atan_model(), custom_ops={"Atan": 3})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="shape"):
        custom_op("Atan", shape="other")(lambda x: x)


# -- shapes of functions


def run_function(function: Any, x: Any = X, shape: Any = None, **model: Any) -> Any:
    op = custom_op("F", shape=shape)(function)
    interpreter = Interpreter(
        model_content=toy_models.custom(("F", None), **model), custom_ops={"F": op}
    )
    return interpreter.run({"x": x})["y0"]


def test_the_declared_shape_is_trusted_while_nothing_is_resized() -> None:
    content = toy_models.custom(("F", None), ("F", None))
    interpreter = Interpreter(model_content=content, custom_ops={"F": lambda x: x + 1})
    interpreter.allocate_tensors()
    assert interpreter.get_output_details()[0].shape_is == "known"
    for n in (5, 2, 9, 5):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(interpreter.run({"x": x})["y1"], x + 2)
    assert interpreter.get_output_details()[0].shape_is == "known"


def test_a_result_of_another_shape_than_declared() -> None:
    with pytest.raises(
        RuntimeError, match=r"shape \[2\] for output 0 'y0'.*declares \[5\].*shape="
    ):
        run_function(lambda x: x[:2])


def test_a_shape_that_nobody_declared_is_found_at_invoke() -> None:
    assert run_function(lambda x: x[x > 1], declared=()).tolist() == X[X > 1].tolist()
    assert run_function(lambda x: x.sum(), declared=()) == X.sum()


def test_a_shape_function() -> None:
    got = run_function(lambda x: np.stack([x, x]), shape=lambda s: (2, *s), declared=(2, 5))
    np.testing.assert_array_equal(got, [X, X])
    with pytest.raises(RuntimeError, match="gave 2 shapes for 1 outputs"):
        run_function(lambda x: x, shape=lambda s: [s, s])


@pytest.mark.parametrize(
    "shape", [5, "no shape", (2.5, 3), (-1, 3), [[1], [2.5]], None, (1 << 31,)]
)
def test_what_is_no_shape(shape: Any) -> None:
    """From a shape function, and from prepare: an error that names node and tensor."""

    def prepare(context: Any, node: Any) -> None:
        context.resize(node.outputs[0], shape)

    rule = custom_op("F", shape=lambda s: shape)(lambda x: x)
    for op in (rule, Registration(prepare=prepare, invoke=prepare)):
        interpreter = Interpreter(
            model_content=toy_models.custom(("F", None)), custom_ops={"F": op}
        )
        with pytest.raises(RuntimeError, match=r"is no shape|gave .* for 1 outputs") as e:
            interpreter.allocate_tensors()
        assert str(e.value).endswith("Node number 0 (F) failed to prepare.")
        assert isinstance(e.value.__cause__, OpError)


def test_an_op_may_size_its_outputs_and_temporaries_alone() -> None:
    def prepare(context: Any, node: Any) -> None:
        context.resize(node.inputs[0], (5, 3))

    content = toy_models.custom(("Id", None), ("Bad", None))
    for bad in (0, 1):
        names = ["Id", "Bad"] if bad else ["Bad", "Id"]
        content = toy_models.custom((names[0], None), (names[1], None))
        ops = {"Id": lambda x: x, "Bad": Registration(prepare=prepare, invoke=prepare)}
        interpreter = Interpreter(model_content=content, custom_ops=ops)
        with pytest.raises(RuntimeError, match="neither an output nor a temporary") as e:
            interpreter.allocate_tensors()
        assert str(e.value).endswith(f"Node number {bad} (Bad) failed to prepare.")


def test_several_inputs_and_outputs() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (4,))
    outs = [("low", (2,), "float32"), ("high", (2,), "float32")]
    g.outputs(*g.custom("Halves", [x, None], outs))
    interpreter = Interpreter(
        model_content=b.build(),
        custom_ops={"Halves": lambda x, nothing: (x[:2], x[2:]) if nothing is None else None},
    )
    out = interpreter.run({"x": [1, 2, 3, 4]})
    assert {k: v.tolist() for k, v in out.items()} == {"low": [1, 2], "high": [3, 4]}


def test_wrong_results() -> None:
    with pytest.raises(RuntimeError, match="returned 2 arrays; the node has 1 outputs"):
        run_function(lambda x: (x, x))
    with pytest.raises(
        RuntimeError, match="returned complex128 for output 0 'y0', which is float32"
    ):
        run_function(lambda x: x + 1j * 1.0 * np.ones(5))
    assert run_function(lambda x: x.astype(np.float64)).dtype == np.float32
    assert run_function(lambda x: x.astype(np.int32)).dtype == np.float32
    np.testing.assert_array_equal(run_function(lambda x: x.tolist()), X)
    np.testing.assert_array_equal(run_function(lambda x: [x]), X)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int4"])
def test_integers_are_cast_where_they_fit(dtype: str) -> None:
    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (2,), "int64")
    g.outputs(g.custom("F", [x], ("y", (2,), dtype)))
    interpreter = Interpreter(model_content=b.build(), custom_ops={"F": lambda x: x})
    low, high = {
        "int8": (-128, 127),
        "uint8": (0, 255),
        "int16": (-(2**15), 2**15 - 1),
        "int32": (-(2**31), 2**31 - 1),
        "int4": (-8, 7),
    }[dtype]
    # numpy casts no signed integers to unsigned ones
    if dtype != "uint8":
        fits = np.array([low, high], np.int64)
        assert interpreter.run({"x": fits})["y"].tolist() == fits.tolist()
        with pytest.raises(RuntimeError, match=f"int64 from 0 to {high + 1} .*holds {low} to"):
            interpreter.run({"x": np.array([0, high + 1], np.int64)})
    else:
        with pytest.raises(RuntimeError, match="returned int64 for output 0"):
            interpreter.run({"x": np.array([0, 1], np.int64)})


def test_inputs_are_read_only() -> None:
    def scribble(x: Any) -> Any:
        x += 1
        return x

    with pytest.raises(RuntimeError, match="read-only"):
        run_function(scribble)


# -- options of functions


def with_options(function: Any, options: Any) -> Any:
    content = toy_models.custom(("F", options), shape=(2,))
    interpreter = Interpreter(model_content=content, custom_ops={"F": function})
    return interpreter.run({"x": [1, 2]})["y0"].tolist()


def test_options_by_name() -> None:
    assert with_options(lambda x, *, by: x * np.float32(by), {"by": 3}) == [3, 6]
    both = {"by": 3, "other": 1}
    assert with_options(lambda x, *, by, **others: x * np.float32(by), both) == [3, 6]
    assert with_options(lambda x, **all: x * np.float32(len(all)), {"by": 3, "other": 1}) == [2, 4]
    assert with_options(lambda x, options: x * np.float32(len(options)), b"abcd") == [4, 8]
    with pytest.raises(RuntimeError, match="needs the options 'by'; the model gives 'other'"):
        with_options(lambda x, *, by: x, {"other": 1})
    with pytest.raises(RuntimeError, match="no FlexBuffer map"):
        with_options(lambda x, *, by: x, [1, 2])
    with pytest.raises(RuntimeError, match="takes 0 arrays; the node has 1 inputs"):
        with_options(lambda: 1, None)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"alpha": 5.0}, r"'alpha' \(5\.0\)"),
        ({"by": 1, "x": 3}, "'x'"),
        (b"raw!", "4 bytes"),
        (["Erf", b"..."], r"\d+ bytes"),
    ],
)
def test_options_that_would_be_ignored(options: Any, named: str) -> None:
    functions = [np.negative, custom_op("F")(lambda x: x)]
    if options == {"by": 1, "x": 3}:
        functions = [lambda x, by: x]
    for function in functions:
        with pytest.raises(RuntimeError, match=f"does not take the options.*{named}") as e:
            with_options(function, options)
        assert str(e.value).endswith("Node number 0 (F) failed to prepare.")
    assert with_options(lambda x, options: x, options) == [1, 2]


@pytest.mark.parametrize("nothing", [None, b"", {}])
def test_no_options_are_taken_by_any_function(nothing: Any) -> None:
    assert with_options(np.negative, nothing) == [-1, -2]


def test_an_option_with_the_name_of_an_input() -> None:
    with pytest.raises(RuntimeError, match="option 'x' of F has the name of a parameter"):
        with_options(lambda x, **others: x, {"x": 3})
    assert with_options(lambda x, /, **others: x * others["x"], {"x": 3}) == [3, 6]


def test_a_parameter_that_is_neither_input_nor_option() -> None:
    with pytest.raises(RuntimeError, match=r"needs the options 'y'.*too many inputs.* has 1"):
        with_options(lambda x, y: x, None)


# -- temporaries


def temporaries(kind: str) -> tuple[Interpreter, list[Any]]:
    """An op that adds its input to a temporary, and gives the temporary."""
    seen: list[Any] = []

    def prepare(context: Any, node: Any) -> None:
        context.resize(node.outputs[0], node.inputs[0].shape)
        assert context.temporary(node, node.inputs[0].shape, kind=kind) == 0
        assert context.temporary(node, (3,), kind="arena") == 1

    def invoke(context: Any, node: Any) -> None:
        held, other = node.temporaries
        if kind == "dynamic":
            context.resize(held, node.inputs[0].shape)
            held.array[...] = 0
        other.array[...] = 9
        held.array[...] += node.inputs[0].array
        seen.append(held.array)
        node.outputs[0].array[...] = held.array

    op = Registration(prepare=prepare, invoke=invoke)
    content = toy_models.custom(("Hold", None), shape=(2,))
    return Interpreter(model_content=content, custom_ops={"Hold": op}), seen


def test_persistent_temporaries_keep_their_value() -> None:
    interpreter, _ = temporaries("persistent")
    assert [interpreter.run({"x": [1, 2]})["y0"].tolist() for _ in range(3)] == [
        [1, 2],
        [2, 4],
        [3, 6],
    ]
    assert interpreter.clone().run({"x": [1, 2]})["y0"].tolist() == [1, 2]
    assert interpreter.run({"x": [1, 1, 1]})["y0"].tolist() == [1, 1, 1]  # of a new shape: new


def test_dynamic_temporaries_are_sized_in_invoke() -> None:
    interpreter, seen = temporaries("dynamic")
    assert interpreter.run({"x": [1, 2]})["y0"].tolist() == [1, 2]
    assert interpreter.run({"x": [1, 2]})["y0"].tolist() == [1, 2]
    assert seen[0].shape == (2,)


def test_arena_temporaries_lie_in_the_arena() -> None:
    interpreter, seen = temporaries("arena")
    interpreter.run({"x": [1, 2]})
    arena = interpreter._graph.subgraphs[0]._arena
    assert arena is not None and np.shares_memory(arena, seen[0])


def test_an_unknown_kind_of_temporary() -> None:
    interpreter, _ = temporaries("heap")
    with pytest.raises(RuntimeError, match="temporary kind 'heap'"):
        interpreter.allocate_tensors()


# -- the context


def test_an_output_without_a_declared_dynamic_shape_cannot_change_in_invoke() -> None:
    def invoke(context: Any, node: Any) -> None:
        context.resize(node.outputs[0], (1,))

    op = Registration(prepare=Atan().prepare, invoke=invoke)
    interpreter = Interpreter(model_content=atan_model(), custom_ops={"Atan": op})
    with pytest.raises(RuntimeError, match="call set_dynamic in prepare"):
        interpreter.run({"x": X})


def test_dynamic_outputs() -> None:
    def prepare(context: Any, node: Any) -> None:
        context.set_dynamic(node.outputs[0])

    def invoke(context: Any, node: Any) -> None:
        x = node.inputs[0].array
        context.resize(node.outputs[0], (int(x[0]),))
        node.outputs[0].array[...] = x[1]

    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (2,))
    y = g.custom("Fill", [x], ("y", (), "float32"))
    g.outputs(g.op("RELU", [y], ("z", (), "float32")))
    interpreter = Interpreter(
        model_content=b.build(), custom_ops={"Fill": Registration(prepare=prepare, invoke=invoke)}
    )
    for n in (3, 0, 5, 1):
        assert interpreter.run({"x": [n, 7]})["z"].tolist() == [7] * n


def test_errors_of_an_op_are_given_with_the_node() -> None:
    def prepare(context: Any, node: Any) -> None:
        raise OpError("takes no floats")

    op = Registration(prepare=prepare, invoke=prepare)
    interpreter = Interpreter(model_content=atan_model(), custom_ops={"Atan": op})
    with pytest.raises(RuntimeError) as e:
        interpreter.allocate_tensors()
    assert str(e.value) == "takes no floats\nNode number 0 (Atan) failed to prepare."


def test_an_op_of_neither_kind() -> None:
    interpreter = Interpreter(
        model_content=atan_model(), custom_ops={"Atan": Registration(prepare=Atan().prepare)}
    )
    with pytest.raises(RuntimeError, match="neither invoke nor bind"):
        interpreter.allocate_tensors()


def test_a_pure_custom_op_from_infer_and_bind() -> None:
    """The pieces that builtins are made of serve custom ops as well."""

    def bind(b: Any) -> Any:
        offset = np.float32(b.options.flexbuffer()["offset"])
        return lambda: np.arctan(b.x[0] + offset, out=b.y[0])

    op = Registration(infer=lambda node: [node.input(0).shape], bind=bind, pure=True)
    resolver = MutableOpResolver()
    resolver.add_custom("Atan", op)
    interpreter = Interpreter(model_content=atan_model(), op_resolver=resolver)
    np.testing.assert_allclose(interpreter.run({"x": X})["y0"], Y, rtol=1e-6)


def test_the_async_kernel_is_carried() -> None:
    async_kernel = object()
    resolver = MutableOpResolver()
    resolver.add_custom("Atan", Registration(async_kernel=async_kernel))  # type: ignore[arg-type]
    found = resolver.find_op("Atan", 1)
    assert found is not None and found.async_kernel is async_kernel


def test_an_op_may_read_its_interpreter() -> None:
    """Low-level calls from within an invoke are of the same thread."""
    box: list[Interpreter] = []

    def peek(x: Any) -> Any:
        return x + box[0].get_tensor(0)

    box.append(Interpreter(model_content=toy_models.custom(("F", None)), custom_ops={"F": peek}))
    np.testing.assert_array_equal(box[0].run({"x": X})["y0"], 2 * X)


@pytest.mark.parametrize(
    "call",
    [
        lambda i: i.run({"x": np.zeros(5, np.float32) + 100}),
        lambda i: i.set_tensor(0, np.zeros(5, np.float32) + 100),
        lambda i: i.invoke(),
        lambda i: i.resize_tensor_input(0, [3]),
        lambda i: i.allocate_tensors(),
        lambda i: i.reset_all_variables(),
        lambda i: i.close(),
    ],
)
def test_an_op_may_not_change_what_it_runs_in(call: Any) -> None:
    """Such a call is refused and the outer one goes on as if it had not been made."""
    box: list[Interpreter] = []
    refusals: list[str] = []

    def greedy(x: Any) -> Any:
        with pytest.raises(RuntimeError, match="clone") as e:
            call(box[0])
        refusals.append(str(e.value))
        return x + 1

    content = toy_models.custom(("Twice", None), ("Greedy", None), ("Twice", None))
    ops = {"Twice": lambda x: x * 2, "Greedy": greedy}
    box.append(Interpreter(model_content=content, custom_ops=ops))
    for _ in range(2):
        np.testing.assert_array_equal(box[0].run({"x": X})["y2"], (2 * X + 1) * 2)
    assert all("called from within run() of the same interpreter" in text for text in refusals)


def test_an_op_that_runs_its_interpreter_is_named_and_one_that_runs_a_clone_is_right() -> None:
    box: list[Interpreter] = []
    content = toy_models.custom(("Deep", None))
    ops = {"Deep": lambda x: box[0].run({"x": x})["y0"]}
    box.append(Interpreter(model_content=content, custom_ops=ops))
    with pytest.raises(RuntimeError) as e:
        box[0].run({"x": X})
    text = str(e.value)
    assert text.startswith("run() is called from within run()")
    assert text.endswith("Node number 0 (Deep) failed to invoke.")

    inner: list[Interpreter] = []

    def once(x: Any) -> Any:
        other = inner.pop() if inner else None
        return x + 1 if other is None else other.run({"x": x})["y0"] * 2

    outer = Interpreter(model_content=content, custom_ops={"Deep": once})
    inner.append(outer.clone())
    np.testing.assert_array_equal(outer.run({"x": X})["y0"], (X + 1) * 2)
