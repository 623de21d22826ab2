"""Op resolvers: by enum, number and name, versions, overriding, selective registration."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_models

from litedelegate import (
    BuiltinOperator,
    BuiltinOpResolver,
    Interpreter,
    MutableOpResolver,
    Registration,
)
from litedelegate.kernels.builtins import FAMILIES, TABLES
from litedelegate.runtime.resolver import ChainedResolver


def named(name: str, low: int = 1, high: int = 1) -> Registration:
    return Registration(name=name, versions=(low, high))


def test_builtins_are_numbered_as_in_the_schema() -> None:
    assert BuiltinOperator.ADD == 0 and BuiltinOperator.CONV_2D == 3
    assert BuiltinOperator.CUSTOM == 32 and BuiltinOperator.STABLEHLO_COMPOSITE == 206
    assert len(BuiltinOperator) == 210


@pytest.mark.parametrize("op", [BuiltinOperator.ADD, 0, "ADD"])
def test_builtins_are_found_by_enum_number_and_name(op: Any) -> None:
    found = BuiltinOpResolver().find_op(op, 1)
    assert found is not None and found.name == "ADD" and not found.custom
    assert BuiltinOpResolver().find_op(op, 99) is None


def test_other_names_are_custom_ops() -> None:
    resolver = BuiltinOpResolver()
    detection = resolver.find_op("TFLite_Detection_PostProcess", 1)
    assert detection is not None and detection.custom
    assert resolver.find_op("Atan", 1) is None
    resolver.add_custom("Atan", named("Atan"))
    found = resolver.find_op("Atan", 1)
    assert found is not None and found.custom


def test_a_custom_op_may_have_a_builtins_name() -> None:
    resolver = MutableOpResolver()
    resolver.add_custom("ADD", named("mine"))
    assert resolver.find_op("ADD", 1) is None
    found = resolver.find_op("ADD", 1, custom=True)
    assert found is not None and found.name == "mine"


def test_numbers_that_are_no_builtin() -> None:
    with pytest.raises(ValueError, match="999 is no builtin"):
        BuiltinOpResolver().find_op(999)
    with pytest.raises(ValueError, match="add_custom"):
        MutableOpResolver().add_builtin("Atan", named("Atan"))
    with pytest.raises(ValueError, match="versions 2 to 1"):
        MutableOpResolver().add_builtin("ADD", named("ADD"), 2, 1)


def test_a_later_registration_replaces_an_earlier_one_of_the_same_version() -> None:
    resolver = MutableOpResolver()
    resolver.add_builtin("ADD", named("old"), 1, 5)
    resolver.add_builtin(BuiltinOperator.ADD, named("new"), 3, 4)
    names = [r.name if r else None for r in (resolver.find_op("ADD", v) for v in range(1, 7))]
    assert names == ["old", "old", "new", "new", "old", None]
    assert resolver.versions("ADD") == (1, 5)
    assert resolver.versions("MUL") is None


def test_add_all() -> None:
    one, two = MutableOpResolver(), MutableOpResolver()
    one.add_builtin("ADD", named("one"))
    one.add_custom("Foo", named("one"))
    two.add_builtin("ADD", named("two"))
    two.add_builtin("ADD", named("two again"))
    two.add_custom("Bar", named("two"))
    one.add_all(two)
    names = [r.name for r in (one.find_op(n, 1) for n in ("ADD", "Foo", "Bar")) if r]
    assert names == ["two again", "one", "two"]


def test_a_builtin_can_be_overridden() -> None:
    def prepare(context: Any, node: Any) -> None:
        context.resize(node.outputs[0], node.inputs[0].shape)

    def invoke(context: Any, node: Any) -> None:
        np.subtract(node.inputs[0].array, node.inputs[1].array, out=node.outputs[0].array)

    resolver = BuiltinOpResolver()
    resolver.add_builtin("ADD", Registration(prepare=prepare, invoke=invoke))
    x = np.ones((1, 4), np.float32)
    interpreter = Interpreter(model_content=toy_models.add(), op_resolver=resolver)
    assert interpreter.run({"a": x, "b": 3 * x})["sum"][0, 0] == 2
    others = Interpreter(model_content=toy_models.add())
    assert others.run({"a": x, "b": 3 * x})["sum"][0, 0] == 4


def test_chained_resolvers_are_asked_in_order() -> None:
    first = MutableOpResolver()
    first.add_builtin("ADD", named("mine"), 1, 2)
    chained = ChainedResolver(first, BuiltinOpResolver())
    names = [r.name for r in (chained.find_op("ADD", v) for v in (1, 2, 3)) if r]
    assert names == ["mine", "mine", "ADD"]
    own = BuiltinOpResolver().versions("ADD")
    assert own is not None and chained.versions("ADD") == own


def test_selective_registration() -> None:
    resolver = BuiltinOpResolver(only=["ADD"])
    assert resolver.find_op("ADD", 1) is not None
    assert resolver.find_op("MUL", 1) is None
    with pytest.raises(ValueError, match="no such op here: NOT_AN_OP"):
        BuiltinOpResolver(only=["ADD", "NOT_AN_OP"])
    with pytest.raises(ValueError, match="Didn't find op for builtin opcode 'MUL' version '1'"):
        Interpreter(model_content=toy_models.two_signatures(), op_resolver=resolver)


def test_a_resolver_of_one_op_imports_one_family(root: Path) -> None:
    """In a fresh process: what is not registered is not imported."""
    program = (
        "import sys, toy_models; from litedelegate import BuiltinOpResolver, Interpreter; "
        "i = Interpreter(model_content=toy_models.add(), op_resolver=BuiltinOpResolver(['ADD'])); "
        "i.allocate_tensors(); print(*sorted(m for m in sys.modules if 'litedelegate.kernels.' in "
        "m))"
    )
    path = f"{root / 'src'}:{root / 'tests'}"
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": path, "PATH": ""},
    )
    imported = {m.rpartition(".")[2] for m in run.stdout.split()}
    assert imported & {*FAMILIES, *TABLES} == {"arithmetic"}
