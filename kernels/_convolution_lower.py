"""Device forms of convolutions and of FULLY_CONNECTED, which is one over a single pixel."""

from __future__ import annotations

from . import _convolution_float_lower as floats
from . import _convolution_gpu_lower as tiles
from . import _convolution_int8_lower as integers
from . import _depthwise_gpu_lower as strips
from ._convolution import scaling
from ._convolution_parts import POINT, Scale, claimed, direct_depthwise, stored_weights
from ._depthwise_float_lower import depthwise
from ._window import Window
from .api import NodeSpec
from .device import Capability, Lowered

__all__ = ["POINT", "lower_convolution", "lower_depthwise"]


def lower_convolution(
    node: NodeSpec,
    capability: Capability,
    window: Window,
    channels: int,
    scale: Scale = scaling,
) -> Lowered:
    """Of weights [units, …, depth] and an input of `channels`."""
    x, spec = claimed(node, capability)
    weights = stored_weights(spec)
    weights = weights.reshape(weights.shape[0], -1, weights.shape[-1])
    if capability.kind == "gpu":
        return tiles.convolution(node, capability, window, weights, channels, scale)
    if x.dtype.is_float:
        return floats.convolution(node, capability, window, weights, channels)
    return integers.convolution(node, capability, window, weights, channels, scale)


def lower_depthwise(node: NodeSpec, capability: Capability, window: Window) -> Lowered:
    """Of weights [1, height, width, units]."""
    x, spec = claimed(node, capability)
    stored = stored_weights(spec)[0]
    weights = stored.reshape(-1, stored.shape[-1]).T
    if not node.outputs[0].size:
        return direct_depthwise(node, capability, window, weights)
    if capability.kind == "gpu":
        return strips.depthwise(node, capability, window, weights)
    if x.dtype.is_float:
        if x.shape[3] == 1:
            return floats.convolution(node, capability, window, weights[:, :, None], 1)
        return depthwise(node, capability, window, weights)
    return integers.depthwise(node, capability, window, weights)
