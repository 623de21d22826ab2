"""Runs jobs under Oclgrind, in a process that `oclgrind` started: see `oclgrind_check`.

    oclgrind … python tests/oclgrind_child.py SHAPE LOG < jobs

A line of JSON when a job begins, and one when it is done, with what Oclgrind wrote meanwhile.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from oclgrind_jobs import SHAPES, Job, cut_case, item_of, of_model, parts, too_much, values, work_of
from test_device import ALL, arrays, claim

from litedelegate.delegates.gpu.cache import ProgramCache
from litedelegate.delegates.gpu.device import Launch
from litedelegate.delegates.gpu.plan import Plan
from litedelegate.delegates.gpu.texts import program
from litedelegate.delegates.opencl.device import OpenCLDevice
from litedelegate.delegates.opencl.find import devices
from litedelegate.kernels.api import Run
from litedelegate.kernels.types import Array

PLANTED = "planted"  # kernels that are wrong, to see that they are found
_BUGS = {
    "beyond": "to[GID0 + 1] = GID0;",
    "race": "to[0] += GID0;",
    "unwritten": "if (from[GID0] > 3) to[GID0] = 1;",
    "endless": "while (GID0 >= 0) to[GID0] = 1;",
    "unknown": "to[0] = undeclared;",
}
# what a CPU's instruction computes; and shuffles of vectors lane by lane, for Oclgrind crashes at
# them where it looks for what is unwritten
_PLAIN = """
static inline int16 oclgrind_dot4(int16 c, int16 a, int16 b)
{
    for (int i = 0; i < 16; i++) {
        const uchar4 x = as_uchar4(a[i]);
        const char4 y = as_char4(b[i]);
        c[i] += x.s0 * y.s0 + x.s1 * y.s1 + x.s2 * y.s2 + x.s3 * y.s3;
    }
    return c;
}
#define DOT4_U8I8(c, a, b) oclgrind_dot4(c, a, b)
#define HALVES_OF(W) \\
    static inline __attribute__((overloadable)) \\
        float##W oclgrind_every(float##W a, float##W b, int k) \\
    { \\
        float##W made; \\
        for (int i = 0; i < W / 2; i++) { \\
            made[i] = a[2 * i + k]; \\
            made[i + W / 2] = b[2 * i + k]; \\
        } \\
        return made; \\
    }
HALVES_OF(2) HALVES_OF(4) HALVES_OF(8) HALVES_OF(16)
#undef HALVES_OF
#undef EVENS
#undef ODDS
#define EVENS(type, W, a, b) oclgrind_every(a, b, 0)
#define ODDS(type, W, a, b) oclgrind_every(a, b, 1)
"""


class Block:
    """Memory of which parts are taken, each a buffer of its own, or the whole."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.data: Array | None = None
        self.whole: Any = None


@dataclass(eq=False)
class Part:
    """A buffer without a neighbour; `fresh`: nothing was put there."""

    buffer: Any
    fresh: bool = True


class Guarded(OpenCLDevice):
    """A device on which no tensor has a neighbour. With `corners` only these of a grid are run."""

    def __init__(self, shape: str) -> None:
        (found,) = (d for d in devices() if "Oclgrind" in d.platform.name)
        super().__init__(found, ProgramCache(""))
        self.alignment = 1  # padding would be missed by nobody
        self._prelude = self.prelude + _PLAIN
        self.shape, self.corners = shape, False
        # Oclgrind takes for unwritten what lies where a released buffer lay
        self._kept: list[Part] = []
        self._building = Lock()  # Oclgrind's compiler crashes in several threads
        # plain C in place of the CPU's own instructions, which Oclgrind does not know; and its
        # checks do not know those of optimised code
        self._options = ["-cl-mad-enable", "-cl-opt-disable", *["-DQUICK_EXP"] * (shape == "cpu")]

    def allocate(self, nbytes: int) -> Any:
        return Block(nbytes)

    def view(self, buffer: Any, offset: int, nbytes: int) -> Any:
        part = Part(super().allocate(nbytes))
        self._kept.append(part)
        if buffer.data is not None:
            self.upload(part, np.ascontiguousarray(buffer.data[offset : offset + nbytes]))
            self.synchronise()
        return part

    def part(self, buffer: Any) -> Part:
        if isinstance(buffer, Part):
            return buffer
        if buffer.whole is None:
            buffer.whole = self.view(buffer, 0, buffer.nbytes)
        return buffer.whole

    def upload(self, buffer: Any, array: Array) -> None:
        if isinstance(buffer, Block) and buffer.whole is None:
            buffer.data = array.reshape(-1).view(np.uint8).copy()
            return
        part = self.part(buffer)
        super().upload(part.buffer, array)
        part.fresh = False

    def download(self, buffer: Any, array: Array) -> None:
        super().download(self.part(buffer).buffer, array)

    def wrap(self, array: Array) -> Any | None:
        return None

    def build(self, source: str, names: Sequence[str]) -> Mapping[str, Any]:
        without = "" if self.capability.fp64 else "#undef cl_khr_fp64\n"
        with self._building:
            self.prelude = without + self._prelude
            return super().build(source, names)

    def record(self, launches: Sequence[Launch]) -> Run:
        def run() -> None:
            if self.corners and len(launches) > 1:
                self._fill({self.part(x) for launch in launches for x in launch.args})
            for launch in launches:
                kernel = launch.kernel()
                kernel.set_args(*(self.part(x).buffer for x in launch.args))
                group = launch.group
                if group is None and self.shape == "cpu":
                    group = (1,) * len(launch.grid)
                whole = ((0,) * len(launch.grid), launch.grid)
                for offset, size in (
                    parts(launch.grid, launch.group, self.shape) if self.corners else [whole]
                ):
                    self.library.enqueue_nd_range_kernel(self.queue, kernel, size, group, offset)
                    self.synchronise()

        return run

    def _fill(self, given: set[Part]) -> None:
        """What launches that are not run as a whole leave unwritten, later ones read."""
        for part in given:
            if part.fresh:
                self.upload(part, np.zeros(part.buffer.size, np.uint8))
        self.synchronise()


