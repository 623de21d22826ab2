"""`verify`: what delegates compute is compared with numpy, and wrong nodes are taken from them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_delegates import FUNCTIONS, Fake
from test_delegates import ones, zigzag
from test_delegates_control import branches, doubling, run_loop
from test_delegates_models import Everything, random_value
from test_device_custom_ops import X, model

from litedelegate import Delegate, Interpreter, Partition, custom_op
from litedelegate.cli import main
from litedelegate.kernels.types import DType
from litedelegate.runtime.self_check import Checked, Value, unlike


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the delegate (fake|everything) loses")
        warnings.filterwarnings("ignore", "fake: a partition is built unfused")
        yield


def add_one(value: Any, partition: Partition) -> Any:
    return value + 1


def run(fake: Delegate, times: int = 2, **options: Any) -> Interpreter:
    """Checks two invokes of zigzag."""
    interpreter = Interpreter(model_content=zigzag(), delegates=[fake], verify=times, **options)
    for value in (1, 2):
        got = interpreter.run({"t0": np.full((1, 4), value, np.float32)})["t6"]
        np.testing.assert_array_equal(got, np.full((1, 4), 14 + 8 * value, np.float32))
    return interpreter


def on_cpu(interpreter: Interpreter) -> dict[int, list[tuple[str, str]]]:
    return {
        n.index: [(r.code, r.text) for r in n.refusals]
        for n in interpreter.delegate_coverage().on_cpu
    }


def test_all_is_right() -> None:
    fake = Fake()
    interpreter = run(fake)
    assert interpreter.differences == () and not on_cpu(interpreter)
    assert len(interpreter.delegate_coverage().partitions) == 1
    assert fake.log.count("build") == 2  # with all tensors in sight, and as it is to run


def test_a_wrong_node_in_a_partition_is_found_and_the_others_stay() -> None:
    fake = Fake()
    fake.wrong[3] = add_one
    with pytest.warns(UserWarning, match="loses 1 node, .*node 3"):
        interpreter = run(fake)
    (found,) = interpreter.differences
    assert (found.node, found.op, found.delegate) == (3, "MUL", "fake")
    assert found.text.startswith("4 of 4 elements differ; at [0, 0] it is ")
    ((code, text),) = on_cpu(interpreter)[3]
    assert code == "DEVICE" and text.startswith("self-check: node 3 (MUL), output 't4': 4 of 4")
    report = interpreter.delegate_coverage()
    assert [p.nodes for p in report.partitions] == [(0, 1, 2), (4, 5)]
    assert report.totals.not_used == {}


def test_two_wrong_nodes() -> None:
    fake = Fake()
    fake.wrong |= {1: add_one, 4: lambda value, p: value * np.nan}
    interpreter = run(fake)
    assert [d.node for d in interpreter.differences] == [1, 4]
    assert list(on_cpu(interpreter)) == [1, 4]


def test_right_one_by_one_and_wrong_when_joined() -> None:
    fake = Fake()
    fake.wrong[2] = lambda value, p: value if any(t.index == 3 for t in p.outputs) else value + 1
    interpreter = run(fake)
    assert list(on_cpu(interpreter)) == [0, 1, 2, 3, 4, 5]
    ((code, text),) = on_cpu(interpreter)[0]
    assert code == "DEVICE" and text.endswith("each node by itself is right")


class Plain(Fake):
    def build_unfused(self, partition: Partition) -> Any:
        self.log.append("plain")
        self.wrong.clear()
        return self.build(partition)


def test_what_is_wrong_when_joined_is_built_unfused() -> None:
    fake = Plain()
    fake.wrong[2] = lambda value, p: value if any(t.index == 3 for t in p.outputs) else value + 1
    with pytest.warns(UserWarning, match="built unfused, for its results differ"):
        interpreter = run(fake)
    assert not on_cpu(interpreter) and fake.log.count("plain") == 1
    assert [d.output for d in interpreter.differences] == ["t6"]


def test_wrong_at_the_second_invoke() -> None:
    fake = Fake()
    calls = []

    def late(value: Any, partition: Partition) -> Any:
        calls.append(1)
        return value + (len(calls) > 1)

    fake.wrong[0] = late
    interpreter = run(fake, 3)
    assert [d.node for d in interpreter.differences] == [0]


def test_so_many_invokes_are_checked_for_each_set_of_shapes() -> None:
    fake = Fake()
    interpreter = Interpreter(model_content=zigzag(), delegates=[fake], verify=True)
    interpreter.run({"t0": ones(1, 4)})
    fake.wrong[0] = add_one
    interpreter.run({"t0": ones(1, 4)})
    assert interpreter.differences == ()
    got = interpreter.run({"t0": ones(3, 4)})["t6"]
    assert [d.node for d in interpreter.differences] == [0]
    np.testing.assert_array_equal(got, 22 * ones(3, 4))


def test_strict_raises() -> None:
    fake = Fake()
    fake.wrong[3] = add_one
    interpreter = Interpreter(model_content=zigzag(), delegates=[fake], verify=1, strict=True)
    with pytest.raises(RuntimeError, match="SelfCheckError: self-check: node"):
        interpreter.run({"t0": ones(1, 4)})


def test_verify_is_a_number() -> None:
    for wrong in ("1", None, 1.5):
        with pytest.raises(TypeError, match="verify is a number of invokes, or True for one, not"):
            Interpreter(model_content=zigzag(), verify=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="verify is a number of invokes, not -1"):
        Interpreter(model_content=zigzag(), verify=-1)


def test_a_custom_op_is_compared_too() -> None:
    @custom_op("Twice", shape="same")
    def twice(x: Any) -> Any:
        return 2 * x

    FUNCTIONS["Twice"] = lambda x: x + x
    try:
        for factor, nodes in ((2, []), (3, [1])):
            FUNCTIONS["Twice"] = lambda x, factor=factor: factor * x
            interpreter = Interpreter(
                model_content=model("Twice"),
                custom_ops={"Twice": twice},
                delegates=[Fake("NEG", "Twice")],
                verify=True,
            )
            got = interpreter.run({"x": X})["y"]
            np.testing.assert_allclose(got, np.exp(-2 * X), rtol=1e-6)
            assert [d.node for d in interpreter.differences] == nodes
    finally:
        del FUNCTIONS["Twice"]


class Wrong(Everything):
    """One LSTM or product gives twice its result."""

    def build(self, partition: Partition) -> Any:
        kernel = super().build(partition)
        attach = kernel.attach

        def double() -> None:
            attach()
            node = next(n for n in partition.nodes if n.op == "UNIDIRECTIONAL_SEQUENCE_LSTM")
            array = kernel.arrays[node.outputs[0].index]
            kernel.calls.append(lambda: np.multiply(array, 2, out=array))

        kernel.attach = double  # type: ignore[method-assign]
        return kernel


@pytest.mark.parametrize("kind", [Everything, Wrong])
def test_state_is_compared_and_left_as_one_invoke_leaves_it(
    models: Path, kind: type[Everything]
) -> None:
    path = models / "lstm_int8.tflite"
    delegate = kind()
    delegate.leave = ("SOFTMAX", "FULLY_CONNECTED", "RESHAPE") if kind is Wrong else ()
    rng = np.random.default_rng(3)
    with (
        Interpreter(path, num_threads=1) as plain,
        Interpreter(path, num_threads=1, delegates=[delegate], verify=2) as checked,
    ):
        details = plain.get_input_details()
        for _ in range(3):
            inputs = {d["name"]: random_value(rng, d) for d in details}
            want, got = plain.run(inputs), checked.run(inputs)
            for name, array in want.items():
                np.testing.assert_array_equal(got[name], array)
        wanted = ["UNIDIRECTIONAL_SEQUENCE_LSTM"] if kind is Wrong else []
        assert [d.op for d in checked.differences] == wanted
        for name, value in plain.variables.items():
            np.testing.assert_array_equal(checked.variables[name], value)


@pytest.mark.parametrize(
    ("dtype", "got", "want", "value", "op", "differs"),
    [
        (DType.INT8, [1, 2], [1, 3], {}, "CONV_2D", True),
        (DType.INT8, [1, 2], [1, 3], {"floats": True}, "QUANTIZE", False),
        (DType.INT8, [1, 2], [1, 4], {"floats": True}, "QUANTIZE", True),
        (DType.INT8, [1, 50], [1, 52], {"rounded": True}, "CONV_2D", False),
        (DType.INT8, [-90, 50], [90, 52], {"rounded": True}, "CONV_2D", True),
        (DType.INT64, [2**60 + 1], [2**60], {}, "ADD", True),
        (DType.BOOL, [True], [False], {}, "LESS", True),
        (DType.FLOAT32, [1.0, 1e-6], [1.0, 0.0], {}, "EXP", False),
        (DType.FLOAT32, [1.0, 5e-5], [1.0, 0.0], {}, "EXP", True),
        (DType.FLOAT32, [1.0, 5e-5], [1.0, 0.0], {}, "CONV_2D", False),
        (DType.FLOAT32, [1.0, 1e-3], [1.0, 0.0], {"chain": 5}, "EXP", False),
        (DType.FLOAT32, [1.0, 1e-2], [1.0, 0.0], {"chain": 5}, "EXP", True),
        (DType.FLOAT32, [np.nan, np.inf], [np.nan, np.inf], {}, "EXP", False),
        (DType.FLOAT32, [np.nan, 1.0], [1.0, 1.0], {}, "EXP", True),
        (DType.FLOAT32, [np.inf, 1.0], [1.0, 1.0], {"rounded": True}, "EXP", True),
        (DType.FLOAT16, [1.0, 1e-3], [1.0, 0.0], {}, "EXP", False),
        (DType.BFLOAT16, [0x3F80, 0x3F81], [0x3F80, 0x3F80], {}, "EXP", False),
        (DType.FLOAT32, [], [], {}, "EXP", False),
        (DType.FLOAT32, [1.0, 1e-2], [1.0, 0.0], {"tolerance": 0.05}, "EXP", False),
    ],
)  # fmt: skip
def test_how_close_is_close(
    dtype: DType, got: Any, want: Any, value: Any, op: str, differs: bool
) -> None:
    a, b = (np.array(x).astype(dtype.numpy) for x in (got, want))
    tolerance = value.pop("tolerance", 0.0)
    assert (unlike(a, Value(b, **value), dtype, op, tolerance) is not None) is differs


# -- the command line


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(list(map(str, arguments)), prog_name="litedelegate")
    captured = capsys.readouterr()
    assert isinstance(end.value.code, int)
    return end.value.code, captured.out, captured.err


def off_by_one() -> Delegate:
    fake = Fake("ADD", "MUL")
    fake.wrong[2] = add_one
    return fake


def sound() -> Delegate:
    return Fake("ADD", "MUL")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "z.tflite"
    path.write_bytes(zigzag())
    return path


def test_verify(capsys: pytest.CaptureFixture[str], path: Path) -> None:
    code, out, err = call(capsys, "verify", path, "-d", f"{__name__}:off_by_one")
    assert code == 6 and "5 on fake, 1 on the cpu" in out and "6 nodes in 3 invokes" in out
    assert "fake differs from numpy, first at node 2 (ADD), output 't3': 4 of 4" in err
    code, out, err = call(capsys, "verify", path, "-d", f"{__name__}:sound", "--runs", "1")
    assert (code, err) == (0, "") and "no result differs from numpy's" in out


def test_verify_as_json(capsys: pytest.CaptureFixture[str], path: Path) -> None:
    code, out, _ = call(capsys, "verify", path, "-d", f"{__name__}:off_by_one", "--json")
    found = json.loads(out)
    assert code == 6 and found["runs"] == 3 and found["compared"] == 6
    assert [(d["node"], d["op"], d["output"]) for d in found["differences"]] == [(2, "ADD", "t3")]
    code, out, _ = call(capsys, "verify", path, "-d", f"{__name__}:sound", "--json")
    assert code == 0 and json.loads(out)["differences"] == []


def test_verify_says_what_it_could_not_compare(
    capsys: pytest.CaptureFixture[str], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bind(*args: Any) -> None:
        raise KeyError("no kernel")

    monkeypatch.setattr(Checked, "_bind", bind)
    code, out, _ = call(capsys, "verify", path, "-d", f"{__name__}:off_by_one")
    assert code == 0 and "0 nodes in 3 invokes" in out
    assert "not compared, for numpy cannot run them alone: ADD ×3, MUL ×3" in out


# -- subgraphs


def test_a_wrong_node_in_the_body_of_a_loop() -> None:
    fake = Fake("ADD")
    body = Interpreter(model_content=doubling()).get_node_details(2)
    (index,) = (
        n["index"] for n in body if n["op_name"] == "ADD" and n["inputs"][0] == n["inputs"][1]
    )
    fake.wrong[index] = add_one
    interpreter = Interpreter(model_content=doubling(), delegates=[fake], verify=True)
    for times in (4, 5):
        np.testing.assert_array_equal(run_loop(interpreter, times), 2**times * ones(2))
    assert {(d.subgraph, d.node) for d in interpreter.differences} == {(2, index)}


def test_a_wrong_node_in_a_branch() -> None:
    fake = Fake("ADD", "MUL")
    fake.wrong[0] = lambda value, p: value + (p.nodes[0].op == "MUL")
    interpreter = Interpreter(model_content=branches(), delegates=[fake], verify=True)
    for flag, want in ((True, 6), (False, 9), (True, 6), (False, 9)):
        got = interpreter.run({"c": np.array(flag), "x": 3 * ones(2)})["y"]
        np.testing.assert_array_equal(got, want * ones(2))
    assert [(d.subgraph, d.op) for d in interpreter.differences] == [(2, "MUL")]


def failing() -> Fake:
    made = Fake("ADD", "MUL")
    made.strikes["invoke"] = RuntimeError("lost")
    return made


def test_a_delegate_that_failed_is_not_taken_for_right(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(zigzag())
    with pytest.raises(SystemExit) as end:
        main(["verify", str(path), "-d", f"{__name__}:failing"], prog_name="litedelegate")
    assert end.value.code == 1
    text = " ".join(capsys.readouterr().err.split())
    assert "nothing was compared: fake: it failed while the model ran: RuntimeError: lost" in text
