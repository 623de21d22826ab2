"""Some random graphs on each kind of device; `random_graphs_check.py` runs more of them."""

from __future__ import annotations

import numpy as np
import pytest
import random_graphs_check
from random_graphs import Graph
from random_graphs_check import BACKENDS, WAYS, delegate, faults, invoke, reduce
from random_seeds import generate, inputs_of
from random_tensors import differs

from litedelegate import Interpreter, ModelBuilder
from litedelegate.kernels.types import Array

# chosen for the operators and types that they hold between them
SEEDS = (66, 59, 9, 171, 88, 112, 71, 44)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_graph(backend: str, seed: int) -> None:
    g = generate(seed)
    assert len(g.nodes) >= 4
    assert not faults(g, backend, WAYS[SEEDS.index(seed) % len(WAYS)]), str(g)


def test_a_seed_gives_one_graph() -> None:
    first, second = (generate(SEEDS[0]) for _ in range(2))
    assert str(first) == str(second)
    for name, value in inputs_of(first, 1).items():
        np.testing.assert_array_equal(value, inputs_of(second, 1)[name])


@pytest.mark.parametrize("seed", [16, 28])
def test_two_signatures(seed: int) -> None:
    """Graphs of one model, which run in turn."""
    graphs = [generate(seed + k, name) for k, name in enumerate(("first", "second"))]
    builder = ModelBuilder()
    for g in graphs:
        builder.signature(g.name, *g.write(builder))
    content = builder.build()
    with (
        Interpreter(model_content=content) as plain,
        Interpreter(model_content=content, delegates=[delegate("opencl-intel")]) as ours,
    ):
        for k in (0, 1):
            for g in graphs:
                want, got = (i.run(inputs_of(g, k), signature_key=g.name) for i in (plain, ours))
                check_outputs(g, got, want)
        assert not [n for n in ours.delegate_coverage().on_cpu if not n.refusals]


def check_outputs(g: Graph, got: dict[str, Array], want: dict[str, Array]) -> None:
    assert not [text for t in g.outputs if (text := differs(t, got[t.name], want[t.name]))]


def test_what_differs_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """One operator is taken for faulty: it is what remains."""
    g = generate(SEEDS[0])
    guilty = next(n for n in g.nodes[1:] if n.inputs and n.outputs)
    monkeypatch.setattr(random_graphs_check, "fails", lambda part, *_: guilty in part.nodes)
    small = reduce(g, "opencl-intel")
    assert small.nodes == [guilty]
    with Interpreter(model_content=small.model()) as interpreter:
        assert len(invoke(interpreter, inputs_of(small, 0))) == len(small.outputs)
