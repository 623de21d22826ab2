"""Custom ops in C and C++: what they see of the runtime, and what their errors become."""

from __future__ import annotations

import ctypes
import gc
import re
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_libraries import built, one_op, run

from litedelegate import (
    BuiltinOpResolver,
    Interpreter,
    InterpreterWithCustomOps,
    ModelBuilder,
    OpLibrary,
    Quant,
    load_op_library,
)
from litedelegate.customops import include_dir
from litedelegate.customops._host import ABI, Host
from litedelegate.customops._operator import OperatorStruct
from litedelegate.runtime.capi.numbers import TYPE_NUMBERS

X = np.array([-8, 0.5, 2, 2.2, 201], np.float32)
Y = np.array([-1.4288993, 0.98279375, 1.2490457, 1.2679114, 1.5658458], np.float32)
KINDS = "tests/c_ops/kinds.c"


def atan_model(options: Any) -> bytes:
    return one_op("Atan", [("x", (5,), "float32")], ("y", (5,), "float32"), options)


def vector(op: str, dtype: str = "float32", n: int = 4, options: Any = None) -> bytes:
    return one_op(op, [("x", (n,), dtype)], ("y", (n,), dtype), options)


@pytest.fixture
def kinds() -> OpLibrary:
    return load_op_library(built(KINDS))


@pytest.mark.parametrize("source", ["atan.c", "atan.cc"])
def test_atan_of_the_guide(source: str) -> None:
    library = load_op_library(built(f"examples/atan_c/{source}"))
    assert list(library) == ["Atan"]
    np.testing.assert_allclose(run(atan_model({"offset": 1.0}), library, x=X), Y, rtol=2e-7)
    np.testing.assert_allclose(run(atan_model(None), library, x=X), np.arctan(X), rtol=2e-7)
    with Interpreter(model_content=atan_model({"offset": 1}), custom_ops=library) as interpreter:
        resized = interpreter.run({"x": np.tile(X, 3)})["y"]
        np.testing.assert_allclose(resized, np.tile(Y, 3), rtol=2e-7)


@pytest.mark.parametrize(
    "offset",
    [1, -3, 200, -40000, 1 << 33, 0.5, 1e-300, True],
    ids=lambda v: repr(v),
)
@pytest.mark.parametrize("source", ["atan.c", "atan.cc"])
def test_flexbuffer_options_of_every_width(source: str, offset: float) -> None:
    library = load_op_library(built(f"examples/atan_c/{source}"))
    more = {"a": "text", "b": [1, 2, 3], "offset": offset, "z": {"offset": 9}}
    with np.errstate(all="ignore"):
        want = np.arctan(X + np.float32(offset))
    np.testing.assert_allclose(run(atan_model(more), library, x=X), want, rtol=2e-7)


def test_broken_options_are_refused_or_ignored_but_never_followed() -> None:
    library = load_op_library(built("examples/atan_c/atan.cc"))
    good = bytes(
        Interpreter(model_content=atan_model({"offset": 1.0}), custom_ops=library)
        ._graph.subgraphs[0]
        .nodes[0]
        .options
    )
    rng = np.random.default_rng(0)
    for _ in range(60):
        options = bytearray(good)
        options[rng.integers(len(options))] = rng.integers(256)
        y = run(atan_model(bytes(options[rng.integers(4) :])), library, x=X)
        assert y.shape == X.shape


def test_an_option_of_the_wrong_type_refuses_the_model() -> None:
    library = load_op_library(built("examples/atan_c/atan.c"))
    with pytest.raises(ValueError, match="the option offset is no number"):
        Interpreter(model_content=atan_model({"offset": "one"}), custom_ops=library)


def test_prepare_checks_with_the_macros() -> None:
    library = load_op_library(built("examples/atan_c/atan.c"))
    model = one_op("Atan", [("x", (5,), "int32")], ("y", (5,), "float32"))
    interpreter = Interpreter(model_content=model, custom_ops=library)
    with pytest.raises(RuntimeError, match=r"atan\.c:\d+: .*\(INT32 != FLOAT32\)") as e:
        interpreter.allocate_tensors()
    assert "Node number 0 (Atan) failed to prepare." in str(e.value)


def test_zero_out(kinds: OpLibrary) -> None:
    x = np.array([5, 4, 3, 2], np.int32)
    assert run(vector("ZeroOut", "int32"), kinds, x=x).tolist() == [5, 0, 0, 0]


def test_float64(kinds: OpLibrary) -> None:
    x = np.array([1 / 3, -2, 1e300, 0])
    np.testing.assert_array_equal(run(vector("Half", "float64"), kinds, x=x), x / 2)


