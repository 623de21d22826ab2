"""Delegates: what they are given, in which order, and what an interpreter makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import toy_models
from fake_delegates import Fake, Greedy
from hypothesis import given
from hypothesis import strategies as st
from test_engine import graphs, values

from litedelegate import (
    BuiltinOpResolver,
    Delegate,
    DelegateContext,
    Interpreter,
    InterpreterBuilder,
    Kernel,
    Model,
    ModelBuilder,
    Partition,
    TensorSpec,
)
from litedelegate.kernels.types import DType
from litedelegate.runtime.cost import NUMPY, CostProfile


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def zigzag(length: int = 6) -> bytes:
    """t0 + 1, * 2, + 1, * 2 …: tensors t0 to t<length>."""
    b = ModelBuilder()
    g = b.subgraph()
    t = g.input("t0", (1, 4), shape_signature=(-1, 4))
    operands = {"ADD": g.constant("one", ones(1)), "MUL": g.constant("two", 2 * ones(1))}
    for i in range(length):
        op = ("ADD", "MUL")[i % 2]
        t = g.op(op, [t, operands[op]], (f"t{i + 1}", (1, 4), "float32"))
    g.outputs(t)
    return b.build()


def plan(interpreter: Interpreter, subgraph: int = 0) -> list[int]:
    interpreter.delegate_coverage()
    return list(interpreter._graph.subgraphs[subgraph].execution_plan)


@given(graphs(), st.sets(st.sampled_from(["ADD", "MUL", "NEG", "RELU", "SUB"])), st.booleans())
def test_results_do_not_depend_on_who_computes(
    graph: tuple[bytes, int], ops: set[str], preserve: bool
) -> None:
    content, count = graph
    given_values = values(count, 2, 0)
    want = Interpreter(model_content=content).run(given_values)
    fakes = [Fake(*sorted(ops)), Fake("MAXIMUM", "ABS", name="second")] if ops else [Fake()]
    with Interpreter(
        model_content=content, delegates=fakes, experimental_preserve_all_tensors=preserve
    ) as interpreter:
        for _ in range(2):
            got = interpreter.run(given_values)
            for name, array in want.items():
                np.testing.assert_array_equal(got[name], array)
        report = interpreter.delegate_coverage()
        for node in report.nodes:
            taken = [f.name for f in fakes if node.op in f.ops]
            assert node.placed_on == "folded" or node.placed_on == (taken or ["cpu"])[0]
            assert node.placed_on != "cpu" or [r.delegate for r in node.refusals] == [
                f.name for f in fakes
            ]
    assert all(k.freed == 1 for f in fakes for k in f.kernels)


def test_the_plan_changes_and_nodes_do_not() -> None:
    interpreter = Interpreter(model_content=toy_models.chain(), delegates=[Fake()])
    subgraph = interpreter._graph.subgraphs[0]
    before = list(subgraph.nodes)
    assert plan(interpreter) == [4]
    assert subgraph.nodes == before and len(interpreter.nodes) == 4
    assert interpreter.memory.tensors == 2 * 4000  # the ends alone


def test_without_delegates_there_is_no_report_of_any() -> None:
    report = Interpreter(model_content=toy_models.chain(), delegates=[]).delegate_coverage()
    assert [n.placed_on for n in report.nodes] == ["cpu"] * 4
    assert not report.partitions and not report.totals.not_used


def test_each_delegate_gets_what_those_before_left() -> None:
    first, second = Fake("ADD", name="first"), Fake("ADD", "MUL", name="second")
    interpreter = Interpreter(model_content=zigzag(3), delegates=[first, second])
    report = interpreter.delegate_coverage()
    assert [n.placed_on for n in report.nodes] == ["first", "second", "first"]
    assert [(r.delegate, r.code) for r in report.nodes[1].refusals] == [("first", "OP")]
    np.testing.assert_array_equal(interpreter.run({"t0": ones(1, 4)})["t3"], 5 * ones(1, 4))


def test_one_can_be_added_after_construction() -> None:
    interpreter = Interpreter(model_content=zigzag(3))
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, 3 * ones(1, 4))
    interpreter.modify_graph_with_delegate(Fake("MUL"))
    interpreter.invoke()  # still allocated, the input still set
    np.testing.assert_array_equal(interpreter.get_tensor(5), 9 * ones(1, 4))
    assert plan(interpreter) == [0, 3, 2]
    interpreter.modify_graph_with_delegate(Fake("ADD", name="another"))
    assert plan(interpreter) == [4, 3, 5]
    assert [d.name for d in interpreter.delegates] == ["fake", "another"]


def test_interpreters_from_a_builder_have_them() -> None:
    builder = InterpreterBuilder(Model.from_buffer(zigzag()), BuiltinOpResolver())
    builder.add_delegate(Fake())
    interpreter = builder()
    assert interpreter.run({"t0": ones(1, 4)})["t6"][0, 0] == 22
    assert plan(interpreter) == [6]


def test_partitions_share_what_never_reaches_the_host() -> None:
    """a goes to NEG on the host and to the second partition, m to the second partition alone."""
    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (2,))
    a = g.op("ADD", [x, x], ("a", (2,), "float32"))
    m = g.op("MUL", [a, x], ("m", (2,), "float32"))
    n = g.op("NEG", [a], ("n", (2,), "float32"))
    g.outputs(g.op("ADD", [m, n], ("y", (2,), "float32")))
    fake = Fake("ADD", "MUL")
    interpreter = Interpreter(model_content=b.build(), delegates=[fake])
    np.testing.assert_array_equal(interpreter.run({"x": ones(2) * 3})["y"], ones(2) * 12)
    first, second = (k.partition for k in fake.kernels)
    assert (first.host_inputs, first.host_outputs) == ({x.index}, {a.index})
    assert [t.name for t in first.outputs] == ["a", "m"]
    assert second.host_inputs == {n.index}
    assert first.shared is second.shared


def test_kept_tensors_reach_the_host() -> None:
    interpreter = Interpreter(model_content=toy_models.chain(), delegates=[Fake()], keep=["t2"])
    interpreter.run({"t0": ones(1, 1000)})
    two = next(t["index"] for t in interpreter.get_tensor_details() if t["name"] == "t2")
    np.testing.assert_array_equal(interpreter.get_tensor(two), 3 * ones(1, 1000))
    with pytest.raises(ValueError, match="is an intermediate"):
        interpreter.get_tensor(two - 1)


def test_a_resize_asks_anew_and_shapes_seen_before_are_kept() -> None:
    fake = Fake()
    interpreter = Interpreter(model_content=zigzag(), delegates=[fake])
    for rows in (1, 2, 1, 2, 3, 1):
        got = interpreter.run({"t0": ones(rows, 4)})["t6"]
        np.testing.assert_array_equal(got, np.full((rows, 4), 22, np.float32))
    assert fake.log.count("prepare") == fake.log.count("build") == 3
    for rows in range(4, 14):
        interpreter.run({"t0": ones(rows, 4)})
    assert sum(k.freed for k in fake.kernels) == len(fake.kernels) - 8
    interpreter.close()
    assert all(k.freed == 1 for k in fake.kernels)


def test_clones_have_kernels_of_their_own() -> None:
    fake = Fake()
    first = Interpreter(model_content=zigzag(), delegates=[fake])
    second = first.clone()
    for interpreter in (first, second):
        assert interpreter.run({"t0": ones(1, 4)})["t6"][0, 0] == 22
    first.close()
    assert [k.freed for k in fake.kernels] == [1, 0]
    assert second.run({"t0": ones(1, 4)})["t6"][0, 0] == 22


def test_profiles_and_details_know_partitions() -> None:
    interpreter = Interpreter(model_content=zigzag(), delegates=[Fake("MUL"), Curious()])
    interpreter.allocate_tensors()
    with interpreter.profile() as profile:
        interpreter.invoke()
    assert [n.op for n in profile.nodes()] == ["ADD", "fake (1 node)"] * 3
    assert len(interpreter._get_ops_details()) == 6
    assert interpreter.get_tensor_details()[-1]["name"] == "scratch"


def test_all_signatures_are_reported() -> None:
    interpreter = Interpreter(model_content=toy_models.two_signatures(), delegates=[Fake("ADD")])
    report = interpreter.delegate_coverage()
    assert [(n.subgraph, n.placed_on) for n in report.nodes] == [(0, "fake"), (1, "cpu")]
    assert report.nodes[1].refusals[0].code == "OP"


# -- choice


def test_only_and_exclude() -> None:
    def placed(**picks: Any) -> str:
        with Interpreter(model_content=zigzag(), delegates=[Fake()], **picks) as interpreter:
            report = interpreter.delegate_coverage()
        for n in report.on_cpu:
            (reason,) = n.refusals
            assert reason.code == "POLICY" and "the user said no" in reason.text
        return "".join("-D"[n.placed_on == "fake"] for n in report.nodes)

    assert placed(exclude=["ADD"]) == "-D-D-D"
    assert placed(only=[1, "t4", "t6"]) == "-D-D-D"
    assert placed(only=["MUL"], exclude=[3]) == "-D---D"
    assert placed(only=[]) == "------"
    with pytest.raises(ValueError, match="'t77' is no node's number"):
        placed(exclude=["t77"])
    for wrong in ("ADD", 3):
        with pytest.raises(TypeError, match=f"only is a list .*, not {wrong!r}"):
            placed(only=wrong)
    for wrong in (None, True, 1.0):
        with pytest.raises(TypeError, match=f"exclude: {wrong!r} is neither a node's number nor"):
            placed(exclude=[wrong])


def test_limits_on_partitions() -> None:
    # ADD MUL NEG ADD NEG MUL ADD ADD
    b = ModelBuilder()
    g = b.subgraph()
    t = g.input("x", (4,))
    for i, op in enumerate(("ADD", "MUL", "NEG", "ADD", "NEG", "MUL", "ADD", "ADD")):
        t = g.op(op, [t] if op == "NEG" else [t, t], (f"t{i}", (4,), "float32"))
    g.outputs(t)

    def placed(**limits: int) -> str:
        fake = Fake("ADD", "MUL", **limits)
        with Interpreter(model_content=b.build(), delegates=[fake]) as interpreter:
            report = interpreter.delegate_coverage()
        assert all(r.code in ("OP", "POLICY") for n in report.on_cpu for r in n.refusals)
        assert all(n.refusals for n in report.on_cpu)
        return "".join("-D"[n.placed_on == "fake"] for n in report.nodes)

    assert placed() == "DD-D-DDD"
    assert placed(min_nodes_per_partition=2) == "DD---DDD"
    assert placed(max_delegated_partitions=1) == "-----DDD"
    assert placed(max_delegated_partitions=-1) == placed(max_delegated_partitions=0)
    assert placed(min_nodes_per_partition=4) == "--------"


def test_partitions_that_do_not_pay_are_dropped_with_the_numbers() -> None:
    free = CostProfile("free", 1e15, 1e15, 0.0)
    dear = CostProfile("dear", 1e15, 1e15, 0.0, per_transfer=1.0)
    for profile, places in ((free, {"fake"}), (dear, {"cpu"})):
        fake = Fake(profile=profile, host_profile=NUMPY)
        report = Interpreter(model_content=zigzag(), delegates=[fake]).delegate_coverage()
        assert {n.placed_on for n in report.nodes} == places
    (reason,) = report.nodes[0].refusals
    assert reason.code == "POLICY"
    assert "a partition of 6 nodes does not pay" in reason.text
    assert "2000000.0 µs to move data" in reason.text


# -- dynamic tensors


def test_the_static_part_of_a_dynamic_model_is_delegated() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    x, shape = g.input("x", (4,)), g.input("shape", (2,), "int32")
    a = g.op("ADD", [x, x], ("a", (4,), "float32"))
    r = g.op("RESHAPE", [a, shape], ("r", (2, 2), "float32"))
    g.outputs(g.op("NEG", [r], ("y", (2, 2), "float32")))
    interpreter = Interpreter(model_content=b.build(), delegates=[Fake()])
    got = interpreter.run({"x": ones(4), "shape": np.array([4, 1], np.int32)})["y"]
    np.testing.assert_array_equal(got, -2 * ones(4, 1))
    report = interpreter.delegate_coverage()
    assert [n.placed_on for n in report.nodes] == ["fake", "cpu", "cpu"]
    (reason,) = report.nodes[2].refusals
    assert reason.code == "DYNAMIC"
    assert "input 0 'r'" in reason.text and "node 1 (RESHAPE) makes it" in reason.text


class Flexible(Delegate):
    """Takes NEG, whatever its shape turns out to be."""

    name = "flexible"
    allows_dynamic_tensors = True

    def prepare(self, context: DelegateContext) -> None:
        class Negate(Kernel):
            def __init__(self, partition: Partition) -> None:
                (self.x,), (self.y,) = partition.inputs, partition.outputs

            def invoke(self) -> None:
                if self.y.is_dynamic:
                    context.resize(self.y, self.x.shape)
                np.negative(self.x.array, out=self.y.array)

        taken = [
            i for i in context.candidates() if context.get_node_and_registration(i)[0].op == "NEG"
        ]
        context.replace_node_subsets_with_delegate_kernels(taken, Negate)


def test_a_delegate_may_take_dynamic_tensors() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    x, shape = g.input("x", (4,)), g.input("shape", (2,), "int32")
    r = g.op("RESHAPE", [x, shape], ("r", (2, 2), "float32"))
    n = g.op("NEG", [r], ("n", (2, 2), "float32"))
    g.outputs(g.op("ADD", [n, n], ("y", (2, 2), "float32")))
    interpreter = Interpreter(model_content=b.build(), delegates=[Flexible()])
    for rows, columns in ((4, 1), (2, 2), (1, 4)):
        dims = np.array([rows, columns], np.int32)
        got = interpreter.run({"x": ones(4), "shape": dims})["y"]
        np.testing.assert_array_equal(got, -2 * ones(rows, columns))
    report = interpreter.delegate_coverage()
    assert [n.placed_on for n in report.nodes] == ["cpu", "flexible", "cpu"]


# -- the context's calls


class Curious(Delegate):
    """Looks at all there is."""

    name = "curious"

    def prepare(self, context: DelegateContext) -> None:
        assert context.subgraph_index == 0
        (self.scratch,) = context.add_tensors([TensorSpec((7,), DType.INT8, name="scratch")])
        assert context.num_tensors == self.scratch + 1
        assert context.tensor(self.scratch).name == "scratch"
        if context.get_execution_plan() != [0, 1, 2, 3, 4, 5]:  # another one was there before
            return
        node, registration = context.get_node_and_registration(1)
        assert (node.op, registration.name, node.spec.inputs[1].const) == ("MUL", "MUL", [2])
        with pytest.raises(ValueError, match=r"nodes \[77\] are not among the candidates"):
            context.preview_delegate_partitioning([77])
        previews = context.preview_delegate_partitioning([1, 3, 4])
        assert [p.indices for p in previews] == [(1,), (3, 4)]
        assert context.get_execution_plan() == [0, 1, 2, 3, 4, 5]


def test_what_a_delegate_can_see_and_add() -> None:
    curious = Curious()
    interpreter = Interpreter(model_content=zigzag(), delegates=[curious])
    assert interpreter.run({"t0": ones(1, 4)})["t6"][0, 0] == 22
    assert interpreter._graph.subgraphs[0].tensors[curious.scratch].array.shape == (7,)
    report = interpreter.delegate_coverage()
    assert {r.text for n in report.nodes for r in n.refusals} == {
        "curious did not ask for it and gave no reason"
    }
    assert not report.totals.not_used


def test_the_plain_interface() -> None:
    interpreter = Interpreter(model_content=zigzag(), delegates=[Greedy()])
    assert interpreter.run({"t0": ones(1, 4)})["t6"][0, 0] == 22
    assert plan(interpreter) == [6]


class Twice(Delegate):
    name = "twice"

    def prepare(self, context: DelegateContext) -> None:
        for _ in range(2):
            context.replace_node_subsets_with_delegate_kernels([0], lambda p: Kernel())


def test_replacing_twice_restores_the_plan() -> None:
    with pytest.warns(UserWarning, match="twice is not used .* were replaced already"):
        interpreter = Interpreter(model_content=zigzag(), delegates=[Twice()])
        assert interpreter.run({"t0": ones(1, 4)})["t6"][0, 0] == 22
    assert plan(interpreter) == [0, 1, 2, 3, 4, 5]


def test_delegates_of_one_name_are_told_apart() -> None:
    """What one refuses, is barred from or fails at is not said of the other."""
    first, second = Fake("ADD"), Fake("ADD", "MUL")
    with Interpreter(model_content=zigzag(), delegates=[first, second]) as interpreter:
        report = interpreter.delegate_coverage()
        assert [n.placed_on for n in report.nodes] == ["fake", "fake#2"] * 3
        assert [p.delegate for p in report.partitions] == ["fake"] * 3 + ["fake#2"] * 3
        assert report.totals.delegated == {"fake": 3, "fake#2": 3}
        assert list(report.totals.delegates) == ["fake", "fake#2"]
        (reason,) = report.nodes[1].refusals
        assert (reason.delegate, reason.code) == ("fake", "OP")
        first.strikes["invoke"] = RuntimeError("lost")
        with pytest.warns(UserWarning, match="the delegate fake is taken off"):
            interpreter.run({"t0": ones(1, 4)})
        report = interpreter.delegate_coverage()
        assert {n.placed_on for n in report.nodes} == {"fake#2"}  # not taken for the one that left
        assert "lost" in report.totals.not_used["fake"]
        interpreter.modify_graph_with_delegate(Fake())
        assert list(interpreter.delegate_coverage().totals.delegates) == ["fake#2", "fake#3"]


def test_a_wrong_result_is_held_against_its_own_delegate() -> None:
    first, second = Fake(), Fake()
    first.wrong[1] = lambda value, partition: value + 1
    with Interpreter(model_content=zigzag(), delegates=[first, second], verify=True) as checked:
        with pytest.warns(UserWarning, match="the delegate fake loses 1 node"):
            got = checked.run({"t0": ones(1, 4)})["t6"]
        np.testing.assert_array_equal(
            got, Interpreter(model_content=zigzag()).run({"t0": ones(1, 4)})["t6"]
        )
        places = [n.placed_on for n in checked.delegate_coverage().nodes]
        assert places == ["fake", "fake#2", "fake", "fake", "fake", "fake"]


def test_the_name_of_a_missing_delegate_is_no_others() -> None:
    with pytest.warns(UserWarning, match="no delegate named 'fake'"):
        interpreter = Interpreter(
            model_content=zigzag(), delegates=["fake", Fake()], on_unavailable="fallback"
        )
    report = interpreter.delegate_coverage()
    assert {n.placed_on for n in report.nodes} == {"fake#2"}
    assert list(report.totals.not_used) == ["fake"]
