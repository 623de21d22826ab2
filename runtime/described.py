"""What an interpreter tells of its model and of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import details
from .graph import Graph, Memory
from .guard import Guard
from .resize import explain
from .settings import Settings
from .subgraph import LiveSubgraph
from .tensor import ARENA, LiveTensor
from .values import get_value
from .views import Views

if TYPE_CHECKING:
    from .profile import Profile


class Described:
    """The part of `Interpreter` that changes nothing, and what the other parts share."""

    _open: Graph | None
    _settings: Settings
    _guard: Guard
    _views: Views

    @property
    def _graph(self) -> Graph:
        if self._open is None:
            raise ValueError("Interpreter was not initialized: it is closed.")
        return self._open

    def get_input_details(self) -> list[details.TensorDetails]:
        return [self._get_tensor_details(i, 0) for i in self._graph.subgraphs[0].input_indices]

    def get_output_details(self) -> list[details.TensorDetails]:
        return [self._get_tensor_details(i, 0) for i in self._graph.subgraphs[0].output_indices]

    def get_tensor_details(self, subgraph_index: int = 0) -> list[details.TensorDetails]:
        count = self.num_subgraphs()
        if not 0 <= subgraph_index < count:
            raise ValueError(
                f"subgraph_index is out of range: {subgraph_index} for the model, which has "
                f"{count} subgraphs."
            )
        tensors = self._graph.subgraphs[subgraph_index].tensors
        return [self._get_tensor_details(i, subgraph_index) for i in range(len(tensors))]

    def num_subgraphs(self) -> int:
        return len(self._graph.subgraphs)

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Names of the inputs and outputs of each signature, sorted as in TensorFlow Lite."""
        return {
            key: {side: list(tensors) for side, tensors in signature.items()}
            for key, signature in self._get_full_signature_list().items()
        }

    @property
    def unresolved_ops(self) -> str | None:
        """What `allocate_tensors` raises where operators have no registration: all of them, and
        what to do about it. None where all are known.
        """
        return self._graph.unresolved_text() if self._graph.unresolved else None

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """The nodes of the main subgraph: `get_node_details()`."""
        return self.get_node_details()

    def get_node_details(self, subgraph_index: int = 0) -> list[dict[str, Any]]:
        """All there is to know of each node, its attributes included: see
        `runtime.details.node_details`.
        """
        subgraph = self._subgraph(subgraph_index)
        return [details.node_details(subgraph, i) for i in range(len(subgraph.nodes))]

    @property
    def variables(self) -> dict[str, Any]:
        """Copies of the state that one invoke leaves to the next, by name.

        Variable tensors, and what VAR_HANDLE (TensorFlow's VarHandleOp too) names, where it has a
        value.
        """
        with self._guard.read("variables"):
            found = {
                t.name: get_value(t)
                for s in self._graph.subgraphs
                for t in s.tensors
                if t.variable and t.array_or_none is not None
            }
            for resource in self._graph.resources.values():
                value = getattr(resource, "value", None)
                if isinstance(value, np.ndarray):
                    found[resource.name] = value.copy()
                elif hasattr(resource, "named_values"):  # those of another runtime
                    found |= resource.named_values()
            return found

    @property
    def num_threads(self) -> int:
        """Threads in use: what was asked for, or the number of CPUs this process may use."""
        return self._graph.pool.threads

    def profile(self) -> Profile:
        """The time of each op: `with interpreter.profile() as profile: interpreter.invoke()`."""
        from .profile import Profile

        return Profile(self._graph)

    @property
    def memory(self) -> Memory:
        """Bytes held, by kind."""
        return self._graph.memory()

    @property
    def experimental_compress_quantization_zero_points(self) -> bool:
        return self._settings.compress_zero_points

    def _get_full_signature_list(self) -> dict[str, dict[str, dict[str, int]]]:
        return {
            s.key: {
                "inputs": dict(sorted(s.inputs.items())),
                "outputs": dict(sorted(s.outputs.items())),
            }
            for s in self._graph.model.signatures
        }

    def _get_tensor_details(self, tensor_index: int, subgraph_index: int) -> details.TensorDetails:
        index = int(tensor_index)
        self._tensor(index, int(subgraph_index))
        return details.tensor_details(
            self._graph.subgraphs[int(subgraph_index)], index, self._settings.compress_zero_points
        )

    def _get_op_details(self, op_index: int) -> dict[str, Any]:
        subgraph = self._graph.subgraphs[0]
        if not 0 <= op_index < len(subgraph.nodes):
            raise ValueError(
                f"Invalid node index {op_index}: the model has {len(subgraph.nodes)} nodes"
            )
        return details.op_details(subgraph, op_index)

    def _get_ops_details(self) -> list[dict[str, Any]]:
        return [self._get_op_details(i) for i in range(len(self._graph.subgraphs[0].nodes))]

    def _native_handle(self) -> int:
        raise NotImplementedError("this interpreter is Python: there is no tflite::Interpreter")

    def _subgraph(self, index: int) -> LiveSubgraph:
        subgraphs = self._graph.subgraphs
        if not 0 <= index < len(subgraphs):
            raise ValueError(
                f"Invalid subgraph index {index} exceeds max subgraph index {len(subgraphs)}"
            )
        return subgraphs[index]

    def _tensor(self, index: int, subgraph_index: int = 0) -> LiveTensor:
        tensors = self._subgraph(subgraph_index).tensors
        if not isinstance(index, int | np.integer):
            raise TypeError(
                f"a tensor is given by its number, not by {index!r}; run() and "
                "get_signature_runner() take names"
            )
        if not 0 <= index < len(tensors):
            raise ValueError(
                f"Invalid tensor index {index} exceeds max tensor index {len(tensors)}"
            )
        return tensors[index]

    def _check_kept(self, tensor: LiveTensor, subgraph: LiveSubgraph) -> None:
        if tensor.allocation != ARENA or self._settings.preserve_all:
            return
        index = tensor.index
        if index in subgraph.input_indices or index in subgraph.output_indices:
            return
        if tensor.name in self._settings.keep or (
            subgraph.index == 0 and index in self._settings.keep
        ):
            return
        raise ValueError(
            f"tensor {index} {tensor.name!r} is an intermediate: its memory is used again by "
            "others, so its value is lost. "
            f"Interpreter(..., keep=[{tensor.name!r}]) keeps it, "
            "experimental_preserve_all_tensors=True keeps all."
        )

    def _allocate(self, subgraph: LiveSubgraph) -> None:
        try:
            subgraph.allocate()
        except RuntimeError as e:
            told = explain(subgraph, e)
            self._tell(told)
            if told is e:
                raise
            raise told from e.__cause__

    def _invoke(self, subgraph: LiveSubgraph) -> None:
        try:
            subgraph.invoke()
        except RuntimeError as e:
            self._tell(e)
            raise

    def _tell(self, error: Exception) -> None:
        """An interpreter from `InterpreterBuilder` tells its error reporter too."""
        if self._settings.report is not None:
            self._settings.report(str(error))

    def _dequantizes(self, index: int, subgraph_index: int) -> bool:
        return (
            self._settings.dequantize_outputs
            and index in self._graph.subgraphs[subgraph_index].output_indices
        )
