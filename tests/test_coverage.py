"""The coverage report: as objects, JSON, a page and on the command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_delegates import Fake
from test_delegates import ones, zigzag

from litedelegate import Delegate, Interpreter, ModelBuilder, NodeSpec, TensorSpec
from litedelegate.cli import main
from litedelegate.delegates.flex import delegate as flex_delegate
from litedelegate.kernels.api import Options
from litedelegate.kernels.types import DType
from litedelegate.runtime.cost import PROFILES, CostProfile, estimate
from litedelegate.runtime.coverage import Coverage
from litedelegate.runtime.coverage_layout import layout, size

FAKE = f"{__name__}:add_and_square"
PROFILE = CostProfile("steady", 1e9, 1e9, 1e-6, 2e-6, 1e-7, 1e9)


def add_and_square() -> Delegate:
    return Fake("ADD", "MUL", profile=PROFILE, host_profile=CostProfile("slow", 1e3, 1e3, 1.0))


def model(name: str = "m") -> bytes:
    """A constant sum, then ADD MUL NEG ADD, with a name that a page must escape."""
    b = ModelBuilder()
    g = b.subgraph("main")
    x, one = g.input("x", (2, 3)), g.constant("one", ones(1))
    two = g.op("ADD", [one, one], ("two", (1,), "float32"))
    a = g.op("ADD", [x, two], ("<a> & 'b'", (2, 3), "float32"))
    m = g.op("MUL", [a, a], ("m", (2, 3), "float32"))
    n = g.op("NEG", [m], ("n", (2, 3), "float32"))
    g.outputs(g.op("ADD", [n, a], ("y", (2, 3), "float32")))
    return b.build()


@pytest.fixture
def report() -> Coverage:
    with Interpreter(model_content=model(), delegates=[add_and_square()]) as interpreter:
        return interpreter.delegate_coverage()


def test_placements_and_totals(report: Coverage) -> None:
    assert [n.placed_on for n in report.nodes] == ["folded", "fake", "fake", "cpu", "fake"]
    assert [n.partition for n in report.nodes] == [None, 0, 0, None, 1]
    t = report.totals
    assert (t.nodes, t.folded, t.cpu, t.delegated) == (5, 1, 1, {"fake": 3})
    assert (t.share_of_nodes, t.share_of_work, t.partitions) == (0.75, 0.75, 2)
    # in: x, then n; out: m for NEG, then y. <a> goes from one partition to the other.
    assert [(p.bytes_in, p.bytes_out) for p in report.partitions] == [(24, 24), (24, 24)]
    assert t.by_op["ADD"].__dict__ == {"nodes": 3, "delegated": 2, "folded": 1, "cpu": 0}
    assert t.delegates == {"fake": {"device": "none"}}
    assert report.partitions[0].kernels == ["ADD+MUL"]
    cost = report.partitions[0].cost
    assert cost.host == pytest.approx(2 * 1.0 + (52 + 72) / 1e3)  # by the delegate's own profile
    assert cost.device == pytest.approx(2e-6 + 2 * 1e-6 + (52 + 72) / 1e9)
    assert cost.transfer == pytest.approx(2 * (1e-7 + 24 / 1e9))
    assert "3 of 4 delegated in 2 partitions, 75.0% of the estimated work" in str(report)


def test_json_has_these_keys(report: Coverage) -> None:
    found = json.loads(report.to_json())
    assert list(found) == ["nodes", "partitions", "totals"]
    for node in found["nodes"]:
        assert set(node) == {
            *("index", "op", "name", "subgraph", "placed_on", "partition", "refusals", "cost")
        }
        assert all(set(r) == {"delegate", "code", "text"} for r in node["refusals"])
    for partition in found["partitions"]:
        assert set(partition) == {
            *("delegate", "nodes", "inputs", "outputs", "bytes_in", "bytes_out", "kernels", "cost")
        }
    assert found["nodes"][3]["refusals"] == [
        {"delegate": "fake", "code": "OP", "text": "got NEG; takes ADD, MUL"}
    ]


def test_model_explorer_form(report: Coverage) -> None:
    """By its published schema: graphs by name, `results` by output tensor or node number."""
    found = json.loads(report.to_model_explorer())
    assert list(found) == ["main"] and list(found["main"]) == ["results"]
    results = found["main"]["results"]
    for result in results.values():
        assert set(result) == {"value", "bgColor"}
        assert re.fullmatch("#[0-9a-f]{6}", result["bgColor"])
    assert results["m"]["value"] == "fake"
    assert results["n"]["value"] == "cpu (fake: OP: got NEG; takes ADD, MUL)"
    assert results["m"]["bgColor"] == results["<a> & 'b'"]["bgColor"] != results["y"]["bgColor"]


def test_model_explorer_names_what_has_no_name_of_its_own() -> None:
    b = ModelBuilder()
    for names in (("a", "a"), ("7", "")):
        g = b.subgraph("")
        x = g.input("x", (1,))
        for name in names:
            x = g.op("NEG", [x], (name, (1,), "float32"))
        g.outputs(x)
    with Interpreter(model_content=b.build(), delegates=[Fake("NEG")]) as interpreter:
        found = json.loads(interpreter.delegate_coverage().to_model_explorer())
    assert {k: list(v["results"]) for k, v in found.items()} == {
        "main": ["0", "1"],
        "subgraph_1": ["0", "1"],
    }


class Page(HTMLParser):
    """Which tags are open, and whether all are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.outside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.outside += [v for k, v in attrs if k in ("src", "href") and v]
        if tag not in ("meta", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_stands_alone(report: Coverage) -> None:
    """What it does is in test_coverage_browser.py."""
    text = report.to_html("<m>")
    page = Page(text)
    assert page.open == [] and page.outside == []
    assert "<title>&lt;m&gt;</title>" in text and "<m>" not in text
    data = json.loads(text.partition('type="application/json">')[2].partition("</script>")[0])
    assert [n[:5] for n in data["nodes"]] == [
        [0, "ADD", "two", 0, "folded"],
        [1, "ADD", "<a> & 'b'", 0, "fake"],
        [2, "MUL", "m", 0, "fake"],
        [3, "NEG", "n", 0, "cpu"],
        [4, "ADD", "y", 0, "fake"],
    ]
    assert data["reasons"] == ["fake: OP: got NEG; takes ADD, MUL"]
    assert data["edges"] == [[0, 1], [1, 2], [2, 3], [1, 4], [3, 4]]
    assert [k["text"] for k in data["kinds"]] == [
        "fake partition=0", "fake partition=1", "cpu", "folded"
    ]  # fmt: skip


def test_names_cannot_end_the_pages_script() -> None:
    b = ModelBuilder()
    g = b.subgraph("</script><script>alert(1)")
    x = g.input("x", (1,))
    g.outputs(g.op("NEG", [x], ("</script><b>", (1,), "float32")))
    with Interpreter(model_content=b.build(), delegates=[Fake("ADD")]) as interpreter:
        text = interpreter.delegate_coverage().to_html()
    assert text.count("</script>") == 2 and "</script><b>" not in text and Page(text).open == []


def overlap(places: list[Any]) -> bool:
    rows: dict[float, list[float]] = {}
    for x, y in places:
        rows.setdefault(y, []).append(x)
    return any(b - a < 140 for xs in rows.values() for a, b in pairwise(sorted(xs)))


def test_boxes_do_not_overlap() -> None:
    rng = np.random.default_rng(0)
    edges = [(int(rng.integers(0, b)), b) for b in range(1, 200) for _ in range(2)]
    assert not overlap(layout(200, edges))


def test_a_long_chain_and_a_wide_layer_are_wrapped() -> None:
    for edges in ([(i, i + 1) for i in range(999)], [(0, i) for i in range(1, 1000)]):
        places = layout(1000, edges)
        assert not overlap(places)
        width, height = size(places)
        assert 0.5 < width / height < 5
    assert layout(0, []) == [] and layout(1, []) == [(0, 0)]


def test_constants_stand_above_their_readers() -> None:
    places = layout(6, [(0, 1), (1, 2), (2, 3), (3, 5), (4, 5)])
    assert places[4][1] == places[3][1]


# -- cost


def spec(*shape: int) -> TensorSpec:
    return TensorSpec(shape, DType.FLOAT32)


@pytest.mark.parametrize(
    ("op", "inputs", "output", "operations"),
    [
        ("CONV_2D", [spec(1, 8, 8, 3), spec(6, 3, 3, 3), spec(6)], spec(1, 8, 8, 6), 2 * 384 * 27),
        ("DEPTHWISE_CONV_2D", [spec(1, 8, 8, 4), spec(1, 3, 3, 4)], spec(1, 8, 8, 4), 2 * 256 * 9),
        ("FULLY_CONNECTED", [spec(2, 5), spec(7, 5)], spec(2, 7), 2 * 14 * 5),
        ("TRANSPOSE_CONV", [spec(4), spec(6, 2, 2, 3), spec(1, 4, 4, 3)], spec(1, 8, 8, 6), 2304),
        ("RESHAPE", [spec(2, 3), spec(1)], spec(6), 0),
        ("ADD", [spec(2, 3), spec(1)], spec(2, 3), 6),
        ("SUM", [spec(2, 3), spec(1)], spec(), 6),
        ("LSTM", [spec(2, 4), spec(8, 4), None, spec(8, 8)], spec(2, 8), 2 * 2 * 96),
        ("CONV_2D", [spec(1, 8, 8, 3)], spec(1, 8, 8, 2), 192),  # broken: as elementwise
        ("Own", [spec(3)], spec(3), 3),
    ],
)  # fmt: skip
def test_work_by_family(op: str, inputs: Any, output: TensorSpec, operations: int) -> None:
    cost = estimate(NodeSpec(op, inputs, [output], Options(adj_x=False)))
    assert cost.operations == operations
    assert cost.bytes == 4 * (output.size + sum(t.size for t in inputs if t is not None))


def test_named_profiles() -> None:
    assert set(PROFILES) == {"numpy", "opencl-cpu", "gpu"}
    assert all(p.name == name for name, p in PROFILES.items())


# -- the command line


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "m.tflite"
    path.write_bytes(model())
    return path


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["coverage", *map(str, arguments)], prog_name="litedelegate")
    captured = capsys.readouterr()
    assert isinstance(end.value.code, int)
    return end.value.code, captured.out, captured.err


