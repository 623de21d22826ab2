"""The running graph as operators see it; `api` has these names, too."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .types import Array, DType

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from .api import NodeSpec, Run, Shape, TensorSpec


class Binding(Protocol):
    """A node as `bind` sees it: the specs, and the arrays they live in.

    The arrays stay where they are until the node is bound again. An input whose `spec.const` is
    None can hold other values at each call, so read it in the callable. A variable input is written
    in place.
    """

    op: str
    inputs: Sequence[TensorSpec | None]
    outputs: Sequence[TensorSpec]
    options: Any
    version: int
    index: int
    x: Sequence[Array | None]
    y: Sequence[Array]
    threads: int
    intermediates: Sequence[TensorSpec]

    def input(self, i: int) -> TensorSpec: ...

    def optional(self, i: int) -> TensorSpec | None: ...

    def xi(self, i: int) -> Array:
        """Array of input `i`, which must be there."""
        ...

    def scratch(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> Array:
        """Working memory, 64-byte aligned, shared with other nodes: lost between two calls."""
        ...

    def once(self, key: str, make: Callable[[], Any]) -> Any:
        """`make()`, computed once and kept while the node lives: packed weights, tables."""
        ...

    def parallel(self, tasks: Sequence[Run]) -> Run:
        """A callable that runs all `tasks`, on `threads` threads where that pays.

        They must not share output or scratch.
        """
        ...


class Tensor(Protocol):
    """A live tensor, as custom ops and control flow see it."""

    @property
    def index(self) -> int: ...
    @property
    def spec(self) -> TensorSpec: ...
    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> Shape: ...
    @property
    def declared_shape(self) -> Shape:
        """The shape in the model file, whatever inputs were resized."""
        ...

    @property
    def shape_signature(self) -> Shape | None:
        """As `declared_shape`, with -1 for what is unknown; None where the file has none."""
        ...

    @property
    def dtype(self) -> DType: ...
    @property
    def is_dynamic(self) -> bool: ...
    @property
    def array(self) -> Array:
        """The data, not copied. RuntimeError where it has no memory (yet)."""
        ...


class Node(Protocol):
    """A live node."""

    @property
    def index(self) -> int: ...
    @property
    def op(self) -> str: ...
    @property
    def inputs(self) -> Sequence[Tensor | None]: ...
    @property
    def outputs(self) -> Sequence[Tensor]: ...
    @property
    def intermediates(self) -> Sequence[Tensor]: ...
    @property
    def temporaries(self) -> Sequence[Tensor]: ...
    @property
    def options(self) -> Any: ...
    @property
    def user_data(self) -> Any: ...
    @property
    def spec(self) -> NodeSpec: ...


class Subgraph(Protocol):
    """A subgraph that a control-flow op runs: fill the inputs, invoke, read the outputs.

    All its callers share it.
    """

    @property
    def inputs(self) -> Sequence[Tensor]: ...
    @property
    def outputs(self) -> Sequence[Tensor]: ...
    @property
    def ops(self) -> Sequence[str]:
        """Names of its operators, in order: the body of a reduction may be one known function."""
        ...

    def reads_input(self, i: int) -> bool:
        """Whether a node reads input `i`, or it is an output too."""
        ...

    def resize_input(self, i: int, shape: Sequence[int]) -> None:
        """Takes effect with the next `allocate`."""
        ...

    def allocate(self) -> None:
        """Prepares all nodes anew if an input was resized since; else does nothing."""
        ...

    def invoke(self) -> None: ...


class Context(Protocol):
    """The runtime, as `init`, `prepare`, `invoke` and `free` see it."""

    @property
    def threads(self) -> int: ...

    @property
    def resources(self) -> MutableMapping[Any, Any]:
        """Resource variables and hash tables: one mapping for all subgraphs of an interpreter."""
        ...

    def resize(self, tensor: Tensor, shape: Sequence[int], dtype: DType | None = None) -> None:
        """In prepare: gives an output or temporary its shape.

        In invoke: only for a dynamic tensor, at once.
        """
        ...

    def set_dynamic(self, tensor: Tensor) -> None:
        """In prepare: the shape of `tensor` is known only in invoke."""
        ...

    def temporary(
        self, node: Node, shape: Sequence[int], dtype: DType = DType.FLOAT32, kind: str = "arena"
    ) -> int:
        """In prepare: asks for a temporary; its index into `node.temporaries`.

        `kind`: "arena" (contents lost after invoke), "persistent" (kept between invokes, zero at
        first) or "dynamic".
        """
        ...

    def subgraph(self, index: int) -> Subgraph: ...

    def report(self, text: str) -> None:
        """To the error reporter: a warning; an error is raised as OpError."""
        ...
