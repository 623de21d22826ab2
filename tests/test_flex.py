"""The Flex delegate: TensorFlow's own operators, run by TensorFlow."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_delegates import Fake
from flex_models import flex, options, pack

from litedelegate import Interpreter, Model, ModelBuilder, OpResolverType
from litedelegate.runtime.selective import module_text, used_ops

pytest.importorskip("tensorflow", reason="TensorFlow is not installed: pip install '.[tensorflow]'")
FLOAT, INT, TEXT = "DT_FLOAT", "DT_INT32", "DT_STRING"


def chain() -> bytes:
    """y = atan(atan(x)) + 1, the sum by numpy; z = atan(y)."""
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (3,))
    one = g.constant("one", np.ones(1, np.float32))
    a = flex(g, "Atan", [x], ("a", (3,), "float32"), T=FLOAT)
    c = flex(g, "Atan", [a], ("c", (3,), "float32"), T=FLOAT)
    y = g.op("ADD", [c, one], ("y", (3,), "float32"))
    g.outputs(y, flex(g, "Atan", [y], ("z", (3,), "float32"), T=FLOAT))
    return b.build()


def test_runs_partitions_and_reports_them() -> None:
    x = np.float32([-2, 0, 0.5])
    with Interpreter(model_content=chain()) as interpreter:
        found = interpreter.run({"x": x})
        np.testing.assert_allclose(found["y"], np.arctan(np.arctan(x)) + 1, rtol=1e-6)
        np.testing.assert_allclose(found["z"], np.arctan(found["y"]), rtol=1e-6)
        assert [d.name for d in interpreter.delegates] == ["flex"]
        report = interpreter.delegate_coverage()
        assert [n.placed_on for n in report.nodes] == ["flex", "flex", "cpu", "flex"]
        assert [list(p.nodes) for p in report.partitions] == [[0, 1], [3]]
        assert list(report.partitions[0].kernels) == ["Atan", "Atan"]
        # shapes are TensorFlow's: nothing behind is dynamic
        assert not any(t.is_dynamic for t in interpreter._graph.subgraphs[0].tensors)


def test_goes_last_and_takes_what_others_leave() -> None:
    with Interpreter(model_content=chain(), delegates=[Fake()]) as interpreter:
        interpreter.run({"x": np.zeros(3, np.float32)})
        assert [d.name for d in interpreter.delegates] == ["fake", "flex"]
        placed = [n.placed_on for n in interpreter.delegate_coverage().nodes]
    assert placed == ["flex", "flex", "fake", "flex"]
    with Interpreter(model_content=chain(), delegates=["flex", Fake()]) as interpreter:
        assert [d.name for d in interpreter.delegates] == ["flex", "fake"]


@pytest.mark.parametrize("rules", [{"exclude": [0]}, {"only": ["ADD"]}])
def test_kept_off_by_the_user(rules: dict[str, Any]) -> None:
    """There is nobody else who could: TensorFlow runs them one by one, and the report says so."""
    x = np.float32([-2, 0, 0.5])
    with Interpreter(model_content=chain(), **rules) as interpreter:
        found = interpreter.run({"x": x})["y"]
        np.testing.assert_allclose(found, np.arctan(np.arctan(x)) + 1, rtol=1e-6)
        first = interpreter.delegate_coverage().nodes[0]
        assert first.placed_on == "cpu"
        assert first.refusals[0].code == "POLICY" and "the user said no" in first.refusals[0].text


def test_the_self_check_agrees() -> None:
    x = np.float32([-2, 0, 0.5])
    with (
        warnings.catch_warnings(),
        Interpreter(model_content=chain(), verify=2) as interpreter,
    ):
        warnings.simplefilter("error")
        for _ in range(3):
            found = interpreter.run({"x": x})["y"]
            np.testing.assert_allclose(found, np.arctan(np.arctan(x)) + 1, rtol=1e-6)
        assert interpreter.delegate_coverage().totals.delegated == {"flex": 3}


def test_all_tensors_preserved() -> None:
    x = np.float32([-2, 0, 0.5])
    with Interpreter(model_content=chain(), experimental_preserve_all_tensors=True) as interpreter:
        interpreter.run({"x": x})
        for name, want in (("a", np.arctan(x)), ("c", np.arctan(np.arctan(x)))):
            index = next(d["index"] for d in interpreter.get_tensor_details() if d["name"] == name)
            np.testing.assert_allclose(interpreter.get_tensor(index), want, rtol=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [
        {"flex": False},
        {"experimental_op_resolver_type": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES},
    ],
)
def test_turned_off(arguments: dict[str, Any]) -> None:
    interpreter = Interpreter(model_content=chain(), **arguments)
    assert interpreter.delegates == ()
    with pytest.raises(RuntimeError, match="turned off, by flex=False or BUILTIN_WITHOUT") as e:
        interpreter.allocate_tensors()
    assert "FlexAtan version 1; node 0, 1, 3" in str(e.value)
    assert "custom_ops={'FlexAtan': function}" in str(e.value)


def test_an_op_given_in_python_goes_before() -> None:
    model, x = chain(), np.float32([1, 2, 3])
    double = {"FlexAtan": lambda x, options: x * 2}
    with Interpreter(model_content=model, custom_ops=double) as interpreter:
        assert interpreter.delegates == ()
        np.testing.assert_array_equal(interpreter.run({"x": x})["y"], x * 4 + 1)


def test_with_a_resolver_of_just_the_other_ops() -> None:
    ops = used_ops([Model.from_buffer(chain())])
    space: dict[str, Any] = {}
    exec(module_text(ops, ["chain"], "1"), space)
    x = np.float32([1, 2, 3])
    with Interpreter(model_content=chain(), op_resolver=space["resolver"]()) as interpreter:
        found = interpreter.run({"x": x})["y"]
    np.testing.assert_allclose(found, np.arctan(np.arctan(x)) + 1, rtol=1e-6)


def test_without_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("litedelegate.delegates.flex.delegate.is_installed", lambda: False)
    with pytest.raises(ValueError, match="TensorFlow is not installed; pip install"):
        Interpreter(model_content=chain(), delegates=["flex"])
    interpreter = Interpreter(model_content=chain())
    with pytest.raises(RuntimeError, match="FlexAtan") as e:
        interpreter.allocate_tensors()
    assert "TensorFlow is not installed; pip install 'litedelegate[flex]'" in str(e.value)


def test_tensorflow_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise ImportError("libfoo.so is missing")

    monkeypatch.setattr("litedelegate.delegates.flex.delegate.library", broken)
    with pytest.raises(RuntimeError, match=r"cannot be imported: ImportError: libfoo\.so is miss"):
        Interpreter(model_content=chain()).allocate_tensors()
    with pytest.raises(ValueError, match=r"libfoo\.so is missing"):
        Interpreter(model_content=chain(), delegates=["flex"])


def test_an_op_that_tensorflow_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (1,))
    y = g.custom("FlexNoSuchOp", [x], ("y", (1,), "float32"), options=pack("NoSuchOp", b"\n\x01n"))
    g.outputs(y, flex(g, "Atan", [y], ("z", (1,), "float32"), T=FLOAT))
    with pytest.raises(RuntimeError, match="does not have FlexNoSuchOp; import the package") as e:
        Interpreter(model_content=b.build()).allocate_tensors()
    assert "FlexAtan" not in str(e.value)
    given = {"FlexNoSuchOp": lambda x, options: -x}
    with Interpreter(model_content=b.build(), custom_ops=given) as interpreter:
        value = interpreter.run({"x": np.float32([2])})["z"]
    np.testing.assert_allclose(value, np.arctan(np.float32([-2])), rtol=1e-6)


def test_strings_and_sizes_that_change() -> None:
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (2,), "string", shape_signature=(-1,))
    low = flex(g, "StringLower", [x], ("low", (2,), "string"), encoding=b"utf-8")
    out = [("places", (0, 2), "int64"), ("words", (0,), "string"), ("shape", (2,), "int64")]
    blank = g.constant("blank", np.array(b"", object))
    words = flex(g, "StringSplitV2", [low, blank], out, maxsplit=-1)
    count = g.op("SHAPE", [words[1]], ("count", (1,), "int32"), out_type="int32")
    g.outputs(words[1], words[2], count)
    with Interpreter(model_content=b.build()) as interpreter:
        for texts in ([b"Ab  C", b"d"], [b"x"], [b"", b"Q R", "\u00c9t\u00e9 s".encode()], [b""]):
            found = interpreter.run({"x": np.array(texts, object)})
            split = [t.decode().lower().split() for t in texts]
            want = [w.encode() for s in split for w in s]
            assert found["words"].tolist() == want
            assert found["count"].tolist() == [len(want)]
            assert found["shape"].tolist() == [len(texts), max(map(len, split))]


@pytest.mark.parametrize(
    "dtype",
    [
        *("float16", "float64", "bfloat16", "int4", "int8", "uint8", "int16", "uint16", "int32"),
        *("uint32", "int64", "uint64", "bool", "complex64", "complex128", "float8_e5m2"),
    ],
)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_types(dtype: str, shape: tuple[int, ...]) -> None:
    """Identity gives what it gets, whatever the type; [] and empty tensors too."""
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", shape, dtype)
    kind = {"float16": "DT_HALF", "float64": "DT_DOUBLE"}.get(dtype, f"DT_{dtype.upper()}")
    g.outputs(flex(g, "Identity", [x], ("y", shape, dtype), T=kind))
    with Interpreter(model_content=b.build()) as interpreter:
        interpreter.allocate_tensors()
        stored = interpreter._graph.subgraphs[0].tensors[0].dtype.numpy
        value = (np.arange(int(np.prod(shape))) % 2).reshape(shape).astype(stored)
        if dtype == "bfloat16":
            value = value * np.uint16(0x3F80)
        interpreter.set_tensor(0, value)
        interpreter.invoke()
        found = interpreter._graph.subgraphs[0].tensors[1].array
        assert found.dtype == stored
        np.testing.assert_array_equal(found, value)


def test_constants_are_inputs_and_settle_shapes() -> None:
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (6,))
    shape = g.constant("shape", np.int32([2, 3]))
    y = flex(g, "Reshape", [x, shape], ("y", (1,), "float32"), T=FLOAT, Tshape=INT)
    g.outputs(flex(g, "MatrixDiag", [y], ("z", (1,), "float32"), T=FLOAT))
    with Interpreter(model_content=b.build()) as interpreter:
        interpreter.allocate_tensors()
        (z,) = interpreter.get_output_details()
        assert z["shape"].tolist() == [2, 3, 3]
        value = np.arange(6, dtype=np.float32)
        found = interpreter.run({"x": value})["z"]
    np.testing.assert_array_equal(found, [np.diag(row) for row in value.reshape(2, 3)])


# -- errors


def test_tensorflows_error_names_the_node() -> None:
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (2, 2))
    y = flex(g, "Atan", [x], ("y", (2, 2), "float32"), T=FLOAT)
    z = flex(g, "MatrixInverse", [y], ("z", (2, 2), "float32"), "inverse", T=FLOAT, adjoint=False)
    g.outputs(z)
    with Interpreter(model_content=b.build()) as interpreter:
        with pytest.raises(RuntimeError, match="TensorFlow: Input is not invertible") as e:
            interpreter.run({"x": np.zeros((2, 2), np.float32)})
        assert "node 1 (FlexMatrixInverse 'inverse'; inputs float32[2, 2])" in str(e.value)
        assert "{{" not in str(e.value)
        # it is the values' fault: the delegate stays
        x = np.eye(2, dtype=np.float32)
        np.testing.assert_allclose(interpreter.run({"x": x})["z"], x / np.arctan(1), rtol=1e-6)
        assert [d.name for d in interpreter.delegates] == ["flex"]


def _alone(op: str, raw: bytes | None, inputs: Sequence[Any], out: Any, **attributes: Any) -> bytes:
    b = ModelBuilder()
    g = b.subgraph("main")
    given = [g.input(f"x{i}", shape, dtype) for i, (shape, dtype) in enumerate(inputs)]
    made = options(op, "n", **attributes) if raw is None else raw
    y = g.custom(f"Flex{op}", given, out, options=made)
    g.outputs(*(y if isinstance(out, list) else [y]))
    return b.build()


Y = ("y", (2,), "float32")
X = ((2,), "float32")


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (lambda: _alone("Atan", b"\x00", [X], Y), "no FlexBuffer of .name, NodeDef."),
        (lambda: _alone("Atan", pack("Atan", b"\xff\xff"), [X], Y), "no FlexBuffer of"),
        (lambda: _alone("Atan", options("Sin", T=FLOAT), [X], Y), "an operator 'Atan' name b'Sin'"),
        (lambda: _alone("Atan", None, [X], Y), "lacks the attribute 'T'"),
    ],
)
def test_damaged_options(model: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Interpreter(model_content=model())


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (lambda: _alone("Atan", None, [X, X], Y, T=FLOAT), "has 1 inputs and 1 outputs; the model"),
        (lambda: _alone("Atan", None, [X], ("y", (2,), "int32"), T=FLOAT), "declares int32"),
        (
            lambda: _alone("MatMul", None, [((2, 3), "float32")] * 2, Y, T=FLOAT),
            "TensorFlow's MatMul 'n': Dimensions must be equal",
        ),
        (lambda: _alone("Atan", None, [((2,), "float64")], Y, T=FLOAT), "float"),
    ],
)
def test_nodes_that_do_not_fit(model: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text) as e:
        Interpreter(model_content=model()).allocate_tensors()
    assert "Node number 0" in str(e.value)


def test_a_dynamic_node_that_does_not_fit() -> None:
    """A size known at run time alone does not keep the types from being checked."""
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (2,), "string")
    out = [("places", (0, 2), "int64"), ("words", (0,), "string"), ("shape", (2,), "int64")]
    blank = g.constant("blank", np.array(b"", object))
    words = flex(g, "StringSplitV2", [x, blank], out, maxsplit=-1)
    g.outputs(flex(g, "StringLength", [words[1]], ("y", (2,), "float32"), unit=b"BYTE"))
    with pytest.raises(RuntimeError, match="'stringlength' is int32; the model declares float32"):
        Interpreter(model_content=b.build()).run({"x": np.array([b"a b", b"c"], object)})


def test_functions_are_refused() -> None:
    from tensorflow.core.framework.node_def_pb2 import NodeDef

    made = NodeDef(name="n", op="PartitionedCall")
    made.attr["f"].func.name = "inner"
    for key in ("Tin", "Tout"):
        made.attr[key].list.type.append(1)
    model = _alone("PartitionedCall", pack(made.op, made.SerializeToString()), [X], Y)
    with pytest.raises(ValueError, match="is the function 'inner', and a"):
        Interpreter(model_content=model)


# -- bundles


def test_bundles(tmp_path: Path) -> None:
    """TensorFlow runs what the bundle gives no op for; an op by entry point goes before it."""
    pytest.importorskip("cryptography", reason="the extra `bundle` is not installed")
    from bundles import Keys, make

    from litedelegate.customops.bundle import Bundle

    keys, x = Keys.make(), np.float32([2, 4, 6])
    for python_ops, delegates, want in (
        ({}, ["flex"], np.arctan(np.arctan(x)) + 1),
        ({"FlexAtan": "bundles:halves"}, [], x / 4 + 1),
    ):
        make(tmp_path / "b.ldb", keys, models={"main": chain()}, python_ops=python_ops)
        with (
            Bundle.open(
                tmp_path / "b.ldb", key=keys.secret, trusted=[keys.signer.public()]
            ) as bundle,
            bundle.interpreter() as interpreter,
        ):
            np.testing.assert_allclose(interpreter.run({"x": x})["y"], want, rtol=1e-6)
            assert [d.name for d in interpreter.delegates] == delegates
