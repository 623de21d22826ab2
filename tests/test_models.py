"""Real models, where `../shared/models` is there: two invokes each, by its README's rules."""

from __future__ import annotations

import pytest
from models_check import MODELS, check, compare_default, compare_nodes, names

from litedelegate import BuiltinOpResolver, Model
from litedelegate.runtime.graph import resolve

KNOWN = names() if MODELS.is_dir() else []
pytestmark = pytest.mark.skipif(not KNOWN, reason=f"there is no {MODELS}")
# What is too large for a whole run here: with other shapes of the input.
SMALLER = {"edsr_int8": [1, 40, 60, 3], "edsr_f32": [1, 40, 60, 3]}


def need_ops(name: str) -> None:
    _, missing = resolve(Model.from_file(MODELS / f"{name}.tflite"), BuiltinOpResolver())
    if missing:
        pytest.skip(f"no kernel for {', '.join(m.op for m in missing)}")


@pytest.mark.parametrize("name", KNOWN)
def test_two_invokes(name: str) -> None:
    need_ops(name)
    wrong = check(name)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["edsr_f32", "selfie_segmentation_custom_op"])
def test_against_the_default_resolver(name: str) -> None:
    """The reference kernels lack an op or a version of these."""
    pytest.importorskip("ai_edge_litert")
    need_ops(name)
    wrong = compare_default(name, SMALLER.get(name))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "name", ["edsr_int8", "mobilenet_v2_ptq_int8", "dtln_2_hybrid", "ssd_traffic_u8"]
)
def test_node_by_node(name: str) -> None:
    """Each node is fed the reference's own tensors."""
    pytest.importorskip("ai_edge_litert")
    need_ops(name)
    count, found = compare_nodes(name, SMALLER.get(name))
    assert count > 20
    assert not found, "\n".join(f"node {d.node} {d.op}: {d.reason}" for d in found)
