"""What partitions on a device share with the host and with each other."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from devices import NAMES, device

from litedelegate import Interpreter, ModelBuilder
from litedelegate.delegates.gpu.delegate import GpuDelegate
from litedelegate.delegates.opencl import OpenCLDelegate
from litedelegate.delegates.opencl.device import OpenCLDevice
from litedelegate.delegates.opencl.sharing import HostMemory, Mode
from litedelegate.kernels.types import Array

NONE = {"fused_activation_function": "NONE"}
SHAPE = (3, 50)


class Copies(OpenCLDevice):
    """Counts what is copied between host and device."""

    def upload(self, buffer: Any, array: Array) -> None:
        self.copied.append(("up", array.shape))
        super().upload(buffer, array)

    def download(self, buffer: Any, array: Array) -> None:
        self.copied.append(("down", array.shape))
        super().download(buffer, array)


def counting(backend: str, mode: Mode) -> Copies:
    found = copy.copy(device(backend))
    found.__class__ = Copies
    assert isinstance(found, Copies)
    found.copied = []
    if mode == "svm" and device(backend).host.mode != "svm":
        pytest.skip("the driver has no fine-grained system memory")
    found.host = HostMemory(found.device, found.context, mode)
    return found


@pytest.fixture(params=list(NAMES))
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def chain() -> bytes:
    """NEG, then EXP and ABS of it; EXP's goes through SQRT, ABS's straight to the last ADD."""
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", SHAPE)
    n = g.op("NEG", [x], ("n", SHAPE, "float32"))
    e = g.op("EXP", [n], ("e", SHAPE, "float32"))
    a = g.op("ABS", [n], ("a", SHAPE, "float32"))
    s = g.op("SQRT", [e], ("s", SHAPE, "float32"))
    flat = (150,)
    to = g.constant("to", np.array(flat, np.int32))
    first = g.op("ADD", [a, s], ("sum", SHAPE, "float32"), **NONE)
    # two names of one tensor
    g.outputs(
        g.op("RESHAPE", [first, to], ("y", flat, "float32"), new_shape=flat),
        g.op("RESHAPE", [first, to], ("z", flat, "float32"), new_shape=flat),
    )
    return b.build()


@pytest.mark.parametrize("mode", get_args(Mode))
def test_ways_to_share_memory_with_the_host(backend: str, mode: Mode) -> None:
    found = counting(backend, mode)
    interpreter = Interpreter(model_content=chain(), delegates=[GpuDelegate("opencl", found)])
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)
        found.copied.clear()
        got = interpreter.run({"x": x})
        want = (np.abs(x) + np.sqrt(np.exp(-x))).reshape(-1)
        for name in ("y", "z"):
            np.testing.assert_allclose(got[name], want, rtol=1e-5)
    copies = [("up", SHAPE), ("down", (150,)), ("down", (150,))]
    assert found.copied == (copies if mode == "none" else [])


def test_a_node_between_two_partitions_moves_its_own_tensors(backend: str) -> None:
    found = counting(backend, "none")
    interpreter = Interpreter(
        model_content=chain(), delegates=[GpuDelegate("opencl", found)], exclude=["SQRT"]
    )
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    for _ in range(2):
        found.copied.clear()
        got = interpreter.run({"x": x})["y"]
        np.testing.assert_allclose(got, (np.abs(x) + np.sqrt(np.exp(-x))).reshape(-1), rtol=1e-5)
    coverage = interpreter.delegate_coverage()
    assert [n.op for n in coverage.on_cpu] == ["SQRT"]
    assert len(coverage.partitions) == 2
    # in: x; EXP's to SQRT, and back; ABS's stays; out: both names of the sum
    crossing = [("up", SHAPE), ("down", SHAPE), ("up", SHAPE), ("down", (150,)), ("down", (150,))]
    assert found.copied == crossing
    assert sum(p.bytes_in for p in coverage.partitions) == 2 * 600


def test_a_driver_is_tried_before_arrays_are_shared(backend: str) -> None:
    host = device(backend).host
    if host.mode not in ("svm", "direct"):
        pytest.skip(f"this driver's memory is {host.mode}")
    assert host._seen_alike()
    array = np.zeros(17, np.float32)[1:]  # at no multiple of anything
    wrapped = HostMemory(device(backend).device, device(backend).context, "direct")
    assert wrapped.wrap(array, device(backend).queue) is None


def test_two_interpreters_on_one_delegate(backend: str, tmp_path: Path) -> None:
    delegate = OpenCLDelegate(device(backend).device.platform.name.strip(), cache=tmp_path)
    pair = [Interpreter(model_content=chain(), delegates=[delegate]) for _ in range(2)]
    inputs = [np.full(SHAPE, v, np.float32) for v in (1, -2)]
    for _ in range(2):
        for interpreter, x in zip(pair, inputs, strict=True):
            got = interpreter.run({"x": x})["y"]
            np.testing.assert_allclose(got, (np.abs(x) + np.sqrt(np.exp(-x))).ravel(), rtol=1e-5)