def test_quantisation(kinds: OpLibrary) -> None:
    model = one_op(
        "Quant",
        [
            ("x", (2,), "int8", Quant(0.5, -3)),
            ("w", (3, 2), "int8", Quant([0.25, 2.0], [0, 7], axis=1)),
        ],
        ("y", (6,), "float32"),
    )
    y = run(model, kinds, x=np.array([9, 0], np.int8), w=np.zeros((3, 2), np.int8))
    assert y.tolist() == [6.0, -3.0, 0.25, 2.0, 7.0, 1.0]


def test_state_and_temporaries(kinds: OpLibrary) -> None:
    x = np.array([1, 2, 3, 4], np.float32)
    with Interpreter(model_content=vector("Moving"), custom_ops=kinds) as interpreter:
        for call in range(1, 4):
            y = interpreter.run({"x": x * call})["y"]
            total = sum((x * c) ** 2 for c in range(1, call + 1))
            np.testing.assert_allclose(y, total / call, rtol=1e-6)
        longer = np.ones(6, np.float32)
        # other shapes: the sum starts anew, what lies in user data goes on
        np.testing.assert_allclose(interpreter.run({"x": longer})["y"], longer / 4)


def test_two_nodes_have_a_state_each_and_every_init_is_freed(kinds: OpLibrary) -> None:
    counts = ctypes.CDLL(str(built(KINDS)))
    before = counts.CountInits(), counts.CountFrees()
    builder = ModelBuilder()
    graph = builder.subgraph("main")
    x = graph.input("x", (2,))
    middle = graph.custom("Moving", [x], ("m", (2,), "float32"))
    graph.outputs(graph.custom("Moving", [middle], ("y", (2,), "float32")))
    interpreter = Interpreter(model_content=builder.build(), custom_ops=kinds)
    other = interpreter.clone()
    for _ in range(2):
        assert interpreter.run({"x": np.ones(2, np.float32)})["y"].tolist() == [1.0, 1.0]
    assert other.run({"x": np.ones(2, np.float32)})["y"].tolist() == [1.0, 1.0]
    assert counts.CountInits() - before[0] == 4
    interpreter.close()
    assert counts.CountFrees() - before[1] == 2
    del other
    gc.collect()
    assert counts.CountFrees() - before[1] == 4


def test_strings(kinds: OpLibrary) -> None:
    model = one_op(
        "Join", [("x", (3,), "string")], ("y", (3,), "string"), {"between": "é-", "a": 1}
    )
    x = np.array([b"one", b"", b"th\0ree"], object)
    y = run(model, kinds, x=x)
    assert y.tolist() == ["oneé-0".encode(), "é-1".encode(), "th\0reeé-2".encode()]
    with Interpreter(model_content=model, custom_ops=kinds) as interpreter:
        many = interpreter.run({"x": np.array([b"ab"] * 1000, object)})["y"]
        assert many.shape == (1000,) and many[999] == "abé-999".encode()
        assert interpreter.run({"x": np.array([], object)})["y"].shape == (0,)
        assert interpreter.run({"x": np.array([b"a"], object)})["y"].tolist() == ["aé-0".encode()]


def test_an_output_whose_shape_invoke_gives(kinds: OpLibrary) -> None:
    builder = ModelBuilder()
    graph = builder.subgraph("main")
    x = graph.input("x", (5,))
    found = graph.custom("Positive", [x], ("p", (0,), "float32"))
    # a C op behind it is prepared when the shape is known
    graph.outputs(graph.custom("Moving", [found], ("y", (0,), "float32")))
    with Interpreter(model_content=builder.build(), custom_ops=kinds) as interpreter:
        y = interpreter.run({"x": np.array([1, -1, 2, 0, 3], np.float32)})["y"]
        assert y.tolist() == [1.0, 4.0, 9.0]
        y = interpreter.run({"x": np.array([-1, -1, 2, 0, -3], np.float32)})["y"]
        assert y.tolist() == [2.0]


def test_what_an_op_can_ask(kinds: OpLibrary) -> None:
    model = one_op("Facts", [("x", (1,), "float32"), None], ("y", (12,), "int32"))
    y = run(model, kinds, x=np.ones(1, np.float32))
    arena = 2
    assert y.tolist() == [42, 1, -1, 1, 2, 1, 2, 1, 0, 1, arena, 1]


WRONG = {
    2: ("prepare", r"TfLiteOpaqueNodeNum\w+\(node\) != 7 \(1 != 7\)"),
    3: ("prepare", "Wrong returned status 3 from prepare"),
    4: ("prepare", "^a{1999}!\n"),
    5: ("invoke", "handle that is no longer valid"),
    6: ("prepare", r"there is no input 9; the node has 1\n.*was not true"),
    7: ("prepare", "temporaries are distinct tensors that this node added"),
    8: ("prepare", "handle that is a node"),
    9: ("prepare", "handle that is no longer valid"),
    10: ("prepare", "cannot be resized to NULL"),
    11: ("invoke", "not in invoke, says it"),
    12: ("invoke", "cannot become .77. in invoke"),
    13: ("invoke", "strings are written to a tensor of float32"),
    14: ("invoke", "3 bytes are copied to a tensor that has 16 bytes"),
    16: ("prepare", "a NULL format was given"),
}


