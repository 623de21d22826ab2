"""Real models with every node delegated that can be, to the same kernels: the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litedelegate import (
    Interpreter,
    Kernel,
    Node,
    Partition,
    Registration,
    SimpleDelegate,
    Unsupported,
)
from litedelegate.kernels.types import DType
from litedelegate.runtime.memory import Workspace
from litedelegate.runtime.node import NodeBinding
from litedelegate.runtime.threads import Pool

MODELS = (
    "mobilenet_v1_0.25_128_u8",
    "resnet8_f32",
    "lstm_int8",
    "kv_cache_multi_signature",
    "dtln_2_hybrid",
    "okay_nabu_streaming_int8",
    "lyra_soundstream_encoder",
    "ssd_mobilenet_v2_fpnlite_int8",
)


class Bound(Kernel):
    """The numpy kernels of the nodes, bound to arrays of the partition's own."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.launches = [n.op for n in partition.nodes]

    def attach(self) -> None:
        p = self.partition
        arrays: dict[int, Any] = {
            t.index: np.empty(t.shape, t.dtype.numpy) for n in p.nodes for t in n.outputs
        }
        arrays |= {t.index: t.array for t in (*p.inputs, *p.constants)}
        self.arrays, self.calls = arrays, []
        workspace = Workspace()
        for node, registration in zip(p.nodes, p.registrations, strict=True):
            assert registration.bind is not None
            workspace.begin()
            x = [None if t is None else arrays[t.index] for t in node.inputs]
            y = [arrays[t.index] for t in node.outputs]
            call = registration.bind(NodeBinding(node.spec, x, y, workspace, Pool(1), {}))
            if call is not None:
                self.calls.append(call)

    def invoke(self) -> None:
        p = self.partition
        for t in p.inputs:  # from another partition, which left it there
            if t.index not in p.host_inputs:
                np.copyto(self.arrays[t.index], p.shared[t.index])
        for call in self.calls:
            call()
        for t in p.outputs:
            p.shared[t.index] = self.arrays[t.index]
            if t.index in p.host_outputs:
                np.copyto(t.array, self.arrays[t.index])


class Everything(SimpleDelegate):
    name = "everything"
    leave: tuple[str, ...] = ()

    def lower(self, node: Node, registration: Registration) -> bool:
        if registration.bind is None or node.op in self.leave:
            raise Unsupported("OP", f"{node.op} is none of the plain kernels")
        for t in (*node.inputs, *node.outputs):
            if t is not None and t.dtype in (DType.STRING, DType.RESOURCE, DType.VARIANT):
                raise Unsupported("DTYPE", f"{t.name!r} is {t.dtype.label}")
        return True

    def build(self, partition: Partition) -> Kernel:
        return Bound(partition)


@pytest.mark.parametrize("leave", [(), ("ADD", "DEPTHWISE_CONV_2D", "RESHAPE", "LOGISTIC")])
@pytest.mark.parametrize("name", MODELS)
def test_the_same_bits(models: Path, name: str, leave: tuple[str, ...]) -> None:
    path = models / f"{name}.tflite"
    delegate = Everything()
    delegate.leave = leave
    with (
        Interpreter(path, num_threads=1) as plain,
        Interpreter(path, num_threads=1, delegates=[delegate]) as delegated,
    ):
        rng = np.random.default_rng(0)
        for key in list(plain.get_signature_list()) or [None]:
            runner = None if key is None else plain.get_signature_runner(key)
            details = (
                {d["name"]: d for d in plain.get_input_details()}
                if runner is None
                else runner.get_input_details()
            )
            for _ in range(2):  # the second finds the state of the first
                inputs = {n: random_value(rng, d) for n, d in details.items()}
                want = plain.run(inputs, signature_key=key)
                got = delegated.run(inputs, signature_key=key)
                for output, array in want.items():
                    np.testing.assert_array_equal(got[output], array, err_msg=output)
        report = delegated.delegate_coverage()
    assert report.partitions and not report.totals.not_used
    assert all(n.refusals for n in report.on_cpu)
    if not leave:
        assert report.totals.share_of_work > 0.9


def random_value(rng: np.random.Generator, detail: Any) -> Any:
    dtype, shape = np.dtype(detail["dtype"]), detail["shape"]
    if dtype.kind in "iu" and dtype.itemsize == 1:
        return rng.integers(0, 100, shape).astype(dtype)
    if dtype.kind in "iub":
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)
