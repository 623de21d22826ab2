"""Random models of several operators, with the values that their tensors take.

Makers (`random_ops`) draw operators until there are enough (`random_seeds.generate`). Each node is
computed by its numpy kernel as soon as it is drawn: twice for each of two sets of inputs, the
second time with floats that are off by what another order of summation makes of them. Nodes that
blow such errors up are not taken, and what remains of them tells how far a device may be off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import Prepared
from random_tensors import Skip, Tensor, misfit, stable, tame

from litedelegate import ModelBuilder
from litedelegate.kernels.api import NodeSpec, OpError, Options, Quantization
from litedelegate.kernels.builtins import find_builtin, find_custom
from litedelegate.kernels.types import Array, DType
from litedelegate.runtime.builder import GraphBuilder, Quant, TensorRef
from litedelegate.runtime.model_tables import default_options
from litedelegate.runtime.schema import options_table

SETS = 2  # of inputs: two invokes
LARGEST = 6000  # elements of a tensor


@dataclass(eq=False)
class Drawn:
    """A node."""

    op: str
    inputs: list[Tensor | None]
    outputs: list[Tensor]
    options: dict[str, Any]
    custom: bool = False

    def __str__(self) -> str:
        ins, outs = (
            ", ".join("-" if t is None else str(t) for t in side)
            for side in (self.inputs, self.outputs)
        )
        return f"{self.op}({ins}) -> {outs} {self.options or ''}"


class Graph:
    """What is drawn so far. `rng` decides; `constant`, `pick` and `add` are for the makers."""

    def __init__(self, rng: np.random.Generator, name: str = "main") -> None:
        self.rng = rng
        self.name = name
        self.tensors: list[Tensor] = []  # all but constants, in order
        self.inputs: list[Tensor] = []
        self.nodes: list[Drawn] = []
        self.outputs: list[Tensor] = []
        self.wild = False  # NaN and infinities are among the values
        self.empty = False  # so are tensors without elements
        self.kept: list[Tensor] = []  # what is read of resource variables
        self.called: tuple[int, int] | None = None  # nodes that a CALL stands for
        self._count = 0

    # -- decisions

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def choose(self, values: Sequence[Any]) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def whole(self, low: int, high: int) -> int:
        """A number from `low` to `high`."""
        return int(self.rng.integers(low, high + 1))

    def pick(self, wanted: Callable[[Tensor], bool]) -> Tensor:
        """A tensor there is, the later the likelier."""
        found = [t for t in self.tensors if wanted(t)]
        if not found:
            raise Skip
        recent = found[-3:]
        return self.choose(recent if self.chance(0.6) else found)  # type: ignore[no-any-return]

    # -- tensors

    def name_for(self, what: str) -> str:
        self._count += 1
        return f"{what}{self._count}"

    def constant(
        self, value: Any, dtype: DType | None = None, quant: Quantization | None = None
    ) -> Tensor:
        array = np.asarray(value)
        kind = DType[array.dtype.name.upper()] if dtype is None else dtype
        array = np.ascontiguousarray(array, kind.numpy).reshape(array.shape)
        return Tensor(self.name_for("c"), array.shape, kind, quant, array, [(array, array)] * SETS)

    def input(self, shape: Sequence[int], dtype: DType, quant: Quantization | None) -> Tensor:
        made = [self.random(shape, dtype) for _ in range(SETS)]
        if self.wild and dtype is DType.FLOAT32:
            for array in made:
                odd = self.rng.random(array.shape) < 0.1
                array[odd] = self.rng.choice([np.nan, np.inf, -np.inf, -0.0], int(odd.sum()))
        values = [(a, a) for a in made]
        tensor = Tensor(self.name_for("x"), tuple(shape), dtype, quant, None, values)
        self.tensors.append(tensor)
        self.inputs.append(tensor)
        return tensor

    def random(self, shape: Sequence[int], dtype: DType) -> Array:
        """Values of all the range of a quantised type, near 0 of others."""
        if dtype is DType.BOOL:
            return np.asarray(self.rng.random(tuple(shape)) < 0.5)
        if dtype.is_integer:
            low, high = dtype.range()
            low, high = (max(low, -300), min(high, 300)) if dtype.bits > 16 else (low, high)
            return self.rng.integers(low, high, tuple(shape), dtype.numpy, endpoint=True)
        return np.asarray(self.rng.standard_normal(tuple(shape))).astype(dtype.numpy)

    def quant(self, dtype: DType, scale: float | None = None) -> Quantization | None:
        """A quantisation for a tensor of this type, none for floats and wide integers."""
        if dtype not in (DType.INT8, DType.UINT8, DType.INT16):
            return None
        if scale is None:
            scale = float(2.0 ** self.rng.uniform(-9, -2))
            if self.chance(0.08):
                scale = float(10.0 ** self.rng.uniform(-12, 8))
        low, high = dtype.range()
        zero = 0 if dtype is DType.INT16 else self.whole(low, high)
        if dtype is not DType.INT16 and self.chance(0.3):
            zero = self.choose([low, high, 0 if low else 128])
        return Quantization(np.array([scale], np.float32), np.array([zero], np.int64))

    # -- nodes

    def add(
        self,
        op: str,
        inputs: Sequence[Tensor | None],
        *outputs: DType | tuple[DType, Quantization | None],
        exact: bool = False,
        long: bool = False,
        custom: bool = False,
        fit: bool = False,
        **options: Any,
    ) -> list[Tensor]:
        """A node, computed. `exact`: a device gives the same bits for the same inputs. `fit`: the
        scale of a quantised output is changed until few values are cut off, or many differ.
        """
        made = [
            Tensor(self.name_for("t"), (), *((o, None) if isinstance(o, DType) else o))
            for o in outputs
        ]
        node = Drawn(op, list(inputs), made, options, custom)
        taken = [t for t in inputs if t is not None]
        exact = exact or all(not t.dtype.is_float for t in (*taken, *made))
        for t in made:
            t.loose = not exact or any(i.loose for i in taken)
            t.long = long or any(i.long for i in taken)
            t.rough = t.dtype is DType.FLOAT16 or any(i.rough and i.loose for i in taken)
        for attempt in range(6):
            self._compute(node, exact)
            factor = misfit(made[0]) if fit and attempt < 5 else 1.0
            if factor == 1.0:
                break
            q = made[0].quant
            assert q is not None
            made[0].quant = Quantization(q.scale * np.float32(factor), q.zero_point)
        self._check(node)
        self.nodes.append(node)
        self.tensors += made
        return made

    def _compute(self, node: Drawn, exact: bool) -> None:
        for t in node.outputs:
            t.values = []
        state = [[t.values[0][0].copy()] * 2 if t and t.variable else None for t in node.inputs]
        for k in range(SETS):
            pair = []
            for j in (0, 1):
                x = [
                    None if t is None else t.values[k][j] if s is None else s[j]
                    for t, s in zip(node.inputs, state, strict=True)
                ]
                results, after = run(node, x)
                for i, s in enumerate(state):
                    if s is not None:
                        s[j] = after[i]
                pair.append([self._noise(y, j and not exact) for y in results])
            for t, a, b in zip(node.outputs, *pair, strict=True):
                t.values.append((a, b))
                t.shape = a.shape

    def _noise(self, y: Array, errors: bool) -> Array:
        if not errors or y.dtype.kind != "f":
            return y
        sizes = np.abs(y[np.isfinite(y)])
        top = float(sizes.max()) if sizes.size else 0.0
        with np.errstate(all="ignore"):
            size = 1e-3 if y.dtype == np.float16 else 4e-7  # joined, halves are not rounded
            off = self.rng.standard_normal(y.shape) * (size * np.abs(y) + 1e-7 * top)
            made: Array = np.where(np.isfinite(off) & (y != 0), y + off, y).astype(y.dtype)
        return made

    def _check(self, node: Drawn) -> None:
        for t in node.outputs:
            size = math.prod(t.shape)
            if size > LARGEST or len(t.shape) > 8 or (size == 0 and not self.empty):
                raise Skip
            for a, b in t.values:
                if a.shape != t.shape:
                    raise Skip
                if a.dtype.kind == "f" and not self.wild and not tame(a):
                    raise Skip
                if t.loose and not stable(t, a, b):
                    raise Skip

    def keep(self, x: Tensor) -> None:
        """A resource variable: zeros in the first invoke, `x` of the invoke before in others."""
        zeros = np.zeros_like(x.values[0][0])
        handle = Tensor(self.name_for("v"), (), DType.RESOURCE)
        values = [(zeros, zeros), *x.values[:-1]]
        read = Tensor(self.name_for("t"), x.shape, x.dtype, x.quant, None, values, x.loose)
        name = {"container": "", "shared_name": f"{self.name}/{handle.name}"}
        self.nodes.append(Drawn("VAR_HANDLE", [], [handle], name))
        self.nodes.append(Drawn("READ_VARIABLE", [handle], [read], {}))
        self.nodes.append(Drawn("ASSIGN_VARIABLE", [handle, x], [], {}))
        self.kept.append(read)
        self.tensors.append(read)

    # -- as a model

    def write(self, builder: ModelBuilder) -> tuple[dict[str, TensorRef], dict[str, TensorRef]]:
        """The graph as a subgraph: its inputs and outputs by name."""
        g = builder.subgraph(self.name)
        refs: dict[int, TensorRef] = {}
        for t in self.inputs:
            unknown = (-1, *t.shape[1:]) if t.shape else None
            refs[id(t)] = g.input(
                t.name, t.shape, t.dtype, quant=_quant(t), shape_signature=unknown
            )
        if self.kept:
            g.op("CALL_ONCE", [], [], init_subgraph_index=self._first_values(builder))
        for node in self._with_calls(builder):
            ins = [None if t is None else _ref(g, refs, t) for t in node.inputs]
            outs = [_ref(g, refs, t) for t in node.outputs]
            if node.custom:
                g.custom(node.op, ins, outs, **node.options)
            else:
                version = (find_builtin(node.op) or _missing(node.op)).versions[1]
                g.op(node.op, ins, outs, version=version, **node.options)
        g.outputs(*(_ref(g, refs, t) for t in self.outputs))
        named = [{t.name: refs[id(t)] for t in side} for side in (self.inputs, self.outputs)]
        return named[0], named[1]

    def _first_values(self, builder: ModelBuilder) -> int:
        """A subgraph that gives the variables their first values: its number."""
        g = builder.subgraph(f"{self.name} first")
        g.outputs()
        for node in self.nodes:
            if node.op == "VAR_HANDLE":
                handle = g.op(
                    "VAR_HANDLE", [], (node.outputs[0].name, (), "resource"), **node.options
                )
            elif node.op == "READ_VARIABLE":
                zeros = node.outputs[0].values[0][0]
                g.op("ASSIGN_VARIABLE", [handle, g.constant(f"{handle.name}/0", zeros)], [])
        return g.index

    def _with_calls(self, builder: ModelBuilder) -> Sequence[Drawn]:
        """The nodes; those of `called` are in a subgraph of their own."""
        if self.called is None:
            return self.nodes
        start, stop = self.called
        inner, others = self.nodes[start:stop], [*self.nodes[:start], *self.nodes[stop:]]
        read = {id(t) for n in others for t in n.inputs} | {id(t) for t in self.outputs}
        made = [t for n in inner for t in n.outputs if id(t) in read]
        part = self.part(inner, made)
        part.name = f"{self.name} inner"
        number = len(builder.graphs)
        part.write(builder)
        call = Drawn("CALL", list(part.inputs), made, {"subgraph": number})
        return [*self.nodes[:start], call, *self.nodes[stop:]]

    def model(self) -> bytes:
        builder = ModelBuilder()
        inputs, outputs = self.write(builder)
        if inputs and outputs:
            builder.signature(self.name, inputs, outputs)
        return builder.build()

    def part(self, nodes: Sequence[Drawn], outputs: Sequence[Tensor]) -> Graph:
        """Some of the nodes alone: what they read and do not make are inputs."""
        found = Graph(self.rng, self.name)
        found.nodes, found.outputs = list(nodes), list(outputs)
        made = {id(t) for n in nodes for t in n.outputs}
        read = [t for n in nodes for t in n.inputs if t is not None]
        for t in (*read, *outputs):
            fixed = t.const is not None or t.variable or id(t) in made
            if not fixed and t not in found.inputs:
                found.inputs.append(t)
        return found

    def __str__(self) -> str:
        lines = [f"{t} in" for t in self.inputs] + [f"  {n}" for n in self.nodes]
        return "\n".join([*lines, f"out {', '.join(t.name for t in self.outputs)}"])


def run(node: Drawn, x: Sequence[Array | None]) -> tuple[list[Array], list[Array | None]]:
    """The node's outputs by its numpy kernel, and its inputs as it leaves them."""
    registration = (find_custom if node.custom else find_builtin)(node.op)
    assert registration is not None, node.op
    specs = [None if t is None else t.spec() for t in node.inputs]
    options: Any = Options()
    if not node.custom:
        table = options_table(node.op)
        options = Options({**(default_options(table) if table else {}), **node.options})
    try:
        prepared = Prepared(
            registration,
            NodeSpec(node.op, specs, [t.spec() for t in node.outputs], options),
            x,
        )
        return prepared.run(), prepared.x
    except OpError as e:
        raise Skip(str(e)) from e


def _quant(t: Tensor) -> Quant | None:
    return None if t.quant is None else Quant(t.quant.scale, t.quant.zero_point, t.quant.axis)


def _ref(g: GraphBuilder, refs: dict[int, TensorRef], t: Tensor) -> TensorRef:
    if id(t) not in refs:
        if t.const is not None:
            refs[id(t)] = g.constant(t.name, t.const, t.dtype, quant=_quant(t))
        else:
            refs[id(t)] = g.tensor(t.name, t.shape, t.dtype, quant=_quant(t), variable=t.variable)
    return refs[id(t)]


def _missing(op: str) -> Any:
    raise LookupError(op)
