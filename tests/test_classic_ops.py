"""Libraries of the classic kind: `Register_X()` and operators over TensorFlow Lite's structs."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_libraries import built, one_op, run

from litedelegate import (
    Interpreter,
    InterpreterWithCustomOps,
    ModelBuilder,
    MutableOpResolver,
    OpLibrary,
    OpLibraryError,
    Quant,
    load_op_library,
    registration_at,
)
from litedelegate.customops.build import build_op_library

SOURCE = "tests/c_ops/classic.c"
X = np.array([-1.0, 2.0, 3.0], np.float32)


@pytest.fixture(scope="module")
def library() -> Iterator[OpLibrary]:
    yield load_op_library(built(SOURCE))


def scale(version: int = 2, dtype: str = "float32", **options: float) -> bytes:
    builder = ModelBuilder()
    g = builder.subgraph("main")
    x = g.input("x", (3,), dtype, shape_signature=(-1,))
    out = g.custom("ClassicScale", [x], ("y", (3,), dtype), options=options, version=version)
    g.outputs(out)
    return builder.build()


def test_all_its_functions_are_called(library: OpLibrary) -> None:
    assert sorted(library) == ["CHANNELS", "ClassicScale", "DOUBLED", "External", "POSITIVE"]
    assert library["ClassicScale"].versions == (2, 2) and library["POSITIVE"].versions == (1, 1)


def test_cpp_functions_are_found_by_their_mangled_names() -> None:
    names = sorted(load_op_library(built("tests/c_ops/classic.cc")))
    assert "IN_A_NAMESPACE" in names and not any("WITH" in n for n in names)


def test_named_functions_alone() -> None:
    found = load_op_library(
        built("tests/c_ops/classic.cc"),
        functions={"Kept": "_ZN6tflite3ops6custom23Register_IN_A_NAMESPACEEv"},
    )
    assert list(found) == ["Kept"]
    got = run(one_op("Kept", [("x", (3,), "float32")], ("y", (3,), "float32")), found, x=X)
    assert got.tolist() == [2, 3]
    with pytest.raises(OpLibraryError, match="has no function Register_NONE"):
        load_op_library(built(SOURCE), functions={"X": "Register_NONE"})


def test_state_options_temporaries_and_resizes(library: OpLibrary) -> None:
    with Interpreter(model_content=scale(factor=2.5, fail=6), custom_ops=library) as interpreter:
        for n in (3, 5, 1, 3, 3):
            x = np.arange(n, dtype=np.float32)
            np.testing.assert_array_equal(interpreter.run({"x": x})["y"], np.float32(2.5) * x)
        with pytest.raises(RuntimeError, match=r"call \d+ fails\nNode number 0 \(ClassicScale\)"):
            for _ in range(6):
                interpreter.run({"x": X})


def test_errors_of_init_and_prepare_are_the_exception_s_text(library: OpLibrary) -> None:
    with pytest.raises(ValueError, match=r"a factor of -0\.5\n.*failed to initialise"):
        Interpreter(model_content=scale(factor=-0.5), custom_ops=library)
    with pytest.raises(RuntimeError, match=r"input:0 INT32 != FLOAT32\n.*failed to prepare"):
        Interpreter(model_content=scale(dtype="int32"), custom_ops=library).allocate_tensors()
    with pytest.raises(RuntimeError, match="version 1"):
        Interpreter(model_content=scale(version=1), custom_ops=library).allocate_tensors()


def test_an_output_whose_shape_invoke_settles(library: OpLibrary) -> None:
    model = one_op("POSITIVE", [("x", (3,), "float32")], ("y", (3,), "float32"))
    with Interpreter(model_content=model, custom_ops=library) as interpreter:
        for x in (X, -X, np.zeros(3, np.float32), X + 9):
            np.testing.assert_array_equal(interpreter.run({"x": x})["y"], x[x > 0])


def test_behind_and_before_others(library: OpLibrary) -> None:
    """A dynamic tensor goes on to a builtin op, and that op's to a classic one."""
    builder = ModelBuilder()
    g = builder.subgraph("main")
    a = g.custom("POSITIVE", [g.input("x", (3,))], ("a", (3,), "float32"))
    b = g.op("MUL", [a, a], ("b", (3,), "float32"))
    c = g.custom("ClassicScale", [b], ("c", (3,), "float32"), options={"factor": 2.0}, version=2)
    g.outputs(g.custom("POSITIVE", [c], ("y", (3,), "float32")))
    with Interpreter(model_content=builder.build(), custom_ops=library) as interpreter:
        for x in (X, X + 2, -X, X):
            np.testing.assert_array_equal(interpreter.run({"x": x})["y"], 2 * x[x > 0] ** 2)


def test_strings(library: OpLibrary) -> None:
    model = one_op("DOUBLED", [("x", (3,), "string")], ("y", (3,), "string"))
    x = np.array([b"ab", b"", "é".encode()], object)
    with Interpreter(model_content=model, custom_ops=library) as interpreter:
        for _ in range(3):
            assert interpreter.run({"x": x})["y"].tolist() == [b"abab", b"", 2 * "é".encode()]


def test_quantisation_and_constants_in_prepare(library: OpLibrary) -> None:
    builder = ModelBuilder()
    g = builder.subgraph("main")
    quant = Quant(np.array([0.5, 0.25, 2.0], np.float32), np.zeros(3, np.int64), 0)
    x = g.input("x", (3,), "int8", quant=quant)
    rows = g.constant("rows", np.array([2], np.int32))
    g.outputs(g.custom("CHANNELS", [x, rows], ("y", (2, 3), "float32")))
    got = run(builder.build(), library, x=np.zeros(3, np.int8))
    np.testing.assert_array_equal(got, [[0.5, 0.25, 2.0]] * 2)


