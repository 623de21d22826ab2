"""OpenCL on CPUs for tests: PoCL, from Debian or PyOpenCL's wheel, and Intel's runtime from pip.

Import before anything imports pyopencl: the loader reads its environment once.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

from litedelegate.delegates.gpu.cache import ProgramCache
from litedelegate.delegates.opencl.device import OpenCLDevice
from litedelegate.delegates.opencl.find import devices
from litedelegate.runtime.delegate import Unavailable

NAMES = {"opencl-pocl": "Portable Computing Language", "opencl-intel": "Intel(R) OpenCL"}
# what libintelocl.so needs of its own folder, which is on no search path, in this order
_LIBRARIES = ("libintlc.so.5", "libirng.so", "libimf.so", "libsvml.so")
_FOLDER = tempfile.TemporaryDirectory(prefix="litedelegate-tests-")


@cache
def prepare_loader() -> None:
    """Makes the loader see Intel's runtime, where it is installed with pip, beside PoCL."""
    lib = Path(sys.prefix, "lib")
    driver = lib / "libintelocl.so"
    if not driver.exists() or "OCL_ICD_VENDORS" in os.environ or "pyopencl" in sys.modules:
        return
    for name in _LIBRARIES:
        if (lib / name).exists():
            ctypes.CDLL(str(lib / name), ctypes.RTLD_GLOBAL)
    icd = Path(_FOLDER.name, "icd")
    icd.mkdir()
    (icd / "intel.icd").write_text(f"{driver}\n")
    for other in Path("/etc/OpenCL/vendors").glob("*.icd"):
        (icd / other.name).write_text(other.read_text())
    os.environ["OCL_ICD_VENDORS"] = str(icd)


def _programs() -> Path:
    """Built programs: shared by all processes of a test run."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    return Path(tempfile.gettempdir(), f"litedelegate-{run}") if run else Path(_FOLDER.name, "bin")


@cache
def device(backend: str) -> OpenCLDevice:
    """The device of `NAMES`; skips the test, saying why, where it is not there."""
    prepare_loader()
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
