"""Joins the steps of a partition into few kernels.

A map whose first operand is what an earlier step stores, element for element, is evaluated before
that store: chains of elementwise ops, fused activations, residual sums and requantisation ride in
the kernel that made their input. Nodes that only name a shape anew cost nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...kernels.api import NodeSpec, TensorSpec
from ...kernels.device import Kernel, Lowered, Map, Read
from ...kernels.types import Array, DType
from .compose import compose
from .texts import Bodied, Mapped, Operand

# steps in one kernel: enough for any real chain, and a bound on registers
_LONGEST = 12


@dataclass(frozen=True, slots=True)
class Item:
    """A node of a partition: its tensors by number (-1: absent), and its device form."""

    spec: NodeSpec
    inputs: Sequence[int]
    outputs: Sequence[int]
    lowered: Lowered


@dataclass(slots=True)
class Fused:
    """What becomes one kernel: the items whose steps it holds, by number."""

    first: Mapped | Bodied
    rest: list[Mapped] = field(default_factory=list)
    items: list[int] = field(default_factory=list)

    @property
    def output(self) -> Operand:
        return self.rest[-1].output if self.rest else self.first.output

    @property
    def reads(self) -> Iterable[Operand]:
        for part in (self.first, *self.rest):
            yield from (r for r in part.reads if r is not None)
            if isinstance(part, Mapped):
                yield from part.tables

    @property
    def faults(self) -> list[tuple[str, int]]:
        """Texts of the faults, and the item of each."""
        parts = zip((self.first, *self.rest), self.items, strict=True)
        return [
            (fault if isinstance(fault, str) else fault.text, item)
            for part, item in parts
            for fault in part.step.faults
        ]


class Fuser:
    """`kernels` in order; `constants` by key; `roots` of tensors that share another's memory."""

    def __init__(
        self, items: Sequence[Item], inputs: Sequence[int], outputs: Sequence[int], fuse: bool
    ) -> None:
        self.kernels: list[Fused] = []
        self.constants: dict[int, Array] = {}
        self.roots: dict[int, int] = {}
        self._given = set(inputs)
        self._wanted = set(outputs)
        self._fuse = fuse
        self._next = 1 + max((k for i in items for k in (*i.inputs, *i.outputs)), default=0)
        self._constant_keys: dict[int, int] = {}
        self._kept: list[Array] = []  # so that ids stay theirs
        steps = [s for number, item in enumerate(items) for s in self._steps(number, item)]
        if fuse:
            roots = {self.root(key) for key in outputs}
            steps = compose(steps, self._given, roots, self.constants, self._constant)
        made_at: dict[int, int] = {}  # the last step that stores a tensor
        self._writers: Counter[int] = Counter()
        self._readers: Counter[int] = Counter()
        for at, (step, _) in enumerate(steps):
            made_at[step.output.key] = at
            self._writers[step.output.key] += 1
            # by one step, however often
            tables = step.tables if isinstance(step, Mapped) else ()
            for key in {o.key for o in (*step.reads, *tables) if o is not None}:
                self._readers[key] += 1
        for key in self._wanted:
            self._readers[self.root(key)] += 1
        self._made_by: dict[int, int] = {}  # number of the kernel that stores a tensor last
        for step, number in steps:
            self._place(step, number)

    def root(self, key: int) -> int:
        while key in self.roots:
            key = self.roots[key]
        return key

    # -- steps with their operands

    def _steps(self, number: int, item: Item) -> list[tuple[Mapped | Bodied, int]]:
        lowered = item.lowered
        if lowered.view is not None:
            return self._view(number, item, lowered.view)
        scratch = [self._new_key() for _ in lowered.scratch]
        ins: list[Operand | None] = []
        for key, spec in zip(item.inputs, item.spec.inputs, strict=True):
            ins.append(None if spec is None else self._tensor(key, spec))
        outs = [self._tensor(k, s) for k, s in zip(item.outputs, item.spec.outputs, strict=True)]
        for key, (shape, dtype) in zip(scratch, lowered.scratch, strict=True):
            operand = Operand(key, dtype, shape)
            ins.append(operand)
            outs.append(operand)
        ins += outs[: len(item.outputs)]
        for i in lowered.state:
            variable = ins[i]
            assert variable is not None
            outs.append(variable)
        return [(self._step(s, ins, outs), number) for s in lowered.steps]

    def _view(self, number: int, item: Item, view: int) -> list[tuple[Mapped | Bodied, int]]:
        spec = item.spec.inputs[view]
        assert spec is not None
        source, target = self._tensor(item.inputs[view], spec), item.outputs[0]
        fixed = source.key in self._given or source.key in self.constants
        if target in self._wanted and (fixed or self._is_wanted(source.key)):
            # an output is memory of its own: the user may have put it into a buffer
            shape = item.spec.outputs[0].shape
            out = Operand(target, item.spec.outputs[0].dtype, shape)
            read = Operand(source.key, source.dtype, shape)
            return [(Mapped(Map(), (read,), (), out, shape), number)]
        self.roots[target] = source.key
        return []

    def _is_wanted(self, root: int) -> bool:
        return any(self.root(key) == root for key in self._wanted)

    def _step(
        self, step: Map | Kernel, ins: list[Operand | None], outs: list[Operand]
    ) -> Mapped | Bodied:
        output = outs[step.output]
        if isinstance(step, Kernel):
            return Bodied(step, tuple(self._operand(r, ins) for r in step.reads), output)
        tables = tuple(self._operand(t, ins) for t in step.tables)
        shape = output.shape if step.shape is None else step.shape
        given = tuple(self._operand(r.source, ins, r) for r in step.reads)
        return Mapped(step, given, tables, output, shape)

    def _operand(
        self, source: int | Array, ins: list[Operand | None], read: Read | None = None
    ) -> Operand:
        if isinstance(source, int):
            operand = ins[source]
            assert operand is not None
            return operand
        dtype = read.dtype if read is not None else None
        return Operand(self._constant(source), dtype or _dtype_of(source), source.shape)

    def _tensor(self, key: int, spec: TensorSpec) -> Operand:
        if spec.const is not None:
            return Operand(self._constant(spec.const), spec.dtype, spec.shape)
        return Operand(self.root(key), spec.dtype, spec.shape)

    def _constant(self, array: Array) -> int:
        if id(array) not in self._constant_keys:
            self._kept.append(array)
            key = self._constant_keys[id(array)] = self._new_key()
            self.constants[key] = array
        return self._constant_keys[id(array)]

    def _new_key(self) -> int:
        self._next += 1
        return self._next - 1

    # -- joining

    def _place(self, step: Mapped | Bodied, number: int) -> None:
        host = self._host(step) if self._fuse and isinstance(step, Mapped) else None
        if host is None:
            self.kernels.append(Fused(step, [], [number]))
            self._made_by[step.output.key] = len(self.kernels) - 1
            return
        kernel = self.kernels[host]
        assert isinstance(step, Mapped)
        own = kernel.output.key
        reads = tuple(None if o is not None and o.key == own else o for o in step.reads)
        kernel.rest.append(Mapped(step.step, reads, step.tables, step.output, step.shape))
        kernel.items.append(number)
        self._made_by[step.output.key] = max(self._made_by.get(step.output.key, -1), host)

    def _host(self, step: Mapped) -> int | None:
        """The kernel on whose values `step` can be evaluated."""
        if step.output.key in self._given:
            # others may still have to read what the variable held
            return None
        if step.step.strides is not None and self._writers[step.output.key] > 1:
            # with others it fills a tensor, in an order that must stay
            return None
        for operand in step.reads:
            host = None if operand is None else self._made_by.get(operand.key)
            if operand is None or host is None:
                continue
            kernel = self.kernels[host]
            last = kernel.rest[-1] if kernel.rest else kernel.first
            joined = (
                kernel.output.key == operand.key
                and self._writers[operand.key] == 1
                and self._readers[operand.key] == 1
                and len(kernel.rest) < _LONGEST
                and _stores_values(last)
            )
            if joined and self._reads_in_step(step, operand.key, host):
                return host
        return None

    def _reads_in_step(self, step: Mapped, key: int, host: int) -> bool:
        """Whether `step` reads `key` element for element, and all else is there before `host`."""
        for read, operand in zip(step.step.reads, step.reads, strict=True):
            assert operand is not None
            if operand.key == key:
                whole = math.prod(operand.shape) == math.prod(step.shape)
                if read.strides is not None or not whole:
                    return False
            elif self._made_by.get(operand.key, -1) >= host:
                return False
        return all(self._made_by.get(t.key, -1) < host and t.key != key for t in step.tables)


def _stores_values(part: Mapped | Bodied) -> bool:
    """Whether it stores each element once, in order of the flat index."""
    return not part.step.raw if isinstance(part, Bodied) else part.step.strides is None


def _dtype_of(array: Array) -> DType:
    for dtype in CONSTANTS:
        if dtype.numpy == array.dtype:
            return dtype
    raise TypeError(f"constants of {array.dtype} need a type")


# types of constants that numpy's type tells
CONSTANTS = (
    DType.INT8,
    DType.UINT8,
    DType.UINT16,
    DType.INT16,
    DType.INT32,
    DType.INT64,
    DType.FLOAT32,
    DType.FLOAT64,
)
