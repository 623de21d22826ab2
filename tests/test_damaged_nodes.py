"""Nodes of a damaged model: an error that says what is wrong, never one of Python's own."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from harness import NodeSpec, OpError, Prepared
from test_ops import ALL, GOOD, arrays, node, registration

from litedelegate import Interpreter, ModelBuilder
from litedelegate.kernels.api import Quantization, TensorSpec
from litedelegate.runtime.model_tables import CustomOptions

SCALES = [np.inf, np.nan, 1e-45, 3e38, -1.0]
QUANTISED = [k for k in GOOD if any(t is not None and t.quant for t in ALL[k].tensors)]
BROKEN = [b"\xff\xff\xff", b"a", b"\x05\x04\x01", b"\x01\x02\x03\x28\x01"]


def has_map(options: Any) -> Any:
    """Others read no options, or a struct."""
    return isinstance(options, dict) and "flexbuffer" in options and options["flexbuffer"]()


CUSTOM = sorted({ALL[k].op: k for k in GOOD if has_map(ALL[k].options)}.values())


def damaged(spec: TensorSpec | None, scale: float) -> TensorSpec | None:
    if spec is None or spec.quant is None:
        return spec
    old = spec.quant
    scales = np.full(old.scale.shape, scale, np.float32)
    return dataclasses.replace(
        spec, quant=Quantization(scales, old.zero_point, old.axis, old.block_size)
    )


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_scales_that_are_none(scale: float) -> None:
    """Each tensor in turn, in every case of every op: it is taken, or an OpError says why not."""
    others: list[str] = []
    for key in QUANTISED:
        case = ALL[key]
        whole = node(case)
        for side in ("inputs", "outputs", "intermediates"):
            specs = list(getattr(whole, side))
            for i, spec in enumerate(specs):
                if spec is None or spec.quant is None:
                    continue
                changed = [*specs[:i], damaged(spec, scale), *specs[i + 1 :]]
                broken: NodeSpec = dataclasses.replace(whole, **{side: changed})
                try:
                    Prepared(registration(case), broken, arrays(case)).run()
                except OpError:
                    pass
                except Exception as e:
                    others.append(f"{key}, {side} {i}: {type(e).__name__}: {e}")
    assert not others, "\n".join(others)


@pytest.mark.parametrize("raw", BROKEN)
@pytest.mark.parametrize("key", CUSTOM)
def test_options_that_are_no_map(key: str, raw: bytes) -> None:
    case = ALL[key]
    broken = dataclasses.replace(node(case), options=CustomOptions(raw))
    with pytest.raises(OpError, match="option"):
        Prepared(registration(case), broken, arrays(case))


@pytest.mark.parametrize(("limit", "delta"), [(1e30, 1e-30), (1e30, 1.0), (3e9, 1.0)])
def test_ranges_without_end(limit: float, delta: float) -> None:
    b = ModelBuilder()
    g = b.subgraph()
    x = [g.input(n, ()) for n in ("start", "limit", "delta")]
    g.outputs(g.op("RANGE", x, ("y", (0,), "float32")))
    with pytest.raises(RuntimeError, match=r"RANGE from 0.* elements[\s\S]*Node number 0"):
        Interpreter(model_content=b.build()).run({"start": 0.0, "limit": limit, "delta": delta})
