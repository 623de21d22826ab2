"""What goes beyond tf.lite.Interpreter: run by name, keep, quantisation, clones, life, memory,
profile.
"""

from __future__ import annotations

import copy
import gc
import json
import warnings
from typing import Any

import numpy as np
import pytest
import toy_models

from litedelegate import Interpreter, PositionalInputWarning, Registration, custom_op

ONES = np.ones((1, 4), np.float32)


def test_by_signature_names() -> None:
    interpreter = Interpreter(model_content=toy_models.add())
    out = interpreter.run({"a": ONES, "b": 2 * ONES})
    assert list(out) == ["sum"]
    np.testing.assert_array_equal(out["sum"], 3 * ONES)


def test_by_tensor_names() -> None:
    interpreter = Interpreter(model_content=toy_models.add())
    out = interpreter.run({"x:0": ONES, "y:0": ONES})
    assert list(out) == ["sum:0"]
    unnamed = Interpreter(model_content=toy_models.add(signature=False))
    assert list(unnamed.run({"x:0": ONES, "y:0": ONES})) == ["sum:0"]


def test_signature_key() -> None:
    interpreter = Interpreter(model_content=toy_models.two_signatures())
    x = np.array([2, 3], np.float32)
    assert interpreter.run({"x": x}, signature_key="double")["y"].tolist() == [4, 6]
    assert interpreter.run({"x": x}, signature_key="square")["y"].tolist() == [4, 9]
    assert interpreter.run({"double_x": x})["double_y"].tolist() == [4, 6]
    with pytest.raises(
        ValueError, match=r"Invalid signature_key provided: .none.*'double', 'square'"
    ):
        interpreter.run({"x": x}, signature_key="none")
    with pytest.raises(ValueError, match="signature_key="):
        interpreter.run({"x": x})


@pytest.mark.parametrize(
    ("inputs", "texts"),
    [
        ({"a": ONES}, ["no value for 'b'", "'b', 'a'"]),
        ({"a": ONES, "b": ONES, "c": ONES}, ["unknown input 'c'", "'b', 'a'"]),
        ({"x:0": ONES, "y:1": ONES}, ["unknown input", "y:1"]),
        ({}, ["no value for 'b', 'a'"]),
        (None, ["no value for 'b', 'a'"]),
    ],
)
def test_names_that_do_not_fit(inputs: dict[str, Any] | None, texts: list[str]) -> None:
    interpreter = Interpreter(model_content=toy_models.add())
    with pytest.raises(ValueError) as e:
        interpreter.run(inputs)
    for text in texts:
        assert text in str(e.value)


def test_a_misspelt_name_is_recognised() -> None:
    interpreter = Interpreter(model_content=toy_models.quantised())
    with pytest.raises(ValueError, match=r"unknown input 'imgae' .is it 'image'"):
        interpreter.run({"imgae": np.zeros((1, 4), np.uint8)})


def test_positions_are_refused() -> None:
    with pytest.raises(TypeError, match=r"by name.*'b', 'a'"):
        Interpreter(model_content=toy_models.add()).run([ONES, ONES])


def test_run_resizes() -> None:
    interpreter = Interpreter(model_content=toy_models.flexible_batch())
    for n in (1, 5, 2, 5):
        x = np.arange(4 * n, dtype=np.float32).reshape(n, 2, 2)
        np.testing.assert_array_equal(interpreter.run({"x": x})["flat"], x.reshape(n, 4))


def test_results_are_fresh() -> None:
    interpreter = Interpreter(model_content=toy_models.add())
    first = interpreter.run({"a": ONES, "b": ONES})["sum"]
    interpreter.run({"a": 5 * ONES, "b": ONES})
    np.testing.assert_array_equal(first, 2 * ONES)


def test_a_failed_run_leaves_the_interpreter_usable() -> None:
    interpreter = Interpreter(model_content=toy_models.pinned_batch())
    x = np.ones((1, 2, 2), np.float32)
    interpreter.run({"x": x})
    with pytest.raises(RuntimeError):
        interpreter.run({"x": np.ones((3, 2, 2), np.float32)})
    with pytest.raises(ValueError, match="UINT8"):
        interpreter.run({"x": x.astype(np.uint8)})
    np.testing.assert_array_equal(interpreter.run({"x": x})["flat"], np.ones((1, 4)))


