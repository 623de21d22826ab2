"""What all tests share: where collections of models lie, and settings that keep runs alike."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stand-in for CuPy, which the CUDA delegate takes for the real one."""
    import cupy_standin
    from devices import for_standin

    from litedelegate.delegates.cuda import device

    made = cupy_standin.make(for_standin())
    monkeypatch.setattr(device, "library", lambda: made)
    return made


@pytest.fixture
def delegate(cupy: Any, tmp_path: Path) -> Iterator[Any]:
    """A `CUDADelegate` on the stand-in."""
    from litedelegate.delegates.cuda import CUDADelegate

    yield CUDADelegate(cache=tmp_path)
    assert not cupy.machine.entered and cupy.machine.current == 0  # all is as it was


@pytest.fixture(scope="module")
def keys() -> Any:
    """Of a signer and a reader of bundles (`bundles.Keys`)."""
    from bundles import Keys

    return Keys.make()


@pytest.fixture(scope="module")
def packed(keys: Any, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A bundle with a model that takes a while to send."""
    from bundles import make, model

    path = tmp_path_factory.mktemp("made") / "b.ldb"
    make(path, keys, models={"main": model(noise=400_000)})
    return path.read_bytes()
