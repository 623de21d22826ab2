"""Reading models: what stands in the file comes out, views stay views, and a large model loads
fast.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_models

from litedelegate.kernels.types import DType
from litedelegate.runtime import schema
from litedelegate.runtime.builder import ModelBuilder
from litedelegate.runtime.model import InvalidModelError, Model, OperatorDef


@pytest.fixture
def quantized() -> Model:
    return Model.from_buffer(small_models.quantized())


@pytest.fixture
def control() -> Model:
    return Model.from_buffer(small_models.control())


@pytest.fixture
def odd() -> Model:
    return Model.from_buffer(small_models.odd())


def test_the_model_itself(quantized: Model) -> None:
    assert quantized.version == 3
    assert quantized.description == "conv"
    assert quantized.min_runtime_version == "2.5.0"
    assert not quantized.missing
    (code,) = quantized.operator_codes
    assert (code.builtin, code.builtin_code, code.custom, code.version) == ("CONV_2D", 3, None, 3)


def test_tensors(quantized: Model) -> None:
    x, w, b, y = quantized.subgraphs[0].tensors
    assert (x.name, x.shape, x.shape_signature) == ("x", (1, 4, 4, 1), (-1, 4, 4, 1))
    assert x.dtype is DType.INT8
    assert y.shape_signature is None
    assert quantized.constant(x) is None
    value = quantized.constant(w)
    assert value is not None and value.dtype == np.int8 and value.shape == (2, 1, 1, 1)
    bias = quantized.constant(b)
    assert bias is not None and bias.tolist() == [1, -1]


def test_quantization(quantized: Model) -> None:
    x, w, _, y = quantized.subgraphs[0].tensors
    assert x.quantization is not None and w.quantization is not None
    assert (x.quantization.scale.tolist(), x.quantization.zero_point.tolist()) == ([0.5], [3])
    assert not x.quantization.per_axis
    assert w.quantization.scale.dtype == np.float32 and w.quantization.zero_point.dtype == np.int64
    assert (w.quantization.scale.tolist(), w.quantization.axis) == ([0.5, 0.25], 0)
    table = y.quantization_parameters
    assert table is not None
    assert (table.min, table.max, table.details) == ((-1.0,), (1.0,), None)


def test_options_have_all_fields_of_the_schema(quantized: Model, control: Model) -> None:
    assert dict(quantized.subgraphs[0].operators[0].options) == {
        "padding": "VALID",
        "stride_w": 1,
        "stride_h": 1,
        "fused_activation_function": "NONE",
        "dilation_w_factor": 1,
        "dilation_h_factor": 1,
        "quantized_bias_type": DType.FLOAT32,
    }
    assert dict(control.subgraphs[1].operators[0].options) == {}


def test_options_default_without_a_table() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    y = g.op("UNIQUE", [g.input("x", (3,))], [("y", (3,), "float32"), ("i", (3,), "int32")])
    g.outputs(*y)
    del g.values["operators"][0]["builtin_options"]
    (operator,) = Model.from_buffer(b.build()).subgraphs[0].operators
    assert operator.options.idx_out_type is DType.INT32


def test_a_table_of_another_operator_counts_as_absent() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    g.outputs(g.op("GATHER", [g.input("x", (3,)), g.input("i", (), "int32")], ("y", (), "int32")))
    g.values["operators"][0]["builtin_options"] = ("CumsumOptions", {"reverse": True})
    (operator,) = Model.from_buffer(b.build()).subgraphs[0].operators
    assert dict(operator.options) == {"axis": 0, "batch_dims": 0}


def test_subgraphs_signatures_and_edges(quantized: Model, control: Model) -> None:
    assert [g.name for g in control.subgraphs] == ["main", "then", "else"]
    assert control.subgraphs[0].inputs == (0, 1) and control.subgraphs[0].outputs == (5,)
    assert control.control_edges == [((0, 1),), (), ()]
    (signature,) = quantized.signatures
    assert (signature.key, signature.subgraph) == ("serving_default", 0)
    assert (dict(signature.inputs), dict(signature.outputs)) == ({"x": 0}, {"y": 3})


def test_custom_operators(control: Model) -> None:
    branch, own = control.subgraphs[0].operators
    assert (branch.op, branch.custom) == ("IF", False)
    assert (own.op, own.custom, own.inputs) == ("Own", True, (4, 2, 3, -1))
    assert own.custom_options.flexbuffer() == {"n": [1, 2.5]}
    assert control.operator_codes[own.opcode_index].custom == "Own"


def test_strings(control: Model) -> None:
    value = control.constant(control.subgraphs[0].tensors[3])
    assert value is not None and value.dtype == object
    assert value.tolist() == [b"ab", b"", b"cde"]


def test_blockwise_and_packed(odd: Model) -> None:
    w = odd.subgraphs[0].tensors[2]
    value = odd.constant(w)
    assert value is not None and value.dtype == np.int8
    assert value.tolist() == [[-4, -3, -2, -1], [0, 1, 2, 3]]
    assert w.quantization is not None
    assert w.quantization.scale.tolist() == [[0.5, 1.0], [2.0, 4.0]]
    assert w.quantization.block_size == 2
    assert w.quantization_parameters is not None
    assert w.quantization_parameters.details.type == "BlockwiseQuantization"


def test_sparsity_variants_and_intermediates(odd: Model) -> None:
    graph = odd.subgraphs[0]
    sparse = graph.tensors[3]
    value = odd.constant(sparse)
    assert value is not None and value.tolist() == [7, 8] and sparse.shape == (2, 4)
    assert sparse.sparsity is not None
    assert (sparse.sparsity.traversal_order, sparse.sparsity.block_map) == ((0, 1), ())
    dense, rows = sparse.sparsity.dim_metadata
    assert (dense.format, dense.dense_size, dense.array_indices) == ("DENSE", 2, None)
    assert rows.format == "SPARSE_CSR"
    assert (rows.array_segments.tolist(), rows.array_indices.tolist()) == ([0, 1, 2], [3, 0])
    (variant,) = graph.tensors[4].variant_tensors
    assert (variant.shape, variant.type, variant.has_rank) == ((2,), DType.INT32, True)
    assert graph.operators[2].intermediates == (7,)
    options = graph.operators[1].options
    assert (options.name, options.composite_attributes) == ("own.relu", b"\x01\x02")


def test_constants_are_views_of_the_mapped_file(tmp_path: Path) -> None:
    b = ModelBuilder()
    g = b.subgraph()
    g.outputs(g.constant("c", np.arange(1000, dtype=np.float32)))
    path = tmp_path / "m.tflite"
    b.save(path)
    model = Model.from_file(path)
    value = model.constant(model.subgraphs[0].tensors[0])
    assert value is not None and not value.flags.owndata and not value.flags.writeable
    assert np.shares_memory(value, model.data)
    assert value.ctypes.data % 16 == 0


def test_unaligned_data_is_copied(tmp_path: Path) -> None:
    data = small_models.quantized()
    shifted = np.frombuffer(b"\0" + data, np.uint8)[1:]
    model = Model(shifted)
    bias = model.constant(model.subgraphs[0].tensors[2])
    assert bias is not None and bias.flags.aligned and bias.tolist() == [1, -1]


def test_bool_constants_are_zeros_and_ones() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    g.outputs(g.constant("c", np.array([True, False])))
    b.values["buffers"][1]["data"] = np.array([2, 0], np.uint8)
    model = Model.from_buffer(b.build())
    value = model.constant(model.subgraphs[0].tensors[0])
    assert value is not None and value.view(np.uint8).tolist() == [1, 0]


def test_missing_parts_differ_from_empty_ones() -> None:
    b = ModelBuilder()
    b.subgraph()
    assert not Model.from_buffer(b.build()).subgraphs[0].missing
    for part in ("operator_codes", "buffers", "subgraphs"):
        b = ModelBuilder()
        b.values.pop(part)
        model = Model.from_buffer(b.build())
        assert model.missing == {part}
        assert len(getattr(model, part)) == 0
    b = ModelBuilder()
    b.subgraph().values.pop("tensors")
    assert Model.from_buffer(b.build()).subgraphs[0].missing == {"tensors"}


def test_a_constant_without_the_buffers() -> None:
    b = ModelBuilder()
    b.subgraph().constant("c", [1.0])
    b.values.pop("buffers")
    model = Model.from_buffer(b.build())
    assert model.constant(model.subgraphs[0].tensors[0]) is None


def test_new_and_deprecated_operator_codes() -> None:
    b = ModelBuilder()
    b.values["operator_codes"] = [
        {"deprecated_builtin_code": 4},
        {"deprecated_builtin_code": 127, "builtin_code": 150},
        {"builtin_code": 207, "version": 2},
        {"builtin_code": 5000},
        {"deprecated_builtin_code": 32, "custom_code": b"\xff\x01"},
    ]
    b.subgraph()
    codes = Model.from_buffer(b.build()).operator_codes
    names = [c.name for c in codes]
    assert names == [
        "DEPTHWISE_CONV_2D",
        "GELU",
        "STABLEHLO_SHIFT_LEFT",
        "UNKNOWN_5000",
        "\\xff\x01",
    ]
    assert codes[2].version == 2 and codes[4].custom_bytes == b"\xff\x01"


@pytest.mark.parametrize("data", [b"", b"TFL3", b"\0" * 64, b"PK\3\4" * 16, b"\0\0\0\0TFL3" * 2])
def test_what_is_no_model(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(InvalidModelError):
        Model.from_buffer(data)
    path = tmp_path / "x.tflite"
    path.write_bytes(data)
    with pytest.raises(InvalidModelError):
        Model.from_file(path)


def test_another_identifier_is_named() -> None:
    with pytest.raises(InvalidModelError, match="identifier b'TFL2', should be 'TFL3'"):
        Model.from_buffer(b"\x08\0\0\0TFL2" + bytes(56))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Model.from_file(tmp_path / "absent.tflite")


def test_import_is_light() -> None:
    """The reader needs numpy and nothing else beyond the standard library."""
    code = (
        "import sys, litedelegate.runtime.model; "
        "print([m for m in sys.modules if m.split('.')[0] in ('flatbuffers', 'rich', 'click')])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_thousands_of_operators_load_fast() -> None:
    """6,000 operators load, verified, in less than 0.15 s (0.01 s on a fast machine)."""
    b = ModelBuilder()
    g = b.subgraph()
    t = g.input("x", (2,))
    for i in range(6000):
        t = g.op("ADD", [t, t], (f"t{i}", (2,), "float32"), fused_activation_function="RELU")
    g.outputs(t)
    data = b.build()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        model = Model.from_buffer(data)
        times.append(time.perf_counter() - start)
    assert len(model.subgraphs[0].operators) == 6000
    assert min(times) < 0.15


# With Google's runtime at hand, what its generated reader says is the reference.


def test_names_and_numbers_agree_with_the_schema() -> None:
    generated = pytest.importorskip("ai_edge_litert.schema_py_generated")

    def numbers(name: str) -> dict[str, int]:
        return {k: v for k, v in vars(getattr(generated, name)).items() if k[0] != "_"}

    assert {op: i for i, op in enumerate(schema.BUILTINS)} == numbers("BuiltinOperator")
    assert len(schema.BUILTINS) == 210
    for union, members in schema.UNIONS.items():
        assert {"NONE": 0} | {m: i + 1 for i, m in enumerate(members)} == numbers(union)
    for name in schema.ENUMS:
        assert {n: i for i, n in enumerate(schema.enum(name).names)} == numbers(name)


def test_fields_agree_with_the_schema() -> None:
    """Every field of every table, in order; the generated classes lack deprecated ones."""
    generated = pytest.importorskip("ai_edge_litert.schema_py_generated")
    for name in schema.TABLES:
        ours = ["".join(f.name.split("_")).lower() for f in schema.table(name).fields]
        theirs = [k.lower() for k in vars(getattr(generated, f"{name}T")())]
        deprecated = {"newheight", "newwidth", "deprecatedtag"}
        assert [n for n in ours if n not in deprecated] == theirs, name


def test_models_read_as_the_generated_reader_reads_them(models: Path) -> None:
    """The object API of Google's generated reader, field by field, on real models."""
    generated = pytest.importorskip("ai_edge_litert.schema_py_generated")
    for path in sorted(models.glob("*.tflite")):
        model = Model.from_file(path)
        want = generated.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
        assert len(model.operator_codes) == len(want.operatorCodes), path.name
        for graph, theirs in zip(model.subgraphs, want.subgraphs, strict=True):
            assert graph.inputs == _ints(theirs.inputs) and graph.outputs == _ints(theirs.outputs)
            for tensor, t in zip(graph.tensors, theirs.tensors, strict=True):
                assert (tensor.name, tensor.dtype) == (t.name.decode(), t.type)
                assert (tensor.shape, tensor.buffer) == (_ints(t.shape), t.buffer)
                q, parameters = t.quantization, tensor.quantization_parameters
                if parameters is not None:
                    assert parameters.scale == _ints(q.scale)
                    assert parameters.zero_point == _ints(q.zeroPoint)
                    assert parameters.quantized_dimension == q.quantizedDimension
                value, data = model.constant(tensor), want.buffers[t.buffer].data
                if value is not None and tensor.dtype.bits >= 8:
                    assert value.tobytes() == data.tobytes()[: value.nbytes]
            for operator, o in zip(graph.operators, theirs.operators or [], strict=True):
                assert (operator.inputs, operator.outputs) == (_ints(o.inputs), _ints(o.outputs))
                table = o.builtinOptions or o.builtinOptions2
                _check_options(operator, table)


def _ints(values: Any) -> tuple[Any, ...]:
    return () if values is None else tuple(np.asarray(values).tolist())


def _check_options(operator: OperatorDef, table: Any) -> None:
    kind = schema.options_table(operator.op)
    if table is None or kind is None:
        return
    assert type(table).__name__ == f"{kind}T"
    theirs = {name.lower(): value for name, value in vars(table).items()}
    for field in schema.table(kind).fields:
        want = theirs.get(field.name.replace("_", ""))
        if field.kind == "scalar" and want is not None:
            got = operator.options[field.name]
            assert got == (field.enum.values[want] if field.enum else want), field.name
