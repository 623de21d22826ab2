"""What is taken in one release is taken in the next, or somebody has looked at the difference."""

from __future__ import annotations

import pytest
from golden_coverage import DEVICES, MODELS, path, text


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MODELS)
def test_the_report_is_as_it_was(name: str, device: str) -> None:
    if not (MODELS[name] / f"{name}.tflite").exists():
        pytest.skip(f"no model: {MODELS[name] / name}.tflite is not there")
    known = path(name, device).read_text("utf-8")
    assert text(name, device) == known, "python tests/golden_coverage.py --write takes it over"
