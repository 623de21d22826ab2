"""The same calls on ai-edge-litert's interpreter: same dictionaries, values and errors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import toy_models
from models_check import MODELS, names

from litedelegate import Interpreter, ModelBuilder, OpResolverType, SignatureRunner

peer = pytest.importorskip("ai_edge_litert.interpreter")

TOYS: dict[str, bytes] = {
    "add": toy_models.add(),
    "chain": toy_models.chain(),
    "two_signatures": toy_models.two_signatures(),
    "quantised": toy_models.quantised(),
    "quantised_int8": toy_models.quantised("int8", 0.3, -5),
    "flexible_batch": toy_models.flexible_batch(),
    "dynamic": toy_models.dynamic(),
    "folded": toy_models.folded(),
    "custom": toy_models.custom(("Atan", {"offset": 1.0})),
}


def both(content: bytes, **options: Any) -> tuple[Interpreter, Any]:
    ours = Interpreter(model_content=content, **options)
    theirs = peer.Interpreter(
        model_content=content,
        experimental_op_resolver_type=peer.OpResolverType.BUILTIN_REF,
        **options,
    )
    return ours, theirs


def same(a: Any, b: Any, where: str = "") -> None:
    """Equal in value and type, but that details are a kind of dictionary."""
    if isinstance(b, dict):
        assert isinstance(a, dict) and list(a) == list(b), where
        for key in b:
            same(a[key], b[key], f"{where}.{key}")
    elif isinstance(b, list | tuple):
        assert type(a) is type(b) and len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, f"{where}[{i}]")
    elif isinstance(b, np.ndarray):
        assert isinstance(a, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape, where
        np.testing.assert_array_equal(a, b, err_msg=where)
    else:
        assert type(a) is type(b) and a == b, where


def same_description(ours: Interpreter, theirs: Any) -> None:
    same(ours.get_input_details(), theirs.get_input_details(), "inputs")
    same(ours.get_output_details(), theirs.get_output_details(), "outputs")
    assert ours.num_subgraphs() == theirs.num_subgraphs()
    for i in range(ours.num_subgraphs()):
        same(ours.get_tensor_details(i), theirs.get_tensor_details(i), f"subgraph {i}")
    same(ours.get_signature_list(), theirs.get_signature_list(), "signatures")
    same(ours._get_full_signature_list(), theirs._get_full_signature_list(), "signatures")
    for key in ours.get_signature_list():
        a, b = ours.get_signature_runner(key), theirs.get_signature_runner(key)
        same(a.get_input_details(), b.get_input_details(), key)
        same(a.get_output_details(), b.get_output_details(), key)


@pytest.mark.parametrize("name", TOYS)
def test_descriptions(name: str) -> None:
    ours, theirs = both(TOYS[name])
    same_description(ours, theirs)
    same(ours._get_ops_details(), theirs._get_ops_details(), "ops")


@pytest.mark.parametrize("name", names(with_outputs=False) if MODELS.is_dir() else [])
def test_descriptions_of_real_models(name: str) -> None:
    path = MODELS / f"{name}.tflite"
    ours, theirs = Interpreter(path), peer.Interpreter(str(path))
    same_description(ours, theirs)
    found = theirs._get_ops_details()
    for op in found:
        if op["op_name"].startswith("Flex"):  # the peer gives every unresolved one the name "Flex"
            op["op_name"] = ours._get_op_details(op["index"])["op_name"]
    same(ours._get_ops_details(), found, "ops")


def test_descriptions_after_a_resize() -> None:
    ours, theirs = both(TOYS["flexible_batch"])
    for step in ("resize_tensor_input", "allocate_tensors"):
        for interpreter in (ours, theirs):
            getattr(interpreter, step)(*([0, [3, 2, 2]] if step.startswith("resize") else []))
        same_description(ours, theirs)


def test_signatures_of_methods() -> None:
    """Every public method of theirs is there, with the same parameters in the same order."""
    pairs = [
        (Interpreter, peer.Interpreter),
        (SignatureRunner, peer.SignatureRunner),
    ]
    for ours, theirs in pairs:
        for name, method in inspect.getmembers(theirs, inspect.isfunction):
            if name in ("__del__", "_ensure_safe", "_safe_to_run"):
                continue
            wanted = list(inspect.signature(method).parameters)
            got = list(inspect.signature(getattr(ours, name)).parameters)
            assert got[: len(wanted)] == wanted, name
    assert [(m.name, m.value) for m in OpResolverType] == [
        (m.name, m.value) for m in peer.OpResolverType
    ]


X = np.ones((1, 2, 2), np.float32)


def ready(interpreter: Any) -> Any:
    interpreter.allocate_tensors()
    return interpreter


CALLS: dict[str, Callable[[Any], Any]] = {
    "invoke before allocation": lambda i: i.invoke(),
    "get before allocation": lambda i: i.get_tensor(0),
    "view before allocation": lambda i: i.tensor(0)(),
    "set before allocation": lambda i: i.set_tensor(0, X),
    "wrong type": lambda i: ready(i).set_tensor(0, X.astype(np.uint8)),
    "double": lambda i: ready(i).set_tensor(0, X.astype(np.float64)),
    "wrong rank": lambda i: ready(i).set_tensor(0, X[0]),
    "wrong dimension": lambda i: ready(i).set_tensor(0, X[:, :1]),
    "set no tensor": lambda i: ready(i).set_tensor(99, X),
    "set a negative tensor": lambda i: ready(i).set_tensor(-1, X),
    "set by name": lambda i: ready(i).set_tensor("x", X),
    "get no tensor": lambda i: ready(i).get_tensor(99),
    "get by name": lambda i: ready(i).get_tensor("x"),
    "get of no subgraph": lambda i: ready(i).get_tensor(0, 3),
    "details of no subgraph": lambda i: i.get_tensor_details(3),
    "no op": lambda i: i._get_op_details(99),
    "resize an intermediate": lambda i: ready(i).resize_tensor_input(2, [1]),
    "resize no tensor": lambda i: ready(i).resize_tensor_input(99, [1]),
    "resize to a matrix": lambda i: i.resize_tensor_input(0, [[1]]),
    "strict resize": lambda i: i.resize_tensor_input(0, [1, 3, 2], strict=True),
    "invoke after resize": lambda i: (
        ready(i).resize_tensor_input(0, [2, 2, 2]),
        i.invoke(),
    ),
    "runner without signatures": lambda i: i.get_signature_runner(),
    "runner of no signature": lambda i: i.get_signature_runner("none"),
}
# The error's own place in the C++ source, and numbers of tensors that depend on a plan.
PLACES = re.compile(r"\S+\.cc:\d+ |max tensor index \d+")


@pytest.mark.parametrize("name", CALLS)
def test_errors_are_of_the_same_kind_and_contain_the_same_words(name: str) -> None:
    ours, theirs = both(TOYS["flexible_batch"])
    with pytest.raises(Exception) as want:
        CALLS[name](theirs)
    with pytest.raises(Exception) as got:
        CALLS[name](ours)
    assert got.type is want.type or issubclass(got.type, want.type)
    if want.type is TypeError:  # pybind11's own words
        return
    if name == "resize an intermediate":
        assert "fixed-size" in str(got.value)
        return
    words = PLACES.sub("", str(want.value)).strip()
    assert words.rstrip(". ").removesuffix(" was not true") in PLACES.sub("", str(got.value))


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"model_path": "none.tflite"},
        {"model_content": b"abcdabcdabcd"},
        {"model_content": toy_models.add()[:40]},
        {"model_content": toy_models.add(), "model_path": "a"},
        {"model_content": toy_models.add(), "num_threads": 0},
        {"model_content": toy_models.add(), "num_threads": 1.5},
        {"model_content": toy_models.add(), "experimental_op_resolver_type": 3},
        {"model_content": toy_models.versioned(("ADD", 99), ("RELU", 77))},
        {"model_content": ModelBuilder().build()},
    ],
)
def test_errors_of_the_constructor(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as want:
        peer.Interpreter(**arguments)
    with pytest.raises(ValueError) as got:
        Interpreter(**arguments)
    lines = str(want.value).replace("'.The", "'.\nThe").splitlines()
    for words in lines:
        assert words.strip() in str(got.value)


@pytest.mark.parametrize("operators", [None, []])
def test_a_model_without_operators_builds_there_too(operators: list[Any] | None) -> None:
    builder = ModelBuilder()
    graph = builder.subgraph()
    graph.outputs(graph.input("x", (2,)))
    graph.values["operators"] = operators
    ours, theirs = both(builder.build())
    for interpreter in (ours, theirs):
        with pytest.raises(RuntimeError, match="Invoke called on model that is not ready"):
            interpreter.invoke()


def test_an_unresolved_op_is_raised_by_allocation_in_the_same_words() -> None:
    for op in ("Atan", "FlexErf"):
        ours, theirs = both(toy_models.custom((op, None)))
        with pytest.raises(RuntimeError) as want:
            theirs.allocate_tensors()
        with pytest.raises(RuntimeError) as got:
            ours.allocate_tensors()
        assert str(want.value)[:40] in str(got.value)
        assert f"Node number 0 ({op}) failed to prepare." in str(got.value)


def test_a_held_view_is_refused_there_too() -> None:
    ours, theirs = both(TOYS["flexible_batch"])
    for interpreter in (ours, theirs):
        held = ready(interpreter).tensor(0)()
        for call in (interpreter.invoke, interpreter.allocate_tensors):
            with pytest.raises(RuntimeError, match="There is at least 1 reference to internal"):
                call()
        del held
        interpreter.invoke()


def test_a_sequence_of_calls_gives_the_same_values() -> None:
    ours, theirs = both(TOYS["flexible_batch"])
    random = np.random.default_rng(0)
    for n in (1, 3, 3, 2):
        x = random.normal(size=(n, 2, 2)).astype(np.float32)
        results = []
        for interpreter in (ours, theirs):
            interpreter.resize_tensor_input(0, x.shape)
            assert interpreter.allocate_tensors() is None
            assert interpreter.set_tensor(0, x) is None
            assert interpreter.invoke() is None
            assert interpreter.reset_all_variables() is None
            results.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
        same(*results)


def test_signature_runners_give_the_same_values() -> None:
    ours, theirs = both(TOYS["two_signatures"])
    for key in ("double", "square"):
        x = np.array([3, 5], np.float32)
        same(ours.get_signature_runner(key)(x=x), theirs.get_signature_runner(key)(x=x), key)
    for arguments in ({}, {"x": X, "y": X}, {"z": X}):
        with pytest.raises(ValueError) as want:
            theirs.get_signature_runner("double")(**arguments)
        with pytest.raises(ValueError) as got:
            ours.get_signature_runner("double")(**arguments)
        assert str(want.value) in str(got.value)


def test_strings_and_four_bits_pass_alike() -> None:
    b = ModelBuilder()
    g = b.subgraph()
    text = g.input("text", (2,), "string")
    four = g.input("four", (3,), "int4")
    g.outputs(text, four)
    ours, theirs = both(b.build())
    results = []
    for interpreter in (ours, theirs):
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, np.array(["ä", b"b"], object))
        interpreter.set_tensor(1, np.array([-8, 7, 1], np.int8))
        results.append(interpreter.get_tensor(0))
        with pytest.raises(ValueError, match="Values for INT4 input must be between -8 and 7"):
            interpreter.set_tensor(1, np.array([-9, 7, 1], np.int8))
    same(*results)


def test_variables_are_reset_by_reallocation_alike() -> None:
    """A float SVDF of rank 1 keeps its state from one invoke to the next."""
    b = ModelBuilder()
    g = b.subgraph()
    x = g.input("x", (1, 2), shape_signature=(-1, 2))
    features = g.constant("features", np.array([[1, 2], [3, 4]], np.float32))
    times = g.constant("times", np.array([[1, 0.5, 2], [0.25, 1, 1]], np.float32))
    state = g.variable("state", (1, 6))
    y = ("y", (1, 2), "float32")
    g.outputs(g.op("SVDF", [x, features, times, None, state], y, rank=1))
    ours, theirs = both(b.build())
    value = np.array([[1, -2]], np.float32)

    def invoke() -> None:
        results = []
        for interpreter in (ours, theirs):
            interpreter.set_tensor(0, value)
            interpreter.invoke()
            results.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
        np.testing.assert_allclose(*results, rtol=1e-6)

    for interpreter in (ours, theirs):
        interpreter.allocate_tensors()
    for _ in range(3):
        invoke()
    for call in ("allocate_tensors", "reset_all_variables"):
        for interpreter in (ours, theirs):
            getattr(interpreter, call)()
        invoke()
    for shape in ([2, 2], [1, 2]):
        for interpreter in (ours, theirs):
            interpreter.resize_tensor_input(0, shape)
    for interpreter in (ours, theirs):
        interpreter.allocate_tensors()
    invoke()


SCRIPT = """
import numpy as np
from {module} import Interpreter, OpResolverType, load_delegate

interpreter = Interpreter(
    model_content=content,
    num_threads=1,
    experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
)
input_details = interpreter.get_input_details()
output_details = interpreter.get_output_details()
interpreter.resize_tensor_input(input_details[0]["index"], [2, 2, 2])
interpreter.allocate_tensors()
input_details = interpreter.get_input_details()
data = np.arange(np.prod(input_details[0]["shape"])) - 3
data = data.reshape(input_details[0]["shape"]).astype(input_details[0]["dtype"])
interpreter.set_tensor(input_details[0]["index"], data)
interpreter.invoke()
results = [interpreter.get_tensor(d["index"]).tolist() for d in output_details]
view = interpreter.tensor(input_details[0]["index"])
view().fill(-1)
interpreter.invoke()
results.append(interpreter.tensor(output_details[0]["index"])().tolist())
results.append([op["op_name"] for op in interpreter._get_ops_details()])
"""


def test_a_script_runs_with_one_changed_import() -> None:
    results = []
    for module in ("ai_edge_litert.interpreter", "litedelegate"):
        names: dict[str, Any] = {"content": TOYS["flexible_batch"]}
        exec(SCRIPT.format(module=module), names)
        results.append(names["results"])
    assert results[0] == results[1]
