"""Broken models are refused with one error that names table, index and field; sound ones load."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_models

from litedelegate.runtime import verifier
from litedelegate.runtime.builder import ModelBuilder, Quant
from litedelegate.runtime.encoding import write_control_edges
from litedelegate.runtime.model import InvalidModelError, Model

Values = dict[str, Any]
Break = Callable[[Values], object]


def chain() -> ModelBuilder:
    """x -> ABS -> a -> ADD with the constant c -> y."""
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (2,))
    a = g.op("ABS", [x], ("a", (2,), "float32"))
    c = g.constant("c", np.ones(2, np.float32))
    y = g.op("ADD", [a, c], ("y", (2,), "float32"))
    g.outputs(y)
    b.signature("run", {"x": x}, {"y": y})
    b.metadata("note", b"text")
    return b


def graph(values: Values, index: int = 0) -> Values:
    found: Values = values["subgraphs"][index]
    return found


def tensor(values: Values, index: int) -> Values:
    found: Values = graph(values)["tensors"][index]
    return found


def operator(values: Values, index: int) -> Values:
    found: Values = graph(values)["operators"][index]
    return found


BROKEN: dict[str, tuple[Break, str]] = {
    "operator code": (
        lambda v: operator(v, 1).update(opcode_index=2),
        r"subgraphs\[0\].operators\[1\].opcode_index: 2 is no operator code; there are 2",
    ),
    "input beyond the tensors": (
        lambda v: operator(v, 1).update(inputs=[1, 9]),
        r"operators\[1\].inputs\[1\]: 9 is no tensor; subgraph 0 has 4",
    ),
    "input below -1": (
        lambda v: operator(v, 1).update(inputs=[1, -2]),
        r"operators\[1\].inputs\[1\]: -2 is no tensor",
    ),
    "a required input absent": (
        lambda v: operator(v, 1).update(inputs=[1, -1]),
        r"operators\[1\].inputs\[1\]: is absent \(-1\), which ADD needs",
    ),
    "an output absent": (
        lambda v: operator(v, 0).update(outputs=[-1]),
        r"operators\[0\].outputs\[0\]: is absent \(-1\), which ABS needs",
    ),
    "too few inputs": (
        lambda v: operator(v, 1).update(inputs=[1]),
        r"operators\[1\].inputs: ADD has 1 inputs; it takes 2",
    ),
    "too many outputs": (
        lambda v: operator(v, 0).update(outputs=[1, 3]),
        r"operators\[0\].outputs: ABS has 2 outputs; it gives 1",
    ),
    "its own input": (
        lambda v: operator(v, 0).update(inputs=[1]),
        r"operators\[0\].inputs: tensor 1 'a' is also an output of the same operator",
    ),
    "read too early": (
        lambda v: graph(v)["operators"].reverse(),
        r"operators\[0\].inputs: tensor 1 'a' is read before operator 1 makes it",
    ),
    "made twice": (
        lambda v: operator(v, 1).update(outputs=[1], inputs=[0, 2]),
        r"operators\[1\].outputs: tensor 1 'a' is made twice: operator 0 makes it too",
    ),
    "a constant made": (
        lambda v: operator(v, 0).update(outputs=[2]),
        r"operators\[0\].outputs: tensor 2 'c' is a constant",
    ),
    "an input made": (
        lambda v: operator(v, 1).update(outputs=[0]),
        r"operators\[1\].outputs: tensor 0 'x' is an input of its subgraph",
    ),
    "made by nobody": (
        lambda v: tensor(v, 2).pop("buffer"),
        r"operators\[1\].inputs: tensor 2 'c' has no value",
    ),
    "graph input": (
        lambda v: graph(v).update(inputs=[-1]),
        r"subgraphs\[0\].inputs\[0\]: -1 is no tensor",
    ),
    "graph output": (
        lambda v: graph(v).update(outputs=[4]),
        r"subgraphs\[0\].outputs\[0\]: 4 is no tensor",
    ),
    "buffer index": (
        lambda v: tensor(v, 2).update(buffer=7),
        r"tensors\[2\].buffer: 7 is no buffer; there are 3",
    ),
    "a constant too short": (
        lambda v: tensor(v, 2).update(shape=[3]),
        r"tensors\[2\].buffer: buffer 1 holds 8 bytes; 3 elements of float32 take 12",
    ),
    "a variable with a value": (
        lambda v: tensor(v, 2).update(is_variable=True),
        r"tensors\[2\].buffer: a variable cannot have a value",
    ),
    "a negative dimension": (
        lambda v: tensor(v, 0).update(shape=[-1, 2]),
        r"tensors\[0\].shape: \[-1, 2\] has a negative dimension",
    ),
    "an element count that overflows": (
        lambda v: tensor(v, 0).update(shape=[1 << 30, 1 << 30, 1 << 4]),
        r"tensors\[0\].shape: the element count of .* overflows",
    ),
    "one that overflows to zero": (
        lambda v: tensor(v, 0).update(shape=[1 << 30, 1 << 30, 1 << 30, 0]),
        r"tensors\[0\].shape: the element count of .* overflows",
    ),
    "too many dimensions": (
        lambda v: tensor(v, 0).update(shape=[1] * 65),
        r"tensors\[0\].shape: 65 dimensions",
    ),
    "an unknown type": (
        lambda v: tensor(v, 0).update(type=99),
        r"tensors\[0\].type: 99 is none of FLOAT32, FLOAT16",
    ),
    "an unknown enum value in options": (
        lambda v: operator(v, 1).update(
            builtin_options=("AddOptions", {"fused_activation_function": 50})
        ),
        r"operators\[1\].builtin_options.fused_activation_function: 50 is none of NONE, RELU",
    ),
    "fewer zero points than scales": (
        lambda v: tensor(v, 0).update(
            quantization={"scale": [1.0, 2.0], "zero_point": np.array([0])}
        ),
        r"tensors\[0\].quantization.zero_point: 1 zero points for 2 scales",
    ),
    "a zero point that its type lacks": (
        lambda v: tensor(v, 0).update(
            type=9, quantization={"scale": [1.0, 1.0], "zero_point": [-128, 128]}
        ),
        r"tensors\[0\].quantization.zero_point: 128 is no value of int8",
    ),
    "scales that do not fit the axis": (
        lambda v: tensor(v, 0).update(quantization={"scale": [1.0] * 3, "zero_point": [0] * 3}),
        r"tensors\[0\].quantization.scale: 3 scales for dimension 0, which has 2",
    ),
    "an axis beyond the rank": (
        lambda v: tensor(v, 0).update(
            quantization={"scale": [1.0], "zero_point": [0], "quantized_dimension": 1}
        ),
        r"quantization.quantized_dimension: 1 is no dimension of a tensor that has 1",
    ),
    "signature tensor": (
        lambda v: v["signature_defs"][0]["inputs"][0].update(tensor_index=4),
        r"signature_defs\[0\].inputs\[0\].tensor_index: 4 is no tensor; subgraph 0 has 4",
    ),
    "signature subgraph": (
        lambda v: v["signature_defs"][0].update(subgraph_index=1),
        r"signature_defs\[0\].subgraph_index: 1 is no subgraph; there are 1",
    ),
    "signature without a name": (
        lambda v: v["signature_defs"][0].pop("signature_key"),
        r"signature_defs\[0\].signature_key: the signature has no name",
    ),
    "metadata buffer": (
        lambda v: v["metadata"][0].update(buffer=3),
        r"metadata\[0\].buffer: 3 is no buffer; there are 3",
    ),
    "data behind the file": (
        lambda v: v["buffers"][1].update(data=None, offset=1 << 40, size=8),
        r"buffers\[1\].offset: 8 bytes from byte 1099511627776 on do not fit",
    ),
    "a size that overflows": (
        lambda v: v["buffers"][1].update(data=None, offset=(1 << 64) - 8, size=(1 << 64) - 8),
        r"buffers\[1\].offset: .* do not fit",
    ),
}


def refusal(b: ModelBuilder) -> str:
    with pytest.raises(InvalidModelError) as caught:
        Model.from_buffer(b.build(verify=False))
    return str(caught.value)


@pytest.mark.parametrize("case", BROKEN)
def test_broken_models(case: str) -> None:
    spoil, text = BROKEN[case]
    b = chain()
    b.build()
    spoil(b.values)
    with pytest.raises(InvalidModelError, match=text):
        Model.from_buffer(b.build(verify=False))


def test_without_verification_it_loads() -> None:
    b = chain()
    operator(b.values, 1)["inputs"] = [1, 9]
    model = Model.from_buffer(b.build(verify=False), verify=False)
    assert model.subgraphs[0].operators[1].inputs == (1, 9)


def test_optional_inputs_may_be_absent() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    x, w = g.input("x", (1, 2)), g.constant("w", np.ones((1, 2), np.float32))
    g.outputs(g.op("FULLY_CONNECTED", [x, w, None], ("y", (1, 1), "float32")))
    assert Model.from_buffer(b.build()).subgraphs[0].operators[0].inputs == (0, 1, -1)


def test_a_custom_operator_takes_any_number() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    g.outputs(*g.custom("Own", [None, g.input("x", ()), None], [("y", (), "float32")]))
    b.build()


def test_what_has_a_value_from_elsewhere_may_be_read() -> None:
    """Variables, tensors without elements, constants kept outside of the file."""
    b = ModelBuilder()
    g = b.subgraph()
    read = [
        g.variable("v", (2,)),
        g.tensor("e", (0,)),
        g.tensor("o", (2,), external_buffer=1),
    ]
    g.outputs(g.custom("Own", read, ("y", (), "float32")))
    b.build()


def test_a_buffer_may_be_longer_than_its_tensor() -> None:
    b = chain()
    b.values["buffers"][1]["data"] = np.zeros(64, np.uint8)
    model = Model.from_buffer(b.build())
    value = model.constant(model.subgraphs[0].tensors[2])
    assert value is not None and value.shape == (2,)


def test_absent_parts_are_not_the_verifiers() -> None:
    for part in ("operator_codes", "buffers"):
        b = chain()
        b.values.pop(part)
        b.values.pop("metadata")
        Model.from_buffer(b.build())
    b = chain()
    b.values["version"] = 2
    assert Model.from_buffer(b.build()).version == 2


STRINGS: dict[str, bytes] = {
    "no count": b"\1\0",
    "a count beyond the buffer": b"\xff\xff\xff\x7f" + bytes(12),
    "a negative count": b"\xff\xff\xff\xff" + bytes(12),
    "an offset into the header": b"\1\0\0\0\4\0\0\0\14\0\0\0",
    "offsets that fall": b"\2\0\0\0\24\0\0\0\20\0\0\0\24\0\0\0abcd",
    "an end beyond the buffer": b"\1\0\0\0\14\0\0\0\377\0\0\0a",
    "another number than the shape": b"\2\0\0\0\20\0\0\0\20\0\0\0\20\0\0\0",
}


@pytest.mark.parametrize("case", STRINGS)
def test_broken_strings(case: str) -> None:
    b = ModelBuilder()
    g = b.subgraph()
    g.outputs(g.constant("s", ["a"]))
    b.values["buffers"][1]["data"] = np.frombuffer(STRINGS[case], np.uint8)
    assert "Model.subgraphs[0].tensors[0].buffer: buffer 1" in refusal(b)


def calls(callees: dict[int, list[int]]) -> ModelBuilder:
    """Subgraph i calls callees[i] with CALL."""
    b = ModelBuilder()
    for i in range(len(callees)):
        g = b.subgraph(f"g{i}")
        x = g.input("x", (1,))
        for k, called in enumerate(callees[i]):
            x = g.op("CALL", [x], (f"c{k}", (1,), "float32"), subgraph=called)
        g.outputs(x)
    return b


def test_calls() -> None:
    calls({0: [1, 2, 1], 1: [2], 2: []}).build()


@pytest.mark.parametrize(
    ("callees", "text"),
    [
        ({0: [5]}, r"operators\[0\].subgraph: 5 is no subgraph; there are 1"),
        ({0: [0]}, "subgraph 0 is called from within itself, by way of 0"),
        ({0: [], 1: [2], 2: [1]}, "subgraph 1 is called from within itself, by way of 1 -> 2"),
        ({i: [i + 1] if i < 99 else [] for i in range(100)}, "more than 64 deep"),
        ({i: [i + 1] * 4 if i < 30 else [] for i in range(31)}, "calls of subgraphs"),
    ],
)
def test_calls_that_do_not_end(callees: dict[int, list[int]], text: str) -> None:
    with pytest.raises(InvalidModelError, match=text):
        Model.from_buffer(calls(callees).build(verify=False))


def test_a_wide_fan_of_calls_is_quick() -> None:
    data = calls({0: list(range(1, 1000)), **{i: [] for i in range(1, 1000)}}).build(verify=False)
    start = time.perf_counter()
    Model.from_buffer(data)
    assert time.perf_counter() - start < 2


def test_branches_take_and_give_what_the_caller_says() -> None:
    def branch(inputs: int, outputs: int) -> ModelBuilder:
        b = ModelBuilder()
        g = b.subgraph()
        for name in ("then", "else"):
            inner = b.subgraph(name)
            xs = [inner.input(f"x{i}", ()) for i in range(inputs)]
            inner.outputs(*[xs[0]] * outputs)
        c, x = g.input("c", (), "bool"), g.input("x", ())
        y = g.op("IF", [c, x], [("y", (), "float32")], then_subgraph_index=1, else_subgraph_index=2)
        g.outputs(*y)
        return b

    branch(1, 1).build()
    assert "IF passes 1 inputs; subgraph 1 takes 2" in refusal(branch(2, 1))
    assert "IF takes 1 outputs; subgraph 1 gives 2" in refusal(branch(1, 2))


@pytest.mark.parametrize("edges", [[(0, 2)], [(1, 0)], [(1, 1)], [(-1, 0)]])
def test_control_edges_lead_to_a_later_operator(edges: list[tuple[int, int]]) -> None:
    b = chain()
    b.metadata("model_control_dependencies", write_control_edges([edges]))
    assert f"the edge {edges[0][0]} -> {edges[0][1]} of subgraph 0" in refusal(b)


@pytest.mark.parametrize(
    ("raw", "text"),
    [(b"\1\1\2\0", "end early"), (b"\1\1\0\7", "follow"), (b"\1\x80", "end within a number")],
)
def test_broken_control_edges(raw: bytes, text: str) -> None:
    b = chain()
    b.metadata("model_control_dependencies", raw)
    assert text in refusal(b)


def test_control_edges_of_another_version_are_left_out() -> None:
    b = chain()
    b.metadata("model_control_dependencies", b"\2\1\2\0")
    assert Model.from_buffer(b.build()).control_edges == [()]


def sparse(**changes: Any) -> ModelBuilder:
    b = ModelBuilder()
    g = b.subgraph()
    rows: Values = {
        "format": "SPARSE_CSR",
        "array_segments": ("Uint8Vector", {"values": changes.get("segments", [0, 1, 2])}),
        "array_indices": ("Int32Vector", {"values": changes.get("indices", [3, 0])}),
    }
    sparsity = {
        "traversal_order": changes.get("order", [0, 1]),
        "dim_metadata": [{"format": "DENSE", "dense_size": changes.get("size", 2)}, rows],
    }
    values = np.ones(changes.get("stored", 2), np.float32)
    g.outputs(g.constant("s", values, shape=(2, 4), sparsity=sparsity))
    return b


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"segments": [0, 1]}, "array_segments must hold 3 values"),
        ({"segments": [0, 2, 1]}, "array_segments do not rise"),
        ({"segments": [0, 1, 3]}, "array_segments do not rise to 2"),
        ({"indices": [4, 0]}, "array_indices leave the dimension of 4"),
        ({"indices": [-1, 0]}, "array_indices leave the dimension of 4"),
        ({"order": [0, 0]}, r"traversal_order \[0, 0\] is no order"),
        ({"order": [0, 1, 2]}, "do not fit a tensor of 2 dimensions"),
        ({"size": 3}, "dense_size is 3; the dimension has 2"),
        ({"stored": 1}, "holds 4 bytes; the sparsity tells of 2 elements"),
    ],
)
def test_broken_sparsity(changes: dict[str, Any], text: str) -> None:
    sparse().build()
    with pytest.raises(InvalidModelError, match=text):
        Model.from_buffer(sparse(**changes).build(verify=False))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"scales": 9}, "details.scales: 9 is no tensor"),
        ({"scales": 0}, "details.scales: tensor 0 is no constant of floats"),
        ({"zero_points": -2}, "details.zero_points: -2 is no tensor"),
        ({"block_size": 0}, "blocks of 0 do not divide"),
        ({"block_size": 3}, "blocks of 3 do not divide"),
        ({"block_size": 4}, "2 scales for 4 elements in blocks of 4"),
    ],
)
def test_broken_blockwise_quantization(changes: Values, text: str) -> None:
    b = ModelBuilder()
    g = b.subgraph()
    g.input("x", (1, 2))
    w = np.zeros((1, 4), np.int8)
    g.outputs(g.constant("w", w, "int4", quant=Quant([[1.0, 2.0]], block_size=2)))
    b.build()
    tensor(b.values, 2)["quantization"]["details"][1].update(changes)
    assert text in refusal(b)


def test_shared_tables_cannot_multiply() -> None:
    """A thousand offsets to one subgraph of a thousand tensors: a million tables."""
    b = ModelBuilder()
    for _ in range(1000):
        b.subgraph()
    last = b.subgraph()
    for i in range(1000):
        last.tensor(f"t{i}", ())
    data = bytearray(b.build())
    root = Model.from_buffer(bytes(data)).root
    target = int(root.children("subgraphs").pos[-1])
    first = int(root.vector("subgraphs").start[0])
    for slot in range(first, first + 4 * 1000, 4):
        data[slot : slot + 4] = (target - slot).to_bytes(4, "little")
    with pytest.raises(InvalidModelError, match="claim more"):
        Model.from_buffer(bytes(data))


def test_shared_vectors_cannot_multiply() -> None:
    """A thousand tensors whose shape is the same vector, which fills the file."""
    b = ModelBuilder()
    g = b.subgraph()
    for i in range(1001):
        g.tensor(f"t{i}", ())
    for values in g.values["tensors"]:
        values["shape_signature"] = [1]
    g.values["tensors"][0]["shape_signature"] = [1] * 20_000  # written first, that is last of all
    data = bytearray(b.build())
    rows = Model.from_buffer(bytes(data)).tensor_rows
    target = int(rows.vector("shape_signature").start[0]) - 4
    for slot in rows.at(rows.table.by_name["shape_signature"], 4).tolist():
        data[slot : slot + 4] = (target - slot).to_bytes(4, "little")
    with pytest.raises(InvalidModelError, match="claim more elements than it has bytes"):
        Model.from_buffer(bytes(data))


def test_malformed_files(models: Path) -> None:
    """Each gives its one error; version and number of subgraphs are the interpreter's."""
    folder = models / "malformed"
    with pytest.raises(InvalidModelError, match=r"tensors\[23\].shape: \[-1\] .* overflows"):
        Model.from_file(folder / "element_count_overflow.tflite")
    assert Model.from_file(folder / "schema_version_2.tflite").version == 2
    assert not Model.from_file(folder / "no_subgraph.tflite").subgraphs


