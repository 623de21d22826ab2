"""What ModelBuilder writes reads back the same, and Google's runtime takes it."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
import small_models
from hypothesis import given
from hypothesis import strategies as st
from same_model import describe

from litedelegate.kernels.types import DType
from litedelegate.runtime import builder as module
from litedelegate.runtime import flatbuffer_writer
from litedelegate.runtime.builder import ModelBuilder, Quant, dtype_of
from litedelegate.runtime.encoding import (
    decode_strings,
    encode_strings,
    read_control_edges,
    write_control_edges,
)
from litedelegate.runtime.flatbuffer import Reader
from litedelegate.runtime.flatbuffer_writer import write
from litedelegate.runtime.model import InvalidModelError, Model


def one_constant(value: Any, dtype: Any = None, **more: Any) -> Any:
    """The value of a constant after a round trip."""
    b = ModelBuilder()
    g = b.subgraph()
    g.outputs(g.constant("c", value, dtype, **more))
    model = Model.from_buffer(b.build())
    return model.constant(model.subgraphs[0].tensors[0])


def test_the_example_of_the_docstring() -> None:
    failed, tried = doctest.testmod(module)
    assert tried and not failed


@pytest.mark.parametrize("name", small_models.ALL)
@pytest.mark.parametrize("behind", [False, True])
def test_small_models_round_trip(name: str, behind: bool) -> None:
    model = Model.from_buffer(small_models.ALL[name]())
    again = Model.from_buffer(ModelBuilder.from_model(model).build(behind=behind))
    assert describe(again) == describe(model)


@pytest.mark.parametrize("behind", [False, True])
def test_real_models_round_trip(models: Path, behind: bool) -> None:
    for path in sorted(models.glob("*.tflite")):
        model = Model.from_file(path)
        again = Model.from_buffer(ModelBuilder.from_model(model).build(behind=behind))
        assert describe(again) == describe(model), path.name


def test_what_lies_behind_the_flatbuffer() -> None:
    data = ModelBuilder.from_model(Model.from_buffer(small_models.control())).build(behind=True)
    model = Model.from_buffer(data)
    head = model.root.children("buffers")
    assert not head.vector("data").length.any()
    places = [place for place in model.buffer_places if place[1]]
    assert places and all(start % 16 == 0 for start, _ in places)
    own = model.subgraphs[0].operators[1]
    assert int(model.operator_rows.scalar("large_custom_options_offset")[1]) > 0
    assert own.custom_options.flexbuffer() == {"n": [1, 2.5]}


def test_more_than_two_gigabytes_go_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is lowered: nobody wants such a file in a test."""
    monkeypatch.setattr(module, "MAX_SIZE", (1 << 26) + 100)
    b = ModelBuilder()
    g = b.subgraph()
    value = np.arange(100, dtype=np.float32)
    g.outputs(g.constant("c", value))
    model = Model.from_buffer(b.build())
    assert int(model.root.children("buffers").scalar("offset")[1]) > 0
    got = model.constant(model.subgraphs[0].tensors[0])
    assert got is not None and np.array_equal(got, value)


@pytest.mark.parametrize(
    "dtype",
    [d for d in DType if d.numpy != np.dtype(object)],
    ids=lambda d: d.label,
)
def test_constants_of_every_type(dtype: DType) -> None:
    values = np.arange(7) % 2 if dtype is not DType.FLOAT32 else np.linspace(-1, 1, 7)
    stored = values.astype(dtype.numpy)
    got = one_constant(stored, dtype)
    assert got.dtype == dtype.numpy and np.array_equal(got, stored)


@given(st.data())
def test_packed_constants(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([DType.INT4, DType.INT2, DType.UINT4]))
    low, high = dtype.range()
    shape = data.draw(st.tuples(st.integers(0, 5), st.integers(0, 5)))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    value = rng.integers(low, high + 1, shape)
    assert np.array_equal(one_constant(value, dtype), value)


def test_bfloat16_is_rounded_from_floats_and_taken_as_bits() -> None:
    assert one_constant([1.0, -2.5], "bfloat16").tolist() == [0x3F80, 0xC020]
    assert one_constant(np.array([0x3F80], np.uint16), "bfloat16").tolist() == [0x3F80]


def test_strings() -> None:
    got = one_constant([["a", "bß"], [b"\xff\0", ""]])
    assert got.tolist() == [[b"a", "bß".encode()], [b"\xff\0", b""]]


def test_values_beyond_the_type_are_refused() -> None:
    with pytest.raises(ValueError, match="values from -9 to 0 leave int4"):
        one_constant([-9, 0], "int4")
    with pytest.raises(ValueError, match="no tensor has the type"):
        dtype_of("float31")


def test_equal_constants_share_a_buffer() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    for name in "abc":
        g.constant(name, np.ones(8, np.float32))
    g.constant("d", np.ones(4, np.float32))
    model = Model.from_buffer(b.build())
    assert [t.buffer for t in model.subgraphs[0].tensors] == [1, 1, 1, 2]
    assert len(model.buffers) == 3
    assert model.buffer(0) is None


