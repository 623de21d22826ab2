"""The demo's models and what it prints."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from litedelegate import Interpreter
from litedelegate.runtime.builder import ModelBuilder

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
MODELS = EXAMPLES / "models"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports an example, whose neighbours it may import."""
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load


def held_out() -> tuple[Any, Any]:
    with np.load(MODELS / "digits_heldout.npz") as data:
        return data["images"].astype(np.float32)[..., None] / 16, data["digits"]


@pytest.mark.parametrize(("name", "least"), [("digits_f32", 0.98), ("digits_int8", 0.975)])
def test_digits_are_read(name: str, least: float) -> None:
    images, digits = held_out()
    with Interpreter(MODELS / f"{name}.tflite", quantize_inputs=True) as interpreter:
        scores = interpreter.run({"image": images})["scores"]
    assert (scores.argmax(axis=1) == digits).mean() >= least
    assert (MODELS / f"{name}.tflite").stat().st_size < 100_000


@pytest.mark.parametrize("name", ["digits_f32", "digits_int8"])
def test_digits_equal_the_reference(name: str) -> None:
    peer = pytest.importorskip(
        "ai_edge_litert.interpreter", reason="ai-edge-litert is not installed"
    )
    path = str(MODELS / f"{name}.tflite")
    reference = peer.Interpreter(
        path, experimental_op_resolver_type=peer.OpResolverType.BUILTIN_REF
    )
    (given,) = reference.get_input_details()
    images, _ = held_out()
    if name == "digits_int8":
        scale, zero = given["quantization"]
        images = np.clip(np.round(images / scale) + zero, -128, 127).astype(np.int8)
    reference.resize_tensor_input(given["index"], images.shape)
    reference.allocate_tensors()
    reference.set_tensor(given["index"], images)
    reference.invoke()
    want = reference.get_tensor(reference.get_output_details()[0]["index"])
    with Interpreter(path) as interpreter:
        got = interpreter.run({"image": images})["scores"]
    if name == "digits_int8":
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, atol=1e-5)


def test_the_demo_shows_labels_confidence_and_accuracy(
    example: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    example("digits_demo").main()
    out = capsys.readouterr().out
    assert "digits_f32.tflite" in out and "digits_int8.tflite" in out
    right, total, share = re.findall(r"(\d+) of (\d+)\s+([\d.]+)%", out)[0]
    assert int(right) / int(total) == pytest.approx(float(share) / 100, abs=1e-3)
    assert float(share) > 98
    assert "█" in out


def test_the_demo_says_which_pictures_are_misread(
    example: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = example("digits_demo")
    images, digits, labels = demo.load()
    guesses = {k: demo.classify(MODELS / n, images)[0].argmax(1) for k, n in demo.KINDS.items()}
    wrong = np.flatnonzero(np.any([g != digits for g in guesses.values()], axis=0))
    right = np.flatnonzero(np.all([g == digits for g in guesses.values()], axis=0))
    assert demo.misread(int(right[0]), digits, guesses, labels) == ""
    text = demo.misread(int(wrong[0]), digits, guesses, labels)
    demo.main()
    out = capsys.readouterr().out
    assert text.removeprefix("[red]").removesuffix("[/]") in out
    assert out.count("misread: ") == 1 and "(wrong)" in out
    (convolutions,) = (line.split() for line in out.splitlines() if "CONV_2D" in line)
    assert convolutions[:3] == ["CONV_2D", "2", "cpu"]


def test_training_without_scikit_learn_names_the_extra(
    example: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("sklearn", "sklearn.datasets"):
        monkeypatch.setitem(sys.modules, name, None)
    trainer = example("digits_train")
    monkeypatch.setattr(sys, "argv", ["digits_train.py"])
    with pytest.raises(SystemExit, match=r"scikit-learn, pip install -e '\.\[dev\]'"):
        trainer.main()
    monkeypatch.setattr(sys, "argv", ["digits_train.py", "--help"])
    with pytest.raises(SystemExit) as end:
        trainer.main()
    assert end.value.code == 0
    assert "python examples/digits_train.py" in capsys.readouterr().out


def test_training_gradients_are_those_of_the_loss(example: Any) -> None:
    net = example("digits_net")
    rng = np.random.default_rng(0)
    params = {k: v.astype(np.float64) for k, v in net.new_params(rng).items()}
    # away from zero everywhere: the network is not smooth where a pre-activation is 0
    params = {k: v + 0.1 if k.endswith("bias") else v for k, v in params.items()}
    images, labels = rng.random((8, 8, 8, 1)), rng.integers(0, 10, 8)

    def loss(values: Any) -> float:
        scores = net.forward(values, images)["scores"]
        return float(-np.log(scores[np.arange(8), labels]).mean())

    grads = net.gradients(params, images, labels)
    for name, value in params.items():
        direction = rng.standard_normal(value.shape)
        slope = (grads[name] * direction).sum()
        step = 1e-6
        up = loss({**params, name: value + step * direction})
        down = loss({**params, name: value - step * direction})
        assert (up - down) / (2 * step) == pytest.approx(slope, rel=1e-3, abs=1e-6), name


def test_training_repeats_and_what_it_writes_runs(example: Any) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    trainer = example("digits_train")
    images, digits = held_out()
    *_, params = trainer.train(images, digits, 3, 0)
    *_, again = trainer.train(images, digits, 3, 0)
    np.testing.assert_array_equal(params["dense/weights"], again["dense/weights"])
    scores = {}
    for kind in (trainer.FLOAT, trainer.calibrate(params, images)):
        with Interpreter(
            model_content=trainer.build(params, kind), quantize_inputs=True, dequantize_outputs=True
        ) as interpreter:
            scores[kind.dtype] = interpreter.run({"image": images})["scores"]
    want = trainer.forward(params, images)["scores"]
    np.testing.assert_allclose(scores["float32"], want, atol=1e-5)
    np.testing.assert_allclose(scores["int8"], want, atol=0.1)


def with_op(op: str, custom: bool) -> bytes:
    """image -> MEAN -> `op` -> scores."""
    builder = ModelBuilder()
    graph = builder.subgraph("main")
    image = graph.input("image", (1, 224, 224, 3))
    axes = graph.constant("axes", np.array([1, 2], np.int32))
    mean = graph.op("MEAN", [image, axes], ("mean", (1, 3), "float32"))
    add = graph.custom if custom else graph.op
    scores = add(op, [mean], ("scores", (1, 3), "float32"))
    graph.outputs(scores)
    builder.signature("serving_default", {"image": image}, {"scores": scores})
    return builder.build()


def test_the_readme_runs(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text("utf-8"), re.S)
    assert len(blocks) == 3
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        custom = "custom_ops" in block
        Path("model.tflite").write_bytes(with_op("Atan" if custom else "ABS", custom))
        image = np.ones((1, 224, 224, 3), np.float32)
        names: dict[str, Any] = {"image": image}
        exec(block, names)
        if custom:
            scores = names["interpreter"].run({"image": image})["scores"]
            np.testing.assert_allclose(scores, np.full((1, 3), np.pi / 4), rtol=1e-6)
        elif "scores" in names:
            np.testing.assert_allclose(names["scores"], [[1, 1, 1]], rtol=1e-5)
