"""Every kernel that the case tables lower to is compiled for every architecture. Needs no GPU.

The sizes of each kernel's parameters, read from the cubin, are those of the arguments that the
host gives; kernels in which time is spent keep everything in registers.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import cubin
import pytest
from test_device import KEYS, claim

from litedelegate import Interpreter
from litedelegate.delegates.cuda.compiler import Compiler
from litedelegate.delegates.cuda.device import blocks
from litedelegate.delegates.gpu.cache import ProgramCache
from litedelegate.delegates.gpu.delegate import GpuDelegate
from litedelegate.delegates.gpu.device import Launch
from litedelegate.delegates.gpu.dry import DryDevice
from litedelegate.delegates.gpu.fuse import Item
from litedelegate.delegates.gpu.plan import Plan
from litedelegate.delegates.gpu.prelude import prelude
from litedelegate.kernels.api import Run
from litedelegate.kernels.device import PROFILES, Kernel
from litedelegate.kernels.types import Array

pytestmark = pytest.mark.nvrtc

ARCHITECTURES = sorted(name for name in PROFILES if name.startswith("sm_"))
FAMILIES: Mapping[str, list[str]] = defaultdict(list)
for _key in KEYS:
    FAMILIES[_key.partition("-")[0]].append(_key)
# families whose inner loops must not touch local memory
HOT = {"conv", "conv3d", "conv_transpose", "depthwise", "fully_connected", "batch_matmul"}
_PRELUDE = prelude("litedelegate.delegates.cuda")


class Listening(DryDevice):
    """Keeps what a plan would have built and launched."""

    alignment = 256

    def __init__(self, profile: str, half: bool = False) -> None:
        super().__init__(replace(PROFILES[profile], half=half))
        self.sources: list[str] = []
        self.launches: Sequence[Launch] = ()

    def build(self, source: str, names: Sequence[str]) -> Mapping[str, Any]:
        self.sources.append(source)
        return {name: name for name in names}

    def record(self, launches: Sequence[Launch]) -> Run:
        self.launches = launches
        return list  # nothing runs

    def download(self, buffer: Any, array: Array) -> None:
        """What raised a fault: nothing did."""


def planned(profile: str, keys: Sequence[str], half: bool = False) -> Listening:
    """These cases, as one partition of a model would be."""
    device = Listening(profile, half)
    items, inputs, outputs = [], [], []
    for number, key in enumerate(keys):
        claimed = claim(key, device.capability)
        if claimed.lowered is None:
            continue
        spec = claimed.spec
        ins = [1000 * number + i for i in range(len(spec.inputs))]
        outs = [1000 * number + 500 + i for i in range(len(spec.outputs))]
        items.append(Item(spec, ins, outs, claimed.lowered))
        given = zip(ins, spec.inputs, strict=True)
        inputs += [i for i, s in given if s is not None and s.const is None]
        outputs += outs
    Plan(device, items, inputs, outputs, half=half).enqueue()
    return device


@cache
def compiler(architecture: str) -> Compiler:
    cupy = pytest.importorskip("cupy", reason="no CuPy: pip install 'litedelegate[nvrtc]'")
    return Compiler(cupy, architecture.removeprefix("sm_"), ProgramCache(""))


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_kernels_compile(architecture: str, family: str) -> None:
    nvrtc = compiler(architecture)
    assert nvrtc.architecture == architecture
    device = planned(architecture, FAMILIES[family])
    if not device.sources:
        pytest.skip(f"no case of {family} needs a kernel")
    assert device.launches
    found = {}
    for source in device.sources:
        found |= cubin.kernels(nvrtc.compile(f"{_PRELUDE}\n{source}"))
    for launch in device.launches:
        kernel = found[launch.kernel]
        assert kernel.parameters == [8] * len(launch.args)  # all are pointers
        blocks(launch.grid, launch.group)
        if family in HOT:
            assert kernel.local == 0, f"{launch.kernel} spills {kernel.local} bytes"


@cache
def on_matrix_units() -> list[str]:
    """Some cases of each op and type that go to them, where halves are asked for."""
    found: dict[tuple[str, object], list[str]] = defaultdict(list)
    for family in ("conv", "fully_connected", "batch_matmul"):
        for key in FAMILIES[family]:
            lowered = claim(key, replace(PROFILES["sm_80"], half=True)).lowered
            for step in () if lowered is None else lowered.steps:
                if "mma_tile" in step.uses and isinstance(step, Kernel):
                    found[family, step.defines.get("MMA")].append(key)
    assert len(found) >= 4
    return [key for keys in found.values() for key in keys[:3]]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_matrix_units_are_used(architecture: str) -> None:
    """The machine code of each kernel has the instructions that its text asks for, and everything
    is in registers."""
    device = planned(architecture, on_matrix_units(), half=True)
    asked = {"HMMA": 0, "IMMA": 0}
    for source in device.sources:
        binary = compiler(architecture).compile(f"{_PRELUDE}\n{source}")
        assert not any(kernel.local for kernel in cubin.kernels(binary).values())
        texts = bodies(source)
        for name, code in instructions(binary).items():
            wanted = {"HMMA": "MMA_F16" in texts[name], "IMMA": "MMA_I8" in texts[name]}
            assert {unit: unit in code for unit in asked} == wanted, name
            asked = {unit: n + wanted[unit] for unit, n in asked.items()}
    assert asked["HMMA"] >= 3 and asked["IMMA"]


def bodies(source: str) -> dict[str, str]:
    """The text of each kernel of a program, from its macros on."""
    before, *parts = re.split(r"KERNEL void (\w+)\(", source)
    found = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        body, _, after = text.partition("\n}\n")
        found[name] = before + body
        before = after
    return found


def instructions(binary: bytes) -> dict[str, str]:
    """The machine code of each kernel."""
    spec = importlib.util.find_spec("nvidia.cu13")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    found = shutil.which("nvdisasm", path=os.pathsep.join(f"{f}/bin" for f in folders))
    found = found or shutil.which("nvdisasm")
    if found is None:
        pytest.skip("no nvdisasm: pip install 'litedelegate[nvrtc]'")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        run = subprocess.run([found, "-c", file.name], capture_output=True, text=True, check=True)
    parts = re.split(r"^\s*\.section\s+\.text\.(\w+).*$", run.stdout, flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("architecture", ["sm_75", "sm_120"])
@pytest.mark.parametrize(
    "name", ["mobilenet_v2_ptq_int8", "blazeface_f32", "yolov8n_int8", "yamnet", "lstm_int8"]
)
def test_models_compile(architecture: str, name: str, models: Path) -> None:
    """With what rides in each kernel; all stays in registers."""
    nvrtc, device = compiler(architecture), Listening(architecture)
    delegate = GpuDelegate("cuda", device)
    with Interpreter(str(models / f"{name}.tflite"), delegates=[delegate]) as interpreter:
        interpreter.allocate_tensors()
        assert interpreter.delegate_coverage().totals.share_of_work > 0.9
    for source in device.sources:
        found = cubin.kernels(nvrtc.compile(f"{_PRELUDE}\n{source}"))
        assert found and not [name for name, kernel in found.items() if kernel.local]


def test_the_cubin_reader() -> None:
    text = """
