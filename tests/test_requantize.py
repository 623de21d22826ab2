"""Requantisation: equal to the fixed-point definition whatever arithmetic is chosen for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from definitions import fixed_point, fixed_point_wide

from litedelegate.kernels._convolution import multipliers
from litedelegate.kernels._lines import find_lines
from litedelegate.kernels._quant import (
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_64,
    quantize_multipliers,
)
from litedelegate.kernels._requantize import Requantizer, choose
from litedelegate.kernels._scaling import Scaling
from litedelegate.kernels.api import Quantization, TensorSpec
from litedelegate.kernels.types import Array, DType

RANGES = {np.int8: (-128, 127), np.uint8: (0, 255), np.int16: (-32768, 32767)}


def _scratch(shape: Sequence[int], dtype: Any = np.float32) -> Array:
    array = np.empty(shape, dtype)
    array.view(np.uint8)[...] = 0xA5
    return array


def _accumulators(rng: np.random.Generator, scaling: Scaling, bound: int, rows: int) -> Array:
    """Half of them anywhere, half around where the stored value changes."""
    channels = scaling.q.size
    anywhere = rng.integers(-bound, bound + 1, (rows, channels))
    multiplier, _ = scaling.factors()
    result = rng.integers(scaling.low - 3, scaling.high + 4, (rows, channels)) - scaling.zero
    step = (result + rng.choice([-0.5, 0.0, 0.5], result.shape)) / multiplier - scaling.offset
    near = np.rint(step).astype(np.int64) + rng.integers(-1, 2, step.shape)
    take = (rng.random(near.shape) < 0.5) & (np.abs(near) <= bound)
    return np.where(take, near, anywhere)


def _run(scaling: Scaling, accumulators: Array, bound: int, dtype: Any) -> tuple[Array, Any]:
    rows, channels = accumulators.shape
    y = np.zeros((rows, channels), dtype)
    bounds = np.full(channels, bound)
    requantizer = Requantizer(_scratch, choose(scaling, bounds, rows))
    for step in [*requantizer.setup, *requantizer.steps(accumulators.astype(np.float32), y)]:
        step()
    return y, requantizer


def _scaling(
    rng: np.random.Generator, low: float, high: float, channels: int, dtype: Any, relu: bool
) -> Scaling:
    q, shift = quantize_multipliers(2.0 ** rng.uniform(low, high, channels))
    least, most = RANGES[dtype]
    zero = int(rng.integers(least, most)) if dtype is not np.int16 else 0
    offset = rng.integers(-3000, 3000, channels)
    return Scaling(q, shift, offset, zero, zero if relu else least, most)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_bytes(dtype: Any, relu: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high, bound = [(-9, -4, 40_000), (-3, 2, 3_000), (-13, -9, 1_000_000)][seed % 3]
    # few channels with many rows, and the reverse
    channels, rows = [(5, 4001), (700, 30), (16, 600)][seed // 3 % 3]
    scaling = _scaling(rng, low, high, channels, dtype, relu)
    accumulators = _accumulators(rng, scaling, bound, rows)
    got, _ = _run(scaling, accumulators, bound, dtype)
    np.testing.assert_array_equal(got, scaling.apply(accumulators))


@pytest.mark.parametrize("wide", [False, True])
def test_int16(wide: bool) -> None:
    rng = np.random.default_rng(3)
    plain = _scaling(rng, -9, -2, 11, np.int16, False)
    scaling = Scaling(
        plain.q, plain.shift, plain.offset, plain.zero, plain.low, plain.high, wide=wide
    )
    accumulators = _accumulators(rng, scaling, 1 << 23, 500)
    got, _ = _run(scaling, accumulators, 1 << 23, np.int16)
    np.testing.assert_array_equal(got, scaling.apply(accumulators))


def test_multipliers_that_give_ties() -> None:
    rng = np.random.default_rng(5)
    plain = _scaling(rng, -8, -3, 40, np.int8, False)
    scaling = Scaling(
        plain.q >> 26 << 26, plain.shift, plain.offset, plain.zero, plain.low, plain.high
    )
    accumulators = _accumulators(rng, scaling, 30_000, 900)
    got, _ = _run(scaling, accumulators, 30_000, np.int8)
    np.testing.assert_array_equal(got, scaling.apply(accumulators))


@pytest.mark.parametrize("relu", [False, True])
def test_every_accumulator_of_a_proof(relu: bool) -> None:
    rng = np.random.default_rng(7)
    scaling = _scaling(rng, -9, -5, 12, np.int8, relu)
    bound = 20_000
    lines = find_lines(scaling, np.full(12, bound))
    assert lines is not None
    assert lines.proved.mean() > 0.5
    accumulators = np.repeat(np.arange(-bound, bound + 1)[:, None], 12, axis=1)
    got, _ = _run(scaling, accumulators, bound, np.int8)
    np.testing.assert_array_equal(got, scaling.apply(accumulators))


def test_a_channel_of_bias_alone() -> None:
    q, shift = quantize_multipliers(np.array([1e-9, 0.01]))
    scaling = Scaling(q, shift, np.array([1 << 30, 5]), 3, -128, 127)
    accumulators = np.zeros((20_000, 2), np.int64)
    accumulators[:, 1] = np.arange(20_000) % 4001
    y = np.zeros(accumulators.shape, np.int8)
    arithmetic = choose(scaling, np.array([0, 4000]), len(y))
    assert arithmetic.form == "float32" and arithmetic.right.all()
    requantizer = Requantizer(_scratch, arithmetic)
    for step in [*requantizer.setup, *requantizer.steps(accumulators.astype(np.float32), y)]:
        step()
    np.testing.assert_array_equal(y, scaling.apply(accumulators))


def test_fixed_point_products() -> None:
    rng = np.random.default_rng(11)
    multipliers = 2.0 ** rng.uniform(-20, 4, 200)
    values = rng.integers(-(1 << 24), 1 << 24, 200)
    q, shift = quantize_multipliers(multipliers)
    pairs = [(int(v), float(m)) for v, m in zip(values, multipliers, strict=True)]
    got = multiply_by_quantized_multiplier(values, q, shift)
    assert got.tolist() == [fixed_point(v, m) for v, m in pairs]
    got = multiply_by_quantized_multiplier_64(values, q, shift)
    assert got.tolist() == [fixed_point_wide(v, m) for v, m in pairs]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("product", [np.float32, np.float64])
def test_damaged_scales_count_as_nothing_without_a_warning(product: Any) -> None:
    signalling = np.array([0x7FA00000], np.uint32).view(np.float32)
    scales = np.concatenate([signalling, np.float32([np.inf, -np.inf, 3e38, -0.5])])
    x, weights, y = (
        TensorSpec((1,), DType.UINT8, Quantization(scale, np.zeros(scale.size, np.int64)))
        for scale in (np.float32([2.0]), scales, np.float32([0.25]))
    )
    want = [0, 0, 0, 0 if product is np.float32 else float(scales[3]) * 8, -4]
    assert multipliers(x, weights, y, product).tolist() == want
