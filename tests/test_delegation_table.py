"""What is delegated of each real model, and whether its results stay numpy's."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import ROOT, SHARED
from devices import NAMES, device

from litedelegate import Interpreter
from litedelegate.delegates.gpu.dry_delegate import DryDelegate
from litedelegate.delegates.opencl import OpenCLDelegate

MODELS = sorted(p.stem for p in (SHARED / "models").glob("*.tflite"))
FLEX = [name for name in MODELS if name.endswith("_flex")]
# small enough to be built in a few seconds
QUICK = (
    *("kws_dscnn_int8", "lstm_int8", "okay_nabu_streaming_int8", "resnet8_int8"),
    *("sdpa_composite_mha", "toycar_dynamic_range"),
)
FLOATS = 1e-3  # of the largest value of an output, after a whole network


@cache
def tool() -> ModuleType:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import delegation
    finally:
        sys.path.pop(0)
        sys.modules.pop("measure", None)  # a name that others have too
    return delegation


def names(quick: bool) -> list[Any]:
    return [
        pytest.param(name, marks=() if quick or name in QUICK else (pytest.mark.slow,))
        for name in MODELS
        if name not in FLEX
    ]


def test_there_are_models(models: Path) -> None:
    assert len(MODELS) > 30


@pytest.mark.parametrize("profile", ["pocl-cpu", "sm_90"])
@pytest.mark.parametrize("name", names(quick=True))
def test_convolutions_in_one_piece_and_a_reason_for_the_rest(name: str, profile: str) -> None:
    path, delegate = SHARED / "models" / f"{name}.tflite", DryDelegate("opencl", profile)
    row = tool().measure(path, delegate, run=False)
    assert not row.unexplained
    if row.convolutional and not row.partitions:
        delegate.profile = None  # too small for this device to gain; what it could take counts
        row = tool().measure(path, delegate, run=False)
        assert not row.unexplained
    if row.convolutional:
        assert row.share_of_largest >= 0.95, row.reasons


@pytest.mark.parametrize("backend", NAMES)
@pytest.mark.parametrize("name", names(quick=False))
def test_results_are_numpys(name: str, backend: str) -> None:
    path = SHARED / "models" / f"{name}.tflite"
    found = OpenCLDelegate(device(backend).device.platform.name.strip(), costs="none")
    row = tool().measure(path, found)
    if row.difference.steps or row.difference.floats > FLOATS:
        # steps where integers come of floats can grow on the way: then each node is to be right
        with Interpreter(path, delegates=[found], verify=1) as checked, Interpreter(path) as plain:
            tool().compare(path, plain, checked)
            assert not checked.differences, row.difference


def test_the_page_has_the_table(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"a\n{tool().BEGIN}\nold\n{tool().END}\nb\n", "utf-8")
    tool().write(page, "new")
    assert page.read_text("utf-8") == f"a\n{tool().BEGIN}\nnew\n{tool().END}\nb\n"
    text = (ROOT / "docs" / "devices.md").read_text("utf-8")
    assert f"| {tool().HEAD} |" in text.partition(tool().BEGIN)[2].partition(tool().END)[0]
