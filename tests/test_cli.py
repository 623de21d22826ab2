"""The command line, called as a person calls it: what it prints, what it writes, how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from devices import device
from rich.progress import Progress

from litedelegate.cli import devices as devices_command
from litedelegate.cli import main
from litedelegate.delegates.opencl import find as opencl_find
from litedelegate.runtime.builder import ModelBuilder
from litedelegate.runtime.delegate import Unavailable

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "models"
FLOAT = EXAMPLES / "digits_f32.tflite"
INT8 = EXAMPLES / "digits_int8.tflite"


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Result]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    def call(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as end:
            main([str(a) for a in arguments], prog_name="litedelegate")
        captured = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return Result(end.value.code, captured.out, captured.err)

    return call


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A held-out digit as a .npy file of the float model's input."""
    with np.load(EXAMPLES / "digits_heldout.npz") as held_out:
        pixels = held_out["images"][0]
    path = tmp_path / "digit.npy"
    np.save(path, (pixels / 16).astype(np.float32).reshape(1, 8, 8, 1))
    return path


@pytest.fixture
def unknown_op(tmp_path: Path) -> Path:
    """A model with a custom op that nobody knows."""
    builder = ModelBuilder()
    graph = builder.subgraph("main")
    x = graph.input("x", (2,))
    graph.outputs(graph.custom("Mystery", [x], ("y", (2,), "float32"), options=b"\x01\x02"))
    path = tmp_path / "unknown.tflite"
    builder.save(path)
    return path


@pytest.mark.parametrize(
    ("command", "default"), [("run", "numpy"), ("benchmark", "numpy"), ("verify", "auto")]
)
def test_help_tells_the_delegates_that_it_takes(cli: Cli, command: str, default: str) -> None:
    text = " ".join(cli(command, "--help").out.split())
    assert f"opencl, cuda, auto or MODULE:ATTRIBUTE; in order. [default: {default}]" in text


@pytest.mark.parametrize("command", [(), ("run",), ("inspect",), ("benchmark",)])
def test_help_has_examples_and_exit_codes(cli: Cli, command: tuple[str, ...]) -> None:
    got = cli(*command, "--help")
    assert got.code == 0
    assert f"litedelegate {command[0] if command else 'inspect'}" in got.out
    assert "Examples:" in got.out and "Exit codes:" in got.out
    if not command:
        assert all(f"  {name} " in got.out for name in ("run", "inspect", "benchmark"))


def test_version(cli: Cli) -> None:
    assert "litedelegate" in cli("--version").out


def test_version_of_the_module_has_the_programs_name() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "litedelegate", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith("litedelegate, version ")


# -- inspect


def test_inspect_shows_what_is_in_a_model(cli: Cli) -> None:
    got = cli("inspect", INT8)
    assert got.code == 0 and got.err == ""
    for text in ("CONV_2D", "7 nodes, 15 tensors", "serving_default", "0.00390625 × (q + 128)"):
        assert text in got.out
    assert "padding=SAME" not in got.out
    everything = cli("inspect", INT8, "--all").out
    for text in ("padding=SAME", "fused_activation_function=RELU", "16 scales along axis 0"):
        assert text in everything


def test_inspect_json_is_the_whole_model(cli: Cli) -> None:
    got = cli("inspect", INT8, "--json").json
    (graph,) = got["subgraphs"]
    assert [n["op"] for n in graph["nodes"]] == [
        *("CONV_2D", "MAX_POOL_2D", "CONV_2D", "MAX_POOL_2D"),
        *("RESHAPE", "FULLY_CONNECTED", "SOFTMAX"),
    ]
    conv = got["operators"][0]
    assert (conv["op"], conv["version"], conv["count"], conv["resolved"]) == ("CONV_2D", 3, 2, True)
    weights = next(t for t in graph["tensors"] if t["name"] == "conv1/weights")
    assert (weights["kind"], weights["dtype"], weights["bytes"]) == ("constant", "int8", 144)
    assert len(weights["quantization"]["scale"]) == 16
    scores = graph["tensors"][graph["outputs"][0]]
    assert (scores["kind"], scores["shape_signature"]) == ("output", [-1, 10])
    # conv1 [8,8,16] and the image or pool1 live at the same time
    assert got["memory"]["arena_estimate"] >= 1024 + 64
    assert got["memory"]["constants"] > 144


def test_inspect_runs_nothing_and_names_unknown_ops(cli: Cli, unknown_op: Path) -> None:
    got = cli("inspect", unknown_op)
    assert got.code == 0
    assert "1 operator not known here: Mystery (custom)" in got.out
    strict = cli("inspect", unknown_op, "--strict", "--json")
    assert strict.code == 4
    assert strict.err == "error: not known here: Mystery\n"
    assert strict.json["unresolved"] == [
        {
            "op": "Mystery",
            "custom": True,
            "version": 1,
            "supported": None,
            "nodes": [{"subgraph": 0, "node": 0, "option_bytes": 2}],
        }
    ]


