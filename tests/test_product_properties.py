"""Matrix products and convolutions on drawn shapes, against plain formulations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from cases import T
from cases.stablehlo import define
from harness import NodeSpec, Options, Prepared
from hypothesis import given, settings
from hypothesis import strategies as st

from litedelegate.kernels.builtins import find_builtin
from litedelegate.kernels.types import Array

settings.register_profile("products", max_examples=60, deadline=None)
settings.load_profile("products")


def run(op: str, inputs: Sequence[T], output: T, options: dict[str, Any]) -> Array:
    """Output 0 of the numpy kernel, with constant and with other inputs alike."""
    registration = find_builtin(op)
    assert registration is not None
    results = []
    for const in (False, True):
        specs = [t.spec(f"x{i}", const) for i, t in enumerate(inputs)]
        node = NodeSpec(op, specs, [output.spec("y", False)], Options(options))
        results.append(Prepared(registration, node, [t.array for t in inputs]).run()[0])
    np.testing.assert_array_equal(*results)
    return results[0]


def drawn(data: Any, shape: Sequence[int], dtype: Any) -> Array:
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(tuple(shape)).astype(dtype)
    info = np.iinfo(dtype)
    return np.asarray(rng.integers(info.min, info.max + 1, tuple(shape))).astype(dtype)


def product_of(x: Array, y: Array) -> Array:
    """Row by column, over broadcast leading dimensions, in exact or double arithmetic."""
    wide = np.float64 if x.dtype.kind == "f" else np.int64
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x = np.broadcast_to(x, batch + x.shape[-2:]).astype(wide)
    y = np.broadcast_to(y, batch + y.shape[-2:]).astype(wide)
    out = np.zeros((*batch, x.shape[-2], y.shape[-1]), wide)
    for place in np.ndindex(*out.shape):
        row, column = x[place[:-1]], y[(*place[:-2], slice(None), place[-1])]
        out[place] = (row * column).sum()
    return out


@given(st.data())
def test_batch_matmul(data: Any) -> None:
    dtype = data.draw(st.sampled_from([np.float32, np.int8, np.int16, np.int32]))
    batch = data.draw(st.lists(st.integers(1, 3), max_size=3))
    lead = []
    for _ in range(2):
        own = [data.draw(st.sampled_from([1, d])) for d in batch]
        lead.append(own[data.draw(st.integers(0, len(own))) :])
    rows, depth, columns = (data.draw(st.integers(0, 6)) for _ in range(3))
    adj_x, adj_y = data.draw(st.booleans()), data.draw(st.booleans())
    x = drawn(data, [*lead[0], *((depth, rows) if adj_x else (rows, depth))], dtype)
    y = drawn(data, [*lead[1], *((columns, depth) if adj_y else (depth, columns))], dtype)
    want = product_of(
        x.swapaxes(-1, -2) if adj_x else x,
        y.swapaxes(-1, -2) if adj_y else y,
    )
    options = {"adj_x": adj_x, "adj_y": adj_y, "asymmetric_quantize_inputs": False}
    inputs, output = [T(x), T(y)], T(np.zeros(1, dtype))
    if dtype == np.int16:
        # powers of two for scales: the multiplier is 2^-18, halves go up
        inputs, output = [T(x, scale=0.5), T(y, scale=0.5)], T(output.value, scale=2.0**16)
        want = np.clip((want + (1 << 17)) >> 18, -32768, 32767)
    elif dtype == np.int8:
        output = T(np.zeros(1, np.int32))
    got = run("BATCH_MATMUL", inputs, output, options)
    if dtype == np.float32:
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
    else:
        np.testing.assert_array_equal(got, want.astype(got.dtype))


@pytest.mark.parametrize("dtype", [np.int8, np.float32])
@given(data=st.data())
def test_dot_general_is_einsum(dtype: Any, data: Any) -> None:
    letters = data.draw(st.lists(st.sampled_from("bklr"), max_size=6))
    names = [f"{kind}{i}" for i, kind in enumerate(letters)]
    size = {n: data.draw(st.integers(1, 4)) for n in names}
    left = data.draw(st.permutations([n for n in names if n[0] in "bkl"]))
    right = data.draw(st.permutations([n for n in names if n[0] in "bkr"]))
    shared = {kind: [n for n in names if n[0] == kind] for kind in "bk"}
    x, y = (drawn(data, [size[n] for n in side], dtype) for side in (left, right))
    result = shared["b"] + [n for n in left if n[0] == "l"] + [n for n in right if n[0] == "r"]
    number = {n: i for i, n in enumerate(names)}
    wide = np.float64 if dtype == np.float32 else np.int64
    want = np.einsum(
        x.astype(wide),
        [number[n] for n in left],
        y.astype(wide),
        [number[n] for n in right],
        [number[n] for n in result],
    )
    options = {
        f"{side}_{what}_dimensions": tuple(order.index(n) for n in shared[kind])
        for side, order in (("lhs", left), ("rhs", right))
        for what, kind in (("batching", "b"), ("contracting", "k"))
    }
    out = np.zeros(1, np.float32 if dtype == np.float32 else np.int32)
    got = run("STABLEHLO_DOT_GENERAL", [T(x), T(y)], T(out), options)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-4 if dtype == np.float32 else 0)


@given(st.data())
def test_convolution(data: Any) -> None:
    spatial = data.draw(st.integers(0, 2))
    groups, batch_groups = data.draw(st.sampled_from([(1, 1), (2, 1), (1, 2), (3, 1)]))
    inner, each = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2))

    def numbers(least: int, most: int, count: int = spatial) -> tuple[int, ...]:
        return tuple(data.draw(st.integers(least, most)) for _ in range(count))

    window, sizes = numbers(1, 3), numbers(1, 6)
    o: dict[str, Any] = {
        "window_strides": numbers(1, 3),
        "padding": numbers(-1, 3, 2 * spatial),
        "lhs_dilation": numbers(1, 3),
        "rhs_dilation": numbers(1, 2),
        "window_reversal": tuple(data.draw(st.booleans()) for _ in range(spatial)),
        "feature_group_count": groups,
        "batch_group_count": batch_groups,
    }
    for k in range(spatial):
        # keep one window at least
        padded = (sizes[k] - 1) * o["lhs_dilation"][k] + 1 + sum(o["padding"][2 * k : 2 * k + 2])
        if padded < (window[k] - 1) * o["rhs_dilation"][k] + 1:
            return
    x = drawn(data, (2 * batch_groups, *sizes, inner * groups), np.float32)
    w = drawn(data, (*window, inner, each * groups * batch_groups), np.float32)
    plain = range(spatial + 2)
    to_x, to_w, to_y = (data.draw(st.permutations(plain)) for _ in range(3))
    at_x, at_w, at_y = (np.argsort(t).tolist() for t in (to_x, to_w, to_y))
    options = {
        **o,
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
    inputs = [T(x.transpose(to_x).copy()), T(w.transpose(to_w).copy())]
    got = run("STABLEHLO_CONVOLUTION", inputs, T(np.zeros(1, np.float32)), options)
    np.testing.assert_allclose(got, define(x, w, o).transpose(to_y), rtol=0, atol=1e-4)