def test_text(capsys: pytest.CaptureFixture[str], path: Path) -> None:
    code, out, err = call(capsys, path, "-d", FAKE, "--nodes")
    assert (code, err) == (0, "")
    assert "3 of 4 delegated in 2 partitions" in out and "got NEG; takes ADD, MUL" in out
    assert "device: none" in out


def test_json_and_nothing_else(capsys: pytest.CaptureFixture[str], path: Path) -> None:
    code, out, _ = call(capsys, path, "-d", FAKE, "--json")
    assert code == 0 and set(json.loads(out)) == {"nodes", "partitions", "totals"}
    _, out, _ = call(capsys, path, "-d", FAKE, "--json", "--what-if", "exclude=NEG,2")
    found = json.loads(out)
    assert found["totals"]["delegated"] == {"fake": 3}
    assert found["what_if"]["totals"]["delegated"] == {"fake": 2}
    code, out, _ = call(capsys, path, "--json")  # auto: whatever is there
    assert code == 0 and json.loads(out)


def test_a_page_shows_one_report(capsys: pytest.CaptureFixture[str], path: Path) -> None:
    code, _, err = call(capsys, path, "-d", FAKE, "--html", "--what-if", "exclude=MUL")
    assert code == 2 and "--what-if has two reports, which --html cannot show" in err


