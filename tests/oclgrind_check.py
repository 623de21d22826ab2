"""The device kernels of the case tables and of real models under Oclgrind, which interprets them.

    python tests/oclgrind_check.py [--shape cpu|gpu] [FAMILY …] [--models [NAME …]]

Finds accesses out of bounds, data races, and use of what was never written; each tensor is a buffer
of its own here, so that it has bounds. What is cleared in OpenCL is cleared for CUDA, whose text is
the same. Kernels that differ in numbers alone are run once where they are slow, large ones at the
corners of their grids (see `oclgrind_jobs`). Needs the program `oclgrind` (a Debian package).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

HERE = Path(__file__).resolve().parent
PATHS = [str(HERE), str(HERE.parent / "src")]
if __name__ == "__main__":
    sys.path[:0] = PATHS

from oclgrind_jobs import (  # noqa: E402
    MODELS,
    SHAPES,
    Choice,
    Job,
    families,
    of_family,
    of_models,
)

START = 300.0  # seconds until the process is ready
SECONDS = 900.0  # for one job; none takes a tenth of it where it has a core to itself

# What Oclgrind says and is not so: of the message and the line of text, and why.
FALSE: Mapping[str, str] = {}
# models whose partitions have kernels with much joined to them
LIVELY = (
    "blazeface_f32",
    "dtln_2_hybrid",
    "edsr_f32",
    "edsr_int8",
    "face_detection_short_f16w",
    "kws_dscnn_int8",
    "lstm_int8",
    "mobilenet_v2_ptq_int8",
    "okay_nabu_streaming_int8",
    "posenet_decoder_custom_op",
    "resnet8_f32",
    "resnet8_int8",
    "sdpa_composite_mha",
    "toycar_dynamic_range",
    "vww_96_f32",
    "vww_96_int8",
    "yamnet",
    "yolov8n_int8",
)


@dataclass
class Found:
    """`findings`: what Oclgrind said, where, how often, and of which job first. `errors`: why jobs
    were not run to their end, by job."""

    choice: Choice
    findings: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    false: Counter[str] = field(default_factory=Counter)
    errors: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        return not self.findings and not self.errors


def missing() -> str | None:
    """Why nothing can be checked here."""
    if shutil.which("oclgrind") is None:
        return "oclgrind is not on PATH (a package of Debian and Ubuntu)"
    return None


def check(shape: str, choice: Choice, seconds: float = SECONDS) -> Found:
    """Runs the jobs, in a process that is started anew after each that hangs or dies."""
    found, left, began = Found(choice), list(choice.jobs), time.monotonic()
    while left:
        done = 0
        for told in _child(shape, left, seconds):
            done += 1
            name = str(left[done - 1])
            if told["error"]:
                found.errors[name] = told["error"]
            for text in messages(told["log"]):
                kind = found.false if any(re.search(f, text) for f in FALSE) else found.findings
                kind[text] += 1
                found.first.setdefault(text, name)
        left = left[done:]
    found.seconds = time.monotonic() - began
    return found


def messages(log: str) -> Iterator[str]:
    """Each message without its addresses, and the line of text that it is about."""
    for entry in re.split(r"\n\s*\n(?=\S)", log):
        lines = [line.strip() for line in entry.splitlines() if line.strip()]
        if lines:
            at = next((i + 1 for i, x in enumerate(lines) if x.startswith("At line")), 0)
            place = f" at `{lines[at]}`" if 0 < at < len(lines) else ""
            yield re.sub(r"0x[0-9a-f]+", "…", lines[0]) + place


def _child(shape: str, jobs: Sequence[Job], seconds: float) -> Iterator[Mapping[str, Any]]:
    """What became of one job after the other, up to one that does not end or ends the process."""
    with tempfile.TemporaryDirectory() as folder:
        log, errors = Path(folder, "log"), Path(folder, "errors")
        flags = ["--data-races", "--uninitialized", "--max-errors", "100000", "--log", str(log)]
        command = [sys.executable, str(HERE / "oclgrind_child.py"), shape, str(log)]
        with (
            errors.open("w") as stderr,
            subprocess.Popen(
                ["oclgrind", *flags, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(PATHS)},
                text=True,
            ) as process,
        ):
            lines: Queue[str] = Queue()
            reader = Thread(target=_read, args=(process.stdout, lines), daemon=True)
            reader.start()
            try:
                assert process.stdin is not None
                process.stdin.write(json.dumps([asdict(job) for job in jobs]))
                process.stdin.close()
                limit, of = START, "the start"
                for _ in range(1 + 2 * len(jobs)):
                    line = lines.get(timeout=limit)
                    if not line:
                        text = f"the process ended with {process.wait()}: "
                        yield _failed(text + errors.read_text()[-500:])
                        return
                    told = json.loads(line)
                    limit = seconds
                    if "done" in told:
                        yield told
            except Empty:
                yield _failed(f"no end after {limit:.0f} s of {of}")
            finally:
                process.kill()


def _failed(error: str) -> Mapping[str, Any]:
    return {"log": "", "error": error}


def _read(stream: Iterable[str], lines: Queue[str]) -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


def rows(args: argparse.Namespace) -> Iterator[tuple[str, str, Found]]:
    shapes = [args.shape] if args.shape else list(SHAPES)
    every = not args.families and args.models is None
    for family in args.families or (families() if every else []):
        for shape in shapes:
            choice = of_family(shape, family).only(args.only)
            yield family, shape, check(shape, choice, args.seconds)
    if (every or args.models is not None) and MODELS.is_dir():
        for shape in shapes:
            choice = of_models(shape, args.models or LIVELY).only(args.only)
            yield "models", shape, check(shape, choice, args.seconds)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="[default: all]")
    parser.add_argument("--models", nargs="*", metavar="NAME", help="of ../shared/models")
    parser.add_argument("--shape", choices=list(SHAPES), help="of the kernels [default: both]")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name has it")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for one case")
    args = parser.parse_args(argv)
    reason = missing()
    if reason is not None:
        print(f"not checked: {reason}")
        return 0
    wrong = False
    print(f"{'family':18}{'shape':>6}{'kernels':>9}{'alike':>7}{'found':>7}{'seconds':>9}")
    for family, shape, found in rows(args):
        wrong |= not found.clean
        choice, count = found.choice, len(found.findings) + len(found.errors)
        print(
            f"{family:18}{shape:>6}{choice.kernels:9}{choice.alike:7}{count:7}{found.seconds:9.0f}",
            flush=True,
        )
        if choice.large:
            print(f"    {choice.large} kernels of models were too large")
        for text, times in found.findings.most_common():
            print(f"    {times} × {text}, first in {found.first[text]}")
        for text, times in found.false.most_common():
            print(f"    not so: {times} × {text}")
        for job, text in found.errors.items():
            print(f"    {job} was not run to its end: {text}", flush=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
