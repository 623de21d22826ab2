"""The parts of a model as Python objects: operator codes, tensors, operators, subgraphs,
signatures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..kernels.api import Options, Quantization
from ..kernels.types import DType
from .flatbuffer import text
from .model_tables import NO_OPTIONS, CustomOptions
from .schema import BUILTINS, CUSTOM

if TYPE_CHECKING:
    from .model import Model


class OperatorCode:
    """An operator that the model uses: `builtin` is the schema's name ("CONV_2D", "CUSTOM"),
    `custom` the name of a custom one.
    """

    __slots__ = ("builtin", "builtin_code", "custom", "custom_bytes", "index", "version")

    def __init__(self, index: int, code: int, custom: bytes | None, version: int) -> None:
        self.index = index
        self.builtin_code = code
        self.builtin = BUILTINS[code] if 0 <= code < len(BUILTINS) else f"UNKNOWN_{code}"
        self.custom_bytes = custom
        self.custom = None if custom is None else text(custom)
        self.version = version

    @property
    def is_custom(self) -> bool:
        return self.builtin_code == CUSTOM

    @property
    def name(self) -> str:
        """The builtin's name, or the custom name."""
        return (self.custom or "") if self.is_custom else self.builtin

    def __repr__(self) -> str:
        return f"OperatorCode({self.name!r}, version={self.version})"


class TensorDef:
    """A tensor as the file declares it."""

    __slots__ = (
        "buffer",
        "dtype",
        "external_buffer",
        "has_rank",
        "index",
        "is_variable",
        "model",
        "row",
        "shape",
        "shape_signature",
    )

    def __init__(
        self,
        model: Model,
        row: int,
        index: int,
        shape: tuple[int, ...],
        shape_signature: tuple[int, ...] | None,
        has_rank: bool,
        dtype: DType,
        buffer: int,
        is_variable: bool,
        external_buffer: int,
    ) -> None:
        self.model = model
        self.row = row
        self.index = index
        self.shape = shape
        self.shape_signature = shape_signature
        self.has_rank = has_rank
        self.dtype = dtype
        self.buffer = buffer
        self.is_variable = is_variable
        self.external_buffer = external_buffer

    @property
    def name(self) -> str:
        return self.model.tensor_names[self.row]

    @property
    def size(self) -> int:
        """Number of elements of `shape`."""
        n = 1
        for d in self.shape:
            n *= d
        return n

    @property
    def quantization(self) -> Quantization | None:
        """Affine quantisation, per tensor, axis or block; None where there are no scales."""
        return self.model.quantization(self)

    @property
    def quantization_parameters(self) -> Options | None:
        """The whole table by the schema's names (min, max, scale, zero_point, details,
        quantized_dimension).

        `details` is None or the table of the union, with its type's name as `type`.
        """
        return self.model.tensor_tables.parameters_of(self.row)

    @property
    def sparsity(self) -> Options | None:
        """The schema's SparsityParameters: traversal_order, block_map, dim_metadata.

        Each of `dim_metadata` has format ("DENSE" or "SPARSE_CSR"), dense_size, array_segments and
        array_indices (integer arrays, None where absent).
        """
        return self.model.tensor_tables.sparsity_of(self.row)

    @property
    def variant_tensors(self) -> tuple[Options, ...]:
        """What a variant tensor holds: shape, type, has_rank of each."""
        return self.model.tensor_tables.variants_of(self.row)

    def __repr__(self) -> str:
        return f"TensorDef({self.index}, {self.name!r}, {self.dtype}, {self.shape})"


class OperatorDef:
    """An operator as the file declares it. `inputs`, `outputs`, `intermediates` are tensor indexes;
    −1 is an absent one.
    """

    __slots__ = (
        "code",
        "debug_metadata_index",
        "index",
        "inputs",
        "intermediates",
        "model",
        "mutating_variable_inputs",
        "outputs",
        "row",
    )

    def __init__(
        self,
        model: Model,
        row: int,
        index: int,
        code: OperatorCode,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        intermediates: tuple[int, ...],
        mutating_variable_inputs: tuple[bool, ...],
        debug_metadata_index: int,
    ) -> None:
        self.model = model
        self.row = row
        self.index = index
        self.code = code
        self.inputs = inputs
        self.outputs = outputs
        self.intermediates = intermediates
        self.mutating_variable_inputs = mutating_variable_inputs
        self.debug_metadata_index = debug_metadata_index

    @property
    def opcode_index(self) -> int:
        return self.code.index

    @property
    def op(self) -> str:
        """The builtin's name, or the custom name."""
        return self.code.name

    @property
    def custom(self) -> bool:
        return self.code.is_custom

    @property
    def version(self) -> int:
        return self.code.version

    @property
    def options(self) -> Options:
        """All fields of a builtin's options table, with the schema's defaults where they are
        absent.

        A table of another type than the operator's counts as absent, as in TensorFlow Lite.
        """
        return (
            NO_OPTIONS
            if self.code.is_custom
            else self.model.operator_tables.options(self.row, self.code.builtin)
        )

    @property
    def custom_options(self) -> CustomOptions:
        """The bytes of a custom operator's options; empty where there are none."""
        return self.model.operator_tables.custom(self.row)

    def __repr__(self) -> str:
        return f"OperatorDef({self.index}, {self.op!r}, {self.inputs} -> {self.outputs})"


class SubGraph:
    """A graph of the model. `missing` names the vectors ("tensors", "operators", "inputs",
    "outputs") that the file lacks.
    """

    def __init__(
        self,
        model: Model,
        index: int,
        name: str,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        debug_metadata_index: int,
    ) -> None:
        self.model = model
        self.index = index
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self.debug_metadata_index = debug_metadata_index
        rows = model.subgraph_rows
        self.missing = frozenset(
            part
            for part in ("tensors", "operators", "inputs", "outputs")
            if not rows.vector(part).start[index]
        )

    @property
    def tensors(self) -> Sequence[TensorDef]:
        return self.model.tensors_of[self.index]

    @property
    def operators(self) -> Sequence[OperatorDef]:
        return self.model.operators_of[self.index]

    def __repr__(self) -> str:
        return f"SubGraph({self.index}, {self.name!r})"


class Signature:
    """A named way to call a subgraph: tensor indexes by the names of inputs and outputs, in the
    file's order.
    """

    __slots__ = ("inputs", "key", "outputs", "subgraph")

    def __init__(
        self, key: str, subgraph: int, inputs: Mapping[str, int], outputs: Mapping[str, int]
    ) -> None:
        self.key = key
        self.subgraph = subgraph
        self.inputs = inputs
        self.outputs = outputs

    def __repr__(self) -> str:
        return f"Signature({self.key!r}, {list(self.inputs)} -> {list(self.outputs)})"
