"""Random models of several operators, with the values that their tensors take.

`generate(seed)` draws operators (`random_ops.MAKERS`) until the graph has enough of them. Each node
is computed by its numpy kernel as soon as it is drawn: twice for each of two sets of inputs, the
second time with floats that are off by what another order of summation makes of them. Nodes that
blow such errors up are not taken, and what remains of them tells how far a device may be off.

    python tests/random_graphs.py SEED        prints the graph
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from harness import Prepared

from litedelegate import ModelBuilder
from litedelegate.kernels.api import NodeSpec, OpError, Options, Quantization, TensorSpec
from litedelegate.kernels.builtins import find_builtin, find_custom
from litedelegate.kernels.types import Array, DType
from litedelegate.runtime.builder import GraphBuilder, Quant, TensorRef
from litedelegate.runtime.model_tables import default_options
from litedelegate.runtime.schema import options_table

SETS = 2  # of inputs: two invokes
LARGEST = 6000  # elements of a tensor
# of a tensor's largest value: DESIGN.md's tolerance, and where the order of a long sum differs
CLOSE, LONG = 1e-5, 1e-4
HALF = 2e-3  # what the last digit of a float16 is worth, twice
# how far the errors of nodes before may show, of what `noise` made of them
SPREAD = 20.0


class Skip(Exception):
    """What was drawn does not fit: something else is drawn."""


@dataclass(eq=False)
class Tensor:
    """`values`: for each set of inputs the exact one and the one with errors; `loose`: it depends
    on floats that were computed, so that a device need not give the same bits.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    quant: Quantization | None = None
    const: Array | None = None
    values: list[tuple[Array, Array]] = field(default_factory=list)
    loose: bool = False
    variable: bool = False
    long: bool = False  # sums of many terms are behind it
    rough: bool = False  # halves are

    def spec(self) -> TensorSpec:
        return TensorSpec(self.shape, self.dtype, self.quant, self.const, self.name, self.variable)

    def __str__(self) -> str:
        quant = "" if self.quant is None else f" {_numbers(self.quant)}"
        kind = "=" * (self.const is not None) + "~" * self.variable
        return f"{self.name}{kind} {self.dtype.label}{list(self.shape)}{quant}"


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
            factor = _misfit(made[0]) if fit and attempt < 5 else 1.0
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
                if a.dtype.kind == "f" and not self.wild and not _tame(a):
                    raise Skip
                if t.loose and not _stable(t, a, b):
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


def tolerance(tensor: Tensor) -> float:
    """How far a device may be off: 0 for equal bits."""
    if not tensor.loose:
        return 0.0
    off = max((float(_apart(a, b).max(initial=0)) for a, b in tensor.values), default=0.0)
    if not tensor.dtype.is_float:
        return 1.0 + 2 * off if tensor.quant is not None else 0.0
    top = max((_largest(a) for a, _ in tensor.values), default=0.0)
    close = HALF if tensor.rough else LONG if tensor.long else CLOSE
    return max(SPREAD * off, close * top)


