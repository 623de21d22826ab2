"""`litedelegate devices`: what the delegates would find here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import click
from rich.markup import escape

from ..delegates.cuda import find as cuda
from ..delegates.gpu.cache import ProgramCache
from ..delegates.opencl import choose
from ..delegates.opencl import find as opencl
from ..delegates.opencl.device import OpenCLDevice
from ..kernels.device import PROFILES
from ..runtime.delegate import Unavailable
from . import show

EPILOG = f"""\b
A device is chosen by its number or any part of its name or driver:
  LITEDELEGATE_OPENCL_DEVICE=Intel litedelegate run model.tflite -d opencl
  LITEDELEGATE_CUDA_DEVICE=1 litedelegate run model.tflite -d cuda
and in Python by an argument, OpenCLDelegate("Intel").

\b
Without one, `litedelegate coverage --device NAME` tells what one like these would take:
  {", ".join(PROFILES)}

\b
Exit codes:
  0  done, whether there are devices or not"""


@dataclass(frozen=True)
class Found:
    """A device; `problem`: why it cannot be used, "" where it can; `note`: of the one that is taken
    where nothing else is said.
    """

    delegate: str
    number: int
    name: str
    driver: str
    kind: str
    problem: str
    note: str = ""


@click.command("devices", epilog=EPILOG, short_help="List the devices that are here.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def command(as_json: bool) -> None:
    """List the devices that "cuda" and "opencl" find here, or what they lack."""
    found: list[Found] = []
    missing: dict[str, str] = {}
    for name, look in (("cuda", _cuda), ("opencl", _opencl)):
        try:
            found += look()
        except Unavailable as e:
            missing[name] = str(e)
    if as_json:
        show.print_json({"devices": [asdict(d) for d in found], "missing": missing})
    else:
        _print(found, missing)


def _cuda() -> list[Found]:
    cupy = cuda.library()
    names = [cuda.device_name(cupy, i) for i in range(cuda.count(cupy))]
    return [Found("cuda", i, name, "NVIDIA", "gpu", "") for i, name in enumerate(names)]


def _opencl() -> list[Found]:
    found = []
    devices = opencl.devices()
    order, why = choose.ranked(devices, ProgramCache(), measure=False)
    for i, device in enumerate(devices):
        problem, kind = "", ""
        try:
            kind = OpenCLDevice(device).capability.kind
        except Unavailable as e:
            problem = str(e)
        platform = device.platform
        driver = f"{platform.name.strip()}, {device.driver_version.strip()}"
        found.append(Found("opencl", i, device.name.strip(), driver, kind, problem))
    working = [i for d in order for i, f in enumerate(found) if devices[i] == d and not f.problem]
    for i in working[:1]:
        found[i] = replace(found[i], note=f"taken by default{f', {why}' if why else ''}")
    return found


def _remark(device: Found) -> str:
    return f"cannot be used: {device.problem}" if device.problem else device.note


def _print(found: Sequence[Found], missing: Mapping[str, str]) -> None:
    out = show.console()
    if found:
        rows = [
            (d.delegate, d.number, escape(d.name), escape(d.driver), d.kind, escape(_remark(d)))
            for d in found
        ]
        head = ("delegate", ">number", "device", "driver", "kind", "")
        out.print(show.table("Devices", head, rows))
    for name, why in missing.items():
        out.print(f"[yellow]{name}[/]: {escape(why)}")
