"""From TensorFlow to a running model: the guide's flow, and an op of one's own on both sides."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from c_libraries import built

from litedelegate import Interpreter, Model
from litedelegate.customops.build import BuildFailed, find_compiler

tf = pytest.importorskip(
    "tensorflow", reason="TensorFlow is not installed: pip install '.[tensorflow]'"
)


def example(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{path.stem}_example", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def atan(root: Path) -> ModuleType:
    return example(root / "examples" / "convert_atan.py")


@pytest.fixture(scope="module")
def trained(atan: ModuleType) -> Any:
    model = atan.Model()
    atan.train(model)
    return model


def test_train_convert_run(atan: ModuleType, trained: Any) -> None:
    assert trained.offset.numpy() == pytest.approx(1, abs=1e-3)
    with pytest.raises(Exception, match=r"Some ops in the model are custom ops|neither a custom"):
        atan.convert(trained, allow_custom_ops=False)
    model = atan.convert(trained, allow_custom_ops=True)
    assert [o.op for o in Model.from_buffer(model).subgraphs[0].operators] == ["ADD", "Atan"]
    with pytest.raises(RuntimeError, match="Encountered unresolved custom op: Atan"):
        atan.run(model, {})
    theirs = trained(atan.X).numpy()
    in_python = atan.run(model, {"Atan": atan.atan})
    np.testing.assert_allclose(in_python, theirs, rtol=1e-6)
    np.testing.assert_allclose(in_python, atan.Y, rtol=1e-3)


def test_the_same_in_c(atan: ModuleType, trained: Any) -> None:
    from litedelegate import load_op_library

    model = atan.convert(trained, allow_custom_ops=True)
    in_c = atan.run(model, load_op_library(built("examples/atan_c/atan.c")))
    np.testing.assert_allclose(in_c, trained(atan.X).numpy(), rtol=1e-6)


def test_the_same_by_tensorflow(atan: ModuleType, trained: Any) -> None:
    """With its operators allowed the converter writes FlexAtan, and nothing is to be given."""
    function = trained.__call__.get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], trained)
    ops = tf.lite.OpsSet
    converter.target_spec.supported_ops = [ops.TFLITE_BUILTINS, ops.SELECT_TF_OPS]
    model = converter.convert()
    assert [o.op for o in Model.from_buffer(model).subgraphs[0].operators] == ["ADD", "FlexAtan"]
    np.testing.assert_allclose(atan.run(model, None), trained(atan.X).numpy(), rtol=1e-6)


class Implementing(tf.Module):  # type: ignore[misc,name-defined]
    """y = 2 * atan(x + 1), the sum and atan in a function that says which op it stands for."""

    @tf.function(  # type: ignore[untyped-decorator]
        experimental_implements='name: "ShiftedAtan" '
        'attr { key: "tfl_fusable_op" value { b: true } } attr { key: "offset" value { f: 1.0 } }'
    )
    def shifted(self, x: Any) -> Any:
        return tf.atan(x + 1)

    @tf.function(input_signature=[tf.TensorSpec([5], tf.float32, "x")])  # type: ignore[untyped-decorator]
    def __call__(self, x: Any) -> Any:
        return self.shifted(x) * 2.0


def test_a_function_that_is_to_be_an_op(atan: ModuleType) -> None:
    """`experimental_implements` names the op, and its attributes become options."""
    model = atan.convert(Implementing(), allow_custom_ops=True)
    assert [o.op for o in Model.from_buffer(model).subgraphs[0].operators] == ["ShiftedAtan", "MUL"]

    def own(x: Any, *, offset: float) -> Any:
        return np.arctan(x + np.float32(offset))

    found = atan.run(model, {"ShiftedAtan": own})
    np.testing.assert_allclose(found, 2 * atan.Y, rtol=1e-5)


def test_the_guides_program(atan: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    assert atan.main() == 0
    out = capfd.readouterr().out
    assert "learned: y = atan(x + 1.0" in out
    assert "Encountered unresolved custom op: Atan." in out
    assert out.count("[-1.4288") == 3 or "no C compiler" in out


# -- ZeroOut


@pytest.fixture(scope="module")
def zero_out(root: Path) -> ModuleType:
    return example(root / "examples" / "zero_out" / "zero_out.py")


@pytest.fixture(scope="module")
def server(zero_out: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A function of TensorFlow with the op in it."""
    try:
        find_compiler(cpp=True)
    except BuildFailed as e:
        pytest.skip(str(e))
    library = tmp_path_factory.mktemp("zero_out") / "zero_out_tensorflow.so"
    zero_out.build_for_tensorflow(library)
    yield zero_out.make_function(tf.load_op_library(str(library)))


@pytest.mark.slow
def test_zero_out_on_both_sides(zero_out: ModuleType, server: Any) -> None:
    from litedelegate import load_op_library

    theirs = server(zero_out.X).numpy()
    assert theirs.tolist() == [6, 0, 0, 0, 0]
    model = zero_out.convert(server)
    assert [o.op for o in Model.from_buffer(model).subgraphs[0].operators] == ["ADD", "ZeroOut"]
    with pytest.raises(RuntimeError, match="Encountered unresolved custom op: ZeroOut"):
        Interpreter(model_content=model).allocate_tensors()
    library = load_op_library(built("examples/zero_out/zero_out.c"))
    with Interpreter(model_content=model, custom_ops=library) as interpreter:
        for x in (zero_out.X, np.int32([7]), np.empty(0, np.int32)):
            (ours,) = interpreter.run({"x": x}).values()
            np.testing.assert_array_equal(ours, server(x).numpy())


@pytest.mark.slow
def test_zero_out_by_tensorflow(zero_out: ModuleType, server: Any) -> None:
    """An op that was loaded into TensorFlow runs as a Flex op as well."""
    function = server.get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], server)
    ops = tf.lite.OpsSet
    converter.target_spec.supported_ops = [ops.TFLITE_BUILTINS, ops.SELECT_TF_OPS]
    converter.target_spec.experimental_select_user_tf_ops = ["ZeroOut"]
    with Interpreter(model_content=converter.convert()) as interpreter:
        (ours,) = interpreter.run({"x": zero_out.X}).values()
        assert interpreter.delegate_coverage().totals.delegated == {"flex": 1}
    assert ours.tolist() == [6, 0, 0, 0, 0]
