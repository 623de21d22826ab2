"""`load_delegate`: delegates in shared libraries, over TensorFlow Lite's C structs."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_libraries import built

from litedelegate import (
    DelegateError,
    Interpreter,
    ModelBuilder,
    PositionalInputWarning,
    load_delegate,
)
from litedelegate.customops.build import build_op_library
from litedelegate.runtime.external import ExternalDelegate

DELEGATE = "tests/c_ops/delegate.c"
X, Y = np.arange(4, dtype=np.float32), np.arange(4, dtype=np.float32) + 1
INPUTS = {"x": X, "y": Y}


def model() -> bytes:
    """ADD, MUL, ADD, ADD: two partitions of ADDs."""
    builder = ModelBuilder()
    g = builder.subgraph("main")
    x, y = g.input("x", (4,)), g.input("y", (4,))
    a = g.op("ADD", [x, y], ("a", (4,), "float32"))
    b = g.op("MUL", [a, y], ("b", (4,), "float32"))
    c = g.op("ADD", [b, a], ("c", (4,), "float32"))
    g.outputs(g.op("ADD", [c, y], ("d", (4,), "float32")))
    return builder.build()


WANT = Interpreter(model_content=model()).run(INPUTS)["d"]


def delegate(**options: Any) -> ExternalDelegate:
    return load_delegate(built(DELEGATE), options)


def placed(interpreter: Interpreter) -> list[str]:
    return [n.placed_on for n in interpreter.delegate_coverage().nodes]


@pytest.mark.parametrize("mode", ["plain", "opaque", "operator"])
def test_takes_its_nodes_and_runs_them(mode: str) -> None:
    interpreter = Interpreter(model_content=model(), delegates=[delegate(mode=mode)], strict=False)
    for _ in range(3):
        np.testing.assert_array_equal(interpreter.run(INPUTS)["d"], WANT)
    report = interpreter.delegate_coverage()
    name = report.partitions[0].delegate
    assert [n.placed_on for n in report.nodes] == [name, "cpu", name, name]
    assert name == built(DELEGATE).name.removeprefix("lib").partition(".")[0]
    assert [list(p.nodes) for p in report.partitions] == [[0], [2, 3]]
    kernel = "AddingKernel" if mode == "plain" else "OpaqueAddingKernel"
    assert all(list(p.kernels) == [kernel] for p in report.partitions)
    assert "did not ask for it" in report.nodes[1].refusals[0].text


def test_nodes_that_it_must_not_have_are_not_shown_to_it() -> None:
    interpreter = Interpreter(model_content=model(), delegates=[delegate()], exclude=[3])
    np.testing.assert_array_equal(interpreter.run(INPUTS)["d"], WANT)
    assert [p != "cpu" for p in placed(interpreter)] == [True, False, True, False]


def branches() -> bytes:
    """IF of two ADDs, and of a MUL."""
    b = ModelBuilder()
    main = b.subgraph("main")
    both, product = b.subgraph("both"), b.subgraph("product")
    x = both.input("x", (4,))
    y = both.op("ADD", [x, x], ("t", (4,), "float32"))
    both.outputs(both.op("ADD", [y, x], ("y", (4,), "float32")))
    x = product.input("x", (4,))
    product.outputs(product.op("MUL", [x, x], ("y", (4,), "float32")))
    c, x = main.input("c", (), "bool"), main.input("x", (4,))
    chosen = main.op(
        "IF", [c, x], ("y", (4,), "float32"), then_subgraph_index=1, else_subgraph_index=2
    )
    main.outputs(chosen)
    return b.build()


def test_other_subgraphs_are_looked_at_and_not_taken() -> None:
    seen = (
        "subgraph 0: 0 of 1 nodes, 3 tensors\n"
        "subgraph 1: 2 of 2 nodes, 3 tensors\n"
        "subgraph 2: 0 of 1 nodes, 2 tensors"
    )
    with pytest.warns(UserWarning, match=seen):
        interpreter = Interpreter(
            model_content=branches(), delegates=[delegate(fail="looks around")]
        )
        interpreter.allocate_tensors()
    got = interpreter.run({"c": np.array(True), "x": X})["y"]
    np.testing.assert_array_equal(got, 3 * X)
    with pytest.warns(UserWarning, match="nodes of subgraph 1, which was acquired, are asked for"):
        interpreter = Interpreter(
            model_content=branches(), delegates=[delegate(fail="takes around")]
        )
        interpreter.allocate_tensors()
    np.testing.assert_array_equal(interpreter.run({"c": np.array(True), "x": X})["y"], 3 * X)


def test_two_of_them_share_a_model() -> None:
    both = [delegate(), delegate(op=18)]  # it adds for MUL, too
    interpreter = Interpreter(model_content=model(), delegates=both)
    np.testing.assert_array_equal(interpreter.run(INPUTS)["d"], 2 * X + 4 * Y)
    assert "cpu" not in placed(interpreter)


def test_the_same_library_runs_in_google_s_runtime() -> None:
    """So the header's layout is theirs."""
    peer = pytest.importorskip("ai_edge_litert.interpreter")
    found = peer.Interpreter(
        model_content=model(),
        experimental_op_resolver_type=peer.OpResolverType.BUILTIN_REF,
        experimental_delegates=[peer.load_delegate(str(built(DELEGATE)), {"mode": "plain"})],
    )
    found.allocate_tensors()
    for details in found.get_input_details():
        found.set_tensor(details["index"], INPUTS[details["name"]])
    found.invoke()
    np.testing.assert_array_equal(found.get_tensor(found.get_output_details()[0]["index"]), WANT)


