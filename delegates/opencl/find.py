"""Finds the library and the device, or says what was looked for, where, and what helps."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...runtime.delegate import Unavailable

VARIABLE = "LITEDELEGATE_OPENCL_DEVICE"
_ICD_FOLDER = "/etc/OpenCL/vendors"
_FOLDER_VARIABLE = "OCL_ICD_VENDORS"
# PoCL compiles a kernel once for any launch, and, unless told not to, again for the first one: into
# a cache of its own, a third of what starting a model takes, and for our kernels no faster
_POCL_AGAIN = "POCL_WORK_GROUP_SPECIALIZATION"
# PyOpenCL keeps code below the user's home, and fails where it cannot, unless told not to
_PYOPENCL_NO_CACHE = "PYOPENCL_NO_CACHE"
_shown: list[Any] = []  # the module, once its loader has been shown the drivers
# what Intel's driver needs of its own folder, which is on no search path, in this order
_INTEL_NEEDS = ("libintlc.so.5", "libirng.so", "libimf.so", "libsvml.so")


def library() -> Any:
    """The module `pyopencl`. Unavailable where it is not installed or does not load."""
    known = sys.modules.get("pyopencl")
    if known is not None and known in _shown:
        return known
    if not _cache_folder_works():
        os.environ.setdefault(_PYOPENCL_NO_CACHE, "1")
    with _drivers_of_pip():
        try:
            import pyopencl
        except ImportError as e:
            raise Unavailable(
                f"the OpenCL delegate needs PyOpenCL, which does not load here ({e}): "
                "pip install 'litedelegate[opencl]', or 'litedelegate[cpu]', which brings a "
                "driver for the CPU along"
            ) from e
        os.environ.setdefault(_POCL_AGAIN, "0")
        with suppress(pyopencl.Error):  # the loader reads its environment when first asked
            pyopencl.get_platforms()
    _shown.append(pyopencl)
    return pyopencl


def _cache_folder_works() -> bool:
    """Whether PyOpenCL can keep something in the user's cache folder (outside Windows)."""
    base = os.environ.get("XDG_CACHE_HOME", "").strip() or "~/.cache"
    try:
        folder = Path(base).expanduser() / "pytools"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: nobody knows where home is
        return False
    return os.access(folder, os.W_OK)


@contextmanager
def _drivers_of_pip() -> Iterator[None]:
    """Shows the loader Intel's runtime for CPUs where pip installed it: in no folder that it looks
    into. What the user says in the environment stands.
    """
    lib = Path(sys.prefix, "lib")
    driver = lib / "libintelocl.so"
    if not driver.exists() or _FOLDER_VARIABLE in os.environ:
        yield
        return
    with suppress(OSError):  # a driver that does not load is none
        for name in _INTEL_NEEDS:
            ctypes.CDLL(str(lib / name), ctypes.RTLD_GLOBAL)
    with tempfile.TemporaryDirectory(prefix="litedelegate-") as folder:
        Path(folder, "intel.icd").write_text(f"{driver}\n")
        for other in Path(_ICD_FOLDER).glob("*.icd"):
            Path(folder, other.name).write_text(other.read_text())
        os.environ[_FOLDER_VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[_FOLDER_VARIABLE]


def devices() -> list[Any]:
    """All devices of all drivers: GPUs and accelerators first. Unavailable where there is none."""
    cl = library()
    try:
        platforms = cl.get_platforms()
    except cl.Error as e:
        raise Unavailable(f"{_no_driver()} (the loader says: {e})") from e
    found, empty = [], []
    for platform in platforms:
        try:
            found += platform.get_devices()
        except cl.Error as e:
            empty.append(f"{platform.name.strip()}: {e}")
    if not found:
        raise Unavailable(
            _no_driver() + (f" Drivers without one: {'; '.join(empty)}" * bool(empty))
        )
    return sorted(found, key=lambda d: bool(d.type & cl.device_type.CPU))


def _no_driver() -> str:
    folder = os.environ.get(_FOLDER_VARIABLE)
    where = f"{_FOLDER_VARIABLE}={folder}" if folder else f"{_ICD_FOLDER} and beside PyOpenCL"
    return (
        f"there is no OpenCL device: drivers (*.icd files) were looked for in {where}. Install the "
        "driver of your device, or pip install 'litedelegate[cpu]' for one on the CPU (PoCL)."
    )


def matching(wanted: str | int | None = None) -> list[Any]:
    """The devices of that index or name in `devices()`; without one, of that in the environment's
    LITEDELEGATE_OPENCL_DEVICE, else all.

    A name is any part of the device's or its driver's name, in any case. Unavailable where no
    device fits: the text lists those that there are.
    """
    source = "device"
    if wanted is None:
        wanted, source = os.environ.get(VARIABLE) or None, VARIABLE
    found = devices()
    if wanted is None:
        return found
    if str(wanted).isdecimal():
        fitting = found[int(wanted) : int(wanted) + 1]
    else:
        part = str(wanted).lower()
        fitting = [d for d in found if part in f"{d.name} {d.platform.name}".lower()]
    if fitting:
        return fitting
    there = "; ".join(
        f"{i}: {d.name.strip()} ({d.platform.name.strip()})" for i, d in enumerate(found)
    )
    raise Unavailable(f"no OpenCL device fits {source} {wanted!r}; there are {there}")
