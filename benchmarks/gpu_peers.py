"""Single operators for `gpu_check.py`, and how ours, torch and onnxruntime run them.

Each way gives a call that is timed, all on the device, and one that gives the result. ImportError
where what is needed is not there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from litedelegate import Interpreter, ModelBuilder
from litedelegate.kernels.types import Array

Way = tuple[Callable[[], object], Callable[[], Array]]


def sample(shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng(math.prod(shape))
    made: Array = rng.standard_normal(shape).astype(np.float32)
    return made


@dataclass(frozen=True)
class Operator:
    """float32, SAME padding, stride 1. `shape`: the input's, NHWC, or [rows, depth]; `weights`:
    TensorFlow Lite's. Without `weights` it is EXP."""

    op: str
    shape: tuple[int, ...]
    weights: tuple[int, ...] = ()

    @cached_property
    def x(self) -> Array:
        return sample(self.shape)

    @cached_property
    def w(self) -> Array:
        return sample(self.weights) / np.float32(math.sqrt(math.prod(self.weights[1:])))

    @property
    def out(self) -> tuple[int, ...]:
        if not self.weights:
            return self.shape
        units = self.weights[-1] if self.op == "DEPTHWISE_CONV_2D" else self.weights[0]
        return (*self.shape[:-1], units)

    @property
    def operations(self) -> int:
        taps = self.weights[1:3] if self.op == "DEPTHWISE_CONV_2D" else self.weights[1:]
        return 2 * math.prod(self.out) * math.prod(taps or (1,))

    @cached_property
    def model(self) -> bytes:
        b = ModelBuilder()
        g = b.subgraph("main")
        inputs = [g.input("x", self.shape)]
        if self.weights:
            units = self.out[-1]
            inputs += [g.constant("w", self.w), g.constant("b", np.zeros(units, np.float32))]
        g.outputs(g.op(self.op, inputs, ("y", self.out, "float32"), **_OPTIONS[self.op]))
        return b.build()


_WINDOW: dict[str, Any] = {
    "padding": "SAME",
    "stride_w": 1,
    "stride_h": 1,
    "dilation_w_factor": 1,
    "dilation_h_factor": 1,
    "fused_activation_function": "NONE",
}
_OPTIONS: dict[str, dict[str, Any]] = {
    "CONV_2D": _WINDOW,
    "DEPTHWISE_CONV_2D": {**_WINDOW, "depth_multiplier": 1},
    "FULLY_CONNECTED": {
        "fused_activation_function": "NONE",
        "weights_format": "DEFAULT",
        "keep_num_dims": False,
        "asymmetric_quantize_inputs": False,
    },
    "EXP": {},
}
OPERATORS = {
    "FULLY_CONNECTED small": Operator("FULLY_CONNECTED", (8, 64), (32, 64)),
    "FULLY_CONNECTED": Operator("FULLY_CONNECTED", (256, 1024), (1024, 1024)),
    "CONV_2D 3x3": Operator("CONV_2D", (1, 56, 56, 64), (64, 3, 3, 64)),
    "CONV_2D 1x1": Operator("CONV_2D", (1, 56, 56, 128), (128, 1, 1, 128)),
    "DEPTHWISE_CONV_2D 3x3": Operator("DEPTHWISE_CONV_2D", (1, 56, 56, 128), (1, 3, 3, 128)),
    "EXP": Operator("EXP", (1, 56, 56, 128)),
}


def ours(operator: Operator, delegate: Any) -> Way:
    """Input and output stay on the device."""
    interpreter = Interpreter(model_content=operator.model, delegates=[delegate], strict=True)
    interpreter.allocate_tensors()
    (x,), (y,) = interpreter.get_input_details(), interpreter.get_output_details()
    cupy = delegate.device.cupy
    given, made = (cupy.ndarray(shape, np.float32) for shape in (operator.shape, operator.out))
    given.set(operator.x)
    interpreter.set_tensor(x["index"], given)
    interpreter.set_buffer_handle(y["index"], made, delegate)
    return interpreter.invoke, partial(interpreter.get_tensor, y["index"])


def torch(operator: Operator, half: bool = False) -> Way:
    """Channels last; TF32 off, as ours. `half`: all of it in float16."""
    import torch

    if not torch.cuda.is_available():
        raise ImportError("torch has no CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    functional = torch.nn.functional
    dtype = torch.float16 if half else torch.float32
    x = torch.from_numpy(operator.x).cuda().to(dtype)
    if operator.op == "EXP":
        run: Callable[[], Any] = partial(torch.exp, x)
    elif operator.op == "FULLY_CONNECTED":
        run = partial(functional.linear, x, torch.from_numpy(operator.w).cuda().to(dtype))
    else:
        x = x.permute(0, 3, 1, 2)  # a view: in memory the channels are last
        w = torch.from_numpy(_oihw(operator)).cuda().to(dtype).to(memory_format=torch.channels_last)
        groups = w.shape[0] if operator.op == "DEPTHWISE_CONV_2D" else 1
        pad = operator.weights[1] // 2
        convolved = partial(functional.conv2d, x, w, padding=pad, groups=groups)
        run = lambda: convolved().permute(0, 2, 3, 1)  # noqa: E731

    def call() -> None:
        with torch.no_grad():
            run()
        torch.cuda.synchronize()

    return call, lambda: run().float().cpu().numpy()


def onnxruntime(operator: Operator, provider: str = "CUDAExecutionProvider") -> Way:
    """Input and output stay on the device; ONNX has channels first."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    if provider not in onnxruntime.get_available_providers():
        raise ImportError(f"onnxruntime has no {provider}")
    x, w = operator.x, operator.w if operator.weights else None
    nodes = {"EXP": ("Exp", {}), "FULLY_CONNECTED": ("Gemm", {"transB": 1})}
    kind, attributes = nodes.get(operator.op, ("Conv", {}))
    if kind == "Conv":
        x, w = np.ascontiguousarray(x.transpose(0, 3, 1, 2)), _oihw(operator)
        pad = operator.weights[1] // 2
        groups = w.shape[0] if operator.op == "DEPTHWISE_CONV_2D" else 1
        attributes = {"pads": [pad] * 4, "group": groups}
    names = ["x", "w"] if w is not None else ["x"]
    graph = helper.make_graph(
        [helper.make_node(kind, names, ["y"], **attributes)],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [] if w is None else [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=[provider])
    where = "cuda" if provider.startswith("CUDA") else "cpu"
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(x, where, 0))
    binding.bind_output("y", where)

    def call() -> None:
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()

    def result() -> Array:
        y: Array = binding.copy_outputs_to_cpu()[0]
        return y.transpose(0, 2, 3, 1) if kind == "Conv" else y

    return call, result


def _oihw(operator: Operator) -> Array:
    """TensorFlow Lite's weights as [out, in of a group, height, width]."""
    order = (3, 0, 1, 2) if operator.op == "DEPTHWISE_CONV_2D" else (0, 3, 1, 2)
    return np.ascontiguousarray(operator.w.transpose(order))
