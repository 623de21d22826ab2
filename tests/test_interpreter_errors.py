"""What an error says: every unknown op, versions, stale shapes, what pins a batch, broken files."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_models

from litedelegate import Interpreter, InvalidModelError, ModelBuilder, Registration
from litedelegate.kernels.types import DType
from litedelegate.runtime.tensor import LiveTensor
from litedelegate.runtime.values import get_value


def unresolved(content: bytes) -> str:
    interpreter = Interpreter(model_content=content)
    with pytest.raises(RuntimeError) as e:
        interpreter.allocate_tensors()
    return str(e.value)


def test_every_unknown_custom_op_is_listed() -> None:
    text = unresolved(
        toy_models.custom(("Atan", b"a" * 32), ("Foo", b"abc"), ("Atan", None), ("Bar", None))
    )
    assert text.startswith("Encountered unresolved custom op: Atan.")
    assert "See instructions: https://www.tensorflow.org/lite/guide/ops_custom" in text
    lines = text.splitlines()
    assert any("Atan version 1; node 0, 2; 0 to 32 bytes of options" in line for line in lines)
    assert any("Foo version 1; node 1; 3 bytes of options" in line for line in lines)
    assert any("Bar version 1; node 3" in line for line in lines)
    assert "custom_ops=" in text and "add_custom" in text
    assert "Node number 0 (Atan) failed to prepare." in text


def test_an_unknown_op_is_an_error_of_every_allocation() -> None:
    interpreter = Interpreter(model_content=toy_models.custom(("Atan", None)))
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"unresolved custom op: Atan\."):
            interpreter.allocate_tensors()
    with pytest.raises(RuntimeError, match=r"unresolved custom op: Atan\."):
        interpreter.run({"x": np.zeros(5, np.float32)})
    with pytest.raises(RuntimeError, match="not ready"):
        interpreter.invoke()


def test_a_name_that_is_noise_is_escaped_and_said_to_be() -> None:
    text = unresolved(toy_models.custom(("\x07\x1b\x02", None)))
    assert text.startswith(r"Encountered unresolved custom op: \x07\x1b\x02")
    assert "not a printable name" in text and "encrypted" in text
    assert text.replace("\n", "").isprintable()
    assert text.count("not a printable name") == 1
    assert r"custom_ops={'\x07\x1b\x02': function" in text


def test_flex_ops_are_called_so() -> None:
    text = unresolved(toy_models.custom(("FlexErf", None)))
    assert text.startswith(
        "Select TensorFlow op(s), included in the given model, is(are) not supported by this "
        "interpreter. Make sure you apply/link the Flex delegate before inference."
    )
    assert "Node number 0 (FlexErf) failed to prepare." in text
    assert "custom_ops={'FlexErf': function}" in text and "the same way" not in text


def test_versions_that_are_too_new_are_all_listed_by_the_constructor() -> None:
    content = toy_models.versioned(("ADD", 99), ("RELU", 1), ("MUL", 98), ("ADD", 99))
    with pytest.raises(ValueError) as e:
        Interpreter(model_content=content)
    text = str(e.value)
    assert "Didn't find op for builtin opcode 'ADD' version '99'." in text
    assert "An older version of this builtin might be supported." in text
    assert "ADD version 99; supported: 1 to 6; node 0, 3" in text
    assert "MUL version 98; supported: 1 to 8; node 2" in text or "MUL version 98; supp" in text
    assert "RELU" not in text


def test_custom_ops_are_named_beside_a_builtin_that_is_too_new() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    t = g.input("x", (2,))
    t = g.custom("Atan", [t], ("a", (2,), "float32"))
    t = g.custom("Known", [t], ("b", (2,), "float32"))
    g.outputs(g.op("RELU", [t], ("c", (2,), "float32"), version=99))
    with pytest.raises(ValueError) as e:
        Interpreter(model_content=b.build(), custom_ops={"Known": lambda x: x})
    text = str(e.value)
    assert "RELU version 99" in text
    assert "unresolved too:\n  Atan version 1; node 0;" in text and "Known" not in text


def test_details_are_marked_stale_after_a_resize() -> None:
    interpreter = Interpreter(model_content=toy_models.flexible_batch())
    out = interpreter.get_output_details()[0]
    assert out.shape_is == "known" and "stale" not in repr(out)
    interpreter.resize_tensor_input(0, [3, 2, 2])
    (inp,), (out,) = interpreter.get_input_details(), interpreter.get_output_details()
    assert inp["shape"].tolist() == [3, 2, 2] and inp.shape_is == "known"
    assert out["shape"].tolist() == [1, 4] and out.shape_is == "stale" and "stale" in repr(out)
    interpreter.allocate_tensors()
    out = interpreter.get_output_details()[0]
    assert out["shape"].tolist() == [3, 4] and out.shape_is == "known"


def test_details_are_marked_dynamic() -> None:
    interpreter = Interpreter(model_content=toy_models.dynamic())
    interpreter.allocate_tensors()
    out = interpreter.get_output_details()[0]
    assert out.shape_is == "dynamic" and "dynamic" in repr(out)
    with pytest.raises(ValueError, match="Tensor data is null"):
        interpreter.get_tensor(out["index"])


def test_the_constant_that_pins_the_batch_is_named() -> None:
    interpreter = Interpreter(model_content=toy_models.pinned_batch())
    interpreter.resize_tensor_input(0, [3, 2, 2])
    with pytest.raises(RuntimeError) as e:
        interpreter.allocate_tensors()
    text = str(e.value)
    for part in ("'flat_shape'", "[1, 4]", "'x' from [1, 2, 2] to [3, 2, 2]", "RESHAPE"):
        assert part in text
    assert "Node number 0 (RESHAPE) failed to prepare." in text
    interpreter.resize_tensor_input(0, [1, 2, 2])
    interpreter.allocate_tensors()
    interpreter.invoke()


def test_an_op_that_does_not_know_of_batches_has_its_constants_named_too() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (1, 4))
    shape = g.constant("target", np.array([1, 4], np.int32))
    g.outputs(g.op("BROADCAST_TO", [x, shape], ("y", (1, 4), "float32"), version=2))
    interpreter = Interpreter(model_content=b.build())
    interpreter.resize_tensor_input(0, [3, 4])
    with pytest.raises(RuntimeError) as e:
        interpreter.allocate_tensors()
    assert "'target'" in str(e.value) and "Resized: 'x' from [1, 4] to [3, 4]" in str(e.value)


def test_an_error_in_invoke_names_the_node() -> None:
    def fail(x: object) -> None:
        raise KeyError("lost")

    interpreter = Interpreter(
        model_content=toy_models.custom(("Fine", None), ("Bad", None)),
        custom_ops={"Fine": lambda x: x, "Bad": fail},
    )
    with pytest.raises(RuntimeError) as e:
        interpreter.run({"x": np.zeros(5, np.float32)})
    assert "KeyError: 'lost'" in str(e.value)
    assert "Node number 1 (Bad) failed to invoke." in str(e.value)
    assert isinstance(e.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (
            "schema_version_2",
            "Model provided is schema version 2 not equal to supported version 3.",
        ),
        ("no_subgraph", "No subgraph in the model."),
        ("element_count_overflow", "The model is not a valid Flatbuffer buffer"),
    ],
)
def test_malformed_models(models: Path, file: str, text: str) -> None:
    with pytest.raises(ValueError) as e:
        Interpreter(models / "malformed" / f"{file}.tflite")
    assert text in str(e.value)


@pytest.mark.parametrize("shape", [(5,), (3,)])
def test_the_cause_of_a_failed_allocation_is_the_ops_own_error(shape: tuple[int, ...]) -> None:
    def prepare(context: object, node: object) -> None:
        raise KeyError("lost")

    op = Registration(prepare=prepare, invoke=prepare)
    interpreter = Interpreter(
        model_content=toy_models.custom(("Bad", None)), custom_ops={"Bad": op}
    )
    interpreter.resize_tensor_input(0, shape)
    with pytest.raises(RuntimeError, match="KeyError: 'lost'") as e:
        interpreter.allocate_tensors()
    assert isinstance(e.value.__cause__, KeyError)
    assert ("Resized" in str(e.value)) == (shape != (5,))


def test_a_broken_file_names_the_place() -> None:
    content = bytearray(toy_models.add())
    with pytest.raises(InvalidModelError, match="The model is not a valid Flatbuffer buffer"):
        Interpreter(model_content=bytes(content[:60]))
    content[4:8] = b"TFL1"
    with pytest.raises(InvalidModelError, match="identifier"):
        Interpreter(model_content=bytes(content))


# -- what an interpreter is given


@pytest.mark.parametrize("text", ["get_tensor", "tensor"])
def test_a_tensor_that_a_node_makes_wants_allocation(text: str) -> None:
    interpreter = Interpreter(model_content=toy_models.chain(1))
    out = interpreter.get_output_details()[0]["index"]
    read = interpreter.tensor(out) if text == "tensor" else lambda: interpreter.get_tensor(out)
    with pytest.raises(ValueError, match=r"allocate_tensors\(\) has not been called") as e:
        read()
    assert "no node makes it" not in str(e.value)


def test_a_tensor_that_nobody_makes_is_said_to_be_so() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (2,))
    alone = g.tensor("alone", (2,))
    g.outputs(g.op("RELU", [x], ("y", (2,), "float32")), alone)
    interpreter = Interpreter(model_content=b.build())
    interpreter.allocate_tensors()
    with pytest.raises(ValueError, match="no node makes it"):
        interpreter.get_tensor(interpreter.get_output_details()[1]["index"])


def test_wrong_values_of_object_arrays_and_for_strings() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    text, number = g.input("text", (2,), "string"), g.input("number", (2,))
    g.outputs(text, number)
    interpreter = Interpreter(model_content=b.build())
    interpreter.allocate_tensors()
    with pytest.raises(ValueError, match=r"expected type STRING.*takes str or bytes"):
        interpreter.set_tensor(0, [1, 2])
    with pytest.raises(ValueError, match=r"type STRING but expected type FLOAT32.*NoneType"):
        interpreter.set_tensor(1, None)


def test_values_of_another_byte_order_are_taken() -> None:
    interpreter = Interpreter(model_content=toy_models.chain(1, (3,)))
    for order in "<>":
        x = np.array([1, 2, 3], f"{order}f4")
        assert interpreter.run({"t0": x})["t1"].tolist() == [2, 3, 4]
        interpreter.set_tensor(0, x)
        assert interpreter.get_tensor(0).tolist() == [1, 2, 3]


def test_a_closed_interpreter_says_so_whatever_is_held() -> None:
    interpreter = Interpreter(model_content=toy_models.chain(1))
    interpreter.allocate_tensors()
    view = interpreter.tensor(0)()
    interpreter.close()
    for call in (
        interpreter.invoke,
        interpreter.allocate_tensors,
        lambda: interpreter.resize_tensor_input(0, [1, 1000]),
        lambda: interpreter.run({"t0": np.zeros((1, 1000), np.float32)}),
        interpreter.__enter__,
    ):
        with pytest.raises(ValueError, match="closed"):
            call()
    assert view.shape == (1, 1000)


@pytest.mark.parametrize("strict", [False, True])
def test_more_dimensions_than_there_are(strict: bool) -> None:
    interpreter = Interpreter(model_content=toy_models.chain(1))
    with pytest.raises(RuntimeError, match="input 0 't0' has 100 dimensions; at most"):
        interpreter.resize_tensor_input(0, [1] * 100, strict)
    interpreter.allocate_tensors()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"custom_ops": [abs]}, "custom_ops is {name: function"),
        ({"custom_ops": {3: abs}}, "custom_ops is {name: function"),
        ({"op_resolver": object()}, "op_resolver has find_op"),
        ({"keep": "t0"}, r"\['t0'\]"),
        ({"keep": [1.5]}, "1.5 is neither the name nor the number"),
        ({"keep": [True]}, "True is neither"),
    ],
)
def test_arguments_of_the_wrong_kind(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        Interpreter(model_content=toy_models.chain(1), **arguments)


def test_model_content_of_any_kind_of_bytes(tmp_path: Path) -> None:
    content = toy_models.chain(1, (2,))
    path = tmp_path / "m.tflite"
    path.write_bytes(content)
    doubled = np.repeat(np.frombuffer(content, np.uint8), 2)
    with open(path, "rb") as f:
        mapped = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    kinds: list[Any] = [
        content,
        bytearray(content),
        memoryview(content),
        np.frombuffer(content, np.uint8),
        doubled[::2],
        memoryview(doubled)[::2],
        mapped,
    ]
    for kind in kinds:
        with Interpreter(model_content=kind) as interpreter:
            assert interpreter.run({"t0": [1, 2]})["t1"].tolist() == [2, 3]
    for none in (b"", np.zeros(0, np.uint8), None):
        with pytest.raises(ValueError, match="must be specified"):
            Interpreter(model_content=none)
    with pytest.raises(TypeError, match="content is bytes, not int"):
        Interpreter(model_content=5)  # type: ignore[arg-type]


def test_paths_in_bytes_and_devices() -> None:
    with pytest.raises(ValueError, match=r"Could not open '/no/such/file'\."):
        Interpreter(model_path=b"/no/such/file")  # type: ignore[arg-type]
    if Path("/dev/zero").exists():
        with pytest.raises(ValueError, match="/dev/zero is no regular file"):
            Interpreter(model_path="/dev/zero")


def test_a_value_too_large_to_copy_is_named() -> None:
    huge = np.broadcast_to(np.float32(0), (1 << 50,))
    tensor = LiveTensor(3, "logits", huge.shape, DType.FLOAT32, const=huge, allocation="mmap_ro")
    with pytest.raises(MemoryError, match=r"tensor 3 'logits', float32\[1125899906842624\], takes"):
        get_value(tensor)
