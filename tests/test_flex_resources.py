"""What Flex operators keep and hand on: variables, tables, lists, generators."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from flex_models import flex

from litedelegate import Interpreter, Kernel, ModelBuilder, SimpleDelegate
from litedelegate.delegates.flex import library as flex_library

pytest.importorskip("tensorflow", reason="TensorFlow is not installed: pip install '.[tensorflow]'")
FLOAT, INT, TEXT = "DT_FLOAT", "DT_INT32", "DT_STRING"


def variables() -> bytes:
    """Subgraph 0 adds x to the variable v and reads it, twice, through handles of its own;
    subgraph 1 sets it to 10.
    """
    b = ModelBuilder()
    main, start = b.subgraph("main"), b.subgraph("start")
    x = main.input("x", (2,))
    kind = {"dtype": FLOAT, "shape": (2,), "container": b"", "shared_name": b"v"}

    def handle(g: Any, name: str) -> Any:
        return flex(g, "VarHandleOp", [], (name, (), "resource"), name, **kind)

    ten = start.constant("ten", np.float32([10, 10]))
    flex(start, "AssignVariableOp", [handle(start, "h"), ten],
         [], dtype=FLOAT, validate_shape=False)  # fmt: skip
    start.outputs()
    main.op("CALL_ONCE", [], [], init_subgraph_index=1)
    read = []
    for i in range(2):
        h = handle(main, f"h{i}")
        flex(main, "AssignAddVariableOp", [h, x], [], f"add{i}", dtype=FLOAT)
        again = handle(main, f"again{i}")
        read.append(
            flex(main, "ReadVariableOp", [again], (f"y{i}", (2,), "float32"), f"r{i}", dtype=FLOAT)
        )
    main.outputs(*read)
    return b.build()


def test_variables_in_order_and_of_their_own() -> None:
    model, x = variables(), np.float32([1, 2])
    first, second = Interpreter(model_content=model), Interpreter(model_content=model)
    found = first.run({"x": x})
    assert (found["y0"].tolist(), found["y1"].tolist()) == ([11, 12], [12, 14])
    assert first.run({"x": x})["y1"].tolist() == [14, 18]
    assert {name: value.tolist() for name, value in first.variables.items()} == {"v": [14, 18]}
    assert second.run({"x": x})["y1"].tolist() == [12, 14]
    assert first.run({"x": x}, reset_variables=True)["y1"].tolist() == [12, 14]
    assert first.clone().run({"x": x})["y1"].tolist() == [12, 14]


class Failing(SimpleDelegate):
    """Takes NEG, and fails at the second invoke."""

    name = "failing"

    def lower(self, node: Any, registration: Any) -> Any:
        return True if node.op == "NEG" else self.refuse(node, "OP", "not NEG")

    def build(self, partition: Any) -> Kernel:
        calls: list[int] = []

        class Lost(Kernel):
            def invoke(self) -> None:
                calls.append(1)
                if len(calls) == 2:
                    raise RuntimeError("device lost")
                (x,), (y,) = partition.inputs, partition.outputs
                np.negative(x.array, out=y.array)

        return Lost()


def test_variables_when_another_delegate_fails_in_mid_invoke() -> None:
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (2,))
    start = b.subgraph("start")
    kind = {"dtype": FLOAT, "shape": (2,), "container": b"", "shared_name": b"v"}
    zero = start.constant("zero", np.zeros(2, np.float32))
    h = flex(start, "VarHandleOp", [], ("h", (), "resource"), "h", **kind)
    flex(start, "AssignVariableOp", [h, zero], [], dtype=FLOAT, validate_shape=False)
    start.outputs()
    g.op("CALL_ONCE", [], [], init_subgraph_index=1)
    h = flex(g, "VarHandleOp", [], ("h", (), "resource"), "h", **kind)
    flex(g, "AssignAddVariableOp", [h, x], [], dtype=FLOAT)
    y = flex(g, "ReadVariableOp", [h], ("y", (2,), "float32"), dtype=FLOAT)
    g.outputs(g.op("NEG", [y], ("z", (2,), "float32")))
    with Interpreter(model_content=b.build(), delegates=[Failing()]) as interpreter:
        ones = np.ones(2, np.float32)
        assert interpreter.run({"x": ones})["z"].tolist() == [-1, -1]
        with pytest.warns(UserWarning, match="device lost"):
            assert interpreter.run({"x": ones})["z"].tolist() == [-2, -2]
        assert interpreter.run({"x": ones})["z"].tolist() == [-3, -3]


def test_hash_table_with_an_initialisation_subgraph_and_two_signatures() -> None:
    b = ModelBuilder()
    find, size, start = b.subgraph("find"), b.subgraph("size"), b.subgraph("start")
    kind = {
        "key_dtype": TEXT,
        "value_dtype": FLOAT,
        "container": b"",
        "use_node_name_sharing": True,
    }

    def table(g: Any) -> Any:
        return flex(g, "HashTableV2", [], ("t", (), "resource"), "t", shared_name=b"t", **kind)

    keys = start.constant("keys", np.array([b"a", b"b"], object))
    values = start.constant("values", np.float32([1.5, 2.5]))
    types = {"Tin": TEXT, "Tout": FLOAT}
    flex(start, "LookupTableImportV2", [table(start), keys, values], [], **types)
    start.outputs()
    for g in (find, size):
        g.op("CALL_ONCE", [], [], init_subgraph_index=2)
    x = find.input("x", (2,), "string", shape_signature=(-1,))
    none = find.constant("none", np.float32(-1))
    y = flex(find, "LookupTableFindV2", [table(find), x, none], ("y", (2,), "float32"), **types)
    find.outputs(y)
    n = flex(size, "LookupTableSizeV2", [table(size)], ("n", (), "int64"))
    size.outputs(n)
    b.signature("find", {"x": x}, {"y": y})
    b.signature("size", {}, {"n": n})
    for _ in range(2):
        with Interpreter(model_content=b.build()) as interpreter:
            for words, want in (([b"b", b"c"], [2.5, -1]), ([b"a", b"a", b"b"], [1.5, 1.5, 2.5])):
                found = interpreter.run({"x": np.array(words, object)}, signature_key="find")
                assert found["y"].tolist() == want
            assert interpreter.run({}, signature_key="size")["n"] == 2


def list_in_a_loop() -> bytes:
    """y[i] = atan(x) * i for i < 3, through a TensorList that a WHILE carries."""
    b = ModelBuilder()
    main, cond, body = b.subgraph("main"), b.subgraph("cond"), b.subgraph("body")
    x = main.input("x", (2,))
    shape, zero = main.constant("shape", np.int32([2])), main.constant("zero", np.int32(0))
    three = main.constant("three", np.int32(3))
    made = flex(main, "TensorListReserve", [shape, three], ("list", (), "variant"),
                element_dtype=FLOAT, shape_type=INT)  # fmt: skip
    ends = [("i_end", (), "int32"), ("list_end", (), "variant"), ("x_end", (2,), "float32")]
    loop = main.op("WHILE", [zero, made, x], ends, cond_subgraph_index=1, body_subgraph_index=2)
    main.outputs(
        flex(
            main,
            "TensorListStack",
            [loop[1], shape],
            ("y", (3, 2), "float32"),
            element_dtype=FLOAT,
            num_elements=3,
        )
    )
    i, _, _ = (
        cond.input("ci", (), "int32"),
        cond.input("cl", (), "variant"),
        cond.input("cx", (2,)),
    )
    limit = cond.constant("limit", np.int32(3))
    cond.outputs(cond.op("LESS", [i, limit], ("go", (), "bool")))
    i, held, x = (
        body.input("bi", (), "int32"),
        body.input("bl", (), "variant"),
        body.input("bx", (2,)),
    )
    one = body.constant("one", np.int32(1))
    factor = body.op("CAST", [i], ("f", (), "float32"))
    angle = flex(body, "Atan", [x], ("angle", (2,), "float32"), T=FLOAT)
    item = body.op("MUL", [angle, factor], ("item", (2,), "float32"))
    after = flex(body, "TensorListSetItem", [held, i, item], ("after", (), "variant"),
                 element_dtype=FLOAT, resize_if_index_out_of_bounds=False)  # fmt: skip
    body.outputs(body.op("ADD", [i, one], ("next", (), "int32")), after, x)
    return b.build()


def test_variants_go_through_loops() -> None:
    x = np.float32([0.5, -2])
    with Interpreter(model_content=list_in_a_loop()) as interpreter:
        for _ in range(3):
            found = interpreter.run({"x": x})["y"]
            np.testing.assert_allclose(found, np.outer([0, 1, 2], np.arctan(x)), rtol=1e-6)


def test_a_body_whose_shapes_change_while_it_runs() -> None:
    """x grows by itself in each of two turns: no partition is built, the nodes run one by one."""
    b = ModelBuilder()
    main, cond, body = b.subgraph("main"), b.subgraph("cond"), b.subgraph("body")
    x, zero = main.input("x", (1,)), main.constant("zero", np.int32(0))
    ends = [("i_end", (), "int32"), ("y", (1,), "float32")]
    main.outputs(main.op("WHILE", [zero, x], ends, cond_subgraph_index=1, body_subgraph_index=2)[1])
    i, _ = cond.input("ci", (), "int32"), cond.input("cx", (1,))
    cond.outputs(cond.op("LESS", [i, cond.constant("two", np.int32(2))], ("go", (), "bool")))
    i, held = body.input("bi", (), "int32"), body.input("bx", (1,))
    one, axis = body.constant("one", np.int32(1)), body.constant("axis", np.int32(0))
    twice = flex(body, "ConcatV2", [held, held, axis], ("twice", (1,), "float32"),
                 T=FLOAT, Tidx=INT, N=2)  # fmt: skip
    angle = flex(body, "Atan", [twice], ("angle", (1,), "float32"), T=FLOAT)
    body.outputs(body.op("ADD", [i, one], ("next", (), "int32")), angle)
    value = np.float32([0.5])
    want = np.arctan(np.arctan(value)).repeat(4)
    with Interpreter(model_content=b.build()) as interpreter:
        for _ in range(2):
            np.testing.assert_allclose(interpreter.run({"x": value})["y"], want, rtol=1e-6)


def test_random_numbers_begin_anew_with_each_interpreter() -> None:
    b = ModelBuilder()
    g = b.subgraph("main")
    shape = g.constant("shape", np.int32([4]))
    seeds = {"seed": 3, "seed2": 4, "dtype": FLOAT, "T": INT}
    g.outputs(flex(g, "RandomUniform", [shape], ("y", (4,), "float32"), **seeds))
    runs = []
    for _ in range(2):
        with Interpreter(model_content=b.build()) as interpreter:
            runs.append([interpreter.run({})["y"].tolist() for _ in range(3)])
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[0][1]


def test_a_generator_goes_on_when_shapes_change() -> None:
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (2,), shape_signature=(-1,))
    shape = g.constant("shape", np.int32([4]))
    seeds = {"seed": 3, "seed2": 4, "dtype": FLOAT, "T": INT}
    y = flex(g, "RandomUniform", [shape], ("y", (4,), "float32"), **seeds)
    g.outputs(y, flex(g, "Atan", [x], ("z", (2,), "float32"), T=FLOAT))
    runs = []
    for sizes in ((2, 2, 2, 2), (2, 3, 2, 5)):
        with Interpreter(model_content=b.build()) as interpreter:
            given = [np.ones(n, np.float32) for n in sizes]
            runs.append([interpreter.run({"x": x})["y"].tolist() for x in given])
    assert runs[0] == runs[1]
    assert len({str(r) for r in runs[0]}) == 4


def test_a_resource_that_tensorflow_did_not_make() -> None:
    b = ModelBuilder()
    g = b.subgraph("main")
    h = g.op("VAR_HANDLE", [], ("h", (1,), "resource"), container="", shared_name="v")
    g.outputs(flex(g, "ReadVariableOp", [h], ("y", (2,), "float32"), dtype=FLOAT))
    with pytest.raises(RuntimeError, match="refers to a variable, and Flex operators take a res"):
        Interpreter(model_content=b.build()).run({})


def test_nothing_is_left_of_closed_interpreters() -> None:
    import tensorflow as tf

    context = flex_library.library().context
    before = len(context.list_function_names())
    for _ in range(5):
        for model in (variables(), list_in_a_loop()):
            with Interpreter(model_content=model) as interpreter:
                interpreter.run({"x": np.ones(2, np.float32)})
    gc.collect()
    assert len(context.list_function_names()) == before
    assert tf.__version__ == flex_library.library().version


def test_clones_in_threads_of_their_own() -> None:
    model = variables()
    first = Interpreter(model_content=model)

    def work(k: int) -> bool:
        x = np.full(2, k, np.float32)
        with first.clone() as own:
            runs = [own.run({"x": x})["y1"].tolist() for _ in range(50)]
        return runs == [[10 + 2 * k * (i + 1)] * 2 for i in range(50)]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(1, 9)))


def test_a_tensor_array_across_partitions() -> None:
    """Of TensorFlow 1: a resource that lives for a step. Here an ADD of numpy's is in between."""
    b = ModelBuilder()
    g = b.subgraph("main")
    x, one = g.input("x", (2,)), g.constant("one", np.ones(1, np.float32))
    size, first = g.constant("size", np.int32(1)), g.constant("first", np.int32(0))
    out = [("handle", (), "resource"), ("flow", (), "float32")]
    handle, flow = flex(g, "TensorArrayV3", [size], out, dtype=FLOAT, tensor_array_name=b"ta")
    y = g.op("ADD", [flex(g, "Atan", [x], ("a", (2,), "float32"), T=FLOAT), one],
             ("y", (2,), "float32"))  # fmt: skip
    flow = flex(g, "TensorArrayWriteV3", [handle, first, y, flow], ("after", (), "float32"),
                T=FLOAT)  # fmt: skip
    g.outputs(
        flex(g, "TensorArrayReadV3", [handle, first, flow], ("z", (2,), "float32"), dtype=FLOAT)
    )
    with Interpreter(model_content=b.build()) as interpreter:
        for value in ([0, 1], [2, 3]):
            found = interpreter.run({"x": np.float32(value)})["z"]
            np.testing.assert_allclose(found, np.arctan(np.float32(value)) + 1, rtol=1e-6)
        assert len(interpreter.delegate_coverage().partitions) == 2
