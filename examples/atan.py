"""The Atan example of TensorFlow Lite's custom-op guide: y = atan(x + offset), in Python.

    python examples/atan.py

It makes a model with the custom op "Atan", whose option `offset` is stored as a FlexBuffer, and
runs it three ways: without the op, which shows the error; with a full `Registration`; and with a
plain function on arrays.
"""

from __future__ import annotations

import numpy as np

from litedelegate import (
    BuiltinOpResolver,
    Context,
    Interpreter,
    ModelBuilder,
    Node,
    Registration,
    custom_op,
)

X = np.array([-8, 0.5, 2, 2.2, 201], np.float32)


def make_model(offset: float = 1.0) -> bytes:
    """A model of one custom op on five floats."""
    builder = ModelBuilder(description="y = atan(x + offset)")
    graph = builder.subgraph("main")
    x = graph.input("x", (5,))
    y = graph.custom("Atan", [x], ("y", (5,), "float32"), options={"offset": offset})
    graph.outputs(y)
    builder.signature("serving_default", {"x": x}, {"y": y})
    return builder.build()


# The full form: the four functions of TensorFlow Lite. `init` is called once for each node with the
# bytes of its options;
# what it returns comes back as `node.user_data`.


def init(context: Context, options: object) -> np.float32:
    return np.float32(options.flexbuffer()["offset"])  # type: ignore[attr-defined]


def free(context: Context, offset: np.float32) -> None:
    print("  free:", offset)


def prepare(context: Context, node: Node) -> None:
    (x,) = node.inputs
    assert x is not None
    context.resize(node.outputs[0], x.shape)


def invoke(context: Context, node: Node) -> None:
    (x,), (y,) = node.inputs, node.outputs
    assert x is not None
    np.add(x.array, node.user_data, out=y.array)
    np.arctan(y.array, out=y.array)


ATAN = Registration(name="Atan", init=init, free=free, prepare=prepare, invoke=invoke)


# The short form: inputs are arrays, options are keywords.


@custom_op("Atan", shape="same")
def atan(x: np.ndarray, *, offset: float = 0.0) -> np.ndarray:  # type: ignore[type-arg]
    result: np.ndarray = np.arctan(x + np.float32(offset))  # type: ignore[type-arg]
    return result


def main() -> None:
    model = make_model()

    print("without the op:")
    try:
        Interpreter(model_content=model).allocate_tensors()
    except RuntimeError as error:
        print("  " + str(error).replace("\n", "\n  "))

    print("with a Registration:")
    resolver = BuiltinOpResolver()
    resolver.add_custom("Atan", ATAN)
    with Interpreter(model_content=model, op_resolver=resolver) as interpreter:
        print("  y =", interpreter.run({"x": X})["y"])

    print("with a function:")
    with Interpreter(model_content=model, custom_ops={"Atan": atan}) as interpreter:
        print("  y =", interpreter.run({"x": X})["y"])


if __name__ == "__main__":
    main()
