"""The device kernels of the case tables under Oclgrind, which interprets them one by one.

    python tests/oclgrind_check.py [--shape cpu|gpu] [FAMILY …]

Finds accesses out of bounds, data races, and use of what was never written; each tensor is a buffer
of its own here, so that it has bounds. What is cleared in OpenCL is cleared for CUDA, whose text is
the same. Needs the program `oclgrind` (a Debian package).
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

HERE = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

SHAPES = {"cpu": "pocl-cpu", "gpu": "opencl-gpu"}
PLANTED = "planted"  # kernels that are wrong, to see that they are found
SECONDS = 3600.0


@dataclass(frozen=True)
class Found:
    """`findings`: what Oclgrind said, the kernel's family, and how often. `errors`: cases that were
    not run."""

    kernels: int
    findings: Counter[tuple[str, str]]
    errors: Mapping[str, str]


def missing() -> str | None:
    """Why nothing can be checked here."""
    if shutil.which("oclgrind") is None:
        return "oclgrind is not on PATH (a package of Debian and Ubuntu)"
    return None


def check(shape: str, family: str) -> Found:
    """One family of cases, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        flags = ["--data-races", "--uninitialized", "--max-errors", "10000", "--log", str(log)]
        child = [sys.executable, str(HERE / "oclgrind_check.py"), "--child", "--shape", shape]
        done = subprocess.run(
            ["oclgrind", *flags, *child, family], capture_output=True, text=True, timeout=SECONDS
        )
        if done.returncode:
            ended = f"{family} for a {shape} ended with {done.returncode}"
            raise RuntimeError(f"{ended}: {done.stderr[-2000:]}")
        told = json.loads(done.stdout)
        text = log.read_text() if log.exists() else ""
    return Found(len(told["kernels"]), _findings(text, told["kernels"]), told["errors"])


def _findings(log: str, families: Mapping[str, str]) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for entry in re.split(r"\n\s*\n", log):
        lines = [line.strip() for line in entry.splitlines() if line.strip()]
        if not lines:
            continue
        kernel = next((x.split()[1] for x in lines if x.startswith("Kernel:")), "")
        text = re.sub(r"0x[0-9a-f]+", "…", lines[0])
        found[text, families.get(kernel, kernel)] += 1
    return found


# -- under Oclgrind


def child(shape: str, family: str) -> None:
    import numpy as np
    import test_device

    from litedelegate.delegates.gpu.cache import ProgramCache
    from litedelegate.delegates.gpu.device import Launch
    from litedelegate.delegates.opencl.device import OpenCLDevice
    from litedelegate.delegates.opencl.find import devices
    from litedelegate.kernels.api import Run
    from litedelegate.kernels.device import PROFILES
    from litedelegate.kernels.types import Array

    building = Lock()  # Oclgrind's compiler crashes in several threads, where plans build

    class Block:
        """Memory of which parts are taken, each a buffer of its own, or the whole."""

        def __init__(self, nbytes: int) -> None:
            self.nbytes = nbytes
            self.data: Array | None = None
            self.whole: Any = None

    class Guarded(OpenCLDevice):
        """A device on which no tensor has a neighbour."""

        def __init__(self) -> None:
            (found,) = (d for d in devices() if "Oclgrind" in d.platform.name)
            super().__init__(found, ProgramCache(""))
            self.alignment = 1  # padding would be missed by nobody
            self.capability = replace(PROFILES[SHAPES[shape]], name="oclgrind", fp16=False)
            # optimised code has instructions that Oclgrind's checks do not know
            self._options.append("-cl-opt-disable")
            self.names: list[str] = []

        def allocate(self, nbytes: int) -> Any:
            return Block(nbytes)

        def view(self, buffer: Any, offset: int, nbytes: int) -> Any:
            part = super().allocate(nbytes)
            if buffer.data is not None:
                super().upload(part, np.ascontiguousarray(buffer.data[offset : offset + nbytes]))
                self.synchronise()
            return part

        def whole(self, buffer: Any) -> Any:
            if not isinstance(buffer, Block):
                return buffer
            if buffer.whole is None:
                buffer.whole = self.view(buffer, 0, buffer.nbytes)
            return buffer.whole

        def upload(self, buffer: Any, array: Array) -> None:
            if isinstance(buffer, Block) and buffer.whole is None:
                buffer.data = array.reshape(-1).view(np.uint8).copy()
            else:
                super().upload(self.whole(buffer), array)

        def download(self, buffer: Any, array: Array) -> None:
            super().download(self.whole(buffer), array)

        def record(self, launches: Sequence[Launch]) -> Run:
            return super().record(
                [replace(x, args=tuple(map(self.whole, x.args))) for x in launches]
            )

        def wrap(self, array: Array) -> Any | None:
            return None

        def build(self, source: str, names: Sequence[str]) -> Mapping[str, Any]:
            self.names += names
            with building:
                return super().build(source, names)

    device = Guarded()
    errors: dict[str, str] = {}
    if family == PLANTED:
        built = device.build(BUGS, ["beyond", "race", "unwritten"])
        buffers = [device.view(Block(64), 0, 64) for _ in range(2)]
        group = (4,)
        device.record([Launch(k, tuple(buffers), (16,), group) for k in built.values()])()
        device.synchronise()
    else:
        test_device.target = lambda backend: device
        found = test_device.results("oclgrind", family)
        errors = {key: f"{type(e).__name__}: {e}"[:300] for key, e in found.errors.items()}
    print(json.dumps({"kernels": dict.fromkeys(device.names, family), "errors": errors}))


BUGS = """
KERNEL void beyond(GLOBAL i32* to, CONST_ARG i32* from) { to[GID0 + 1] = GID0; }
KERNEL void race(GLOBAL i32* to, CONST_ARG i32* from) { to[0] += GID0; }
KERNEL void unwritten(GLOBAL i32* to, CONST_ARG i32* from)
{
    if (from[GID0] > 3)
        to[GID0] = 1;
}
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="[default: all]")
    parser.add_argument("--shape", choices=list(SHAPES), help="of the kernels [default: both]")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.child:
        child(args.shape, args.families[0])
        return 0
    reason = missing()
    if reason is not None:
        print(f"not checked: {reason}")
        return 0
    from test_device import KEYS

    wrong = False
    for family in args.families or sorted({key.partition("-")[0] for key in KEYS}):
        for shape in [args.shape] if args.shape else SHAPES:
            found = check(shape, family)
            wrong |= bool(found.findings or found.errors)
            print(f"{family} for a {shape}: {found.kernels} kernels", flush=True)
            for (text, _), count in found.findings.most_common():
                print(f"    {count} × {text}")
            for key, text in found.errors.items():
                print(f"    {key} was not run: {text}")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
