"""`FlatBufferModel`, `ErrorReporter`, `InterpreterBuilder`: TensorFlow Lite's order and words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_models

from litedelegate import (
    BuiltinOpResolver,
    ErrorReporter,
    FlatBufferModel,
    Interpreter,
    InterpreterBuilder,
    ModelBuilder,
    OpError,
    Registration,
)


def model_of(builder: ModelBuilder) -> FlatBufferModel:
    model = FlatBufferModel.build_from_buffer(builder.build())
    assert model is not None
    return model


class Asked(BuiltinOpResolver):
    """Writes down what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[Any, int]] = []

    def find_op(
        self, op: Any, version: int = 1, *, custom: bool | None = None
    ) -> Registration | None:
        self.asked.append((op, version))
        return super().find_op(op, version, custom=custom)


def fails(model: FlatBufferModel | None, resolver: Any = None) -> str:
    """The error; it is reported too."""
    reporter = ErrorReporter()
    build = InterpreterBuilder(model, resolver or BuiltinOpResolver(), error_reporter=reporter)
    with pytest.raises(ValueError) as e:
        build()
    assert reporter.messages == [str(e.value)]
    return str(e.value)


def test_builds_interpreters() -> None:
    model = FlatBufferModel.build_from_buffer(toy_models.add())
    assert model is not None
    build = InterpreterBuilder(model, BuiltinOpResolver())
    one, two = build(), build(num_threads=3)
    x = np.ones((1, 4), np.float32)
    assert one.run({"a": x, "b": x})["sum"][0, 0] == 2
    assert two.num_threads == 3
    two.allocate_tensors()


def test_a_null_model() -> None:
    assert fails(None) == "Null pointer passed in as model."


def test_the_schema_version_comes_before_all_else() -> None:
    builder = ModelBuilder()
    builder.values["version"] = 2
    builder.operator_code("NoSuchOp", True, 1)
    resolver = Asked()
    text = fails(model_of(builder), resolver)
    assert text == "Model provided is schema version 2 not equal to supported version 3."
    assert resolver.asked == []


def test_registrations_come_before_absent_parts() -> None:
    builder = ModelBuilder()
    builder.operator_code("ADD", False, 99)
    builder.values["subgraphs"] = []
    text = fails(model_of(builder))
    assert "Didn't find op for builtin opcode 'ADD' version '99'" in text
    assert "Registration failed." in text


def test_each_operator_code_is_asked_for_once() -> None:
    builder = ModelBuilder.from_model(model_of_bytes(toy_models.chain(50)).model)
    builder.operator_code("MUL", False, 1)  # no node uses it
    resolver = Asked()
    interpreter = InterpreterBuilder(model_of(builder), resolver)()
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert resolver.asked == [("ADD", 1), ("MUL", 1)]


def model_of_bytes(content: bytes) -> FlatBufferModel:
    model = FlatBufferModel.build_from_buffer(content)
    assert model is not None
    return model


def test_no_subgraph() -> None:
    assert fails(model_of(ModelBuilder())) == "No subgraph in the model."
    builder = ModelBuilder()
    builder.values["subgraphs"] = None
    assert fails(model_of(builder)) == "No subgraph in the model."


def test_no_buffers() -> None:
    builder = ModelBuilder()
    builder.subgraph()
    del builder.values["buffers"]
    assert fails(model_of(builder)) == "No buffers in the model."


def test_no_tensors() -> None:
    builder = ModelBuilder()
    builder.subgraph()
    builder.subgraph().values["tensors"] = None
    assert fails(model_of(builder)) == "Did not get tensors in subgraph 1."


@pytest.mark.parametrize("operators", [None, []])
def test_a_subgraph_without_operators_builds(operators: list[Any] | None) -> None:
    builder = ModelBuilder()
    graph = builder.subgraph()
    graph.outputs(graph.input("x", (2,)))
    graph.values["operators"] = operators
    interpreter = InterpreterBuilder(model_of(builder), BuiltinOpResolver())()
    with pytest.raises(RuntimeError, match="Invoke called on model that is not ready"):
        interpreter.invoke()
    assert interpreter.run({"x": [1, 2]})["x"].tolist() == [1, 2]


def test_no_custom_name() -> None:
    builder = ModelBuilder()
    builder.subgraph()
    builder.values["operator_codes"] = [{"deprecated_builtin_code": 32, "builtin_code": 32}]
    assert "Operator with CUSTOM builtin_code has no custom_code." in fails(model_of(builder))


