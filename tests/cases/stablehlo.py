"""STABLEHLO_DOT_GENERAL, _CONVOLUTION, _CUSTOM_CALL. Right answers: by definition, in loops."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from litedelegate.kernels.types import Array, DType

from . import Case, T


def _values(seed: int, shape: Sequence[int], kind: Any) -> Array:
    values = np.random.default_rng(seed).uniform(-9, 9, tuple(shape))
    return np.asarray(values if np.dtype(kind).kind == "f" else np.rint(values)).astype(kind)


def _dot(
    name: str,
    equation: str,
    shapes: tuple[Sequence[int], Sequence[int]],
    kind: Any = np.float32,
    out: Any = None,
) -> Case:
    """`equation` as for einsum: the output has batching, left, right dimensions in this order."""
    left, right = (_values(k, s, kind) for k, s in enumerate(shapes))
    ins, result = equation.split("->")
    a, b = ins.split(",")
    batching = [c for c in a if c in b and c in result]
    contracting = [c for c in a if c in b and c not in result]
    want = np.einsum(equation, left.astype(np.float64), right.astype(np.float64))
    return Case(
        "STABLEHLO_DOT_GENERAL",
        [left, right],
        {
            "lhs_batching_dimensions": tuple(a.index(c) for c in batching),
            "rhs_batching_dimensions": tuple(b.index(c) for c in batching),
            "lhs_contracting_dimensions": tuple(a.index(c) for c in contracting),
            "rhs_contracting_dimensions": tuple(b.index(c) for c in contracting),
        },
        [want.astype(kind if out is None else out)],
        name=f"dot, {name}",
    )


def define(x: Array, w: Array, o: dict[str, Any]) -> Array:
    """A convolution of x [batch, spatial..., features] and w [spatial..., inner, outer]."""
    spatial = x.ndim - 2
    pads, strides = o["padding"], o["window_strides"]
    spread, dilation = o["lhs_dilation"], o["rhs_dilation"]
    groups, batch_groups = o["feature_group_count"], o["batch_group_count"]
    window, (inner, outer) = w.shape[:spatial], w.shape[-2:]
    sizes = []
    for k in range(spatial):
        padded = (x.shape[1 + k] - 1) * spread[k] + 1 + pads[2 * k] + pads[2 * k + 1]
        sizes.append((padded - ((window[k] - 1) * dilation[k] + 1)) // strides[k] + 1)
    batch = x.shape[0] // batch_groups
    y = np.zeros((batch, *sizes, outer))
    each = outer // (groups * batch_groups)
    for place in np.ndindex(*y.shape):
        n, at, feature = place[0], place[1:-1], place[-1]
        group = feature // each
        first = group * inner if groups > 1 else 0
        row = n + group * batch if batch_groups > 1 else n
        for tap in itertools.product(*map(range, window)):
            come = []
            for k in range(spatial):
                step = window[k] - 1 - tap[k] if o["window_reversal"][k] else tap[k]
                position = at[k] * strides[k] + step * dilation[k] - pads[2 * k]
                come.append(position // spread[k] if position % spread[k] == 0 else -1)
            if all(0 <= c < x.shape[1 + k] for k, c in enumerate(come)):
                seen = x[(row, *come)][first : first + inner].astype(np.float64)
                y[place] += seen @ w[tap][:, feature]
    return y


def _convolution(
    name: str,
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    kind: Any = np.float32,
    out: Any = None,
    orders: tuple[Sequence[int], Sequence[int], Sequence[int]] | None = None,
    **changed: Any,
) -> Case:
    """Shapes as in `define`; `orders` are the transpositions under which the op sees them."""
    spatial = len(x_shape) - 2
    o: dict[str, Any] = {
        "window_strides": (1,) * spatial,
        "padding": (0,) * (2 * spatial),
        "lhs_dilation": (1,) * spatial,
        "rhs_dilation": (1,) * spatial,
        "window_reversal": (False,) * spatial,
        "feature_group_count": 1,
        "batch_group_count": 1,
        **changed,
    }
    x, w = _values(1, x_shape, kind), _values(2, w_shape, kind)
    want = define(x, w, o).astype(kind if out is None else out)
    plain = tuple(range(len(x_shape)))
    to_x, to_w, to_y = orders or (plain, plain, plain)
    at_x, at_w, at_y = (np.argsort(t).tolist() for t in (to_x, to_w, to_y))
    o |= {
        "input_batch_dimension": at_x[0],
        "input_spatial_dimensions": tuple(at_x[1:-1]),
        "input_feature_dimension": at_x[-1],
        "kernel_spatial_dimensions": tuple(at_w[:-2]),
        "kernel_input_feature_dimension": at_w[-2],
        "kernel_output_feature_dimension": at_w[-1],
        "output_batch_dimension": at_y[0],
        "output_spatial_dimensions": tuple(at_y[1:-1]),
        "output_feature_dimension": at_y[-1],
    }
    return Case(
        "STABLEHLO_CONVOLUTION",
        [x.transpose(to_x).copy(), w.transpose(to_w).copy()],
        o,
        [want.transpose(to_y).copy()],
        name=f"convolution, {name}",
    )


def _refused(base: Case, text: str, inputs: Any = None, **changed: Any) -> Case:
    return Case(
        base.op,
        inputs or base.inputs,
        {**base.options, **changed},
        refused=text,
        outputs=base.declared,
        name=f"refused: {text}",
    )


_MATRICES = _dot("matrices", "mk,kn->mn", ((2, 3), (3, 4)))
_PLANE = _convolution("plain", (2, 5, 4, 3), (3, 2, 3, 4))
_CALL = Case(
    "STABLEHLO_CUSTOM_CALL",
    [np.arange(3, dtype=np.int32)],
    {"call_target_name": "Sharding"},
    [np.arange(3, dtype=np.int32)],
    name="an annotation",
)

CASES = [
    _MATRICES,
    _dot("batches", "bmk,bnk->bmn", ((2, 3, 4), (2, 5, 4))),
    _dot("everything in odd places", "kbmj,jnkb->bmn", ((2, 3, 4, 2), (2, 5, 2, 3))),
    _dot("outer product", "ab,c->abc", ((2, 3), (4,))),
    _dot("to a scalar", "k,k->", ((7,), (7,))),
    _dot("elementwise", "ab,ab->ab", ((2, 3), (2, 3))),
    _dot("nothing to sum", "mk,kn->mn", ((2, 0), (0, 4))),
    _dot("int32", "mk,kn->mn", ((2, 3), (3, 4)), np.int32),
    _dot("int8 to int32", "mk,kn->mn", ((2, 300), (300, 4)), np.int8, np.int32),
    _dot("float16 to float32", "mk,kn->mn", ((2, 3), (3, 4)), np.float16, np.float32),
    _dot("float64", "mk,kn->mn", ((2, 3), (3, 4)), np.float64),
    Case(
        "STABLEHLO_DOT_GENERAL",
        [T([1.5, 2.0], DType.BFLOAT16), T([4.0, 0.25], DType.BFLOAT16)],
        {
            "lhs_batching_dimensions": (),
            "rhs_batching_dimensions": (),
            "lhs_contracting_dimensions": (0,),
            "rhs_contracting_dimensions": (0,),
        },
        [T(6.5, DType.BFLOAT16)],
        name="dot, bfloat16",
    ),
    Case(
        "STABLEHLO_DOT_GENERAL",
        [np.array([2**30, 2**30], np.int32), np.array([2, 2], np.int32)],
        _dot("", "k,k->", ((2,), (2,))).options,
        [np.array(0, np.int32)],
        name="dot, int32 wraps around",
    ),
    _refused(_MATRICES, "have the sizes [3] and [4]", rhs_contracting_dimensions=(1,)),
    _refused(_MATRICES, "may be named once", lhs_batching_dimensions=(1,)),
    _refused(_MATRICES, "is bool; STABLEHLO_DOT_GENERAL takes", [np.ones((2, 3), np.bool_)] * 2),
    _PLANE,
    _convolution(
        "strides, padding", (1, 5, 6, 2), (3, 3, 2, 3), window_strides=(2, 3), padding=(1, 0, 2, 1)
    ),
    _convolution("negative padding", (1, 7, 2), (3, 2, 2), padding=(-2, -1)),
    _convolution("dilated", (1, 4, 5, 2), (2, 3, 2, 2), lhs_dilation=(3, 2), rhs_dilation=(2, 2)),
    _convolution("reversed", (1, 5, 5, 2), (3, 2, 2, 2), window_reversal=(True, False)),
    _convolution("groups of features", (2, 5, 6), (2, 2, 6), feature_group_count=3),
    _convolution("groups of batches", (4, 5, 3), (2, 3, 6), batch_group_count=2),
    _convolution("three dimensions", (1, 3, 4, 3, 2), (2, 2, 2, 2, 3)),
    _convolution("no spatial dimension", (2, 3), (3, 4)),
    _convolution(
        "other orders",
        (2, 5, 4, 3),
        (3, 2, 3, 4),
        orders=((3, 0, 2, 1), (3, 2, 1, 0), (1, 3, 0, 2)),
    ),
    _convolution("int8 to int32", (1, 6, 40), (3, 40, 2), np.int8, np.int32),
    _convolution("float16", (1, 6, 2), (3, 2, 2), np.float16, np.float32),
    _refused(_PLANE, "do not fit", feature_group_count=2),
    _refused(_PLANE, "must be named once", input_batch_dimension=1),
    _refused(_PLANE, "padding is [0]; taken: 4 numbers", padding=(0,)),
    _CALL,
    _refused(_CALL, "'cu_fft', which is not known here", call_target_name="cu_fft"),
]
