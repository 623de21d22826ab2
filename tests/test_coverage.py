"""The coverage report: as objects, JSON, a page and on the command line."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_delegates import Fake
from test_delegates import ones, zigzag

from litedelegate import Delegate, Interpreter, ModelBuilder, NodeSpec, TensorSpec
from litedelegate.cli import main
from litedelegate.kernels.api import Options
from litedelegate.kernels.types import DType
from litedelegate.runtime.cost import PROFILES, CostProfile, estimate
from litedelegate.runtime.coverage import Coverage
from litedelegate.runtime.coverage_html import layout

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
    assert report.partitions[0].kernels == ["ADD+MUL"]
    cost = report.partitions[0].cost
    assert cost.host == pytest.approx(2 * 8e-6 + (52 + 72) / 6e9)  # by the fixed numpy profile
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
    found = json.loads(report.to_model_explorer())
    results = found["main"]["results"]
    assert results["m"]["value"] == "fake"
    assert results["n"]["value"] == "cpu (fake: OP: got NEG; takes ADD, MUL)"
    assert results["m"]["bgColor"] == results["<a> & 'b'"]["bgColor"] != results["y"]["bgColor"]


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
        if tag not in ("path", "rect"):
            assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass


def test_the_page_stands_alone_and_draws_the_graph(report: Coverage) -> None:
    text = report.to_html()
    page = Page(text)
    assert page.open == [] and page.outside == []
    assert "<a>" not in text and "&lt;a&gt; &amp; &#x27;b&#x27;" in text
    svg = ElementTree.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])
    space = "{http://www.w3.org/2000/svg}"
    titles = [e.text or "" for e in svg.iter(f"{space}title")]
    assert [t.splitlines()[0] for t in titles] == [
        "0 ADD: folded", "1 ADD: fake", "2 MUL: fake", "3 NEG: cpu", "4 ADD: fake"
    ]  # fmt: skip
    assert "fake: OP: got NEG; takes ADD, MUL" in titles[3]
    fills = [e.attrib["fill"] for e in svg.iter(f"{space}rect")]
    assert fills[1] == fills[2] and len(set(fills)) == 4
    assert len(list(svg.iter(f"{space}path"))) == 5


def test_the_page_in_a_browser(report: Coverage, tmp_path: Path) -> None:
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next((b for b in map(shutil.which, names) if b), None)
    if browser is None:
        pytest.skip(f"none of {', '.join(names)} on PATH")
    path = tmp_path / "coverage.html"
    path.write_text(report.to_html(), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    shown = subprocess.run([browser, *flags, path.as_uri()], capture_output=True, text=True)
    assert '<span id="count">5 nodes</span>' in shown.stdout  # the script has run


DOCUMENT = """
const found = JSON.parse(process.argv[2]);
const rows = found.map(text => ({
  dataset: {find: text}, tagName: "TR", off: null,
  classList: {toggle(name, on) { this.owner.off = on; }},
}));
for (const r of rows) r.classList.owner = r;
const parts = {filter: {value: "", addEventListener(_, f) { this.change = f; }}, count: {}};
globalThis.document = {getElementById: id => parts[id], querySelectorAll: () => rows};
"""


def test_the_filter(report: Coverage, tmp_path: Path) -> None:
    """Its script, with as much of a browser as it needs."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on PATH")
    text = report.to_html()
    rows = [unescape(r) for r in re.findall(r'<tr data-find="([^"]*)"', text)]
    script = text[text.index("<script>") + 8 : text.index("</script>")]
    check = """
parts.filter.value = "FAKE  add";
parts.filter.change();
console.log(JSON.stringify([parts.count.textContent, rows.map(r => r.off)]));
"""
    path = tmp_path / "page.js"
    path.write_text(DOCUMENT + script + check, encoding="utf-8")
    done = subprocess.run(
        [node, path, json.dumps(rows)], capture_output=True, text=True, check=True
    )
    # NEG is on the CPU, but its reason speaks of fake and ADD
    assert json.loads(done.stdout) == ["3 nodes", [True, False, True, False, False]]


def test_boxes_do_not_overlap() -> None:
    rng = np.random.default_rng(0)
    edges = [(int(rng.integers(0, b)), b) for b in range(1, 200) for _ in range(2)]
    places = layout(200, edges)
    rows: dict[float, list[float]] = {}
    for x, y in places:
        rows.setdefault(y, []).append(x)
    assert all(places[b][1] > places[a][1] for a, b in edges)
    for xs in rows.values():
        assert all(b - a >= 140 for a, b in zip(sorted(xs), sorted(xs)[1:], strict=False))


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


def test_json_and_nothing_else(capsys: pytest.CaptureFixture[str], path: Path) -> None:
    code, out, _ = call(capsys, path, "-d", FAKE, "--json")
    assert code == 0 and set(json.loads(out)) == {"nodes", "partitions", "totals"}
    _, out, _ = call(capsys, path, "-d", FAKE, "--json", "--what-if", "exclude=NEG,2")
    found = json.loads(out)
    assert found["totals"]["delegated"] == {"fake": 3}
    assert found["what_if"]["totals"]["delegated"] == {"fake": 2}
    code, out, _ = call(capsys, path, "--json")  # auto: whatever is there
    assert code == 0 and json.loads(out)


def test_what_if(capsys: pytest.CaptureFixture[str], path: Path) -> None:
    code, out, _ = call(capsys, path, "-d", FAKE, "--what-if", "exclude=MUL")
    (row,) = (line.split() for line in out.splitlines() if "nodes delegated" in line)
    assert code == 0 and "What if exclude=MUL" in out
    assert " ".join(row) == "nodes delegated 3 of 4 2 of 4"
    assert call(capsys, path, "-d", FAKE, "--what-if", "colour=red")[0] == 2
    assert call(capsys, path, "-d", FAKE, "--exclude", "no such node")[0] == 1


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


def test_shapes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "z.tflite"
    path.write_bytes(zigzag())
    _, out, _ = call(capsys, path, "-d", FAKE, "--json", "--shape", "t0=8,4")
    assert json.loads(out)["partitions"][0]["bytes_in"] == 8 * 4 * 4
