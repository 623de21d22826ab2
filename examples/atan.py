"""The Atan example of TensorFlow Lite's custom-op guide: y = atan(x + offset).

    python examples/atan.py

One op in one file, for numpy, C, OpenCL and CUDA. It makes a model with the custom op "Atan", whose
option `offset` is stored as a FlexBuffer, and runs it without the op, which shows the error; with a
full `Registration`; with a plain function on arrays; in C, where there is a compiler; and on the
devices that are there.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from pathlib import Path

import numpy as np

from litedelegate import (
    BuiltinOpResolver,
    Context,
    DType,
    Interpreter,
    ModelBuilder,
    Node,
    NodeSpec,
    Registration,
    Unsupported,
    custom_op,
    load_op_library,
)
from litedelegate.customops.build import BuildFailed, build_op_library
from litedelegate.kernels.device import Capability, Lowered, Map, Read

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


# For devices: one expression for each element, which OpenCL's compiler reads as well as CUDA's. A
# delegate evaluates it in the kernel of the node before, so the op does not split the graph.


def on_devices(node: NodeSpec, capability: Capability, *, offset: float = 0.0) -> Map:
    x = node.input(0)
    if x.dtype is not DType.FLOAT32:
        raise Unsupported("DTYPE", f"got {x}; takes float32")
    return Map("F_ATAN2($0 + $1, 1.0f)", (Read(0), Read(np.array(offset, np.float32))))


# The full form: the four functions of TensorFlow Lite. `init` is called once for each node with the
# bytes of its options; what it returns comes back as `node.user_data`.


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


def lower(node: NodeSpec, capability: Capability) -> Lowered:
    return Lowered([on_devices(node, capability, offset=node.options.flexbuffer()["offset"])])


ATAN = Registration(
    name="Atan", init=init, free=free, prepare=prepare, invoke=invoke, lower=lower, custom=True
)


# The short form: inputs are arrays, options are keywords.


@custom_op("Atan", shape="same", lower=on_devices)
def atan(x: np.ndarray, *, offset: float = 0.0) -> np.ndarray:  # type: ignore[type-arg]
    result: np.ndarray = np.arctan(x + np.float32(offset))  # type: ignore[type-arg]
    return result


# In C, by TensorFlow Lite's custom-op API (examples/atan_c has more checks, and a form in C++).
# An op of a library has no form for devices of its own: it is given one here.

C = r"""
#include <math.h>
#include "litedelegate/flexbuffer_options.h"
#include "litedelegate/tflite_custom_op.h"

static void* Init(TfLiteOpaqueContext* context, const char* options, size_t length) {
  double* offset = (double*)calloc(1, sizeof(double));
  (void)context;
  LiteDelegateOptionNumber(options, length, "offset", offset);
  return offset;
}

static void Free(TfLiteOpaqueContext* context, void* offset) { (void)context; free(offset); }

static TfLiteStatus Prepare(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  const TfLiteOpaqueTensor* x = TfLiteOpaqueNodeGetInput(context, node, 0);
  TfLiteIntArray* shape = TfLiteIntArrayCreate(TfLiteOpaqueTensorNumDims(x));
  TF_LITE_OPAQUE_ENSURE_TYPES_EQ(context, TfLiteOpaqueTensorType(x), kTfLiteFloat32);
  for (int i = 0; i < shape->size; ++i) shape->data[i] = TfLiteOpaqueTensorDim(x, i);
  return TfLiteOpaqueContextResizeTensor(
      context, TfLiteOpaqueNodeGetOutput(context, node, 0), shape);
}

static TfLiteStatus Invoke(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  const TfLiteOpaqueTensor* x = TfLiteOpaqueNodeGetInput(context, node, 0);
  const float* from = (const float*)TfLiteOpaqueTensorData(x);
  float* to = (float*)TfLiteOpaqueTensorData(TfLiteOpaqueNodeGetOutput(context, node, 0));
  const float offset = (float)*(const double*)TfLiteOpaqueNodeGetUserData(node);
  for (size_t i = 0; i < TfLiteOpaqueTensorByteSize(x) / sizeof(float); ++i)
    to[i] = atanf(from[i] + offset);
  return kTfLiteOk;
}

static const TfLiteOperator* Atan(void) {
  TfLiteOperator* op = TfLiteOperatorCreate(kTfLiteBuiltinCustom, "Atan", /*version=*/1);
  TfLiteOperatorSetInit(op, Init);
  TfLiteOperatorSetFree(op, Free);
  TfLiteOperatorSetPrepare(op, Prepare);
  TfLiteOperatorSetInvoke(op, Invoke);
  return op;
}

LITEDELEGATE_OP_LIBRARY(Atan);
"""


def in_c() -> Registration:
    """Compiled and loaded; `BuildFailed` where there is no compiler."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "atan.c")
        source.write_text(C)
        library = load_op_library(build_op_library([source]).read_bytes())
    return dataclasses.replace(library["Atan"], lower=lower)


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

    print("in C:")
    try:
        with Interpreter(model_content=model, custom_ops={"Atan": in_c()}) as interpreter:
            print("  y =", interpreter.run({"x": X})["y"])
    except BuildFailed as error:
        print(f"  {error}")

    os.environ["LITEDELEGATE_COSTS"] = "none"  # five numbers alone would not pay
    for name in ("opencl", "cuda"):
        print(f"on {name}:")
        try:
            interpreter = Interpreter(
                model_content=model, custom_ops={"Atan": atan}, delegates=[name]
            )
        except ValueError as error:  # no such device, or no driver
            print(f"  {error}")
            continue
        with interpreter:
            print("  y =", interpreter.run({"x": X})["y"])
            print(" ", interpreter.delegate_coverage())


if __name__ == "__main__":
    main()
