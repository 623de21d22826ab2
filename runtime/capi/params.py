"""`builtin_data` of a node: the options of a builtin operator in the struct that TensorFlow Lite's
`builtin_op_data.h` has for it.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ...kernels.types import DType
from .. import schema
from .numbers import TYPE_NUMBERS

# The fields in C's order, by the schema's names. A field is an int (an enum, a type) unless a
# letter follows: b bool, f float, l int64, z an int that the kernels compute; s a string, d bytes
# and their length, v floats behind their count; a number n stands for room for n ints, and q with a
# number for int64, each with the count behind it; p with a number for int64 without a count.
_ACT = "fused_activation_function"
_ASYM = "asymmetric_quantize_inputs:b"
_POOL = f"padding stride_w stride_h filter_width filter_height {_ACT} :z :z :z :z"
_CONV_3D = (
    "padding stride_w stride_h stride_d dilation_w_factor dilation_h_factor dilation_d_factor "
    f"{_ACT}"
)
_EMPTY = ":b"
_LAYOUTS: dict[str, str] = {
    "CONV_2D": f"padding stride_w stride_h {_ACT} dilation_w_factor dilation_h_factor "
    "quantized_bias_type",
    "CONV_3D": _CONV_3D,
    "CONV_3D_TRANSPOSE": _CONV_3D,
    "AVERAGE_POOL_2D": _POOL,
    "MAX_POOL_2D": _POOL,
    "L2_POOL_2D": _POOL,
    "DEPTHWISE_CONV_2D": f"padding stride_w stride_h depth_multiplier {_ACT} dilation_w_factor "
    "dilation_h_factor",
    "SVDF": f"rank {_ACT} {_ASYM}",
    "RNN": f"{_ACT} {_ASYM}",
    "UNIDIRECTIONAL_SEQUENCE_RNN": f"time_major:b {_ACT} {_ASYM}",
    "BIDIRECTIONAL_SEQUENCE_RNN": f"time_major:b {_ACT} merge_outputs:b {_ASYM}",
    "FULLY_CONNECTED": f"{_ACT} weights_format keep_num_dims:b {_ASYM} quantized_bias_type",
    "LSH_PROJECTION": "type",
    "SOFTMAX": "beta:f",
    "CONCATENATION": f"axis {_ACT}",
    "ADD": f"{_ACT} pot_scale_int16:b",
    "SUB": f"{_ACT} pot_scale_int16:b",
    "MUL": _ACT,
    "DIV": _ACT,
    "L2_NORMALIZATION": _ACT,
    "BATCH_MATMUL": f"adj_x:b adj_y:b {_ASYM}",
    "LOCAL_RESPONSE_NORMALIZATION": "radius bias:f alpha:f beta:f",
    "LSTM": f"{_ACT} cell_clip:f proj_clip:f kernel_type {_ASYM}",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": f"{_ACT} cell_clip:f proj_clip:f time_major:b {_ASYM} "
    "diagonal_recurrent_tensors:b",
    "BIDIRECTIONAL_SEQUENCE_LSTM": f"{_ACT} cell_clip:f proj_clip:f merge_outputs:b time_major:b "
    f"{_ASYM}",
    "RESIZE_BILINEAR": "align_corners:b half_pixel_centers:b",
    "RESIZE_NEAREST_NEIGHBOR": "align_corners:b half_pixel_centers:b",
    "RESHAPE": "new_shape:8",
    "SKIP_GRAM": "ngram_size max_skip_size include_all_ngrams:b",
    "SPACE_TO_DEPTH": "block_size",
    "DEPTH_TO_SPACE": "block_size",
    "CAST": "in_data_type out_data_type",
    "EMBEDDING_LOOKUP_SPARSE": "combiner",
    "GATHER": "axis batch_dims",
    **dict.fromkeys(
        ["MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL"],
        "keep_dims:b",
    ),
    "SPLIT": "num_splits",
    "SPLIT_V": "num_splits",
    "SQUEEZE": "squeeze_dims:8",
    "STRIDED_SLICE": "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask offset:b",
    "ARG_MAX": "output_type",
    "ARG_MIN": "output_type",
    "TRANSPOSE_CONV": f"padding stride_w stride_h {_ACT} quantized_bias_type",
    "SPARSE_TO_DENSE": "validate_indices:b",
    "SHAPE": "out_type",
    "FAKE_QUANT": "min:f max:f num_bits narrow_range:b",
    "PACK": "values_count axis",
    "ONE_HOT": "axis",
    "UNPACK": "num axis",
    "LEAKY_RELU": "alpha:f",
    "MIRROR_PAD": "mode",
    "UNIQUE": "idx_out_type",
    "REVERSE_SEQUENCE": "seq_dim batch_dim",
    "IF": "then_subgraph_index else_subgraph_index",
    "WHILE": "cond_subgraph_index body_subgraph_index",
    "CUMSUM": "exclusive:b reverse:b",
    "CALL_ONCE": "init_subgraph_index",
    "HASHTABLE": "table_id key_dtype value_dtype",
    "VAR_HANDLE": "container:s shared_name:s",
    "RANDOM_UNIFORM": "seed seed2",
    "RANDOM_STANDARD_NORMAL": "seed seed2",
    "MULTINOMIAL": "seed seed2",
    "BUCKETIZE": "boundaries:v",
    "GELU": "approximate:b",
    "REDUCE_WINDOW": "reduce_function",
    "STABLEHLO_CONCATENATE": "dimension:l",
    "STABLEHLO_SCATTER": "indices_are_sorted:b update_window_dims:q8 inserted_window_dims:q8 "
    "scatter_dims_to_operand_dims:q8 index_vector_dim:l unique_indices:b "
    "update_computation_subgraph_index",
    "STABLEHLO_RNG_BIT_GENERATOR": "algorithm",
    "STABLEHLO_GATHER": "offset_dims:q8 collapsed_slice_dims:q8 start_index_map:q8 "
    "index_vector_dim:l slice_sizes:q8 indices_are_sorted:b",
    "STABLEHLO_REDUCE_WINDOW": "window_dimensions:p8 window_strides:p8 base_dilations:p8 "
    "window_dilations:p8 padding:p16 body_subgraph_index",
    "STABLEHLO_PAD": "edge_padding_low:p8 edge_padding_high:p8 interior_padding:p8",
    "STABLEHLO_COMPOSITE": "name:s decomposition_subgraph_index version composite_attributes:d",
    "STABLEHLO_CASE": "branch_subgraph_indices:20",
    **dict.fromkeys(
        [
            "SPACE_TO_BATCH_ND",
            "BATCH_TO_SPACE_ND",
            "PAD",
            "PADV2",
            "TRANSPOSE",
            "RANK",
            "MATRIX_DIAG",
            "MATRIX_SET_DIAG",
        ],
        _EMPTY,
    ),
}
_FROM_ONE = ("Padding", "MirrorPadMode", "RngAlgorithm")  # enums in which C has an unknown first
_SIMPLE: dict[str, Any] = {
    "": ctypes.c_int,
    "z": ctypes.c_int,
    "b": ctypes.c_bool,
    "f": ctypes.c_float,
    "l": ctypes.c_int64,
    "s": ctypes.c_char_p,
}


def builtin_data(op: str, options: Any) -> ctypes.Structure | None:
    """The struct; None for operators that have none. It holds what its pointers lead to."""
    layout = _LAYOUTS.get(op)
    if layout is None:
        return None
    fields: list[tuple[str, Any]] = []
    values: list[Any] = []
    for item in layout.split():
        name, _, kind = item.partition(":")
        value = _number(op, name, options[name]) if name else 0
        for made in _field(kind, value):
            fields.append((f"f{len(fields)}", type(made)))
            values.append(made)
    struct: Any = type(f"{op}_PARAMS", (ctypes.Structure,), {"_fields_": fields})
    filled: ctypes.Structure = struct(*values)
    return filled


def _field(kind: str, value: Any) -> list[Any]:
    if kind in _SIMPLE:
        if kind == "s":
            value = (value or "").encode()
        return [_SIMPLE[kind](value)]
    if kind == "v":
        floats = (ctypes.c_float * len(value))(*value)
        return [ctypes.c_int(len(value)), ctypes.cast(floats, ctypes.POINTER(ctypes.c_float))]
    if kind == "d":
        raw = bytes(value or b"")
        return [ctypes.c_char_p(raw), ctypes.c_size_t(len(raw))]
    element: Any = ctypes.c_int64 if kind[0] in "pq" else ctypes.c_int32
    room = int(kind.lstrip("pq"))
    given = list(value or ())[:room]
    array = (element * room)(*given)
    return [array] if kind[0] == "p" else [array, ctypes.c_int(len(given))]


def _number(op: str, name: str, value: Any) -> Any:
    """Enums and types as C counts them."""
    if isinstance(value, DType):
        return TYPE_NUMBERS[value]
    table = schema.options_table(op)
    field = schema.table(table).by_name.get(name) if table else None
    if field is None or field.enum is None or not isinstance(value, str):
        return value
    return field.enum.names.index(value) + (field.enum.name in _FROM_ONE)
