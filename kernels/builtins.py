"""Every builtin operator this project runs, and the module of this package that has it.

`OPS[name]` of that module is the registration. A module is imported when one of its ops is first
asked for, so a resolver of five ops imports at most five modules.
"""

from __future__ import annotations

import importlib

from .api import Registration

FAMILIES: dict[str, tuple[str, ...]] = {
    "arithmetic": (
        "ADD",
        "MUL",
        "SUB",
        "DIV",
        "MAXIMUM",
        "MINIMUM",
        "POW",
        "FLOOR_DIV",
        "FLOOR_MOD",
        "SQUARED_DIFFERENCE",
        "ADD_N",
        "ATAN2",
        "STABLEHLO_ADD",
        "STABLEHLO_DIVIDE",
        "STABLEHLO_MULTIPLY",
        "STABLEHLO_MAXIMUM",
        "STABLEHLO_MINIMUM",
        "STABLEHLO_POWER",
        "STABLEHLO_REMAINDER",
        "STABLEHLO_SUBTRACT",
    ),
    "pooling": (
        "AVERAGE_POOL_2D",
        "L2_POOL_2D",
        "MAX_POOL_2D",
    ),
    "join": (
        "CONCATENATION",
        "SPLIT",
        "PACK",
        "UNPACK",
        "SPLIT_V",
        "STABLEHLO_CONCATENATE",
    ),
    "conv": ("CONV_2D",),
    "depthwise": ("DEPTHWISE_CONV_2D",),
    "space": (
        "DEPTH_TO_SPACE",
        "SPACE_TO_DEPTH",
        "BATCH_TO_SPACE_ND",
        "SPACE_TO_BATCH_ND",
    ),
    "quantize": (
        "DEQUANTIZE",
        "CAST",
        "FAKE_QUANT",
        "QUANTIZE",
        "DENSIFY",
        "BITCAST",
        "STABLEHLO_CONVERT",
    ),
    "embedding": (
        "EMBEDDING_LOOKUP",
        "HASHTABLE_LOOKUP",
        "LSH_PROJECTION",
        "SKIP_GRAM",
        "EMBEDDING_LOOKUP_SPARSE",
    ),
    "unary": (
        "FLOOR",
        "EXP",
        "NEG",
        "SIN",
        "LOG",
        "SQRT",
        "RSQRT",
        "SQUARE",
        "ABS",
        "CEIL",
        "COS",
        "ROUND",
        "SIGN",
        "STABLEHLO_LOGISTIC",
        "STABLEHLO_ABS",
        "STABLEHLO_COSINE",
        "STABLEHLO_EXPONENTIAL",
        "STABLEHLO_FLOOR",
        "STABLEHLO_LOG",
        "STABLEHLO_NEGATE",
        "STABLEHLO_RSQRT",
        "STABLEHLO_TANH",
        "STABLEHLO_CBRT",
    ),
    "fully_connected": ("FULLY_CONNECTED",),
    "normalization": (
        "L2_NORMALIZATION",
        "LOCAL_RESPONSE_NORMALIZATION",
    ),
    "activation": (
        "LOGISTIC",
        "RELU",
        "RELU_N1_TO_1",
        "RELU6",
        "TANH",
        "PRELU",
        "LEAKY_RELU",
        "ELU",
        "HARD_SWISH",
        "GELU",
        "RELU_0_TO_1",
    ),
    "lstm": (
        "LSTM",
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        "BIDIRECTIONAL_SEQUENCE_LSTM",
    ),
    "reshape": (
        "RESHAPE",
        "SQUEEZE",
        "EXPAND_DIMS",
        "STABLEHLO_RESHAPE",
    ),
    "resize": (
        "RESIZE_BILINEAR",
        "RESIZE_NEAREST_NEIGHBOR",
    ),
    "rnn": (
        "RNN",
        "SVDF",
        "UNIDIRECTIONAL_SEQUENCE_RNN",
        "BIDIRECTIONAL_SEQUENCE_RNN",
    ),
    "softmax": (
        "SOFTMAX",
        "LOG_SOFTMAX",
    ),
    "control": (
        "CALL",
        "IF",
        "WHILE",
        "CALL_ONCE",
        "STABLEHLO_WHILE",
        "STABLEHLO_COMPOSITE",
        "STABLEHLO_CASE",
    ),
    "pad": (
        "PAD",
        "PADV2",
        "MIRROR_PAD",
        "STABLEHLO_PAD",
        "DILATE",
    ),
    "gather": (
        "GATHER",
        "GATHER_ND",
        "STABLEHLO_GATHER",
    ),
    "transpose": (
        "TRANSPOSE",
        "STABLEHLO_TRANSPOSE",
    ),
    "reduce": (
        "MEAN",
        "SUM",
        "REDUCE_PROD",
        "REDUCE_MAX",
        "REDUCE_MIN",
        "REDUCE_ANY",
        "REDUCE_ALL",
    ),
    "slice": (
        "STRIDED_SLICE",
        "SLICE",
        "DYNAMIC_UPDATE_SLICE",
        "STABLEHLO_SLICE",
        "STABLEHLO_DYNAMIC_SLICE",
        "STABLEHLO_DYNAMIC_UPDATE_SLICE",
    ),
    "order": (
        "TOPK_V2",
        "ARG_MAX",
        "ARG_MIN",
        "CUMSUM",
    ),
    "comparison": (
        "LESS",
        "GREATER",
        "GREATER_EQUAL",
        "LESS_EQUAL",
        "EQUAL",
        "NOT_EQUAL",
        "LOGICAL_OR",
        "LOGICAL_AND",
        "LOGICAL_NOT",
        "STABLEHLO_AND",
        "STABLEHLO_OR",
        "STABLEHLO_COMPARE",
    ),
    "select": (
        "SELECT",
        "UNIQUE",
        "WHERE",
        "SELECT_V2",
        "BUCKETIZE",
        "STABLEHLO_CLAMP",
        "STABLEHLO_SELECT",
    ),
    "conv_transpose": ("TRANSPOSE_CONV",),
    "fill": (
        "SPARSE_TO_DENSE",
        "SHAPE",
        "ONE_HOT",
        "ZEROS_LIKE",
        "FILL",
        "RANGE",
        "RANK",
        "STABLEHLO_IOTA",
    ),
    "tile": (
        "TILE",
        "BROADCAST_TO",
        "BROADCAST_ARGS",
        "STABLEHLO_BROADCAST_IN_DIM",
    ),
    "reverse": (
        "REVERSE_V2",
        "REVERSE_SEQUENCE",
    ),
    "matrix": (
        "MATRIX_DIAG",
        "MATRIX_SET_DIAG",
    ),
    "nms": (
        "NON_MAX_SUPPRESSION_V4",
        "NON_MAX_SUPPRESSION_V5",
    ),
    "scatter": (
        "SCATTER_ND",
        "STABLEHLO_SCATTER",
    ),
    "segment": (
        "SEGMENT_SUM",
        "UNSORTED_SEGMENT_PROD",
        "UNSORTED_SEGMENT_MAX",
        "UNSORTED_SEGMENT_SUM",
        "UNSORTED_SEGMENT_MIN",
    ),
    "batch_matmul": ("BATCH_MATMUL",),
    "fft": ("RFFT2D",),
    "conv3d": (
        "CONV_3D",
        "CONV_3D_TRANSPOSE",
    ),
    "complex": (
        "IMAG",
        "REAL",
        "COMPLEX_ABS",
    ),
    "hashtable": (
        "HASHTABLE",
        "HASHTABLE_FIND",
        "HASHTABLE_IMPORT",
        "HASHTABLE_SIZE",
    ),
    "variables": (
        "VAR_HANDLE",
        "READ_VARIABLE",
        "ASSIGN_VARIABLE",
    ),
    "random": (
        "RANDOM_STANDARD_NORMAL",
        "RANDOM_UNIFORM",
        "MULTINOMIAL",
        "STABLEHLO_RNG_BIT_GENERATOR",
    ),
    "bitwise": (
        "BITWISE_XOR",
        "RIGHT_SHIFT",
        "STABLEHLO_SHIFT_LEFT",
    ),
    "stablehlo": (
        "STABLEHLO_CONVOLUTION",
        "STABLEHLO_CUSTOM_CALL",
        "STABLEHLO_DOT_GENERAL",
    ),
    "window": (
        "STABLEHLO_REDUCE",
        "STABLEHLO_REDUCE_WINDOW",
        "STABLEHLO_SORT",
        "REDUCE_WINDOW",
    ),
}

