"""`Interpreter` as a drop-in: the calls of tf.lite.Interpreter, their values and their errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import toy_models

from litedelegate import Interpreter, InterpreterWithCustomOps, OpResolverType, load_delegate

X = np.array([[1, 2, 3, 4]], np.float32)


def ready(content: bytes, **options: object) -> Interpreter:
    interpreter = Interpreter(model_content=content, **options)
    interpreter.allocate_tensors()
    return interpreter


def test_set_invoke_get() -> None:
    interpreter = ready(toy_models.flexible_batch())
    (inp,) = interpreter.get_input_details()
    (out,) = interpreter.get_output_details()
    interpreter.set_tensor(inp["index"], np.array([[[1, -2], [-3, 4]]], np.float32))
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(out["index"]), [[1, 0, 0, 4]])


def test_from_a_path(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(toy_models.add())
    for given in (path, str(path)):
        assert Interpreter(given).get_input_details()[0]["name"] == "x:0"
        assert Interpreter(model_path=given).num_subgraphs() == 1


def test_get_tensor_gives_a_copy() -> None:
    interpreter = ready(toy_models.flexible_batch())
    interpreter.set_tensor(0, np.ones((1, 2, 2), np.float32))
    interpreter.invoke()
    index = interpreter.get_output_details()[0]["index"]
    first = interpreter.get_tensor(index)
    first[...] = 7
    np.testing.assert_array_equal(interpreter.get_tensor(index), np.ones((1, 4)))


def test_details_have_the_keys_and_types_of_tensorflow_lite() -> None:
    detail = Interpreter(model_content=toy_models.quantised()).get_input_details()[0]
    assert list(detail) == [
        "name",
        "index",
        "shape",
        "shape_signature",
        "dtype",
        "quantization",
        "quantization_parameters",
        "sparsity_parameters",
    ]
    assert (detail["name"], detail["index"], detail["dtype"]) == ("image", 0, np.uint8)
    assert detail["shape"].dtype == detail["shape_signature"].dtype == np.int32
    assert detail["quantization"] == (0.0078125, 128)
    parameters = detail["quantization_parameters"]
    assert parameters["scales"].dtype == np.float32
    assert parameters["zero_points"].dtype == np.int32
    assert (parameters["quantized_dimension"], parameters["block_size"]) == (0, 0)
    assert detail["sparsity_parameters"] == {}


def test_op_details() -> None:
    interpreter = Interpreter(model_content=toy_models.add())
    (op,) = interpreter._get_ops_details()
    assert op["index"] == 0 and op["op_name"] == "ADD"
    np.testing.assert_array_equal(op["inputs"], [0, 1])
    np.testing.assert_array_equal(op["outputs"], [2])
    assert op["operand_types"] == [np.float32, np.float32] and op["result_types"] == [np.float32]


def test_shape_signature() -> None:
    x, _ = Interpreter(model_content=toy_models.add()).get_input_details()
    np.testing.assert_array_equal(x["shape"], [1, 4])
    np.testing.assert_array_equal(x["shape_signature"], [-1, 4])


def test_tensor_gives_live_views() -> None:
    interpreter = ready(toy_models.flexible_batch())
    x = interpreter.tensor(0)
    y = interpreter.tensor(interpreter.get_output_details()[0]["index"])
    x().fill(3)
    interpreter.invoke()
    np.testing.assert_array_equal(y(), np.full((1, 4), 3))


@pytest.mark.parametrize("call", ["invoke", "allocate_tensors", "resize_tensor_input"])
def test_a_held_view_is_named(call: str) -> None:
    interpreter = ready(toy_models.flexible_batch())
    arguments = (0, [2, 2, 2]) if call == "resize_tensor_input" else ()
    held = interpreter.tensor(0)()
    with pytest.raises(RuntimeError, match=r"at least 1 reference to internal data.*'x'"):
        getattr(interpreter, call)(*arguments)
    part = held[:, 1:]
    del held
    with pytest.raises(RuntimeError, match="'x'"):
        getattr(interpreter, call)(*arguments)
    del part
    getattr(interpreter, call)(*arguments)


def test_a_view_in_a_dead_cycle_is_not_held() -> None:
    interpreter = ready(toy_models.flexible_batch())
    cycle: list[object] = [interpreter.tensor(0)()]
    cycle.append(cycle)
    del cycle
    interpreter.invoke()


def test_views_that_are_gone_are_forgotten() -> None:
    interpreter = ready(toy_models.flexible_batch())
    view = interpreter.tensor(0)
    for _ in range(1000):
        view()[0, 0, 0] = 1
    assert len(interpreter._views._lent) < 100


def test_views_of_two_tensors_are_both_named() -> None:
    interpreter = ready(toy_models.add())
    held = [interpreter.tensor(0)(), interpreter.tensor(1)()]
    with pytest.raises(RuntimeError, match=r"'x:0' .*'y:0'"):
        interpreter.invoke()
    del held


def test_resize() -> None:
    interpreter = ready(toy_models.flexible_batch())
    interpreter.resize_tensor_input(0, [3, 2, 2])
    with pytest.raises(RuntimeError, match="Invoke called on model that is not ready"):
        interpreter.invoke()
    with pytest.raises(
        ValueError, match=r"Tensor is unallocated. Try calling allocate_tensors\(\)"
    ):
        interpreter.set_tensor(0, np.ones((3, 2, 2), np.float32))
    interpreter.allocate_tensors()
    x = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    out = interpreter.get_output_details()[0]
    np.testing.assert_array_equal(out["shape"], [3, 4])
    np.testing.assert_array_equal(interpreter.get_tensor(out["index"]), x.reshape(3, 4))


def test_resize_to_the_same_shape_changes_nothing() -> None:
    interpreter = ready(toy_models.flexible_batch())
    interpreter.resize_tensor_input(0, [1, 2, 2])
    interpreter.invoke()


def test_strict_resize() -> None:
    interpreter = Interpreter(model_content=toy_models.flexible_batch())
    interpreter.resize_tensor_input(0, [5, 2, 2], strict=True)
    with pytest.raises(
        RuntimeError,
        match=r"Attempting to resize dimension 1 of tensor 0 with value 2 to 3. "
        "ResizeInputTensorStrict only allows mutating unknown dimensions identified by -1.",
    ):
        interpreter.resize_tensor_input(0, [5, 3, 2], strict=True)
    with pytest.raises(RuntimeError, match="keeps its rank"):
        interpreter.resize_tensor_input(0, [5, 2], strict=True)


def test_bad_resizes() -> None:
    interpreter = Interpreter(model_content=toy_models.flexible_batch())
    with pytest.raises(RuntimeError, match="Attempting to resize a fixed-size tensor"):
        interpreter.resize_tensor_input(1, [5])
    with pytest.raises(RuntimeError, match="negative"):
        interpreter.resize_tensor_input(0, [-1, 2, 2])
    with pytest.raises(RuntimeError, match=r"tensor_index < context_.tensors_size"):
        interpreter.resize_tensor_input(99, [1])
    with pytest.raises(ValueError, match="Shape should be 1D instead of 2"):
        interpreter.resize_tensor_input(0, [[1]])


@pytest.mark.filterwarnings("ignore::litedelegate.PositionalInputWarning")
def test_before_allocation() -> None:
    interpreter = Interpreter(model_content=toy_models.add())
    with pytest.raises(RuntimeError, match="Invoke called on model that is not ready"):
        interpreter.invoke()
    with pytest.raises(ValueError, match=r"Tensor data is null. Run allocate_tensors\(\) first"):
        interpreter.get_tensor(0)
    with pytest.raises(ValueError, match=r"Tensor data is null. Run allocate_tensors\(\) first"):
        interpreter.tensor(0)()
    with pytest.raises(ValueError, match="Cannot set tensor: Tensor is unallocated"):
        interpreter.set_tensor(0, X)


@pytest.mark.filterwarnings("ignore::litedelegate.PositionalInputWarning")
def test_set_tensor_errors() -> None:
    interpreter = ready(toy_models.add())
    cases = [
        (0, X.astype(np.float64), "type FLOAT64 but expected type FLOAT32 for input 0, name: x:0"),
        (0, X.astype(np.uint8), "Got value of type UINT8 but expected type FLOAT32 for input 0"),
        (0, X[0], "Dimension mismatch. Got 1 but expected 2 for input 0"),
        (0, X[:, :3], "Dimension mismatch. Got 3 but expected 4 for dimension 1 of input 0"),
        (99, X, "Invalid tensor index 99 exceeds max tensor index 3"),
        (-1, X, "Invalid tensor index -1 exceeds max tensor index 3"),
    ]  # fmt: skip
    for index, value, text in cases:
        with pytest.raises(ValueError) as e:
            interpreter.set_tensor(index, value)
        assert text in str(e.value)
    with pytest.raises(TypeError, match="run"):
        interpreter.set_tensor("x:0", X)  # type: ignore[arg-type]


def test_constants_cannot_be_set() -> None:
    interpreter = ready(toy_models.flexible_batch())
    constant = next(t for t in interpreter.get_tensor_details() if t["name"] == "flat_shape")
    with pytest.raises(ValueError, match="'flat_shape' is a constant"):
        interpreter.set_tensor(constant["index"], np.array([1, 4], np.int32))
    np.testing.assert_array_equal(interpreter.get_tensor(constant["index"]), [-1, 4])


def test_index_errors() -> None:
    interpreter = ready(toy_models.add())
    with pytest.raises(ValueError, match="Invalid subgraph index 3 exceeds max subgraph index 1"):
        interpreter.get_tensor(0, 3)
    with pytest.raises(ValueError, match="subgraph_index is out of range: 3 for the model"):
        interpreter.get_tensor_details(3)
    with pytest.raises(ValueError, match="Invalid node index"):
        interpreter._get_op_details(9)


def test_constructor_errors(tmp_path: Path) -> None:
    content = toy_models.add()
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(content[:100])
    cases: list[tuple[dict[str, object], str]] = [
        ({}, "`model_path` or `model_content` must be specified."),
        ({"model_path": "a", "model_content": content}, "Can't both provide `model_path` and"),
        ({"model_path": tmp_path / "none"}, f"Could not open '{tmp_path / 'none'}'."),
        ({"model_path": tmp_path / "none"}, "The model allocation is null/empty"),
        ({"model_path": broken}, "The model is not a valid Flatbuffer buffer"),
        ({"model_content": b"abcdabcdabcd"}, "The model is not a valid Flatbuffer buffer"),
        ({"model_content": content, "num_threads": 0}, "num_threads should >= 1"),
        ({"model_content": content, "num_threads": "1"}, "type of num_threads should be int"),
        ({"model_content": content, "experimental_op_resolver_type": 9}, "op resolver type: 9"),
    ]  # fmt: skip
    for arguments, text in cases:
        with pytest.raises(ValueError) as e:
            Interpreter(**arguments)  # type: ignore[arg-type]
        assert text in str(e.value)


@pytest.mark.parametrize("kind", list(OpResolverType))
def test_all_resolver_types_are_the_same_kernels(kind: OpResolverType) -> None:
    interpreter = ready(toy_models.flexible_batch(), experimental_op_resolver_type=kind)
    interpreter.invoke()


def test_all_constructor_arguments_of_tensorflow_lite_are_taken() -> None:
    Interpreter(
        model_path=None,
        model_content=toy_models.add(),
        experimental_delegates=None,
        num_threads=2,
        experimental_op_resolver_type=OpResolverType.AUTO,
        experimental_preserve_all_tensors=True,
        experimental_disable_delegate_clustering=True,
        experimental_default_delegate_latest_features=True,
        experimental_compress_quantization_zero_points=True,
        experimental_disable_delegate_node_fusion=True,
        experimental_force_delegate_node_profiling=True,
    )


def test_compressed_zero_points() -> None:
    from litedelegate import ModelBuilder

    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (1, 2), "int8", scale=[0.5, 0.25], zero_point=[0, 0], axis=1)
    g.outputs(x)
    content = b.build()
    for compress, count in ((False, 2), (True, 1)):
        interpreter = Interpreter(
            model_content=content, experimental_compress_quantization_zero_points=compress
        )
        assert interpreter.experimental_compress_quantization_zero_points is compress
        detail = interpreter.get_input_details()[0]
        assert detail["quantization_parameters"]["zero_points"].size == count
        assert detail["quantization_parameters"]["quantized_dimension"] == 1
        assert detail["quantization"] == (0.0, 0)


def test_strings() -> None:
    from litedelegate import ModelBuilder

    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("text", (2,), "string")
    shape = g.constant("shape", np.array([2, 1], np.int32))
    g.outputs(g.op("RESHAPE", [x, shape], ("out", (2, 1), "string")))
    interpreter = ready(b.build())
    assert interpreter.get_input_details()[0]["dtype"] is np.bytes_
    for value in (np.array(["ä", "b"]), np.array([b"\xc3\xa4", b"b"]), ["ä", b"b"]):
        interpreter.set_tensor(0, value)
        interpreter.invoke()
        got = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        assert got.dtype == object
        assert got.tolist() == [["ä".encode()], [b"b"]]
    with pytest.raises(ValueError, match="expected type STRING"):
        interpreter.set_tensor(0, np.zeros(2, np.int32))


def test_int4_values_are_checked() -> None:
    from litedelegate import ModelBuilder

    b = ModelBuilder()
    g = b.subgraph()
    g.outputs(g.input("x", (2,), "int4"))
    interpreter = ready(b.build())
    interpreter.set_tensor(0, np.array([-8, 7], np.int8))
    np.testing.assert_array_equal(interpreter.get_tensor(0), [-8, 7])
    with pytest.raises(ValueError, match="must be between -8 and 7"):
        interpreter.set_tensor(0, np.array([-9, 7], np.int8))


def test_custom_op_registerers() -> None:
    from litedelegate import MutableOpResolver, custom_op

    @custom_op("Twice", shape="same")
    def twice(x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return 2 * x

    def register(resolver: MutableOpResolver) -> None:
        resolver.add_custom("Twice", twice.registration)

    content = toy_models.custom(("Twice", None), shape=(2,))
    interpreter = InterpreterWithCustomOps(custom_op_registerers=[register], model_content=content)
    np.testing.assert_array_equal(interpreter.run({"x": [1, 2]})["y0"], [2, 4])
    with pytest.raises(ValueError, match="Looking up symbol 'TfLiteTwice' failed with error"):
        InterpreterWithCustomOps(custom_op_registerers=["TfLiteTwice"], model_content=content)

    def broken(resolver: MutableOpResolver) -> None:
        raise ZeroDivisionError("by zero")

    with pytest.raises(ValueError, match="registerer 'broken' of custom ops failed: ZeroDivision"):
        InterpreterWithCustomOps(custom_op_registerers=[broken], model_content=content)


def test_no_delegates_is_the_cpu() -> None:
    for arguments in ({"delegates": []}, {"delegates": None}, {"experimental_delegates": []}):
        ready(toy_models.flexible_batch(), **arguments).invoke()


def test_an_unknown_delegate_is_looked_up() -> None:
    with pytest.raises(ValueError) as e:
        Interpreter(model_content=toy_models.add(), delegates=["no such delegate"])
    assert "'no such delegate'" in str(e.value) and "litedelegate.delegates" in str(e.value)


def test_load_delegate_says_what_is_missing(tmp_path: Path) -> None:
    missing = tmp_path / "libnone.so"
    with pytest.raises(ValueError) as e:
        load_delegate(str(missing))
    assert f"Failed to load delegate from {missing}" in str(e.value)
    assert "no such file" in str(e.value)
    text = tmp_path / "libtext.so"
    text.write_text("this is no library")
    with pytest.raises(ValueError, match="the file is there"):
        load_delegate(str(text))
    with pytest.raises(TypeError, match="options"):
        load_delegate(str(missing), ["a"])  # type: ignore[arg-type]


def test_closed() -> None:
    interpreter = ready(toy_models.add())
    interpreter.close()
    interpreter.close()
    for call in (
        interpreter.invoke,
        interpreter.allocate_tensors,
        interpreter.get_input_details,
        lambda: interpreter.get_tensor(0),
        lambda: interpreter.run({}),
        lambda: interpreter.memory,
        interpreter.clone,
    ):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_variables_are_reset_by_allocation_and_by_hand() -> None:
    from litedelegate import custom_op

    @custom_op("Count")
    def count(x, state):  # type: ignore[no-untyped-def]
        state += x
        return state

    interpreter = Interpreter(model_content=toy_models.counter(), custom_ops={"Count": count})
    interpreter.allocate_tensors()
    out = interpreter.get_output_details()[0]["index"]
    for expected in (1, 2, 3):
        interpreter.set_tensor(0, np.ones(2, np.float32))
        interpreter.invoke()
        assert interpreter.get_tensor(out).tolist() == [expected] * 2
    interpreter.allocate_tensors()  # nothing was resized: nothing is reset
    assert interpreter.variables["state"].tolist() == [3, 3]
    interpreter.reset_all_variables()
    assert interpreter.variables["state"].tolist() == [0, 0]
    state = next(t for t in interpreter.get_tensor_details() if t["name"] == "state")
    interpreter.set_tensor(state["index"], np.full(2, 10, np.float32))
    interpreter.invoke()
    assert interpreter.get_tensor(out).tolist() == [11, 11]
