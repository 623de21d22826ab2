"""Finds CuPy, the driver and the device, or says what was looked for, where, and what helps."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from ...runtime.delegate import Unavailable

VARIABLE = "LITEDELEGATE_CUDA_DEVICE"
_DRIVER = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
_INSTALL = "pip install 'litedelegate[cuda]' (CUDA 13; for CUDA 12, 'litedelegate[cuda12]')"


def library() -> Any:
    """The module `cupy`. Unavailable where it is not installed or does not load."""
    try:
        import cupy
    except Exception as e:  # not installed, or it does not go with numpy or the driver
        raise Unavailable(
            f"the CUDA delegate needs CuPy, which does not load here ({e}): {_INSTALL}"
        ) from e
    return cupy


def count(cupy: Any) -> int:
    """How many devices there are. Unavailable where there is none, with the cause."""
    try:
        found = int(cupy.cuda.runtime.getDeviceCount())
    except Exception as e:  # CuPy's error, or the loader's where a library is missing
        raise Unavailable(f"there is no CUDA device: {e}. {_driver(cupy)}") from e
    if not found:
        raise Unavailable(f"there is no CUDA device. {_visible()}")
    return found


def _driver(cupy: Any) -> str:
    """What is wrong with the driver, as far as it can be seen."""
    try:
        ctypes.CDLL(_DRIVER)
    except OSError as e:
        path = os.environ.get("PATH" if os.name == "nt" else "LD_LIBRARY_PATH", "")
        return (
            f"NVIDIA's driver was looked for as {_DRIVER} where the system's loader looks (and in "
            f"{path or 'no LD_LIBRARY_PATH'}): {e}. Install the driver of the GPU; in a container, "
            "start it with --gpus all."
        )
    try:
        versions = cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion()
    except Exception as e:
        return f"The driver, {_DRIVER}, is there and says: {e}. {_visible()}"
    driver, runtime = (f"{v // 1000}.{v % 1000 // 10}" for v in versions)
    return (
        f"The driver, {_DRIVER}, is there; it serves CUDA {driver}, and CuPy was built for "
        f"{runtime}: an older driver needs an update or another CuPy, {_INSTALL}. {_visible()}"
    )


def _visible() -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return "nvidia-smi lists what the driver sees."
    return f"CUDA_VISIBLE_DEVICES={visible!r} hides all others."


def find(cupy: Any, wanted: str | int | None = None) -> int:
    """The number of the device of that number or name; without one, that of the environment's
    LITEDELEGATE_CUDA_DEVICE, else the current one.

    A name is any part of the device's, in any case. Unavailable where none fits: the text lists
    those that there are.
    """
    source, there = "device", count(cupy)
    if wanted is None:
        wanted, source = os.environ.get(VARIABLE) or None, VARIABLE
    if wanted is None:
        return int(cupy.cuda.runtime.getDevice())
    names = [device_name(cupy, i) for i in range(there)]
    if str(wanted).isdecimal():
        if int(wanted) < there:
            return int(wanted)
    else:
        for i, name in enumerate(names):
            if str(wanted).lower() in name.lower():
                return i
    listed = "; ".join(f"{i}: {name}" for i, name in enumerate(names))
    raise Unavailable(f"no CUDA device fits {source} {wanted!r}; there are {listed}")


def device_name(cupy: Any, index: int) -> str:
    name = cupy.cuda.runtime.getDeviceProperties(index)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)
