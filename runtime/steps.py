"""One call of a model taken apart, for those who time or compare its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..kernels.types import Array
from .values import set_value

if TYPE_CHECKING:
    from .interpreter import Interpreter


class Steps:
    """`Interpreter.run` in steps, which must not be mixed with calls of the interpreter.

    `inputs` and `outputs` are details by the names of the signature, or without one the tensors'.
    """

    def __init__(self, interpreter: Interpreter, signature: str | None = None) -> None:
        self._quantize = interpreter._settings.quantize_inputs
        graph = interpreter._graph
        if signature is None:
            subgraph = 0
            self.inputs = by_name(interpreter.get_input_details())
            self.outputs = by_name(interpreter.get_output_details())
        else:
            runner = interpreter.get_signature_runner(signature)
            subgraph = next(s.subgraph for s in graph.model.signatures if s.key == signature)
            self.inputs = dict(runner.get_input_details())
            self.outputs = dict(runner.get_output_details())
        self._live = graph.subgraphs[subgraph]

    def allocate(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """For inputs of these shapes."""
        for name, shape in shapes.items():
            self._live.resize_tensor(self.inputs[name]["index"], shape)
        self._live.allocate()

    def fill(self, values: Mapping[str, Array]) -> None:
        for name, value in values.items():
            tensor = self._live.tensors[self.inputs[name]["index"]]
            set_value(tensor, value, quantize=self._quantize)

    def invoke(self) -> None:
        self._live.invoke()


def by_name(details: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Details by name; an empty or taken one gets the tensor's number, as in `Interpreter.run`."""
    found: dict[str, dict[str, Any]] = {}
    for detail in details:
        name = detail["name"]
        if not name or found.get(name, detail)["index"] != detail["index"]:
            name = f"{name}#{detail['index']}"
        found[name] = dict(detail)
    return found
