"""What the OpenCL delegate takes of each model, and whether its results are numpy's.

    python benchmarks/delegation.py MODEL [MODEL ...]             on the device that is there
    python benchmarks/delegation.py --device Intel MODELS/        on another one, by name
    python benchmarks/delegation.py --dry sm_90 MODELS/           on one that is not there
    python benchmarks/delegation.py --write docs/devices.md …     puts the table into the page

Work is the estimated arithmetic; folded nodes count on neither side. Each signature is invoked
twice, with the inputs that lie beside the model (`in0_<k>` of its .npz) or made-up ones.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from measure import inputs_for, made_up

from litedelegate import Delegate, Interpreter
from litedelegate.delegates.gpu.dry_delegate import DryDelegate
from litedelegate.runtime.coverage import Coverage
from litedelegate.runtime.steps import Steps

BEGIN, END = "<!-- delegation: begin -->", "<!-- delegation: end -->"
HEAD = (
    "model | nodes | delegated | of the work | in one partition | partitions | kernels | "
    "off numpy by | on the CPU"
)
# what moves and multiplies images: models of these are to run in one piece
CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")


@dataclass(frozen=True)
class Row:
    model: str
    nodes: int  # that are not folded
    share_of_nodes: float
    share_of_work: float
    share_of_largest: float  # partition, of the work
    partitions: int
    kernels: int
    convolutional: bool  # convolutions are most of its work
    difference: Difference | None  # None: not run
    reasons: Counter[tuple[str, str]]  # (operator, code) of nodes on the CPU
    unexplained: int  # nodes on the CPU without a reason

    def cells(self) -> tuple[str, ...]:
        left = ", ".join(
            f"{op}{f' ×{n}' * (n > 1)} ({code})" for (op, code), n in self.reasons.most_common(4)
        )
        more = len(self.reasons) - 4
        return (
            self.model,
            f"{self.nodes:,}",
            f"{self.share_of_nodes:.1%}",
            f"{self.share_of_work:.1%}",
            f"{self.share_of_largest:.1%}",
            f"{self.partitions}",
            f"{self.kernels:,}",
            "" if self.difference is None else str(self.difference),
            f"{left}{f', {more} more' * (more > 0)}",
        )


@dataclass(frozen=True)
class Difference:
    """`floats`: relative to the tensor's largest value. `steps`: of integers."""

    floats: float = 0.0
    steps: int = 0

    def __str__(self) -> str:
        parts = [f"{self.floats:.0e}"] if self.floats else []
        parts += [f"{self.steps} step{'s' * (self.steps > 1)}"] if self.steps else []
        return " and ".join(parts) or "nothing"


def measure(path: Path, delegate: Delegate, run: bool = True) -> Row:
    with Interpreter(path, delegates=[delegate]) as delegated:
        report = delegated.delegate_coverage()
        difference = None
        if run:
            with Interpreter(path) as plain:
                difference = compare(path, plain, delegated)
            report = delegated.delegate_coverage()  # as it is after running
    return summary(path.stem, report, difference)


def summary(name: str, report: Coverage, difference: Difference | None) -> Row:
    t = report.totals
    live = [n for n in report.nodes if n.placed_on != "folded"]
    work = sum(n.cost.operations for n in live) or 1
    parts: Counter[int] = Counter()
    for n in live:
        if n.partition is not None:
            parts[n.partition] += n.cost.operations
    convolutions = sum(n.cost.operations for n in live if n.op in CONVOLUTIONS)
    on_cpu = report.on_cpu
    return Row(
        name,
        len(live),
        t.share_of_nodes,
        t.share_of_work,
        max(parts.values(), default=0) / work,
        t.partitions,
        sum(len(p.kernels) for p in report.partitions),
        convolutions > work / 2,
        difference,
        Counter((n.op, r.code) for n in on_cpu for r in n.refusals[:1]),
        sum(not n.refusals for n in on_cpu),
    )


def compare(path: Path, plain: Interpreter, delegated: Interpreter) -> Difference:
    """Of all outputs of two invokes of each signature."""
    rng = np.random.default_rng(0)
    floats, steps = 0.0, 0
    for key in list(plain.get_signature_list()) or [None]:
        details = Steps(plain, key).inputs
        first = {d["index"] for d in plain.get_input_details()}
        if {d["index"] for d in details.values()} == first:
            order = [d["index"] for d in plain.get_input_details()]
            stored = inputs_for(str(path), plain.get_input_details())
            values = {n: stored[order.index(d["index"])] for n, d in details.items()}
        else:
            values = {
                n: made_up(tuple(d["shape"]), np.dtype(d["dtype"]), rng) for n, d in details.items()
            }
        for _ in range(2):  # what the first leaves to the second is compared too
            want = plain.run(values, signature_key=key)
            got = delegated.run(values, signature_key=key)
            for name, array in want.items():
                a, b = np.asarray(got[name]), np.asarray(array)
                if not b.size or np.array_equal(a, b, equal_nan=b.dtype.kind == "f"):
                    continue
                if b.dtype.kind == "f":
                    with np.errstate(invalid="ignore"):
                        gap = np.abs(a.astype(np.float64) - b)
                    top = np.nanmax(np.abs(b), initial=1e-30)
                    floats = max(floats, float(np.max(np.nan_to_num(gap, nan=np.inf)) / top))
                else:
                    steps = max(steps, int(np.abs(a.astype(np.int64) - b).max()))
    return Difference(floats, steps)


def lines(rows: Sequence[Row]) -> Iterator[str]:
    yield f"| {HEAD} |"
    yield f"|{'---|' * (HEAD.count('|') + 1)}"
    for row in rows:
        yield f"| {' | '.join(row.cells())} |"


def write(page: Path, text: str) -> None:
    """Puts the table between the marks of a page."""
    old = page.read_text("utf-8")
    before, begin, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page} has no {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", "utf-8")


def delegate_of(device: str | None, dry: str | None) -> Callable[[], Delegate]:
    if dry is not None:
        return lambda: DryDelegate("opencl", dry)
    from litedelegate.delegates.opencl import OpenCLDelegate

    # all that can be taken is, whether it pays on this machine or not
    return lambda: OpenCLDelegate(device, costs="none")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--device")
    parser.add_argument("--dry", metavar="PROFILE")
    parser.add_argument("--write", type=Path, metavar="PAGE")
    args = parser.parse_args(argv)
    make = delegate_of(args.device, args.dry)
    paths = [p for m in args.models for p in (sorted(m.glob("*.tflite")) if m.is_dir() else [m])]
    rows, skipped = [], []
    for path in paths:
        print(f"{path.stem} …", file=sys.stderr, flush=True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows.append(measure(path, make(), run=args.dry is None))
        except (RuntimeError, ValueError) as e:
            skipped.append(f"{path.stem}: {str(e).splitlines()[0].partition('. ')[0]}")
    text = "\n".join(lines(rows))
    if skipped:
        text += "\n\n" + "\n".join(f"Left out: {s}  " for s in skipped)
    if args.write:
        write(args.write, text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(main())
