"""`load_op_library`: from where, for how long, and what it refuses."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from c_libraries import built, one_op, run

from litedelegate import (
    Interpreter,
    InterpreterWithCustomOps,
    MutableOpResolver,
    OpLibraryError,
    load_op_library,
)
from litedelegate.customops import build as building
from litedelegate.customops import library as loading
from litedelegate.customops.build import BuildFailed, build_op_library
from litedelegate.customops.platforms import TARGETS, this_platform
from litedelegate.runtime.capi.binary import LibraryError, check_library

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc, as Linux has it")
ATAN = "examples/atan_c/atan.c"
X = np.zeros(3, np.float32)


def model() -> bytes:
    return one_op("Atan", [("x", (3,), "float32")], ("y", (3,), "float32"), {"offset": 1.0})


def mapped(name: str) -> bool:
    return name in Path("/proc/self/maps").read_text()


@pytest.fixture
def no_collection() -> Iterator[None]:
    """What is unloaded in time does not wait for Python's garbage collection."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@linux
@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("source", [ATAN, "tests/c_ops/classic.c"])
def test_unloaded_when_the_last_interpreter_closes(source: str, tmp_path: Path) -> None:
    path = shutil.copy(built(source), tmp_path / "of_its_own.so")
    library = load_op_library(path)
    positive = one_op("POSITIVE", [("x", (3,), "float32")], ("y", (3,), "float32"))
    some = model() if source == ATAN else positive
    first = Interpreter(model_content=some, custom_ops=library)
    second = first.clone()
    third = InterpreterWithCustomOps([library], model_content=some)
    resolver = MutableOpResolver()
    library(resolver)
    del library
    first.run({"x": X})
    first.close()  # and is still there
    second.run({"x": X})
    del second  # without being closed
    third.run({"x": X})
    with pytest.raises(ValueError):
        third.run({"z": X})
    third.close()
    assert mapped("of_its_own.so")
    del resolver
    assert not mapped("of_its_own.so")
    with pytest.raises(ValueError, match="closed"):
        first.clone()


@linux
def test_from_memory_and_nothing_on_disk(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    code = (
        "import sys; data = sys.stdin.buffer.read(); import litedelegate as l; "
        "from litedelegate.customops import library; print('loading', flush=True); "
        "lib = l.load_op_library(data); print(*lib)"
    )
    log = tmp_path / "log"
    done = subprocess.run(
        [strace, "-f", "-e", "trace=openat,open,creat,write,pwrite64,memfd_create,mkdir",
         "-o", log, sys.executable, "-B", "-c", code],
        input=built(ATAN).read_bytes(), capture_output=True, check=False,
    )  # fmt: skip
    if b"ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    assert done.stdout.split() == [b"loading", b"Atan"], done.stderr
    lines = log.read_text(errors="replace").splitlines()
    (start,) = (i for i, line in enumerate(lines) if '"loading' in line)
    calls = lines[start + 1 :]
    (fd,) = (line.rpartition("= ")[2] for line in calls if "memfd_create" in line)
    writes = [line for line in calls if "write" in line.partition("(")[0]]
    assert any(f"write({fd}, " in line for line in writes)
    # memory and what is printed apart, nothing is written or made
    assert all(f"write({fd}, " in line or "write(1, " in line for line in writes)
    assert not any(flag in line for line in calls for flag in ("O_CREAT", "O_WRONLY", "O_RDWR"))
    assert not any("mkdir(" in line or "creat(" in line for line in calls)


@linux
def test_libraries_from_memory_are_not_taken_for_each_other() -> None:
    atan, kinds = built(ATAN).read_bytes(), built("tests/c_ops/kinds.c").read_bytes()
    for _ in range(3):  # descriptors are used again
        first = load_op_library(atan)
        assert list(first) == ["Atan"]
        np.testing.assert_allclose(run(model(), first, x=X), np.arctan(X + 1))
        del first
        gc.collect()
        second = load_op_library(memoryview(kinds))
        assert "ZeroOut" in second and "Atan" not in second
        both = load_op_library(bytearray(atan))
        assert list(both) == ["Atan"]
        del second, both
        gc.collect()
    assert not mapped("memfd:litedelegate-ops")


def test_elsewhere_bytes_need_a_private_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    data = built(ATAN).read_bytes()
    with pytest.raises(OpLibraryError, match=r"on Linux alone; .*private_file=True"):
        load_op_library(data)
    library = load_op_library(data, private_file=True)
    path = Path(library["Atan"].invoke.__self__.library.dll._name)  # type: ignore[union-attr]
    if sys.platform != "win32":
        assert path.parent.stat().st_mode & 0o77 == 0 and path.stat().st_mode & 0o77 == 0
    np.testing.assert_allclose(run(model(), library, x=X), np.arctan(X + 1))
    del library
    gc.collect()
    assert not path.parent.exists()


# -- what is refused


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(OpLibraryError, match=r"none\.so cannot be read: No such file"):
        load_op_library(tmp_path / "none.so")
    with pytest.raises(OpLibraryError, match=r"a\\x00b' cannot be read: embedded null"):
        load_op_library("a\0b")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "it has 0 bytes"),
        (b"#!/bin/sh\n" * 20, "neither ELF, Mach-O nor PE"),
        (b"\x7fELF" + bytes([2, 2, 1]) + bytes(100), "big-endian"),
        (b"MZ" + bytes(200), "neither ELF, Mach-O nor PE"),
    ],
)
def test_what_is_no_library(data: bytes, text: str, tmp_path: Path) -> None:
    with pytest.raises(OpLibraryError, match=text):
        load_op_library(data)
    (tmp_path / "x.so").write_bytes(data)
    with pytest.raises(OpLibraryError, match=text):
        load_op_library(tmp_path / "x.so")