def test_numbers_and_lists_take_the_type_of_the_tensor() -> None:
    interpreter = Interpreter(model_content=toy_models.dynamic())
    assert interpreter.run({"n": 3})["numbers"].tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="FLOAT64 but expected type INT32"):
        interpreter.run({"n": 2.5})


def test_reset_variables_per_call() -> None:
    interpreter = Interpreter(model_content=toy_models.counter(), custom_ops={"Count": count})
    x = np.ones(2, np.float32)
    assert [interpreter.run({"x": x})["total"][0] for _ in range(3)] == [1, 2, 3]
    assert interpreter.run({"x": x}, reset_variables=True)["total"].tolist() == [1, 1]


def stateful() -> bytes:
    """A named variable: set to [10, 10] once, then added to in each call."""
    from litedelegate import ModelBuilder

    b = ModelBuilder()
    main, init = b.subgraph("main"), b.subgraph("init")
    handle = ("handle", (), "resource")
    ten = init.constant("ten", np.full(2, 10, np.float32))
    named = init.op("VAR_HANDLE", [], handle, shared_name="total")
    init.op("ASSIGN_VARIABLE", [named, ten], [])
    init.outputs()
    x = main.input("x", (2,))
    main.op("CALL_ONCE", [], [], init_subgraph_index=1)
    named = main.op("VAR_HANDLE", [], handle, shared_name="total")
    before = main.op("READ_VARIABLE", [named], ("before", (2,), "float32"))
    after = main.op("ADD", [before, x], ("after", (2,), "float32"))
    main.op("ASSIGN_VARIABLE", [named, after], [])
    main.outputs(after)
    return b.build()


def test_named_variables_are_visible_and_reset_per_call() -> None:
    interpreter = Interpreter(model_content=stateful())
    assert interpreter.variables == {}
    x = np.ones(2, np.float32)
    assert [interpreter.run({"x": x})["after"][0] for _ in range(3)] == [11, 12, 13]
    assert interpreter.variables["total"].tolist() == [13, 13]
    interpreter.reset_all_variables()  # as in TensorFlow Lite: variable tensors alone
    assert interpreter.run({"x": x})["after"][0] == 14
    assert interpreter.run({"x": x}, reset_variables=True)["after"][0] == 11


@custom_op("Count")
def count(x: Any, state: Any) -> Any:
    state += x
    return state


# -- intermediates


def test_an_intermediate_that_is_not_kept_raises() -> None:
    interpreter = Interpreter(model_content=toy_models.chain())
    interpreter.run({"t0": np.zeros((1, 1000), np.float32)})
    index = interpreter.get_tensor_details()[2]["index"]
    for read in (lambda: interpreter.get_tensor(index), interpreter.tensor(index)):
        with pytest.raises(ValueError, match=r"keep=\['t1'\].*experimental_preserve_all_tensors"):
            read()


@pytest.mark.parametrize("keep", [["t2"], [3]])
def test_keep(keep: list[str | int]) -> None:
    interpreter = Interpreter(model_content=toy_models.chain(), keep=keep)
    interpreter.run({"t0": np.zeros((1, 1000), np.float32)})
    by_name = {t["name"]: t["index"] for t in interpreter.get_tensor_details()}
    assert by_name["t2"] == 3
    np.testing.assert_array_equal(interpreter.get_tensor(3), np.full((1, 1000), 2))
    with pytest.raises(ValueError, match="intermediate"):
        interpreter.get_tensor(by_name["t1"])


def test_keep_checks_names() -> None:
    with pytest.raises(ValueError, match=r"no tensor named 'oen'.*Did you mean 'one'"):
        Interpreter(model_content=toy_models.chain(), keep=["oen"])
    with pytest.raises(ValueError, match="keep: 77 is no tensor"):
        Interpreter(model_content=toy_models.chain(), keep=[77])