# -- its life


def test_made_and_destroyed_once_for_several_interpreters(tmp_path: Path) -> None:
    log = tmp_path / "log"
    one = delegate(log=log)
    first = Interpreter(model_content=model(), delegates=[one])
    second = Interpreter(model_content=model(), delegates=[one])
    for interpreter in (first, second, first):
        np.testing.assert_array_equal(interpreter.run(INPUTS)["d"], WANT)
    del one
    first.close()
    # two partitions each: init and prepare, then three invokes of both
    assert log.read_text() == "c" + 2 * "Pipipvv" + "vv" + "ff"
    np.testing.assert_array_equal(second.run(INPUTS)["d"], WANT)
    second.close()
    del first, second, interpreter
    gc.collect()
    assert log.read_text().endswith("ffvvffd") and log.read_text().count("d") == 1


def test_from_several_threads(tmp_path: Path) -> None:
    one = delegate()
    wrong: list[Any] = []

    def work(k: int) -> None:
        interpreter = Interpreter(model_content=model(), delegates=[one])
        for _ in range(20):
            got = interpreter.run({"x": X + k, "y": Y})["d"]
            if not np.array_equal(got, (X + k + Y) * Y + (X + k + Y) + Y):
                wrong.append(got)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_destroyed_at_exit_after_its_interpreters(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = (
        "from litedelegate import Interpreter, load_delegate\n"
        f"d = load_delegate({str(built(DELEGATE))!r}, {{'log': {str(log)!r}}})\n"
        f"i = Interpreter(model_content={model()!r}, delegates=[d])\n"
        "i.allocate_tensors()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=_environment())
    assert log.read_text() == "cPipipffd"


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent / "src")}


def test_resized_and_back() -> None:
    builder = ModelBuilder()
    g = builder.subgraph("main")
    x = g.input("x", (4,), shape_signature=(-1,))
    g.outputs(g.op("ADD", [x, x], ("y", (4,), "float32")))
    interpreter = Interpreter(model_content=builder.build(), delegates=[delegate()])
    for n in (4, 2, 4, 7, 2):
        x_ = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(interpreter.run({"x": x_})["y"], 2 * x_)
        assert placed(interpreter) != ["cpu"]


def dynamic_model() -> bytes:
    """WHERE's output, cast and added to itself: shapes that only data tell."""
    builder = ModelBuilder()
    g = builder.subgraph("main")
    x = g.input("x", (6,), "bool")
    a = g.op("WHERE", [x], ("a", (1, 1), "int64"))
    b = g.op("CAST", [a], ("b", (1, 1), "float32"), in_data_type="INT64", out_data_type="FLOAT32")
    g.outputs(g.op("ADD", [b, b], ("c", (1, 1), "float32")))
    return builder.build()


@pytest.mark.parametrize("allowed", [0, 1])
def test_dynamic_tensors(allowed: int) -> None:
    interpreter = Interpreter(model_content=dynamic_model(), delegates=[delegate(dynamic=allowed)])
    for count in (2, 6, 0, 3):
        x = np.arange(6) < count
        got = interpreter.run({"x": x})["c"]
        np.testing.assert_array_equal(got, 2 * np.arange(count, dtype=np.float32)[:, None])
    assert (placed(interpreter)[2] != "cpu") == bool(allowed)


