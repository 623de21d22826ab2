"""Devices without float64: whatever has integers in it is computed all the same, and to the bit."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import test_device
from devices import device
from harness import Prepared
from test_device import KEYS, claim
from test_ops import ALL, arrays, compare, node, registration

from litedelegate.delegates.gpu.device import Device
from litedelegate.delegates.gpu.fuse import Item
from litedelegate.delegates.gpu.plan import Plan
from litedelegate.kernels._scaling import BELOW_HALF, mantissas
from litedelegate.kernels.api import NodeSpec, Options, TensorSpec
from litedelegate.kernels.device import PROFILES, Lowered, Map, Read
from litedelegate.kernels.types import DType


@pytest.fixture(scope="module")
def target() -> Device:
    """Its compiler knows no float64: a text that has any does not build."""
    found = copy.copy(device("opencl-intel"))
    found.capability = replace(found.capability, kind="gpu", dot4=False, fp64=False)
    found.prelude = found.prelude.replace("cl_khr_fp64", "no_such_extension")
    assert found.prelude.count("no_such_extension") >= 2
    return found


def _texts(lowered: Lowered) -> set[object]:
    return {u for s in lowered.steps for u in (*s.uses, getattr(s, "file", ""))}


@cache
def concerned() -> list[str]:
    """Cases whose forms differ where there is float64, and the newly taken ones."""
    found = []
    for key in KEYS:
        lowered = claim(key, PROFILES["opencl-gpu"]).lowered
        if lowered is not None and _texts(lowered) & {
            "round_real",
            "resize_exact",
            "hybrid_rows",
            "hybrid",
        }:
            found.append(key)
    return found


def test_only_float64_itself_is_refused() -> None:
    for key in KEYS:
        with_it, without = (claim(key, PROFILES[p]) for p in ("sm_90", "opencl-gpu"))
        if with_it.lowered is not None and without.lowered is None:
            types = {s.dtype for s in (*with_it.spec.inputs, *with_it.spec.outputs) if s}
            floats = DType.FLOAT64 in types or ALL[key].op == "FLOOR_DIV"
            assert floats, f"{key}: {without.refusal}"


def test_cases(target: Device) -> None:
    keys = concerned()
    families = {k.partition("-")[0] for k in keys}
    assert families >= {"fully_connected", "resize", "conv", "lstm"}, families
    items = {}
    for number, key in enumerate(keys):
        claimed = claim(key, target.capability)
        assert claimed.lowered is not None
        inputs = [1000 * number + i for i in range(len(claimed.spec.inputs))]
        outputs = [1000 * number + 500 + i for i in range(len(claimed.spec.outputs))]
        items[key] = Item(claimed.spec, inputs, outputs, claimed.lowered)
    found = test_device.Results()
    test_device.run_cases(target, items, found)
    for key in keys:
        case = ALL[key]
        numpys = Prepared(registration(case), node(case), arrays(case)).run()
        for i, (got, want) in enumerate(zip(found.outputs[key], numpys, strict=True)):
            wanted = replace(case.wanted[i], value=want)
            close = replace(case, step=0, tolerance=max(case.tolerance, 1e-5))
            compare(got, want, wanted, close, f"{key}, output {i}")


@pytest.mark.parametrize("large", [False, True], ids=["32 bits", "52 bits"])
def test_real_products(target: Device, large: bool) -> None:
    """As float64 rounds them: random ones, and those a bit away from a half."""
    rng = np.random.default_rng(int(large))
    count, top = 60000, 1 << (52 if large else 31)
    a = rng.integers(-top, top, count) >> rng.integers(0, 30, count)
    m = rng.uniform(0.5, 1, count) * np.exp2(rng.integers(-40, 4, count).astype(float))
    # products near a half: of what is a half over a, and its neighbours
    half = (rng.integers(0, 30000, count // 2) + 0.5) / np.abs(a[::2]).clip(1)
    m[::2] = half * (1 + rng.integers(-3, 4, count // 2) * 2.0**-53)
    m[:4], a[:2] = (0.0, 1.0, 2.0**-60, 0.5), (5, 0)
    real = a * m
    want = np.trunc(real + np.copysign(BELOW_HALF, real))
    inside = np.abs(want) < 2**53
    assert inside.mean() > 0.5
    q, shift = mantissas(m)
    specs = [TensorSpec((count,), t) for t in (DType.INT64, DType.INT64, DType.INT32)]
    spec = NodeSpec("PRODUCT", specs, [TensorSpec((count,), DType.INT64)], Options({}), 1)
    step = Map("round_real($0, $1, $2)", (Read(0), Read(1), Read(2)), uses=("round_real",))
    plan = Plan(target, [Item(spec, [0, 1, 2], [3], Lowered([step]))], [0, 1, 2], [3])
    got = np.zeros(count, np.int64)
    plan.run({0: a, 1: q, 2: shift}, {3: got})
    np.testing.assert_array_equal(got[inside], want[inside].astype(np.int64))
    assert (np.abs(got[~inside]) >= 1 << 53).all() and (got[~inside] > 0).tolist() == (
        a[~inside] > 0
    ).tolist()
