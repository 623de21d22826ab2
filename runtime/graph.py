"""All subgraphs of one interpreter, and what they share: weights, resources, threads, scratch."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Protocol

import numpy as np

from ..kernels.api import OpError, Registration
from ..kernels.types import Array
from .delegate import DeviceTime
from .delegation import Delegation
from .errors import NodeError
from .memory import Workspace
from .model import Model
from .node import LiveNode
from .resolver import ChainedResolver, OpResolver
from .subgraph import UNRESOLVED, LiveSubgraph
from .tensor import FOLDED, MMAP, PERSISTENT
from .threads import Pool, available_threads

CUSTOM_OPS_PAGE = "https://www.tensorflow.org/lite/guide/ops_custom"


class Profiler(Protocol):
    def record(self, subgraph: int, node: LiveNode, start: int, end: int) -> None:
        """Times in ns of `time.perf_counter_ns`. A control-flow node's time holds those of the
        nodes it runs.
        """
        ...

    def record_device(self, subgraph: int, partition: int, times: Sequence[DeviceTime]) -> None:
        """What a device did in a call of a partition that has just ended."""
        ...

    def note(self, time: int, text: str) -> None:
        """What happened in between: a delegate failed, and the invoke is run again."""
        ...


@dataclass(frozen=True)
class Memory:
    """Bytes held by an interpreter."""

    arena: int  # planned, shared by tensors that are never alive together
    tensors: int  # what those tensors would take without sharing
    persistent: int  # variables
    constants: int  # views of the model file
    folded: int  # computed at allocation
    packed: int  # weights in the form the kernels want
    scratch: int
    dynamic: int

    @property
    def total(self) -> int:
        """All but the constants, which are the file's own pages."""
        return (
            self.arena + self.persistent + self.folded + self.packed + self.scratch + self.dynamic
        )


class UnresolvedOp:
    """An operator code without a registration."""

    def __init__(
        self, op: str, custom: bool, version: int, supported: tuple[int, int] | None
    ) -> None:
        self.op = op
        self.custom = custom
        self.version = version
        self.supported = supported
        self.nodes: list[tuple[int, int, int]] = []  # subgraph, node, bytes of options


Resolved = tuple[list[Registration], list[UnresolvedOp]]


def resolve(model: Model, resolver: OpResolver) -> Resolved:
    """A registration for every operator code, each asked for once; those that lack one get a place
    holder.
    """
    registrations: list[Registration] = []
    missing: dict[int, UnresolvedOp] = {}
    for i, code in enumerate(model.operator_codes):
        custom = code.builtin == "CUSTOM"
        op = (code.custom or "") if custom else code.builtin
        registration = resolver.find_op(op, code.version, custom=custom)
        if registration is None:
            missing[i] = UnresolvedOp(
                op, custom, code.version, resolver.versions(op, custom=custom)
            )
            registration = Registration(
                name=op, prepare=UNRESOLVED, invoke=UNRESOLVED, custom=custom
            )
        registrations.append(registration)
    if missing:
        for s, subgraph in enumerate(model.subgraphs):
            for n, operator in enumerate(subgraph.operators):
                if operator.opcode_index in missing:
                    size = len(operator.custom_options or b"") if operator.custom else 0
                    missing[operator.opcode_index].nodes.append((s, n, size))
    return registrations, list(missing.values())