@linux
def test_other_systems_and_machines() -> None:
    macho = struct.pack("<IIII", 0xFEEDFACF, 0x0100000C, 0, 6) + bytes(100)
    with pytest.raises(OpLibraryError, match="format Mach-O; this system loads ELF"):
        load_op_library(macho)
    pe = bytearray(b"MZ" + bytes(300))
    pe[60] = 128
    pe[128:134] = b"PE\0\0\x64\x86"
    with pytest.raises(OpLibraryError, match="format PE; this system loads ELF"):
        load_op_library(pe)
    data = bytearray(built(ATAN).read_bytes())
    data[18] = {62: 183}.get(data[18], 62)
    with pytest.raises(OpLibraryError, match=r"is a library for \w+; this machine is \w+"):
        load_op_library(data)


@linux
def test_truncated_at_any_length() -> None:
    data = built(ATAN).read_bytes()
    for length in range(0, len(data), 97):
        with pytest.raises(LibraryError):
            check_library(data[:length], "it")


def source(folder: Path, text: str) -> Path:
    built(ATAN)  # skips where there is no compiler
    path = folder / "op.c"
    path.write_text(text)
    return build_op_library([path])


def test_a_library_without_an_entry_point_runs_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    path = source(
        tmp_path,
        f"""#include <stdio.h>
        __attribute__((constructor)) static void ran(void) {{ fclose(fopen("{mark}", "w")); }}
        __attribute__((visibility("default"))) int other(void) {{ return 1; }}""",
    )
    with pytest.raises(OpLibraryError, match="but not of custom ops: it has no litedelegate_op"):
        load_op_library(path)
    if sys.platform == "linux":
        assert not mark.exists()


HEADER = '#include "litedelegate/tflite_custom_op.h"\n'
INVOKE = (
    "static TfLiteStatus E(TfLiteOpaqueContext* c, TfLiteOpaqueNode* n)"
    "{ (void)c; (void)n; return kTfLiteOk; }\n"
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("static const TfLiteOperator* A(void) { return NULL; }", "made no operator"),
        (
            "static const TfLiteOperator* A(void)"
            '{ return TfLiteOperatorCreate(kTfLiteBuiltinCustom, "A", 1); }',
            "A has no invoke",
        ),
        (
            f"{INVOKE}static const TfLiteOperator* A(void) {{ TfLiteOperator* o = "
            'TfLiteOperatorCreate(kTfLiteBuiltinCustom, "", 1);'
            "TfLiteOperatorSetInvoke(o, E); return o; }",
            "a custom operator has kTfLiteBuiltinCustom and a name",
        ),
        (
            f"{INVOKE}static const TfLiteOperator* A(void) {{ TfLiteOperator* o = "
            'TfLiteOperatorCreate(kTfLiteBuiltinCustom, "A", 0);'
            "TfLiteOperatorSetInvoke(o, E); return o; }",
            "version 0; they start at 1",
        ),
    ],
)
def test_operators_that_are_none(text: str, why: str, tmp_path: Path) -> None:
    path = source(tmp_path, f"{HEADER}{text}\nLITEDELEGATE_OP_LIBRARY(A);\n")
    with pytest.raises(OpLibraryError, match=why):
        load_op_library(path)


