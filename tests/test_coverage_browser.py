"""The coverage report's page in a real browser: drawn, pointed at, filtered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser as browsers
import pytest
from browser import Browser
from test_coverage import add_and_square, model

from litedelegate import Interpreter
from litedelegate.delegates.gpu.dry_delegate import DryDelegate
from litedelegate.runtime.coverage import colour

# where node i lies in the window, once it is scrolled to
AT = """(i => { document.getElementById("graph").scrollIntoView({block: "center"});
const r = canvas.getBoundingClientRect(), n = nodes[i];
return [r.left + view.x + (n.x + 120) * view.k, r.top + view.y + (n.y + 5) * view.k]; })(%d)"""
# what is drawn in node i, beside its label
PIXEL = """(i => { const n = nodes[i], d = window.devicePixelRatio || 1;
return [...pen.getImageData(Math.round((view.x + (n.x + 120) * view.k) * d),
Math.round((view.y + (n.y + 5) * view.k) * d), 1, 1).data]; })(%d)"""
TIP = """[tip.style.display, tip.textContent]"""
COUNT = "document.getElementById('count').textContent"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = browsers.find()
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(browsers.NAMES)} is on PATH")
    made = Browser(program, tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Browser:
    """Nodes: folded ADD, ADD and MUL in partition 0, NEG on the CPU, ADD in partition 1."""
    path = tmp_path / "coverage.html"
    with Interpreter(model_content=model(), delegates=[add_and_square()]) as interpreter:
        path.write_text(interpreter.delegate_coverage().to_html(), encoding="utf-8")
    browser.open(path)
    browser.settle()
    assert browser.errors == [] and browser.asked == [path.as_uri()]
    return browser


def rgba(text: str) -> list[int]:
    return [*(int(text[i : i + 2], 16) for i in (1, 3, 5)), 255]


def rows(page: Browser) -> list[list[str]]:
    found: list[list[str]] = page.value(
        "[...document.querySelectorAll('#nodes tbody tr')].map("
        "r => [...r.cells].map(c => c.textContent))"
    )
    return found


def type_filter(page: Browser, text: str) -> None:
    page.value("element('filter').value = ''; element('filter').focus()")
    page.call("Input.insertText", text=text)
    page.settle()


def test_boxes_have_the_colours_of_their_partitions(page: Browser) -> None:
    want = [colour(k, p) for k, p in ((None, "folded"), (0, ""), (0, ""), (None, "cpu"), (1, ""))]
    assert len(set(want)) == 4
    assert [page.value(PIXEL % i) for i in range(5)] == [rgba(w) for w in want]
    assert page.screenshot().startswith(b"\x89PNG")


def test_pointing_at_a_node_shows_why(page: Browser) -> None:
    assert page.value(TIP)[0] in ("", "none")
    x, y = page.value(AT % 3)
    page.mouse("mouseMoved", x, y)
    shown, text = page.value(TIP)
    assert shown == "block"
    assert text.splitlines() == [
        "3 NEG: cpu",
        "makes n",
        "6 operations, 48 bytes",
        "fake: OP: got NEG; takes ADD, MUL",
    ]
    x, y = page.value(AT % 1)
    page.mouse("mouseMoved", x, y)
    assert page.value(TIP)[1].splitlines()[:2] == ["1 ADD: fake partition=0", "makes <a> & 'b'"]
    page.mouse("mouseMoved", 2, 2)
    assert page.value(TIP)[0] == "none"


def test_the_filter(page: Browser) -> None:
    assert page.value(COUNT) == "5 nodes"
    type_filter(page, "FAKE  add")  # NEG is on the CPU, but its reason speaks of fake and ADD
    assert page.value(COUNT) == "3 nodes"
    assert [r[0] for r in rows(page)] == ["1", "3", "4"]
    # the others are drawn faint
    faint, bright = page.value(PIXEL % 2), page.value(PIXEL % 1)
    assert bright == rgba(colour(0, "fake")) and faint[3] < 40
    type_filter(page, "#4")
    assert [r[1] for r in rows(page)] == ["ADD"] and page.value(COUNT) == "1 node"
    type_filter(page, "no such thing")
    assert page.value(COUNT) == "0 nodes" and rows(page) == []
    type_filter(page, " ")
    assert page.value(COUNT) == "5 nodes"
    assert rows(page)[1] == ["1", "ADD", "<a> & 'b'", "fake partition=0", "6", ""]


def test_the_legend_filters(page: Browser) -> None:
    x, y = page.middle("document.querySelectorAll('#legend button')[1]")
    page.click(x, y)
    assert page.value(COUNT) == "1 node" and rows(page)[0][0] == "4"
    assert page.value("element('filter').value") == "fake partition=1"


def test_it_moves_and_zooms(page: Browser) -> None:
    x, y = page.value(AT % 2)
    before = page.value("[view.k, view.x, view.y]")
    page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-200)
    k, *_ = page.value("[view.k, view.x, view.y]")
    assert k == pytest.approx(before[0] * 2.718281828**0.5)
    found = page.value(AT % 2)  # what lies under the pointer stays there
    assert found == pytest.approx([x, y], abs=1)
    page.mouse("mousePressed", x, y, button="left", clickCount=1)
    page.mouse("mouseMoved", x + 30, y + 20, button="left", buttons=1)
    page.mouse("mouseReleased", x + 30, y + 20, button="left", clickCount=1)
    assert page.value(AT % 2) == pytest.approx([x + 30, y + 20], abs=1)
    page.click(*page.middle("document.getElementById('all')"))
    assert page.value("[view.k, view.x, view.y]") == pytest.approx(before)
    page.click(*page.middle("document.querySelector('#nodes tbody tr:nth-child(4)')"))
    assert page.value("pointed.op") == "NEG"


def test_a_graph_of_six_thousand_nodes(browser: Browser, models: Path, tmp_path: Path) -> None:
    """Drawn in one go, its list in pieces; redrawn while it is moved."""
    delegate = DryDelegate("opencl", "opencl-gpu")
    with Interpreter(models / "visqol_lattice_6092_ops.tflite", delegates=[delegate]) as it:
        text = it.delegate_coverage().to_html()
    assert len(text) < 1_500_000
    path = tmp_path / "large.html"
    path.write_text(text, encoding="utf-8")
    browser.open(path)
    browser.settle()
    assert browser.errors == [] and browser.value(COUNT) == "6,092 nodes"
    assert browser.value("frame.dataset.drawn") == "yes"
    assert len(rows(browser)) == 200
    browser.click(*browser.middle("document.getElementById('more')"))
    assert len(rows(browser)) == 1200
    times: Any = browser.value(
        "[0, 0, 0].map(() => { const t = performance.now(); draw(); return performance.now() - t })"
    )
    assert min(times) < 1000  # milliseconds; about 20 on an idle machine
    type_filter(browser, "CONCATENATION")
    assert browser.value(COUNT) == "87 nodes"