class Graph:
    """The runnable form of a model. Not safe for use from several threads at once: the interpreter
    locks.
    """

    def __init__(
        self,
        model: Model,
        resolver: OpResolver,
        *,
        threads: int | None = None,
        preserve_all: bool = False,
        keep: Iterable[str | int] = (),
        weights: MutableMapping[Any, Any] | None = None,
        report: Callable[[str], None] | None = None,
        resolved: Resolved | None = None,
    ) -> None:
        """`resolved`: what `resolve(model, resolver)` gave, where that was asked for before."""
        self.model = model
        self.resolver = resolver
        self.registrations, self.unresolved = resolved or resolve(model, resolver)
        self.no_flex = ""  # why TensorFlow does not run the Flex ops
        self.pool = Pool(available_threads() if threads is None else threads)
        self.preserve_all = preserve_all
        self.keep = frozenset(keep)
        # what nodes made of their constants, by (subgraph, node): clones share it
        self.weights: MutableMapping[Any, Any] = {} if weights is None else weights
        self.resources: MutableMapping[Any, Any] = {}
        self.workspace = Workspace()
        self.profiler: Profiler | None = None
        self.asynchronous = False  # while invoke_async runs it: asynchronous kernels are driven
        self.calm = False  # whether numpy's warnings and BLAS's threads are off: while it runs
        self.report: Callable[[str], None] = report or _warn
        self.to_free: list[tuple[LiveSubgraph, LiveNode]] = []
        self._free_lock = threading.Lock()
        self.for_good: list[set[int]] = [set() for _ in model.subgraphs]
        self.delegation = Delegation(self)
        self.subgraphs = [LiveSubgraph(self, i, s) for i, s in enumerate(model.subgraphs)]
        try:
            for subgraph in self.subgraphs:
                subgraph.init_nodes()
        except Exception:
            self.close()
            raise

    def kept(self, subgraph: LiveSubgraph) -> list[int]:
        """Tensors of the subgraph that the user wants to read after invoke: names in all subgraphs,
        numbers in the first.
        """
        if not self.keep:
            return []
        return [
            t.index
            for t in subgraph.tensors
            if t.name in self.keep or (subgraph.index == 0 and t.index in self.keep)
        ]

    def unresolved_text(self) -> str:
        """One text for all operators that have no registration."""
        from .unresolved import describe

        return describe(self.unresolved, CUSTOM_OPS_PAGE, self.no_flex)

    def fill(self, find_op: Callable[[str, int], Registration | None]) -> None:
        """Takes what a delegate has for custom ops that no resolver knows."""
        for missing in [m for m in self.unresolved if m.custom]:
            registration = find_op(missing.op, missing.version)
            if registration is None:
                continue
            for s, n, _ in missing.nodes:
                subgraph = self.subgraphs[s]
                subgraph.nodes[n].registration = registration
                subgraph.init_node(subgraph.nodes[n])
            self.unresolved.remove(missing)

    def memory(self) -> Memory:
        tensors = [t for s in self.subgraphs for t in s.tensors]

        def held(kind: str) -> int:
            return sum(
                t.nbytes for t in tensors if t.allocation == kind and t.array_or_none is not None
            )

        seen: set[int] = set()
        packed = sum(
            _bytes_of(v, self.model.data, seen)
            for kept in self.weights.values()
            for k, v in kept.items()
            if k != "folded"
        )
        return Memory(
            arena=sum(s.arena_bytes for s in self.subgraphs if s.allocated),
            tensors=sum(s.tensor_bytes for s in self.subgraphs if s.allocated),
            persistent=held(PERSISTENT),
            constants=held(MMAP),
            folded=held(FOLDED),
            packed=packed,
            scratch=self.workspace.nbytes,
            dynamic=held("dynamic"),
        )

    def reset_state(self) -> None:
        """All that one invoke leaves to the next, back to what it was before the first.

        Variable tensors get their first value, variables lose theirs, and CALL_ONCE runs again.
        """
        for subgraph in self.subgraphs:
            subgraph.reset_variables()
        for key, resource in list(self.resources.items()):
            if key[0] == "initialised":
                del self.resources[key]
            elif hasattr(resource, "value"):
                resource.value = None

    def close(self) -> None:
        """Frees every node's user data and lets go of the memory. May be called twice."""
        with self._free_lock:
            to_free, self.to_free = self.to_free, []
        errors: list[Exception] = []
        self.delegation.close()
        for subgraph in self.subgraphs if hasattr(self, "subgraphs") else ():
            subgraph.close_async(self.report)
        for subgraph, node in to_free:
            try:
                if node.registration.free is not None:
                    node.registration.free(subgraph, node.user_data)
            except Exception as e:  # the others are still to be freed
                text = str(e) if isinstance(e, OpError) else f"{type(e).__name__}: {e}"
                where = f"Node number {node.index} ({node.op}) failed to free its user data."
                error = NodeError(f"{text}\n{where}", subgraph.index, node.index, node.op)
                error.__cause__ = e
                errors.append(error)
            node.user_data = None
        closed = {custom: Registration(custom=custom) for custom in (False, True)}
        for subgraph in self.subgraphs if hasattr(self, "subgraphs") else ():
            subgraph.release()
            for node in subgraph.nodes:  # whose op may be of a library that is to be unloaded
                node.registration = closed[node.registration.custom]
        self.registrations, self.resolver = [], ChainedResolver()
        self.workspace = Workspace()
        self.resources.clear()
        self.pool.close()
        if errors:
            raise errors[0]


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)


def _bytes_of(value: Any, file: Array, seen: set[int]) -> int:
    """Bytes of all arrays that hang on `value`, each once; views of the file are not ours."""
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        if isinstance(value.base, np.ndarray):
            return _bytes_of(value.base, file, seen)
        return 0 if np.may_share_memory(value, file) else value.nbytes
    if isinstance(value, tuple | list):
        parts: Iterable[Any] = value
    elif isinstance(value, dict):
        parts = value.values()
    elif is_dataclass(value):
        parts = [getattr(value, f.name) for f in fields(value)]
    else:
        parts = getattr(value, "__dict__", {}).values()
    return sum(_bytes_of(p, file, seen) for p in parts)
