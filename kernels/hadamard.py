"""aeq.hadamard_rotation: the Walsh-Hadamard transform of each run of `hadamard_size` elements."""

from __future__ import annotations

import numpy as np

from ._check import option_map
from .api import Binding, NodeSpec, Run, Shape, op, require, take
from .types import Array, DType

NAME = "aeq.hadamard_rotation"


def _size(node: NodeSpec | Binding) -> int:
    size = int(option_map(node.options).get("hadamard_size", 0))
    require(size > 0 and size & (size - 1) == 0, f"hadamard_size is {size}; taken: a power of two")
    return size


def _infer(node: NodeSpec) -> list[Shape]:
    x, size = node.input(0), _size(node)
    take(node, "input 0", x, DType.FLOAT32)
    take(node, "output", node.outputs[0], DType.FLOAT32)
    require(
        x.rank >= 1 and x.shape[-1] % size == 0,
        f"input 0 is {x}; taken: a last dimension that {size} divides",
    )
    return [x.shape]


def _bind(b: Binding) -> Run | None:
    x, y, size = b.xi(0).reshape(-1), b.y[0].reshape(-1), _size(b)
    if not y.size:
        return None
    passes = size.bit_length() - 1
    other = b.scratch(y.shape)
    # the passes write in turn, so that the last one writes y
    targets = [y if (passes - k) % 2 else other for k in range(passes)]
    source: Array = x
    steps: list[tuple[Array, Array, Array, Array]] = []
    for k, target in enumerate(targets):
        parts = source.reshape(-1, 2, 1 << k)
        sums = target.reshape(-1, 2, 1 << k)
        steps.append((parts[:, 0], parts[:, 1], sums[:, 0], sums[:, 1]))
        source = target
    norm = np.float32(1) / np.sqrt(np.float32(size))

    def run() -> None:
        for first, second, total, difference in steps:
            np.add(first, second, out=total)
            np.subtract(first, second, out=difference)
        np.multiply(source, norm, out=y)

    return run


OPS = {NAME: op(NAME, _infer, _bind, custom=True)}
