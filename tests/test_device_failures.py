"""A claim is a promise, on a real device: each of its calls fails in turn, and the model runs.

The device is wrapped; every call, from the first buffer to the last wait, is one place to fail.
"""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices import NAMES, device
from test_delegate_failures import counter
from test_opencl import residual

from litedelegate import BuildError, DelegateError, Interpreter, ModelBuilder
from litedelegate.delegates.opencl import OpenCLDelegate

X = np.random.default_rng(6).standard_normal((1, 7, 5, 19)).astype(np.float32)


class Faulty:
    """A device whose `hook` is told the name of each call before it is made, and may raise."""

    def __init__(self, found: Any, hook: Callable[[str, tuple[Any, ...]], None]) -> None:
        self._found = found
        self._hook = hook

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._found, name)
        if not callable(value) or name.startswith("_"):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            self._hook(name, args)
            made = value(*args, **kwargs)
            # a recording is a call to come
            return self._later(made) if name == "record" else made

        return call

    def _later(self, replay: Callable[[], Any]) -> Callable[[], Any]:
        def call() -> Any:
            self._hook("replay", ())
            return replay()

        return call


@pytest.fixture(params=list(NAMES))
def delegate(request: pytest.FixtureRequest, tmp_path: Path) -> OpenCLDelegate:
    found = device(request.param)
    return OpenCLDelegate(found.device.platform.name.strip(), cache=tmp_path)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def faulty(delegate: OpenCLDelegate, hook: Callable[[str, tuple[Any, ...]], None]) -> Any:
    made = copy.copy(delegate)
    made.device = Faulty(delegate.device, hook)  # type: ignore[assignment]
    return made


def nothing(name: str, args: tuple[Any, ...]) -> None:
    pass


def life(delegate: Any, **options: Any) -> tuple[list[Any], Interpreter]:
    """Three invokes, the last one of another shape."""
    interpreter = Interpreter(model_content=chain(), delegates=[delegate], **options)
    results = [interpreter.run({"x": x})["y"] for x in (X[0], -X[0], X[0, :3])]
    for x in (X[0, :3],):  # inputs are as they were set
        np.testing.assert_array_equal(interpreter.get_tensor(0), x)
    return results, interpreter


def chain() -> bytes:
    """NEG, EXP and a sum over the rows, of any number of rows."""
    b = ModelBuilder()
    g = b.subgraph("main")
    rows = (-1, 5, 19)
    x = g.input("x", (7, 5, 19), shape_signature=rows)
    y = g.op("NEG", [x], ("n", (7, 5, 19), "float32", None, rows))
    y = g.op("EXP", [y], ("e", (7, 5, 19), "float32", None, rows))
    axes = g.constant("axes", np.array([1], np.int32))
    g.outputs(g.op("SUM", [y, axes], ("y", (7, 19), "float32", None, (-1, 19)), keep_dims=False))
    return b.build()


ERRORS: list[type[Exception]] = [RuntimeError, MemoryError, BuildError]


@pytest.mark.parametrize("error", ERRORS)
def test_each_call_fails_in_turn(delegate: OpenCLDelegate, error: type[Exception]) -> None:
    calls: list[str] = []
    want, _ = life(faulty(delegate, nothing))
    life(faulty(delegate, lambda name, args: calls.append(name)))
    assert {"allocate", "build", "record", "replay", "synchronise"} <= set(calls)
    for at in range(len(calls)):
        left = [at]

        def strike(name: str, args: tuple[Any, ...], left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1:
                raise error(f"lost in call {at} ({name})")  # noqa: B023

        got, interpreter = life(faulty(delegate, strike))
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, err_msg=f"{at} {calls[at]}")
        assert left[0] < 0, f"call {at} ({calls[at]}) was never made"
        report = interpreter.delegate_coverage()
        told = [r.text for n in report.nodes for r in n.refusals]
        told += report.totals.not_used.values()
        # where the plain form was built instead, nothing is refused; the last shape has its own
        assert all(f"lost in call {at}" in t for t in told), (calls[at], told)
        assert all(n.refusals for n in report.on_cpu)


