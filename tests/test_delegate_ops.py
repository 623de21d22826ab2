"""Custom ops that only a delegate knows: `Delegate.find_op`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from litedelegate import Interpreter, Kernel, ModelBuilder, Registration, SimpleDelegate, custom_op


def model() -> bytes:
    """y = Triple(x) + 1."""
    b = ModelBuilder()
    g = b.subgraph("main")
    x, one = g.input("x", (3,)), g.constant("one", np.ones(1, np.float32))
    t = g.custom("Triple", [x], ("t", (1,), "float32"))
    g.outputs(g.op("ADD", [t, one], ("y", (1,), "float32")))
    return b.build()


class Tripling(SimpleDelegate):
    name = "tripling"

    def __init__(self, versions: tuple[int, ...] = (1,)) -> None:
        self.versions = versions
        self.asked: list[tuple[str, int]] = []

    def find_op(self, op: str, version: int) -> Registration | None:
        self.asked.append((op, version))
        if op != "Triple" or version not in self.versions:
            return None

        def prepare(context: Any, node: Any) -> None:
            context.resize(node.outputs[0], node.inputs[0].shape)

        return Registration(name=op, prepare=prepare, pure=True)

    def lower(self, node: Any, registration: Registration) -> Any:
        return True if node.op == "Triple" else self.refuse(node, "OP", f"got {node.op}")

    def build(self, partition: Any) -> Kernel:
        class Triples(Kernel):
            def invoke(self) -> None:
                (x,), (y,) = partition.inputs, partition.outputs
                np.multiply(x.array, 3, out=y.array)

        return Triples()


X = np.float32([1, 2, 3])


def test_a_delegate_brings_an_op() -> None:
    delegate = Tripling()
    with Interpreter(model_content=model(), delegates=[delegate]) as interpreter:
        found = interpreter.run({"x": X})
        assert found["y"].tolist() == [4, 7, 10]
        placed = [n.placed_on for n in interpreter.delegate_coverage().nodes]
    assert placed == ["tripling", "cpu"]
    assert delegate.asked == [("Triple", 1)]


def test_one_that_is_added_later() -> None:
    with Interpreter(model_content=model()) as interpreter:
        with pytest.raises(RuntimeError, match="unresolved custom op: Triple"):
            interpreter.allocate_tensors()
        interpreter.modify_graph_with_delegate(Tripling())
        assert interpreter.run({"x": X})["y"].tolist() == [4, 7, 10]


def test_a_resolver_goes_before_and_versions_count() -> None:
    delegate = Tripling()
    given = {"Triple": custom_op("Triple", shape="same")(lambda x: x * 30)}
    with Interpreter(
        model_content=model(), custom_ops=given, delegates=[delegate], exclude=["Triple"]
    ) as interpreter:
        assert interpreter.run({"x": X})["y"].tolist() == [31, 61, 91]
    assert delegate.asked == []
    interpreter = Interpreter(model_content=model(), delegates=[Tripling(versions=(2,))])
    with pytest.raises(RuntimeError, match="unresolved custom op: Triple"):
        interpreter.allocate_tensors()


def test_a_node_that_it_then_does_not_take() -> None:
    """It gave no `invoke`: nobody can run the node, and the error says which one."""
    interpreter = Interpreter(model_content=model(), delegates=[Tripling()], exclude=["Triple"])
    with pytest.raises(RuntimeError, match="Triple has neither invoke nor bind") as e:
        interpreter.allocate_tensors()
    assert "Node number 0 (Triple) failed to prepare" in str(e.value)


def test_an_init_that_fails() -> None:
    class Broken(Tripling):
        def find_op(self, op: str, version: int) -> Registration | None:
            def init(context: Any, options: Any) -> Any:
                raise RuntimeError("no room")

            return Registration(name=op, init=init)

    with pytest.raises(ValueError, match=r"Failed to initialize kernel\. RuntimeError: no room"):
        Interpreter(model_content=model(), delegates=[Broken()])
