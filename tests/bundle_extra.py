"""Skips the test module that imports this where the extra `bundle` is not installed."""

from __future__ import annotations

import pytest

WHY = "the extra 'bundle' is not installed"
pytest.importorskip("cryptography", reason=WHY)
zstandard = pytest.importorskip("zstandard", reason=WHY)
