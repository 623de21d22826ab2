"""A live node, and the view of it that its kernel is bound to."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.api import NodeSpec, OpError, Registration, Run, TensorSpec
from ..kernels.types import Array
from .memory import Workspace
from .tensor import LiveTensor
from .threads import Pool

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


class LiveNode:
    """Implements `kernels.api.Node`."""

    __slots__ = (
        "_source",
        "binding",
        "constant",
        "folded",
        "index",
        "inputs",
        "intermediates",
        "kept",
        "late",
        "late_shapes",
        "op",
        "outputs",
        "persistent",
        "registration",
        "temporaries",
        "user_data",
        "version",
    )

    def __init__(
        self,
        index: int,
        op: str,
        version: int,
        registration: Registration,
        source: Any,
        inputs: Sequence[LiveTensor | None],
        outputs: Sequence[LiveTensor],
        intermediates: Sequence[LiveTensor],
        kept: MutableMapping[Any, Any],
    ) -> None:
        self.index = index
        self.op = op
        self.version = version
        self.registration = registration
        self._source = source
        self.inputs = inputs
        self.outputs = outputs
        self.intermediates = intermediates
        self.temporaries: list[LiveTensor] = []
        self.persistent: dict[int, LiveTensor] = {}  # temporaries kept between invokes, by number
        self.user_data: Any = None
        self.kept = kept  # what `once` made, shared by clones
        self.folded = False  # its outputs were computed at allocation
        self.constant = False  # ... from nothing but the model's constants
        self.late = False  # prepared or bound at invoke, when shapes are known
        self.late_shapes: list[tuple[int, ...] | None] | None = None
        self.binding: NodeBinding | None = None

    @property
    def options(self) -> Any:
        return self._source.custom_options if self.registration.custom else self._source.options

    @property
    def spec(self) -> NodeSpec:
        return self.make_spec(with_values=False)

    def make_spec(self, with_values: bool) -> NodeSpec:
        if with_values:
            inputs = [t.spec_with_value() if t is not None else None for t in self.inputs]
        else:
            inputs = [t.spec if t is not None else None for t in self.inputs]
        return NodeSpec(
            self.op,
            inputs,
            [t.spec for t in self.outputs],
            self.options,
            self.version,
            self.index,
            [t.spec for t in self.intermediates],
        )

    def __repr__(self) -> str:
        return f"<node {self.index} {self.op}>"


class NodeBinding:
    """Implements `kernels.api.Binding`."""

    __slots__ = (
        "_kept",
        "_pool",
        "_workspace",
        "index",
        "inputs",
        "intermediates",
        "op",
        "options",
        "outputs",
        "run",
        "threads",
        "version",
        "x",
        "y",
    )

    def __init__(
        self,
        spec: NodeSpec,
        x: list[Array | None],
        y: list[Array],
        workspace: Workspace,
        pool: Pool,
        kept: MutableMapping[Any, Any],
    ) -> None:
        self.op = spec.op
        self.inputs: Sequence[TensorSpec | None] = spec.inputs
        self.outputs: Sequence[TensorSpec] = spec.outputs
        self.intermediates: Sequence[TensorSpec] = spec.intermediates
        self.options = spec.options
        self.version = spec.version
        self.index = spec.index
        self.x: Sequence[Array | None] = x
        self.y: Sequence[Array] = y
        self.threads = pool.threads
        self._workspace = workspace
        self._pool = pool
        self._kept = kept
        self.run: Run | None = None

    def input(self, i: int) -> TensorSpec:
        spec = self.optional(i)
        if spec is None:
            raise OpError(
                f"{self.op} needs input {i}, which is absent ({len(self.inputs)} inputs are given)"
            )
        return spec

    def optional(self, i: int) -> TensorSpec | None:
        return self.inputs[i] if i < len(self.inputs) else None

    def xi(self, i: int) -> Array:
        array = self.x[i] if i < len(self.x) else None
        if array is None:
            raise OpError(
                f"{self.op} needs input {i}, which is absent ({len(self.inputs)} inputs are given)"
            )
        return array

    def scratch(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> Array:
        kind = np.dtype(dtype)
        nbytes = kind.itemsize
        for d in shape:
            nbytes *= d
        return self._workspace.take(nbytes).view(kind).reshape(shape)

    def once(self, key: str, make: Callable[[], Any]) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def parallel(self, tasks: Sequence[Run]) -> Run:
        if len(tasks) == 1:
            return tasks[0]
        if self.threads > 1:
            pool = self._pool
            return lambda: pool.run(tasks)

        def in_turn() -> None:
            for task in tasks:
                task()

        return in_turn