@pytest.mark.parametrize("form", ["--text", "--json", "--html"])
def test_a_file_that_cannot_be_written(
    capsys: pytest.CaptureFixture[str], path: Path, form: str
) -> None:
    wanted = path.parent / "nowhere" / "report"
    code, out, err = call(capsys, path, "-d", FAKE, form, "-o", wanted)
    assert (code, out) == (1, "")
    assert f"{wanted} cannot be written: No such file or directory" in " ".join(err.split())


def test_what_if(capsys: pytest.CaptureFixture[str], path: Path) -> None:
    code, out, _ = call(capsys, path, "-d", FAKE, "--what-if", "exclude=MUL")
    (row,) = (line.split() for line in out.splitlines() if "nodes delegated" in line)
    assert code == 0 and "What if exclude=MUL" in out
    assert " ".join(row) == "nodes delegated 3 of 4 2 of 4"
    assert call(capsys, path, "-d", FAKE, "--what-if", "colour=red")[0] == 2
    code, _, err = call(capsys, path, "-d", FAKE, "--exclude", "no such node")
    assert code == 2 and "'no such node' is no node's number" in " ".join(err.split())


def test_strict_is_an_exit_code(capsys: pytest.CaptureFixture[str], path: Path) -> None:
    code, out, err = call(capsys, path, "-d", FAKE, "--strict", "--json")
    assert code == 5 and json.loads(out) and "1 node left on the CPU: 3 (NEG)" in err
    assert call(capsys, path, "-d", FAKE, "--strict", "--exclude", "NEG")[0] == 0