def test_preserve_all() -> None:
    interpreter = Interpreter(
        model_content=toy_models.chain(), experimental_preserve_all_tensors=True
    )
    interpreter.run({"t0": np.zeros((1, 1000), np.float32)})
    by_name = {t["name"]: t["index"] for t in interpreter.get_tensor_details()}
    for i in range(5):
        np.testing.assert_array_equal(
            interpreter.get_tensor(by_name[f"t{i}"]), np.full((1, 1000), i)
        )


# -- quantisation


def test_dtype_error_prints_the_formula() -> None:
    interpreter = Interpreter(model_content=toy_models.quantised())
    with pytest.raises(ValueError) as e:
        interpreter.run({"image": np.zeros((1, 4), np.float32)})
    for text in (
        *("FLOAT32", "UINT8", "scale 0.0078125", "zero point 128", "0, 255"),
        *("round(real / 0.0078125) + 128", "quantize_inputs=True"),
    ):
        assert text in str(e.value)


def test_quantised_and_dequantised() -> None:
    interpreter = Interpreter(
        model_content=toy_models.quantised(), quantize_inputs=True, dequantize_outputs=True
    )
    out = interpreter.run({"image": np.array([[-9, 0, 0.5, 9]], np.float32)})["out"]
    assert out.dtype == np.float32
    assert out.tolist() == [-1, 0, 0.5, 127 / 128]
    stored = np.array([[0, 1, 2, 255]], np.uint8)
    interpreter.set_tensor(0, stored)  # stored values are still taken
    np.testing.assert_array_equal(interpreter.get_tensor(0), stored)
    interpreter.invoke()
    assert interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[3] == 127 / 128


def test_halves_are_rounded_away_from_zero() -> None:
    content = toy_models.quantised("int8", scale=1.0, zero_point=0)
    interpreter = Interpreter(model_content=content, quantize_inputs=True)
    x = np.array([[0.5, 1.5, -0.5, -2.5]], np.float32)
    assert interpreter.run({"image": x})["out"].tolist() == [1, 2, -1, -3]


# -- order of inputs


