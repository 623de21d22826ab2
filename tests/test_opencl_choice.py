"""Which OpenCL device is taken where several fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from devices import device

from litedelegate import Unavailable
from litedelegate.delegates.gpu import calibrate
from litedelegate.delegates.gpu.cache import ProgramCache
from litedelegate.delegates.gpu.calibrate import speed
from litedelegate.delegates.opencl import OpenCLDelegate, choose
from litedelegate.delegates.opencl.find import VARIABLE
from litedelegate.runtime.cost import OPENCL_CPU


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The devices that were measured: PoCL is the quicker one. There is none but these two."""
    both = [device("opencl-intel").device, device("opencl-pocl").device]
    names: list[str] = []

    def profile(opened: Any, programs: Any, make: Any) -> Any:
        names.append(opened.name)
        return replace(OPENCL_CPU, per_node=1e-6 if "Portable" in opened.name else 3e-6)

    for variable in (VARIABLE, calibrate.VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("litedelegate.delegates.opencl.find.devices", lambda: both)
    monkeypatch.setattr(choose, "device_profile", profile)
    return names


def test_the_quickest_driver_measured_once(measured: list[str], tmp_path: Path) -> None:
    for _ in range(2):
        delegate = OpenCLDelegate(cache=tmp_path)
        assert "Portable" in delegate.device.name
        why = delegate.describe()["chosen"]
        assert why.startswith("the quickest driver for the CPU, by what a small model takes: ")
        assert why.index("Portable") < why.index("Intel") and why.endswith(" ms")
    assert len(measured) == 2


def test_what_is_said_counts(
    measured: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Intel" in OpenCLDelegate("Intel", cache=tmp_path).device.name
    assert "Intel" in OpenCLDelegate(0, cache=tmp_path).device.name
    monkeypatch.setenv(VARIABLE, "intel")
    delegate = OpenCLDelegate(cache=tmp_path)
    assert "Intel" in delegate.device.name and "chosen" not in delegate.describe()
    assert not measured
    monkeypatch.setenv(VARIABLE, device("opencl-pocl").device.name)  # both may be called so
    OpenCLDelegate(cache=tmp_path)
    assert len(measured) in (0, 2)


def test_nothing_is_measured_where_it_could_not_be_kept(
    measured: list[str], tmp_path: Path
) -> None:
    """Then it is the one of the widest vectors, each time."""
    widths = [device(b).device.native_vector_width_float for b in ("opencl-intel", "opencl-pocl")]
    want = "Intel" if widths[0] >= widths[1] else "Portable"
    assert want in OpenCLDelegate(cache="").device.name
    assert want in OpenCLDelegate(cache=tmp_path, costs="none").device.name
    assert not measured
    OpenCLDelegate(cache=tmp_path)
    # what is known counts, whatever costs are wanted
    assert "Portable" in OpenCLDelegate(cache=tmp_path, costs="none").device.name


def test_a_driver_that_does_not_work_is_stepped_over(
    measured: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = choose.OpenCLDevice

    def broken(found: Any, *rest: Any, **more: Any) -> Any:
        if "Portable" in found.platform.name:
            raise Unavailable("its compiler does not know this CPU")
        return real(found, *rest, **more)

    monkeypatch.setattr(choose, "OpenCLDevice", broken)
    for _ in range(2):
        delegate = OpenCLDelegate(cache=tmp_path)
        assert "Intel" in delegate.device.name and "chosen" not in delegate.describe()
    assert len(measured) == 1


def test_damaged_choices_are_made_anew(measured: list[str], tmp_path: Path) -> None:
    programs = ProgramCache(tmp_path)
    found = choose.matching(None)
    order, _ = choose.ranked(found, programs, True)
    for damage in (b"{", b"[[0, 0], 1]", b"[[0], 1]", b"3"):
        parts = ["driver", choose.FORMAT, *(t for d in found for t in choose.identity(d))]
        programs.put(parts, damage)
        assert choose.ranked(found, programs, True)[0] == order


def test_gpus_come_before_cpus(measured: list[str]) -> None:
    class Gpu:
        type = 4  # CL_DEVICE_TYPE_GPU

    gpu, cpus = Gpu(), choose.matching(None)
    order, why = choose.ranked([*cpus, gpu], ProgramCache(""), True)
    assert order[0] is gpu and not why and not measured


def test_speed() -> None:
    slow = replace(OPENCL_CPU, per_node=1e-5)
    assert speed(slow) > speed(OPENCL_CPU) > speed(replace(OPENCL_CPU, operations=1e13))
