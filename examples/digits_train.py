"""Trains the digit classifier of the demo and writes it as float32 and as int8.

    pip install -e '.[dev]'
    python examples/digits_train.py

The data are scikit-learn's digits: 1,797 images of 8x8 pixels from 0 to 16. A quarter is held out,
and only looked at to print the accuracy. Everything is seeded; it takes some seconds.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from digits_net import CHANNELS, CLASSES, Params, forward, train
from numpy.typing import NDArray

from litedelegate.runtime.builder import GraphBuilder, ModelBuilder, Quant, TensorRef

Array = NDArray[Any]

MODELS = Path(__file__).with_name("models")
HELD_OUT = 450
EPOCHS = 150


@dataclass(frozen=True)
class Activations:
    """How the tensors between the layers are stored: `quant` is None for float32."""

    dtype: str
    version: dict[str, int]
    quant: dict[str, Quant] | None

    def of(self, name: str) -> Quant | None:
        return self.quant[name] if self.quant else None


FLOAT = Activations("float32", {}, None)
INT8_VERSIONS = {"CONV_2D": 3, "MAX_POOL_2D": 2, "FULLY_CONNECTED": 4, "SOFTMAX": 2}


def calibrate(params: Params, images: Array) -> Activations:
    """Scale and zero point of each activation, from what the training images make of it.

    The range always holds 0, so that padding is exact. Pooling keeps its input's quantisation, and
    SOFTMAX has the one that TensorFlow Lite prescribes.
    """
    values = forward(params, images)
    quants = {}
    for name in ("image", "conv1", "conv2", "logits"):
        low, high = min(0.0, float(values[name].min())), max(0.0, float(values[name].max()))
        scale = (high - low) / 255
        quants[name] = Quant(scale, round(-128 - low / scale))
    for name, source in (("pool1", "conv1"), ("pool2", "conv2"), ("flat", "conv2")):
        quants[name] = quants[source]
    quants["scores"] = Quant(1 / 256, -128)
    return Activations("int8", INT8_VERSIONS, quants)


class Writer:
    """Adds the network's layers to a graph."""

    def __init__(self, graph: GraphBuilder, params: Params, kind: Activations) -> None:
        self.graph, self.params, self.kind = graph, params, kind

    def output(self, name: str, shape: tuple[int, ...]) -> TensorRef:
        return self.graph.tensor(
            name,
            (1, *shape),
            self.kind.dtype,
            quant=self.kind.of(name),
            shape_signature=(-1, *shape),
        )

    def op(
        self, op: str, inputs: list[TensorRef | None], out: TensorRef, **options: Any
    ) -> TensorRef:
        version = self.kind.version.get(op, 1)
        made: TensorRef = self.graph.op(op, inputs, out, version=version, **options)
        return made

    def weights(self, layer: str, source: str, per_channel: bool) -> list[TensorRef | None]:
        """Weights and bias of a layer whose input is `source`.

        int8 weights are symmetric; a bias is an int32 with the scale of the product it is added to.
        """
        weights, bias = self.params[f"{layer}/weights"], self.params[f"{layer}/bias"]
        given = self.kind.of(source)
        if given is None:
            return [
                self.graph.constant(f"{layer}/weights", weights),
                self.graph.constant(f"{layer}/bias", bias),
            ]
        largest = np.abs(weights.reshape(len(weights), -1)).max(axis=1)
        scale = (largest if per_channel else largest.max(keepdims=True)) / 127
        stored = np.round(weights / scale.reshape(-1, *[1] * (weights.ndim - 1))).astype(np.int8)
        bias_scale = scale * np.float32(given.scale)
        bias_stored = np.round(bias / bias_scale).astype(np.int32)
        zeros = np.zeros(scale.shape, np.int64)
        return [
            self.graph.constant(f"{layer}/weights", stored, quant=Quant(scale, zeros)),
            self.graph.constant(f"{layer}/bias", bias_stored, quant=Quant(bias_scale, zeros)),
        ]

    def convolution(self, x: TensorRef, layer: str, shape: tuple[int, ...]) -> TensorRef:
        return self.op(
            "CONV_2D",
            [x, *self.weights(layer, x.name, per_channel=True)],
            self.output(layer, shape),
            padding="SAME",
            stride_w=1,
            stride_h=1,
            fused_activation_function="RELU",
        )

    def pool(self, x: TensorRef, name: str) -> TensorRef:
        _, height, width, channels = x.shape
        return self.op(
            "MAX_POOL_2D",
            [x],
            self.output(name, (height // 2, width // 2, channels)),
            padding="VALID",
            stride_w=2,
            stride_h=2,
            filter_width=2,
            filter_height=2,
        )


def build(params: Params, kind: Activations) -> bytes:
    """The model file. Its batch is free."""
    model = ModelBuilder(description=f"handwritten digits, 8x8 pixels, {kind.dtype}")
    graph = model.subgraph("main")
    write = Writer(graph, params, kind)
    a, b = CHANNELS
    image = write.output("image", (8, 8, 1))
    graph.values["inputs"] = [image.index]
    x = write.pool(write.convolution(image, "conv1", (8, 8, a)), "pool1")
    x = write.pool(write.convolution(x, "conv2", (4, 4, b)), "pool2")
    shape = graph.constant("flat/shape", np.array([-1, 4 * b], np.int32))
    x = write.op("RESHAPE", [x, shape], write.output("flat", (4 * b,)), new_shape=[-1, 4 * b])
    x = write.op(
        "FULLY_CONNECTED",
        [x, *write.weights("dense", "flat", per_channel=False)],
        write.output("logits", (CLASSES,)),
    )
    scores = write.op("SOFTMAX", [x], write.output("scores", (CLASSES,)), beta=1.0)
    graph.outputs(scores)
    model.signature("serving_default", {"image": image}, {"scores": scores})
    return model.build()


def load() -> Any:
    """scikit-learn's digits; ends the program where it is not installed."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError as error:
        sys.exit(
            f"no module {error.name!r}: training needs scikit-learn, pip install -e '.[dev]'\n"
            "(the trained models are in examples/models; digits_demo.py needs none of this)"
        )
    return load_digits()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    data = load()
    images = (data.images / 16).astype(np.float32)[..., None]
    order = np.random.default_rng(0).permutation(len(images))
    held_out, training = order[:HELD_OUT], order[HELD_OUT:]
    params: Params = {}
    for epoch, params in enumerate(train(images[training], data.target[training], EPOCHS, 0), 1):
        if epoch % 30 == 0:
            right = forward(params, images[held_out])["scores"].argmax(1) == data.target[held_out]
            print(f"epoch {epoch}: {right.mean():.1%} of the held-out digits are read right")
    MODELS.mkdir(exist_ok=True)
    for name, kind in (("f32", FLOAT), ("int8", calibrate(params, images[training]))):
        content = build(params, kind)
        path = MODELS / f"digits_{name}.tflite"
        path.write_bytes(content)
        print(f"{path.name}: {len(content):,} bytes")
    np.savez_compressed(
        MODELS / "digits_heldout.npz",
        images=data.images[held_out].astype(np.uint8),
        digits=data.target[held_out].astype(np.uint8),
    )
    names = "zero one two three four five six seven eight nine"
    (MODELS / "digits_labels.txt").write_text("\n".join(names.split()) + "\n")


if __name__ == "__main__":
    main()