def test_constants_are_aligned() -> None:
    b = ModelBuilder()
    g = b.subgraph("x" * 13)
    for i in range(5):
        g.constant(f"c{i}", np.full(i + 1, i, np.int8))
    model = Model.from_buffer(b.build())
    assert all(start % 16 == 0 for start, _ in model.buffer_places)


def test_quantization() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    g.tensor("t", (2, 3), "int8", scale=0.5, zero_point=-3)
    g.tensor("a", (2, 3), "int8", scale=[1, 2, 3], zero_point=[1, 0, -1], axis=1)
    g.constant("b", np.zeros((2, 64), np.int8), "int4", quant=Quant(np.ones((2, 2)), block_size=32))
    g.tensor("m", (2,), "uint8", quant=Quant(min=-1, max=1))
    t, a, _, blocks, m = Model.from_buffer(b.build()).subgraphs[0].tensors
    assert t.quantization is not None and a.quantization is not None
    assert (t.quantization.scale.tolist(), t.quantization.zero_point.tolist()) == ([0.5], [-3])
    assert (a.quantization.zero_point.tolist(), a.quantization.axis) == ([1, 0, -1], 1)
    assert blocks.quantization is not None
    assert blocks.quantization.scale.shape == (2, 2) and blocks.quantization.block_size == 32
    assert m.quantization is None and m.quantization_parameters is not None
    assert m.quantization_parameters.max == (1.0,)


def test_operators_and_their_options() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (2, 3))
    i = g.op("ARG_MAX", [x, g.constant("d", 1, "int32")], ("i", (2,), "int64"), output_type="int64")
    low, high = g.op(
        "SPLIT",
        [g.constant("z", 0, "int32"), x],
        [("l", (1, 3), "float32"), ("h", (1, 3), "float32")],
        num_splits=2,
    )
    h = g.variable("h", (), "resource")
    assert g.op("ASSIGN_VARIABLE", [h, low], []) == ()
    g.outputs(i, high)
    operators = Model.from_buffer(b.build()).subgraphs[0].operators
    assert operators[0].options.output_type is DType.INT64
    assert (operators[1].options.num_splits, len(operators[1].outputs)) == (2, 2)
    assert operators[2].outputs == ()


@pytest.mark.parametrize(
    ("op", "options", "error", "text"),
    [
        ("SOFTMAX", {"alpha": 1.0}, TypeError, "SOFTMAX has no option 'alpha'; it has beta"),
        ("LOGISTIC", {"beta": 1.0}, TypeError, "LOGISTIC has no option 'beta'; it has none"),
        ("ABS", {"beta": 1.0}, TypeError, "ABS has no option 'beta'; it has none"),
        ("NOTHING", {}, ValueError, "'NOTHING' is no builtin operator"),
        (
            "L2_NORMALIZATION",
            {"fused_activation_function": "RELU7"},
            ValueError,
            "fused_activation_function is 'RELU7'; it takes NONE, RELU",
        ),
        ("DEPTH_TO_SPACE", {"block_size": 1 << 31}, ValueError, "block_size is 2147483648, beyond"),
        ("DEPTH_TO_SPACE", {"block_size": 1.5}, TypeError, "block_size is an integer"),
    ],
)
def test_wrong_options(op: str, options: dict[str, Any], error: type[Exception], text: str) -> None:
    b = ModelBuilder()
    g = b.subgraph()
    with pytest.raises(error, match=text):
        g.outputs(g.op(op, [g.input("x", (1,))], ("y", (1,), "float32"), **options))
        b.build()


def test_custom_options_as_bytes_or_as_a_flexbuffer() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (1,))
    for i, options in enumerate((None, b"\1\2", {"offset": 1, "names": ["a", "b"]})):
        x = g.custom("Own", [x], (f"y{i}", (1,), "float32"), options=options)
    g.outputs(x)
    none, raw, flex = Model.from_buffer(b.build()).subgraphs[0].operators
    assert (none.custom_options, raw.custom_options) == (b"", b"\1\2")
    assert none.custom_options.flexbuffer() == {}
    assert flex.custom_options.flexbuffer() == {"offset": 1, "names": ["a", "b"]}
    assert none.opcode_index == raw.opcode_index == flex.opcode_index


def test_operator_codes_differ_by_version() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (1,))
    for i, version in enumerate((1, 2, 1)):
        x = g.op("GELU", [x], (f"y{i}", (1,), "float32"), version=version)
    g.outputs(x)
    model = Model.from_buffer(b.build())
    assert [(c.builtin, c.version) for c in model.operator_codes] == [("GELU", 1), ("GELU", 2)]
    assert [o.opcode_index for o in model.subgraphs[0].operators] == [0, 1, 0]
    deprecated = model.root.children("operator_codes").scalar("deprecated_builtin_code")
    assert deprecated.tolist() == [127, 127]


def test_tensors_of_another_graph_are_refused() -> None:
    b = ModelBuilder()
    first, second = b.subgraph("a"), b.subgraph("b")
    x = first.input("x", (1,))
    with pytest.raises(ValueError, match="tensor 'x' is of subgraph 0, not of 1"):
        second.op("ABS", [x], ("y", (1,), "float32"))
    with pytest.raises(ValueError, match="takes those of one"):
        b.signature("s", {"x": x, "z": second.input("z", (1,))}, {})