def test_pages_and_files(capsys: pytest.CaptureFixture[str], path: Path, tmp_path: Path) -> None:
    target = tmp_path / "c.html"
    assert call(capsys, path, "-d", FAKE, "--html", "-o", target) == (0, "", "")
    assert target.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    _, out, _ = call(capsys, path, "-d", FAKE, "--model-explorer")
    assert "main" in json.loads(out)
    assert call(capsys, path, "-d", FAKE, "-o", target) == (0, "", "")
    assert "3 of 4 delegated" in target.read_text(encoding="utf-8")


def test_a_dry_run(capsys: pytest.CaptureFixture[str], path: Path) -> None:
    code, out, _ = call(capsys, path, "--device", "sm_90", "--json")
    found = json.loads(out)
    assert code == 0 and found["totals"]["cpu"] == 4  # so little does not pay on a GPU
    assert {r["code"] for n in found["nodes"] for r in n["refusals"]} == {"POLICY"}
    assert {r["delegate"] for n in found["nodes"] for r in n["refusals"]} == {"cuda"}
    both = ("-d", "opencl", "-d", "cuda", "--device", "intel-cpu", "--device", "sm_75")
    _, out, _ = call(capsys, path, *both, "--json")
    assert {r["delegate"] for r in json.loads(out)["nodes"][1]["refusals"]} == {"opencl", "cuda"}
    code, _, err = call(capsys, path, "-d", "opencl", "--device", "sm_75", "--device", "sm_80")
    assert code == 2 and "1 delegates and 2 devices" in err
    code, _, err = call(capsys, path, "-d", FAKE, "--device", "sm_75")
    assert code == 2 and "knows the delegates cuda, opencl" in err
    code, _, err = call(capsys, path, "--device", "sm_1")
    assert code == 2 and "sm_90" in err and "pocl-cpu" in err