# -- buffers of its own


def test_buffer_handles(tmp_path: Path) -> None:
    log = tmp_path / "log"
    one = delegate(buffers=1, log=log)
    interpreter = Interpreter(model_content=model(), delegates=[one])
    interpreter.allocate_tensors()
    x, y = (d["index"] for d in interpreter.get_input_details())
    out = interpreter.get_output_details()[0]["index"]
    interpreter.set_buffer_handle(x, 0, one)
    interpreter.set_buffer_handle(out, 1, one)
    log.write_text("")
    with pytest.warns(PositionalInputWarning):
        interpreter.set_tensor(x, X)
    interpreter.set_tensor(y, Y)
    assert log.read_text() == ">"  # the host wrote: it goes to the buffer
    interpreter.invoke()
    assert log.read_text() == ">vv"  # nothing is copied before somebody asks
    np.testing.assert_array_equal(interpreter.get_tensor(out), WANT)
    assert log.read_text() == ">vv<"
    interpreter.set_buffer_handle(out, None, one)
    assert log.read_text() == ">vv<-"
    interpreter.close()
    assert log.read_text().count("-") == 2
    plain = delegate()
    interpreter = Interpreter(model_content=model(), delegates=[plain])
    with pytest.raises(ValueError, match="has no buffer handles"):
        interpreter.set_buffer_handle(0, 0, plain)


def test_a_bad_handle_is_the_delegate_s_to_refuse() -> None:
    one = delegate(buffers=1)
    interpreter = Interpreter(model_content=model(), delegates=[one])
    interpreter.allocate_tensors()
    interpreter.set_buffer_handle(0, 9, one)
    with pytest.raises(RuntimeError, match="there is no buffer 9"):
        interpreter.get_tensor(0)


# -- what goes wrong


@pytest.mark.parametrize(
    ("fail", "text"),
    [
        ("prepare", "3 of 4 nodes, and then nothing: it was told to fail"),
        ("init", "init of a partition of 1 nodes fails"),
        # the arguments of printf: text, a float, widths, 64 bits, a letter, a percent sign
        ("kernel prepare", r"prepare fails: because  1\.50 -7 \| 123456789012 x%"),
        ("replace twice", "were replaced already"),
    ],
)
@pytest.mark.parametrize("mode", ["plain", "opaque"])
def test_one_that_fails_in_prepare_leaves_the_graph_as_it_was(
    fail: str, text: str, mode: str
) -> None:
    one = delegate(fail=fail, mode=mode)
    interpreter = Interpreter(model_content=model(), delegates=[one])
    with pytest.warns(UserWarning, match=text):
        interpreter.allocate_tensors()
    np.testing.assert_array_equal(interpreter.run(INPUTS)["d"], WANT)
    report = interpreter.delegate_coverage()
    assert [n.placed_on for n in report.nodes] == ["cpu"] * 4
    refusal = report.nodes[0].refusals[0]
    assert refusal.code == "BUILD_FAILED" and "\\" not in refusal.text
    with pytest.raises(DelegateError, match=text):
        Interpreter(model_content=model(), delegates=[one], strict=True).allocate_tensors()


def test_one_whose_invoke_fails_is_taken_off_and_the_invoke_run_again() -> None:
    interpreter = Interpreter(model_content=model(), delegates=[delegate(fail="invoke")])
    with pytest.warns(UserWarning, match=r"taken off.*invoke number 2 fails.*is run again"):
        np.testing.assert_array_equal(interpreter.run(INPUTS)["d"], WANT)
    assert placed(interpreter) == ["cpu"] * 4
    np.testing.assert_array_equal(interpreter.run(INPUTS)["d"], WANT)
    strict = Interpreter(
        model_content=model(), delegates=[delegate(fail="invoke")], strict=True, exclude=["MUL"]
    )
    with pytest.raises(RuntimeError, match="invoke number 2 fails"):
        strict.run(INPUTS)


def test_what_only_prepare_may_call() -> None:
    interpreter = Interpreter(model_content=model(), delegates=[delegate(fail="plan in invoke")])
    with pytest.warns(UserWarning, match=r"GetExecutionPlan is called outside of .* Prepare"):
        np.testing.assert_array_equal(interpreter.run(INPUTS)["d"], WANT)


