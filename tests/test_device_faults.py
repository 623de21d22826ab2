"""What depends on values and is refused while a node runs: devices raise it, as numpy does."""

from __future__ import annotations

import numpy as np
import pytest
from devices import NAMES
from harness import OpError, Prepared, infer
from test_device import claim, target
from test_ops import ALL, REFUSED, arrays, node, registration

from litedelegate.delegates.gpu.fuse import Item
from litedelegate.delegates.gpu.plan import Plan
from litedelegate.kernels.device import PROFILES


def _at_invoke(key: str) -> bool:
    """Whether the node is prepared and has a device form: what is wrong is in its values."""
    op = registration(ALL[key])
    if op.lower is None or op.infer is None:
        return False
    try:
        infer(op, node(ALL[key]))
        return claim(key, PROFILES["intel-cpu"]).lowered is not None
    except OpError:
        return False


FAULTY = [key for key in REFUSED if _at_invoke(key)]


def test_there_are_some() -> None:
    assert {key.partition("-")[0] for key in FAULTY} >= {"gather", "arithmetic"}


@pytest.mark.parametrize("backend", [*NAMES, "opencl-intel-as-gpu", "cuda-standin"])
@pytest.mark.parametrize("key", FAULTY)
def test_faults(backend: str, key: str) -> None:
    case = ALL[key]
    claimed = claim(key, target(backend).capability)
    assert claimed.lowered is not None
    spec = claimed.spec
    with pytest.raises(OpError) as numpys:
        Prepared(registration(case), node(case), arrays(case)).run()
    inputs = {
        i: value
        for i, (s, value) in enumerate(zip(spec.inputs, arrays(case), strict=True))
        if s is not None and s.const is None and value is not None
    }
    outputs = {500 + i: np.zeros(s.shape, s.dtype.numpy) for i, s in enumerate(spec.outputs)}
    item = Item(spec, range(len(spec.inputs)), list(outputs), claimed.lowered)
    plan = Plan(target(backend), [item], list(inputs), list(outputs))
    for _ in range(2):  # nothing of the first call is left for the second
        with pytest.raises(OpError) as caught:
            plan.run(inputs, outputs)
        # devices do not say which value it was
        assert str(caught.value).split()[:2] == str(numpys.value).split()[:2]
