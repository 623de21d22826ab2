"""Device forms of ops from outside: what is wrong with one is said before it is built.

Builtin ops are tested; what a user writes is looked at here, so that a slip costs its node with a
sentence, also in a dry run, and reaches neither a compiler nor a neighbour's memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ...kernels.api import NodeSpec, Unsupported
from ...kernels.device import MACROS, Capability, Kernel, Lowered, Map, Source, sources, text
from ...kernels.types import DType
from .fuse import CONSTANTS

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_CALL = re.compile(r"(\w*\s*)\b([A-Z][A-Z0-9_]+)\s*\(")
_POSITION = re.compile(r"\b[GL]ID\d+\b")
_NUMBERED = re.compile(r"\b(LOAD_WORD|LOAD_FOUR|LOAD|IN|FAULT)(\d+)\b")
_STORES = re.compile(r"\b(STORE|STORE_FOUR|STORE_VECTOR|OUT)\b")
# what a delegate defines for a body beside the vocabulary
_OF_BODIES = {"STORE", "STORE_FOUR", "STORE_VECTOR", "PARAMETERS", "KERNEL_NAME", "OUT"}

# a macro, or one with parameters
_MACRO = re.compile(r"[A-Za-z_]\w*(\( *\w+( *, *\w+)* *\))?", re.ASCII)


def check_form(lowered: Any, spec: NodeSpec, capability: Capability) -> None:
    """`Unsupported` with the first thing in `lowered`, of a custom op, that is not as
    `kernels.device` has it.
    """
    if not isinstance(lowered, Lowered):
        raise _fault(f"{type(lowered).__name__} from `lower`", "a Lowered, Map or Kernel")
    for number, step in enumerate(lowered.steps):
        if not isinstance(step, Map | Kernel):
            raise _fault(f"{step!r} as step {number} of {spec.op}", "a Map or a Kernel")
    for source in sources(lowered):
        if source.api not in ("", capability.api):
            given = f"got text for {source.api} alone; this device takes {capability.api}"
            raise Unsupported("DEVICE", given)
    for number, step in enumerate(lowered.steps):
        checked = _Step(f"step {number} of {spec.op}", lowered, spec, capability)
        if isinstance(step, Map):
            checked.map(step)
        else:
            checked.kernel(step)


def _fault(got: str, takes: str) -> Unsupported:
    return Unsupported("BUILD_FAILED", f"got {got}; takes {takes}")


@dataclass(frozen=True)
class _Step:
    name: str
    lowered: Lowered
    spec: NodeSpec
    capability: Capability

    def fail(self, got: str, takes: str) -> NoReturn:
        raise _fault(f"{got} in {self.name}", takes)

    @property
    def tensors(self) -> list[tuple[tuple[int, ...], DType] | None]:
        """What a step can read, by number: inputs, scratch, outputs."""
        specs = [None if s is None else (s.shape, s.dtype) for s in self.spec.inputs]
        return [*specs, *self.lowered.scratch, *((s.shape, s.dtype) for s in self.spec.outputs)]

    def operand(self, source: Any, dtype: DType | None = None) -> tuple[int, ...]:
        """The shape of what a step reads."""
        if isinstance(source, np.ndarray | np.generic):
            if dtype is None and source.dtype not in [c.numpy for c in CONSTANTS]:
                taken = ", ".join(str(c.numpy) for c in CONSTANTS)
                self.fail(f"a constant of {source.dtype}", f"{taken}, or a Read with its `dtype`")
            return tuple(source.shape)
        if isinstance(source, bool) or not isinstance(source, int):
            self.fail(f"{source!r} to read", "the number of an input or a numpy array")
        tensors = self.tensors
        if not 0 <= source < len(tensors) or (found := tensors[source]) is None:
            there = [i for i, t in enumerate(tensors) if t is not None]
            self.fail(f"input {source} to read", f"one of {there} (scratch and outputs come last)")
        return found[0]

    def output(self, number: Any) -> tuple[int, ...]:
        """The shape of what a step stores."""
        shapes = [s.shape for s in self.spec.outputs] + [s for s, _ in self.lowered.scratch]
        shapes += [s.shape for i in self.lowered.state if (s := self.spec.inputs[i]) is not None]
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(shapes):
            self.fail(f"output {number!r}", f"a number below {len(shapes)}")
        return shapes[number]

    # -- maps

    def map(self, step: Map) -> None:
        out = self.output(step.output)
        shape = out if step.shape is None else step.shape
        self.inside("output", step.strides, step.offset, shape, math.prod(out))
        for i, read in enumerate(step.reads):
            found = self.operand(read.source, read.dtype)
            if read.strides is not None:
                self.inside(f"read {i}", read.strides, read.offset, shape, math.prod(found))
                continue
            try:
                fits = np.broadcast_shapes(found, shape) == tuple(shape)
            except ValueError:
                fits = False
            if not fits:
                self.fail(f"read {i} of shape {found}", f"what broadcasts to {tuple(shape)}")
        for table in step.tables:
            self.operand(table)
        texts = (step.expression, *(f.condition for f in step.faults))
        for mark, count, what in (
            ("$", len(step.reads), "reads"),
            ("@", len(step.tables), "tables"),
        ):
            for number in (int(m) for t in texts for m in re.findall(rf"\{mark}(\d+)", t)):
                if number >= count:
                    self.fail(
                        f"{mark}{number} in {step.expression!r}", f"numbers of its {count} {what}"
                    )
        self.vocabulary("\n".join(texts), (), step.uses, ())

    def inside(
        self,
        what: str,
        strides: tuple[int, ...] | None,
        offset: int,
        shape: Sequence[int],
        size: int,
    ) -> None:
        """Strides must not lead out of the tensor: no device looks."""
        if strides is None:
            return
        if len(strides) != len(shape):
            self.fail(f"strides {strides} of {what}", f"one for each dimension of {tuple(shape)}")
        if 0 in shape:
            return
        ends = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
        least = offset + sum(min(e, 0) for e in ends)
        most = offset + sum(max(e, 0) for e in ends)
        if least < 0 or most >= size:
            self.fail(f"{what} at elements {least} to {most}", f"0 to {size - 1}")

    # -- bodies

    def kernel(self, step: Kernel) -> None:
        out = self.output(step.output)
        for read in step.reads:
            self.operand(read)
        self.grid(step, math.prod(out) == 0)
        for name in step.defines:
            if not isinstance(name, str) or not _MACRO.fullmatch(name):
                self.fail(f"the macro {name!r} in `defines`", "names of C")
        if not isinstance(step.file, Source):
            return
        code = _COMMENT.sub("", step.file.text)
        if "KERNEL_NAME" not in code or "PARAMETERS" not in code:
            self.fail(
                "a text without `KERNEL void KERNEL_NAME(PARAMETERS)`",
                "KERNEL_NAME, which each use gives a name of its own",
            )
        used = "".join(_COMMENT.sub("", text(u)) for u in step.uses if isinstance(u, Source))
        if not _STORES.search(code + used):
            self.fail("a text that stores nothing", "STORE(i, value)")
        counts = {"FAULT": len(step.faults)}
        for kind, number in _NUMBERED.findall(code):
            count = counts.get(kind, len(step.reads))
            if int(number) >= count and kind + number not in step.defines:
                self.fail(f"{kind}{number}", f"numbers below {count}, of `reads` and `faults`")
        self.vocabulary(code, tuple(step.defines), step.uses, (step.file,))

    def grid(self, step: Kernel, empty: bool) -> None:
        least = 0 if empty else 1  # nothing is launched for an output without elements
        most = self.capability.work_group
        for name, sizes, floor in (("grid", step.grid, least), ("group", step.group, 1)):
            if name == "group" and sizes is None:
                return
            whole = isinstance(sizes, tuple | list) and 1 <= len(sizes) <= 3
            if not whole or any(
                isinstance(n, bool) or not isinstance(n, int | np.integer) or n < floor
                for n in sizes or ()
            ):
                self.fail(f"{name}={sizes!r}", f"one to three whole numbers from {floor} on")
        assert step.group is not None
        if len(step.group) != len(step.grid) or any(
            n % g for n, g in zip(step.grid, step.group, strict=True)
        ):
            self.fail(f"grid={step.grid} and group={step.group}", "a grid of whole groups")
        if math.prod(step.group) > most:
            self.fail(f"group={step.group}", f"{most} work-items at most on this device")

    # -- names

    def vocabulary(
        self,
        code: str,
        defines: Sequence[str],
        uses: Sequence[str | Source],
        own: Sequence[Source],
    ) -> None:
        """Names in the manner of macros must be of the vocabulary, or the op's own."""
        if any(s.api for s in (*own, *uses) if isinstance(s, Source)):  # all of its language
            return
        given = "\n".join(_COMMENT.sub("", text(u)) for u in uses)
        mine = {*defines, *re.findall(r"#\s*define\s+(\w+)", code + given), *_declared(given)}
        known = MACROS.keys() | _OF_BODIES | mine | _declared(code)
        for name in (*_called(code), *_POSITION.findall(code)):
            if name not in known and not _NUMBERED.fullmatch(name):
                self.fail(
                    f"the name {name}",
                    "those of kernels.device.MACROS and the op's own (what one language alone has "
                    "goes into Source(text, api))",
                )


def _called(code: str) -> Iterator[str]:
    for before, name in _CALL.findall(code):
        if not before.strip() or before.strip() in ("return", "else", "case"):
            yield name


def _declared(code: str) -> set[str]:
    """Functions that the text defines: a type stands before the name."""
    return {n for b, n in _CALL.findall(code) if b.strip() and b.strip() not in ("return", "else")}
