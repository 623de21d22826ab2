"""The flow of TensorFlow Lite's custom-op guide: train, convert, give the op, run.

    pip install 'litedelegate[tensorflow]'
    python examples/convert_atan.py

Learns the offset of y = atan(x + offset) from five points. TensorFlow Lite has no atan, so the
converter refuses, and with `allow_custom_ops` writes a custom op "Atan". Without that op the model
does not run; it is given in Python, and in C where there is a compiler (atan_c/atan.c).
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from litedelegate import Interpreter, load_op_library
from litedelegate.customops.build import BuildFailed, build_op_library

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf

X = np.array([-8, 0.5, 2, 2.2, 201], np.float32)
Y = np.array([-1.4288993, 0.98279375, 1.2490457, 1.2679114, 1.5658458], np.float32)


class Model(tf.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        self.offset = tf.Variable(0.0)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])  # type: ignore[misc]
    def __call__(self, x: Any) -> Any:
        return tf.atan(x + self.offset)


def train(model: Model, steps: int = 300, rate: float = 2.0) -> None:
    """Plain gradient descent on the squared error."""
    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(X) - Y))
        model.offset.assign_sub(rate * tape.gradient(loss, model.offset))


def convert(model: Any, allow_custom_ops: bool) -> bytes:
    function = model.__call__.get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], model)
    converter.allow_custom_ops = allow_custom_ops
    made: bytes = converter.convert()
    return made


def atan(x: np.ndarray, *, T: int) -> np.ndarray:  # type: ignore[type-arg]
    """The converter keeps the operator's attributes: T is its type, 0 for float32."""
    result: np.ndarray = np.arctan(x)  # type: ignore[type-arg]
    return result


def run(model: bytes, custom_ops: Any) -> np.ndarray:  # type: ignore[type-arg]
    with Interpreter(model_content=model, custom_ops=custom_ops) as interpreter:
        (y,) = interpreter.run({"x": X}).values()
    result: np.ndarray = y  # type: ignore[type-arg]
    return result


def main() -> int:
    model = Model()
    train(model)
    theirs = model(X).numpy()
    print(f"learned: y = atan(x + {model.offset.numpy():.4f})")
    print("TensorFlow:", theirs)

    converted = convert(model, allow_custom_ops=True)
    print("without the op:")
    try:
        run(converted, {})
    except RuntimeError as error:
        print("  " + str(error).replace("\n", "\n  "))

    in_python = run(converted, {"Atan": atan})
    print("in Python:", in_python)
    agree = np.allclose(in_python, theirs, rtol=1e-6)
    source = Path(__file__).resolve().parent / "atan_c" / "atan.c"
    try:
        with tempfile.TemporaryDirectory() as folder:
            library = load_op_library(build_op_library([source], Path(folder, "atan.so")))
            in_c = run(converted, library)
        print("in C:     ", in_c)
        agree = agree and np.allclose(in_c, theirs, rtol=1e-6)
    except BuildFailed as error:
        print(f"in C: {error}")
    return int(not agree)


if __name__ == "__main__":
    sys.exit(main())