def test_another_abi_is_refused_by_the_loader() -> None:
    data = bytearray(built(ATAN).read_bytes())
    # the symbol's value in the file: ABI, table, operator
    mark = struct.pack("<III", 1, loading.HOST.size, ctypes.sizeof(loading.OperatorStruct))
    assert data.count(mark) == 1
    at = data.index(mark)
    data[at] = 9
    with pytest.raises(OpLibraryError, match=r"was built for ABI 9 with a table of .* build it"):
        load_op_library(data, private_file=True)


def test_and_by_the_library() -> None:
    older = type(loading.HOST)(loading.HOST.size - 8, loading.HOST.abi)
    dll = ctypes.CDLL(str(built(ATAN)))
    hand_over = loading.entry_point(dll, "litedelegate_op_library")
    why = ctypes.create_string_buffer(512)
    pointers = (ctypes.POINTER(loading.OperatorStruct) * 4)()
    assert hand_over(ctypes.addressof(older), pointers, 4, why, 512) == -1
    assert b"the library was built for ABI 1 with a table of" in why.value


# -- fuzz


@linux
def test_fuzz_of_the_check() -> None:
    """50,000 mutations of headers and tables: one kind of exception, and nothing is loaded."""
    good = built(ATAN).read_bytes()
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(50_000):
        data = mutate(good, rng)
        try:
            check_library(data, "it")
        except LibraryError:
            refused += 1
    assert refused > 10_000


def mutate(good: bytes, rng: np.random.Generator, head: int = 1024) -> bytes:
    data = bytearray(good)
    sections = len(data) - int.from_bytes(data[40:48], "little")
    for _ in range(rng.integers(1, 4)):
        # the first bytes hold the headers, the last ones those of the sections
        tail = rng.integers(4) == 0
        at = int(len(data) - 1 - rng.integers(sections) if tail else rng.integers(head))
        width = int(rng.choice([1, 4, 8]))
        value = rng.choice([0, 1, 0x7F, 0xFF, rng.integers(256)])
        data[at : at + width] = bytes([int(value)]) * min(width, len(data) - at)
    return bytes(data[: rng.integers(len(data))] if rng.integers(20) == 0 else data)


CHILD = """
import sys
import numpy as np
sys.path[:0] = {paths!r}
from test_op_library_loader import mutate
from litedelegate import OpLibraryError, load_op_library
good = open({path!r}, "rb").read()
rng = np.random.default_rng({seed})
loaded = 0
for _ in range({count}):
    try:
        lib = load_op_library(mutate(good, rng, {head}))
        loaded += 1
    except OpLibraryError:
        pass
print("loaded", loaded)
"""


@linux
def test_fuzz_of_loading_crashes_nothing() -> None:
    tests = Path(__file__).resolve().parent
    paths = [str(tests), str(tests.parent / "src")]
    path = built(ATAN)
    data = path.read_bytes()
    head = 64 + 56 * int.from_bytes(data[56:58], "little")  # file and program headers
    code = CHILD.format(paths=paths, path=str(path), seed=3, count=3000, head=head)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    assert int(done.stdout.split()[1]) < 3000


