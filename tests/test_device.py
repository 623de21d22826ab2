"""The case tables on OpenCL devices: each node is lowered, built and run, or refused as listed.

All cases of an op family become one program, as the nodes of one partition would, so that the
compiler runs once for many.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import Case, T
from devices import NAMES, cuda_device, device
from harness import Prepared, infer
from test_ops import ALL, GOOD, arrays, compare, node, registration

from litedelegate.delegates.gpu.device import Device
from litedelegate.delegates.gpu.fuse import Item
from litedelegate.delegates.gpu.plan import Plan
from litedelegate.kernels.api import NodeSpec, Unsupported
from litedelegate.kernels.device import PROFILES, Capability, Lowered
from litedelegate.kernels.types import Array

HERE = Path(__file__).parent
KEYS = [k for k in GOOD if registration(ALL[k]).lower is not None]


def _lines(name: str) -> list[str]:
    path = HERE / name
    return [line for line in path.read_text().splitlines() if line] if path.exists() else []


def _refused() -> dict[str, str]:
    """Lines "CODE key"."""
    pairs = (line.split(maxsplit=1) for line in _lines("device_refusals.txt") if line[0] != "#")
    return {key: code for code, key in pairs}


def _failing(backend: str) -> dict[str, str]:
    """Keys, each with the comment above it for its reason."""
    found, reason = {}, ""
    for line in _lines(f"xfail/{backend}.txt"):
        if line.startswith("#"):
            reason = line[1:].strip()
        else:
            found[line] = reason
    return found


REFUSED = _refused()


@dataclass
class Claimed:
    """A case in its device form, or the refusal."""

    spec: NodeSpec
    lowered: Lowered | None
    refusal: Unsupported | None = None


def claim(key: str, capability: Capability) -> Claimed:
    """As the case gives its inputs; where that is refused, with all but the data constant."""
    case = ALL[key]
    op = registration(case)
    assert op.lower is not None
    spec = node(case)
    data = {"SPLIT": 1, "FILL": 1, "TRANSPOSE_CONV": 2}.get(case.op, 0)
    constant = [
        s if s is None or i == data or s.variable else replace(s, const=arrays(case)[i])
        for i, s in enumerate(spec.inputs)
    ]
    refusal = Unsupported("DYNAMIC", "shapes that depend on values")
    for inputs in (spec.inputs, constant):
        shapes = infer(op, replace(spec, inputs=inputs))
        if None in shapes:
            continue
        outputs = [
            replace(o, shape=s) for o, s in zip(spec.outputs, shapes, strict=True) if s is not None
        ]
        known = replace(spec, inputs=inputs, outputs=outputs)
        try:
            return Claimed(known, op.lower(known, capability))
        except Unsupported as e:
            refusal = e
            if e.code != "NOT_CONSTANT":
                break
    return Claimed(spec, None, refusal)


@dataclass
class Results:
    outputs: dict[str, list[Array]] = field(default_factory=dict)
    states: dict[str, dict[int, Array]] = field(default_factory=dict)  # by input
    errors: dict[str, Exception] = field(default_factory=dict)


@cache
def target(backend: str) -> Device:
    """The device; of "…-as-gpu" one that says it is a GPU, to run what GPUs are given."""
    if backend.startswith("cuda"):
        return cuda_device(backend)
    name, shaped, _ = backend.partition("-as-gpu")
    found = device(name)
    if shaped:
        found = copy.copy(found)
        found.capability = replace(found.capability, kind="gpu", dot4=False)
    return found


@cache
def results(backend: str, family: str) -> Results:
    """All cases of a family, run as one plan; one by one where that fails."""
    found, items, keys = Results(), {}, [k for k in KEYS if k.partition("-")[0] == family]
    for number, key in enumerate(keys):
        claimed = claim(key, target(backend).capability)
        if claimed.lowered is not None:
            inputs = [1000 * number + i for i in range(len(claimed.spec.inputs))]
            outputs = [1000 * number + 500 + i for i in range(len(claimed.spec.outputs))]
            items[key] = Item(claimed.spec, inputs, outputs, claimed.lowered)
    try:
        run_cases(target(backend), items, found)
    except Exception:
        for key, item in items.items():
            try:
                run_cases(target(backend), {key: item}, found)
            except Exception as e:
                found.errors[key] = e
    return found


def run_cases(on: Device, items: dict[str, Item], found: Results) -> None:
    ins: dict[int, Array] = {}
    outs: dict[int, Array] = {}
    for key, item in items.items():
        case = ALL[key]
        for number, spec, value in zip(item.inputs, item.spec.inputs, arrays(case), strict=True):
            if spec is not None and spec.const is None and value is not None:
                ins[number] = value
        for number, spec in zip(item.outputs, item.spec.outputs, strict=True):
            outs[number] = np.full(spec.shape, 77).astype(spec.dtype.numpy)
        for i in item.lowered.state:
            outs[item.inputs[i]] = ins[item.inputs[i]]
    plan = Plan(on, list(items.values()), list(ins), list(outs))
    first = {n: array.copy() for n, array in ins.items()}
    for _ in range(2):  # what is recorded can be replayed
        for number, array in ins.items():
            array[...] = first[number]
        plan.run(ins, outs)
    for key, item in items.items():
        found.outputs[key] = [outs[n] for n in item.outputs]
        found.states[key] = {i: outs[item.inputs[i]] for i in item.lowered.state}


def xfails(backend: str) -> list[Any]:
    known = _failing(backend)
    return [
        pytest.param(k, marks=pytest.mark.xfail(reason=known[k], strict=True)) if k in known else k
        for k in KEYS
    ]


def check_case(backend: str, key: str) -> None:
    claimed = claim(key, target(backend).capability)
    if claimed.refusal is not None:
        expected = REFUSED.get(key, "no refusal")
        assert claimed.refusal.code == expected, claimed.refusal.text
        assert "got " in claimed.refusal.text or claimed.refusal.code == "DYNAMIC"
        return
    assert key not in REFUSED, f"{key} is listed as refused {REFUSED[key]}, and is not"
    found = results(backend, key.partition("-")[0])
    if key in found.errors:
        raise found.errors[key]
    case: Case = ALL[key]
    numpys = Prepared(registration(case), node(case), arrays(case)).run()
    if case.tolerance < 1e-5:  # floats of a device agree to the tolerance, not to the bit
        case = replace(case, tolerance=1e-5)
    for i, (got, want) in enumerate(zip(found.outputs[key], numpys, strict=True)):
        wanted = replace(case.wanted[i], value=want) if want.dtype != np.uint16 else case.wanted[i]
        compare(got, want, wanted, replace(case, step=0), f"output {i}")
    for i, value in case.updated.items():
        after = T(value, case.tensors[i].dtype)
        compare(found.states[key][i], after.array, after, case, f"input {i} after the call")


@pytest.mark.parametrize("key", xfails("opencl-pocl"))
def test_on_pocl(key: str) -> None:
    check_case("opencl-pocl", key)


@pytest.mark.parametrize("key", xfails("opencl-intel"))
def test_on_intel(key: str) -> None:
    check_case("opencl-intel", key)


@pytest.mark.parametrize("key", xfails("opencl-intel"))
def test_what_gpus_are_given_on_intel(key: str) -> None:
    check_case("opencl-intel-as-gpu", key)


@pytest.mark.parametrize("key", xfails("cuda-standin"))
def test_on_the_stand_in_of_cuda(key: str) -> None:
    check_case("cuda-standin", key)


@pytest.mark.gpu
@pytest.mark.parametrize("key", xfails("cuda"))
def test_on_cuda(key: str) -> None:
    check_case("cuda", key)


def test_lists_name_cases() -> None:
    assert set(REFUSED) <= set(KEYS)
    for backend in (*NAMES, "cuda-standin", "cuda"):
        assert set(_failing(backend)) <= set(KEYS)


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_lower_needs_no_device(profile: str) -> None:
    """Every case is lowered or refused on devices that are not there, with a code and a text."""
    taken: dict[bool, int] = defaultdict(int)
    for key in KEYS:
        claimed = claim(key, PROFILES[profile])
        taken[claimed.lowered is not None] += 1
    assert taken[True] > 4 * taken[False]
