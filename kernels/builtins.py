"""Every operator this project runs, and the module of this package that has it.

`OPS[name]` of that module is the registration. A module is imported when one of its ops is first
asked for: a resolver of five ops imports five modules, and those of TABLES it had to look through.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

from .api import Registration

# Elementwise ops are a row each in the OPS of these, and are named nowhere else: a name that no
# family below has is looked for in them, in this order.
TABLES = ("arithmetic", "unary")

FAMILIES: dict[str, tuple[str, ...]] = {
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
        "FAKE_QUANT",
        "QUANTIZE",
    ),
    "cast": (
        "CAST",
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
    ),
    "landmarks": (
        "Landmarks2TransformMatrix",
        "TransformLandmarks",
        "TransformTensorBilinear",
    ),
}


class _Names(Mapping[str, str]):
    """Family by name of an op."""

    def __init__(self, families: Mapping[str, tuple[str, ...]], custom: bool) -> None:
        self._listed = {name: family for family, names in families.items() for name in names}
        self._custom = custom

    def __getitem__(self, name: str) -> str:
        if name in self._listed:
            return self._listed[name]
        for family in TABLES:
            found = _ops(family).get(name)
            if found is not None and found.custom is self._custom:
                return family
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        yield from self._listed
        for family in TABLES:
            yield from (r.name for r in _ops(family).values() if r.custom is self._custom)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _ops(family: str) -> Mapping[str, Registration]:
    ops: Mapping[str, Registration] = importlib.import_module(f".{family}", __package__).OPS
    return ops


BUILTINS: Mapping[str, str] = _Names(FAMILIES, custom=False)
CUSTOMS: Mapping[str, str] = _Names(CUSTOM_FAMILIES, custom=True)


def find_builtin(name: str) -> Registration | None:
    """Registration of a builtin operator; None where there is none."""
    family = BUILTINS.get(name)
    return _ops(family)[name] if family else None


def find_custom(name: str) -> Registration | None:
    """Registration of a custom op that comes with this package; None where there is none."""
    family = CUSTOMS.get(name)
    return _ops(family)[name] if family else None
