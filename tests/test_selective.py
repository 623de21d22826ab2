"""`litedelegate resolver`: a module with just the operators that models use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import toy_models
from click.testing import CliRunner
from flex_models import pack

from litedelegate import Interpreter, Model, ModelBuilder, MutableOpResolver
from litedelegate.cli.main import main
from litedelegate.runtime.selective import all_families, module_text, used_ops

NASTY = 'x"""\\ \u00e9'


def mixed() -> bytes:
    """Two versions of MUL, a branch's subgraphs, and custom ops: ours, Flex, unknown."""
    b = ModelBuilder()
    main_graph, yes, no = b.subgraph("main"), b.subgraph("yes"), b.subgraph("no")
    for branch, op in ((yes, "LOGISTIC"), (no, "NEG")):
        inner = branch.input("a", (1, 4))
        branch.outputs(branch.op(op, [inner], ("r", (1, 4), "float32")))
    go, x = main_graph.input("go", (), "bool"), main_graph.input("x", (1, 4))
    (y,) = main_graph.op("IF", [go, x], [("y", (1, 4), "float32")], then_subgraph_index=1,
                         else_subgraph_index=2)  # fmt: skip
    z = main_graph.op("MUL", [y, y], ("z", (1, 4), "float32"), version=1)
    z = main_graph.op("MUL", [z, y], ("z2", (1, 4), "float32"), version=3)
    shift, axis = (
        main_graph.constant("shift", np.int32([1])),
        main_graph.constant("axis", np.int32([1])),
    )
    z = main_graph.custom("Roll", [z, shift, axis], ("rolled", (1, 4), "float32"))
    z = main_graph.custom("FlexAtan", [z], ("f", (1, 4), "float32"), options=pack("Atan", b"-"))
    main_graph.outputs(main_graph.custom(NASTY, [z], ("own", (1, 4), "float32")))
    return b.build()


def made(text: str) -> MutableOpResolver:
    space: dict[str, object] = {}
    exec(compile(text, "made", "exec"), space)
    found = space["resolver"]()  # type: ignore[operator]
    assert isinstance(found, MutableOpResolver)
    return found


def test_ops_and_versions_of_all_subgraphs() -> None:
    ops = used_ops([Model.from_buffer(mixed())])
    text = module_text(ops, ["a.tflite", 'b".tflite'], "1")
    resolver = made(text)
    for op, version in (
        ("MUL", 1),
        ("MUL", 3),
        ("LOGISTIC", 1),
        ("NEG", 1),
        ("IF", 1),
        ("Roll", 1),
    ):
        assert resolver.find_op(op, version) is not None, op
    for op, version in (("MUL", 2), ("ADD", 1), ("FlexAtan", 1), (NASTY, 1)):
        assert resolver.find_op(op, version) is None, op
    assert "FlexAtan version 1: TensorFlow's; the Flex delegate runs it" in text
    assert "custom_ops=" in text and "Nothing that" not in text


def test_runs_as_with_all_ops(tmp_path: Path) -> None:
    model = mixed()
    names = [NASTY, "FlexAtan"]
    custom = {name: lambda x, options=None: x + 1 for name in names}
    text = module_text(used_ops([Model.from_buffer(model)]), ["m"], "1")
    inputs = {"go": np.bool_(True), "x": np.float32([[1, -2, 3, 0.5]])}
    results = []
    for resolver in (None, made(text)):
        with Interpreter(
            model_content=model, custom_ops=custom, op_resolver=resolver
        ) as interpreter:
            results.append(interpreter.run(inputs)["own"])
    np.testing.assert_array_equal(*results)


PROGRAM = """
import sys
import numpy as np
import of_my_models
families = {FAMILIES}
def loaded():
    names = [m.rpartition(".")[2] for m in sys.modules if m.startswith("litedelegate.kernels.")]
    return sorted(families.intersection(names))
assert loaded() == ["arithmetic"], loaded()
from litedelegate import Interpreter
with Interpreter("add.tflite", op_resolver=of_my_models.resolver()) as interpreter:
    one = np.ones((1, 4), np.float32)
    assert interpreter.run({"a": one, "b": one})["sum"].tolist() == [[2, 2, 2, 2]]
assert loaded() == ["arithmetic"], loaded()
try:
    with Interpreter("other.tflite", op_resolver=of_my_models.resolver()) as interpreter:
        interpreter.allocate_tensors()
except ValueError as error:
    assert "Didn't find op for builtin opcode 'RESHAPE' version '1'" in str(error), error
else:
    raise AssertionError("RESHAPE was left out")
assert loaded() == ["arithmetic"], loaded()
"""


def test_importing_it_imports_no_other_family(tmp_path: Path) -> None:
    (tmp_path / "add.tflite").write_bytes(toy_models.add())
    (tmp_path / "other.tflite").write_bytes(toy_models.quantised())
    done = CliRunner().invoke(
        main, ["resolver", str(tmp_path / "add.tflite"), "-o", str(tmp_path / "of_my_models.py")]
    )
    assert done.exit_code == 0, done.output
    assert "1 operator from 1 of " in done.output
    assert "not imported: " in done.output and ", conv," in done.output
    program = PROGRAM.replace("{FAMILIES}", repr(set(all_families())))
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_says_what_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(mixed())
    done = CliRunner().invoke(main, ["resolver", str(path)])
    assert done.exit_code == 0, done.output
    made(done.stdout)
    assert "left out: FlexAtan version 1: TensorFlow's" in done.stderr
    assert r"left out: x\"\"\"\\ \xe9" in done.stderr or 'left out: x"""' in done.stderr
    strict = CliRunner().invoke(main, ["resolver", str(path), "--strict", "-o", str(path) + ".py"])
    assert strict.exit_code == 4 and "FlexAtan" in strict.output
    assert not Path(f"{path}.py").exists()


def test_a_builtin_that_is_too_new_is_an_error(tmp_path: Path) -> None:
    b = ModelBuilder()
    g = b.subgraph("main")
    x = g.input("x", (1,))
    g.outputs(g.op("ABS", [x], ("y", (1,), "float32"), version=99))
    path = tmp_path / "m.tflite"
    path.write_bytes(b.build())
    done = CliRunner().invoke(main, ["resolver", str(path)])
    assert done.exit_code == 4
    assert "ABS version 99: supported are versions 1 to 5" in done.output


def test_models_from_the_field(models: Path) -> None:
    """Nothing that they use is left out but Flex operators."""
    for path in sorted(models.glob("*.tflite")):
        model = Model.from_file(path)
        ops = used_ops([model])
        assert all(o.family for o in ops if not o.custom), path
        resolver = made(module_text(ops, [path.name], "1"))
        for code in model.operator_codes:
            custom = code.builtin == "CUSTOM"
            op = (code.custom or "") if custom else code.builtin
            flex = custom and op.startswith("Flex")
            assert (resolver.find_op(op, code.version, custom=custom) is None) is flex, (path, op)
