"""What all tests share: where collections of models lie, and settings that keep runs alike."""

from __future__ import annotations

import os
from pathlib import Path

# Before numpy comes in: with a test process on each core, BLAS threads only get in the way.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# What a test asks a delegate to take, it takes, whether it pays or not.
os.environ.setdefault("LITEDELEGATE_COSTS", "none")

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"

settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("default")


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of real models, which is not part of the repository."""
    folder = SHARED / "models"
    if not folder.is_dir():
        pytest.skip(f"no models: {folder} is not there")
    return folder
