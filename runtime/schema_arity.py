"""How many inputs and outputs each builtin operator has, and which may be absent (index −1).

From what the kernels take. An operator that is not listed takes any number, each of which may be
absent.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

# Numbers of inputs, of outputs, and the inputs that may be absent: "2-3" is 2 or 3, "1+" 1 or more.
_ARITY = """
0 0 : CALL_ONCE
0 1 : HASHTABLE VAR_HANDLE STABLEHLO_IOTA
1 1 : ABS AVERAGE_POOL_2D BITCAST BUCKETIZE CAST CEIL COMPLEX_ABS COS DENSIFY DEPTH_TO_SPACE
    DEQUANTIZE ELU EXP FAKE_QUANT FLOOR GELU HARD_SWISH HASHTABLE_SIZE IMAG L2_NORMALIZATION
    L2_POOL_2D LEAKY_RELU LOCAL_RESPONSE_NORMALIZATION LOG LOGICAL_NOT LOGISTIC LOG_SOFTMAX
    MATRIX_DIAG MAX_POOL_2D NEG QUANTIZE RANDOM_STANDARD_NORMAL RANDOM_UNIFORM RANK READ_VARIABLE
    REAL RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SHAPE SIGN SIN SKIP_GRAM SOFTMAX
    SPACE_TO_DEPTH SQRT SQUARE SQUEEZE TANH WHERE ZEROS_LIKE
    STABLEHLO_ABS STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CBRT STABLEHLO_CONVERT STABLEHLO_COSINE
    STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_LOGISTIC STABLEHLO_NEGATE
    STABLEHLO_RESHAPE STABLEHLO_RSQRT STABLEHLO_SLICE STABLEHLO_TANH STABLEHLO_TRANSPOSE
1 1+ : UNPACK
1 2 : STABLEHLO_RNG_BIT_GENERATOR UNIQUE
1-2 1 : RESHAPE
1+ 0+ : IF STABLEHLO_CASE
1+ 1 : ADD_N CONCATENATION PACK STABLEHLO_CONCATENATE STABLEHLO_DYNAMIC_SLICE
1+ 1+ : STABLEHLO_SORT
2 0 : ASSIGN_VARIABLE
2 1 : ADD ARG_MAX ARG_MIN ATAN2 BATCH_MATMUL BITWISE_XOR BROADCAST_ARGS BROADCAST_TO CUMSUM DIV
    EMBEDDING_LOOKUP EQUAL EXPAND_DIMS FILL FLOOR_DIV FLOOR_MOD GATHER GATHER_ND GREATER
    GREATER_EQUAL LESS LESS_EQUAL LOGICAL_AND LOGICAL_OR MATRIX_SET_DIAG MAXIMUM MEAN MINIMUM
    MIRROR_PAD MUL MULTINOMIAL NOT_EQUAL POW PRELU REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN
    REDUCE_PROD RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR REVERSE_SEQUENCE REVERSE_V2 RFFT2D
    RIGHT_SHIFT SEGMENT_SUM SQUARED_DIFFERENCE SUB SUM TILE TRANSPOSE
    STABLEHLO_ADD STABLEHLO_AND STABLEHLO_COMPARE STABLEHLO_CONVOLUTION STABLEHLO_DIVIDE
    STABLEHLO_DOT_GENERAL STABLEHLO_GATHER STABLEHLO_MAXIMUM STABLEHLO_MINIMUM STABLEHLO_MULTIPLY
    STABLEHLO_OR STABLEHLO_PAD STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_SHIFT_LEFT
    STABLEHLO_SUBTRACT
2 1+ : SPLIT
2 2 : TOPK_V2
2-3 1 : LSH_PROJECTION
2-3 1 2 : CONV_2D CONV_3D DEPTHWISE_CONV_2D PAD
2-3 1-2 2 : FULLY_CONNECTED
2+ 1 : STABLEHLO_DYNAMIC_UPDATE_SLICE
2+ 1+ : STABLEHLO_REDUCE STABLEHLO_REDUCE_WINDOW
3 0 : HASHTABLE_IMPORT
3 1 : BATCH_TO_SPACE_ND DILATE DYNAMIC_UPDATE_SLICE HASHTABLE_FIND PADV2 RANGE SCATTER_ND SELECT
    SELECT_V2 SLICE SPACE_TO_BATCH_ND UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN
    UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM STABLEHLO_CLAMP STABLEHLO_SELECT
3 1+ : SPLIT_V
3 2 : HASHTABLE_LOOKUP
3+ 1+ : STABLEHLO_SCATTER
3-4 1 3 : CONV_3D_TRANSPOSE TRANSPOSE_CONV
4 1 : ONE_HOT SPARSE_TO_DENSE STRIDED_SLICE
5 1 : EMBEDDING_LOOKUP_SPARSE REDUCE_WINDOW RNN UNIDIRECTIONAL_SEQUENCE_RNN
5 1 3 : SVDF
5 2 : NON_MAX_SUPPRESSION_V4
6 3 : NON_MAX_SUPPRESSION_V5
12 1-2 9-11 : BIDIRECTIONAL_SEQUENCE_RNN
5,20,24 1,4 1,5,9-12,16,17,20-23 : LSTM
20,24 1 1,5,9-12,16,17,20-23 : UNIDIRECTIONAL_SEQUENCE_LSTM
48 1-2 1,5,9-12,16-18,22,26-29,33,34,39-47 : BIDIRECTIONAL_SEQUENCE_LSTM
"""


@dataclass(frozen=True)
class Numbers:
    """A set of numbers as the table writes it."""

    text: str
    values: frozenset[int]
    least: int = 1 << 62  # this and all above belong to it too

    def __contains__(self, n: int) -> bool:
        return n in self.values or n >= self.least

    @staticmethod
    def read(text: str) -> Numbers:
        if text.endswith("+"):
            return Numbers(f"{text[:-1]} or more", frozenset(), int(text[:-1]))
        values: set[int] = set()
        for part in text.split(",") if text else ():
            first, _, last = part.partition("-")
            values.update(range(int(first), int(last or first) + 1))
        return Numbers(" or ".join(map(str, sorted(values))), frozenset(values))


ANY = Numbers.read("0+")


@dataclass(frozen=True)
class Arity:
    inputs: Numbers
    outputs: Numbers
    optional: Numbers
    optional_outputs: Numbers


@functools.cache
def _table() -> dict[str, Arity]:
    found: dict[str, Arity] = {}
    for line in _ARITY.strip().replace("\n    ", " ").split("\n"):
        numbers, _, names = line.partition(" : ")
        inputs, outputs, *optional = numbers.split()
        entry = Arity(
            Numbers.read(inputs),
            Numbers.read(outputs),
            Numbers.read(optional[0] if optional else ""),
            Numbers.read(""),
        )
        found.update(dict.fromkeys(names.split(), entry))
    # a control-flow operator may drop an input or output that its graph does not use
    for name in ("IF", "STABLEHLO_CASE"):
        found[name] = Arity(found[name].inputs, ANY, Numbers.read("1+"), ANY)
    return found


def arity(op: str) -> Arity:
    return _table().get(op) or Arity(ANY, ANY, ANY, ANY)
