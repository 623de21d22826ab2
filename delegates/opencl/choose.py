"""Which of the devices that fit is taken: GPUs before CPUs, and of drivers for CPUs the quickest.

Speeds are measured once, as costs are, and kept with the built programs, as is what follows from
them: a start opens the one device that it needs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from ...runtime.delegate import Unavailable
from ..gpu.cache import ProgramCache
from ..gpu.calibrate import device_profile, speed
from ..gpu.delegate import GpuDelegate
from .device import OpenCLDevice, identity
from .find import library, matching

FORMAT = "1"  # of what is kept


def open_device(
    wanted: str | int | None, programs: ProgramCache, measure: bool = True
) -> OpenCLDevice:
    """The first of `ranked` whose compiler works: a driver may not know its CPU.

    Unavailable where none does.
    """
    order, why = ranked(matching(wanted), programs, measure)
    faults = []
    for device in order:
        try:
            return OpenCLDevice(device, programs, why=why if device is order[0] else "")
        except Unavailable as e:
            faults.append(str(e))
    raise Unavailable("\n".join(faults))


def ranked(
    devices: Sequence[Any], programs: ProgramCache, measure: bool
) -> tuple[Sequence[Any], str]:
    """The devices, the one to be taken first, and why that is where it was measured.

    GPUs come in the order of the drivers. So do CPUs of equally wide vectors, the widest first,
    until they are measured: now, if `measure` says so and the result can be kept.
    """
    cpu = library().device_type.CPU
    others = [d for d in devices if not d.type & cpu]
    cpus = [d for d in devices if d.type & cpu]
    if len(cpus) < 2:
        return [*others, *cpus], ""
    parts = ["driver", FORMAT, *(text for d in cpus for text in identity(d))]
    choices = ProgramCache(programs.folder or "")  # not counted among the programs
    order, why = _read(choices.get(parts), len(cpus))
    if not order and measure and not others and choices.keeps():
        order, why = _measured(cpus, programs)
        choices.put(parts, json.dumps([order, why]).encode())
    if not order:
        order = sorted(range(len(cpus)), key=lambda i: -cpus[i].native_vector_width_float)
    return [*others, *(cpus[i] for i in order)], "" if others else why


def _measured(cpus: Sequence[Any], programs: ProgramCache) -> tuple[list[int], str]:
    """Their numbers, the quickest first, those that do not work last, and a sentence."""
    found: list[tuple[float, int, str]] = []
    for i, device in enumerate(cpus):
        try:
            opened = OpenCLDevice(device, programs)
        except Unavailable:
            continue
        profile = device_profile(opened, programs, partial(GpuDelegate, "opencl", opened))
        found.append((speed(profile), i, opened.name))
    found.sort()
    left = set(range(len(cpus))) - {i for _, i, _ in found}
    times = ", ".join(f"{name} {seconds * 1e3:.2f} ms" for seconds, _, name in found)
    why = f"the quickest driver for the CPU, by what a small model takes: {times}"
    return [*(i for _, i, _ in found), *sorted(left)], why if len(found) > 1 else ""


def _read(kept: bytes | None, count: int) -> tuple[list[int], str]:
    """Nothing for what is damaged."""
    try:
        order, why = json.loads(kept or b"")
        if sorted(order) == list(range(count)):
            return order, str(why)
    except (ValueError, TypeError):
        return [], ""
    return [], ""