def test_real_models_are_sound(models: Path) -> None:
    found = sorted(models.glob("*.tflite"))
    assert found
    for path in found:
        Model.from_file(path)


def test_one_op_models_are_sound(models: Path) -> None:
    folder = models.parent / "conformance"
    if not folder.is_dir():
        pytest.skip(f"no one-op models: {folder} is not there")
    for path in folder.glob("*/*/*.tflite"):
        Model.from_file(path)


def test_limits_are_as_documented() -> None:
    assert (verifier.MAX_CALL_DEPTH, verifier.MAX_CALLS) == (64, 100_000)


# Damage ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mutation(request: pytest.FixtureRequest) -> Any:
    """The script of the mutation test, whose limits and reader of everything serve here too."""
    if sys.platform == "win32":
        pytest.skip("no resource limits on Windows")
    import importlib.util

    path = Path(request.config.rootpath) / "benchmarks" / "mutate.py"
    spec = importlib.util.spec_from_file_location("mutate", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def survive(mutation: Any, damaged: list[bytes]) -> int:
    """How many load; each loads and can be read in full, or is an InvalidModelError, in less than 5
    s and 1 GiB.
    """
    loaded = 0
    with mutation.limits(5.0, 1 << 30) as clock:
        for data in damaged:
            clock(True)
            loaded += mutation.try_case(data, False) == "loaded"
            clock(False)
    return loaded


@pytest.mark.parametrize("name", small_models.ALL)
def test_every_truncation(name: str, mutation: Any) -> None:
    data = small_models.ALL[name]()
    assert len(data) < 2048
    loaded = survive(mutation, [data[:n] for n in range(len(data))])
    assert loaded < 16  # the last bytes may be padding


@pytest.mark.parametrize("name", small_models.ALL)
def test_four_values_at_every_byte(name: str, mutation: Any) -> None:
    data = small_models.ALL[name]()
    damaged = [
        data[:i] + bytes([value]) + data[i + 1 :]
        for i, old in enumerate(data)
        for value in {0, 0x7F, 0xFF, old ^ 1} | {old ^ 0x80}
        if value != old
    ]
    assert len(damaged) >= 3 * len(data)
    loaded = survive(mutation, damaged)
    assert 0 < loaded < len(damaged)


def test_random_damage(mutation: Any) -> None:
    models = [make() for make in small_models.ALL.values()]
    places = [mutation.structure(data) for data in models]
    damaged = [
        mutation.mutate(models[i % 3], places[i % 3], np.random.default_rng(i)) for i in range(600)
    ]
    survive(mutation, damaged)