def test_names_from_a_file_cannot_draw_on_the_terminal(cli: Cli, tmp_path: Path) -> None:
    builder = ModelBuilder(description="\x1b[31mred [bold]")
    graph = builder.subgraph("main")
    x = graph.input("[red]in\x1b[2J\n", (1,))
    graph.outputs(graph.op("ABS", [x], ("out", (1,), "float32")))
    path = tmp_path / "names.tflite"
    builder.save(path)
    out = cli("inspect", path, "--all").out
    assert "\x1b" not in out
    assert r"[red]in\x1b[2J\n" in out


def test_a_terminal_without_unicode_is_served() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "litedelegate", "inspect", INT8],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert b"?8?8?1" in done.stdout


# -- run


def test_run_reads_a_file_and_shows_the_best_classes(cli: Cli, image: Path) -> None:
    labels = EXAMPLES / "digits_labels.txt"
    got = cli("run", FLOAT, "--input", image, "--labels", labels, "--top", 2)
    assert got.code == 0 and got.err == ""
    with np.load(EXAMPLES / "digits_heldout.npz") as held_out:
        digit = labels.read_text().split()[held_out["digits"][0]]
    first, second = (
        line.split() for line in got.out.splitlines() if line.strip()[:2] in ("1 ", "2 ")
    )
    assert first[1] == digit
    assert float(first[2]) > float(second[2])


def test_labels_that_do_not_fit_are_left_out_with_a_note(
    cli: Cli, image: Path, tmp_path: Path
) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("one\ntwo\n")
    got = cli("run", FLOAT, "-i", image, "--labels", labels)
    assert got.code == 0
    assert "has 2 lines, no output has as many values" in got.err
    assert "two" not in got.out


def test_labels_packed_in_the_model_are_found(cli: Cli, image: Path, tmp_path: Path) -> None:
    model = tmp_path / "packed.tflite"
    model.write_bytes(FLOAT.read_bytes())
    with zipfile.ZipFile(model, "a") as archive:
        archive.writestr("labels.txt", "\n".join("abcdefghij"))
    assert cli("inspect", model, "--json").json["packed_files"] == {"labels.txt": 19}
    (best,) = cli("run", model, "-i", image, "--top", 1, "--json").json["outputs"]["scores"]["top"]
    assert best["label"] == "abcdefghij"[best["index"]]


def test_labels_packed_in_the_model_that_cannot_be_read_are_left_out_with_a_note(
    cli: Cli, image: Path, tmp_path: Path
) -> None:
    model = tmp_path / "packed.tflite"
    model.write_bytes(FLOAT.read_bytes())
    with zipfile.ZipFile(model, "a") as archive:
        archive.writestr("labels.txt", "\n".join("abcdefghij"))
    model.write_bytes(
        model.read_bytes().replace(b"a\nb\nc", b"a\nb\nx")
    )  # its checksum is wrong now
    got = cli("run", model, "-i", image, "--top", 1)
    assert got.code == 0
    assert "the labels 'labels.txt' packed in" in got.err and "cannot be read" in got.err


def test_run_json_is_all_of_stdout(cli: Cli, image: Path) -> None:
    got = cli("run", FLOAT, "-i", f"image={image}", "--json", "--top", 1, "--repeat", 2)
    scores = got.json["outputs"]["scores"]
    assert scores["shape"] == [1, 10] and scores["dtype"] == "float32"
    assert sum(scores["values"][0]) == pytest.approx(1, abs=1e-5)
    (best,) = scores["top"]
    assert best["value"] == pytest.approx(max(scores["values"][0]))
    assert got.json["signature"] == "serving_default"