@linux
@pytest.mark.parametrize("where", ["headers", "tables"])
def test_the_mutation_test_runs(where: str, root: Path) -> None:
    """Few cases: `--count 50000` takes minutes. Damaged tables can lead into the wrong code."""
    built(ATAN)
    command = [sys.executable, root / "benchmarks" / "mutate_library.py", "--count", "60"]
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    done = subprocess.run(
        [*command, "--where", where], capture_output=True, text=True, env=environment
    )
    found = json.loads(done.stdout.splitlines()[0])
    assert found.pop("cases") == 60 and found["refused"] > 20, done.stdout
    assert set(found) <= {
        *("where", "seconds", "refused", "loaded", "refused by the system"),
        *(("crashed",) if where == "tables" else ()),
    }
    assert found.get("crashed", 0) <= 3


# -- building


def test_a_compilers_error_is_shown(tmp_path: Path) -> None:
    built(ATAN)
    path = tmp_path / "bad.c"
    path.write_text("int f(void) { return nothing; }\n")
    with pytest.raises(BuildFailed, match=r"(?s)ended with 1:.*nothing"):
        build_op_library([path])
    assert not path.with_suffix(".so").exists()


def test_several_sources_c_and_cpp(tmp_path: Path) -> None:
    built("examples/atan_c/atan.cc")
    (tmp_path / "a.c").write_text(
        f"{HEADER}TfLiteStatus Scale(TfLiteOpaqueContext* c, TfLiteOpaqueNode* n) {{\n"
        "  const float* x = TfLiteOpaqueTensorData(TfLiteOpaqueNodeGetInput(c, n, 0));\n"
        "  float* y = TfLiteOpaqueTensorData(TfLiteOpaqueNodeGetOutput(c, n, 0));\n"
        "  y[0] = 2 * x[0];\n  return kTfLiteOk;\n}\n"
    )
    (tmp_path / "b.cc").write_text(
        f'{HEADER}extern "C" TfLiteStatus Scale(TfLiteOpaqueContext*, TfLiteOpaqueNode*);\n'
        "static const TfLiteOperator* Make() {\n"
        '  auto* op = TfLiteOperatorCreate(kTfLiteBuiltinCustom, "Scale", 1);\n'
        "  TfLiteOperatorSetInvoke(op, Scale);\n  return op;\n}\n"
        "LITEDELEGATE_OP_LIBRARY(Make);\n"
    )
    library = load_op_library(build_op_library([tmp_path / "a.c", tmp_path / "b.cc"]))
    one = one_op("Scale", [("x", (1,), "float32")], ("y", (1,), "float32"))
    assert run(one, library, x=np.array([4], np.float32)).tolist() == [8.0]


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(BuildFailed, match="no C compiler: looked for cc, gcc, clang on PATH"):
        build_op_library([tmp_path / "a.c"])
    monkeypatch.setenv("CC", "nobody -x")
    with pytest.raises(BuildFailed, match="CC is 'nobody -x', and there is no such program"):
        build_op_library([tmp_path / "a.c"])
    monkeypatch.setenv("CC", "cc 'x")
    with pytest.raises(BuildFailed, match="which is no command line"):
        build_op_library([tmp_path / "a.c"])


def test_targets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("")
    with pytest.raises(BuildFailed, match="no target 'amiga'; there are x86_64-linux-gnu, "):
        build_op_library([tmp_path / "a.c"], target="amiga")
    monkeypatch.setattr(building.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BuildFailed, match=r"pip install 'litedelegate\[build\]'"):
        build_op_library([tmp_path / "a.c"], target="linux-aarch64")  # another spelling


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_cross_compiles(target: str, tmp_path: Path, root: Path) -> None:
    pytest.importorskip("ziglang")
    # zig builds its C++ library first, which takes minutes: once is enough
    for name in ("atan.c", "atan.cc") if target == "x86_64-linux-gnu" else ("atan.c",):
        path = build_op_library(
            [root / "examples" / "atan_c" / name], tmp_path / "out", target=target
        )
        magic = {"l": b"\x7fELF", "m": b"\xcf\xfa\xed\xfe", "w": b"MZ"}[target.split("-")[1][0]]
        data = path.read_bytes()
        assert data.startswith(magic)
        if sys.platform == "linux" and target != this_platform():
            with pytest.raises(OpLibraryError, match=r"this system loads|is a library for"):
                load_op_library(path)
        elif sys.platform == "linux":
            assert list(load_op_library(path)) == ["Atan"], name