def test_inputs_that_look_alike_warn_once() -> None:
    interpreter = Interpreter(model_content=toy_models.add())
    interpreter.allocate_tensors()
    with pytest.warns(PositionalInputWarning, match="'x:0' and 'y:0'"):
        interpreter.set_tensor(0, ONES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        interpreter.set_tensor(1, ONES)
        interpreter.run({"a": ONES, "b": ONES})
        single = Interpreter(model_content=toy_models.flexible_batch())
        single.allocate_tensors()
        single.set_tensor(0, np.ones((1, 2, 2), np.float32))


# -- life


class Counted:
    """Counts calls of init and free."""

    def __init__(self) -> None:
        self.made: list[object] = []
        self.freed: list[object] = []

    @property
    def registration(self) -> Registration:
        def init(context: Any, options: Any) -> object:
            self.made.append(object())
            return self.made[-1]

        def invoke(context: Any, node: Any) -> None:
            node.outputs[0].array[...] = node.inputs[0].array

        def prepare(context: Any, node: Any) -> None:
            context.resize(node.outputs[0], node.inputs[0].shape)

        return Registration(
            init=init,
            free=lambda context, data: self.freed.append(data),
            prepare=prepare,
            invoke=invoke,
        )


def test_free_is_called_once_for_each_init() -> None:
    counted = Counted()
    content = toy_models.custom(("Copy", None), ("Copy", None), shape=(2,))
    with Interpreter(model_content=content, custom_ops={"Copy": counted.registration}) as one:
        one.run({"x": [1, 2]})
        one.run({"x": [1, 2]})
        assert (len(counted.made), len(counted.freed)) == (2, 0)
        one.resize_tensor_input(0, [7])
        one.allocate_tensors()
        assert len(counted.made) == 2
    assert counted.freed == counted.made
    one.close()
    assert len(counted.freed) == 2


def test_free_is_called_when_an_interpreter_is_dropped() -> None:
    counted = Counted()
    content = toy_models.custom(("Copy", None), shape=(2,))
    interpreter = Interpreter(model_content=content, custom_ops={"Copy": counted.registration})
    del interpreter
    gc.collect()
    assert counted.freed == counted.made and len(counted.made) == 1


def test_free_goes_on_after_an_error() -> None:
    counted = Counted()
    wild = Registration(init=lambda c, o: 1, free=lambda c, d: 1 / 0, **_copying(counted))
    content = toy_models.custom(("Wild", None), ("Copy", None), shape=(2,))
    interpreter = Interpreter(
        model_content=content, custom_ops={"Wild": wild, "Copy": counted.registration}
    )
    with (
        pytest.raises(
            RuntimeError, match=r"ZeroDivisionError: .*\nNode number 0 \(Wild\) failed to"
        ),
        interpreter,
    ):
        pass
    assert counted.freed == counted.made


def _copying(counted: Counted) -> dict[str, Any]:
    return {"prepare": counted.registration.prepare, "invoke": counted.registration.invoke}


def test_an_init_that_fails_frees_the_others() -> None:
    counted = Counted()

    def fail(context: Any, options: Any) -> None:
        raise ValueError("no luck")

    wild = Registration(init=fail, **_copying(counted))
    content = toy_models.custom(("Copy", None), ("Wild", None), shape=(2,))
    with pytest.raises(ValueError, match=r"no luck.*\nNode number 1 .Wild. failed to initialise"):
        Interpreter(model_content=content, custom_ops={"Wild": wild, "Copy": counted.registration})
    assert counted.freed == counted.made and len(counted.made) == 1


def test_close_gives_memory_back() -> None:
    interpreter = Interpreter(model_content=toy_models.chain(shape=(1, 100_000)))
    interpreter.run({"t0": np.zeros((1, 100_000), np.float32)})
    graph = interpreter._graph
    assert graph.memory().arena >= 400_000
    interpreter.close()
    assert graph.memory().total == 0


def test_clone_shares_weights_and_nothing_else() -> None:
    counted = Counted()
    content = toy_models.custom(("Copy", None), shape=(2,))
    one = Interpreter(model_content=content, custom_ops={"Copy": counted.registration})
    two = one.clone()
    assert len(counted.made) == 2
    assert one._graph.weights is two._graph.weights
    assert one.run({"x": [1, 2]})["y0"].tolist() == [1, 2]
    one.close()
    assert two.run({"x": [3, 4]})["y0"].tolist() == [3, 4]
    two.close()
    assert counted.freed == counted.made


def test_an_interpreter_is_not_copied() -> None:
    """The copy's close would free what the original works with."""
    one = Interpreter(
        model_content=toy_models.custom(("Copy", None), shape=(2,)),
        custom_ops={"Copy": lambda x: x},
    )
    with pytest.raises(TypeError, match=r"an interpreter is not copied.*use clone\(\)"):
        copy.copy(one)
    assert one.run({"x": [1, 2]})["y0"].tolist() == [1, 2]


def test_clones_have_their_own_state_and_settings() -> None:
    one = Interpreter(model_content=toy_models.counter(), custom_ops={"Count": count})
    one.run({"x": [1, 1]})
    two = one.clone()
    assert two.run({"x": [1, 1]})["total"].tolist() == [1, 1]
    assert one.run({"x": [1, 1]})["total"].tolist() == [2, 2]
    kept = Interpreter(model_content=toy_models.chain(), keep=["t1"]).clone()
    kept.run({"t0": np.zeros((1, 1000), np.float32)})
    assert kept.get_tensor(2)[0, 0] == 1


def test_clones_share_what_is_folded() -> None:
    one = Interpreter(model_content=toy_models.folded())
    one.allocate_tensors()
    two = one.clone()
    two.allocate_tensors()
    cc = next(t["index"] for t in one.get_tensor_details() if t["name"] == "cc")
    arrays = [i._graph.subgraphs[0].tensors[cc].array for i in (one, two)]
    assert arrays[0] is arrays[1]
    assert two.run({"x": [0, 0, 0]})["y"].tolist() == [2, 4, 6]


# -- figures


def test_memory_figures() -> None:
    interpreter = Interpreter(model_content=toy_models.chain(10, (1, 1000)))
    interpreter.allocate_tensors()
    memory = interpreter.memory
    # input and output stay, what is between takes turns or is written in place
    assert 8000 <= memory.arena <= 4 * 4096
    assert memory.tensors == 11 * 4000
    assert memory.constants == 4
    assert memory.total >= memory.arena
    everything = Interpreter(
        model_content=toy_models.chain(10, (1, 1000)), experimental_preserve_all_tensors=True
    )
    everything.allocate_tensors()
    assert everything.memory.arena >= 11 * 4000


def test_packed_weights_are_counted_once_and_views_of_the_file_not() -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True, slots=True)
    class Packed:
        groups: tuple[Any, ...]
        table: dict[str, Any]

    def bind(b: Any) -> Any:
        def make() -> Packed:
            w = b.xi(1).astype(np.float64)
            return Packed((w, w[1:], b.xi(1)), {"again": w, "more": np.zeros(3, np.int8)})

        packed = b.once("weights", make)
        return lambda: np.add(b.x[0], packed.groups[0], out=b.y[0], casting="same_kind")

    from litedelegate import BuiltinOpResolver

    resolver = BuiltinOpResolver()
    op = Registration(infer=lambda node: [node.input(0).shape], bind=bind)
    resolver.add_builtin("ADD", op)
    interpreter = Interpreter(model_content=toy_models.chain(1, (1, 8)), op_resolver=resolver)
    interpreter.run({"t0": np.zeros((1, 8), np.float32)})
    assert interpreter.memory.packed == 8 + 3


