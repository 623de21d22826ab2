"""The tables of the `.tflite` format (schema version 3), written compactly: the reader, the
verifier and the writer all use these.

A table is a string of fields `name:type` or `name:type=default`, in slot order. Types are scalars,
enums, `string`, `[T]` for a vector, the name of a table, or the name of a union (two slots: a byte
`<name>_type`, then the table).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kernels.types import DType
from .schema_options import ENUMS, OPTIONS, OPTIONS_2, OPTIONS_OF, TABLES

VERSION = 3
IDENTIFIER = b"TFL3"

# The number of a builtin operator is its place.
_BUILTINS = """
    ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE
    EMBEDDING_LOOKUP FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D
    LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1
    RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM
    CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND
    SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
    BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM
    CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE
    SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW
    ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK
    REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR
    LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS
    WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE
    NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM
    BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG
    REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL
    CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL
    BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD
    UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR
    RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY
    STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE
    STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL
    STABLEHLO_REDUCE STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL
    STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER
    STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH
    STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE
    STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL
    STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE
    DILATE STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT
    STABLEHLO_CBRT STABLEHLO_CASE
"""
BUILTINS: tuple[str, ...] = tuple(_BUILTINS.split())
CUSTOM = BUILTINS.index("CUSTOM")
# `deprecated_builtin_code` is a byte; operators from here on stand in `builtin_code` alone.
PLACEHOLDER = BUILTINS.index("PLACEHOLDER_FOR_GREATER_OP_CODES")

UNIONS: dict[str, tuple[str, ...]] = {  # tag 1 is the first
    "BuiltinOptions": tuple(OPTIONS.split()),
    "BuiltinOptions2": tuple(OPTIONS_2.split()),
    "QuantizationDetails": ("CustomQuantization", "BlockwiseQuantization", "MultiAxisQuantization"),
    "SparseIndexVector": ("Int32Vector", "Uint16Vector", "Uint8Vector"),
}

SCALARS: dict[str, np.dtype[Any]] = {
    name: np.dtype(code)
    for name, code in {
        "bool": "?",
        "byte": "i1",
        "ubyte": "u1",
        "ushort": "<u2",
        "int": "<i4",
        "uint": "<u4",
        "long": "<i8",
        "ulong": "<u8",
        "float": "<f4",
        "offset": "<u4",
    }.items()
}


@dataclass(frozen=True)
class Enum:
    """An enum: the storage of its values, and their names by number."""

    name: str
    dtype: np.dtype[Any]
    names: tuple[str, ...]

    @property
    def values(self) -> tuple[Any, ...]:
        """What a value becomes in Python: its name, or a `DType`."""
        return tuple(DType) if self.name == "TensorType" else self.names


@dataclass(frozen=True)
class Field:
    """A field of a table.

    `kind` is scalar, string, vector (of scalars), table, tables (a vector of them) or union;
    `dtype` is the storage of the scalar or of the vector's elements (of the offset, for the
    others); `of` names the table or union; `enum` gives the names of the values.
    """

    name: str
    slot: int
    kind: str
    dtype: np.dtype[Any]
    of: str = ""
    enum: Enum | None = None
    default: Any = 0


@dataclass(frozen=True)
class Table:
    name: str
    fields: tuple[Field, ...]
    by_name: dict[str, Field]


@functools.cache
def enum(name: str) -> Enum:
    storage, *names = ENUMS[name].split()
    if name == "TensorType":
        names = [d.name for d in DType]
    return Enum(name, SCALARS[storage], tuple(names))


@functools.cache
def table(name: str) -> Table:
    """The description of a table; KeyError where the schema has none of that name."""
    fields: list[Field] = []
    slot = 0
    for item in TABLES[name].split():
        label, _, rest = item.partition(":")
        kind, _, default = rest.partition("=")
        if kind in UNIONS:
            fields.append(Field(label + "_type", slot, "scalar", SCALARS["ubyte"]))
            slot += 1
        fields.append(_field(label, slot, kind, default))
        slot += 1
    return Table(name, tuple(fields), {f.name: f for f in fields})


def _field(name: str, slot: int, kind: str, default: str) -> Field:
    inner = kind.strip("[]")
    known = enum(inner) if inner in ENUMS else None
    dtype = known.dtype if known else SCALARS.get(inner, SCALARS["offset"])
    if kind.startswith("["):
        vector = known is not None or inner in SCALARS
        return Field(name, slot, "vector" if vector else "tables", dtype, inner, known)
    if known is not None:
        return Field(
            name,
            slot,
            "scalar",
            dtype,
            enum=known,
            default=known.names.index(default or known.names[0]),
        )
    if kind in SCALARS:
        return Field(name, slot, "scalar", dtype, default=dtype.type(int(default or 0)).item())
    if kind == "string":
        return Field(name, slot, "string", SCALARS["ubyte"])
    return Field(name, slot, "union" if kind in UNIONS else "table", dtype, kind)


@functools.cache
def options_table(op: str) -> str | None:
    """Name of the options table of a builtin operator, or None where it has no options."""
    if op in OPTIONS_OF:
        return OPTIONS_OF[op]
    return _BY_OP.get(op.replace("_", "").lower() + "options")


# Most options tables are called as the operator is: CONV_2D has Conv2DOptions.
_BY_OP = {name.lower(): name for union in (OPTIONS, OPTIONS_2) for name in union.split()}
