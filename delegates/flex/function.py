"""A function of TensorFlow made from NodeDefs: one call runs them all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from .library import Library

_numbers = count()


class Function:
    """Runs `nodes`: NodeDefs whose inputs are "x0", "x1", … (the arguments), "node:output:place" or
    "^node" (run after it).

    Nodes without an order among them may run at the same time. The kernels, and what they keep
    (a generator's state), are this function's own.
    """

    def __init__(
        self,
        library: Library,
        nodes: Sequence[Any],
        arguments: Sequence[int],
        results: Sequence[tuple[str, int]],
        last: str | None = None,
    ) -> None:
        """`arguments`, and the second of `results`, are TensorFlow's numbers of types; the first
        says which output it is. `last`: a node that must have run.
        """
        self._library = library
        self._count = len(results)
        made = library.function_def.FunctionDef()
        self.name = made.signature.name = f"litedelegate_flex_{next(_numbers)}"
        for i, kind in enumerate(arguments):
            made.signature.input_arg.add(name=f"x{i}", type=kind)
        for i, (source, kind) in enumerate(results):
            made.signature.output_arg.add(name=f"y{i}", type=kind)
            made.ret[f"y{i}"] = source
        if last is not None:
            made.signature.is_stateful = True
            made.signature.control_output.append("last")
            made.control_ret["last"] = last
        made.node_def.extend(nodes)
        library.context.add_function_def(made)

    def __call__(self, tensors: Sequence[Any] = ()) -> list[Any]:
        return self._library.call(self.name, list(tensors), self._count)

    def free(self) -> None:
        self._library.context.remove_function(self.name)
