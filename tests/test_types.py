"""Every op with every element type: it is taken and runs, or refused with a sentence."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cases import T
from harness import OpError
from type_sweep import (
    Attempt,
    Place,
    all_cases,
    attempts,
    data_places,
    real,
    seeds,
    single_places,
    taken_types,
    tensors_of,
)

from litedelegate.kernels.builtins import BUILTINS, CUSTOMS
from litedelegate.kernels.types import Array, DType, bfloat16_to_float32

OPS = [op for op in (*BUILTINS, *CUSTOMS) if op in all_cases()]
LABELS = {d.label for d in DType}
# A type that is taken with other parameters is refused for these. Ranks and shapes: of an option or
# operand that is read otherwise as that type.
OTHER_REASONS = re.compile(
    r"scale|zero point|quantis|activation|rank \d|num_input_elements|diagonal", re.IGNORECASE
)
# What the kernels find in values.
IN_VALUES = re.compile(r"Division by 0|only defined for|out of|does not fit|segment|negative")


def fault(trial: Attempt) -> str | None:
    """What is wrong with the way in which a type was refused; None if nothing."""
    error = trial.error
    if error is None:
        return None
    text = str(error)
    if not isinstance(error, OpError):
        return f"{trial}: {type(error).__name__}: {text}"
    if trial.accepted:
        return None if IN_VALUES.search(text) else f"{trial}: accepted, and then: {text}"
    named = LABELS & set(re.findall(r"\w+", text))
    # Where this tensor may have that type, the text may be about another that no longer fits it.
    alone = trial.dtype not in seen(trial.case.op) and trial.places == data_places(trial.case)[0]
    if len(named) > 1 and (trial.dtype.label in named or not alone):
        return None
    return None if OTHER_REASONS.search(text) else f"{trial}: {text}"


def seen(op: str) -> set[DType]:
    types = taken_types(op)
    return types.plain | types.quantised


@pytest.mark.parametrize("op", OPS)
def test_every_type_is_taken_or_refused_with_a_sentence(op: str) -> None:
    faults = []
    for dtype in DType:
        for case in seeds(op):
            sets = dict.fromkeys([*data_places(case), *single_places(case)])
            faults += [fault(trial) for trial in attempts(case, dtype, list(sets))]
    found = sorted({f for f in faults if f is not None})
    assert not found, "\n".join(found)


# Where a value depends on its type or the number of its bits. (As in the reference, an 8-bit
# embedding without a scale is 0.)
OF_BITS = {"BITCAST", "LSH_PROJECTION", "STABLEHLO_RNG_BIT_GENERATOR", "EMBEDDING_LOOKUP"}
PRECISION = {DType.FLOAT16: 4e-3, DType.BFLOAT16: 3e-2, DType.FLOAT64: 1e-5}


@pytest.mark.parametrize("op", [op for op in OPS if op not in OF_BITS])
def test_the_numbers_do_not_depend_on_the_type(op: str) -> None:
    """A float32 case of small numbers has the same answer in every type that can hold them."""
    for case in all_cases()[op]:
        places = data_places(case)
        if not places or not all(map(_small, tensors_of(case).values())):
            continue
        before = tensors_of(case)
        if any(before[p].type is not DType.FLOAT32 for p in places[0]):
            continue
        for dtype in DType:
            for trial in attempts(case, dtype, places):
                if trial.taken and not trial.quantised:
                    _check_same(before, trial)


def _small(tensor: T) -> bool:
    """Not quantised, and of numbers that no type with a sign takes for infinite or zero."""
    values = real(tensor)
    if tensor.quant is not None or values.dtype.kind not in "fiub":
        return False
    sizes = np.abs(values[values != 0].astype(np.float64))
    return bool(((sizes > 1e-3) & (sizes < 1e3)).all())


def _check_same(before: dict[Place, T], trial: Attempt) -> None:
    after = tensors_of(trial.case)
    tolerance = PRECISION.get(trial.dtype, 0.0)
    kept = all(np.array_equal(real(before[p]), real(after[p])) for p in before)
    if trial.dtype.numpy.kind == "O" or not (kept or tolerance):
        return
    for (place, want), got in zip(
        [(p, t) for p, t in before.items() if p.output], trial.outputs, strict=True
    ):
        np.testing.assert_allclose(
            _numbers(got, after[place].type),
            real(want),
            rtol=0,
            atol=max(tolerance, trial.case.tolerance) * np.abs(real(want)).max(initial=0),
            err_msg=str(trial),
        )


def _numbers(array: Array, dtype: DType) -> Array:
    return bfloat16_to_float32(array) if dtype is DType.BFLOAT16 else array
