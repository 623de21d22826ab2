"""The random graph of a seed.

python tests/random_seeds.py SEED        prints it
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from random_graphs import LARGEST, Drawn, Graph
from random_ops import MAKERS, WEIGHTS
from random_tensors import Skip, Tensor

from litedelegate.kernels.types import Array, DType

THEMES: Mapping[str, Sequence[DType]] = {
    "float": [DType.FLOAT32],
    "int8": [DType.INT8],
    "uint8": [DType.UINT8],
    "int16": [DType.INT16],
    "whole": [DType.INT32, DType.INT64, DType.BOOL, DType.INT32],
    "mixed": [DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.BOOL],
    "odd": [
        *(DType.FLOAT16, DType.FLOAT64, DType.UINT16, DType.UINT32, DType.UINT64),
        *(DType.COMPLEX64, DType.INT64, DType.BOOL),
    ],
}
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65)


def random_shape(g: Graph) -> tuple[int, ...]:
    """Half of them images; sizes around the borders of tiles."""
    if g.chance(0.5):
        n, c = (
            g.choose([1, 1, 1, 2, 3]),
            g.choose([1, 2, 3, 4, 5, 8, 16, 17, 32, 33, g.whole(1, 70)]),
        )
        most = max(1, int((LARGEST / 2 / n / c) ** 0.5))
        return n, g.whole(1, min(most, 20)), g.whole(1, min(most, 20)), c
    rank = g.choose([0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 5, 6, 7, 8])
    shape: list[int] = []
    for _ in range(rank):
        room = LARGEST // 2 // max(math.prod(shape), 1)
        fits = [s for s in SIZES if s <= room and (rank < 5 or s < 6)]
        shape.append(g.choose(fits or [1]))
    return tuple(shape)


def generate(seed: int, name: str = "main", size: int | None = None) -> Graph:
    """The graph of a seed."""
    g = Graph(np.random.default_rng([seed, 4]), name)
    g.wild = g.chance(0.05)
    theme = g.choose(list(THEMES))
    g.empty = g.chance(0.05)
    for _ in range(g.whole(1, 3)):
        dtype = g.choose(THEMES[theme])
        shape = random_shape(g)
        if g.inputs and g.chance(0.4):
            shape = g.inputs[0].shape
        if g.empty and shape and g.chance(0.5):
            cut = g.whole(0, len(shape) - 1)
            shape = (*shape[:cut], 0, *shape[cut + 1 :])
        g.input(shape, dtype, g.quant(dtype))
    wanted = size or g.whole(4, 14)
    for _ in range(40 * wanted):
        if len(g.nodes) >= wanted:
            break
        maker = g.rng.choice(len(MAKERS), p=WEIGHTS)
        draw(g, MAKERS[maker])
    _choose_outputs(g)
    if g.chance(0.1) and len(g.nodes) > 3 and not any(_has_state(n) for n in g.nodes):
        start = g.whole(0, len(g.nodes) - 2)
        g.called = start, g.whole(start + 1, len(g.nodes))
    return g


def _has_state(node: Drawn) -> bool:
    kept = any(t is not None and t.variable for t in node.inputs)
    return kept or node.op.endswith(("_HANDLE", "_VARIABLE"))


def draw(g: Graph, maker: Callable[[Graph], object]) -> bool:
    """Lets a maker add nodes; where it gives up halfway, all is as it was."""
    tensors, nodes = len(g.tensors), len(g.nodes)
    try:
        maker(g)
        return True
    except Skip:
        del g.tensors[tensors:], g.nodes[nodes:]
        return False


def _choose_outputs(g: Graph) -> None:
    """All that nobody reads, and some of the rest; now and then an input or a constant."""
    read = {id(t) for n in g.nodes for t in n.inputs}
    made = [t for n in g.nodes for t in n.outputs if t.dtype is not DType.RESOURCE]
    found = [t for t in made if id(t) not in read or g.chance(0.15)]
    if g.chance(0.05):
        found.insert(0, g.choose(g.inputs))
    constants = [t for n in g.nodes for t in n.inputs if t is not None and t.const is not None]
    if constants and g.chance(0.03):
        found.append(g.choose(constants))
    g.outputs = found or g.inputs[:1]


def inputs_of(g: Graph, k: int) -> dict[str, Array]:
    return {t.name: t.values[k][0] for t in g.inputs}


def needed(nodes: Iterable[Drawn], outputs: Iterable[Tensor]) -> list[Drawn]:
    """The nodes that the outputs depend on."""
    wanted = {id(t) for t in outputs}
    kept: list[Drawn] = []
    for node in reversed(list(nodes)):
        if any(id(t) in wanted for t in node.outputs):
            kept.insert(0, node)
            wanted |= {id(t) for t in node.inputs if t is not None}
    return kept


if __name__ == "__main__":
    print(generate(int(sys.argv[1])))
