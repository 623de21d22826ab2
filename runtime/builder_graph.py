"""One graph of a model that is being built: tensors, constants, operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.types import Array, DType, float32_to_bfloat16, pack_bits
from .encoding import Edge, encode_strings
from .flatbuffer_writer import Values
from .flexbuffer import encode as encode_flexbuffer
from .schema import UNIONS, Table, options_table, table

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .builder import ModelBuilder

    DTypeName = DType | str | np.dtype[Any] | type[np.generic]


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
        also: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """A builtin operator; None among the inputs is an absent one.

        `out` is a tensor, (name, shape, dtype), (name, shape, dtype, Quant), or a list of these.
        The tensor is returned, or a tuple of them for a list. `options` are the schema's fields:
        enums by name, types as `DType` or by name. `also` is for one whose name is taken here:
        STABLEHLO_COMPOSITE has an option `version`.
        """
        values: Values = {"opcode_index": self.model.operator_code(op, False, version)}
        options.update(also or {})
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