def differs(tensor: Tensor, got: Array, want: Array) -> str:
    """How a device's result is not numpy's; nothing where it is."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    limit = tolerance(tensor)
    wrong = ~(_apart(got, want) <= limit)
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{tensor}: {int(wrong.sum())} of {want.size} are off by more than {limit:.3g}; at "
        f"{list(at)} {got[at]!r}, not {want[at]!r}"
    )


def _apart(a: Array, b: Array) -> Array:
    """Distances; 0 where both are the same, NaN where one of them is no number."""
    kind: Any = np.complex128 if a.dtype.kind == "c" else np.float64
    if a.dtype.itemsize == 8 and a.dtype.kind in "iu":
        kind = object
    with np.errstate(all="ignore"):
        same = (a == b) | ((a != a) & (b != b))
        off: Array = np.where(same, 0.0, np.abs(a.astype(kind) - b.astype(kind))).astype(float)
    return off


def _largest(a: Array) -> float:
    finite = np.abs(a[np.isfinite(a)])
    return float(finite.max()) if finite.size else 0.0


def _tame(a: Array) -> bool:
    return bool(np.isfinite(a).all()) and _largest(a) < 1e4


def _stable(t: Tensor, a: Array, b: Array) -> bool:
    off = _apart(a, b)
    if t.dtype.is_float:
        most = HALF if t.rough else CLOSE
        return bool((off <= most * _largest(a) + 1e-12).all())
    limit = 3.0 if t.quant is not None else 0.0
    return bool((off <= limit).all())


def _misfit(t: Tensor) -> float:
    """By what the scale is to be multiplied."""
    if t.quant is None or not t.values[0][0].size:
        return 1.0
    low, high = t.dtype.range()
    a = t.values[0][0].astype(np.int64)
    if np.mean((a == low) | (a == high)) > 0.5:
        return 5.0
    return 0.2 if np.ptp(a) < (high - low) / 20 and a.size > 1 else 1.0


def _numbers(q: Quantization) -> str:
    first = f"{float(q.scale.flat[0]):.4g}@{int(q.zero_point.flat[0])}"
    return first if q.scale.size == 1 else f"{first}… along {q.axis}"


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


# -- drawing

THEMES: Mapping[str, Sequence[DType]] = {
    "float": [DType.FLOAT32],
    "int8": [DType.INT8],
    "uint8": [DType.UINT8],
    "int16": [DType.INT16],
    "whole": [DType.INT32, DType.INT64, DType.BOOL, DType.INT32],
    "mixed": [DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.BOOL],
    "odd": [
        *(DType.FLOAT16, DType.FLOAT64, DType.UINT16, DType.UINT32, DType.UINT64),
        *(DType.COMPLEX64, DType.INT64, DType.BOOL),
    ],
}
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65)


def random_shape(g: Graph) -> tuple[int, ...]:
    """Half of them images; sizes around the borders of tiles."""
    if g.chance(0.5):
        n, c = (
            g.choose([1, 1, 1, 2, 3]),
            g.choose([1, 2, 3, 4, 5, 8, 16, 17, 32, 33, g.whole(1, 70)]),
        )
        most = max(1, int((LARGEST / 2 / n / c) ** 0.5))
        return n, g.whole(1, min(most, 20)), g.whole(1, min(most, 20)), c
    rank = g.choose([0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 5, 6, 7, 8])
    shape: list[int] = []
    for _ in range(rank):
        room = LARGEST // 2 // max(math.prod(shape), 1)
        fits = [s for s in SIZES if s <= room and (rank < 5 or s < 6)]
        shape.append(g.choose(fits or [1]))
    return tuple(shape)


def generate(seed: int, name: str = "main", size: int | None = None) -> Graph:
    """The graph of a seed."""
    from random_ops import MAKERS, WEIGHTS

    g = Graph(np.random.default_rng([seed, 4]), name)
    g.wild = g.chance(0.05)
    theme = g.choose(list(THEMES))
    g.empty = g.chance(0.05)
    for _ in range(g.whole(1, 3)):
        dtype = g.choose(THEMES[theme])
        shape = random_shape(g)
        if g.inputs and g.chance(0.4):
            shape = g.inputs[0].shape
        if g.empty and shape and g.chance(0.5):
            cut = g.whole(0, len(shape) - 1)
            shape = (*shape[:cut], 0, *shape[cut + 1 :])
        g.input(shape, dtype, g.quant(dtype))
    wanted = size or g.whole(4, 14)
    for _ in range(40 * wanted):
        if len(g.nodes) >= wanted:
            break
        maker = g.rng.choice(len(MAKERS), p=WEIGHTS)
        draw(g, MAKERS[maker])
    _choose_outputs(g)
    if g.chance(0.1) and len(g.nodes) > 3 and not any(_has_state(n) for n in g.nodes):
        start = g.whole(0, len(g.nodes) - 2)
        g.called = start, g.whole(start + 1, len(g.nodes))
    return g


def _has_state(node: Drawn) -> bool:
    kept = any(t is not None and t.variable for t in node.inputs)
    return kept or node.op.endswith(("_HANDLE", "_VARIABLE"))


def draw(g: Graph, maker: Callable[[Graph], object]) -> bool:
    """Lets a maker add nodes; where it gives up halfway, all is as it was."""
    tensors, nodes = len(g.tensors), len(g.nodes)
    try:
        maker(g)
        return True
    except Skip:
        del g.tensors[tensors:], g.nodes[nodes:]
        return False


def _choose_outputs(g: Graph) -> None:
    """All that nobody reads, and some of the rest; now and then an input or a constant."""
    read = {id(t) for n in g.nodes for t in n.inputs}
    made = [t for n in g.nodes for t in n.outputs if t.dtype is not DType.RESOURCE]
    found = [t for t in made if id(t) not in read or g.chance(0.15)]
    if g.chance(0.05):
        found.insert(0, g.choose(g.inputs))
    constants = [t for n in g.nodes for t in n.inputs if t is not None and t.const is not None]
    if constants and g.chance(0.03):
        found.append(g.choose(constants))
    g.outputs = found or g.inputs[:1]


def inputs_of(g: Graph, k: int) -> dict[str, Array]:
    return {t.name: t.values[k][0] for t in g.inputs}


def needed(nodes: Iterable[Drawn], outputs: Iterable[Tensor]) -> list[Drawn]:
    """The nodes that the outputs depend on."""
    wanted = {id(t) for t in outputs}
    kept: list[Drawn] = []
    for node in reversed(list(nodes)):
        if any(id(t) in wanted for t in node.outputs):
            kept.insert(0, node)
            wanted |= {id(t) for t in node.inputs if t is not None}
    return kept


if __name__ == "__main__":
    print(generate(int(sys.argv[1])))