def run_case(device: Guarded, job: Job) -> int:
    capability = device.capability = SHAPES[device.shape][job.variant]
    claimed = claim(job.name, capability)
    if job.cut:
        claimed = cut_case(job.name, claimed, job.cut, capability)
    item, spec = item_of(claimed), claimed.spec
    given = zip(spec.inputs, arrays(ALL[job.name]), strict=True)
    ins = {
        i: np.ascontiguousarray(value[tuple(slice(n) for n in s.shape)])
        for i, (s, value) in enumerate(given)
        if s is not None and s.const is None and value is not None
    }
    outs = {
        i: np.zeros(s.shape, s.dtype.numpy) for i, s in zip(item.outputs, spec.outputs, strict=True)
    }
    outs |= {i: ins[i] for i in item.lowered.state}
    device.corners = too_much(work_of(spec), device.shape)
    plan = Plan(device, [item], list(ins), list(outs), half=capability.half)
    plan.run(ins, outs)
    return len(plan._launched)


def run_kernel(device: Guarded, job: Job) -> int:
    capability = device.capability = SHAPES[device.shape][job.variant]
    alone = of_model(job.name, capability)[job.kernel]
    text = alone.text
    built = device.build(program([text]), [text.name])
    given = dict(values(alone.operands.values()))
    buffers = {}
    for key in dict.fromkeys(text.args):
        array = np.ascontiguousarray(alone.constants.get(key, given[key]))
        buffers[key] = device.view(Block(array.nbytes), 0, array.nbytes)
        if key != alone.written:
            device.upload(buffers[key], array)
    args = [buffers[key] for key in text.args]
    if text.status:
        status = np.zeros(4096, np.int32)  # for all faults of the model
        args.append(device.view(Block(status.nbytes), 0, status.nbytes))
        device.upload(args[-1], status)
    device.synchronise()
    device.corners = too_much(alone.work, device.shape)
    device.record([Launch(built[text.name], tuple(args), text.grid, text.group)])()
    return 1


def run_planted(device: Guarded, job: Job) -> int:
    bug = job.name.partition("-")[2]
    head = "(GLOBAL i32* to, CONST_ARG i32* from)"
    built = device.build(f"KERNEL void {bug}{head} {{ {_BUGS[bug]} }}", [bug])
    buffers = tuple(device.view(Block(64), 0, 64) for _ in range(2))
    device.corners = False
    device.record([Launch(built[bug], buffers, (16,), (4,))])()
    return 1


def main(shape: str, log: Path) -> None:
    device = Guarded(shape)
    read = 0
    print(json.dumps({"ready": device.name}), flush=True)
    for told in json.load(sys.stdin):
        job = Job(**told)
        print(json.dumps({"begun": str(job)}), flush=True)
        run: Callable[[Guarded, Job], int] = run_kernel if job.kernel >= 0 else run_case
        if job.name.startswith(PLANTED):
            run = run_planted
        error = ""
        try:
            run(device, job)
        except Exception as e:
            error = f"{type(e).__name__}: {e}"[:300]
        text = log.read_text("utf-8", "replace") if log.exists() else ""
        text, read = text[read:], len(text)
        print(json.dumps({"done": str(job), "log": text, "error": error}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
