"""Which element types an operator takes, found by asking its kernel.

The passing cases of an op are seeds. The type of a seed's data is replaced by every other type; a
type is taken where `infer` accepts some such node and the kernel that it binds runs.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import cases
import numpy as np
from cases import Case, T
from harness import NodeSpec, Options, Prepared, infer

from litedelegate.kernels.api import Registration
from litedelegate.kernels.builtins import find_builtin, find_custom
from litedelegate.kernels.types import Array, DType, bfloat16_to_float32

# The input whose type is the op's type, where it is not the first.
DATA = {
    "SPLIT": 1,
    "FILL": 1,
    "EMBEDDING_LOOKUP": 1,
    "SELECT": 1,
    "SELECT_V2": 1,
    "STABLEHLO_SELECT": 1,
    "SCATTER_ND": 1,
    "ONE_HOT": 2,
    "HASHTABLE_LOOKUP": 2,
    "SPARSE_TO_DENSE": 2,
    "TRANSPOSE_CONV": 2,
    "CONV_3D_TRANSPOSE": 2,
    "EMBEDDING_LOOKUP_SPARSE": 4,
}
_OBJECTS = (DType.STRING, DType.RESOURCE, DType.VARIANT)
_SEEDS = 12  # of one op: more seeds find no more types


@dataclass(frozen=True)
class Place:
    """A tensor of a node: input or output `index`."""

    output: bool
    index: int


@dataclass
class Attempt:
    """A seed with some tensors of another type, and what became of it."""

    case: Case
    dtype: DType
    places: frozenset[Place]
    quantised: bool
    error: Exception | None = None
    accepted: bool = False  # by `infer`, whatever came of it then
    outputs: list[Array] = field(default_factory=list)

    @property
    def taken(self) -> bool:
        return self.error is None

    def __str__(self) -> str:
        where = ", ".join(
            f"{'output' if p.output else 'input'} {p.index}"
            for p in sorted(self.places, key=lambda p: (p.output, p.index))
        )
        how = self.dtype.label + (" quantised" if self.quantised else "")
        return f"{self.case.op} ({self.case.name or 'a case'}) with {where} as {how}"


@functools.cache
def all_cases() -> dict[str, list[Case]]:
    """Op -> its cases with expected values."""
    found: dict[str, list[Case]] = {}
    for module in pkgutil.iter_modules(cases.__path__):
        for case in importlib.import_module(f"cases.{module.name}").CASES:
            if case.want is not None:
                found.setdefault(case.op, []).append(case)
    return found


def registration(op: str) -> Registration:
    found = find_builtin(op) or find_custom(op)
    if found is None:
        raise LookupError(f"no op {op}")
    return found


def seeds(op: str) -> list[Case]:
    """A few of its cases, as unlike in their types as there are."""
    unlike: dict[Any, list[Case]] = {}
    for case in all_cases().get(op, []):
        key = tuple(None if t is None else (t.type, t.quant is None) for t in _tensors(case))
        unlike.setdefault(key, []).append(case)
    groups = list(unlike.values())
    rounds = [group[n] for n in range(_SEEDS) for group in groups if n < len(group)]
    return rounds[: max(_SEEDS, len(groups))]


def data_places(case: Case) -> list[frozenset[Place]]:
    """Sets of tensors that change their type together: the data, and some or all that share it."""
    tensors = tensors_of(case)
    first = _data(case)
    if first not in tensors:
        return []
    like = [p for p, t in tensors.items() if t.type is tensors[first].type and p != first]
    outputs = [p for p in like if p.output]
    inputs = [p for p in like if not p.output]
    some = [like, outputs, inputs, []]
    if len(inputs) <= 4:
        some += [[*c, *outputs] for n in range(len(inputs)) for c in combinations(inputs, n)]
    return list(dict.fromkeys(frozenset([first, *c]) for c in some))


def single_places(case: Case) -> list[frozenset[Place]]:
    """Each tensor by itself."""
    return [frozenset([p]) for p in tensors_of(case)]


def attempts(case: Case, dtype: DType, places: Sequence[frozenset[Place]]) -> Iterator[Attempt]:
    """The ways to give these tensors that type: with and without a scale, options following."""
    for chosen in places:
        old = _type_at(case, chosen)
        for quantised in (False, True) if dtype.is_integer else (False,):
            changed = _changed(case, chosen, dtype, quantised)
            yield attempt(Attempt(changed, dtype, chosen, quantised))
            followed = _options(case.options, old, dtype)
            if followed is not None:
                changed = replace(changed, options=followed)
                yield attempt(Attempt(changed, dtype, chosen, quantised))


def attempt(trial: Attempt) -> Attempt:
    """Runs it, warnings being errors."""
    case = trial.case
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            arrays = [None if t is None else t.array for t in case.tensors]
            found, node = registration(case.op), _node(case)
            infer(found, node)
            trial.accepted = True
            trial.outputs = Prepared(found, node, arrays).run()
    except Exception as error:  # the caller judges which are right
        trial.error = error
    return trial


@dataclass
class Types:
    """What an op takes.

    `plain` and `quantised`: the types of its data, without and with a scale. `others`: the types of
    an input or output that need not be the data's own.
    """

    plain: set[DType] = field(default_factory=set)
    quantised: set[DType] = field(default_factory=set)
    others: dict[Place, set[DType]] = field(default_factory=dict)

    def add(self, dtype: DType, quantised: bool) -> None:
        (self.quantised if quantised else self.plain).add(dtype)


@functools.cache
def taken_types(op: str) -> Types:
    """The types that the kernel of `op` was seen to run with."""
    types = Types()
    for case in all_cases().get(op, []):
        tensors = tensors_of(case)
        for place in tensors.keys() & {_data(case)}:
            types.add(tensors[place].type, tensors[place].quant is not None)
    for dtype in DType:
        _find_data(op, dtype, types)
        _find_others(op, dtype, types)
    return types


def _find_data(op: str, dtype: DType, types: Types) -> None:
    for case in seeds(op):
        for trial in attempts(case, dtype, data_places(case)):
            if trial.taken:
                types.add(dtype, trial.quantised)
            if dtype in types.plain and (dtype in types.quantised or not dtype.is_integer):
                return


def _find_others(op: str, dtype: DType, types: Types) -> None:
    for case in seeds(op):
        tensors = tensors_of(case)
        data = tensors.get(_data(case))
        for place, tensor in tensors.items():
            if data is None or tensor.type is data.type:
                continue
            found = types.others.setdefault(place, set())
            found.add(tensor.type)
            if dtype not in found:
                found.update(dtype for t in attempts(case, dtype, [frozenset([place])]) if t.taken)


def _data(case: Case) -> Place:
    return Place(False, DATA.get(case.op, 0)) if case.inputs else Place(True, 0)


def _tensors(case: Case) -> list[T | None]:
    return [*case.tensors, *case.declared]


def tensors_of(case: Case) -> dict[Place, T]:
    """The tensors that are there, by place."""
    inputs = {Place(False, i): t for i, t in enumerate(case.tensors) if t is not None}
    return inputs | {Place(True, i): t for i, t in enumerate(case.declared)}


def _type_at(case: Case, places: frozenset[Place]) -> DType:
    return next(t.type for p, t in tensors_of(case).items() if p in places)


def _changed(case: Case, places: frozenset[Place], dtype: DType, quantised: bool) -> Case:
    # the parts of a complex number are as long as it is
    part = {DType.COMPLEX64: DType.FLOAT32, DType.COMPLEX128: DType.FLOAT64}
    old, new = part.get(_type_at(case, places)), part.get(dtype)

    def change(output: bool, tensors: Sequence[T | None]) -> list[T | None]:
        changed: list[T | None] = []
        for i, t in enumerate(tensors):
            if t is not None and Place(output, i) in places:
                t = retyped(t, dtype, quantised)
            elif t is not None and output and new and t.type is old:
                t = retyped(t, new, False)
            changed.append(t)
        return changed

    inputs, outputs = change(False, case.tensors), change(True, case.declared)
    present = [t for t in outputs if t is not None]
    return replace(case, inputs=inputs, outputs=present, want=present)


def _options(options: Any, old: DType, new: DType) -> dict[str, Any] | None:
    """The options with the type that changed; None where they do not name it."""
    if isinstance(options, bytes):
        return None
    changed = {k: new for k, v in options.items() if isinstance(v, DType) and v is old}
    return {**options, **changed} if changed else None


def _node(case: Case) -> NodeSpec:
    inputs = [None if t is None else t.spec(f"input{i}") for i, t in enumerate(case.tensors)]
    outputs = [t.spec(f"output{i}", False) for i, t in enumerate(case.declared)]
    inner = [t.spec(f"intermediate{i}", False) for i, t in enumerate(case.intermediates)]
    raw = case.options
    options = raw if isinstance(raw, bytes) else Options(raw)
    return NodeSpec(case.op, inputs, outputs, options, case.version, intermediates=inner)


def retyped(tensor: T, dtype: DType, quantised: bool) -> T:
    """`tensor` as another type: values near its own that the type has, zero only where it was."""
    changed = replace(tensor, value=_converted(real(tensor), dtype), dtype=dtype)
    if not quantised:
        return replace(changed, scale=0.0, zero_point=0, block_size=0)
    if tensor.quant is None:
        return replace(changed, scale=1.0, zero_point=0)
    # the middle of the range stays the middle: int8 and uint8 models are made like this
    zero = np.asarray(tensor.zero_point) - _middle(tensor.type) + _middle(dtype)
    if dtype not in (DType.UINT8, DType.INT8):
        zero = np.zeros_like(zero)
    return replace(changed, zero_point=zero.tolist())


def _middle(dtype: DType) -> int:
    return 128 if dtype is DType.UINT8 else 0


def real(tensor: T) -> Array:
    """Its values as numbers that numpy knows: bfloat16 as float32, strings counted."""
    if tensor.type in _OBJECTS:
        return np.arange(1, tensor.array.size + 1).reshape(tensor.array.shape)
    stored = tensor.array
    return bfloat16_to_float32(stored) if tensor.type is DType.BFLOAT16 else stored


def _converted(real: Array, dtype: DType) -> Any:
    if dtype in _OBJECTS:
        texts = [str(v).encode() for v in real.reshape(-1).tolist()]
        out = np.empty(len(texts), object)
        out[:] = texts
        return out.reshape(real.shape)
    if dtype.is_complex:
        return real.astype(dtype.numpy)
    if real.dtype.kind == "c":
        real = real.real
    if dtype is DType.BOOL:
        return real != 0
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return real.astype(np.float32 if dtype is DType.BFLOAT16 else dtype.numpy)
    low, high = dtype.range() if dtype.is_integer else (0, 127)
    whole = np.nan_to_num(np.asarray(real, np.float64), nan=1.0, posinf=high, neginf=low)
    whole = np.copysign(np.ceil(np.abs(whole)), whole)
    if low == 0:
        whole = np.abs(whole)
    # no further than float64 can tell integers apart
    return np.clip(whole, max(low, -(2**53)), min(high, 2**53)).astype(dtype.numpy)
