"""Writes docs/operators.md: every operator, and what it takes.

    python tools/operators.py [--check]

The types are found by running the kernels on the test cases' nodes (tests/type_sweep.py). With
`--check` nothing is written: exits with 1 where the page is stale.
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.extend(str(Path(__file__).resolve().parent.parent / part) for part in ("src", "tests"))

from peer_versions import PEER_VERSIONS
from type_sweep import registration, taken_types

from litedelegate.delegates.gpu.variables import OPS as VARIABLES
from litedelegate.kernels.builtins import BUILTINS, CUSTOMS
from litedelegate.kernels.types import DType
from litedelegate.runtime import schema
from litedelegate.runtime.delegate_context import CALLED

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "operators.md"
COMPATIBILITY = ROOT / "docs" / "compatibility.md"

# What has no kernel, and never will have.
NO_KERNEL = {
    "CONCAT_EMBEDDINGS": "a number of the schema that no converter writes; TensorFlow Lite has no "
    "kernel for it either",
    "CUSTOM": "the code of every custom op: found by its name, see below",
    "DELEGATE": "a delegate's node in memory; not in files",
    "PLACEHOLDER_FOR_GREATER_OP_CODES": "a mark in files: the code stands in another field",
}
_BODY = "all that the operators of its body take"
_PIECES = "texts string, codes int32, model int8, uint8"
_TEXT = "string; places int64"
# Types of the ops that no case can hold: they ask the runtime for more than shapes.
STATED = {
    "CALL": "any",
    "CALL_ONCE": "no tensors",
    "IF": "any; condition bool",
    "WHILE": "any; result of the condition bool",
    "STABLEHLO_WHILE": "any; result of the condition bool",
    "STABLEHLO_CASE": "any; index int32",
    "STABLEHLO_COMPOSITE": "any",
    "STABLEHLO_REDUCE": _BODY,
    "STABLEHLO_REDUCE_WINDOW": _BODY,
    "STABLEHLO_SCATTER": f"{_BODY}; indices int32, int64",
    "STABLEHLO_SORT": _BODY,
    "HASHTABLE": "string to int64, int64 to string",
    "HASHTABLE_FIND": "string to int64, int64 to string",
    "HASHTABLE_IMPORT": "string to int64, int64 to string",
    "HASHTABLE_SIZE": "gives int64",
    "VAR_HANDLE": "gives resource",
    "READ_VARIABLE": "any",
    "ASSIGN_VARIABLE": "any",
    "RANDOM_UNIFORM": "gives float32; shape int32",
    "RANDOM_STANDARD_NORMAL": "gives float32; shape int32",
    "MULTINOMIAL": "float32; gives int32, int64",
    "RaggedRange": "float32, float64, int32, int64; gives: splits int32, int64",
    "RaggedTensorToTensor": "any; shape and rows int32, int64",
    "SignalDelay": "int16",
    "SignalFilterBankSpectralSubtraction": "uint32",
    "SignalFramer": "int16; gives: bool, whether all frames are complete",
    "SignalOverlapAdd": "float32, int16",
    "SignalStacker": "int16; gives: bool, whether the output is complete",
    "TFSentencepieceDetokenizeOp": _PIECES,
    "TFSentencepieceTokenizeOp": _PIECES,
    "TFText>FastSentencepieceDetokenize": _PIECES,
    "TFText>FastSentencepieceTokenize": _PIECES,
    "TFText>NgramsStringJoin": _TEXT,
    "TFText>WhitespaceTokenizeWithOffsetsV2": "string; places int64, int32",
    "tftext:Ngrams": _TEXT,
    "tftext:WhitespaceTokenizer": _TEXT,
}
NOTES = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": "float and hybrid",
    "CONV_2D": "grouped and dilated; hybrid: float data, integer weights",
    "DEPTHWISE_CONV_2D": "hybrid as CONV_2D",
    "TRANSPOSE_CONV": "hybrid as CONV_2D",
    "Irfft2d": "the same as IRFFT2D",
    "FULLY_CONNECTED": "sparse, shuffled and blockwise weights; hybrid as CONV_2D",
    "HASHTABLE": "one table for each name, shared by all subgraphs",
    "RANDOM_UNIFORM": "TensorFlow Lite's generator: the same numbers from the same seeds",
    "RANDOM_STANDARD_NORMAL": "TensorFlow Lite's generator: the same numbers from the same seeds",
    "MULTINOMIAL": "TensorFlow Lite's generator: the same numbers from the same seeds",
    "STABLEHLO_COMPOSITE": "runs its decomposition; on devices where all of that can",
    "CALL": "on devices where all that it calls can",
    "STABLEHLO_CUSTOM_CALL": "only targets without effect on values, such as Sharding",
    "STABLEHLO_REDUCE": "a body of one known operator is one numpy call",
    "STABLEHLO_REDUCE_WINDOW": "a body of one known operator is one numpy call",
    "STABLEHLO_SCATTER": "a body of one known operator is one numpy call",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "float, hybrid and integer",
    "LSTM": "full and basic kernel; float, hybrid and integer",
}

_FLOATS = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64)
_INTS = (
    *(DType.INT8, DType.INT16, DType.INT32, DType.INT64),
    *(DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64),
)
_COMPLEX = (DType.COMPLEX64, DType.COMPLEX128)
_SMALL = (DType.INT2, DType.INT4, DType.UINT4)
_EIGHT = (DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2)
GROUPS = {"floats": _FLOATS, "ints": _INTS, "complex": _COMPLEX, "small ints": _SMALL}
ORDER = (*_FLOATS, *_INTS, *_COMPLEX, *_SMALL, DType.BOOL, DType.STRING, *_EIGHT)
# handles, which only a few operators know
HANDLES = frozenset({DType.RESOURCE, DType.VARIANT})
NARROW = frozenset({DType.INT8, DType.UINT8, DType.INT16})

HEAD = """\
# Operators

