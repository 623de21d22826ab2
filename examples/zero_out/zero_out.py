"""An operator of one's own on both sides: in TensorFlow, and in the model that is converted.

    pip install 'litedelegate[tensorflow]'
    python examples/zero_out/zero_out.py

Builds ZeroOut for TensorFlow (zero_out_tensorflow.cc) and uses it in a function; converts that,
which makes it a custom op of the model; builds ZeroOut for the model (zero_out.c) and runs it.
Takes a C++ compiler and about half a minute.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from litedelegate import Interpreter, load_op_library
from litedelegate.customops.build import build_op_library, find_compiler

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf

HERE = Path(__file__).resolve().parent
X = np.array([5, 4, 3, 2, 1], np.int32)


def build_for_tensorflow(library: Path) -> None:
    """With the compiler that makes op libraries, and the flags that TensorFlow names."""
    own = [*find_compiler(cpp=True), "-shared", "-fPIC", "-O2", "-w"]
    flags = [*tf.sysconfig.get_compile_flags(), *tf.sysconfig.get_link_flags()]
    source = HERE / "zero_out_tensorflow.cc"
    subprocess.run([*own, str(source), "-o", str(library), *flags], check=True)


def make_function(module: Any) -> Any:
    """z = ZeroOut(x + 1), by the module of the op that was loaded."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, "x")])
    def zero_out(x: Any) -> Any:
        return module.zero_out(x + 1)

    return zero_out


def convert(function: Any) -> bytes:
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [function.get_concrete_function()], function
    )
    converter.allow_custom_ops = True
    model: bytes = converter.convert()
    return model


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "zero_out_tensorflow.so")
        build_for_tensorflow(library)
        function = make_function(tf.load_op_library(str(library)))
        theirs = function(X).numpy()
        model = convert(function)
        own = load_op_library(build_op_library([HERE / "zero_out.c"], Path(folder, "own.so")))
        with Interpreter(model_content=model, custom_ops=own) as interpreter:
            (ours,) = interpreter.run({"x": X}).values()
    print("TensorFlow:  ", theirs)
    print("litedelegate:", ours)
    return int(not np.array_equal(ours, theirs))


if __name__ == "__main__":
    sys.exit(main())
