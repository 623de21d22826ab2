"""Custom ops that bring their own form for devices: they do not split the graph."""

from __future__ import annotations

import dataclasses
import importlib.util
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import cupy_standin
import numpy as np
import pytest
from devices import NAMES, device, for_standin

from litedelegate import (
    Delegate,
    DelegateError,
    Interpreter,
    ModelBuilder,
    NodeSpec,
    Registration,
    custom_op,
)
from litedelegate.delegates.cuda import CUDADelegate
from litedelegate.delegates.cuda import device as cuda_device
from litedelegate.delegates.gpu.dry_delegate import DryDelegate
from litedelegate.delegates.opencl import OpenCLDelegate
from litedelegate.kernels.device import PROFILES, Capability, Kernel, Lowered, Map, Read, Source
from litedelegate.runtime.coverage import Coverage

Lower = Callable[..., Any]
X = np.array([[-8, 0.5, 2], [2.2, 201, -0.25]], np.float32)


@pytest.fixture(params=list(NAMES))
def opencl(request: pytest.FixtureRequest, tmp_path: Path) -> OpenCLDelegate:
    found = device(request.param)
    return OpenCLDelegate(found.device.platform.name.strip(), cache=tmp_path)


@pytest.fixture(params=[*NAMES, "cuda-standin"])
def delegate(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Delegate:
    """OpenCL on two runtimes, and the CUDA delegate on a stand-in for CuPy."""
    if request.param != "cuda-standin":
        platform = device(request.param).device.platform.name.strip()
        return OpenCLDelegate(platform, cache=tmp_path)
    made = cupy_standin.make(for_standin())
    monkeypatch.setattr(cuda_device, "library", lambda: made)
    return CUDADelegate(cache=tmp_path)


@pytest.fixture
def atan(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("atan_example", root / "examples" / "atan.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def model(*ops: str, **options: Any) -> bytes:
    """NEG, the custom ops, EXP."""
    b = ModelBuilder()
    g = b.subgraph("main")
    y = g.op("NEG", [g.input("x", X.shape)], ("neg", X.shape, "float32"))
    for i, name in enumerate(ops):
        y = g.custom(name, [y], (f"y{i}", X.shape, "float32"), options=options)
    g.outputs(g.op("EXP", [y], ("y", X.shape, "float32")))
    return b.build()


def run(content: bytes, ops: Any, *delegates: Delegate, **options: Any) -> tuple[Any, Coverage]:
    with Interpreter(
        model_content=content, custom_ops=ops, delegates=delegates, **options
    ) as interpreter:
        got = interpreter.run({"x": X})["y"]
        np.testing.assert_array_equal(interpreter.run({"x": X})["y"], got)
        return got, interpreter.delegate_coverage()


def check(content: bytes, ops: Any, *delegates: Delegate, **options: Any) -> Coverage:
    """The same numbers as numpy alone gives."""
    want, _ = run(content, ops)
    got, report = run(content, ops, *delegates, **options)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    return report


@pytest.mark.parametrize("form", ["ATAN", "atan", "in_c"])
def test_atan_rides_in_the_kernel_of_its_neighbours(
    atan: ModuleType, delegate: Delegate, form: str
) -> None:
    if form == "in_c" and shutil.which("cc") is None:
        pytest.skip("no C compiler (cc) on PATH")
    op = atan.in_c() if form == "in_c" else getattr(atan, form)
    report = check(model("Atan", offset=1.0), {"Atan": op}, delegate, strict=True)
    (partition,) = report.partitions
    assert list(partition.kernels) == ["NEG+Atan+EXP"]


def test_atan_on_devices_that_are_not_there(atan: ModuleType) -> None:
    for name in PROFILES:
        delegate = DryDelegate("some", name)
        delegate.profile = None  # three nodes do not pay
        with Interpreter(
            model_content=model("Atan", offset=1.0),
            custom_ops={"Atan": atan.atan},
            delegates=[delegate],
        ) as interpreter:
            report = interpreter.delegate_coverage()
            assert [n.placed_on for n in report.nodes] == ["some"] * 3, name


# -- a body of its own

REVERSED = """
#define LAST (COLUMNS - 1)
KERNEL void KERNEL_NAME(PARAMETERS)
{
    STORE(GID1 * COLUMNS + GID0, reverse_identity(LOAD0(GID1 * COLUMNS + LAST - GID0)));
}
"""
HELPER = "DEVICE f32 reverse_identity(f32 x) { return x; }"


def reversed_body(text: str, api: str = "", uses: tuple[Source, ...] = ()) -> Lower:
    def lower(node: NodeSpec, capability: Capability) -> Kernel:
        rows, columns = node.outputs[0].shape
        return Kernel(Source(text, api), (0,), (columns, rows), {"COLUMNS": columns}, uses)

    return lower


def reverse(lower: Lower) -> Any:
    @custom_op("Reverse", shape="same", lower=lower)
    def op(x: Any) -> Any:
        return x[:, ::-1]

    return op


def test_a_body_and_its_functions(delegate: Delegate) -> None:
    op = reverse(reversed_body(REVERSED, uses=(Source(HELPER),)))
    # the second one defines LAST again: it ended with the first
    other = reverse(reversed_body(f"{REVERSED}/* another */", uses=(Source(HELPER),)))
    report = check(model("Reverse", "Other"), {"Reverse": op, "Other": other}, delegate)
    assert not report.on_cpu
    assert list(report.partitions[0].kernels) == ["NEG", "Reverse", "Other+EXP"]


OPENCL = """
__kernel void KERNEL_NAME(PARAMETERS)
{
    const int column = get_global_id(0), row = get_global_id(1);
    STORE(row * COLUMNS + column, LOAD0(row * COLUMNS + COLUMNS - 1 - column));
}
"""


def test_text_for_opencl_alone(opencl: Delegate) -> None:
    op = reverse(reversed_body(OPENCL, "opencl"))
    assert not check(model("Reverse"), {"Reverse": op}, opencl).on_cpu


def test_text_for_the_other_api_is_refused(opencl: Delegate) -> None:
    op = reverse(reversed_body("__global__ …", "cuda"))
    report = check(model("Reverse"), {"Reverse": op}, opencl)
    (node,) = report.on_cpu
    assert [(r.code, r.text) for r in node.refusals] == [
        ("DEVICE", "got text for cuda alone; this device takes opencl")
    ]


@pytest.mark.parametrize(("api", "profile"), [("cuda", "sm_90"), ("opencl", "pocl-cpu")])
def test_text_for_one_api_on_devices_that_are_not_there(api: str, profile: str) -> None:
    text = "KERNEL_NAME(PARAMETERS) { STORE(never compiled) }"
    for text_api in ("cuda", "opencl"):
        op = reverse(reversed_body(text, text_api))
        dry = DryDelegate(api, profile)
        dry.profile = None
        with Interpreter(
            model_content=model("Reverse"), custom_ops={"Reverse": op}, delegates=[dry]
        ) as interpreter:
            nodes = interpreter.delegate_coverage().nodes
        assert nodes[1].placed_on == (api if text_api == api else "cpu")


def test_a_text_can_be_chosen_by_the_api(opencl: Delegate) -> None:
    def lower(node: NodeSpec, capability: Capability) -> Kernel:
        text = OPENCL if capability.api == "opencl" else "__global__ …"
        made: Kernel = reversed_body(text, capability.api)(node, capability)
        return made

    assert not check(model("Reverse"), {"Reverse": reverse(lower)}, opencl).on_cpu
    assert PROFILES["sm_90"].api == "cuda" and PROFILES["opencl-gpu"].api == "opencl"


# -- errors in it: the node is refused, its neighbours are not, and the model runs


def broken(lower: Lower, delegate: Delegate) -> str:
    """The reason for NEG, Reverse, Reverse, EXP, of which only the second pair stays."""
    sound = reverse(reversed_body(REVERSED, uses=(Source(HELPER),)))
    ops = {"Reverse": sound, "Bad": reverse(lower)}
    report = check(model("Reverse", "Bad", "Reverse"), ops, delegate)
    assert [n.op for n in report.on_cpu] == ["Bad"]
    assert len(report.partitions) == 2
    (refusal,) = report.on_cpu[0].refusals
    assert refusal.code == "BUILD_FAILED"
    return refusal.text


def refused(lower: Lower) -> str:
    """The reason for the second of NEG, Bad, EXP: no device is needed to see it."""
    dry = DryDelegate("cuda", "sm_90")
    dry.profile = None
    with Interpreter(
        model_content=model("Bad"), custom_ops={"Bad": reverse(lower)}, delegates=[dry]
    ) as interpreter:
        (node,) = interpreter.delegate_coverage().on_cpu
    ((op, code, text),) = [(node.op, r.code, r.text) for r in node.refusals]
    assert (op, code) == ("Bad", "BUILD_FAILED")
    return text


def test_text_that_does_not_compile(delegate: Delegate) -> None:
    log = broken(reversed_body(REVERSED.replace("GID1 *", "gid_one *")), delegate)
    assert "gid_one" in log and "does not build" in log
    assert "text of the op:5:" in log  # the line of the user's text


def test_functions_that_do_not_compile(delegate: Delegate) -> None:
    helper = Source(f"/* two\nlines */ {HELPER.replace('x;', 'no_such_y;')}")
    log = broken(reversed_body(REVERSED, uses=(helper,)), delegate)
    assert "no_such_y" in log and "text of the op:2:" in log


def test_text_that_does_not_compile_in_an_expression(delegate: Delegate) -> None:
    log = broken(lambda node, capability: Map("no_such_function($0)"), delegate)
    assert "no_such_function" in log


@pytest.mark.parametrize(
    ("lower", "reason"),
    [
        (lambda n, c: Lowered([Map("$1")]), "got $1 in '$1' in step 0 of Bad; takes numbers of"),
        (lambda n, c: Map(reads=(Read(7),)), "got input 7 to read in step 0 of Bad; takes one of"),
        (lambda n, c: Map(reads=(Read(-1),)), "got input -1 to read in step 0 of Bad"),
        (lambda n, c: Map(reads=(Read([1.0]),)), "got [1.0] to read in step 0 of Bad; takes the"),
        (lambda n, c: Map(reads=(Read(X > 0),)), "got a constant of bool in step 0 of Bad; takes"),
        (lambda n, c: Map(reads=(Read(X.T),)), "got read 0 of shape (3, 2) in step 0 of Bad"),
        (lambda n, c: Map(reads=(Read(0, None, (3, 2)),)), "read 0 at elements 0 to 7 in step 0"),
        (lambda n, c: Map(reads=(Read(0, None, (1,)),)), "got strides (1,) of read 0"),
        (lambda n, c: Map(strides=(3, 1), offset=-1), "got output at elements -1 to 4 in step 0"),
        (lambda n, c: Map(output=1), "got output 1 in step 0 of Bad; takes a number below 1"),
        (lambda n, c: Map("F_SINH($0)"), "got the name F_SINH in step 0 of Bad; takes those of"),
        (lambda n, c: Lowered([Map(), "F_EXP($0)"]), "got 'F_EXP($0)' as step 1 of Bad; takes"),
        (lambda n, c: "F_EXP($0)", "got str from `lower`; takes a Lowered"),
        (lambda n, c: None, "got NoneType from `lower`; takes a Lowered"),
        (lambda n, c: 1 / 0, "lower raised ZeroDivisionError"),
        (lambda n, c: Map(uses=("no such text",)), "no such text"),
    ],
)
def test_a_form_that_is_none(lower: Lower, reason: str) -> None:
    assert reason in refused(lower)


def test_a_form_that_is_none_costs_its_node_alone(delegate: Delegate) -> None:
    assert "takes a Lowered" in broken(lambda n, c: "F_EXP($0)", delegate)


def body(text: str = REVERSED.replace("reverse_identity", ""), **changes: Any) -> Lower:
    """A sound body of its own but for `changes`."""

    def lower(node: NodeSpec, capability: Capability) -> Kernel:
        given: dict[str, Any] = {"reads": (0,), "grid": (3, 2), "defines": {"COLUMNS": 3}}
        return Kernel(Source(text), **{**given, **changes})

    return lower


ONE = "one to three whole numbers from 1 on"


@pytest.mark.parametrize(
    ("lower", "reason"),
    [
        (body(grid=(0, 2)), f"got grid=(0, 2) in step 0 of Bad; takes {ONE}"),
        (body(grid=(3, -2)), f"got grid=(3, -2) in step 0 of Bad; takes {ONE}"),
        (body(grid=(3.0, 2)), f"got grid=(3.0, 2) in step 0 of Bad; takes {ONE}"),
        (body(grid=(3, 2, 1, 1)), f"got grid=(3, 2, 1, 1) in step 0 of Bad; takes {ONE}"),
        (body(grid=()), f"got grid=() in step 0 of Bad; takes {ONE}"),
        (body(grid=6), f"got grid=6 in step 0 of Bad; takes {ONE}"),
        (body(group=(2, 1)), "got grid=(3, 2) and group=(2, 1) in step 0 of Bad; takes a grid of"),
        (body(group=(3,)), "got grid=(3, 2) and group=(3,) in step 0 of Bad"),
        (body(group=(0, 1)), f"got group=(0, 1) in step 0 of Bad; takes {ONE}"),
        (body(grid=(1 << 20, 2), group=(1 << 20, 1)), "work-items at most on this device"),
        (body(reads=(3,)), "got input 3 to read in step 0 of Bad; takes one of [0, 1] (scratch"),
        (body(reads=([1, 2],)), "got [1, 2] to read in step 0 of Bad; takes the number of an"),
        (body(reads=(X, 0), text=REVERSED.replace("LOAD0", "LOAD2")), "got LOAD2 in step 0 of Bad"),
        (body(defines={"COLUMN S": 3}), "got the macro 'COLUMN S' in `defines` in step 0 of Bad"),
        (body(REVERSED.replace("STORE", "")), "got a text that stores nothing in step 0 of Bad"),
        (body("/* STORE */ KERNEL void KERNEL_NAME(PARAMETERS) {}"), "takes STORE(i, value)"),
        (body("KERNEL void mine() { STORE(0, 0); }"), "in step 0 of Bad; takes KERNEL_NAME"),
        (body(REVERSED.replace("GID1", "GID3")), "got the name GID3 in step 0 of Bad; takes those"),
        (body(REVERSED.replace("reverse_identity", "F_SINH")), "got the name F_SINH in step 0"),
    ],
)
def test_a_body_that_is_none(lower: Lower, reason: str) -> None:
    assert reason in refused(lower)


def test_names_of_ones_own(delegate: Delegate) -> None:
    """Macros and functions that the text defines are no others' names."""
    text = REVERSED.replace("reverse_identity", "TWICE").replace("LOAD0", "HALVED(0.5f) * LOAD0")
    helper = "DEVICE f32 TWICE(f32 x) { return x + x; }"
    text = f"#define HALVED(x) (x)\n{text}"
    report = check(
        model("Reverse"), {"Reverse": reverse(body(text, uses=(Source(helper),)))}, delegate
    )
    assert not report.on_cpu


def test_an_empty_output_needs_no_grid(delegate: Delegate) -> None:
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (2, 0))
    g.outputs(g.custom("Reverse", [x], ("y", (2, 0), "float32")))
    op = reverse(body(grid=(0, 2)))
    interpreter = Interpreter(
        model_content=b.build(), custom_ops={"Reverse": op}, delegates=[delegate]
    )
    assert interpreter.run({"x": np.zeros((2, 0), np.float32)})["y"].shape == (2, 0)
    assert not interpreter.delegate_coverage().on_cpu


def test_one_body_with_other_functions_is_another_kernel(delegate: Delegate) -> None:
    twice = HELPER.replace("x;", "x + x;")
    ops = {
        "Reverse": reverse(reversed_body(REVERSED, uses=(Source(HELPER),))),
        "Other": reverse(reversed_body(REVERSED, uses=(Source(twice),))),
    }
    plain, _ = run(model("Reverse", "Other"), ops)
    got, report = run(model("Reverse", "Other"), ops, delegate)
    assert not report.on_cpu
    np.testing.assert_allclose(got, plain * plain, rtol=1e-4)


def test_functions_of_two_ops_may_have_one_name(delegate: Delegate) -> None:
    ops = {
        name: reverse(reversed_body(REVERSED, uses=(Source(text),)))
        for name, text in (("Reverse", HELPER), ("Other", f"{HELPER} /* mine */"))
    }
    assert not check(model("Reverse", "Other"), ops, delegate).on_cpu


def test_strict_says_what_the_compiler_said(delegate: Delegate) -> None:
    op = reverse(reversed_body(REVERSED.replace("GID1 *", "gid_one *")))
    with pytest.raises(DelegateError, match="gid_one"):
        run(model("Reverse"), {"Reverse": op}, delegate, strict=True)


def test_a_registration_takes_its_options_itself(delegate: Delegate) -> None:
    def lower(node: NodeSpec, capability: Capability) -> Lowered:
        factor = np.array(node.options.flexbuffer()["factor"], np.float32)
        return Lowered([Map("$0 * $1", (Read(0), Read(factor)))])

    @custom_op("Scale", shape="same")
    def scale(x: Any, *, factor: float) -> Any:
        return x * np.float32(factor)

    op: Registration = dataclasses.replace(scale.registration, lower=lower)
    report = check(model("Scale", factor=0.25), {"Scale": op}, delegate)
    assert list(report.partitions[0].kernels) == ["NEG+Scale+EXP"]


def test_text_that_does_not_compile_leaves_no_file(
    opencl: OpenCLDelegate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    @custom_op("Broken", shape="same", lower=lambda node, _: Map("$0 * * 2.0f", (Read(0),)))
    def broken(x: Any) -> Any:
        return x

    report = check(model("Broken"), {"Broken": broken}, opencl)
    assert [r.code for r in report.nodes[1].refusals] == ["BUILD_FAILED"]
    assert not list(folder.glob("*.cl"))


OTHER = """
DEVICE i32 KERNEL_NAME(i32 x) { return x; }
KERNEL void another(PARAMETERS) { STORE(0, 0); }
"""


@pytest.mark.parametrize("text", ["", OTHER])
def test_text_without_its_kernel_costs_this_node_alone(opencl: OpenCLDelegate, text: str) -> None:
    def lower(node: NodeSpec, _: Capability) -> Lowered:
        return Lowered([Kernel(Source(text), (0,), X.shape[::-1])])

    @custom_op("Empty", shape="same", lower=lower)
    def empty(x: Any) -> Any:
        return x

    report = check(model("Empty"), {"Empty": empty}, opencl)
    (why,) = report.nodes[1].refusals
    assert why.code == "BUILD_FAILED" and "takes KERNEL_NAME" in why.text
    assert not report.nodes[0].refusals and not report.nodes[2].refusals