def test_registration_external(library: OpLibrary) -> None:
    model = one_op("External", [("x", (3,), "float32")], ("y", (3,), "float32"))
    np.testing.assert_array_equal(run(model, library, x=X), X + np.float32(0.5))


HEADER = (
    '#include "litedelegate/tflite_common.h"\n#include "litedelegate/tflite_custom_op.h"\n'
    "static TfLiteStatus Invoke(TfLiteOpaqueContext* c, TfLiteOpaqueNode* n) {\n"
    "  const float* x = (const float*)TfLiteOpaqueTensorData(TfLiteOpaqueNodeGetInput(c, n, 0));\n"
    "  float* y = (float*)TfLiteOpaqueTensorData(TfLiteOpaqueNodeGetOutput(c, n, 0));\n"
    "  y[0] = 3 * x[0];\n  return kTfLiteOk;\n}\n"
    "static TfLiteOperator* Make(const char* name) {\n"
    "  TfLiteOperator* op = TfLiteOperatorCreate(kTfLiteBuiltinCustom, name, 1);\n"
    "  TfLiteOperatorSetInvoke(op, Invoke);\n  return op;\n}\n"
)


def compiled(tmp_path: Path, text: str) -> Path:
    built(SOURCE)  # skips where there is no compiler
    path = tmp_path / "some.c"
    path.write_text(text)
    return build_op_library([path])


def test_registration_external_of_our_header(tmp_path: Path) -> None:
    """A library of both kinds: the table is there, so handles are, too."""
    path = compiled(
        tmp_path,
        f'{HEADER}static const TfLiteOperator* A(void) {{ return Make("Listed"); }}\n'
        "LITEDELEGATE_OP_LIBRARY(A);\n"
        "LITEDELEGATE_EXPORT TfLiteRegistration* Register_MORE(void) {\n"
        "  static TfLiteRegistration made;\n"
        '  made.registration_external = Make("More");\n  return &made;\n}\n',
    )
    assert list(load_op_library(path)) == ["Listed"]
    both = load_op_library(path, functions={"More": "Register_MORE"})
    assert list(both) == ["Listed", "More"]
    for name in both:
        model = one_op(name, [("x", (1,), "float32")], ("y", (1,), "float32"))
        assert run(model, both, x=X[:1]).tolist() == [-3]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return NULL;", "made no operator: Register_A gave NULL"),
        ("static TfLiteRegistration made; return &made;", "A has no invoke"),
        (
            "static TfLiteRegistration made; made.builtin_code = 3; return &made;",
            "'A' has the code 3",
        ),
    ],
)
def test_what_is_no_operator(body: str, why: str, tmp_path: Path) -> None:
    text = (
        '#include "litedelegate/tflite_common.h"\n'
        f"LITEDELEGATE_EXPORT TfLiteRegistration* Register_A(void) {{ {body} }}\n"
    )
    with pytest.raises(OpLibraryError, match=why):
        load_op_library(compiled(tmp_path, text))


def test_names_functions_and_libraries_are_registerers(library: OpLibrary) -> None:
    model = one_op("POSITIVE", [("x", (3,), "float32")], ("y", (3,), "float32"))

    def add(resolver: MutableOpResolver) -> None:
        resolver.add_custom("POSITIVE", library["POSITIVE"])

    for registerers in ([library], ["POSITIVE"], ["Register_POSITIVE"], [add]):
        interpreter = InterpreterWithCustomOps(registerers, model_content=model)
        assert interpreter.run({"x": X})["y"].tolist() == [2, 3]


def test_a_registration_that_the_program_has_is_added_at_run_time() -> None:
    dll = ctypes.CDLL(str(built(SOURCE)))
    dll.Register_POSITIVE.restype = ctypes.c_void_p
    resolver = MutableOpResolver()
    resolver.add_custom("Mine", registration_at(dll.Register_POSITIVE(), dll))
    model = one_op("Mine", [("x", (3,), "float32")], ("y", (3,), "float32"))
    interpreter = Interpreter(model_content=model, op_resolver=resolver)
    assert interpreter.run({"x": X})["y"].tolist() == [2, 3]
    with pytest.raises(OpLibraryError, match="gave NULL"):
        registration_at(0)


def test_many_nodes_and_interpreters_share_nothing_but_code(library: OpLibrary) -> None:
    builder = ModelBuilder()
    g = builder.subgraph("main")
    t = g.input("x", (3,))
    for i in range(40):
        options = {"factor": 2.0 if i % 2 else 0.5}
        t = g.custom("ClassicScale", [t], (f"t{i}", (3,), "float32"), options=options, version=2)
    g.outputs(t)
    model = builder.build()
    several = [Interpreter(model_content=model, custom_ops=library) for _ in range(3)]
    several.append(several[0].clone())
    for k, interpreter in enumerate(several * 2):
        np.testing.assert_array_equal(interpreter.run({"x": X + k})["t39"], X + k)
    for interpreter in several:
        interpreter.close()


def test_no_memory_of_c_s_is_left(library: OpLibrary) -> None:
    """Allocates, resizes and closes many times: what is resident stays what it was."""
    psutil: Any = pytest.importorskip("psutil")
    process = psutil.Process()
    model = scale(factor=2.0)

    def work(times: int) -> None:
        for _ in range(times):
            with Interpreter(model_content=model, custom_ops=library) as interpreter:
                for n in (100_000, 50_000):
                    interpreter.run({"x": np.zeros(n, np.float32)})

    work(20)
    gc.collect()
    before = process.memory_info().rss
    work(100)
    gc.collect()
    assert process.memory_info().rss - before < 20 << 20