def test_the_result_is_verified() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    g.outputs(g.op("ADD", [g.input("x", (1,))], ("y", (1,), "float32")))
    with pytest.raises(InvalidModelError, match="ADD has 1 inputs; it takes 2"):
        b.build()


def test_changing_a_model_that_was_read() -> None:
    b = ModelBuilder.from_model(Model.from_buffer(small_models.quantized()))
    g = b.graphs[0]
    y = g[3]
    assert (y.name, y.shape, y.dtype) == ("y", (1, 4, 4, 2), DType.INT8)
    z = g.op("DEQUANTIZE", [y], ("z", y.shape, "float32"))
    g.outputs(z)
    b.signature("float", {"x": g[0]}, {"z": z})
    model = Model.from_buffer(b.build())
    assert [o.op for o in model.subgraphs[0].operators] == ["CONV_2D", "DEQUANTIZE"]
    assert [s.key for s in model.signatures] == ["serving_default", "float"]
    assert model.subgraphs[0].outputs == (4,)


def test_control_edges_add_to_those_of_the_model() -> None:
    b = ModelBuilder.from_model(Model.from_buffer(small_models.control()))
    g = b.graphs[0]
    g.outputs(g.op("ABS", [g[5]], ("w", (2,), "float32")))
    g.control_edges((0, 2))
    for _ in range(2):  # building changes nothing
        assert Model.from_buffer(b.build()).control_edges == [((0, 1), (0, 2)), (), ()]


def test_an_option_whose_name_is_taken() -> None:
    b = ModelBuilder()
    g, inner = b.subgraph(), b.subgraph()
    inner.outputs(inner.input("a", (1,)))
    g.outputs(
        g.op(
            "STABLEHLO_COMPOSITE",
            [g.input("x", (1,))],
            ("y", (1,), "float32"),
            name="own",
            decomposition_subgraph_index=1,
            also={"version": 7},
        )
    )
    (operator,) = Model.from_buffer(b.build()).subgraphs[0].operators
    assert (operator.options.version, operator.version) == (7, 1)


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(ValueError, match="Model has no field 'colour'; it has version"):
        write("Model", {"colour": 1}, b"TFL3")


@pytest.mark.parametrize("size", [1 << 15, 1 << 17])
def test_what_exceeds_the_format_is_refused(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Before or after the package's own limit, both lowered: nobody wants such a file in a test."""
    monkeypatch.setattr(flatbuffers.Builder, "MAX_BUFFER_SIZE", 1 << 16)
    monkeypatch.setattr(flatbuffer_writer, "MAX_SIZE", 1 << 14)
    assert len(write("Buffer", {"data": bytes(1000)}, b"TFL3")) > 1000
    with pytest.raises(ValueError, match="would exceed the 16384 bytes that fit"):
        write("Buffer", {"data": bytes(size)}, b"TFL3")


def test_fields_of_eight_bytes_are_aligned() -> None:
    data = write("Buffer", {"offset": 1 << 40, "size": 5, "data": b"abc"}, b"TFL3")
    rows = Reader(np.frombuffer(data, np.uint8)).root("Buffer")
    assert int(rows.at(rows.table.by_name["offset"], 8)[0]) % 8 == 0
    assert (rows.scalar("offset").tolist(), rows.scalar("size").tolist()) == ([1 << 40], [5])
    assert rows.strings("data") == [b"abc"]


@given(st.lists(st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**31 - 1)))))
def test_control_edges_round_trip(edges: list[list[tuple[int, int]]]) -> None:
    assert read_control_edges(write_control_edges(edges)) == [tuple(e) for e in edges]


@given(st.lists(st.binary()))
def test_string_buffers_round_trip(values: list[bytes]) -> None:
    raw = np.frombuffer(encode_strings(values), np.uint8)
    assert decode_strings(raw).tolist() == values


def test_googles_runtime_takes_what_is_written(tmp_path: Path) -> None:
    """A quantised convolution, computed by the reference, of a model inside and behind the
    flatbuffer.
    """
    peer = pytest.importorskip("ai_edge_litert.interpreter")
    model = Model.from_buffer(small_models.quantized())
    x = np.arange(16, dtype=np.int8).reshape(1, 4, 4, 1)
    for behind in (False, True):
        path = tmp_path / f"{behind}.tflite"
        path.write_bytes(ModelBuilder.from_model(model).build(behind=behind))
        interpreter = peer.Interpreter(
            str(path),
            experimental_op_resolver_type=peer.OpResolverType.BUILTIN_REF,
        )
        runner = interpreter.get_signature_runner("serving_default")
        real = (x.astype(np.float32) - 3) * 0.5
        want = np.round(np.concatenate([real * 0.5 + 0.25, real * 0.25 - 0.125], -1)) - 1
        assert np.abs(runner(x=x)["y"] - want).max() <= 1  # halves round either way