def test_profile() -> None:
    interpreter = Interpreter(model_content=toy_models.chain(4))
    x = np.zeros((1, 1000), np.float32)
    with interpreter.profile() as profile:
        for _ in range(3):
            interpreter.run({"t0": x})
    interpreter.run({"t0": x})
    assert [(n.node, n.op, n.calls) for n in profile.nodes()] == [(i, "ADD", 3) for i in range(4)]
    (add,) = profile.by_op()
    assert (add.op, add.nodes, add.calls, add.share) == ("ADD", 4, 12, 1.0)
    assert add.own == profile.total > 0
    assert "ADD" in profile.table() and "t3" in profile.table()
    assert len(json.loads(profile.to_json())["nodes"]) == 4
    events = json.loads(profile.chrome_trace())["traceEvents"]
    assert len(events) == 12 and {"name", "ph", "ts", "dur", "pid", "tid"} <= set(events[0])


def test_profile_is_one_at_a_time() -> None:
    interpreter = Interpreter(model_content=toy_models.chain())
    with (
        interpreter.profile(),
        pytest.raises(RuntimeError, match="already"),
        interpreter.profile(),
    ):
        pass


def test_own_time_leaves_out_what_is_inside() -> None:
    from litedelegate.runtime.profile import Profile

    class Node:
        index, op, outputs = 0, "WHILE", ()
        registration = Registration()

    profile = Profile(None)  # type: ignore[arg-type]
    for start, end in ((10, 20), (20, 50), (5, 60), (60, 61)):
        profile.record(0, Node(), start, end)  # type: ignore[arg-type]
    assert [r.own for r in profile.records] == [10, 30, 15, 1]
    assert profile.total == 56


def test_threads_in_use_are_visible() -> None:
    from litedelegate.runtime.threads import available_threads

    assert Interpreter(model_content=toy_models.add(), num_threads=3).num_threads == 3
    assert Interpreter(model_content=toy_models.add()).num_threads == available_threads()


def test_attributes_of_nodes() -> None:
    content = toy_models.custom(("Atan", {"offset": 1.5}))
    interpreter = Interpreter(model_content=content)
    (node,) = interpreter.nodes
    assert (node["op_name"], node["version"], node["custom"]) == ("Atan", 1, True)
    assert node["custom_options"].flexbuffer() == {"offset": 1.5}
    (node,) = Interpreter(model_content=toy_models.add()).get_node_details(0)
    assert node["options"]["fused_activation_function"] == "NONE"
    assert node["input_names"] == ["x:0", "y:0"]