def test_calls_that_make_no_sense_are_errors_to_it_and_warnings_to_the_user() -> None:
    interpreter = Interpreter(model_content=model(), delegates=[delegate(fail="bad calls")])
    with pytest.warns(UserWarning) as told:
        np.testing.assert_array_equal(interpreter.run(INPUTS)["d"], WANT)
    (text,) = (str(w.message) for w in told)
    assert text.endswith("\n0 bad calls are taken")
    for part in (
        "there is no node 9999",
        "there is no tensor -5",
        "nodes [9999] are not among the candidates",
        "the registration of the delegate's kernel has no invoke",
        "tensor 'x' cannot be resized now",
        "ResizeTensor is given NULL",
        "a tensor cannot be resized to [-3]",
        "a tensor was given that is none of this context's",
        "-1 tensors cannot be added",
        "there is no subgraph 9; there are 1",
    ):
        assert part in text, text
    assert placed(interpreter) == ["cpu"] * 4


def test_options_go_on_as_text_and_its_report_is_the_error() -> None:
    with pytest.raises(ValueError) as e:
        load_delegate(built(DELEGATE), {"speed": 3.5})
    assert str(e.value) == (
        f"Failed to load delegate from {built(DELEGATE)}\n{built(DELEGATE)} made no delegate: "
        "there is no option speed (with the value 3.5)"
    )
    with pytest.raises(ValueError, match="made no delegate: it gave no reason"):
        delegate(fail="create")


def source(tmp_path: Path, text: str, *flags: str, name: str = "some") -> Path:
    built(DELEGATE)  # skips where there is no compiler
    path = tmp_path / f"{name}.c"
    path.write_text(text)
    return build_op_library([path], flags=flags)


EXPORT = '__attribute__((visibility("default"))) '
CREATE = f"{EXPORT}void* tflite_plugin_create_delegate(void) {{ return 0; }}\n"


def test_a_library_without_the_functions(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"lacks the function tflite_plugin_destroy_delegate: it"):
        load_delegate(source(tmp_path, CREATE))
    with pytest.raises(ValueError, match=r"functions tflite_plugin_create_delegate and tflite_pl"):
        load_delegate(source(tmp_path, f"{EXPORT}int other(void) {{ return 0; }}", name="none"))


@pytest.mark.skipif(sys.platform != "linux", reason="the words of Linux' loader")
def test_a_library_that_lacks_another_one(tmp_path: Path) -> None:
    text = f"int helper(void); {EXPORT}int other(void) {{ return helper(); }}"
    path = source(tmp_path, text, name="needs_function")
    with pytest.raises(ValueError, match=r"(?s)tried .*\(the file is there\): it needs the functi"):
        load_delegate(path)
    helper = source(tmp_path, f"{EXPORT}int helper(void) {{ return 1; }}", name="helper")
    path = source(tmp_path, text, str(helper), name="needs_library")
    helper.unlink()
    with pytest.raises(ValueError, match=r"helper\.so, which is not found|helper\.so: cannot open"):
        load_delegate(path)
    with pytest.raises(ValueError, match=r"tried libnobody\.so\.7 on the loader's search path"):
        load_delegate("libnobody.so.7")


@pytest.mark.skipif(sys.platform != "linux", reason="changes an ELF file")
def test_damaged_and_foreign_libraries(tmp_path: Path) -> None:
    data = bytearray(built(DELEGATE).read_bytes())
    path = tmp_path / "damaged.so"
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match=r"\(the file is there\): it is no library that can be"):
        load_delegate(path)
    data[18] = {62: 183}.get(data[18], 62)
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"it is a library for \w+; this machine is"):
        load_delegate(path)


def test_by_its_path() -> None:
    path = str(built(DELEGATE))
    interpreter = Interpreter(model_content=model(), delegates=[path])
    np.testing.assert_array_equal(interpreter.run(INPUTS)["d"], WANT)
    assert placed(interpreter)[0] != "cpu"
    interpreter.close()
    with pytest.raises(ValueError, match=r"Failed to load delegate from /none/libx\.so\.1"):
        Interpreter(model_content=model(), delegates=["/none/libx.so.1"])
    with pytest.warns(UserWarning, match="there is no such file"):
        interpreter = Interpreter(
            model_content=model(), delegates=["/none/libx.so.1"], on_unavailable="fallback"
        )
    assert placed(interpreter) == ["cpu"] * 4
