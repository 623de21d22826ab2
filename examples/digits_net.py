"""A small convolutional network in plain numpy: enough to train a digit classifier.

Arrays are NHWC; convolution weights are OHWI, as a .tflite file stores them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Params = dict[str, Array]

CHANNELS = (16, 32)
CLASSES = 10


def new_params(rng: np.random.Generator) -> Params:
    """He-initialised weights of conv 3x3, conv 3x3 and a fully connected layer."""
    a, b = CHANNELS

    def he(*shape: int) -> Array:
        fan_in = int(np.prod(shape[1:]))
        return rng.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)

    return {
        "conv1/weights": he(a, 3, 3, 1),
        "conv1/bias": np.zeros(a, np.float32),
        "conv2/weights": he(b, 3, 3, a),
        "conv2/bias": np.zeros(b, np.float32),
        "dense/weights": he(CLASSES, 2 * 2 * b),
        "dense/bias": np.zeros(CLASSES, np.float32),
    }


def _patches(x: Array) -> Array:
    """[n, h, w, 9 * c]: the 3x3 neighbourhood of each pixel, zeros outside."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return np.moveaxis(windows, 3, 5).reshape(*x.shape[:3], -1)


def _unpatches(d: Array, shape: tuple[int, ...]) -> Array:
    """The gradient of `_patches`."""
    n, h, w, c = shape
    d = d.reshape(n, h, w, 3, 3, c)
    padded = np.zeros((n, h + 2, w + 2, c), np.float32)
    for i in range(3):
        for j in range(3):
            padded[:, i : i + h, j : j + w] += d[:, :, :, i, j]
    return padded[:, 1:-1, 1:-1]


def _pool(x: Array) -> tuple[Array, Array]:
    """2x2 maximum, and which of the four it was (one-hot)."""
    n, h, w, c = x.shape
    blocks = x.reshape(n, h // 2, 2, w // 2, 2, c).swapaxes(2, 3).reshape(n, h // 2, w // 2, 4, c)
    winner = np.arange(4)[:, None] == blocks.argmax(axis=3)[:, :, :, None]
    return blocks.max(axis=3), winner


def _unpool(d: Array, winner: Array) -> Array:
    n, h, w, _, c = winner.shape
    blocks = (d[:, :, :, None] * winner).reshape(n, h, w, 2, 2, c)
    return blocks.swapaxes(2, 3).reshape(n, 2 * h, 2 * w, c)


def forward(params: Params, x: Array) -> dict[str, Array]:
    """All activations for images [n, 8, 8, 1]; those named "_…" are for `gradients` alone."""
    out: dict[str, Array] = {"image": x}
    for name in ("conv1", "conv2"):
        out[f"_{name}/patches"] = patches = _patches(x)
        weights = params[f"{name}/weights"]
        out[name] = np.maximum(
            patches @ weights.reshape(len(weights), -1).T + params[f"{name}/bias"], 0
        )
        x, out[f"_{name}/winner"] = _pool(out[name])
    out["flat"] = x.reshape(len(x), -1)
    out["logits"] = out["flat"] @ params["dense/weights"].T + params["dense/bias"]
    shifted = np.exp(out["logits"] - out["logits"].max(axis=1, keepdims=True))
    out["scores"] = shifted / shifted.sum(axis=1, keepdims=True)
    return out


def gradients(params: Params, x: Array, labels: Array) -> Params:
    """Of the mean cross-entropy, for each parameter."""
    out = forward(params, x)
    d = (out["scores"] - np.eye(CLASSES, dtype=np.float32)[labels]) / len(x)
    grads = {"dense/weights": d.T @ out["flat"], "dense/bias": d.sum(axis=0)}
    d = (d @ params["dense/weights"]).reshape(len(x), 2, 2, -1)
    for name in ("conv2", "conv1"):
        d = _unpool(d, out[f"_{name}/winner"]) * (out[name] > 0)
        weights = params[f"{name}/weights"]
        patches = out[f"_{name}/patches"]
        flat = d.reshape(-1, len(weights))
        grads[f"{name}/weights"] = (flat.T @ patches.reshape(len(flat), -1)).reshape(weights.shape)
        grads[f"{name}/bias"] = flat.sum(axis=0)
        d = _unpatches(flat @ weights.reshape(len(weights), -1), (*d.shape[:3], weights.shape[-1]))
    return grads


def _shifted(x: Array, rng: np.random.Generator) -> Array:
    """Each image moved by at most a pixel along each axis."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    rows = rng.integers(0, 3, len(x))[:, None] + np.arange(8)
    columns = rng.integers(0, 3, len(x))[:, None] + np.arange(8)
    return padded[np.arange(len(x))[:, None, None], rows[:, :, None], columns[:, None, :]]


def train(x: Array, labels: Array, epochs: int, seed: int) -> Iterator[Params]:
    """Adam on batches of 64 with a falling rate; yields the parameters after each epoch."""
    rng = np.random.default_rng(seed)
    params = new_params(rng)
    mean = {k: np.zeros_like(v) for k, v in params.items()}
    square = {k: np.zeros_like(v) for k, v in params.items()}
    step = 0
    for epoch in range(epochs):
        rate = 3e-3 * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        order = rng.permutation(len(x))
        for start in range(0, len(x), 64):
            batch = order[start : start + 64]
            step += 1
            for name, grad in gradients(params, _shifted(x[batch], rng), labels[batch]).items():
                mean[name] += 0.1 * (grad - mean[name])
                square[name] += 0.001 * (grad**2 - square[name])
                unbiased = mean[name] / (1 - 0.9**step)
                spread = np.sqrt(square[name] / (1 - 0.999**step)) + 1e-8
                params[name] = (params[name] - rate * unbiased / spread).astype(np.float32)
        yield params
