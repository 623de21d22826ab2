"""`SignatureRunner`: calls a model by the names of one of its signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .named import Call

if TYPE_CHECKING:
    from .async_run import AsyncRun
    from .details import TensorDetails
    from .interpreter import Interpreter


class SignatureRunner:
    """Made by `Interpreter.get_signature_runner`. Calls are whole in themselves: several threads
    take turns.
    """

    def __init__(
        self, interpreter: Interpreter | None = None, signature_key: str | None = None
    ) -> None:
        if not interpreter:
            raise ValueError("None interpreter provided.")
        if not signature_key:
            raise ValueError("None signature_key provided.")
        signatures = {s.key: s for s in interpreter._graph.model.signatures}
        if signature_key not in signatures:
            raise ValueError(
                f'Invalid signature_key provided: "{signature_key}". '
                f"The model has {', '.join(signatures) or 'no signatures'}."
            )
        self._interpreter = interpreter
        self._signature_key = signature_key
        self._subgraph_index = signatures[signature_key].subgraph
        self._signature_def = interpreter._get_full_signature_list()[signature_key]
        self._inputs = self._signature_def["inputs"]
        self._outputs = self._signature_def["outputs"]

    def __call__(self, **kwargs: Any) -> dict[str, Any]:
        """Runs the signature on arrays given by input name; fresh arrays by output name."""
        return self._interpreter._call(self._named(kwargs), "SignatureRunner")

    def invoke_async(self, **kwargs: Any) -> AsyncRun[dict[str, Any]]:
        """Starts what a call does, with the values as they are now, and comes back.

        `wait()` of the result gives the outputs by name; see `Interpreter.invoke_async`.
        """
        return self._interpreter._call_async(self._named(kwargs), "invoke_async")

    def _named(self, kwargs: dict[str, Any]) -> Call:
        names = ", ".join(self._inputs) or "none"
        if len(kwargs) != len(self._inputs):
            raise ValueError(
                "Invalid number of inputs provided for running a SignatureDef, "
                f"expected {len(self._inputs)} vs provided {len(kwargs)}. The inputs are {names}."
            )
        for name in kwargs:
            if name not in self._inputs:
                raise ValueError(
                    f"Invalid Input name ({name}) for SignatureDef. The inputs are {names}."
                )
        inputs = {self._inputs[name]: value for name, value in kwargs.items()}
        return Call(self._subgraph_index, inputs, self._outputs)

    def get_input_details(self) -> dict[str, TensorDetails]:
        """Tensor details by input name."""
        return self._details(self._inputs)

    def get_output_details(self) -> dict[str, TensorDetails]:
        """Tensor details by output name."""
        return self._details(self._outputs)

    def _details(self, tensors: dict[str, int]) -> dict[str, TensorDetails]:
        return {
            name: self._interpreter._get_tensor_details(i, self._subgraph_index)
            for name, i in tensors.items()
        }
