"""Whatever a delegate does, the model runs as without it, and the report says what happened."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from fake_delegates import Fake
from test_delegates import ones, zigzag

from litedelegate import (
    BuildError,
    Delegate,
    DelegateError,
    Interpreter,
    Kernel,
    ModelBuilder,
    OpError,
    Partition,
    Unavailable,
)
from litedelegate.runtime import find_delegates
from litedelegate.runtime.delegate import Refusal
from litedelegate.runtime.find_delegates import make_delegate
from litedelegate.runtime.simple_delegate import NO_CLAIM


def run(fake: Delegate, content: bytes | None = None, **options: Any) -> Interpreter:
    """Checks two invokes; what the user is warned of is not looked at here."""
    interpreter = Interpreter(model_content=content or zigzag(), delegates=[fake], **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for value in (1, 2):
            got = interpreter.run({"t0": np.full((1, 4), value, np.float32)})["t6"]
            np.testing.assert_array_equal(got, np.full((1, 4), 14 + 8 * value, np.float32))
    return interpreter


def reasons(interpreter: Interpreter) -> set[tuple[str, str]]:
    report = interpreter.delegate_coverage()
    return {(r.code, r.text) for n in report.on_cpu for r in n.refusals}


def test_prepare_raises_after_it_has_replaced() -> None:
    fake = Fake()
    fake.strikes["prepare"] = RuntimeError("no luck")
    with pytest.warns(UserWarning, match="fake is not used for subgraph 0: .* no luck"):
        interpreter = Interpreter(model_content=zigzag(), delegates=[fake])
        interpreter.allocate_tensors()
    assert interpreter._graph.subgraphs[0].execution_plan == [0, 1, 2, 3, 4, 5]
    assert reasons(interpreter) == {("BUILD_FAILED", "prepare raised RuntimeError: no luck")}
    assert interpreter.delegate_coverage().totals.not_used == {
        "fake": "prepare raised RuntimeError: no luck"
    }
    assert [k.freed for k in fake.kernels] == [1]
    run(fake)


@pytest.mark.parametrize("says", [RuntimeError("lost"), 7])
def test_describe_fails(says: Any) -> None:
    """The report is there, with why the delegate says nothing."""

    class Mute(Fake):
        def describe(self) -> dict[str, str]:
            if isinstance(says, Exception):
                raise says
            return says  # type: ignore[no-any-return]

    report = run(Mute()).delegate_coverage()
    assert report.totals.delegated == {"fake": 6}
    assert "raised" in report.totals.delegates["fake"]["describe"]
    assert "raised" in report.to_html()


def test_lower_forgets_to_return() -> None:
    class Forgetful(Fake):
        def lower(self, node: Any, registration: Any) -> Any:
            if node.op == "ADD":
                super().lower(node, registration)
            else:
                return super().lower(node, registration)

    fake = Forgetful()
    interpreter = Interpreter(model_content=zigzag(), delegates=[fake])
    assert interpreter.run({"t0": ones(1, 4)})["t6"][0, 0] == 22
    refused = [n for n in interpreter.delegate_coverage().nodes if n.placed_on == "cpu"]
    assert {n.op for n in refused} == {"ADD"}
    assert reasons(interpreter) == {("BUILD_FAILED", NO_CLAIM)}


@pytest.mark.parametrize("limit", ["max_delegated_partitions", "min_nodes_per_partition"])
def test_limits_that_are_no_numbers(limit: str) -> None:
    fake = Fake(**{limit: "2"})
    with pytest.warns(UserWarning, match=f"{limit} is a whole number, not '2'"):
        Interpreter(model_content=zigzag(), delegates=[fake]).allocate_tensors()


def test_lower_raises_something_else() -> None:
    fake = Fake()
    fake.strikes["lower"] = KeyError("padding")
    interpreter = run(fake)
    assert reasons(interpreter) == {("BUILD_FAILED", "lower raised KeyError: 'padding'")}


def test_build_raises_for_one_partition_of_three() -> None:
    fake = Fake("MUL")

    def build(partition: Partition) -> None:
        if partition.indices == (3,):
            raise MemoryError("1 GB")

    fake.strikes["build"] = build
    interpreter = run(fake)
    report = interpreter.delegate_coverage()
    assert [n.placed_on for n in report.nodes] == ["cpu", "fake", "cpu", "cpu", "cpu", "fake"]
    assert [(r.code, r.text) for r in report.nodes[3].refusals] == [
        ("BUILD_FAILED", "MemoryError: 1 GB")
    ]
    assert fake.log.count("build") == 3  # what was built was not built again


def test_build_blames_a_node_and_the_rest_is_partitioned_again() -> None:
    fake = Fake()

    def build(partition: Partition) -> None:
        if 2 in partition.indices:
            raise BuildError("register pressure", [2])

    fake.strikes["build"] = build
    interpreter = run(fake)
    report = interpreter.delegate_coverage()
    assert [p.nodes for p in report.partitions] == [(0, 1), (3, 4, 5)]
    assert reasons(interpreter) == {("BUILD_FAILED", "BuildError: register pressure")}


class Unfused(Fake):
    def build_unfused(self, partition: Partition) -> Kernel | None:
        del self.strikes["build"]
        return self.build(partition)


def test_a_fused_build_that_fails_is_tried_unfused() -> None:
    fake = Unfused()
    fake.strikes["build"] = RuntimeError("too many arguments")
    interpreter = Interpreter(model_content=zigzag(), delegates=[fake])
    with pytest.warns(UserWarning, match="built unfused.*too many arguments"):
        interpreter.allocate_tensors()
    assert not interpreter.delegate_coverage().on_cpu


def test_attach_raises() -> None:
    fake = Fake("MUL")
    fake.strikes["attach"] = RuntimeError("misaligned")
    interpreter = run(fake)
    assert {t for c, t in reasons(interpreter) if c == "BUILD_FAILED"} == {
        "attach raised RuntimeError: misaligned"
    }
    assert not interpreter.delegate_coverage().partitions
    assert all(k.freed == 1 for k in fake.kernels)


@pytest.mark.parametrize("error", [RuntimeError("device lost"), ValueError("wrong shape")])
def test_a_fault_in_mid_invoke_runs_the_whole_invoke_again(error: Exception) -> None:
    fake = Fake("MUL")

    def lose(node: Any) -> None:
        if node.index == 3:
            raise error

    fake.strikes["invoke"] = lose
    interpreter = Interpreter(model_content=zigzag(), delegates=[fake])
    with pytest.warns(UserWarning, match="fake is taken off.*run again without"):
        got = interpreter.run({"t0": ones(1, 4)})["t6"]
    np.testing.assert_array_equal(got, 22 * ones(1, 4))
    text = f"it failed while the model ran: {type(error).__name__}: {error}"
    assert reasons(interpreter) == {("DEVICE", text)}
    assert interpreter.delegate_coverage().totals.not_used == {"fake": text}
    assert interpreter.run({"t0": 2 * ones(1, 4)})["t6"][0, 0] == 30
    assert fake.log.count("invoke") == 2  # never asked again
    assert all(k.freed == 1 for k in fake.kernels)


class WrongShape(Kernel):
    def __init__(self, partition: Partition) -> None:
        self.partition = partition

    def invoke(self) -> None:
        np.copyto(self.partition.outputs[0].array, np.zeros((3, 7), np.float32))


class Wrong(Fake):
    def build(self, partition: Partition) -> Kernel:
        return WrongShape(partition)


def test_a_result_of_the_wrong_shape_is_a_fault() -> None:
    assert "could not broadcast" in reasons(run(Wrong())).pop()[1]


def test_another_delegate_goes_on_after_a_fault() -> None:
    faulty, sound = Fake("MUL", name="faulty"), Fake("ADD", "MUL", name="sound")
    faulty.strikes["invoke"] = RuntimeError("device lost")
    interpreter = Interpreter(model_content=zigzag(), delegates=[faulty, sound])
    with pytest.warns(UserWarning):
        assert interpreter.run({"t0": ones(1, 4)})["t6"][0, 0] == 22
    report = interpreter.delegate_coverage()
    assert {n.placed_on for n in report.nodes} == {"sound"}
    assert {r.code for n in report.nodes for r in n.refusals} == {"DEVICE"}


def test_values_that_no_one_can_take_are_the_users_error() -> None:
    fake = Fake()
    fake.strikes["invoke"] = OpError("index 7 is out of range")
    interpreter = Interpreter(model_content=zigzag(), delegates=[fake])
    with pytest.raises(RuntimeError, match="index 7 is out of range"):
        interpreter.run({"t0": ones(1, 4)})
    assert interpreter.delegates == (fake,)


def counter(second: str = "NEG") -> bytes:
    """count += x; y = -count: a variable that is written before the second node runs."""
    b = ModelBuilder()
    init = b.subgraph("main")
    start = b.subgraph("start")
    handle_kind = ("handle", (), "resource")
    zero = start.constant("zero", np.zeros(2, np.float32))
    h = start.op("VAR_HANDLE", [], handle_kind, shared_name="count")
    start.op("ASSIGN_VARIABLE", [h, zero], [])
    g = init
    x = g.input("x", (2,))
    g.op("CALL_ONCE", [], [], init_subgraph_index=1)
    h = g.op("VAR_HANDLE", [], handle_kind, shared_name="count")
    old = g.op("READ_VARIABLE", [h], ("old", (2,), "float32"))
    new = g.op("ADD", [old, x], ("new", (2,), "float32"))
    g.op("ASSIGN_VARIABLE", [h, new], [])
    now = g.op("READ_VARIABLE", [h], ("now", (2,), "float32"))
    g.outputs(g.op(second, [now], ("y", (2,), "float32")))
    return b.build()


@pytest.mark.parametrize("faulty_invoke", [0, 1])
def test_a_fault_leaves_variables_as_one_invoke_does(faulty_invoke: int) -> None:
    fake = Fake("NEG")
    interpreter = Interpreter(model_content=counter(), delegates=[fake])
    for i in range(3):
        if i == faulty_invoke:
            fake.strikes["invoke"] = RuntimeError("device lost")
            with pytest.warns(UserWarning, match="taken off"):
                got = interpreter.run({"x": ones(2)})["y"]
        else:
            got = interpreter.run({"x": ones(2)})["y"]
        np.testing.assert_array_equal(got, -(i + 1) * ones(2))
    assert "NEG" in {n.op for n in interpreter.delegate_coverage().on_cpu}


@pytest.mark.parametrize("step", ["prepare", "attach", "invoke"])
def test_strict_lets_failures_through(step: str) -> None:
    fake = Fake()
    fake.strikes[step] = RuntimeError("no luck")
    interpreter = Interpreter(model_content=zigzag(), delegates=[fake], strict=True)
    with pytest.raises(RuntimeError, match="no luck"):
        interpreter.run({"t0": ones(1, 4)})


def test_strict_refuses_nodes_on_the_cpu_but_for_those_the_user_keeps_there() -> None:
    strict = Interpreter(model_content=zigzag(), delegates=[Fake("MUL")], strict=True)
    with pytest.raises(DelegateError, match=r"3 nodes .* left to numpy\nnode 0 \(ADD\): fake: OP"):
        strict.allocate_tensors()
    run(Fake("MUL"), strict=True, exclude=["ADD"])


def test_strict_and_one_too_many() -> None:
    interpreter = Interpreter(model_content=zigzag(), strict=True)
    interpreter.allocate_tensors()
    with pytest.raises(DelegateError):
        interpreter.modify_graph_with_delegate(Fake("MUL"))
    interpreter.set_tensor(0, ones(1, 4))
    interpreter.invoke()
    assert interpreter.delegates == ()


# -- names


def no_device() -> Delegate:
    raise Unavailable("no GPU: looked for libcuda.so.1; install the driver")


def make_fake() -> Delegate:
    return Fake("ADD")


def test_a_delegate_by_module_and_attribute() -> None:
    name = f"{__name__}:make_fake"
    interpreter = Interpreter(model_content=zigzag(), delegates=[name])
    assert [d.name for d in interpreter.delegates] == ["fake"]
    with pytest.raises(ValueError, match="made 0, which is no `Delegate`"):
        make_delegate("builtins:int")
    with pytest.raises(ValueError, match="cannot be made: ModuleNotFoundError"):
        make_delegate("no_such_module:x")


def test_unavailable_is_an_error_or_a_fallback() -> None:
    name = f"{__name__}:no_device"
    with pytest.raises(ValueError, match=r"Unavailable: no GPU: looked for libcuda.so.1; install"):
        Interpreter(model_content=zigzag(), delegates=[name])
    with pytest.warns(UserWarning, match="no GPU") as caught:
        interpreter = Interpreter(
            model_content=zigzag(), delegates=[name], on_unavailable="fallback"
        )
    assert [w.filename for w in caught] == [__file__]  # at the user's line
    assert f"What {name} would have run of 6 nodes (3 ADD, 3 MUL) is left to others" in str(
        caught[0].message
    )
    assert interpreter.run({"t0": ones(1, 4)})["t6"][0, 0] == 22
    ((code, text),) = reasons(interpreter)
    assert code == "UNAVAILABLE" and "install the driver" in text
    with pytest.raises(ValueError, match="on_unavailable is"):
        Interpreter(model_content=zigzag(), on_unavailable="maybe")


def test_auto_takes_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is enough, even where errors are asked for; none is an error only there."""
    name = f"{__name__}:no_device"
    monkeypatch.setattr(find_delegates, "AUTO", (name, "fake_delegates:Fake"))
    for asked in (None, "fallback", "error"):
        interpreter = Interpreter(model_content=zigzag(), delegates=["auto"], on_unavailable=asked)
        assert interpreter.delegate_coverage().totals.delegated == {"fake": 6}
    monkeypatch.setattr(find_delegates, "AUTO", (name,))
    interpreter = Interpreter(model_content=zigzag(), delegates=["auto"])
    assert interpreter.delegate_coverage().totals.delegated == {}
    with pytest.raises(ValueError, match="no GPU: looked for"):
        Interpreter(model_content=zigzag(), delegates=["auto"], on_unavailable="error")


