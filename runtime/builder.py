"""Makes `.tflite` models from Python."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..kernels.types import Array
from .builder_graph import GraphBuilder, Quant, TensorRef, dtype_of
from .encoding import CONTROL_EDGES, Edge, write_control_edges
from .flatbuffer_writer import MAX_SIZE, Values, read_tables, write
from .model import Model
from .schema import BUILTINS, CUSTOM, IDENTIFIER, PLACEHOLDER, VERSION

__all__ = ["GraphBuilder", "ModelBuilder", "Quant", "TensorRef", "dtype_of"]

BEHIND_ALIGN = 16


class ModelBuilder:
    """Builds a model: tensors, operators and graphs first, then `build`.

    >>> import numpy as np
    >>> b = ModelBuilder(description="one layer")
    >>> g = b.subgraph("main")
    >>> x = g.input("x", (1, 4), "float32")
    >>> w = g.constant("w", np.ones((2, 4), np.int8), scale=[0.5, 0.25], zero_point=[0, 0], axis=0)
    >>> y = g.op("FULLY_CONNECTED", [x, w, None], out=("y", (1, 2), "float32"),
    ...          fused_activation_function="RELU")
    >>> g.outputs(y)
    >>> b.signature("serving_default", inputs={"x": x}, outputs={"y": y})
    >>> data = b.build()
    >>> Model.from_buffer(data).subgraphs[0].operators[0].options.fused_activation_function
    'RELU'

    Shapes and types of outputs are given, not inferred. Equal constants share one buffer.
    """

    def __init__(self, description: str = "", min_runtime_version: str = "") -> None:
        self.values: Values = {
            "version": VERSION,
            "operator_codes": [],
            "subgraphs": [],
            "description": description,
            "buffers": [{}],  # buffer 0 is empty by convention
        }
        self.graphs: list[GraphBuilder] = []
        self._buffers: dict[bytes, int] = {}
        self._edges: dict[int, list[Edge]] = {}
        self._read: dict[int, Sequence[Edge]] = {}  # edges of the model that was read
        if min_runtime_version:
            self.metadata("min_runtime_version", min_runtime_version.encode().ljust(16, b"\0"))

    @classmethod
    def from_model(cls, model: Model) -> ModelBuilder:
        """All of a model, to be changed or written anew. Its constants are not copied."""
        self = cls()
        self.values = read_tables(model.root)[0]
        self._read = dict(enumerate(model.control_edges))
        for buffer, (start, length) in zip(
            self.values.get("buffers", ()), model.buffer_places, strict=True
        ):
            if length:  # those behind the flatbuffer too
                buffer.update(data=model.data[start : start + length], offset=None, size=None)
        for graph, values in zip(model.subgraphs, self.values.get("subgraphs", ()), strict=True):
            self.graphs.append(GraphBuilder(self, graph.index, values))
            for operator, item in zip(graph.operators, values.get("operators", ()), strict=True):
                if operator.custom_options and "custom_options" not in item:
                    item["custom_options"] = operator.custom_options
                item.pop("large_custom_options_offset", None)
                item.pop("large_custom_options_size", None)
        return self

    def subgraph(self, name: str = "") -> GraphBuilder:
        """A new graph. The first is the one that runs by default."""
        values: Values = {"tensors": [], "inputs": [], "outputs": [], "operators": [], "name": name}
        graphs = self.values.setdefault("subgraphs", [])
        graphs.append(values)
        self.graphs.append(GraphBuilder(self, len(graphs) - 1, values))
        return self.graphs[-1]

    def signature(
        self, key: str, inputs: Mapping[str, TensorRef], outputs: Mapping[str, TensorRef]
    ) -> None:
        """A named way to call a graph, all of whose tensors must be of one graph."""
        graphs = {t.graph.index for side in (inputs, outputs) for t in side.values()}
        if len(graphs) != 1:
            raise ValueError(
                f"signature {key!r} has tensors of the subgraphs {sorted(graphs)}; it takes those "
                "of one"
            )
        self.values.setdefault("signature_defs", []).append(
            {
                "signature_key": key,
                "subgraph_index": graphs.pop(),
                "inputs": [{"name": n, "tensor_index": t.index} for n, t in inputs.items()],
                "outputs": [{"name": n, "tensor_index": t.index} for n, t in outputs.items()],
            }
        )

    def metadata(self, name: str, data: bytes) -> None:
        """Bytes under a name; they replace earlier ones of that name."""
        entries = [
            m for m in self.values.get("metadata", ()) if m.get("name") not in (name, name.encode())
        ]
        self.values["metadata"] = [*entries, {"name": name, "buffer": self.buffer(data)}]

    def buffer(self, data: bytes | Array) -> int:
        """Index of a buffer with this content; 0, the empty one, for none."""
        raw = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
        raw = np.ascontiguousarray(raw).reshape(-1).view(np.uint8)
        key = hashlib.blake2b(raw.data, digest_size=16).digest()
        buffers = self.values.setdefault("buffers", [{}])
        if key not in self._buffers:
            self._buffers[key] = len(buffers)
            buffers.append({"data": raw})
        return self._buffers[key]

    def operator_code(self, op: str, custom: bool, version: int) -> int:
        """Index of the operator code, which is added if it is new."""
        if not custom and op not in BUILTINS:
            raise ValueError(f"{op!r} is no builtin operator; a custom one is made by `custom`")
        number = CUSTOM if custom else BUILTINS.index(op)
        entry: Values = {
            "deprecated_builtin_code": min(number, PLACEHOLDER),
            "builtin_code": number,
            "version": version,
        }
        if custom:
            entry["custom_code"] = op
        codes = self.values.setdefault("operator_codes", [])
        if entry not in codes:
            codes.append(entry)
        return int(codes.index(entry))

    def build(self, behind: bool | None = None, verify: bool = True) -> bytes:
        """The file's bytes.

        `behind` puts constants and custom options behind the flatbuffer, found by offset. None does
        so where the file would exceed 2 GiB, as far as a flatbuffer reaches. `verify` checks the
        result: InvalidModelError names what is wrong.
        """
        if self._edges:
            edges = [
                [*self._read.get(i, ()), *self._edges.get(i, ())] for i in range(len(self.graphs))
            ]
            self.metadata(CONTROL_EDGES, write_control_edges(edges))
        values = self.values
        size = sum(_data(buffer).nbytes for buffer in values.get("buffers", ()))
        if behind is None:
            behind = size > MAX_SIZE - (1 << 26)
        room = 1024 + size + size // 32
        data = _write_behind(values) if behind else write("Model", values, IDENTIFIER, room)
        if verify:
            Model.from_buffer(data)
        return data

    def save(self, path: str | os.PathLike[str]) -> None:
        """Builds, verifies and writes the file."""
        data = self.build()
        with open(path, "wb") as f:
            f.write(data)

    def control_edges(self, graph: GraphBuilder, edges: Iterable[Edge]) -> None:
        """Pairs (before, after) of operator indexes of a graph that must run in this order.

        They add to those of a model that was read.
        """
        self._edges.setdefault(graph.index, []).extend(edges)


def _data(buffer: Values) -> Array:
    data = buffer.get("data")
    return np.empty(0, np.uint8) if data is None else np.asarray(data)


def _write_behind(values: Values) -> bytes:
    """Constants and custom options behind the flatbuffer. Offsets have a fixed width, so its size
    tells where they begin.
    """
    front = write("Model", _Behind(BEHIND_ALIGN).place(values), IDENTIFIER)
    behind = _Behind(len(front) + -len(front) % BEHIND_ALIGN)
    front = write("Model", behind.place(values), IDENTIFIER)
    return b"".join([front, bytes(-len(front) % BEHIND_ALIGN), *behind.chunks])


class _Behind:
    """The bytes that follow the flatbuffer, from byte `base` on."""

    def __init__(self, base: int) -> None:
        self.chunks: list[Any] = []
        self.end = base

    def put(self, raw: Any, size: int) -> int:
        """Where `raw` comes to lie."""
        at = self.end
        padding = bytes(-size % BEHIND_ALIGN)
        self.chunks += [raw, padding]
        self.end += size + len(padding)
        return at

    def place(self, values: Values) -> Values:
        """The model's values with offsets in place of data."""
        buffers: list[Values] = []
        for buffer in values["buffers"]:
            data = _data(buffer)
            if data.size:
                buffer = {"offset": self.put(data.data, data.nbytes), "size": data.nbytes}
            buffers.append(buffer)
        graphs = [
            {**graph, "operators": [self.operator(o) for o in graph["operators"]]}
            if "operators" in graph
            else graph
            for graph in values["subgraphs"]
        ]
        return {**values, "buffers": buffers, "subgraphs": graphs}

    def operator(self, values: Values) -> Values:
        options = values.get("custom_options")
        if options is None or not len(options):
            return values
        raw = bytes(options)
        return {
            **values,
            "custom_options": None,
            "large_custom_options_offset": self.put(raw, len(raw)),
            "large_custom_options_size": len(raw),
        }
