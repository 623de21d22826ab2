"""Runs the models of `../shared/models` and compares, as its README and the design ask.

    python tests/models_check.py                 all that have an .npz, two invokes each
    python tests/models_check.py resnet8_int8    only these
    python tests/models_check.py --nodes NAME    each node is fed the tensors of ai-edge-litert

With `--nodes` the first node that differs is shown, by how much, and how many more do.
"""

from __future__ import annotations

import argparse
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

from litedelegate import DType, Interpreter, Model, PositionalInputWarning  # noqa: E402
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


def inputs_of(name: str) -> list[Array]:
    """Those of the first invoke; random ones where the model has no .npz."""
    interpreter = Interpreter(MODELS / f"{name}.tflite")
    path = MODELS / f"{name}.npz"
    details = interpreter.get_input_details()
    if path.exists():
        with np.load(path) as known:
            return [known[f"in0_{k}"] for k in range(len(details))]
    random = np.random.default_rng(0)
    return [random_input(random, d) for d in details]


def random_input(random: np.random.Generator, detail: Any) -> Array:
    dtype, shape = np.dtype(detail["dtype"]), tuple(detail["shape"])
    if dtype.kind in "iu" and dtype.itemsize <= 2:
        info = np.iinfo(dtype)
        return random.integers(info.min, info.max, shape, dtype, endpoint=True)
    return random.random(shape).astype(dtype)


def compare_nodes(name: str) -> tuple[int, list[NodeDifference]]:
    """How many nodes of the main subgraph were compared, and those that differ."""
    from ai_edge_litert.interpreter import Interpreter as Peer
    from ai_edge_litert.interpreter import OpResolverType

    path = MODELS / f"{name}.tflite"
    model = Model.from_file(path)
    peer = Peer(
        str(path),
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    peer.allocate_tensors()
    for d, value in zip(peer.get_input_details(), inputs_of(name), strict=True):
        peer.set_tensor(d["index"], value)
    peer.invoke()
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


def describe_nodes(name: str) -> Iterator[str]:
    count, found = compare_nodes(name)
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
    parser.add_argument("--threads", type=int)
    args = parser.parse_args(argv)
    if not MODELS.is_dir():
        print(f"there is no {MODELS}")
        return 2
    failed = 0
    for name in args.models or names():
        try:
            if args.nodes:
                for line in describe_nodes(name):
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