def reject(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def test_run_json_is_strict_where_results_are_not_finite(cli: Cli) -> None:
    got = cli("run", FLOAT, "-i", "const:nan", "--json", "--top", 1)
    assert got.code == 0
    scores = json.loads(got.out, parse_constant=reject)["outputs"]["scores"]
    assert scores["values"] == [["NaN"] * 10]
    assert (scores["min"], scores["mean"], scores["top"][0]["value"]) == ("NaN",) * 3
    shown = cli("run", FLOAT, "-i", "const:nan", "--top", 2)
    assert shown.code == 0 and shown.out.count("nan") == 2


def test_values_of_many_dimensions_take_few_lines(cli: Cli, tmp_path: Path) -> None:
    builder = ModelBuilder()
    graph = builder.subgraph("main")
    x = graph.input("x", (2, 3, 4, 5, 6))
    graph.outputs(graph.op("ABS", [x], ("y", (2, 3, 4, 5, 6), "float32")))
    path = tmp_path / "rank5.tflite"
    builder.save(path)
    got = cli("run", path, "--fill", "random")
    assert got.code == 0
    assert len(got.out.splitlines()) < 22 and "…" in got.out


@pytest.mark.parametrize(("repeat", "bars"), [(1, 0), (2, 1)])
def test_one_invoke_has_no_progress(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, repeat: int, bars: int
) -> None:
    tracked: list[object] = []
    track = Progress.track

    def counted(self: Progress, sequence: Any, **options: Any) -> Any:
        tracked.append(sequence)
        return track(self, sequence, **options)

    monkeypatch.setattr(Progress, "track", counted)
    assert cli("run", FLOAT, "--fill", "zeros", "--repeat", repeat).code == 0
    assert len(tracked) == bars


def test_run_takes_another_batch_and_writes_outputs(cli: Cli, image: Path, tmp_path: Path) -> None:
    batch = np.repeat(np.load(image), 3, axis=0)
    np.save(tmp_path / "batch.npy", batch)
    target = tmp_path / "scores.npy"
    got = cli("run", FLOAT, "-i", tmp_path / "batch.npy", "--output", f"scores={target}")
    assert got.code == 0
    scores = np.load(target)
    assert scores.shape == (3, 10)
    np.testing.assert_allclose(scores[0], scores[2], atol=1e-6)


def test_run_fills_inputs_that_are_not_given(cli: Cli) -> None:
    filled = cli("run", FLOAT, "--fill", "random", "--json").json["outputs"]
    assert filled == cli("run", FLOAT, "-i", "image=random", "--json").json["outputs"]


def test_run_quantises_floats_when_asked(cli: Cli, image: Path) -> None:
    refused = cli("run", INT8, "-i", image)
    assert refused.code == 2
    assert "holds float32, the model takes int8; with --quantize" in refused.err
    taken = cli("run", INT8, "-i", image, "--quantize", "--json").json
    plain = cli("run", FLOAT, "-i", image, "--json").json
    real = (np.array(taken["outputs"]["scores"]["values"]) + 128) / 256
    np.testing.assert_allclose(real, plain["outputs"]["scores"]["values"], atol=0.05)


def test_run_reads_images(cli: Cli, image: Path, tmp_path: Path) -> None:
    images = pytest.importorskip("PIL.Image")
    pixels = np.round(np.load(image).reshape(8, 8) * 255).astype(np.uint8)
    # twice as large and in colour: it is made to fit
    picture = images.fromarray(pixels).resize((16, 16), images.Resampling.NEAREST).convert("RGB")
    picture.save(tmp_path / "digit.png")
    from_file = cli("run", FLOAT, "-i", image, "--json").json["outputs"]["scores"]["values"]
    for model in (FLOAT, INT8):
        got = cli("run", model, "-i", tmp_path / "digit.png", "--json", "--top", 1).json
        assert got["outputs"]["scores"]["top"][0]["index"] == int(np.argmax(from_file))


def test_images_without_pillow_say_what_to_install(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.png").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "PIL", None)
    got = cli("run", FLOAT, "-i", tmp_path / "x.png")
    assert got.code == 2
    assert "pip install 'litedelegate[images]'" in got.err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "no source for input 'image'"),
        ((), "or let --fill random, zeros or ones make up all that are not given"),
        (("-i", "text:hello"), "input 'image' is float32; text:… is for strings"),
        (("--shape", "x"), "--shape 'x': 'x' is no shape like"),
        (("-i", "random", "--shape", "1,,8"), "is no shape like"),
        (("-i", "picture=random"), "names no input of the model. It has 'image' (float32"),
        (("-i", "image=random", "-i", "image=zeros"), "given twice"),
        (("-i", "nowhere.npy"), "no such file"),
        (("-i", "random:x"), "'x' is no number"),
        (("-i", "random", "--shape", "a,b"), "is no shape like"),
        (("-i", "random", "--signature", "other"), "no signature 'other'; it has serving_default"),
        (("-i", "random", "--output", "logits=x.npy"), "names no output of the model"),
        (("-i", "random", "--output", "x.txt"), "must end in .npy"),
        (("-i", "random", "--mean", "1,2"), "one for each of three channels"),
        (("-i", "random", "--threads", "0"), "--threads"),
    ],
)
def test_wrong_usage_is_one_sentence_and_2(cli: Cli, arguments: tuple[str, ...], text: str) -> None:
    got = cli("run", FLOAT, *arguments)
    assert got.code == 2
    assert got.out == ""
    assert text in got.err
    assert "Traceback" not in got.err


def test_a_model_that_cannot_run_ends_with_1(cli: Cli) -> None:
    got = cli("run", FLOAT, "-i", "random", "--shape", "1,7,0,1", "--json")
    assert got.code == 1
    assert got.out == "" and got.err.startswith("error: ")


