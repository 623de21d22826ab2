"""Which device kernels Oclgrind is given: of what is slow to interpret, one of each structure.

Two kernels are alike in structure where they differ in numbers alone, and in none that decides
which lines the preprocessor keeps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from harness import infer
from test_device import KEYS, Claimed, claim
from test_ops import ALL, registration

from litedelegate import Interpreter
from litedelegate.delegates.gpu.delegate import GpuDelegate
from litedelegate.delegates.gpu.draft import Draft
from litedelegate.delegates.gpu.dry import DryDevice
from litedelegate.delegates.gpu.fuse import Item
from litedelegate.delegates.gpu.sketch import Sketch
from litedelegate.delegates.gpu.texts import Bodied, Operand, Text
from litedelegate.kernels.api import NodeSpec, OpError, Unsupported
from litedelegate.kernels.device import PROFILES, Capability
from litedelegate.kernels.types import Array
from litedelegate.runtime.cost import estimate
from litedelegate.runtime.delegate import Partition

MODELS = Path(__file__).resolve().parent.parent.parent / "shared" / "models"

# Work is counted in multiplications and additions. A core interprets so many in a second, as
# scalars or as vectors:
SPEED = {"gpu": 12_000, "cpu": 120_000}
# the groups of kernels that do not ask for any
UNITS = {"gpu": (64, 1, 1), "cpu": (1, 1, 1)}
# In seconds:
SMALL = 2  # cases of less are all run
WHOLE = 15  # of launches of more, only the groups at the corners of the grid
LARGEST = 8  # of models' kernels
SIDES = (17, 15)  # of models' images, where they can be resized

_CPU = replace(PROFILES["pocl-cpu"], fp16=False)
_GPU = replace(PROFILES["opencl-gpu"], fp16=False)
_MMA = replace(_GPU, name="with MMA, doubles", dot4=True, mma=True, subgroup=32, fp64=True)
# each with what its better kin have
SHAPES: Mapping[str, Sequence[Capability]] = {
    "cpu": [_CPU, replace(_CPU, name="with DOT4_U8I8", dot4=True)],
    "gpu": [_GPU, _MMA, replace(_MMA, name="with MMA, halves", half=True)],
}


@dataclass(frozen=True)
class Job:
    """A case on a device of `SHAPES[shape][variant]`, its first input cut to `cut`; or, with
    `kernel`, one kernel of a model."""

    name: str
    variant: int = 0
    kernel: int = -1
    cut: Sequence[int] = ()

    def __str__(self) -> str:
        at = f", kernel {self.kernel}" if self.kernel >= 0 else ""
        return f"{self.name}{at}" + (f" (variant {self.variant})" if self.variant else "")


@dataclass
class Choice:
    """`names`: of the kernels of each job. `alike`: how many are like one of these, and `large`:
    beyond `LARGEST`."""

    jobs: list[Job] = field(default_factory=list)
    names: list[set[str]] = field(default_factory=list)
    alike: int = 0
    large: int = 0

    @property
    def kernels(self) -> int:
        return len(set().union(*self.names))

    def only(self, text: str) -> Choice:
        """The jobs whose names have it."""
        pairs = zip(self.jobs, self.names, strict=True)
        kept = [(job, names) for job, names in pairs if text in str(job)]
        return Choice([j for j, _ in kept], [n for _, n in kept], self.alike, self.large)


# -- structure and work

_DEFINE = re.compile(r"#define (\w+)(?:\([^)]*\))? ")
_CONDITION = re.compile(r"^\s*#\s*(?:el)?if.*$", re.M)
_HEXADECIMAL = r"0x[0-9A-Fa-f]+(?:\.[0-9A-Fa-f]*)?(?:p[-+]?\d+)?"
_NUMBER = re.compile(
    rf"(?:(?<=[(, ])-)?(?<![\w.])(?:{_HEXADECIMAL}|\d+\.?\d*(?:[eE][-+]?\d+)?)[uUlLfF]*"
)
_ALONE = re.compile(r"(?:AS_F32)?\(0\)")
_HASH = re.compile(r"\bf?k[0-9a-f]{16}\b")


def structure(text: Text) -> str:
    source = "\n".join((*(body for _, body in text.functions), text.source))
    decisive = set(re.findall(r"\w+", " ".join(_CONDITION.findall(source))))
    lines = []
    for line in source.splitlines():
        define = _DEFINE.match(line)
        keep = define[1] in decisive if define else line.lstrip().startswith("#")
        plain = _ALONE.sub("0", _NUMBER.sub("0", _HASH.sub("f", line)))
        lines.append(line if keep else plain)
    return "\n".join(lines)


def _groups(grid: Sequence[int], group: Sequence[int] | None, kind: str) -> list[int]:
    return [-(-n // u) for n, u in zip(grid, group or UNITS[kind], strict=False)]


def parts(
    grid: Sequence[int], group: Sequence[int] | None, kind: str
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The corners of a grid, as offsets and sizes: of each dimension the first group and the last
    two. With each other these may race, and they see all edges."""
    unit = group or UNITS[kind]
    dimensions = []
    for n, u, groups in zip(grid, unit, _groups(grid, group, kind), strict=False):
        last = (groups - 2) * u
        dimensions.append([(0, n)] if last <= u else [(0, u), (last, n - last)])
    return [tuple(zip(*part, strict=True)) for part in product(*dimensions)]  # type: ignore[misc]


