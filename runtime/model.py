"""A `.tflite` file as Python objects.

The file is mapped and stays as it is: constants are views of it. Tables are read in bulk
(`flatbuffer`), objects are made when first asked for.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

import numpy as np

from ..kernels.api import Quantization
from ..kernels.types import Array, DType, bfloat16_to_float32, unpack_bits
from .encoding import CONTROL_EDGES, Edge, decode_strings, read_control_edges
from .flatbuffer import InvalidModelError, Reader, split, text
from .model_parts import OperatorCode, OperatorDef, Signature, SubGraph, TensorDef
from .model_tables import CustomOptions, OperatorTables, TensorTables, places
from .schema import IDENTIFIER

__all__ = [
    "CustomOptions",
    "InvalidModelError",
    "Model",
    "OperatorCode",
    "OperatorDef",
    "Signature",
    "SubGraph",
    "TensorDef",
]


class Model:
    """A model file.

    `missing` names the vectors ("operator_codes", "subgraphs", "buffers") that the file lacks; they
    read as empty.
    """

    def __init__(self, data: Array, verify: bool = True) -> None:
        """`data`: uint8[n], kept and never copied. Use `from_file` or `from_buffer`."""
        self.data = data
        if data.size >= 8 and data[4:8].tobytes() != IDENTIFIER:
            raise InvalidModelError(
                f"Model: the file has the identifier {data[4:8].tobytes()!r}, should be 'TFL3': "
                "it is no .tflite file"
            )
        self.root = root = Reader(data).root("Model")
        self.version = int(root.scalar("version")[0])
        self.description: str = root.column("description")[0]
        self.missing = frozenset(
            part
            for part in ("operator_codes", "subgraphs", "buffers")
            if not root.vector(part).start[0]
        )
        self.subgraph_rows = root.children("subgraphs")
        self.tensor_rows = self.subgraph_rows.children("tensors")
        self.operator_rows = self.subgraph_rows.children("operators")
        self.tensor_tables = TensorTables(self.tensor_rows)
        self.operator_tables = OperatorTables(self.operator_rows)
        self.operator_codes: Sequence[OperatorCode] = self._read_codes()
        start, length = places(root.children("buffers"), "data", "offset", "size")
        self.buffer_places = list(zip(start.tolist(), length.tolist(), strict=True))
        self._decoded_buffers: dict[tuple[int, DType], Array] = {}
        if verify:
            from .verifier import verify as check

            check(self)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], verify: bool = True) -> Model:
        """Maps the file. OSError where it cannot be read; InvalidModelError where it is broken."""
        with open(path, "rb") as f:
            status = os.fstat(f.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InvalidModelError(f"{os.fsdecode(path)} is no regular file")
            if not status.st_size:
                raise InvalidModelError(f"{os.fsdecode(path)}: the file is empty")
            mapped = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        return cls(np.frombuffer(mapped, np.uint8), verify)

    @classmethod
    def from_buffer(cls, data: bytes | bytearray | memoryview, verify: bool = True) -> Model:
        """A model in memory, which is not copied and must not change."""
        view = np.frombuffer(data, np.uint8).view()
        view.flags.writeable = False
        return cls(view, verify)

    @property
    def buffers(self) -> range:
        """The indexes of the buffers."""
        return range(len(self.buffer_places))

    def buffer(self, index: int) -> Array | None:
        """The bytes of a buffer as a read-only view, uint8[n]; None where it is empty."""
        start, length = self.buffer_places[index]
        return self.data[start : start + length] if length else None

    def holds(self, buffer: int) -> bool:
        """Whether a tensor with this buffer index has data. Index 0 stands for none."""
        return 0 < buffer < len(self.buffer_places) and self.buffer_places[buffer][1] > 0

    @cached_property
    def subgraphs(self) -> Sequence[SubGraph]:
        rows = self.subgraph_rows
        columns = [
            rows.column(name) for name in ("name", "inputs", "outputs", "debug_metadata_index")
        ]
        return [SubGraph(self, i, *fields) for i, fields in enumerate(zip(*columns, strict=True))]

    @cached_property
    def metadata(self) -> Mapping[str, Array]:
        """The metadata buffers by name, uint8 views."""
        rows = self.root.children("metadata")
        found: dict[str, Array] = {}
        for i, name in enumerate(rows.column("name")):
            index = int(rows.scalar("buffer")[i])
            if index >= len(self.buffers):
                rows.fail(i, "buffer", f"{index} is no buffer; there are {len(self.buffers)}")
            data = self.buffer(index)
            found[name] = self.data[:0] if data is None else data
        return MappingProxyType(found)

    @property
    def min_runtime_version(self) -> str:
        """The least TensorFlow Lite version, as its converter wrote it; empty where it did not."""
        data = self.metadata.get("min_runtime_version")
        return "" if data is None else text(data.tobytes().split(b"\0")[0])

    @cached_property
    def signatures(self) -> Sequence[Signature]:
        rows = self.root.children("signature_defs")
        maps: list[list[Mapping[str, int]]] = []
        for side in ("inputs", "outputs"):
            tensors = rows.children(side)
            pairs = list(zip(tensors.column("name"), tensors.column("tensor_index"), strict=True))
            maps.append([MappingProxyType(dict(p)) for p in split(pairs, tensors.row_bounds)])
        columns = (rows.column("signature_key"), rows.column("subgraph_index"), *maps)
        return [Signature(*fields) for fields in zip(*columns, strict=True)]

    @cached_property
    def control_edges(self) -> Sequence[tuple[Edge, ...]]:
        """For each subgraph the pairs (before, after) of operator indexes that must run in this
        order.

        They stand in the metadata. Without it, or where it is of another number of subgraphs, there
        are none, as in TensorFlow Lite.
        """
        data = self.metadata.get(CONTROL_EDGES)
        count = len(self.subgraphs)
        edges = None if data is None else read_control_edges(data.tobytes())
        return [()] * count if edges is None or len(edges) != count else edges

    def constant(self, tensor: TensorDef) -> Array | None:
        """The value that the file holds for a tensor; None where it holds none.

        Its shape is the tensor's, and its dtype as `kernels.types` stores it: a read-only view of
        the file, but for packed integers, strings (an object array of bytes) and data that is not
        aligned. The stored values of a sparse tensor come in one dimension.
        """
        index, dtype = tensor.buffer, tensor.dtype
        if index == 0 or tensor.is_variable or dtype in (DType.RESOURCE, DType.VARIANT):
            return None
        if "buffers" in self.missing:
            return None
        start, length = self.buffer_places[index]
        size = tensor.size
        if not length:
            # an empty vector is the value of a tensor without elements; an absent one is no value
            return np.empty(tensor.shape, dtype.numpy) if start and not size else None
        sparse = self.tensor_tables.sparsity_row[tensor.row] >= 0
        if dtype is DType.STRING:
            values = self._decoded(index, dtype, decode_strings)
        elif dtype.bits < 8:
            values = self._decoded(
                index, dtype, lambda raw: unpack_bits(raw, dtype, raw.size * 8 // dtype.bits)
            )
        else:
            width = dtype.numpy.itemsize
            n = length // width if sparse else min(size, length // width)
            values = self._plain(self.data[start : start + n * width], dtype)
        if sparse:
            return values
        if values.size < size or (dtype is DType.STRING and values.size != size):
            raise InvalidModelError(
                f"{self.tensor_rows.where(tensor.row)}.buffer: buffer {index} holds {values.size} "
                f"elements of {dtype.label}; the shape {list(tensor.shape)} takes {size}"
            )
        return values[:size].reshape(tensor.shape)

    @staticmethod
    def _plain(raw: Array, dtype: DType) -> Array:
        values = raw.view(dtype.numpy)
        if dtype is DType.BOOL and (raw > 1).any():  # numpy computes with the bits
            values = raw != 0
        if not values.flags.aligned:
            values = values.copy()
        values.flags.writeable = False
        return values

    def _decoded(self, index: int, dtype: DType, decode: Callable[[Array], Array]) -> Array:
        # once for each buffer, however many tensors share it
        found = self._decoded_buffers.get((index, dtype))
        if found is None:
            data = self.buffer(index)
            assert data is not None
            found = decode(data)
            found.flags.writeable = False
            self._decoded_buffers[index, dtype] = found
        return found

    def quantization(self, tensor: TensorDef) -> Quantization | None:
        """`tensor.quantization`."""
        details = self.tensor_tables.details_of(tensor.row)
        if details is None or details.type != "BlockwiseQuantization" or details.block_shape:
            return self.tensor_tables.affine_of(tensor.row)
        # The scales are another tensor: rows, then blocks, along the last dimension.
        tensors = self.tensors_of[int(self.tensor_rows.parent_rows[tensor.row])]
        stored = tensors[details.scales]
        scale = self.constant(stored)
        if scale is None:
            return None
        if stored.dtype is DType.BFLOAT16:
            scale = bfloat16_to_float32(scale)
        blocks = max(1, tensor.shape[-1] // details.block_size)
        scale = scale.astype(np.float32).reshape(-1, blocks)
        zero = np.zeros(scale.shape, np.int64)
        if 0 < details.zero_points < len(tensors):
            value = self.constant(tensors[details.zero_points])
            if value is not None:
                zero = value.astype(np.int64).reshape(scale.shape)
        row = self.tensor_tables.quantization_row[tensor.row]
        axis = int(self.tensor_tables.quantization.scalar("quantized_dimension")[row])
        return Quantization(scale, zero, axis, details.block_size)

    def _read_codes(self) -> list[OperatorCode]:
        rows = self.root.children("operator_codes")
        code = np.maximum(rows.scalar("deprecated_builtin_code"), rows.scalar("builtin_code"))
        columns = (code.tolist(), rows.strings("custom_code"), rows.column("version"))
        return [OperatorCode(i, *fields) for i, fields in enumerate(zip(*columns, strict=True))]

    @cached_property
    def tensor_names(self) -> Sequence[str]:
        """Names by the tensors' rows."""
        return self.tensor_rows.column("name")

    @cached_property
    def tensors_of(self) -> Sequence[Sequence[TensorDef]]:
        """The tensors of each subgraph."""
        rows = self.tensor_rows
        signed = rows.vector("shape_signature").start.tolist()
        signatures = [
            signature if start else None
            for start, signature in zip(signed, rows.column("shape_signature"), strict=True)
        ]
        index = np.arange(len(rows)) - rows.row_bounds[rows.parent_rows]
        columns = (
            index.tolist(),
            rows.column("shape"),
            signatures,
            *map(rows.column, ("has_rank", "type", "buffer", "is_variable", "external_buffer")),
        )
        made = [TensorDef(self, i, *fields) for i, fields in enumerate(zip(*columns, strict=True))]
        return split(made, rows.row_bounds)

    @cached_property
    def operators_of(self) -> Sequence[Sequence[OperatorDef]]:
        """The operators of each subgraph."""
        rows = self.operator_rows
        used = rows.scalar("opcode_index")
        codes = dict(enumerate(self.operator_codes))
        bad = used >= len(codes)
        if "operator_codes" in self.missing:
            codes = {i: OperatorCode(i, -1, None, 1) for i in set(used.tolist())}
        elif bad.any():
            row = int(bad.argmax())
            rows.fail(
                row,
                "opcode_index",
                f"{used[row]} is no operator code; there are {len(codes)}",
            )
        index = np.arange(len(rows)) - rows.row_bounds[rows.parent_rows]
        columns = (
            index.tolist(),
            [codes[i] for i in used.tolist()],
            *map(rows.column, ("inputs", "outputs", "intermediates")),
            *map(rows.column, ("mutating_variable_inputs", "debug_metadata_index")),
        )
        made = [
            OperatorDef(self, i, *fields) for i, fields in enumerate(zip(*columns, strict=True))
        ]
        return split(made, rows.row_bounds)
