"""OpenCL on CPUs for tests: PoCL, from Debian or PyOpenCL's wheel, and Intel's runtime from pip."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

import cupy_standin
import pytest

from litedelegate.delegates.cuda.device import CUDADevice
from litedelegate.delegates.gpu.cache import ProgramCache
from litedelegate.delegates.opencl.device import OpenCLDevice
from litedelegate.delegates.opencl.find import devices
from litedelegate.runtime.delegate import Unavailable

NAMES = {"opencl-pocl": "Portable Computing Language", "opencl-intel": "Intel(R) OpenCL"}
_FOLDER = tempfile.TemporaryDirectory(prefix="litedelegate-tests-")


def _programs() -> Path:
    """Built programs: shared by all processes of a test run."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    return Path(tempfile.gettempdir(), f"litedelegate-{run}") if run else Path(_FOLDER.name, "bin")


@cache
def device(backend: str) -> OpenCLDevice:
    """The device of `NAMES`; skips the test, saying why, where it is not there."""
    try:
        found = [d for d in devices() if d.platform.name.strip() == NAMES[backend]]
    except Unavailable as e:
        pytest.skip(str(e))
    faults = [f"no driver {NAMES[backend]!r} is installed (make test installs it)"]
    for candidate in found:  # pip's PoCL does not know every CPU that Debian's knows
        try:
            return OpenCLDevice(candidate, ProgramCache(_programs()))
        except Unavailable as e:
            faults.append(f"{candidate.platform.version.strip()}: {e}")
    pytest.skip("; ".join(faults[bool(found) :]))


def for_standin() -> OpenCLDevice:
    """What the stand-in of CuPy runs kernels on.

    Not PoCL: its compiler ends the process at some kernels with barriers (assertions of
    ParallelRegion.cc).
    """
    return device("opencl-intel")


@cache
def cuda_device(backend: str) -> CUDADevice:
    """ "cuda": a real GPU; "cuda-standin": one of the stand-in for CuPy."""
    if backend == "cuda-standin":
        return CUDADevice(cache=ProgramCache(_programs()), cupy=cupy_standin.make(for_standin()))
    try:
        return CUDADevice(cache=ProgramCache(_programs()))
    except Unavailable as e:
        pytest.skip(str(e))