def _seconds(work: float, text: Text, kind: str) -> float:
    """What is run of `work` takes."""
    seconds = work / SPEED[kind]
    if seconds <= WHOLE:
        return seconds
    corners = sum(math.prod(size) for _, size in parts(text.grid, text.group, kind))
    return seconds * corners / math.prod(text.grid)


def work_of(spec: NodeSpec) -> float:
    return estimate(spec).operations + 4 * sum(t.size for t in spec.outputs)


def too_much(work: float, kind: str) -> bool:
    return work / SPEED[kind] > WHOLE


# -- the case tables


def item_of(claimed: Claimed) -> Item:
    assert claimed.lowered is not None
    spec = claimed.spec
    outs = [len(spec.inputs) + i for i in range(len(spec.outputs))]
    return Item(spec, list(range(len(spec.inputs))), outs, claimed.lowered)


def texts_of(claimed: Claimed, capability: Capability) -> list[Text]:
    item = item_of(claimed)
    crossing = [i for i, s in enumerate(claimed.spec.inputs) if s is not None and s.const is None]
    draft = Draft(capability, [item], crossing, item.outputs, half=capability.half)
    return draft.launches


def cut_case(key: str, claimed: Claimed, shape: Sequence[int], capability: Capability) -> Claimed:
    """The case with the front part of its first input. An exception where it is none then."""
    (first, *others), op = claimed.spec.inputs, registration(ALL[key])
    assert first is not None and op.lower is not None
    spec = replace(claimed.spec, inputs=[replace(first, shape=tuple(shape)), *others])
    outputs = [replace(o, shape=s) for o, s in zip(spec.outputs, infer(op, spec), strict=True) if s]
    spec = replace(spec, outputs=outputs)
    return Claimed(spec, op.lower(spec, capability))