def test_an_operator_number_beyond_the_schema() -> None:
    builder = ModelBuilder()
    builder.subgraph()
    builder.values["operator_codes"] = [{"deprecated_builtin_code": 127, "builtin_code": 999}]
    assert "Op builtin_code out of range: 999" in fails(model_of(builder))


def test_unresolved_custom_ops_are_left_for_allocation() -> None:
    interpreter = InterpreterBuilder(
        model_of_bytes(toy_models.custom(("Atan", None))), BuiltinOpResolver()
    )()
    with pytest.raises(RuntimeError, match=r"Encountered unresolved custom op: Atan\."):
        interpreter.allocate_tensors()


def test_the_reporter_hears_of_what_happens_later_too() -> None:
    def prepare(context: Any, node: Any) -> None:
        context.report("careful")
        context.resize(node.outputs[0], node.inputs[0].shape)

    def invoke(context: Any, node: Any) -> None:
        raise OpError("tired")

    resolver = BuiltinOpResolver()
    resolver.add_custom("Sloth", Registration(prepare=prepare, invoke=invoke))
    content = toy_models.custom(("Sloth", None))
    reporter = ErrorReporter()
    interpreter = InterpreterBuilder(model_of_bytes(content), resolver, error_reporter=reporter)()
    with pytest.raises(RuntimeError, match="not ready"):
        interpreter.invoke()
    interpreter.allocate_tensors()
    with pytest.raises(RuntimeError, match="tired"):
        interpreter.invoke()
    first, second, third = reporter.messages
    assert "not ready" in first and second == "careful" and third.startswith("tired\nNode number 0")
    with pytest.warns(UserWarning, match="careful"):
        Interpreter(model_content=content, op_resolver=resolver).allocate_tensors()


def test_threads() -> None:
    build = InterpreterBuilder(model_of_bytes(toy_models.add()), BuiltinOpResolver())
    with pytest.raises(ValueError, match="num_threads should be >= 0 or just -1"):
        build.set_num_threads(-2)
    build.set_num_threads(2)
    assert build().num_threads == 2
    build.set_num_threads(-1)
    assert build().num_threads >= 1


def test_unknown_delegates_fail_last() -> None:
    build = InterpreterBuilder(model_of_bytes(toy_models.add()), BuiltinOpResolver())
    build.add_delegate("no such delegate")
    with pytest.raises(ValueError, match="'no such delegate'"):
        build()


# -- FlatBufferModel


def test_from_file(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(toy_models.add())
    for make in (FlatBufferModel.build_from_file, FlatBufferModel.verify_and_build_from_file):
        model = make(path)
        assert model is not None and len(model.model.subgraphs) == 1


@pytest.mark.parametrize("name", ["build_from_file", "verify_and_build_from_file"])
def test_a_file_that_is_not_there_is_reported(tmp_path: Path, name: str) -> None:
    reporter = ErrorReporter()
    make = getattr(FlatBufferModel, name)
    assert make(tmp_path / "none", error_reporter=reporter) is None
    assert f"Could not open '{tmp_path / 'none'}'." in reporter.messages[0]


@pytest.mark.parametrize("name", ["build_from_buffer", "verify_and_build_from_buffer"])
def test_a_broken_buffer_is_reported(name: str) -> None:
    reporter = ErrorReporter()
    make = getattr(FlatBufferModel, name)
    assert make(toy_models.add()[:50], error_reporter=reporter) is None
    (text,) = reporter.messages
    assert "The model is not a valid Flatbuffer buffer" in text


def test_the_default_reporter_is_the_error_stream(capsys: pytest.CaptureFixture[str]) -> None:
    assert FlatBufferModel.build_from_buffer(b"nothing of the kind") is None
    assert "not a valid Flatbuffer" in capsys.readouterr().err


def test_an_extra_verifier() -> None:
    content = toy_models.add()
    seen: list[int] = []
    reporter = ErrorReporter()
    make = FlatBufferModel.verify_and_build_from_buffer
    assert make(content, lambda data: not seen.append(data.size)) is not None
    assert seen == [len(content)]
    assert make(content, lambda data: False, reporter) is None
    assert "extra verifier" in reporter.messages[0]


def test_metadata() -> None:
    builder = ModelBuilder(min_runtime_version="2.7.0")
    builder.metadata("author", b"somebody")
    builder.subgraph()
    model = model_of(builder)
    assert model.minimum_runtime == "2.7.0"
    assert model.metadata["author"].tobytes() == b"somebody"
