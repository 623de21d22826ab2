"""Flex nodes that run together: from arrays to arrays, through one function of TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Hashable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...kernels.api import Node, OpError, Shape, Tensor
from ...kernels.types import Array, DType
from .function import Function

if TYPE_CHECKING:
    from .node import FlexNode

HANDLES = (DType.RESOURCE, DType.VARIANT)


class Held:
    """A resource or variant of TensorFlow, as an element of a tensor's array on the host."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


class Program:
    """`nodes`, in an order that runs; stateful ones keep it.

    `owner`: what tells nodes of equal numbers apart, such as their subgraph's number. `outputs`:
    the tensors that anybody else reads. The function is their interpreter's, and lives
    as long as that: what its kernels keep is not lost when other shapes take other plans.
    """

    def __init__(self, owner: Hashable, nodes: Sequence[Node], outputs: Sequence[Tensor]) -> None:
        self._nodes = nodes
        first: FlexNode = nodes[0].user_data
        self._library, resources = first.library, first.resources
        body = _Body(self._library)
        for node in nodes:
            body.add(node)
        self.inputs, self.outputs = body.inputs, outputs
        self._constants: list[Any] = [
            None if t.spec.const is None else resources.constant(t, t.spec.const)
            for t in body.inputs
        ]
        key = owner, tuple(n.index for n in nodes), tuple(t.index for t in outputs)
        function = resources.functions.get(key)
        if function is None:
            function = resources.functions[key] = Function(
                self._library,
                body.nodes,
                [self._library.dtype(t.dtype).as_datatype_enum for t in body.inputs],
                [body.made[t.index] for t in outputs],
                body.last,
            )
        self._function = function

    def run(
        self,
        resize: Callable[[Tensor, Shape], None],
        shared: MutableMapping[int, Any] | None = None,
        from_host: Container[int] | None = None,
        to_host: Container[int] | None = None,
    ) -> None:
        """Computes the outputs.

        `from_host`, `to_host`: the numbers of inputs and outputs that live on the host; by default
        all do. Others are passed in `shared`.
        """
        library = self._library
        given = [
            constant
            if constant is not None
            else _take(library, t)
            if from_host is None or shared is None or t.index in from_host
            else shared[t.index]
            for t, constant in zip(self.inputs, self._constants, strict=True)
        ]
        try:
            made = self._function(given)
        except Exception as e:
            raise OpError(self._explain(e)) from e
        for tensor, value in zip(self.outputs, made, strict=True):
            if shared is not None:
                shared[tensor.index] = value
            if to_host is None or tensor.index in to_host:
                _give(library, value, tensor, resize)

    def _explain(self, error: Exception) -> str:
        """TensorFlow's text, with the node that it is about."""
        text = str(getattr(error, "message", None) or error)
        found = re.search(r"\{\{node n(\d+)\}\}", text)
        index = int(found[1]) if found else None
        about = [n for n in self._nodes if n.index == index] or self._nodes
        text = re.sub(r"\{\{function_node [^}]*\}\}\s*|\s*\[\[\{\{node [^}]*\}\}\]\]", "", text)
        text = re.sub(r"\s*\[Op:\w+\]", "", text).strip()
        names = ", ".join(
            f"node {n.index} ({n.op} {n.user_data.name!r}; inputs {_shapes(n)})" for n in about
        )
        return f"TensorFlow: {text}\n{names}: {type(error).__name__}"


class _Body:
    """Collects the NodeDefs of a function."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.nodes: list[Any] = []
        self.inputs: list[Tensor] = []
        self.made: dict[int, tuple[str, int]] = {}  # tensor number -> output and type
        self.last: str | None = None
        self._arguments: dict[int, str] = {}

    def add(self, node: Node) -> None:
        flex: FlexNode = node.user_data
        own = self._library.node_def.NodeDef()
        own.CopyFrom(flex.node_def)
        own.name = f"n{node.index}"
        own.ClearField("input")
        own.input.extend(self._source(t) for t in node.inputs if t is not None)
        if flex.stateful:
            if self.last is not None:
                own.input.append(f"^{self.last}")
            self.last = own.name
        self.nodes.append(own)
        for tensor, place, kind in zip(node.outputs, flex.places, flex.outputs, strict=True):
            self.made[tensor.index] = f"{own.name}:{place}", kind

    def _source(self, tensor: Tensor) -> str:
        if tensor.index in self.made:
            return self.made[tensor.index][0]
        if tensor.index not in self._arguments:
            self._arguments[tensor.index] = f"x{len(self.inputs)}"
            self.inputs.append(tensor)
        return self._arguments[tensor.index]


def _take(library: Any, tensor: Tensor) -> Any:
    array = tensor.array
    if tensor.dtype not in HANDLES:
        return library.tensor(array, tensor.dtype)
    held = array.reshape(-1)[0] if array.size == 1 else None
    if not isinstance(held, Held):
        raise OpError(
            f"tensor {tensor.index} {tensor.name!r} refers to "
            f"{'nothing' if held is None else f'a {type(held).__name__.lower()}'}, and Flex "
            f"operators take a {tensor.dtype.label} that another of them made"
        )
    return held.tensor


def _give(
    library: Any, value: Any, tensor: Tensor, resize: Callable[[Tensor, Shape], None]
) -> None:
    if tensor.dtype in HANDLES:
        array: Array = np.empty(tensor.shape if not tensor.is_dynamic else (), object)
        array.fill(Held(value))
    else:
        array = library.array(value, tensor.dtype)
    if tensor.is_dynamic:
        resize(tensor, array.shape)
    elif array.shape != tensor.shape:
        raise OpError(
            f"TensorFlow gave {list(array.shape)} for tensor {tensor.index} {tensor.name!r}, whose "
            f"shape was to be {list(tensor.shape)}"
        )
    np.copyto(tensor.array, array)


def _shapes(node: Node) -> str:
    return ", ".join(
        str(t.spec) if not t.is_dynamic else f"{t.dtype.label} of a shape known at run time"
        for t in node.inputs
        if t is not None
    )