CUSTOM_FAMILIES: dict[str, tuple[str, ...]] = {
    "audio": ("AudioSpectrogram", "Mfcc"),
    "detection": ("TFLite_Detection_PostProcess",),
    "fft": ("IRFFT2D", "Irfft2d"),
    "gradient": ("BroadcastGradientArgs",),
    "hadamard": ("aeq.hadamard_rotation",),
    "perception": ("MaxPoolWithArgmax", "DenseImageWarp"),
    "pooling3d": ("AvgPool3D", "MaxPool3D"),
    "posenet": ("PosenetDecoderOp",),
    "ragged": ("RaggedRange", "RaggedTensorToTensor"),
    "roll": ("Roll",),
    "sentencepiece": (
        "TFSentencepieceDetokenizeOp",
        "TFSentencepieceTokenizeOp",
        "TFText>FastSentencepieceDetokenize",
        "TFText>FastSentencepieceTokenize",
    ),
    "signal_fft": (
        "SignalEnergy",
        "SignalFftAutoScale",
        "SignalIrfft",
        "SignalRfft",
        "SignalWindow",
    ),
    "signal_filterbank": (
        "SignalFilterBank",
        "SignalFilterBankLog",
        "SignalFilterBankSpectralSubtraction",
        "SignalFilterBankSquareRoot",
        "SignalPCAN",
    ),
    "signal_frames": (
        "SignalDelay",
        "SignalFramer",
        "SignalOverlapAdd",
        "SignalStacker",
    ),
    "text": (
        "TFText>NgramsStringJoin",
        "TFText>WhitespaceTokenizeWithOffsetsV2",
        "tftext:Ngrams",
        "tftext:WhitespaceTokenizer",
    ),
    "mediapipe": (
        "Convolution2DTransposeBias",
        "MaxPoolingWithArgmax2D",
        "MaxUnpooling2D",
        "Landmarks2TransformMatrix",
        "TransformLandmarks",
        "TransformTensorBilinear",
    ),
}

BUILTINS = {name: family for family, names in FAMILIES.items() for name in names}
CUSTOMS = {name: family for family, names in CUSTOM_FAMILIES.items() for name in names}


def find_builtin(name: str) -> Registration | None:
    """Registration of a builtin operator; None where there is none."""
    return _load(BUILTINS.get(name), name)


def find_custom(name: str) -> Registration | None:
    """Registration of a custom op that comes with this package; None where there is none."""
    return _load(CUSTOMS.get(name), name)


def _load(family: str | None, name: str) -> Registration | None:
    if family is None:
        return None
    module = importlib.import_module(f".{family}", __package__)
    registration: Registration = module.OPS[name]
    return registration
