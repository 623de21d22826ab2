"""Nodes prepared, and bound to their arrays: what `LiveSubgraph` makes callables of."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..kernels.api import NodeSpec, OpError, Run, Shape
from ..kernels.types import Array
from .context import LiveContext
from .folding import fold, foldable
from .node import LiveNode, NodeBinding
from .tensor import ARENA, DYNAMIC, PERSISTENT, new_array


class NodeCalls(LiveContext):
    """The part of `LiveSubgraph` that deals with one node at a time."""

    index: int

    def _prepare(self, node: LiveNode) -> None:
        registration = node.registration
        node.late = any(t is not None and t.allocation == DYNAMIC for t in node.inputs)
        node.folded = False
        node.binding = None
        node.late_shapes = None
        node.temporaries = []
        for out in node.outputs:
            if out.allocation != PERSISTENT:
                out.allocation = DYNAMIC if node.late else ARENA
                out.array_or_none = None
                if out.const is not None:
                    out.set_const(None)
        if node.late:
            return
        if registration.infer is None:
            if registration.prepare is not None:
                self._ask_prepare(node, registration.prepare)
            return
        spec = node.make_spec(with_values=False)
        shapes = registration.infer(spec)
        if None not in shapes:
            self._set_shapes(node, shapes)
            if foldable(node):
                fold(node, self._bind, self.graph.for_good[self.index])
            return
        node.late = True
        for out, shape in zip(node.outputs, shapes, strict=True):
            out.allocation = DYNAMIC
            if shape is not None:
                out.set_shape(shape)

    def _ask_prepare(self, node: LiveNode, prepare: Callable[[Any, Any], None]) -> None:
        self._preparing = node
        try:
            prepare(self, node)
        finally:
            self._preparing = None

    def _set_shapes(self, node: LiveNode, shapes: Sequence[Shape | None]) -> None:
        if len(shapes) != len(node.outputs):
            raise OpError(
                f"{node.op} has {len(shapes)} outputs; the model declares {len(node.outputs)}"
            )
        for out, shape in zip(node.outputs, shapes, strict=True):
            if shape is None:
                raise OpError(f"the shape of output {out.name!r} does not follow from the inputs")
            out.set_shape(tuple(shape))

    # -- running

    def _make_call(self, node: LiveNode) -> Run | None:
        if node.late:
            return functools.partial(self._run_late, node)
        if node.registration.bind is None:
            return self._plain_invoke(node)
        return self._bind(node, self._input_arrays(node), [t.array for t in node.outputs])

    def _plain_invoke(self, node: LiveNode) -> Run:
        """The node's invoke, or what drives its asynchronous kernel."""
        raise NotImplementedError

    def _input_arrays(self, node: LiveNode) -> list[Array | None]:
        arrays: list[Array | None] = []
        for i, t in enumerate(node.inputs):
            if t is None:
                arrays.append(None)
                continue
            if t.array_or_none is None and not (node.op == "RESHAPE" and i == 1):
                # old converters left a shape tensor without data at RESHAPE
                raise OpError(f"Input tensor {t.index} lacks data: {t.name!r} of {node.op}")
            arrays.append(t.array_or_none)
        return arrays

    def _bind(
        self, node: LiveNode, x: list[Array | None], y: list[Array], spec: NodeSpec | None = None
    ) -> Run | None:
        bind = node.registration.bind
        if bind is None:
            return self._plain_invoke(node)
        workspace = self.graph.workspace
        workspace.begin()
        binding = NodeBinding(
            spec or node.make_spec(with_values=False), x, y, workspace, self.graph.pool, node.kept
        )
        binding.run = bind(binding)
        node.binding = binding
        return binding.run

    def _run_late(self, node: LiveNode) -> None:
        registration = node.registration
        if registration.infer is None:
            shapes = [t.shape if t is not None else None for t in node.inputs]
            if shapes != node.late_shapes:
                node.temporaries = []
                if registration.prepare is not None:
                    self._ask_prepare(node, registration.prepare)
                node.late_shapes = shapes
                for out in node.outputs:
                    if out.array_or_none is None or out.array_or_none.shape != out.shape:
                        out.array_or_none = new_array(out.shape, out.dtype)
            self._plain_invoke(node)()
            return
        x = self._input_arrays(node)
        self._set_shapes(node, registration.infer(node.make_spec(with_values=True)))
        for out in node.outputs:
            if out.array_or_none is None or out.array_or_none.shape != out.shape:
                out.array_or_none = new_array(out.shape, out.dtype)
        y = [t.array for t in node.outputs]
        bound = node.binding
        if bound is not None and _same(bound.x, x) and _same(bound.y, y):
            run = bound.run
        else:
            run = self._bind(node, x, y)
        if run is not None:
            run()


def _same(a: Sequence[Array | None], b: Sequence[Array | None]) -> bool:
    return all(p is q for p, q in zip(a, b, strict=True))