@pytest.mark.parametrize("error", ERRORS)
def test_a_device_that_is_gone_for_good(delegate: OpenCLDelegate, error: type[Exception]) -> None:
    """From some call on each one fails."""
    calls: list[str] = []
    want, _ = life(faulty(delegate, lambda name, args: calls.append(name)))
    for at in range(0, len(calls), 3):
        left = [at]

        def strike(name: str, args: tuple[Any, ...], left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise error("gone")

        got, interpreter = life(faulty(delegate, strike))
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
        report = interpreter.delegate_coverage()
        assert {n.placed_on for n in report.nodes} == {"cpu"}
        assert all("gone" in r.text for n in report.nodes for r in n.refusals)


def test_state_is_that_of_one_invoke(delegate: OpenCLDelegate) -> None:
    calls: list[str] = []

    def run(hook: Callable[[str, tuple[Any, ...]], None]) -> None:
        interpreter = Interpreter(model_content=counter("EXP"), delegates=[faulty(delegate, hook)])
        for i in range(3):
            got = interpreter.run({"x": np.ones(2, np.float32)})["y"]
            np.testing.assert_allclose(got, np.exp((i + 1.0) * np.ones(2)), rtol=1e-5)

    run(lambda name, args: calls.append(name))
    for at in range(len(calls)):
        left = [at]

        def strike(name: str, args: tuple[Any, ...], left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1:
                raise RuntimeError("lost")

        run(strike)


def kernels(interpreter: Interpreter) -> list[str]:
    interpreter.allocate_tensors()
    return [k for p in interpreter.delegate_coverage().partitions for k in p.kernels]


def residual_with(delegate: Any, **options: Any) -> Interpreter:
    with Interpreter(model_content=residual()) as plain:
        want = plain.run({"x": X})["y"]
    interpreter = Interpreter(model_content=residual(), delegates=[delegate], **options)
    got = interpreter.run({"x": X})["y"]
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * np.abs(want).max())
    return interpreter


def test_fused_does_not_build_and_unfused_does(delegate: OpenCLDelegate) -> None:
    assert kernels(residual_with(delegate)) == ["CONV_2D+MUL+ADD+RELU6"]
    first = [True]

    def hook(name: str, args: tuple[Any, ...]) -> None:
        if name == "build" and first:
            first.clear()
            raise BuildError("too many registers")

    interpreter = residual_with(faulty(delegate, hook))
    assert kernels(interpreter) == ["CONV_2D", "MUL", "ADD", "RELU6"]
    assert not interpreter.delegate_coverage().on_cpu


def test_one_nodes_kernel_does_not_build(delegate: OpenCLDelegate) -> None:
    """The others stay, and what the compiler said stands beside the node."""

    def hook(name: str, args: tuple[Any, ...]) -> None:
        if name == "build" and "F_EXP" in args[0]:
            raise BuildError("error: no exponentials today")

    got, interpreter = life(faulty(delegate, hook))
    np.testing.assert_allclose(got[0], np.exp(-X[0]).sum(1), rtol=1e-5)
    report = interpreter.delegate_coverage()
    assert [n.placed_on for n in report.nodes] == ["opencl", "cpu", "opencl"]
    ((code, text),) = [(r.code, r.text) for r in report.nodes[1].refusals]
    assert code == "BUILD_FAILED" and "no exponentials today" in text


class Miscompiling(Faulty):
    """A compiler that takes one text for another."""

    def __init__(self, found: Any, old: str, new: str) -> None:
        super().__init__(found, nothing)
        self._texts = old, new

    def build(self, source: str, names: Any) -> Any:
        return self._found.build(source.replace(*self._texts), names)


def test_a_wrong_result_is_found_by_the_self_check(delegate: OpenCLDelegate) -> None:
    wrong = copy.copy(delegate)
    wrong.device = Miscompiling(delegate.device, "F_EXP(", "1.0f + F_EXP(")  # type: ignore[assignment]
    got, _ = life(wrong)
    assert np.abs(got[0] - np.exp(-X[0]).sum(1)).min() > 4  # nobody asked
    got, interpreter = life(wrong, verify=True)
    np.testing.assert_allclose(got[0], np.exp(-X[0]).sum(1), rtol=1e-5)
    assert [(d.node, d.op) for d in interpreter.differences] == [(1, "EXP")]
    report = interpreter.delegate_coverage()
    assert [n.placed_on for n in report.nodes] == ["opencl", "cpu", "opencl"]
    assert report.nodes[1].refusals[0].code == "DEVICE"
    assert "self-check" in report.nodes[1].refusals[0].text


def test_the_self_check_finds_nothing_where_all_is_right(delegate: OpenCLDelegate) -> None:
    _, interpreter = life(delegate, verify=2)
    assert interpreter.differences == ()
    assert kernels(residual_with(delegate, verify=2)) == ["CONV_2D+MUL+ADD+RELU6"]


def test_the_profile_shows_who_ran_after_a_fault(delegate: OpenCLDelegate) -> None:
    struck: list[bool] = []

    def hook(name: str, args: tuple[Any, ...]) -> None:
        if struck and name == "replay":
            raise RuntimeError("device lost")

    interpreter = Interpreter(model_content=chain(), delegates=[faulty(delegate, hook)])
    interpreter.run({"x": X[0]})
    with interpreter.profile() as before:
        interpreter.run({"x": X[0]})
    assert [n.op for n in before.nodes()] == ["opencl (3 nodes)"]
    struck.append(True)
    with interpreter.profile() as after:
        interpreter.run({"x": X[0]})
    assert {n.op for n in after.nodes()} == {"NEG", "EXP", "SUM"}
    ((_, note),) = after.notes
    assert "the delegate opencl is taken off" in note and "device lost" in note
    assert note in after.table() and note in json.loads(after.to_json())["notes"]
    events = json.loads(after.chrome_trace())["traceEvents"]
    assert [e["ph"] for e in events if e["name"] == note] == ["i"]
    assert before.notes == []


@pytest.mark.parametrize("call", ["allocate", "build", "replay"])
def test_strict(delegate: OpenCLDelegate, call: str) -> None:
    """A failure is an error, and says which; nothing falls back."""

    def hook(name: str, args: tuple[Any, ...]) -> None:
        if name == call:
            raise RuntimeError("device lost")

    expected = RuntimeError if call == "replay" else DelegateError
    with pytest.raises(expected, match="device lost"):
        life(faulty(delegate, hook), strict=True)
