"""Times single layers against ai-edge-litert without its default delegate, on models of one op.

python benchmarks/kernels.py [--only TEXT] [--seconds S] [--threads N]

Shapes are those of MobileNet, BlazeFace and YOLO. Both sides take turns; times are the best of all
turns, since a busy machine only ever adds to them. `--threads` is the peer's; for numpy's BLAS set
OPENBLAS_NUM_THREADS.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from measure import quiet

from litedelegate import Interpreter, ModelBuilder

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """`kernel`: [units, h, w, channels] of a convolution, [h, w] of the others."""

    op: str
    x: Shape
    kernel: Shape
    stride: int = 1

    @property
    def name(self) -> str:
        size = "x".join(map(str, self.x[1:]))
        return f"{self.op} {size} k{'x'.join(map(str, self.kernel))} s{self.stride}"

    @property
    def out(self) -> Shape:
        if self.op == "FULLY_CONNECTED":
            return self.x[0], self.kernel[0]
        height, width = (math.ceil(n / self.stride) for n in self.x[1:3])
        return self.x[0], height, width, self.kernel[0] if self.op == "CONV_2D" else self.x[3]


LAYERS = [
    Layer("CONV_2D", (1, 224, 224, 3), (32, 3, 3, 3), 2),
    Layer("CONV_2D", (1, 128, 128, 3), (24, 5, 5, 3), 2),
    Layer("CONV_2D", (1, 112, 112, 16), (96, 1, 1, 16)),
    Layer("CONV_2D", (1, 56, 56, 144), (24, 1, 1, 144)),
    Layer("CONV_2D", (1, 14, 14, 512), (512, 1, 1, 512)),
    Layer("CONV_2D", (1, 7, 7, 320), (1280, 1, 1, 320)),
    Layer("CONV_2D", (1, 80, 80, 64), (64, 3, 3, 64)),
    Layer("CONV_2D", (1, 20, 20, 128), (128, 3, 3, 128)),
    Layer("DEPTHWISE_CONV_2D", (1, 112, 112, 32), (3, 3)),
    Layer("DEPTHWISE_CONV_2D", (1, 112, 112, 96), (3, 3), 2),
    Layer("DEPTHWISE_CONV_2D", (1, 56, 56, 144), (3, 3)),
    Layer("DEPTHWISE_CONV_2D", (1, 14, 14, 512), (3, 3)),
    Layer("DEPTHWISE_CONV_2D", (1, 7, 7, 1024), (3, 3)),
    Layer("DEPTHWISE_CONV_2D", (1, 64, 64, 24), (5, 5)),
    Layer("DEPTHWISE_CONV_2D", (1, 48, 48, 8), (3, 3)),
    Layer("FULLY_CONNECTED", (1, 1280), (1001,)),
    Layer("FULLY_CONNECTED", (40, 512), (512,)),
    Layer("AVERAGE_POOL_2D", (1, 56, 56, 64), (2, 2), 2),
    Layer("MAX_POOL_2D", (1, 20, 20, 128), (5, 5)),
]


def model(layer: Layer, dtype: str) -> bytes:
    """A model of this one layer; int8 has a scale for each output channel."""
    rng = np.random.default_rng(0)
    builder = ModelBuilder()
    graph = builder.subgraph()
    quantized = dtype == "int8"
    scales: dict[str, Any] = {"scale": 0.05, "zero_point": -3} if quantized else {}
    x = graph.input("x", layer.x, dtype, **scales)
    operands, options = [x], dict[str, Any](fused_activation_function="RELU6")
    if layer.op.endswith("POOL_2D"):
        options.update(filter_height=layer.kernel[0], filter_width=layer.kernel[1])
    else:
        operands += _weights(graph, layer, rng, quantized)
    if layer.op != "FULLY_CONNECTED":
        options.update(padding="SAME", stride_h=layer.stride, stride_w=layer.stride)
    if layer.op == "DEPTHWISE_CONV_2D":
        options["depth_multiplier"] = 1
    if quantized and not layer.op.endswith("POOL_2D"):
        scales = {"scale": 6 / 255, "zero_point": -128}
    y = graph.tensor("y", layer.out, dtype, **scales)
    graph.op(layer.op, operands, out=y, version=2, **options)
    graph.outputs(y)
    return builder.build()


def _weights(graph: Any, layer: Layer, rng: np.random.Generator, quantized: bool) -> list[Any]:
    shape, axis = layer.kernel, 0
    if layer.op == "FULLY_CONNECTED":
        shape = (layer.kernel[0], layer.x[1])
    elif layer.op == "DEPTHWISE_CONV_2D":
        shape, axis = (1, *layer.kernel, layer.x[3]), 3
    units, depth = shape[axis], math.prod(shape) // shape[axis]
    if not quantized:
        w = rng.standard_normal(shape) / math.sqrt(depth)
        bias = rng.standard_normal(units)
        return [
            graph.constant("w", w.astype(np.float32)),
            graph.constant("b", bias.astype(np.float32)),
        ]
    scale = [float(s) for s in rng.uniform(0.5, 1, units) / (60 * math.sqrt(depth))]
    zeros = [0] * units
    w = rng.integers(-127, 128, shape, np.int8)
    bias = rng.integers(-500, 500, units).astype(np.int32)
    return [
        graph.constant("w", w, scale=scale, zero_point=zeros, axis=axis),
        graph.constant("b", bias, scale=[0.05 * s for s in scale], zero_point=zeros),
    ]


def best(calls: list[Callable[[], Any]], seconds: float) -> list[float]:
    """Best time of each call in microseconds; they take turns."""
    times = [math.inf] * len(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, call in enumerate(calls):
            call()
            for _ in range(5):
                start = time.perf_counter()
                call()
                times[i] = min(times[i], time.perf_counter() - start)
    return [t * 1e6 for t in times]


def measure(layer: Layer, dtype: str, seconds: float, threads: int) -> tuple[float, float, float]:
    """(ours, the peer's, greatest difference in steps or of the largest value)."""
    from ai_edge_litert.interpreter import Interpreter as Peer
    from ai_edge_litert.interpreter import OpResolverType

    content = model(layer, dtype)
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    with quiet():
        peer = Peer(model_content=content, num_threads=threads, experimental_op_resolver_type=plain)
    ours = Interpreter(model_content=content)
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, layer.x, np.int8)
    value = x if dtype == "int8" else (x / 64).astype(np.float32)
    results = []
    for it in (ours, peer):
        it.allocate_tensors()
        it.set_tensor(it.get_input_details()[0]["index"], value)
        it.invoke()
        results.append(it.get_tensor(it.get_output_details()[0]["index"]).astype(np.float64))
    apart = float(np.abs(results[0] - results[1]).max())
    times = best([ours.invoke, peer.invoke], seconds)
    return times[0], times[1], apart


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="layers whose name contains this")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each layer and type")
    parser.add_argument("--threads", type=int, default=1, help="threads of the peer")
    args = parser.parse_args()
    print(f"BLAS threads {os.environ.get('OPENBLAS_NUM_THREADS', 'all')}, peer {args.threads}")
    print(f"{'layer':58} {'ours us':>9} {'peer us':>9} {'ratio':>6} {'apart':>8}")
    for dtype in ("float32", "int8"):
        ratios = []
        for layer in LAYERS:
            if args.only in layer.name:
                ours, peer, apart = measure(layer, dtype, args.seconds, args.threads)
                ratios.append(ours / peer)
                row = f"{ours:9.1f} {peer:9.1f} {ours / peer:6.2f} {apart:8.1e}"
                print(f"{dtype + ' ' + layer.name:58} {row}", flush=True)
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{dtype + ': geometric mean':58} {'':19} {mean:6.2f}")


if __name__ == "__main__":
    main()