@pytest.mark.parametrize("how", WRONG)
def test_errors_of_an_op_are_the_exceptions_text(kinds: OpLibrary, how: int) -> None:
    step, text = WRONG[how]
    model = vector("Wrong", options={"how": how})
    with Interpreter(model_content=model, custom_ops=kinds) as interpreter:
        if step == "invoke":
            interpreter.allocate_tensors()
        call = interpreter.allocate_tensors if step == "prepare" else interpreter.invoke
        for _ in range(2):  # and again: nothing is left behind
            with pytest.raises(RuntimeError, match=text) as e:
                call()
            assert f"Node number 0 (Wrong) failed to {step}." in str(e.value)


def test_a_failing_init_refuses_the_model(kinds: OpLibrary) -> None:
    with pytest.raises(ValueError, match="init says no, 1 of 2"):
        Interpreter(model_content=vector("Wrong", options={"how": 1}), custom_ops=kinds)


def test_what_is_reported_without_failing_is_a_warning(kinds: OpLibrary) -> None:
    with pytest.warns(UserWarning, match="Wrong: only a warning"):
        run(vector("Wrong", options={"how": 15}), kinds, x=np.ones(4, np.float32))


def test_threads(kinds: OpLibrary) -> None:
    """Two interpreters at once: each call finds its own node."""
    failed: list[BaseException] = []

    def work(scale: float) -> None:
        x = np.arange(1, 2001, dtype=np.float32) * np.float32(scale)
        try:
            with Interpreter(
                model_content=vector("Moving", n=2000), custom_ops=kinds
            ) as interpreter:
                for _ in range(30):
                    y = interpreter.run({"x": x})["y"]
                    np.testing.assert_allclose(y, x * x, rtol=1e-4)
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=work, args=(s,)) for s in (1.0, 0.5, 3.0)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, failed[0]


def test_every_place_that_takes_custom_ops(kinds: OpLibrary) -> None:
    x = np.array([5, 4, 3, 2], np.int32)
    model = vector("ZeroOut", "int32")
    resolver = BuiltinOpResolver()
    kinds(resolver)
    for interpreter in (
        Interpreter(model_content=model, custom_ops=kinds),
        Interpreter(model_content=model, custom_ops={"ZeroOut": kinds["ZeroOut"]}),
        Interpreter(model_content=model, op_resolver=resolver),
        InterpreterWithCustomOps([kinds], model_content=model),
        InterpreterWithCustomOps([lambda r: kinds(r)], model_content=model),
        InterpreterWithCustomOps(["ZeroOut"], model_content=model),
    ):
        assert interpreter.run({"x": x})["y"].tolist() == [5, 0, 0, 0]
    with pytest.raises(ValueError, match="Looking up symbol 'Nobody' failed with error"):
        InterpreterWithCustomOps(["Nobody"], model_content=model)


def test_the_header_and_the_table_say_the_same(root: Path) -> None:
    folder = include_dir() / "litedelegate"
    text = (folder / "tflite_types.h").read_text()
    assert f"#define LITEDELEGATE_ABI {ABI}\n" in text
    table = re.search(r"struct LiteDelegateHost \{(.*?)\} LiteDelegateHost;", text, re.S)
    assert table is not None
    names = re.findall(r"\(\*(\w+)\)|uint32_t (\w+);", table[1])
    assert [a or b for a, b in names] == [f[0] for f in Host._fields_]
    struct = re.search(r"struct TfLiteOperator \{(.*?)\} TfLiteOperator;", text, re.S)
    assert struct is not None
    names = re.findall(r"(\w+);", struct[1])
    assert names == [f[0] for f in OperatorStruct._fields_]
    numbers = dict(re.findall(r"kTfLite(\w+) = (\d+)", text[text.index("kTfLiteNoType") :]))
    for dtype, number in TYPE_NUMBERS.items():
        name = {"BOOL": "Bool", "BFLOAT16": "BFloat16"}.get(dtype.name, dtype.name)
        found = [n for k, n in numbers.items() if k.upper() == name.replace("_", "").upper()]
        assert found == [str(number)], dtype


def test_no_warning_from_a_plain_run(kinds: OpLibrary) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(vector("ZeroOut", "int32"), kinds, x=np.zeros(4, np.int32))
