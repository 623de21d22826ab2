"""Measured cost profiles: kept on disk, and what they decide."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from devices import NAMES, device

from litedelegate import Interpreter, ModelBuilder
from litedelegate.delegates.gpu import calibrate
from litedelegate.delegates.gpu.cache import ProgramCache
from litedelegate.delegates.gpu.calibrate import VARIABLE, choose, profiles
from litedelegate.delegates.gpu.delegate import GpuDelegate
from litedelegate.delegates.opencl import OpenCLDelegate
from litedelegate.kernels.api import NodeSpec, Quantization, TensorSpec
from litedelegate.kernels.types import DType
from litedelegate.runtime.cost import NUMPY, OPENCL_CPU, PROFILES, estimate, rate_key


@pytest.fixture(params=list(NAMES))
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def name(backend: str) -> str:
    return device(backend).device.platform.name.strip()


def tiny() -> bytes:
    b = ModelBuilder()
    g = b.subgraph("main")
    g.outputs(g.op("NEG", [g.input("x", (4,))], ("y", (4,), "float32")))
    return b.build()


def test_measured_once_and_kept(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, programs = device(backend), ProgramCache(tmp_path)
    make = lambda: GpuDelegate("opencl", found)  # noqa: E731
    monkeypatch.setattr(calibrate, "_SECONDS", 0.003)
    own, numpys = profiles(found, programs, make)
    assert own.name == found.name
    assert numpys.name == "numpy"
    for profile in (own, numpys):
        # within what any machine of these years does
        assert 1e7 < profile.operations < 1e16
        assert 1e8 < profile.bytes < 1e15
        assert 1e-9 < profile.per_node + profile.per_call < 1e-2
        assert profile.by_op["DEPTHWISE_CONV_2D"] > 1e6
    monkeypatch.setattr(calibrate, "_measure", lambda *a: pytest.fail("measured again"))
    assert profiles(found, ProgramCache(tmp_path), make) == (own, numpys)


def test_what_is_damaged_is_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, programs = device("opencl-intel"), ProgramCache(tmp_path)
    measured: list[str] = []

    def measure(what: str, *rest: Any) -> Any:
        measured.append(what)
        return replace(NUMPY, name=what)

    monkeypatch.setattr(calibrate, "_measure", measure)
    monkeypatch.setattr(calibrate, "_TRIES", 1)
    make = lambda: GpuDelegate("opencl", found)  # noqa: E731
    profiles(found, programs, make)
    paths = list(tmp_path.iterdir())
    paths[0].write_text("{")
    paths[1].write_text(json.dumps({**asdict(NUMPY), "more": 1}))
    profiles(found, programs, make)
    profiles(found, programs, make)
    assert measured == [found.name, "numpy"] * 2


def test_a_partition_that_does_not_pay_is_left(backend: str, tmp_path: Path) -> None:
    slow = replace(OPENCL_CPU, name="slow", per_partition=1.0)
    for costs, where in ((slow, "cpu"), ("none", "opencl")):
        delegate = OpenCLDelegate(name(backend), cache=tmp_path, costs=costs)
        interpreter = Interpreter(model_content=tiny(), delegates=[delegate])
        np.testing.assert_array_equal(interpreter.run({"x": np.ones(4, "f4")})["y"], -1)
        (node,) = interpreter.delegate_coverage().nodes
        assert node.placed_on == where
    refusals = Interpreter(
        model_content=tiny(), delegates=[OpenCLDelegate(name(backend), costs=slow)]
    ).delegate_coverage()
    (reason,) = refusals.nodes[0].refusals
    assert reason.code == "POLICY"
    assert "1 node does not pay: 10000" in reason.text
    assert "µs on slow" in reason.text


def test_named_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = device("opencl-intel")
    ask = lambda costs, folder="": choose(  # noqa: E731
        costs, found, ProgramCache(folder or tmp_path), lambda: pytest.fail("not asked")
    )
    monkeypatch.delenv(VARIABLE, raising=False)
    assert ask("gpu") == (PROFILES["gpu"], NUMPY)
    assert ask(OPENCL_CPU) == (OPENCL_CPU, NUMPY)
    assert ask("none") == (None, NUMPY)
    monkeypatch.setenv(VARIABLE, "opencl-cpu")
    assert ask(None) == (OPENCL_CPU, NUMPY)
    with pytest.raises(ValueError, match="got 'fast'; there are calibrated, none, numpy"):
        ask("fast")
    with pytest.raises(ValueError, match="costs: got 'fast'"):  # not later, when it is used
        OpenCLDelegate(name("opencl-intel"), costs="fast")
    with pytest.raises(ValueError, match="costs: got 3"):
        OpenCLDelegate(name("opencl-intel"), costs=3)  # type: ignore[arg-type]
    monkeypatch.setenv(VARIABLE, "slow")
    with pytest.raises(ValueError, match="LITEDELEGATE_COSTS: got 'slow'"):
        OpenCLDelegate(name("opencl-intel"))
    # nowhere to keep them: each process would measure
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("LITEDELEGATE_CACHE", "")
    assert choose("calibrated", found, ProgramCache(), lambda: pytest.fail("")) == (None, NUMPY)


def test_calls_of_numpy() -> None:
    """Integers are requantised, recurrent ops go step by step, moves are one or two calls."""

    def calls(op: str, x: TensorSpec, **options: Any) -> int:
        y = TensorSpec(x.shape, x.dtype, x.quant)
        return estimate(NodeSpec(op, [x, None, None], [y], SimpleNamespace(**options))).calls

    plain = TensorSpec((1, 6, 4), DType.FLOAT32)
    scaled = TensorSpec((1, 6, 4), DType.INT8, Quantization(np.float32([0.5]), np.int64([0])))
    assert calls("ADD", plain) == 2
    assert calls("ADD", scaled) == 2 * calls("ADD", plain) + 4
    assert calls("RESHAPE", scaled) == calls("RESHAPE", plain) == 1
    once = calls("UNIDIRECTIONAL_SEQUENCE_LSTM", TensorSpec((6, 4), DType.FLOAT32))
    assert calls("UNIDIRECTIONAL_SEQUENCE_LSTM", plain, time_major=False) == 6 * once
    assert calls("UNIDIRECTIONAL_SEQUENCE_LSTM", plain, time_major=True) == once


def test_tries_that_a_busy_machine_stalls_do_not_count() -> None:
    rates, waits, launches = (2e11, 1e9, 3e11, 1e9, 9e11), (1, 2, 400, 2, 3), (9, 2, 3, 1, 3)
    tries = iter(
        replace(OPENCL_CPU, operations=rate, per_partition=wait, per_node=launch)
        for rate, wait, launch in zip(rates, waits, launches, strict=True)
    )
    found = calibrate._settled(lambda: next(tries))
    assert (found.operations, found.per_partition, found.per_node) == (3e11, 2, 3)
    assert found.by_op == OPENCL_CPU.by_op


def test_products_of_integers_have_rates_of_their_own() -> None:
    def key(op: str, *dtypes: DType) -> str:
        quant = Quantization(np.float32([0.5]), np.int64([0]))
        inputs = [TensorSpec((4, 4), d, quant if d.is_integer else None) for d in dtypes]
        return rate_key(NodeSpec(op, inputs, inputs[:1], SimpleNamespace()))

    assert key("CONV_2D", DType.INT8, DType.INT8) == "CONV_2D int8"
    assert key("CONV_2D", DType.UINT8, DType.UINT8) == "CONV_2D int8"
    assert key("FULLY_CONNECTED", DType.FLOAT32, DType.INT8) == "FULLY_CONNECTED hybrid"
    assert key("FULLY_CONNECTED", DType.FLOAT32, DType.FLOAT32) == "FULLY_CONNECTED"
    assert key("ADD", DType.INT8, DType.INT8) == "ADD"
    profile = replace(NUMPY, by_op={"CONV_2D": 1.0, "CONV_2D int8": 4.0}, operations=2.0)
    work = estimate(NodeSpec("NEG", [TensorSpec((8,), DType.FLOAT32)], [], SimpleNamespace()))
    seconds = [profile.arithmetic(k, work) for k in ("CONV_2D int8", "CONV_2D", "ADD")]
    assert seconds == [2.0, 8.0, 4.0]
    assert profile.arithmetic("CONV_2D int4", work) == 8.0  # as the operator's floats
