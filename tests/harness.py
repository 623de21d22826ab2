"""Runs one node on its kernel through the `Binding` contract, with nothing of the runtime.

It is harsher than the runtime: outputs and scratch hold garbage before each call, and parallel
tasks run in either order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from litedelegate.kernels.api import (
    NodeSpec,
    OpError,
    Options,
    Registration,
    Run,
    Shape,
    TensorSpec,
)
from litedelegate.kernels.types import Array


def poison(array: Array) -> None:
    """Fills an array with values that no kernel would produce unnoticed."""
    if array.dtype == object:
        array[...] = b"poison"
    elif array.dtype.kind in "fc":
        array[...] = np.nan
    elif array.dtype == np.bool_:
        array[...] = True
    else:
        array.reshape(-1).view(np.uint8)[...] = 0xA5


class HarnessBinding:
    """`Binding` on plain arrays."""

    def __init__(self, node: NodeSpec, x: Sequence[Array | None], y: Sequence[Array]) -> None:
        self.op = node.op
        self.inputs = node.inputs
        self.outputs = node.outputs
        self.options = node.options
        self.version = node.version
        self.index = node.index
        self.intermediates = node.intermediates
        self.intermediates = node.intermediates
        self.node = node
        self.x = x
        self.y = y
        self.threads = 2
        self.scratches: list[Array] = []
        self.kept: dict[str, Any] = {}
        self.reverse = False

    def input(self, i: int) -> TensorSpec:
        return self.node.input(i)

    def optional(self, i: int) -> TensorSpec | None:
        return self.node.optional(i)

    def xi(self, i: int) -> Array:
        array = self.x[i]
        assert array is not None
        return array

    def scratch(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> Array:
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        raw = np.empty(size + 64, np.uint8)
        start = -raw.ctypes.data % 64
        array = raw[start : start + size].view(dtype).reshape(tuple(shape))
        poison(array)
        self.scratches.append(array)
        return array

    def once(self, key: str, make: Callable[[], Any]) -> Any:
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]

    def parallel(self, tasks: Sequence[Run]) -> Run:
        tasks = list(tasks)

        def run() -> None:
            for task in reversed(tasks) if self.reverse else tasks:
                task()

        return run


class Prepared:
    """A node that is bound; `run()` spoils outputs and scratch, then gives its outputs."""

    def __init__(
        self,
        registration: Registration,
        node: NodeSpec,
        x: Sequence[Array | None],
        share: int | None = None,
    ) -> None:
        """With `share`, output 0 lies in the memory of input `share`."""
        assert registration.infer is not None and registration.bind is not None
        self.x = [None if a is None else a.copy() for a in x]
        self.first = [None if a is None else a.copy() for a in x]
        self.share = share
        shapes = infer(registration, node)
        self.static = all(s is not None for s in shapes)
        if not self.static:
            values = zip(node.inputs, self.x, strict=True)
            known = [None if s is None else replace(s, const=a) for s, a in values]
            node = replace(node, inputs=known)
            shapes = infer(registration, node)
        settled = [s for s in shapes if s is not None]
        assert len(settled) == len(shapes), f"{node.op}: unknown with all values given: {shapes}"
        outputs = [replace(o, shape=s) for o, s in zip(node.outputs, settled, strict=True)]
        self.y = [np.zeros(o.shape, o.dtype.numpy) for o in outputs]
        if share is not None:
            memory = self.x[share]
            assert memory is not None
            self.y[0] = memory.reshape(-1).view(outputs[0].dtype.numpy).reshape(outputs[0].shape)
        if self.static:
            # what bind reads of an input that is not constant is not what the call will see
            for array, spec in zip(self.x, node.inputs, strict=True):
                fixed = spec is None or spec.const is not None or spec.variable
                if array is not None and not fixed:
                    poison(array)
        self.binding = HarnessBinding(replace(node, outputs=outputs), self.x, self.y)
        self.call = registration.bind(self.binding)

    def run(self, reverse: bool = False) -> list[Array]:
        for y in self.y if self.share is None else self.y[1:]:
            poison(y)
        for s in self.binding.scratches:
            poison(s)
        for now, first, spec in zip(self.x, self.first, self.binding.inputs, strict=True):
            if now is not None and first is not None and spec is not None and not spec.variable:
                now[...] = first
        self.binding.reverse = reverse
        if self.call is not None:
            with np.errstate(all="ignore"):  # as the runtime runs them
                self.call()
        return [y.copy() for y in self.y]


def infer(registration: Registration, node: NodeSpec) -> list[Shape | None]:
    assert registration.infer is not None
    shapes = list(registration.infer(node))
    assert len(shapes) == len(node.outputs), f"{node.op}: infer gave {len(shapes)} shapes"
    for shape in shapes:
        assert shape is None or all(isinstance(d, int) for d in shape), f"{node.op}: {shape!r}"
    return shapes


__all__ = ["HarnessBinding", "NodeSpec", "OpError", "Options", "Prepared", "infer", "poison"]