def test_strict_and_none_is_there() -> None:
    """A missing delegate is no reason to run on the CPU silently."""
    name = f"{__name__}:no_device"
    with pytest.warns(UserWarning, match="no GPU"):
        interpreter = Interpreter(
            model_content=zigzag(), delegates=[name], on_unavailable="fallback", strict=True
        )
    with pytest.raises(DelegateError, match=r"6 nodes of subgraph 0 .*\n.*UNAVAILABLE: .*no GPU"):
        interpreter.allocate_tensors()
    with pytest.warns(UserWarning, match="no GPU"):
        interpreter = Interpreter(
            model_content=zigzag(),
            delegates=[name, Fake()],
            on_unavailable="fallback",
            strict=True,
        )
    assert interpreter.run({"t0": ones(1, 4)})["t6"][0, 0] == 22


def test_auto_never_fails() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        interpreter = Interpreter(model_content=zigzag(), delegates=["auto"])
    report = interpreter.delegate_coverage()
    assert all(n.refusals for n in report.on_cpu)
    assert set(report.totals.not_used) | {d.name for d in interpreter.delegates} >= {"cuda"}


def test_what_is_no_delegate() -> None:
    with pytest.raises(TypeError, match="a delegate is a name or a `Delegate`, not 3"):
        Interpreter(model_content=zigzag(), delegates=[3])
    with pytest.raises(ValueError, match="'NONSENSE' is no code"):
        Refusal(0, "ADD", "NONSENSE", "", "fake")
