"""Makes `.tflite` models from Python."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.types import Array, DType, float32_to_bfloat16, pack_bits
from .encoding import CONTROL_EDGES, Edge, encode_strings, write_control_edges
from .flatbuffer_writer import MAX_SIZE, Values, read_tables, write
from .model import Model
from .schema import (
    BUILTINS,
    CUSTOM,
    IDENTIFIER,
    PLACEHOLDER,
    UNIONS,
    VERSION,
    Table,
    options_table,
    table,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    DTypeName = DType | str | np.dtype[Any] | type[np.generic]

BEHIND_ALIGN = 16


@dataclass(frozen=True)
class TensorRef:
    """A tensor of a graph that is being built."""

    graph: GraphBuilder = field(repr=False)
    index: int
    name: str
    shape: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True)
class Quant:
    """Quantisation of a tensor: real = scale * (stored - zero_point).

    `scale` and `zero_point` are numbers, or one for each index of dimension `axis`. With
    `block_size` there is one scale for each block of that many elements along the last dimension;
    they are stored as a float16 tensor.
    """

    scale: ArrayLike = ()
    zero_point: ArrayLike = 0
    axis: int = 0
    block_size: int = 0
    min: ArrayLike | None = None
    max: ArrayLike | None = None


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
        if min_runtime_version:
            self.metadata("min_runtime_version", min_runtime_version.encode().ljust(16, b"\0"))

    @classmethod
    def from_model(cls, model: Model) -> ModelBuilder:
        """All of a model, to be changed or written anew. Its constants are not copied."""
        self = cls()
        self.values = read_tables(model.root)[0]
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
            count = len(self.values["subgraphs"])
            edges = [self._edges.get(i, []) for i in range(count)]
            self.metadata(CONTROL_EDGES, write_control_edges(edges))
        values = self.values
        if behind is None:
            size = sum(_data(buffer).nbytes for buffer in values.get("buffers", ()))
            behind = size > MAX_SIZE - (1 << 26)
        data = _write_behind(values) if behind else bytes(write("Model", values, IDENTIFIER))
        if verify:
            Model.from_buffer(data)
        return data

    def save(self, path: str | os.PathLike[str]) -> None:
        """Builds, verifies and writes the file."""
        data = self.build()
        with open(path, "wb") as f:
            f.write(data)

    def control_edges(self, graph: GraphBuilder, edges: Iterable[Edge]) -> None:
        """Pairs (before, after) of operator indexes of a graph that must run in this order."""
        self._edges.setdefault(graph.index, []).extend(edges)


class GraphBuilder:
    """A graph that is being built: `ModelBuilder.subgraph` makes it."""

    def __init__(self, model: ModelBuilder, index: int, values: Values) -> None:
        self.model = model
        self.index = index
        self.values = values

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: DTypeName = "float32",
        *,
        scale: ArrayLike | None = None,
        zero_point: ArrayLike = 0,
        axis: int = 0,
        quant: Quant | None = None,
        shape_signature: Sequence[int] | None = None,
        variable: bool = False,
        **more: Any,
    ) -> TensorRef:
        """A tensor without a value. `quant`, or `scale`, `zero_point` and `axis`, quantise it.

        `shape_signature` has −1 where a dimension is unknown. `more` are other fields of the
        schema's table Tensor.
        """
        kind = dtype_of(dtype)
        values: Values = {
            "shape": [int(d) for d in shape],
            "type": int(kind),
            "name": name,
            "shape_signature": None if shape_signature is None else list(shape_signature),
            "is_variable": variable,
            **more,
        }
        if quant is None and scale is not None:
            quant = Quant(scale, zero_point, axis)
        if quant is not None:
            values["quantization"] = self._quantization(name, quant)
        tensors = self.values.setdefault("tensors", [])
        tensors.append(values)
        return TensorRef(self, len(tensors) - 1, name, tuple(values["shape"]), kind)

    def input(
        self, name: str, shape: Sequence[int], dtype: DTypeName = "float32", **more: Any
    ) -> TensorRef:
        """A `tensor` that is an input of the graph."""
        made = self.tensor(name, shape, dtype, **more)
        self.values["inputs"] = [*self.values.get("inputs", ()), made.index]
        return made

    def variable(
        self, name: str, shape: Sequence[int], dtype: DTypeName = "float32", **more: Any
    ) -> TensorRef:
        """A `tensor` that keeps its value from one invoke to the next."""
        return self.tensor(name, shape, dtype, variable=True, **more)

    def constant(
        self, name: str, value: ArrayLike, dtype: DTypeName | None = None, **more: Any
    ) -> TensorRef:
        """A `tensor` with a value, its type and shape the array's where `dtype` does not say
        another.

        int4, uint4 and int2 are packed, bfloat16 is rounded from floats (uint16 is taken as its
        bits), strings are str or bytes. For a sparse tensor `value` holds the stored ones; give
        `sparsity` and the dense `shape`.
        """
        array = _array(value)
        kind = dtype_of(array.dtype if dtype is None else dtype)
        shape = more.pop("shape", array.shape)
        buffer = self.model.buffer(encode(array, kind))
        return self.tensor(name, shape, kind, buffer=buffer, **more)

    def op(
        self,
        op: str,
        inputs: Sequence[TensorRef | None],
        out: Any,
        *,
        version: int = 1,
        intermediates: Sequence[TensorRef] = (),
        mutating_variable_inputs: Sequence[bool] | None = None,
        **options: Any,
    ) -> Any:
        """A builtin operator; None among the inputs is an absent one.

        `out` is a tensor, (name, shape, dtype), (name, shape, dtype, Quant), or a list of these.
        The tensor is returned, or a tuple of them for a list. `options` are the schema's fields:
        enums by name, types as `DType` or by name.
        """
        values: Values = {"opcode_index": self.model.operator_code(op, False, version)}
        name = options_table(op)
        if name is not None:
            union = "builtin_options_2" if name in UNIONS["BuiltinOptions2"] else "builtin_options"
            values[union] = (name, _options(op, table(name), options))
        elif options:
            raise TypeError(f"{op} has no option {min(options)!r}; it has none")
        return self._operator(values, inputs, out, intermediates, mutating_variable_inputs)

    def custom(
        self,
        op: str,
        inputs: Sequence[TensorRef | None],
        out: Any,
        *,
        options: Any = None,
        version: int = 1,
        intermediates: Sequence[TensorRef] = (),
    ) -> Any:
        """A custom operator. `options`: bytes as they are; anything else is written as a
        FlexBuffer; None for none.
        """
        values: Values = {"opcode_index": self.model.operator_code(op, True, version)}
        if isinstance(options, bytes | bytearray):
            values["custom_options"] = bytes(options)
        elif options is not None:
            from .flexbuffer import encode as encode_flexbuffer

            values["custom_options"] = encode_flexbuffer(options)
        return self._operator(values, inputs, out, intermediates, None)

    def outputs(self, *tensors: TensorRef) -> None:
        """Declares the graph's outputs, which replace earlier ones."""
        self.values["outputs"] = [self._index(t) for t in tensors]

    def control_edges(self, *edges: Edge) -> None:
        """Pairs (before, after) of operator indexes that must run in this order."""
        self.model.control_edges(self, edges)

    def __getitem__(self, index: int) -> TensorRef:
        """The tensor of that index."""
        values = self.values["tensors"][index]
        name = values.get("name", "")
        return TensorRef(
            self,
            index,
            name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name,
            tuple(int(d) for d in values.get("shape", ())),
            DType(values.get("type", 0)),
        )

    def _index(self, tensor: TensorRef | None) -> int:
        if tensor is None:
            return -1
        if tensor.graph is not self:
            raise ValueError(
                f"tensor {tensor.name!r} is of subgraph {tensor.graph.index}, not of {self.index}"
            )
        return tensor.index

    def _operator(
        self,
        values: Values,
        inputs: Sequence[TensorRef | None],
        out: Any,
        intermediates: Sequence[TensorRef],
        mutating: Sequence[bool] | None,
    ) -> Any:
        many = isinstance(out, list)
        made = tuple(self._made(o) for o in (out if many else [out]))
        values["inputs"] = [self._index(t) for t in inputs]
        values["outputs"] = [self._index(t) for t in made]
        if intermediates:
            values["intermediates"] = [self._index(t) for t in intermediates]
        if mutating is not None:
            values["mutating_variable_inputs"] = list(mutating)
        self.values.setdefault("operators", []).append(values)
        return made if many else made[0]

    def _made(self, out: Any) -> TensorRef | None:
        if out is None or isinstance(out, TensorRef):
            return out
        name, shape, dtype, *quant = out
        return self.tensor(name, shape, dtype, quant=quant[0] if quant else None)

    def _quantization(self, name: str, quant: Quant) -> Values:
        scale = np.asarray(quant.scale, np.float32)
        values: Values = {"quantized_dimension": quant.axis}
        for limit in ("min", "max"):
            limits = getattr(quant, limit)
            if limits is not None:
                values[limit] = np.atleast_1d(np.asarray(limits, np.float32))
        if quant.block_size:
            scales = self.constant(f"{name}/scales", scale.astype(np.float16))
            values["details"] = (
                "BlockwiseQuantization",
                {"scales": scales.index, "zero_points": -1, "block_size": quant.block_size},
            )
        elif scale.size:
            zero = np.asarray(quant.zero_point, np.int64)
            values["scale"] = scale.reshape(-1)
            values["zero_point"] = np.broadcast_to(zero, scale.shape).reshape(-1)
        return values


