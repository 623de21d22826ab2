"""Runs the models of `../shared/models` and compares, as its README and the design ask.

    python tests/models_check.py                 all that have an .npz, two invokes each
    python tests/models_check.py resnet8_int8    only these
    python tests/models_check.py --nodes NAME    each node is fed the tensors of ai-edge-litert

With `--nodes` the first node that differs is shown, by how much, and how many more do.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))

from conformance import Array, compare  # noqa: E402

from litedelegate import (  # noqa: E402
    DType,
    Interpreter,
    Model,
    ModelBuilder,
    PositionalInputWarning,
)
from litedelegate.runtime.single import NodeRunner  # noqa: E402

MODELS = ROOT.parent / "shared" / "models"
# Float results of a whole network: sums of sums, in another order.
LONG = frozenset({"CONV_2D"})
# MediaPipe's own results, of kernels that differ from each other by 2e-4 (see the README).
ABSOLUTE = {"face_attention_custom_ops": 1e-3}


@dataclass(frozen=True)
class NodeDifference:
    node: int
    op: str
    output: str
    reason: str


def names(with_outputs: bool = True) -> list[str]:
    """Models; with `with_outputs` those that have known outputs."""
    found = sorted(p.stem for p in MODELS.glob("*.tflite"))
    return [n for n in found if not with_outputs or (MODELS / f"{n}.npz").exists()]


def is_hybrid(model: Model) -> bool:
    """Some node multiplies float activations with integer weights."""
    return any(
        op.inputs and op.op != "DEQUANTIZE" and _mixes(subgraph.tensors, op)
        for subgraph in model.subgraphs
        for op in subgraph.operators
    )


def _mixes(tensors: Any, op: Any) -> bool:
    inputs = [tensors[i] for i in op.inputs if i >= 0]
    return (
        inputs[0].dtype is DType.FLOAT32
        and any(t.dtype in (DType.INT8, DType.UINT8, DType.INT4) and t.buffer for t in inputs[1:])
        and all(tensors[i].dtype is DType.FLOAT32 for i in op.outputs)
    )


def check(name: str, **options: Any) -> list[str]:
    """What is wrong after each of two invokes on one interpreter; empty where all is right."""
    path = MODELS / f"{name}.tflite"
    hybrid = is_hybrid(Model.from_file(path))
    wrong: list[str] = []
    with np.load(MODELS / f"{name}.npz") as known, Interpreter(path, **options) as interpreter:
        interpreter.allocate_tensors()
        for t in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PositionalInputWarning)
                for k, d in enumerate(interpreter.get_input_details()):
                    interpreter.set_tensor(d["index"], known[f"in{t}_{k}"])
            interpreter.invoke()
            for k, d in enumerate(interpreter.get_output_details()):
                got = interpreter.get_tensor(d["index"])
                want = known[f"out{t}_{k}"]
                more = ABSOLUTE.get(name, 0.0)
                reason = compare(got, want, names=LONG, hybrid=hybrid, more=more)
                if reason:
                    wrong.append(f"invoke {t}, output {k} {d['name']!r}: {reason}")
    return wrong


def inputs_of(name: str, shape: Sequence[int] | None = None) -> list[Array]:
    """Those of the first invoke; random ones without an .npz, or where a shape is asked for."""
    details = Interpreter(MODELS / f"{name}.tflite").get_input_details()
    path = MODELS / f"{name}.npz"
    if path.exists() and shape is None:
        with np.load(path) as known:
            return [known[f"in0_{k}"] for k in range(len(details))]
    random = np.random.default_rng(0)
    return [random_input(random, d["dtype"], shape or d["shape"].tolist()) for d in details]


def random_input(random: np.random.Generator, dtype: Any, shape: Sequence[int]) -> Array:
    kind = np.dtype(dtype)
    if kind.kind in "iu" and kind.itemsize <= 2:
        info = np.iinfo(kind)
        return random.integers(info.min, info.max, shape, kind, endpoint=True)
    return random.random(shape).astype(kind)


def start(interpreter: Any, inputs: Sequence[Array]) -> None:
    """Resizes, allocates, sets the inputs and invokes: ours or ai-edge-litert's."""
    details = interpreter.get_input_details()
    for d, x in zip(details, inputs, strict=True):
        interpreter.resize_tensor_input(d["index"], x.shape)
    interpreter.allocate_tensors()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PositionalInputWarning)
        for d, x in zip(details, inputs, strict=True):
            interpreter.set_tensor(d["index"], x)
    interpreter.invoke()


