"""What random graphs are made of: each maker draws one node, or a few that belong together.

A maker takes tensors that are there (`g.pick`), makes up constants and options, and adds nodes;
what the operators' own checks refuse is drawn again (`Skip`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from random_graphs import LARGEST, Graph, Skip, Tensor
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


# -- elements moved


def _moved(g: Graph, rank: int = 0) -> Tensor:
    return g.pick(lambda t: len(t.shape) >= rank)


def _move(g: Graph, op: str, inputs: Sequence[Tensor], **options: object) -> None:
    x = inputs[0]
    g.add(op, inputs, (x.dtype, x.quant), exact=True, **options)


def _index(g: Graph, values: object) -> Tensor:
    return g.constant(np.asarray(values, np.int64 if g.chance(0.1) else np.int32))


def reshape(g: Graph) -> None:
    x = _moved(g)
    size, shape = math.prod(x.shape), []
    if not size:
        raise Skip
    while size > 1 and len(shape) < 7:
        factors = [f for f in range(2, size + 1) if size % f == 0]
        shape.append(g.choose(factors))
        size //= shape[-1]
    shape = [*shape, size] if size > 1 or g.chance(0.3) else shape
    if shape and g.chance(0.3):
        shape[g.whole(0, len(shape) - 1)] = -1
    _move(g, "RESHAPE", [x, g.constant(np.array(shape, np.int32))], new_shape=shape)


def squeeze(g: Graph) -> None:
    x = _moved(g)
    if g.chance(0.5):
        axis = g.whole(-len(x.shape) - 1, len(x.shape))
        _move(g, "EXPAND_DIMS", [x, _index(g, axis)])
        return
    ones = [i for i, d in enumerate(x.shape) if d == 1 and g.chance(0.7)]
    _move(g, "SQUEEZE", [x], squeeze_dims=ones)


def transpose(g: Graph) -> None:
    x = _moved(g, 1)
    _move(g, "TRANSPOSE", [x, g.constant(g.rng.permutation(len(x.shape)).astype(np.int32))])


def part(g: Graph) -> None:
    x = _moved(g, 1)
    if g.chance(0.5):
        begin = [g.whole(0, max(d - 1, 0)) for d in x.shape]
        size = [g.whole(min(1, d), d - b) for d, b in zip(x.shape, begin, strict=True)]
        size = [-1 if g.chance(0.15) else s for s in size]
        _move(g, "SLICE", [x, _pair_index(g, begin, size)[0], _pair_index(g, begin, size)[1]])
        return
    rank = g.whole(1, len(x.shape))
    step = [g.choose([1, 1, 1, 2, 3, -1, -2]) for _ in range(rank)]
    ends = [[g.whole(-d - 1, d + 1) for d in x.shape[:rank]] for _ in range(2)]
    if g.chance(0.8):  # some are left
        sides = [sorted(g.rng.integers(0, d + 1, 2).tolist()) for d in x.shape[:rank]]
        ends = [
            [s[i if n > 0 else 1 - i] for s, n in zip(sides, step, strict=True)] for i in (0, 1)
        ]
    masks = {
        "begin_mask": g.choose([0, g.whole(0, 255), 255]),
        "end_mask": g.choose([0, g.whole(0, 255), 255]),
        "shrink_axis_mask": g.choose([0, 0, 0, 1 << g.whole(0, rank - 1)]),
        "new_axis_mask": g.choose([0, 0, 0, 0, 1 << g.whole(0, rank - 1)]),
        "ellipsis_mask": g.choose([0, 0, 0, 0, 1 << g.whole(0, rank - 1)]),
    }
    indices = [g.constant(np.array(v, np.int32)) for v in (*ends, step)]
    _move(g, "STRIDED_SLICE", [x, *indices], **masks)


def _pair_index(g: Graph, begin: list[int], size: list[int]) -> tuple[Tensor, Tensor]:
    return g.constant(np.array(begin, np.int32)), g.constant(np.array(size, np.int32))


def join(g: Graph) -> None:
    x = _moved(g, 1)
    axis = g.whole(0, len(x.shape) - 1)

    def alike(t: Tensor) -> bool:
        cut = [s[:axis] + s[axis + 1 :] for s in (t.shape, x.shape)]
        same = len(t.shape) == len(x.shape) and t.dtype is x.dtype
        return same and cut[0] == cut[1]

    parts = [x] + [g.pick(alike) for _ in range(g.whole(1, 3))]
    if g.chance(0.3):
        shape = (*x.shape[:axis], g.whole(1, 5), *x.shape[axis + 1 :])
        parts.insert(g.whole(0, 1), g.constant(g.random(shape, x.dtype), x.dtype, x.quant))
    quant = x.quant if x.dtype is not DType.UINT8 or g.chance(0.5) else g.quant(x.dtype)
    if x.dtype is DType.UINT8 and g.chance(0.5):
        quant = g.quant(x.dtype)
    elif any(t.quant is not x.quant for t in parts):
        raise Skip
    back = axis - len(x.shape) if g.chance(0.3) else axis
    g.add(
        "CONCATENATION", parts, (x.dtype, quant), exact=True, axis=back,
        fused_activation_function="NONE",
    )  # fmt: skip


def pack(g: Graph) -> None:
    x = _moved(g)
    parts = [x]
    for _ in range(g.whole(1, 3)):
        parts.append(
            g.pick(lambda t: t.shape == x.shape and t.dtype is x.dtype and t.quant is x.quant)
        )
    axis = g.whole(-len(x.shape) - 1, len(x.shape))
    _move(g, "PACK", parts, values_count=len(parts), axis=axis)


def split(g: Graph) -> None:
    x = _moved(g, 1)
    axis = g.whole(0, len(x.shape) - 1)
    d = x.shape[axis]
    out = (x.dtype, x.quant)
    how = g.choose(["SPLIT", "SPLIT_V", "UNPACK"])
    if how == "UNPACK" and 0 < d <= 5:
        g.add("UNPACK", [x], *[out] * d, exact=True, num=d, axis=axis)
    elif how == "SPLIT_V" and d > 1:
        cut = g.whole(1, d - 1)
        sizes = g.constant(np.array([cut, d - cut], np.int32))
        inputs = [x, sizes, g.constant(np.int32(axis))]
        g.add("SPLIT_V", inputs, out, out, exact=True, num_splits=2)
    else:
        fits = [n for n in (2, 3, 4, 5) if d and d % n == 0]
        n = g.choose(fits) if fits else 1
        g.add("SPLIT", [g.constant(np.int32(axis)), x], *[out] * n, exact=True, num_splits=n)


def pad(g: Graph) -> None:
    x = _moved(g, 1)
    op = g.choose(["PAD", "PAD", "PADV2", "MIRROR_PAD"])
    inner = (0, max(min((d - 1 for d in x.shape), default=0), 0)) if op == "MIRROR_PAD" else (0, 3)
    pads = [[g.whole(*inner) if g.chance(0.5) else 0 for _ in (0, 1)] for _ in x.shape]
    places = _index(g, np.array(pads).reshape(-1, 2))
    if op == "MIRROR_PAD":
        _move(g, op, [x, places], mode=g.choose(["REFLECT", "SYMMETRIC"]))
    elif op == "PADV2":
        _move(g, op, [x, places, g.constant(g.random((), x.dtype), x.dtype, x.quant)])
    else:
        _move(g, op, [x, places])


def tile(g: Graph) -> None:
    x = _moved(g, 1)
    if g.chance(0.5):
        _move(g, "TILE", [x, _index(g, [g.choose([1, 1, 2, 3]) for _ in x.shape])])
        return
    shape = [g.whole(1, 4) if d == 1 else d for d in x.shape]
    if g.chance(0.4) and len(shape) < 8:
        shape = [g.whole(1, 3), *shape]
    _move(g, "BROADCAST_TO", [x, _index(g, shape)])


def reverse(g: Graph) -> None:
    x = _moved(g, 1)
    axis = g.whole(0, len(x.shape) - 1)
    if len(x.shape) > 1 and g.chance(0.4):
        other = (axis + g.whole(1, len(x.shape) - 1)) % len(x.shape)
        lengths = [g.whole(0, x.shape[axis]) for _ in range(x.shape[other])]
        options = {"seq_dim": axis, "batch_dim": other}
        _move(g, "REVERSE_SEQUENCE", [x, _index(g, lengths)], **options)
        return
    _move(g, "REVERSE_V2", [x, g.constant(np.array([axis], np.int32))])


def gather(g: Graph) -> None:
    x = _moved(g, 1)
    axis = g.whole(0, len(x.shape) - 1)
    if not x.shape[axis]:
        raise Skip
    if g.chance(0.3):
        depth = g.whole(1, len(x.shape))
        rows = g.choose([1, 3, 8])
        places = np.stack([g.rng.integers(0, d, rows) for d in x.shape[:depth]], -1)
        _move(g, "GATHER_ND", [x, g.constant(places.astype(np.int32))])
        return
    shape = g.choose([(), (1,), (3,), (2, 3), (17,)])
    places = g.rng.integers(0, x.shape[axis], shape).astype(np.int32)
    batch = g.choose([0, 0, 0, axis])
    if batch:
        places = g.rng.integers(0, x.shape[axis], (*x.shape[:batch], 3)).astype(np.int32)
    _move(g, "GATHER", [x, g.constant(places)], axis=axis, batch_dims=batch)


def space(g: Graph) -> None:
    x = g.pick(lambda t: len(t.shape) == 4)
    op = g.choose(["SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"])
    block = g.choose([2, 2, 3, 1])
    if op.endswith("_ND"):
        edges = [[g.whole(0, 2), g.whole(0, 2)] for _ in (0, 1)]
        if op == "SPACE_TO_BATCH_ND":
            edges = [
                [a, a + -(d + 2 * a) % block] for (a, _), d in zip(edges, x.shape[1:3], strict=True)
            ]
        sides = [g.constant(np.array(v, np.int32)) for v in ([block, block], edges)]
        _move(g, op, [x, *sides])
    else:
        _move(g, op, [x], block_size=block)


def update(g: Graph) -> None:
    x = _moved(g, 1)
    shape = [g.whole(min(1, d), d) for d in x.shape]
    piece = g.constant(g.random(shape, x.dtype), x.dtype, x.quant)
    start = g.constant(np.array([g.whole(-1, d) for d in x.shape], np.int32))
    _move(g, "DYNAMIC_UPDATE_SLICE", [x, piece, start])


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


def hlo(g: Graph) -> None:
    """StableHLO's ways to move elements."""
    x = _moved(g, 1)
    rank = len(x.shape)
    op = g.choose(["PAD", "SLICE", "TRANSPOSE", "BROADCAST_IN_DIM", "CLAMP", "DYNAMIC_SLICE"])
    if op == "PAD":
        value = g.constant(g.random((), x.dtype), x.dtype, x.quant)
        edges = [[g.whole(-1, 2) if g.chance(0.5) else 0 for _ in x.shape] for _ in (0, 1)]
        inner = [g.choose([0, 0, 1, 2]) for _ in x.shape]
        options = {"edge_padding_low": edges[0], "edge_padding_high": edges[1]}
        _move(g, "STABLEHLO_PAD", [x, value], **options, interior_padding=inner)
    elif op == "SLICE":
        starts = [g.whole(0, max(d - 1, 0)) for d in x.shape]
        limits = [g.whole(min(a + 1, d), d) for a, d in zip(starts, x.shape, strict=True)]
        steps = [g.whole(1, 2) for _ in x.shape]
        options = {"start_indices": starts, "limit_indices": limits, "strides": steps}
        _move(g, "STABLEHLO_SLICE", [x], **options)
    elif op == "TRANSPOSE":
        order = [int(i) for i in g.rng.permutation(rank)]
        _move(g, "STABLEHLO_TRANSPOSE", [x], permutation=order)
    elif op == "BROADCAST_IN_DIM":
        more = g.whole(0, 2)
        dims = sorted(int(i) for i in g.rng.choice(rank + more, rank, replace=False))
        shape = [g.whole(1, 3) for _ in range(rank + more)]
        for i, d in zip(dims, x.shape, strict=True):
            shape[i] = d if d > 1 else shape[i]
        to = g.constant(np.array(shape, np.int64))
        _move(g, "STABLEHLO_BROADCAST_IN_DIM", [x, to], broadcast_dimensions=dims)
    elif op == "CLAMP":
        low, high = (
            np.sort(g.random((2,), x.dtype)) if x.dtype is not BOOL else g.random((2,), BOOL)
        )
        ends = [g.constant(v, x.dtype, x.quant) for v in (low, high)]
        g.add("STABLEHLO_CLAMP", [ends[0], x, ends[1]], (x.dtype, x.quant), exact=True)
    else:
        sizes = [g.whole(min(1, d), d) for d in x.shape]
        starts = [g.constant(np.int32(g.whole(-1, d))) for d in x.shape]
        _move(g, "STABLEHLO_DYNAMIC_SLICE", [x, *starts], slice_sizes=sizes)


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
        x = _moved(g, 1)
        factors = g.constant(np.array([g.whole(1, 3) for _ in x.shape], np.int32))
        _move(g, op, [x, factors, g.constant(g.random((), x.dtype), x.dtype, x.quant)])
    elif op == "Roll":
        x = _moved(g, 1)
        sides = [
            g.constant(np.int32(g.whole(-9, 9))),
            g.constant(np.int32(g.whole(0, len(x.shape) - 1))),
        ]
        g.add(op, [x, *sides], (x.dtype, x.quant), exact=True, custom=True)
    elif op == "BITCAST":
        x = g.pick(lambda t: t.dtype is I32)
        g.add(op, [x], g.choose([DType.UINT32, DType.UINT16, DType.INT8]), exact=True)
    else:
        x = _moved(g, 1)
        _move(g, op, [x])


def held(g: Graph) -> None:
    """A resource variable, which brings a tensor of the invoke before."""
    x = g.pick(lambda t: math.prod(t.shape) > 0)
    if len(g.kept) > 1:
        raise Skip
    g.keep(x)


Maker = Callable[[Graph], object]
_TABLE: Sequence[tuple[Maker, float]] = (
    *[(m, 1.0) for m in (prelu, comparison, logical, bits, select, squeeze, pack, tile, reverse)],
    *[(m, 1.0) for m in (gather, space, update, arg, top, cumsum, fake)],
    *[(m, 2.0) for m in (chain, reshape, transpose, split, pad, softmax, cast)],
    *[(m, 3.0) for m in (part, join, reduction, quantize)],
    (held, 0.5),
    (places, 1.5),
    (hlo, 2.0),
    (other, 1.5),
    (unary, 5.0),
    (binary, 6.0),
    *WINDOWS,
)
MAKERS: Sequence[Maker] = [maker for maker, _ in _TABLE]
WEIGHTS = np.array([weight for _, weight in _TABLE]) / sum(w for _, w in _TABLE)
