"""The benchmark of single layers: its models compute the same here and there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_layers_agree_with_the_peer(
    root: Path, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import kernels as benchmark

    try:
        layers = [
            benchmark.Layer("CONV_2D", (1, 9, 8, 3), (8, 3, 3, 3), 2),
            benchmark.Layer("DEPTHWISE_CONV_2D", (1, 9, 8, 8), (3, 3)),
            benchmark.Layer("FULLY_CONNECTED", (1, 20), (11,)),
            benchmark.Layer("AVERAGE_POOL_2D", (1, 8, 8, 4), (2, 2), 2),
        ]
        for layer in layers:
            ours, peer, apart = benchmark.measure(layer, dtype, 0.01, 1)
            assert ours > 0 and peer > 0
            # the peer's own FULLY_CONNECTED rounds otherwise than its reference
            assert apart <= (1 if dtype == "int8" else 1e-5), layer
    finally:
        sys.modules.pop("kernels", None)
