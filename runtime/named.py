"""From names to tensors: what `run` is given and what it gives back."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from .graph import Graph
from .model import Signature
from .subgraph import LiveSubgraph
from .tensor import LiveTensor

DEFAULT_SIGNATURE = "serving_default"


class PositionalInputWarning(UserWarning):
    """Inputs that cannot be told apart by shape or type are set by position."""


@dataclass(frozen=True)
class Call:
    """Values by tensor index, and the index of each named output."""

    subgraph: int
    inputs: Mapping[int, Any]
    outputs: Mapping[str, int]


class Names:
    """The names of a model's inputs and outputs."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.signatures: dict[str, Signature] = {s.key: s for s in graph.model.signatures}

    def call(
        self, inputs: Mapping[str, Any] | Sequence[Any] | None, signature_key: str | None
    ) -> Call:
        """ValueError where the names do not fit."""
        signature = self._signature(signature_key)
        subgraph = self._graph.subgraphs[signature.subgraph if signature is not None else 0]
        given = {} if inputs is None else inputs
        if not isinstance(given, Mapping):
            raise TypeError(
                f"run() takes the inputs by name, {{name: array}}, not {type(given).__name__}; "
                f"the names are {_quoted(self._input_names(signature, subgraph))}"
            )
        if signature is not None and (
            signature_key is not None or set(given) <= set(signature.inputs)
        ):
            names, outputs = signature.inputs, signature.outputs
        else:
            names = by_tensor_name(subgraph, subgraph.input_indices)
            outputs = by_tensor_name(subgraph, subgraph.output_indices)
            if signature is not None and not set(given) <= set(names):
                # neither kind fits: speak of the names that the user is meant to use
                names, outputs = signature.inputs, signature.outputs
        self._check(given, names)
        return Call(subgraph.index, {names[k]: v for k, v in given.items()}, outputs)

    def ambiguous_inputs(self) -> tuple[LiveTensor, LiveTensor] | None:
        """Two inputs of the main subgraph of the same shape and type, if there are any."""
        if not self._graph.subgraphs:
            return None
        seen: dict[Any, LiveTensor] = {}
        for t in self._graph.subgraphs[0].inputs:
            key = (t.declared_shape, t.dtype)
            if key in seen and seen[key].index != t.index:
                return seen[key], t
            seen[key] = t
        return None

    def _signature(self, key: str | None) -> Signature | None:
        if key is not None:
            if key not in self.signatures:
                raise ValueError(
                    f'Invalid signature_key provided: "{key}". The model has '
                    f"{_quoted(self.signatures) or 'no signatures'}."
                )
            return self.signatures[key]
        if len(self.signatures) == 1:
            return next(iter(self.signatures.values()))
        return self.signatures.get(DEFAULT_SIGNATURE)

    def _input_names(
        self, signature: Signature | None, subgraph: LiveSubgraph
    ) -> Mapping[str, int]:
        if signature is not None:
            return signature.inputs
        return by_tensor_name(subgraph, subgraph.input_indices)

    def _check(self, given: Mapping[str, Any], names: Mapping[str, int]) -> None:
        unknown = [k for k in given if k not in names]
        missing = [k for k in names if k not in given]
        if not unknown and not missing:
            return
        parts = []
        for k in unknown:
            close = get_close_matches(str(k), names, 1)
            parts.append(f"unknown input {k!r}" + (f" (is it {close[0]!r}?)" if close else ""))
        if missing:
            parts.append(f"no value for {_quoted(missing)}")
        text = f"{'; '.join(parts)}. The inputs are {_quoted(names) or 'none'}."
        if len(self.signatures) > 1:
            text += f" Signatures: {_quoted(self.signatures)}; choose one with signature_key=."
        raise ValueError(text)


def warn_of_position(pair: tuple[LiveTensor, LiveTensor]) -> None:
    """Of `set_tensor` on one of two inputs that could be taken for each other."""
    warnings.warn(
        f"inputs {pair[0].name!r} and {pair[1].name!r} have the same shape and type, so nothing "
        "notices when they are swapped; their order is the converter's. run({name: value}) and "
        "get_signature_runner() take names.",
        PositionalInputWarning,
        stacklevel=3,
    )


def by_tensor_name(subgraph: LiveSubgraph, indices: Sequence[int]) -> dict[str, int]:
    """Tensor names to indexes; a name that is empty or taken gets the tensor's number."""
    found: dict[str, int] = {}
    for i in indices:
        name = subgraph.tensors[i].name
        if found.get(name, i) != i or not name:
            name = f"{name}#{i}"
        found[name] = i
    return found


def _quoted(names: Any) -> str:
    return ", ".join(repr(n) for n in names)
