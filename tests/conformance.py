"""Runs the one-op models of `../shared/conformance`, and compares by the rules of its README.

python tests/conformance.py                     all cases whose ops are registered
python tests/conformance.py --op add --op pad         the cases of these folders
python tests/conformance.py --only-builtins ADD MUL   the cases that use no other operator
python tests/conformance.py --case ops/add/003 -v     one case; -v prints reasons in full
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))

from litedelegate import Interpreter, Model, PositionalInputWarning  # noqa: E402
from litedelegate.kernels.builtins import find_builtin, find_custom  # noqa: E402

Array = NDArray[Any]

CASES = ROOT.parent / "shared" / "conformance"
# Ops whose float results depend on the order of a long sum (or product).
LONG_SUMS = frozenset(
    {
        "AVERAGE_POOL_2D",
        "AudioSpectrogram",
        "BATCH_MATMUL",
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        "BIDIRECTIONAL_SEQUENCE_RNN",
        "CONV_2D",
        "CONV_3D",
        "CONV_3D_TRANSPOSE",
        "CUMSUM",
        "DEPTHWISE_CONV_2D",
        "EMBEDDING_LOOKUP_SPARSE",
        "FULLY_CONNECTED",
        "L2_NORMALIZATION",
        "L2_POOL_2D",
        "LOCAL_RESPONSE_NORMALIZATION",
        "LOG_SOFTMAX",
        "LSTM",
        "MEAN",
        "Mfcc",
        "REDUCE_PROD",
        "REDUCE_WINDOW",
        "RFFT2D",
        "RNN",
        "SEGMENT_SUM",
        "SOFTMAX",
        "STABLEHLO_CONVOLUTION",
        "STABLEHLO_DOT_GENERAL",
        "STABLEHLO_REDUCE",
        "STABLEHLO_REDUCE_WINDOW",
        "SUM",
        "SVDF",
        "TRANSPOSE_CONV",
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        "UNIDIRECTIONAL_SEQUENCE_RNN",
        "UNSORTED_SEGMENT_PROD",
        "UNSORTED_SEGMENT_SUM",
    }
)
# Integers that are rounded floats may be one step off.
FROM_FLOATS = frozenset({"QUANTIZE", "CAST"})


@dataclass(frozen=True)
class Op:
    name: str
    custom: bool


@dataclass(frozen=True)
class Result:
    case: str
    ok: bool
    reason: str = ""


def case_ids(folders: Sequence[str] = ()) -> list[str]:
    """All cases, as `ops/add/001`; only those of some folders."""
    return sorted(
        p.relative_to(CASES).with_suffix("").as_posix()
        for p in CASES.glob("*ops/*/*.tflite")
        if not folders or p.parent.name in folders
    )


def case_ops(case: str) -> frozenset[Op]:
    model = Model.from_file(CASES / f"{case}.tflite", verify=False)
    return frozenset(Op(c.name, c.is_custom) for c in model.operator_codes)


def unregistered(ops: frozenset[Op]) -> list[str]:
    """Names of the ops that have no kernel here."""
    return sorted(op.name for op in ops if not _registered(op))


def _registered(op: Op) -> bool:
    try:
        return (find_custom if op.custom else find_builtin)(op.name) is not None
    except (ImportError, KeyError):
        return False


def read_case(case: str) -> tuple[dict[str, Any], dict[str, Array]]:
    with np.load(CASES / f"{case}.npz") as z:
        meta = json.loads(z["meta"].tobytes())
        return meta, {key: _unpack(z, key, info) for key, info in meta["arrays"].items()}


def _unpack(z: Any, key: str, info: dict[str, Any]) -> Array:
    if info["dtype"] == "str":
        strings = np.empty(len(info["b64"]), object)
        strings[:] = [base64.b64decode(x) for x in info["b64"]]
        return strings.reshape(info["shape"])
    array: Array = z[key]
    if array.dtype.name == info["dtype"]:
        return array
    import ml_dtypes

    dtype = getattr(ml_dtypes, info["dtype"])
    return np.frombuffer(array.tobytes(), dtype).reshape(info["shape"])


def run_model(content: Path, inputs: Sequence[Array], **options: Any) -> list[Array]:
    """One invoke; inputs and outputs by position, inputs resized to the arrays given."""
    with warnings.catch_warnings(), Interpreter(content, **options) as interpreter:
        warnings.simplefilter("ignore", PositionalInputWarning)
        details = interpreter.get_input_details()
        for d, x in zip(details, inputs, strict=True):
            if list(d["shape"]) != list(x.shape):
                interpreter.resize_tensor_input(d["index"], x.shape)
        interpreter.allocate_tensors()
        for d, x in zip(details, inputs, strict=True):
            interpreter.set_tensor(d["index"], x)
        interpreter.invoke()
        return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def run_case(case: str, **options: Any) -> Result:
    try:
        meta, arrays = read_case(case)
        inputs = [arrays[f"in_{i}"] for i in range(meta["nin"])]
        outputs = run_model(CASES / f"{case}.tflite", inputs, **options)
    except Exception as e:
        return Result(case, False, f"{type(e).__name__}: {e}")
    names = {o[0] for o in meta["ops"]} | {op.name for op in case_ops(case)}
    for i, got in enumerate(outputs):
        want, source = expected(meta, arrays, i)
        if want is None:
            return Result(case, False, f"output {i}: the case holds nothing to compare with")
        reason = compare(
            got,
            want,
            names=names,
            step=int(bool(source == "xnn" and meta["oq"][i])),
            hybrid=meta["hybrid"],
            more=meta["deq_tol"][i],
            values=not meta["nondet"],
        )
        if reason:
            return Result(case, False, f"output {i} against {source}: {reason}")
    return Result(case, True)


def expected(meta: dict[str, Any], arrays: dict[str, Array], i: int) -> tuple[Array | None, str]:
    """What output `i` should be, and whose word that is."""
    for source in ("ref", "xnn"):
        if f"{source}_{i}" in arrays:
            return arrays[f"{source}_{i}"], source
    j = meta["tf_map"][i]
    return (arrays[f"tf_{j}"], "tf") if j >= 0 else (None, "")


def compare(
    got: Array,
    want: Array,
    *,
    names: set[str] | frozenset[str] = frozenset(),
    step: int = 0,
    hybrid: bool = False,
    more: float = 0.0,
    values: bool = True,
) -> str:
    """Why `got` is not `want`; empty where it is."""
    if got.shape != want.shape:
        return f"shape {list(got.shape)}, should be {list(want.shape)}"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, should be {want.dtype}"
    if not values or not want.size:
        return ""
    if want.dtype.kind in "iu":
        step = max(step, int(hybrid or not FROM_FLOATS.isdisjoint(names)))
        off = np.abs(got.astype(object if want.dtype.itemsize == 8 else np.int64) - want)
        return _describe(got, want, off > step, f"of {step} allowed, {off.max()} at most")
    if want.dtype.kind in "bOSU":
        return _describe(got, want, np.asarray(got != want, bool), "must be equal")
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    a, b = got.astype(wide), want.astype(wide)
    finite = np.isfinite(b)
    largest = float(np.abs(b[finite]).max(initial=0.0))
    limit = largest * relative_tolerance(want.dtype, names, hybrid) + more
    with np.errstate(invalid="ignore"):
        off = np.abs(a - b)
        bad = np.where(finite, ~(off <= limit), ~((a == b) | (np.isnan(a) & np.isnan(b))))
    most = np.nanmax(off[finite], initial=0)
    return _describe(got, want, bad, f"{limit:.3g} allowed, {most:.3g} at most")


def relative_tolerance(
    dtype: np.dtype[Any], names: set[str] | frozenset[str], hybrid: bool
) -> float:
    """Of the largest absolute value."""
    tolerance = 1e-5 if names.isdisjoint(LONG_SUMS) else 1e-4
    if dtype.name == "float16":
        tolerance = 4e-3
    elif dtype.name == "bfloat16":
        tolerance = 2e-2
    return max(tolerance, 1e-2) if hybrid else tolerance


def _describe(got: Array, want: Array, bad: Array, limits: str) -> str:
    count = int(np.count_nonzero(bad))
    if not count:
        return ""
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return (
        f"{count} of {want.size} differ ({limits}); "
        f"at {list(at)} {got[at]!r}, should be {want[at]!r}"
    )


def known_failures(backend: str = "numpy") -> dict[str, str]:
    """case -> the reason that stands above it in `tests/xfail/<backend>.txt`."""
    found: dict[str, str] = {}
    reason: list[str] = []
    fresh = True
    path = ROOT / "tests" / "xfail" / f"{backend}.txt"
    for line in path.read_text().splitlines() if path.exists() else ():
        text = line.strip()
        if text.startswith("#"):
            reason = [*([] if fresh else reason), text.lstrip("# ")]
            fresh = False
        elif text:
            found[text] = " ".join(reason)
            fresh = True
    return found


def selected(
    folders: Sequence[str], only: Sequence[str], cases: Sequence[str]
) -> Iterator[tuple[str, frozenset[Op]]]:
    for case in cases or case_ids(folders):
        ops = case_ops(case)
        if not only or {op.name for op in ops} <= set(only):
            yield case, ops


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--op", action="append", default=[], metavar="FOLDER")
    parser.add_argument("--only-builtins", nargs="+", default=[], metavar="OP")
    parser.add_argument("--case", action="append", default=[], metavar="ops/add/001")
    parser.add_argument("--threads", type=int)
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    if not CASES.is_dir():
        print(f"there is no {CASES}")
        return 2
    known = known_failures()
    passed: dict[str, int] = defaultdict(int)
    failed: dict[str, list[Result]] = defaultdict(list)
    skipped: dict[str, list[str]] = defaultdict(list)
    for case, ops in selected(args.op, args.only_builtins, args.case):
        folder = case.rpartition("/")[0]
        missing = unregistered(ops)
        if missing:
            skipped[", ".join(missing)].append(case)
            continue
        result = run_case(case, num_threads=args.threads)
        if result.ok:
            passed[folder] += 1
        else:
            failed[folder].append(result)
    for folder in sorted({*passed, *failed}):
        fails = f", {len(failed[folder])} FAIL" if failed[folder] else ""
        print(f"{folder}: {passed[folder]} pass{fails}")
        for result in failed[folder]:
            mark = " (known)" if result.case in known else ""
            reason = result.reason if args.verbose else result.reason.splitlines()[0][:220]
            print(f"    {result.case}{mark}: {reason}")
    for missing_ops, skips in sorted(skipped.items()):
        print(f"not registered: {missing_ops}: {len(skips)} cases")
    total = sum(len(f) for f in failed.values())
    print(f"{sum(passed.values())} pass, {total} fail, {sum(map(len, skipped.values()))} skipped")
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main())