def dtype_of(dtype: DTypeName) -> DType:
    """The tensor type of a name ("float32", "int4", "string"), a `DType` or a numpy dtype."""
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, str) and dtype.upper() in DType.__members__:
        return DType[dtype.upper()]
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype("V1")
    if kind.kind in "OSU":
        return DType.STRING
    if kind.name.upper() in DType.__members__:
        return DType[kind.name.upper()]
    raise ValueError(
        f"no tensor has the type {dtype!r}; there are {', '.join(d.label for d in DType)}"
    )


def _array(value: ArrayLike) -> Array:
    if not isinstance(value, np.ndarray):
        leaves = np.array(value, object)
        if leaves.size and isinstance(leaves.flat[0], str | bytes):
            return leaves  # numpy's own strings lose NULs at their ends
    return np.asarray(value)


def encode(array: Array, dtype: DType) -> Array | bytes:
    """The bytes of a constant, as a buffer holds them."""
    if dtype is DType.STRING:
        flat = array.reshape(-1).tolist()
        return encode_strings([s.encode() if isinstance(s, str) else bytes(s) for s in flat])
    if dtype is DType.BFLOAT16 and array.dtype.kind == "f":
        return float32_to_bfloat16(array.astype(np.float32))
    if dtype.is_integer and array.dtype.kind in "iu" and array.size:
        low, high = dtype.range()
        if int(array.min()) < low or int(array.max()) > high:
            raise ValueError(f"values from {array.min()} to {array.max()} leave {dtype.label}")
    if dtype.bits < 8:
        return pack_bits(array, dtype)
    return np.ascontiguousarray(array, dtype.numpy)


def _options(op: str, kind: Table, options: Mapping[str, Any]) -> Values:
    values: Values = {}
    for name, value in options.items():
        entry = kind.by_name.get(name)
        if entry is None:
            raise TypeError(
                f"{op} has no option {name!r}; it has {', '.join(kind.by_name) or 'none'}"
            )
        if entry.enum is not None and entry.enum.name == "TensorType":
            value = int(dtype_of(value))
        values[name] = value
    return values


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