def test_a_dry_run_of_a_network(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    path = root / "examples" / "models" / "digits_int8.tflite"
    code, out, _ = call(capsys, path, "--device", "pocl-cpu", "--strict", "--json")
    found = json.loads(out)
    (partition,) = found["partitions"]
    assert code == 0 and partition["delegate"] == "opencl" and partition["kernels"]
    assert partition["cost"]["device"] > 0
    assert partition["cost"]["transfer"] == 0  # CPUs share the memory
    _, again, _ = call(capsys, path, "--device", "pocl-cpu", "--strict", "--json")
    assert again == out


def test_shapes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "z.tflite"
    path.write_bytes(zigzag())
    _, out, _ = call(capsys, path, "-d", FAKE, "--json", "--shape", "t0=8,4")
    assert json.loads(out)["partitions"][0]["bytes_in"] == 8 * 4 * 4


def test_operators_that_are_not_known_are_reported_all_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the shapes that the file declares; the exit code says that the model does not run."""
    monkeypatch.setattr(flex_delegate, "is_installed", lambda: False)
    b = ModelBuilder()
    g = b.subgraph("main")
    y = g.op("ADD", [x := g.input("x", (2, 3)), x], ("a", (2, 3), "float32"))
    y = g.custom("FlexNovel", [y], ("b", (2, 3), "float32"), options=b"")
    y = g.custom("Mystery", [y], ("c", (2, 3), "float32"), options=b"")
    g.outputs(g.op("MUL", [y, y], ("y", (2, 3), "float32")))
    path = tmp_path / "unknown.tflite"
    path.write_bytes(b.build())
    code, out, err = call(capsys, path, "-d", FAKE, "--json")
    assert code == 4 and "2 unresolved in all" in err and "as the file declares them" in err
    found = json.loads(out)
    assert [n["placed_on"] for n in found["nodes"]] == ["fake", "cpu", "cpu", "fake"]
    refusals = {(n["op"], r["delegate"]): r for n in found["nodes"] for r in n["refusals"]}
    flex = refusals["FlexNovel", "flex"]
    assert flex["code"] == "UNAVAILABLE" and "TensorFlow is not installed" in flex["text"]
    mystery = refusals["Mystery", "custom_ops"]
    assert mystery["code"] == "UNAVAILABLE" and "custom_ops={name:" in mystery["text"]
    assert refusals["Mystery", "fake"]["code"] == "OP"
    code, out, _ = call(capsys, path, "-d", FAKE, "--strict", "--nodes")
    assert code == 4 and "2 on fake" in out


# -- against Model Explorer's own reader


CONVERT = """
import sys
import ai_edge_model_explorer_adapter as adapter
print(adapter.ConvertFlatbufferDirectlyToJson(adapter.VisualizeConfig(), sys.argv[1]))
"""


@pytest.mark.parametrize("name", ["lyra_quantizer_two_signatures", "resnet8_int8"])
def test_model_explorer_finds_all_nodes(models: Path, name: str) -> None:
    reason = "pip install ai-edge-model-explorer-adapter (the extra explorer)"
    pytest.importorskip("ai_edge_model_explorer_adapter", reason=reason)
    path = models / f"{name}.tflite"
    done = subprocess.run(
        [sys.executable, "-c", CONVERT, path], capture_output=True, text=True, check=True
    )
    with Interpreter(path, delegates=[Fake("ADD")]) as interpreter:
        ours = json.loads(interpreter.delegate_coverage().to_model_explorer())
        counts = [len(interpreter.get_node_details(i)) for i in range(interpreter.num_subgraphs())]
    (collection,) = json.loads(done.stdout)
    graphs = collection["subgraphs"]
    assert list(ours) == [graph["id"] for graph in graphs]
    for graph, count in zip(graphs, counts, strict=True):
        found = set()
        for node in graph["nodes"]:
            tensors = [
                a["value"]
                for output in node["outputsMetadata"]
                for a in output["attrs"]
                if a["key"] == "tensor_name"
            ]
            found |= {node["id"], *tensors}
        results = ours[graph["id"]]["results"]
        assert len(results) == count and set(results) <= found