def reference(name: str) -> Any:
    """ai-edge-litert with its reference kernels, which keeps all tensors.

    Where it lacks a version of an op an earlier one stands in: their reference kernels are the
    same.
    """
    from ai_edge_litert.interpreter import Interpreter as Peer
    from ai_edge_litert.interpreter import OpResolverType

    builder = ModelBuilder.from_model(Model.from_file(MODELS / f"{name}.tflite"))
    codes = builder.values["operator_codes"]
    while True:
        try:
            return Peer(
                model_content=builder.build(),
                experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
                experimental_preserve_all_tensors=True,
            )
        except ValueError as e:
            found = re.search(r"builtin opcode '(\w+)' version '(\d+)'", str(e))
            if found is None or found[2] == "1":
                raise
        for code, known in zip(
            codes, Model.from_buffer(builder.build()).operator_codes, strict=True
        ):
            if known.builtin == found[1]:
                code["version"] = known.version - 1


def compare_nodes(
    name: str, shape: Sequence[int] | None = None
) -> tuple[int, list[NodeDifference]]:
    """How many nodes of the main subgraph were compared, and those that differ."""
    model = Model.from_file(MODELS / f"{name}.tflite")
    peer = reference(name)
    start(peer, inputs_of(name, shape))
    runner = NodeRunner(model)
    subgraph = model.subgraphs[0]
    count = 0
    found: list[NodeDifference] = []
    for op in subgraph.operators:
        tensors = [subgraph.tensors[i] if i >= 0 else None for i in op.inputs]
        if any(t is not None and t.dtype in (DType.RESOURCE, DType.VARIANT) for t in tensors):
            continue
        if any(subgraph.tensors[i].dtype in (DType.RESOURCE, DType.VARIANT) for i in op.outputs):
            continue
        values = [None if t is None or t.is_variable else peer.get_tensor(t.index) for t in tensors]
        outputs = runner.run(op.index, values)
        count += 1
        hybrid = _mixes(subgraph.tensors, op) if op.inputs else False
        for i, got in zip(op.outputs, outputs, strict=True):
            reason = compare(got, peer.get_tensor(i), names={op.op}, hybrid=hybrid)
            if reason:
                found.append(NodeDifference(op.index, op.op, subgraph.tensors[i].name, reason))
    runner.close()
    return count, found


def compare_default(name: str, shape: Sequence[int] | None = None) -> list[str]:
    """How the outputs differ from those of ai-edge-litert's default resolver."""
    from ai_edge_litert.interpreter import Interpreter as Peer

    inputs = inputs_of(name, shape)
    ours, peer = Interpreter(MODELS / f"{name}.tflite"), Peer(str(MODELS / f"{name}.tflite"))
    start(ours, inputs)
    start(peer, inputs)
    reasons = [
        compare(ours.get_tensor(d["index"]), peer.get_tensor(d["index"]), names=LONG)
        for d in ours.get_output_details()
    ]
    return [r for r in reasons if r]


def describe_nodes(name: str, shape: Sequence[int] | None) -> Iterator[str]:
    count, found = compare_nodes(name, shape)
    yield f"{name}: {count} nodes compared, {len(found)} outputs differ"
    for d in found[:1]:
        yield f"    first: node {d.node} {d.op} {d.output!r}: {d.reason}"
    for d in found[1:6]:
        yield f"    then: node {d.node} {d.op}: {d.reason}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="NAME")
    parser.add_argument("--nodes", action="store_true")
    parser.add_argument("--shape", type=int, nargs="+", help="of the inputs, with --nodes")
    parser.add_argument("--threads", type=int)
    args = parser.parse_args(argv)
    if not MODELS.is_dir():
        print(f"there is no {MODELS}")
        return 2
    failed = 0
    for name in args.models or names():
        try:
            if args.nodes:
                for line in describe_nodes(name, args.shape):
                    print(line, flush=True)
                continue
            wrong = check(name, num_threads=args.threads)
        except Exception as e:
            wrong = [f"{type(e).__name__}: {e}"]
        failed += bool(wrong)
        print(f"{name}: {'ok' if not wrong else 'WRONG'}", flush=True)
        for line in wrong:
            print(f"    {line}"[:400])
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
