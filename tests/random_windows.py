"""Makers of random graphs: convolutions, pools, resizing, layers with state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from random_graphs import Graph
from random_tensors import Tensor

from litedelegate.kernels.api import Quantization
from litedelegate.kernels.types import Array, DType

F32, INT8, UINT8, INT16 = DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16
ACTIVATIONS = ("NONE", "NONE", "RELU", "RELU6", "RELU_N1_TO_1")


def _image(g: Graph, rank: int = 4) -> Tensor:
    return g.pick(
        lambda t: (
            len(t.shape) == rank
            and t.dtype in (F32, INT8, UINT8, INT16)
            and min(t.shape) > 0
            and (t.dtype is F32 or t.quant is not None)
            and (t.dtype is not INT16 or t.quant is None or not t.quant.zero_point.any())
        )
    )


def _weights(
    g: Graph, x: Tensor, shape: Sequence[int], axis: int, units: int, fan: int
) -> tuple[Tensor, Tensor | None, tuple[DType, Quantization | None]]:
    """Weights, bias, and the output's type: floats (stored as such, as halves or as bytes), or
    integers with one scale or one for each channel.
    """
    if x.dtype is F32:
        w = g.random(shape, F32) / np.float32(max(fan, 1) ** 0.5)
        bias = g.constant(g.random((units,), F32)) if g.chance(0.8) else None
        kind = g.choose(["plain", "plain", "half", "bytes"])
        if kind == "half":
            made = g.add("DEQUANTIZE", [g.constant(w.astype(np.float16))], F32, exact=True)[0]
            g.tensors.remove(made)  # for this node alone
            made.const = None
            return made, bias, (F32, None)
        if kind == "bytes" and g.chance(0.5):
            scale = np.abs(w).max() / 127 + 1e-6
            w8 = np.clip(np.round(w / scale), -127, 127).astype(np.int8)
            return g.constant(w8, INT8, _scales([scale], 0)), bias, (F32, None)
        return g.constant(w), bias, (F32, None)
    per_channel = x.dtype is not UINT8 and g.chance(0.6)
    kind = UINT8 if x.dtype is UINT8 else INT8
    low, high = kind.range()
    count = units if per_channel else 1
    scales = 2.0 ** g.rng.uniform(-9, -5, count)
    zero = g.whole(low, high) if kind is UINT8 else 0
    w8 = g.rng.integers(
        low if kind is UINT8 or g.chance(0.2) else -127, high, shape, kind.numpy, True
    )
    weights = g.constant(w8, kind, _scales(scales, axis, zero))
    bias = None
    assert x.quant is not None
    if g.chance(0.8):
        wide = DType.INT64 if x.dtype is INT16 and g.chance(0.5) else DType.INT32
        top = 3000 if x.dtype is not INT16 else 300000
        values = g.rng.integers(-top, top, units).astype(wide.numpy)
        bias = g.constant(values, wide, _scales(scales * float(x.quant.scale[0]), 0))
    out = g.quant(x.dtype, float(x.quant.scale[0] * scales.mean() * 60 * max(fan, 1) ** 0.5))
    return weights, bias, (x.dtype, out)


def _scales(scales: Any, axis: int, zero: int = 0) -> Quantization:
    values = np.asarray(scales, np.float32)
    return Quantization(values, np.full(values.shape, zero, np.int64), axis)


def _geometry(g: Graph, dilated: bool = True) -> dict[str, Any]:
    found = {
        "padding": g.choose(["SAME", "VALID"]),
        "stride_h": g.choose([1, 1, 1, 2, 3]),
        "fused_activation_function": g.choose(ACTIVATIONS),
    }
    found["stride_w"] = found["stride_h"] if g.chance(0.8) else g.choose([1, 2])
    if dilated and g.chance(0.2):
        found["dilation_h_factor"] = g.whole(1, 3)
        found["dilation_w_factor"] = g.whole(1, 3)
    return found


def _units(g: Graph) -> int:
    return int(g.choose([1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, g.whole(1, 70)]))


def _residual(g: Graph, x: Tensor, y: Tensor) -> None:
    """What often follows: the sum with the input, a function."""
    if y.shape == x.shape and g.chance(0.6):
        options = {"fused_activation_function": g.choose(ACTIVATIONS), "pot_scale_int16": False}
        pair = [x, y] if g.chance(0.5) else [y, x]
        y = g.add("ADD", pair, (y.dtype, g.quant(y.dtype)), fit=True, **options)[0]
    if g.chance(0.3):
        g.add("RELU", [y], (y.dtype, y.quant), exact=True)


def _padded(g: Graph, x: Tensor) -> Tensor:
    """Often a PAD comes before."""
    if g.chance(0.75):
        return x
    pads = [[0, 0], *([g.whole(0, 2), g.whole(0, 2)] for _ in (0, 1)), [0, 0]]
    where = g.constant(np.array(pads, np.int32))
    return g.add("PAD", [x, where], (x.dtype, x.quant), exact=True)[0]


def conv(g: Graph) -> None:
    x = _image(g)
    padded = _padded(g, x)
    kernel = (g.choose([1, 1, 2, 3, 3, 5]), g.choose([1, 1, 2, 3, 3, 5]))
    depth = x.shape[3]
    groups = g.choose([1] * 6 + [n for n in (2, 3, 4) if depth % n == 0])
    units = groups * max(1, _units(g) // groups)
    if g.chance(0.25):
        kernel, units = (kernel[0], kernel[0]), depth if depth % groups == 0 else units
    shape = (units, *kernel, depth // groups)
    fan = kernel[0] * kernel[1] * shape[3]
    weights, bias, out = _weights(g, x, shape, 0, units, fan)
    y = g.add("CONV_2D", [padded, weights, bias], out, long=True, fit=True, **_geometry(g))[0]
    _residual(g, x, y)


def depthwise(g: Graph) -> None:
    x = _image(g)
    padded = _padded(g, x)
    kernel = (g.choose([1, 2, 3, 3, 5]), g.choose([1, 2, 3, 3, 5]))
    times = g.choose([1, 1, 1, 1, 2, 3])
    units = x.shape[3] * times
    weights, bias, out = _weights(g, x, (1, *kernel, units), 3, units, kernel[0] * kernel[1])
    options = {"depth_multiplier": times, **_geometry(g)}
    y = g.add("DEPTHWISE_CONV_2D", [padded, weights, bias], out, long=True, fit=True, **options)
    _residual(g, x, y[0])


def transposed(g: Graph) -> None:
    x = _image(g)
    kernel, stride, units = g.choose([1, 2, 3, 4]), g.choose([1, 2, 2, 3]), _units(g)
    padding = g.choose(["SAME", "VALID"])
    more = 0 if padding == "SAME" else max(kernel - stride, 0)
    size = [d * stride + more for d in x.shape[1:3]]
    shape = (units, kernel, kernel, x.shape[3])
    weights, bias, out = _weights(g, x, shape, 0, units, kernel * x.shape[3])
    options = {"padding": padding, "stride_h": stride, "stride_w": stride}
    options["fused_activation_function"] = g.choose(ACTIVATIONS[:3])
    where = g.constant(np.array([x.shape[0], *size, units], np.int32))
    g.add("TRANSPOSE_CONV", [where, weights, x, bias], out, long=True, fit=True, **options)


def volume(g: Graph) -> None:
    x = g.pick(lambda t: len(t.shape) == 5 and t.dtype is F32 and min(t.shape) > 0)
    kernel, units = [g.whole(1, 3) for _ in range(3)], _units(g)
    shape = (*kernel, x.shape[4], units)
    fan = kernel[0] * kernel[1] * kernel[2] * x.shape[4]
    weights = g.constant(g.random(shape, F32) / np.float32(fan**0.5))
    options = _geometry(g, dilated=False)
    options["stride_d"] = g.choose([1, 2])
    inputs = [x, weights, g.constant(g.random((units,), F32))]
    g.add("CONV_3D", inputs, F32, long=True, **options)


def dense(g: Graph) -> None:
    x = g.pick(
        lambda t: (
            len(t.shape) > 0
            and t.dtype in (F32, INT8, UINT8, INT16)
            and min(t.shape) > 0
            and (t.dtype is F32 or t.quant is not None)
        )
    )
    units, depth = _units(g), x.shape[-1]
    weights, bias, out = _weights(g, x, (units, depth), 0, units, depth)
    options = {
        "fused_activation_function": g.choose(ACTIVATIONS),
        "weights_format": "DEFAULT",
        "keep_num_dims": g.chance(0.5),
    }
    g.add("FULLY_CONNECTED", [x, weights, bias], out, long=True, fit=True, **options)


def product(g: Graph) -> None:
    x = g.pick(lambda t: len(t.shape) >= 2 and t.dtype in (F32, INT8, INT16, DType.INT32))
    flip = {"adj_x": g.chance(0.3), "adj_y": g.chance(0.3)}
    depth = x.shape[-2 if flip["adj_x"] else -1]
    shape = [depth, _units(g)]
    shape = shape[::-1] if flip["adj_y"] else shape
    batch = [d if g.chance(0.7) else 1 for d in x.shape[:-2]]
    batch = batch[g.whole(0, len(batch)) :] if g.chance(0.3) else batch
    if g.chance(0.3):
        rank = -1 if flip["adj_y"] else -2
        y = g.pick(lambda t: t.dtype is x.dtype and len(t.shape) > 1 and t.shape[rank] == depth)
    else:
        y = g.constant(g.random([*batch, *shape], x.dtype), x.dtype, g.quant(x.dtype))
    out = (x.dtype, g.quant(x.dtype))
    g.add("BATCH_MATMUL", [x, y], out, long=True, fit=True, **flip)


def pool(g: Graph) -> None:
    x = _image(g)
    op = g.choose(["AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"])
    options = _geometry(g, dilated=False)
    options |= {"filter_height": g.whole(1, 4), "filter_width": g.whole(1, 4)}
    if g.chance(0.2):
        options |= {"filter_height": x.shape[1], "filter_width": x.shape[2], "padding": "VALID"}
    exact = op == "MAX_POOL_2D"
    g.add(op, [x], (x.dtype, x.quant), exact=exact, long=True, **options)


def resize(g: Graph) -> None:
    x = _image(g)
    op = g.choose(["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
    how = g.choose([(False, False), (True, False), (False, True)])
    factor = g.choose([1, 2, 2, 3])
    size = [d * factor for d in x.shape[1:3]]
    if g.chance(0.5):
        size = [g.whole(1, 20), g.whole(1, 20)]
    options = {"align_corners": how[0], "half_pixel_centers": how[1]}
    exact = op == "RESIZE_NEAREST_NEIGHBOR"
    where = g.constant(np.array(size, np.int32))
    g.add(op, [x, where], (x.dtype, x.quant), exact=exact, **options)


def local_response(g: Graph) -> None:
    x = g.pick(lambda t: t.dtype is F32 and len(t.shape) == 4)
    options = {"radius": g.whole(0, 5), "bias": 1.0, "alpha": 0.1, "beta": g.choose([0.5, 0.75])}
    g.add("LOCAL_RESPONSE_NORMALIZATION", [x], F32, long=True, **options)


def _state(g: Graph, shape: Sequence[int], dtype: DType = F32) -> Tensor:
    zeros: Array = np.zeros(tuple(shape), dtype.numpy)
    pairs = [(zeros, zeros)] * 2
    return Tensor(g.name_for("s"), tuple(shape), dtype, None, None, pairs, variable=True)


def _small(g: Graph, *shape: int) -> Tensor:
    return g.constant(g.random(shape, F32) * np.float32(0.3))


def recurrent(g: Graph) -> None:
    """RNN, SVDF and LSTM of floats: what they keep shows in the second invoke."""
    x = g.pick(lambda t: t.dtype is F32 and len(t.shape) in (2, 3) and min(t.shape) > 0)
    depth, units = x.shape[-1], g.choose([1, 3, 4, 8, 17])
    activation = {"fused_activation_function": g.choose(["TANH", "RELU"])}
    if len(x.shape) == 2 and g.chance(0.5):
        rank, memory = g.choose([1, 2]), g.whole(1, 5)
        filters = units * rank
        state = _state(g, (x.shape[0], memory * filters))
        inputs = [x, _small(g, filters, depth), _small(g, filters, memory), _small(g, units), state]
        g.add("SVDF", inputs, F32, long=True, rank=rank, **activation)
        return
    major = len(x.shape) == 3 and g.chance(0.5)
    batch = x.shape[1] if major else x.shape[0]
    if len(x.shape) == 2:
        inputs = [x, _small(g, units, depth), _small(g, units, units), _small(g, units)]
        g.add("RNN", [*inputs, _state(g, (batch, units))], F32, long=True, **activation)
    elif g.chance(0.5):
        inputs = [x, _small(g, units, depth), _small(g, units, units), _small(g, units)]
        inputs.append(_state(g, (batch, units)))
        options = {**activation, "time_major": major}
        g.add("UNIDIRECTIONAL_SEQUENCE_RNN", inputs, F32, long=True, **options)
    else:
        gates = [[_small(g, units, d) for _ in range(4)] for d in (depth, units)]
        biases = [_small(g, units) for _ in range(4)]
        states = [_state(g, (batch, units)) for _ in (0, 1)]
        more: list[Tensor | None] = [None] * 3
        inputs = [x, *gates[0], *gates[1], *more, *biases, None, None, *states, *more, None]
        options = {"fused_activation_function": "TANH", "time_major": major}
        g.add("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, F32, long=True, **options)


WINDOWS: Sequence[tuple[Callable[[Graph], object], float]] = (
    (conv, 6.0),
    (depthwise, 4.0),
    (dense, 3.0),
    (product, 2.0),
    (pool, 3.0),
    (resize, 2.0),
    (transposed, 2.0),
    (recurrent, 2.0),
    (local_response, 0.3),
    (volume, 0.5),
)