def _cut(key: str, claimed: Claimed, capability: Capability) -> Sequence[int]:
    """The least front part of the first input of which the kernels have the same structure, and as
    many groups up to two."""
    first = claimed.spec.inputs[0]
    if first is None or first.const is not None or ALL[key].updated:
        return ()

    def form(claimed: Claimed) -> list[tuple[str, list[int]]]:
        texts = texts_of(claimed, capability)
        return [
            (structure(t), [min(2, n) for n in _groups(t.grid, t.group, capability.kind)])
            for t in texts
        ]

    wanted = form(claimed)
    shape = list(first.shape)
    for axis in range(len(shape) - 1):
        while shape[axis] > 5:  # a window of three has an inside and edges there
            # odd, as edges are
            less = [*shape[:axis], shape[axis] // 2 | 1, *shape[axis + 1 :]]
            try:
                found = cut_case(key, claimed, less, capability)
                if form(found) != wanted:
                    break
            except (OpError, Unsupported, ValueError):  # of shapes that no longer fit
                break
            shape = less
    return () if shape == list(first.shape) else shape


def families() -> list[str]:
    return sorted({key.partition("-")[0] for key in KEYS})


def of_family(shape: str, family: str) -> Choice:
    """Every kernel of the family's cases that is small or new in structure; smaller ones first."""
    known: set[str] = set()
    structures: set[str] = set()
    every: set[str] = set()
    found = Choice()
    for variant, capability in enumerate(SHAPES[shape]):
        cases: list[tuple[float, str, Claimed, list[Text]]] = []
        for key in KEYS:
            claimed = claim(key, capability) if key.partition("-")[0] == family else None
            if claimed is not None and claimed.lowered is not None:
                texts, work = texts_of(claimed, capability), work_of(claimed.spec)
                cost = max([_seconds(work, t, shape) for t in texts], default=0)
                cases.append((cost, key, claimed, texts))
        for cost, key, claimed, texts in sorted(cases, key=lambda case: case[:2]):
            every |= {t.name for t in texts}
            fresh = {t.name for t in texts} - known
            made = {structure(t) for t in texts}
            if fresh and (cost <= SMALL or not made <= structures):
                cut = _cut(key, claimed, capability) if cost > SMALL else ()
                found.jobs.append(Job(key, variant, cut=cut))
                found.names.append({t.name for t in texts})
                known |= fresh
                structures |= made
    found.alike = len(every - known)
    return found


# -- real models


@dataclass(frozen=True)
class Alone:
    """A kernel that a model is made into, with what its arguments are; all but `written` hold
    something before."""

    text: Text
    operands: Mapping[int, Operand]
    constants: Mapping[int, Array]
    written: int | None
    work: float


class _Keeping(GpuDelegate):
    """Keeps the drafts of its partitions."""

    def __init__(self, capability: Capability) -> None:
        super().__init__("opencl", DryDevice(capability), half=capability.half)
        self.drafts: list[Draft] = []

    def kernel(self, partition: Partition, fuse: bool) -> Any:
        self.drafts.append(Sketch(self._capability, partition, fuse, self.device.alignment).draft)
        return super().kernel(partition, fuse)


@cache
def of_model(name: str, capability: Capability) -> list[Alone]:
    """All kernels of the model's partitions, in order."""
    delegate = _Keeping(capability)
    with Interpreter(str(MODELS / f"{name}.tflite"), delegates=[delegate]) as interpreter:
        first = interpreter.get_input_details()[0]
        for shape in _sizes(tuple(first["shape"])):
            delegate.drafts.clear()
            interpreter.resize_tensor_input(first["index"], shape)
            with suppress(RuntimeError, ValueError):  # a reshape to fixed sizes
                interpreter.allocate_tensors()
                break
        nodes = interpreter.delegate_coverage().nodes
    assert "BUILD_FAILED" not in {r.code for node in nodes for r in node.refusals}
    found = []
    for draft in delegate.drafts:
        for fused, text in zip(draft.fuser.kernels, draft.texts, strict=True):
            if not math.prod(fused.output.shape):
                continue
            operands = {o.key: o for o in (*fused.reads, fused.output)}
            work = sum(work_of(draft.items[i].spec) for i in set(fused.items))
            # what reads its output, reads what others have left there
            raw = isinstance(fused.first, Bodied) and fused.first.step.raw
            written = None if raw else fused.output.key
            found.append(Alone(text, operands, draft.fuser.constants, written, work))
    return found


def _sizes(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The input's shape, before it that of a small image, with edges that fill no tile."""
    image = len(shape) == 4 and min(shape[1:3]) >= SIDES[0]
    return [(shape[0], *SIDES, shape[3]), shape] if image else [shape]


def of_models(shape: str, names: Iterable[str]) -> Choice:
    """Of all kernels of the models the cheapest of each structure."""
    kernels: list[tuple[float, str, Job, str]] = []
    for name, (variant, capability) in product(names, enumerate(SHAPES[shape])):
        for i, alone in enumerate(of_model(name, capability)):
            cost = _seconds(alone.work, alone.text, shape)
            job = Job(name, variant, i)
            kernels.append((cost, structure(alone.text), job, alone.text.name))
    found, structures = Choice(), set()
    for cost, made, job, text in sorted(kernels, key=lambda k: (k[0], str(k[2]))):
        if made in structures:
            continue
        structures.add(made)
        if cost > LARGEST:
            found.large += 1
        else:
            found.jobs.append(job)
            found.names.append({text})
    found.alike = len({text for *_, text in kernels}) - found.kernels - found.large
    return found


def values(operands: Iterable[Operand]) -> Iterator[tuple[int, Array]]:
    """Something of each type, for inputs: floats near 1, whole numbers small enough for indices."""
    random = np.random.default_rng(0)
    for operand in operands:
        kind = operand.dtype.numpy
        if np.dtype(kind).kind == "f":
            yield operand.key, random.normal(1, 0.5, operand.shape).astype(kind)
        elif np.dtype(kind).itemsize == 1:
            yield operand.key, random.integers(0, 127, operand.shape).astype(kind)
        else:
            yield operand.key, random.integers(0, 2, operand.shape).astype(kind)
