"""Device kernels under Oclgrind: some of the case tables; `make oclgrind` does all."""

from __future__ import annotations

import pytest
from oclgrind_check import PLANTED, SHAPES, check, missing

reason = missing()
pytestmark = pytest.mark.skipif(reason is not None, reason=reason or "")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("family", ["softmax", "comparison", "space"])
def test_nothing_is_found(shape: str, family: str) -> None:
    found = check(shape, family)
    assert found.kernels and not found.findings and not found.errors


def test_bugs_are_found() -> None:
    texts = " ".join(text for text, _ in check("gpu", PLANTED).findings)
    assert "Invalid write of size 4 at global memory address" in texts
    assert "Read-write data race at global memory address" in texts
    assert "ninitialized" in texts
