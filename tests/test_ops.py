"""Every case table, on the numpy kernels."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import cases
import numpy as np
import pytest
from cases import Case, T
from harness import NodeSpec, OpError, Options, Prepared, infer

from litedelegate.kernels.api import Registration
from litedelegate.kernels.builtins import find_builtin, find_custom
from litedelegate.kernels.types import Array, DType, bfloat16_to_float32


def _all_cases() -> Iterator[tuple[str, Case]]:
    for module in pkgutil.iter_modules(cases.__path__):
        table: list[Case] = importlib.import_module(f"cases.{module.name}").CASES
        for i, case in enumerate(table):
            yield f"{module.name}-{case.op}-{case.name or i}", case


ALL = dict(_all_cases())
GOOD = [i for i, c in ALL.items() if c.want is not None]
REFUSED = [i for i, c in ALL.items() if c.refused is not None]


def registration(case: Case) -> Registration:
    found = find_custom(case.op) if case.custom else find_builtin(case.op)
    assert found is not None, f"no op {case.op}"
    low, high = found.versions
    assert low <= case.version <= high, f"{case.op} takes versions {low} to {high}"
    return found


def node(case: Case, const: bool | None = None) -> NodeSpec:
    inputs = [
        None if t is None else t.spec(f"input{i}", False if t.variable else const)
        for i, t in enumerate(case.tensors)
    ]
    outputs = [t.spec(f"output{i}", False) for i, t in enumerate(case.declared)]
    inner = [t.spec(f"intermediate{i}", False) for i, t in enumerate(case.intermediates)]
    raw = case.options
    options = raw if isinstance(raw, bytes) else Options(raw)
    return NodeSpec(case.op, inputs, outputs, options, case.version, intermediates=inner)


def arrays(case: Case) -> list[Array | None]:
    return [None if t is None else t.array for t in case.tensors]


def check(case: Case, got: list[Array], what: str) -> None:
    for i, (array, want) in enumerate(zip(got, case.wanted, strict=True)):
        compare(array, want.array, want, case, f"{what}, output {i}")


def compare(got: Array, expected: Array, want: T, case: Case, what: str) -> None:
    assert got.shape == expected.shape, what
    assert got.dtype == expected.dtype, what
    if want.type is DType.BFLOAT16:
        got, expected = bfloat16_to_float32(got), bfloat16_to_float32(expected)
    if got.dtype == object:
        assert got.tolist() == expected.tolist(), what
    elif got.dtype.kind in "fc":
        finite = np.abs(expected[np.isfinite(expected)])
        atol = case.tolerance * float(finite.max(initial=0.0))
        np.testing.assert_allclose(got, expected, rtol=0, atol=atol, err_msg=what)
        # the sign of a zero counts where the case gives one
        zero = (expected == 0) & np.signbit(expected.real) & (case.tolerance == 0)
        assert np.signbit(got.real[zero]).all(), what
    elif got.dtype == np.bool_:
        np.testing.assert_array_equal(got.view(np.uint8), expected.view(np.uint8), err_msg=what)
    else:
        apart = np.abs(got.astype(np.float64) - expected.astype(np.float64))
        assert case.step or (got == expected).all(), f"{what}: {got} for {expected}"
        assert apart.max(initial=0) <= case.step, f"{what}: {got} for {expected}"


@pytest.mark.parametrize("key", GOOD)
def test_values(key: str) -> None:
    case = ALL[key]
    bound = Prepared(registration(case), node(case), arrays(case))
    if bound.static:
        shapes = infer(registration(case), node(case))
        assert shapes == [t.array.shape for t in case.wanted]
    check(case, bound.run(), "first call")
    for i, tensor in enumerate(case.tensors):
        now, first = bound.x[i], bound.first[i]
        if tensor is None or now is None or first is None:
            continue
        if i in case.updated:
            after = T(case.updated[i], tensor.dtype)
            compare(now, after.array, after, case, f"input {i} after the call")
        else:
            kept = np.array_equal(now, first, equal_nan=now.dtype.kind in "fc")
            assert kept, f"input {i} changed"
    if not case.updated:
        check(case, bound.run(reverse=True), "second call")


@pytest.mark.parametrize("key", [i for i in GOOD if not ALL[i].updated])
def test_values_when_all_inputs_are_constant(key: str) -> None:
    case = ALL[key]
    bound = Prepared(registration(case), node(case, const=True), arrays(case))
    assert bound.static
    check(case, bound.run(), "with constants")


@pytest.mark.parametrize("key", [i for i in GOOD if not ALL[i].updated])
def test_values_in_place(key: str) -> None:
    case = ALL[key]
    op = registration(case)
    values, out = arrays(case), case.wanted[0].array
    for i in op.inplace:
        tensor = case.tensors[i] if i < len(values) else None
        value = None if tensor is None or tensor.const else tensor.array
        if value is None or value.nbytes != out.nbytes or object in (value.dtype, out.dtype):
            continue
        bound = Prepared(op, node(case), values, share=i)
        check(case, bound.run(), f"in the memory of input {i}")


@pytest.mark.parametrize("key", REFUSED)
def test_refusals(key: str) -> None:
    case = ALL[key]
    assert case.refused is not None
    with pytest.raises(OpError) as caught:
        Prepared(registration(case), node(case), arrays(case)).run()
    assert case.refused in str(caught.value)
