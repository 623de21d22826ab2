"""Real models, where `../shared/models` is there: two invokes each, by its README's rules."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conformance import Array
from models_check import (
    MODELS,
    check,
    compare_default,
    compare_nodes,
    inputs_of,
    names,
    start,
)

from litedelegate import BuiltinOpResolver, Interpreter, Model
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


SMALL = [
    "blazeface_f32",
    "dtln_2_hybrid",
    "kv_cache_multi_signature",
    "kws_dscnn_int8",
    "lstm_int8",
    "lyra_soundstream_encoder",
    "okay_nabu_streaming_int8",
    "resnet8_f32",
    "toycar_dynamic_range",
]


def results(interpreter: Interpreter, inputs: list[Array]) -> list[Array]:
    """The outputs of two invokes in a row."""
    found: list[Array] = []
    for _ in range(2):
        start(interpreter, inputs)
        found += [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
    return found


@pytest.mark.parametrize("name", SMALL)
def test_same_bits_whatever_is_kept_and_on_any_number_of_threads(name: str) -> None:
    path, inputs = MODELS / f"{name}.tflite", inputs_of(name)
    expected = results(Interpreter(path), inputs)
    for options in (
        {"experimental_preserve_all_tensors": True},
        {"num_threads": 1},
        {"num_threads": 3},
    ):
        got = results(Interpreter(path, **options), inputs)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=str(options))


@pytest.mark.parametrize("name", SMALL)
def test_clones_side_by_side(name: str) -> None:
    """What is shared is not written: two threads on other inputs get what one alone gets."""
    one = Interpreter(MODELS / f"{name}.tflite", num_threads=1)
    inputs = inputs_of(name)
    both = [inputs, [np.flip(x).copy() for x in inputs]]
    expected = [results(one.clone(), x) for x in both]

    def work(k: int) -> list[list[Array]]:
        return [results(one.clone(), both[k]) for _ in range(3)]

    with ThreadPoolExecutor(2) as pool:
        for k, runs in enumerate(pool.map(work, range(2))):
            for got in runs:
                for a, b in zip(got, expected[k], strict=True):
                    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["kws_dscnn_int8", "resnet8_f32", "toycar_dynamic_range"])
def test_resized_and_back(name: str) -> None:
    """A batch of two on a used interpreter is what a new one gives; then the first batch again."""
    path, inputs = MODELS / f"{name}.tflite", inputs_of(name)
    twice = [np.concatenate([x, x]) for x in inputs]
    used = Interpreter(path)
    first = results(used, inputs)
    for got, expected in (
        (results(used, twice), results(Interpreter(path), twice)),
        (results(used, inputs), first),
    ):
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_array_equal(a, b)