Written by `python tools/operators.py`; `make check` fails where it is stale.

The types are those with which the kernels were seen to run: the nodes of the test cases, with every
element type put in place of their data's. A type that is not listed is refused by name, with what
is taken instead, when the model is allocated.

* **floats**: float16, bfloat16, float32, float64. **ints**: int8 to int64, uint8 to uint64.
  **small ints**: int2, int4, uint4. **complex**: complex64, complex128. **any**: all of these,
  bool, string and the two float8 types.
* **quantised**: with a scale and a zero point, which count. Where no quantised types are named, the
  op ignores scales, or takes quantised tensors wherever it takes plain ones.
* **input 1: …**: types of an input other than the data, **gives: …**: of an output, where they need
  not be the data's.
* **versions**: those of TensorFlow Lite's operators that are taken; a newer one is refused.
* **OpenCL, CUDA**: whether there is a delegate that runs the op: by a form for devices, as a call
  whose nodes have one, or as a variable that stays on the device. Not every type need be taken: the
  coverage report says for each node why it is not. No form has run on a GPU yet ([gpu.md](gpu.md)).
"""
TABLE = """\
| op | versions | types | numpy | OpenCL | CUDA | notes |
|---|---|---|---|---|---|---|"""


def names(dtypes: Iterable[DType]) -> str:
    """`floats, int32`: groups where they are whole."""
    left = set(dtypes) - HANDLES
    if left >= set(ORDER):
        return "any"
    out = []
    for label, group in GROUPS.items():
        if left >= set(group):
            out.append(label)
            left -= set(group)
    return ", ".join([*out, *(d.label for d in ORDER if d in left)])


def types_of(op: str) -> str:
    if op in STATED:
        return STATED[op]
    found = taken_types(op)
    parts = [names(found.plain)] if found.plain else []
    scaled = found.quantised - found.plain - HANDLES
    if scaled:
        scaled |= found.quantised & NARROW
        parts.append(f"quantised {names(scaled)}")
    if not parts:
        raise SystemExit(f"{op} has no test case to find its types with, and none in STATED")
    alike: dict[str, list[int]] = {}
    for place in sorted(found.others, key=lambda p: (p.output, p.index)):
        what = names(found.others[place])
        if not place.output:
            alike.setdefault(what, []).append(place.index)
    for what, inputs in alike.items():
        plural = "s" if len(inputs) > 1 else ""
        parts.append(f"input{plural} {', '.join(map(str, inputs))}: {what}")
    given = {names(d): None for p, d in sorted(found.others.items(), key=str) if p.output}
    parts += [f"gives: {what}" for what in given]
    return "; ".join(parts)


def differing() -> set[str]:
    """Ops that the first column of a table in compatibility.md names."""
    rows = re.findall(r"^\| ([^|]+) \|", COMPATIBILITY.read_text(encoding="utf-8"), re.MULTILINE)
    return {word for row in rows for word in re.findall(r"[A-Z][A-Z0-9_]{2,}", row)}


@functools.cache
def delegates() -> tuple[str, ...]:
    """Names of the delegates that the package brings."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return tuple(re.findall(r'^(\w+) = "litedelegate\.delegates\.', text, re.MULTILINE))


def row(op: str, types: str, notes: Iterable[str]) -> str:
    found = registration(op)
    low, high = found.versions
    taken = found.lower is not None or op in CALLED or op in VARIABLES  # by a partition as such
    there = delegates() if taken else ()
    opencl, cuda = ("yes" if name in there else "not yet" for name in ("opencl", "cuda"))
    versions = str(low) if low == high else f"{low}–{high}"
    return f"| {op} | {versions} | {types} | yes | {opencl} | {cuda} | {'; '.join(notes)} |"


def page() -> str:
    known = differing()
    lines = [HEAD, "## Builtins", "", TABLE]
    for op in sorted(schema.BUILTINS):
        if op not in BUILTINS:
            lines.append(f"| {op} | | | no | no | no | {NO_KERNEL[op]} |")
            continue
        notes = [NOTES[op]] if op in NOTES else []
        if op in known:
            notes.append("[numbers or errors differ on purpose](compatibility.md)")
        if op not in PEER_VERSIONS:
            notes.append("not in ai-edge-litert 2.3.0")
        lines.append(row(op, types_of(op), notes))
    lines += ["", "## Custom ops that come with the package", "", TABLE]
    lines += [row(op, types_of(op), [NOTES[op]] if op in NOTES else []) for op in sorted(CUSTOMS)]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the page is fresh")
    args = parser.parse_args()
    text = page()
    if args.check:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            sys.exit("docs/operators.md is stale: run python tools/operators.py")
        return
    PAGE.write_text(text, encoding="utf-8", newline="\n")
    print(f"{PAGE.relative_to(ROOT)}: {text.count('| yes |')} operators")


if __name__ == "__main__":
    main()
