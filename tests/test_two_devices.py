"""Two OpenCL delegates, on two drivers, in one interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices import device

from litedelegate import Interpreter, ModelBuilder, Node, Registration, Unsupported
from litedelegate.delegates.opencl import OpenCLDelegate


class Some(OpenCLDelegate):
    """Takes some operators only."""

    ops: tuple[str, ...] = ()

    def lower(self, node: Node, registration: Registration) -> Any:
        if self.ops and node.op not in self.ops:
            raise Unsupported("OP", f"got {node.op}; takes {', '.join(self.ops)}")
        return super().lower(node, registration)


def both(folder: Path, *ops: str) -> list[Some]:
    made = []
    for backend in ("opencl-intel", "opencl-pocl"):
        driver = device(backend).device.platform.name.strip()
        made.append(Some(driver, cache=folder, costs="none"))
    made[0].ops = ops
    return made


def chain() -> bytes:
    """x, NEG, EXP, NEG, EXP, NEG."""
    b = ModelBuilder()
    g = b.subgraph("main")
    t = g.input("x", (1, 64))
    for i, op in enumerate(("NEG", "EXP", "NEG", "EXP", "NEG")):
        t = g.op(op, [t], (f"t{i}", (1, 64), "float32"))
    g.outputs(t)
    return b.build()


X = np.linspace(-1, 1, 64, dtype=np.float32)[None]


def test_both_run_their_nodes(tmp_path: Path) -> None:
    with Interpreter(model_content=chain()) as plain:
        want = plain.run({"x": X})["t4"]
    with Interpreter(model_content=chain(), delegates=both(tmp_path, "NEG")) as interpreter:
        for _ in range(2):
            np.testing.assert_allclose(interpreter.run({"x": X})["t4"], want, 1e-5)
        report = interpreter.delegate_coverage()
    assert [n.placed_on for n in report.nodes] == ["opencl", "opencl#2"] * 2 + ["opencl"]
    assert [r.delegate for n in report.nodes for r in n.refusals] == ["opencl"] * 2
    assert report.totals.delegated == {"opencl": 3, "opencl#2": 2}
    devices = {name: d["device"] for name, d in report.totals.delegates.items()}
    assert "Intel" in devices["opencl"] and "Portable" in devices["opencl#2"]


def test_one_fails_and_the_other_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = both(tmp_path, "NEG")
    with Interpreter(model_content=chain(), delegates=[first, second]) as interpreter:
        want = interpreter.run({"x": X})["t4"]

        def lost() -> None:
            raise RuntimeError("device lost")

        monkeypatch.setattr(first.device, "synchronise", lost)
        with pytest.warns(UserWarning, match=r"the delegate opencl is taken off.*device lost"):
            np.testing.assert_allclose(interpreter.run({"x": X})["t4"], want, 1e-5)
        report = interpreter.delegate_coverage()
        assert {n.placed_on for n in report.nodes} == {"opencl#2"}
        assert list(report.totals.not_used) == ["opencl"]