@pytest.mark.parametrize("command", ["run", "inspect", "benchmark"])
def test_no_model_ends_with_3(cli: Cli, tmp_path: Path, command: str) -> None:
    path = tmp_path / "broken.tflite"
    path.write_bytes(FLOAT.read_bytes()[:1000])
    got = cli(command, path)
    assert (got.code, got.out) == (3, "")
    assert got.err.startswith("error: ") and "Traceback" not in got.err


def no_subgraph(builder: ModelBuilder) -> None:
    builder.values["subgraphs"] = []


def other_version(builder: ModelBuilder) -> None:
    builder.values["version"] = 2


@pytest.mark.parametrize("command", ["run", "inspect", "benchmark", "coverage"])
@pytest.mark.parametrize(
    ("damage", "text"),
    [(no_subgraph, "No subgraph in the model."), (other_version, "is schema version 2 not equal")],
)
def test_a_well_formed_file_that_is_no_model_ends_with_3(
    cli: Cli, tmp_path: Path, command: str, damage: Callable[[ModelBuilder], None], text: str
) -> None:
    builder = ModelBuilder()
    graph = builder.subgraph("main")
    graph.outputs(graph.op("ABS", [graph.input("x", (1,))], ("out", (1,), "float32")))
    damage(builder)
    path = tmp_path / "useless.tflite"
    builder.save(path)
    got = cli(command, path)
    assert got.code == 3 and text in got.err
    assert bool(got.out) is (command == "inspect")  # shows what is there
    if command == "inspect":
        assert text in cli(command, path, "--json").json["problem"]


@pytest.mark.parametrize("command", ["run", "benchmark"])
def test_unknown_ops_end_with_4(cli: Cli, unknown_op: Path, command: str) -> None:
    got = cli(command, unknown_op, "-i", "x=random")
    assert (got.code, got.out) == (4, "")
    assert "Encountered unresolved custom op: Mystery." in got.err


def test_a_missing_file_ends_with_2(cli: Cli, tmp_path: Path) -> None:
    assert cli("inspect", tmp_path / "none.tflite").code == 2


# -- devices


def test_devices_that_are_here_and_what_is_missing(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = device("opencl-intel").device
    monkeypatch.setattr(opencl_find, "devices", lambda: [known, known])
    tried = iter([True, False])

    def opened(one: Any) -> Any:
        if next(tried):
            raise Unavailable("unknown target CPU")
        return device("opencl-intel")

    monkeypatch.setattr(devices_command, "OpenCLDevice", opened)
    monkeypatch.setitem(sys.modules, "cupy", None)
    found = cli("devices", "--json").json
    assert [(d["delegate"], d["number"], d["kind"]) for d in found["devices"]] == [
        ("opencl", 0, ""),
        ("opencl", 1, "cpu"),
    ]
    assert [d["problem"] for d in found["devices"]] == ["unknown target CPU", ""]
    assert found["devices"][0]["name"] == known.name.strip()
    assert [d["note"] for d in found["devices"]] == ["", "taken by default"]
    assert list(found["missing"]) == ["cuda"] and "pip install" in found["missing"]["cuda"]
    tried = iter([True, False])
    got = cli("devices")
    assert got.code == 0 and "unknown target CPU" in got.out and "cuda: the CUDA" in got.out


# -- benchmark


def test_benchmark_measures_each_phase(cli: Cli) -> None:
    got = cli("benchmark", FLOAT, "--runs", 5, "--warmup", 1, "--threads", 1, "--profile", "--json")
    assert got.code == 0 and got.err == ""
    result = got.json
    assert result["threads"] == 1
    steady = result["steady_seconds"]
    assert steady["runs"] == 5
    assert 0 < steady["min"] <= steady["median"] <= steady["p90"] <= steady["max"]
    assert min(result[f"{phase}_seconds"] for phase in ("load", "allocate", "first")) > 0
    operators = {o["op"]: o for o in result["profile"]["operators"]}
    assert operators["CONV_2D"]["calls"] == 2
    assert sum(o["share"] for o in operators.values()) == pytest.approx(1)
    assert len(result["profile"]["nodes"]) <= 7
    assert result["memory_bytes"]["arena"] > 0


def test_benchmark_prints_a_table_and_writes_a_trace(cli: Cli, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    got = cli("benchmark", FLOAT, "--runs", 3, "--shape", "4,8,8,1", "--profile", "--trace", trace)
    assert got.code == 0
    for text in ("threads", "load", "allocate", "first run", "median", "p90", "CONV_2D", "share"):
        assert text in got.out
    events = json.loads(trace.read_text())["traceEvents"]
    assert {"CONV_2D", "SOFTMAX"} <= {e["name"] for e in events}
    assert all(e["ph"] == "X" and e["dur"] >= 0 for e in events)
