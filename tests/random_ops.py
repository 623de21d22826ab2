"""What random graphs are made of: each maker draws one node, or a few that belong together.

A maker takes tensors that are there (`g.pick`), makes up constants and options, and adds nodes;
what the operators' own checks refuse is drawn again (`Skip`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from random_graphs import LARGEST, Graph
from random_moves import MOVES, move, moved
from random_tensors import Skip, Tensor
from random_windows import WINDOWS

from litedelegate.kernels.api import Quantization
from litedelegate.kernels.types import DType

F32, I32, I64, BOOL = DType.FLOAT32, DType.INT32, DType.INT64, DType.BOOL
BYTES = (DType.INT8, DType.UINT8)
SMALL = (*BYTES, DType.INT16)
NUMBERS = (F32, *SMALL, I32, I64)
ODD = (DType.FLOAT16, DType.FLOAT64, DType.UINT16, DType.UINT32, DType.UINT64)
ACTIVATIONS = ("NONE", "NONE", "RELU", "RELU6", "RELU_N1_TO_1")

# -- one tensor, element by element

PLAIN_UNARY = (
    *("ABS", "NEG", "EXP", "LOG", "SQRT", "RSQRT", "SIN", "COS", "SQUARE", "FLOOR", "CEIL"),
    *("ROUND", "SIGN", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "LOGISTIC", "TANH"),
    *("ELU", "HARD_SWISH", "GELU", "LEAKY_RELU", "STABLEHLO_EXPONENTIAL", "STABLEHLO_LOGISTIC"),
    *("STABLEHLO_TANH", "STABLEHLO_NEGATE", "STABLEHLO_ABS", "STABLEHLO_CBRT"),
    *("STABLEHLO_FLOOR", "STABLEHLO_RSQRT", "STABLEHLO_COSINE"),
)
EXACT_UNARY = frozenset({"ABS", "NEG", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "SIGN"})


def unary(g: Graph) -> None:
    op = g.choose(PLAIN_UNARY)
    x = g.pick(lambda t: t.dtype not in (BOOL, DType.RESOURCE))
    options = {}
    if op == "GELU":
        options = {"approximate": g.chance(0.5)}
    if op == "LEAKY_RELU":
        options = {"alpha": g.choose([0.1, 0.25, 1.5, -0.5])}
    quant = g.quant(x.dtype)
    if op in ("LOGISTIC", "TANH") and quant is not None:
        quant = _fixed(op, x.dtype)
    if x.dtype is DType.INT16 and quant is not None and op == "RELU" and g.chance(0.5):
        quant = x.quant
    fit = op not in ("LOGISTIC", "TANH")
    g.add(op, [x], (x.dtype, quant), exact=op in EXACT_UNARY, fit=fit, **options)


def _fixed(op: str, dtype: DType) -> Quantization:
    """The quantisation that the outputs of some ops must have."""
    low, high = dtype.range()
    bits = {"LOGISTIC": 8, "SOFTMAX": 8, "TANH": 7}[op] + (dtype is DType.INT16) * 7
    bits += dtype is DType.INT16 and op != "LOGISTIC" and op != "SOFTMAX"
    zero = 0 if dtype is DType.INT16 else low if op != "TANH" else (low + high + 1) // 2
    return _q(2.0**-bits, zero)


def _q(scale: float, zero: int = 0) -> Quantization:
    return Quantization(np.array([scale], np.float32), np.array([zero], np.int64))


def prelu(g: Graph) -> None:
    x = g.pick(lambda t: t.dtype in (F32, *BYTES) and len(t.shape) > 0)
    shape = g.choose([x.shape[-1:], (1,) * (len(x.shape) - 2) + x.shape[-1:], x.shape[1:]])
    alpha = g.constant(g.random(shape, x.dtype), x.dtype, g.quant(x.dtype))
    g.add("PRELU", [x, alpha], (x.dtype, g.quant(x.dtype)), fit=True)


def chain(g: Graph) -> None:
    """What rides in one kernel: a few functions in a row, and the first input again."""
    first = g.pick(lambda t: t.dtype in (F32, *SMALL))
    start = len(g.tensors)
    for _ in range(g.whole(2, 5)):
        x = g.tensors[-1] if len(g.tensors) > start else first
        op = g.choose(["LOGISTIC", "TANH", "RELU", "ABS", "MUL", "ADD", "SUB", "MAXIMUM"])
        if op in ("LOGISTIC", "TANH"):
            quant = None if x.dtype is F32 else _fixed(op, x.dtype)
            g.add(op, [x], (x.dtype, quant))
        elif op in ("RELU", "ABS"):
            g.add(op, [x], (x.dtype, x.quant), exact=True)
        else:
            other = g.choose([x, first]) if g.chance(0.6) else _partner(g, x)
            _binary(g, op, x, other)


# -- two tensors

BINARY = (
    *("ADD", "SUB", "MUL", "ADD", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"),
    *("FLOOR_DIV", "FLOOR_MOD", "POW", "ATAN2", "STABLEHLO_ADD", "STABLEHLO_MULTIPLY"),
    *("STABLEHLO_SUBTRACT", "STABLEHLO_MAXIMUM", "STABLEHLO_MINIMUM", "STABLEHLO_DIVIDE"),
    "STABLEHLO_REMAINDER",
)


def binary(g: Graph) -> None:
    x = g.pick(lambda t: t.dtype not in (BOOL, DType.RESOURCE))
    other = _partner(g, x)
    pair = (x, other) if g.chance(0.7) else (other, x)
    _binary(g, g.choose(BINARY), *pair)


def _binary(g: Graph, op: str, a: Tensor, b: Tensor) -> None:
    options: dict[str, object] = {}
    if op in ("ADD", "SUB", "MUL", "DIV"):
        options["fused_activation_function"] = g.choose(ACTIVATIONS)
    if op in ("ADD", "SUB"):
        options["pot_scale_int16"] = False
    quant = g.quant(a.dtype)
    if op in ("MAXIMUM", "MINIMUM", "FLOOR_DIV", "FLOOR_MOD") and a.quant is not None:
        quant = a.quant
    exact = op in ("MAXIMUM", "MINIMUM")
    g.add(op, [a, b], (a.dtype, quant), exact=exact, fit=quant is not a.quant, **options)


def _partner(g: Graph, x: Tensor, dtype: DType | None = None) -> Tensor:
    """A tensor that broadcasts with `x`: one that is there, `x` itself, or a constant."""
    kind = dtype or x.dtype
    if g.chance(0.1) and kind is x.dtype:
        return x
    if g.chance(0.6):
        try:
            return g.pick(lambda t: t is not x and t.dtype is kind and _fits(t, x))
        except Skip:
            pass
    shape = [d if g.chance(0.7) else 1 for d in x.shape]
    if g.chance(0.4):
        shape = shape[g.whole(0, len(shape)) :]
    elif g.chance(0.1) and len(shape) < 8:
        shape = [g.whole(1, 3), *shape]
    value = g.random(shape, kind)
    if kind is F32 and g.chance(0.3):
        value = np.abs(value) + np.float32(0.25)
    return g.constant(value, kind, x.quant if g.chance(0.3) and kind is x.dtype else g.quant(kind))


def _fits(a: Tensor, b: Tensor) -> bool:
    try:
        return math.prod(np.broadcast_shapes(a.shape, b.shape)) <= LARGEST
    except ValueError:
        return False


def comparison(g: Graph) -> None:
    ops = ("LESS", "GREATER", "GREATER_EQUAL", "LESS_EQUAL", "EQUAL", "NOT_EQUAL")
    x = g.pick(lambda t: t.dtype is not BOOL)
    g.add(g.choose(ops), [x, _partner(g, x)], BOOL)


def logical(g: Graph) -> None:
    x = g.pick(lambda t: t.dtype is BOOL)
    op = g.choose(["LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT"])
    g.add(op, [x] if op == "LOGICAL_NOT" else [x, _partner(g, x)], BOOL)


def bits(g: Graph) -> None:
    x = g.pick(lambda t: t.dtype in (I32, I64, *SMALL) and t.quant is None)
    op = g.choose(["BITWISE_XOR", "RIGHT_SHIFT"])
    other = _partner(g, x)
    if op == "RIGHT_SHIFT":
        other = g.constant(np.abs(g.random(x.shape, x.dtype)) % 20, x.dtype)
    g.add(op, [x, other], x.dtype)


def select(g: Graph) -> None:
    flag = g.pick(lambda t: t.dtype is BOOL)
    x = g.pick(lambda t: _fits(t, flag))
    other = g.constant(g.random(x.shape, x.dtype), x.dtype, x.quant)
    if g.chance(0.5):
        other = g.pick(lambda t: t.dtype is x.dtype and t.quant is x.quant and _fits(t, x))
    g.add("SELECT_V2", [flag, x, other], (x.dtype, x.quant), exact=True)


# -- along axes


def reduction(g: Graph) -> None:
    op = g.choose(["SUM", "MEAN", "MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY"])
    kinds = (BOOL,) if op == "REDUCE_ANY" else NUMBERS
    x = g.pick(lambda t: t.dtype in kinds and len(t.shape) > 0)
    axes = [i for i in range(len(x.shape)) if g.chance(0.5)] or [len(x.shape) - 1]
    if len(x.shape) == 4 and g.chance(0.3):
        axes = [1, 2]
    keeps = op in ("REDUCE_MAX", "REDUCE_MIN")
    quant = x.quant if keeps or g.chance(0.3) else g.quant(x.dtype)
    axis = g.constant(np.array(axes, np.int32))
    options = {"keep_dims": g.chance(0.5)}
    out = (x.dtype, quant)
    g.add(op, [x, axis], out, exact=keeps, long=True, fit=quant is not x.quant, **options)


def arg(g: Graph) -> None:
    x = g.pick(lambda t: t.dtype in (F32, *BYTES, I32) and len(t.shape) > 0)
    axis = g.constant(np.int32(g.whole(0, len(x.shape) - 1)))
    kind = g.choose([I32, I64])
    g.add(g.choose(["ARG_MAX", "ARG_MIN"]), [x, axis], kind, exact=True, output_type=kind)


def top(g: Graph) -> None:
    x = g.pick(lambda t: t.dtype in NUMBERS and len(t.shape) > 0 and t.shape[-1] > 0)
    k = g.constant(np.int32(g.whole(1, x.shape[-1])))
    g.add("TOPK_V2", [x, k], (x.dtype, x.quant), I32, exact=True)


def cumsum(g: Graph) -> None:
    x = g.pick(lambda t: t.dtype in (F32, I32, I64) and len(t.shape) > 0)
    axis = g.constant(np.int32(g.whole(0, len(x.shape) - 1)))
    options = {"exclusive": g.chance(0.5), "reverse": g.chance(0.5)}
    g.add("CUMSUM", [x, axis], x.dtype, long=True, **options)


def softmax(g: Graph) -> None:
    op = g.choose(["SOFTMAX", "SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION"])
    x = g.pick(lambda t: t.dtype in (F32, *SMALL) and len(t.shape) > 0)
    low = x.dtype.range()[0] if x.dtype is not F32 else 0
    quant = None
    if x.dtype is not F32:
        quant = {
            "SOFTMAX": _fixed("SOFTMAX", x.dtype),
            "LOG_SOFTMAX": _q(16 / 256, 127 - 128 - low),
            "L2_NORMALIZATION": _q(1 / 128, 0 if low else 128),
        }[op]
    options: dict[str, object] = {"beta": g.choose([1.0, 1.0, 0.5, 2.0])} if op == "SOFTMAX" else {}
    if op == "L2_NORMALIZATION":
        options["fused_activation_function"] = "NONE"
    g.add(op, [x], (x.dtype, quant), long=True, **options)


# -- from one type to another


def quantize(g: Graph) -> None:
    x = g.pick(lambda t: t.dtype in (F32, *SMALL))
    if x.dtype is not F32 and g.chance(0.4):
        g.add("DEQUANTIZE", [x], F32)
        return
    kind = g.choose(SMALL)
    g.add("QUANTIZE", [x], (kind, g.quant(kind)), fit=True)


def cast(g: Graph) -> None:
    x = g.pick(lambda t: t.quant is None)
    kinds = [F32, F32, I32, I32, I64, BOOL, *SMALL, *ODD]
    kind = g.choose(kinds)
    g.add("CAST", [x], kind, in_data_type=x.dtype, out_data_type=kind)


def fake(g: Graph) -> None:
    x = g.pick(lambda t: t.dtype is F32)
    options = {"min": -g.choose([0.0, 1.0, 2.5]), "max": g.choose([1.0, 3.0]), "num_bits": 8}
    g.add("FAKE_QUANT", [x], F32, **options)


# -- computed places


def places(g: Graph) -> None:
    """Rows that are scattered, summed by segment, looked up; numbers as rows of flags."""
    op = g.choose(["SCATTER_ND", "SEGMENT_SUM", "UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_MAX",
                   "ONE_HOT", "EMBEDDING_LOOKUP"])  # fmt: skip
    x = g.pick(lambda t: len(t.shape) > 0 and t.shape[0] > 0 and t.dtype in (F32, I32))
    rows = x.shape[0]
    if op == "ONE_HOT":
        x = g.pick(lambda t: t.dtype is I32)
        on, off = (g.constant(np.float32(v)) for v in (2.5, -1))
        depth = g.constant(np.int32(g.whole(1, 9)))
        axis = g.whole(-1, len(x.shape))
        g.add(op, [x, depth, on, off], F32, exact=True, axis=axis)
    elif op == "EMBEDDING_LOOKUP":
        lookup = g.rng.integers(0, rows, g.whole(1, 9)).astype(np.int32)
        g.add(op, [g.constant(lookup), x], x.dtype, exact=True)
    elif op == "SCATTER_ND":
        size = rows + g.whole(0, 3)
        at = g.rng.integers(0, size, (rows, 1)).astype(np.int32)
        shape = np.array([size, *x.shape[1:]], np.int32)
        g.add(op, [g.constant(at), x, g.constant(shape)], x.dtype)
    else:
        ids = np.sort(g.rng.integers(0, 4, rows)).astype(np.int32)
        sides = [g.constant(ids)]
        if op != "SEGMENT_SUM":
            sides = [g.constant(g.rng.permutation(ids)), g.constant(np.int32(5))]
        g.add(op, [x, *sides], x.dtype, long=True)


def other(g: Graph) -> None:
    op = g.choose(["ADD_N", "MATRIX_DIAG", "BUCKETIZE", "DILATE", "Roll", "ZEROS_LIKE", "BITCAST"])
    if op == "ADD_N":
        x = g.pick(lambda t: t.dtype in (F32, I32))
        same = [g.pick(lambda t: t.shape == x.shape and t.dtype is x.dtype) for _ in range(2)]
        g.add(op, [x, *same], x.dtype)
    elif op == "BUCKETIZE":
        x = g.pick(lambda t: t.dtype in (F32, I32, I64))
        g.add(op, [x], I32, exact=True, boundaries=[-2.0, 0.25, 1.5])
    elif op == "DILATE":
        x = moved(g, 1)
        factors = g.constant(np.array([g.whole(1, 3) for _ in x.shape], np.int32))
        move(g, op, [x, factors, g.constant(g.random((), x.dtype), x.dtype, x.quant)])
    elif op == "Roll":
        x = moved(g, 1)
        sides = [
            g.constant(np.int32(g.whole(-9, 9))),
            g.constant(np.int32(g.whole(0, len(x.shape) - 1))),
        ]
        g.add(op, [x, *sides], (x.dtype, x.quant), exact=True, custom=True)
    elif op == "BITCAST":
        x = g.pick(lambda t: t.dtype is I32)
        g.add(op, [x], g.choose([DType.UINT32, DType.UINT16, DType.INT8]), exact=True)
    else:
        x = moved(g, 1)
        move(g, op, [x])


def held(g: Graph) -> None:
    """A resource variable, which brings a tensor of the invoke before."""
    x = g.pick(lambda t: math.prod(t.shape) > 0)
    if len(g.kept) > 1:
        raise Skip
    g.keep(x)


Maker = Callable[[Graph], object]
_TABLE: Sequence[tuple[Maker, float]] = (
    *[(m, 1.0) for m in (prelu, comparison, logical, bits, select, arg, top, cumsum, fake)],
    *[(m, 2.0) for m in (chain, softmax, cast)],
    *[(m, 3.0) for m in (reduction, quantize)],
    *[(m, 1.5) for m in (places, other)],
    (held, 0.5),
    (unary, 5.0),
    (binary, 6.0),
    *MOVES,
    *WINDOWS,
)
MAKERS: Sequence[Maker] = [maker for maker, _ in _TABLE]
WEIGHTS = np.array([weight for _, weight in _TABLE]) / sum(w for _, w in _TABLE)