KERNEL void plain(f32* a, i32 n, f64 z, u8 b) { a[n] = (f32)(a[n] * z) + b; }
KERNEL void spills(f32* a, i32 n)
{
    f32 v[64];
    for (i32 i = 0; i < 64; i++)
        v[i] = a[i];
    for (i32 i = 0; i < n; i++)
        v[(i * 7 + n) % 64] += v[i % 64];
    for (i32 i = 0; i < 64; i++)
        a[i] = v[i];
}
"""
    found = cubin.kernels(compiler("sm_90").compile(_PRELUDE + text))
    assert found["plain"].parameters == [8, 4, 8, 1] and found["plain"].local == 0
    assert found["spills"].parameters == [8, 4] and found["spills"].local >= 256


def test_denormals_stay_and_nothing_is_fused_unasked() -> None:
    """The instructions, in PTX: a product and a sum apart, and fma where the text says MAD."""
    newer = Compiler(pytest.importorskip("cupy"), "119", ProgramCache(""))
    assert newer.architecture.startswith("compute_")  # unknown to NVRTC: PTX for the driver
    text = """
KERNEL void apart(f32* a) { a[0] = a[1] * a[2] + a[3]; }
KERNEL void fused(f32* a) { a[0] = MAD(a[1], a[2], a[3]); }
"""
    ptx = newer.compile(_PRELUDE + text).decode()
    apart, fused = ptx.split(".entry fused") if ".entry fused" in ptx else ("", "")
    assert "mul.rn.f32" in apart and "add.rn.f32" in apart and "fma" not in apart
    assert "fma.rn.f32" in fused and ".ftz" not in ptx
