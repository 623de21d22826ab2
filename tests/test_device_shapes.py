"""Shapes that change on a real device: plans are made, undone and taken up again."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices import NAMES, device
from test_delegates_control import branches, doubling, ones, run_loop
from test_device_failures import X, chain, faulty

from litedelegate import BuildError, Interpreter
from litedelegate.delegates.opencl import OpenCLDelegate


@pytest.fixture(params=list(NAMES))
def delegate(request: pytest.FixtureRequest, tmp_path: Path) -> OpenCLDelegate:
    found = device(request.param)
    return OpenCLDelegate(found.device.platform.name.strip(), cache=tmp_path, costs="none")


def counted(delegate: OpenCLDelegate, calls: list[str]) -> Any:
    return faulty(delegate, lambda name, args: calls.append(name))


def right(interpreter: Interpreter, rows: int) -> None:
    x = X[0, :rows]
    np.testing.assert_allclose(interpreter.run({"x": x})["y"], np.exp(-x).sum(1), rtol=1e-5)


def test_shapes_seen_before_are_not_built_again(delegate: OpenCLDelegate) -> None:
    calls: list[str] = []
    interpreter = Interpreter(model_content=chain(), delegates=[counted(delegate, calls)])
    for rows in (7, 3):
        right(interpreter, rows)
    builds = calls.count("build")
    for rows in (7, 3, 3, 7):
        right(interpreter, rows)
    assert builds == calls.count("build") == 2
    right(interpreter, 5)
    assert calls.count("build") == 3
    report = interpreter.delegate_coverage()
    assert {n.placed_on for n in report.nodes} == {"opencl"}
    assert report.partitions[0].bytes_in == 5 * 5 * 19 * 4


def test_resized_without_a_run_between(delegate: OpenCLDelegate) -> None:
    interpreter = Interpreter(model_content=chain(), delegates=[delegate])
    for rows in (7, 2, 7, 4):
        interpreter.resize_tensor_input(0, (rows, 5, 19))
        interpreter.allocate_tensors()
    right(interpreter, 4)
    with pytest.raises(RuntimeError, match=r"axes|axis|shape|rank"):
        interpreter.run({"x": np.zeros(3, np.float32)})
    right(interpreter, 4)  # the plan is as it was before


def test_a_shape_that_does_not_build_leaves_the_others(delegate: OpenCLDelegate) -> None:
    struck: list[bool] = []

    def hook(name: str, args: tuple[Any, ...]) -> None:
        if struck and name == "build":
            raise BuildError("this shape is too much")

    interpreter = Interpreter(model_content=chain(), delegates=[faulty(delegate, hook)])
    right(interpreter, 7)
    struck.append(True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        right(interpreter, 3)
        assert len(interpreter.delegate_coverage().on_cpu) == 3
        right(interpreter, 7)
    assert not interpreter.delegate_coverage().on_cpu


def test_loops_and_branches(delegate: OpenCLDelegate) -> None:
    """The second loop has a body whose tensor grows while it runs: numpy has it where it does."""
    for grow in (False, True):
        interpreter = Interpreter(model_content=doubling(grow), delegates=[delegate])
        for times in (3, 1, 4, 0, 2):
            want = 2**times * ones(2 * 2**times if grow else 2)
            np.testing.assert_array_equal(run_loop(interpreter, times), want)
        report = interpreter.delegate_coverage()
        assert all(n.refusals for n in report.on_cpu)
        assert grow or "ADD" in {n.op for n in report.nodes if n.placed_on == "opencl"}
    interpreter = Interpreter(model_content=branches(), delegates=[delegate])
    for flag, want in ((True, 6), (False, 9), (True, 6)):
        got = interpreter.run({"c": np.array(flag), "x": 3 * ones(2)})["y"]
        np.testing.assert_array_equal(got, want * ones(2))


def test_strict_lets_the_plain_form_stand_in(delegate: OpenCLDelegate) -> None:
    """All nodes are where they were asked to be."""
    first = [True]

    def hook(name: str, args: tuple[Any, ...]) -> None:
        if name == "build" and first:
            first.clear()
            raise BuildError("too many registers")

    interpreter = Interpreter(
        model_content=chain(), delegates=[faulty(delegate, hook)], strict=True
    )
    with pytest.warns(UserWarning, match="built unfused.*too many registers"):
        right(interpreter, 7)
    assert not interpreter.delegate_coverage().on_cpu
