"""How fast a device is, and numpy beside it: measured once, kept on disk.

Small models, one for each kind of work, run through the interpreter as users' models do. The
figures are for choosing what runs where (`runtime.cost`), not for predicting.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from ...kernels._memory import aligned
from ...runtime.builder import ModelBuilder
from ...runtime.builder_graph import GraphBuilder, TensorRef
from ...runtime.cost import NUMPY, PROFILES, CostProfile
from ...runtime.delegate import Delegate
from ...runtime.interpreter import Interpreter
from .cache import ProgramCache
from .device import Device

VARIABLE = "LITEDELEGATE_COSTS"
FORMAT = "3"  # of what is kept: another one is measured anew
_SECONDS = 0.03  # for each model
_CHAIN = 16
_COPIED = 1 << 22  # bytes
_CONV: dict[str, Any] = {
    "padding": "SAME",
    "stride_w": 1,
    "stride_h": 1,
    "dilation_w_factor": 1,
    "dilation_h_factor": 1,
    "fused_activation_function": "NONE",
}
_PRODUCT: dict[str, Any] = {"fused_activation_function": "NONE", "keep_num_dims": False}
# what costs as much as EXP, by the estimate of `runtime.cost`
_LIKE_EXP = ("EXP", "LOG", "LOGISTIC", "TANH", "SIN", "COS", "ELU", "GELU", "POW", "SOFTMAX")


def choose(
    costs: str | CostProfile | None,
    device: Device,
    programs: ProgramCache,
    make: Callable[[], Delegate],
) -> tuple[CostProfile | None, CostProfile]:
    """The profiles of the device and of the host that `costs` asks for.

    "calibrated": measured, and kept with the built programs; where these are not kept, "none", for
    each process would measure anew. "none": whatever the device can run pays. Else one of
    `runtime.cost.PROFILES`, against that of numpy there. None: what the environment's
    LITEDELEGATE_COSTS says, else "calibrated". ValueError for another name.
    """
    name = checked(costs) or "calibrated"
    if isinstance(name, CostProfile):
        return name, NUMPY
    if name == "none" or (name == "calibrated" and programs.folder is None):
        return None, NUMPY
    if name == "calibrated":
        return profiles(device, programs, make)
    return PROFILES[name], NUMPY


def checked(costs: str | CostProfile | None) -> str | CostProfile | None:
    """`costs`, or, where it is None, what LITEDELEGATE_COSTS says. ValueError for what `choose`
    does not take: where a delegate is made, for later it would only take the delegate off.
    """
    wanted = costs or os.environ.get(VARIABLE) or None
    known = ("calibrated", "none", *PROFILES)
    if wanted is None or isinstance(wanted, CostProfile) or wanted in known:
        return wanted
    name = "costs" if costs else VARIABLE
    raise ValueError(f"{name}: got {wanted!r}; there are {', '.join(known)}")


def profiles(
    device: Device, programs: ProgramCache, make: Callable[[], Delegate]
) -> tuple[CostProfile, CostProfile]:
    """The device's and numpy's. `make` gives a delegate for the device that takes all it can."""
    own = partial(_measure, device.name, make, device)
    return (
        _kept(programs, device.identity(), own),
        _kept(programs, _numpy_identity(), partial(_measure, "numpy", None, None)),
    )


def _kept(
    programs: ProgramCache, identity: Sequence[str], measure: Callable[[], CostProfile]
) -> CostProfile:
    parts = ["costs", FORMAT, *identity]
    kept = programs.get(parts)
    profile = _read(kept) if kept is not None else None
    if profile is None:
        profile = measure()
        programs.put(parts, json.dumps(asdict(profile)).encode())
    return profile


def _read(kept: bytes) -> CostProfile | None:
    """None for what is damaged."""
    try:
        return CostProfile(**json.loads(kept))
    except (ValueError, TypeError):
        return None


def _numpy_identity() -> list[str]:
    from platform import machine, processor

    return ["numpy", np.__version__, machine(), processor(), str(os.cpu_count())]


def _measure(name: str, make: Callable[[], Delegate] | None, device: Device | None) -> CostProfile:
    seconds = partial(_seconds, [] if make is None else [make()])
    # additions, of which numpy makes one call each, and which a device would join
    chain = _products if make is not None else _additions
    one, many = seconds(chain(1)), seconds(chain(_CHAIN + 1))
    each = max(many - one, 1e-7) / _CHAIN
    beside = one if device is None else max(one - _seconds([], chain(1)), 0.0)

    def rate(model: bytes, operations: float) -> float:
        return operations / max(seconds(model) - one, 1e-6)

    by_op = {"DEPTHWISE_CONV_2D": rate(_depthwise(), 2 * 56 * 56 * 64 * 9)}
    by_op |= dict.fromkeys(_LIKE_EXP, rate(_exponentials(), 16 * (1 << 18)))
    transfer, copied = (0.0, float("inf")) if device is None else _copies(device)
    return CostProfile(
        name,
        operations=rate(_convolution(), 2 * 28 * 28 * 64 * 64 * 9),
        bytes=rate(_negative(), 2 * 4 * (1 << 20)),
        per_node=each if make is not None else 0.0,
        per_call=0.0 if make is not None else each,
        per_partition=beside,
        per_transfer=transfer,
        transfer_bytes=copied,
        by_op=by_op,
    )


def _seconds(delegates: Sequence[Delegate], model: bytes) -> float:
    """Of an invoke, the shortest of many: whatever else runs only adds."""
    with Interpreter(model_content=model, delegates=delegates) as interpreter:
        interpreter.allocate_tensors()
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], np.ones(detail["shape"], np.float32))
        interpreter.invoke()
        times: list[float] = []
        end = time.perf_counter() + _SECONDS
        while len(times) < 5 or (time.perf_counter() < end and len(times) < 200):
            start = time.perf_counter()
            interpreter.invoke()
            times.append(time.perf_counter() - start)
    return min(times)


def _copies(device: Device) -> tuple[float, float]:
    """Seconds for each copy, and bytes for each second of one."""
    array = aligned(_COPIED)
    array[:] = 0
    if device.wrap(array) is not None:
        return 0.0, float("inf")
    buffer = device.allocate(_COPIED)

    def copied(part: Any) -> float:
        times = []
        for _ in range(9):
            start = time.perf_counter()
            for _ in range(4):
                device.upload(buffer, part)
                device.download(buffer, part)
            device.synchronise()
            times.append((time.perf_counter() - start) / 8)
        return min(times)

    little, much = copied(array[:64]), copied(array)
    return little, _COPIED / max(much - little, 1e-9)


# -- models


def _model(build: Callable[[GraphBuilder], Any]) -> bytes:
    builder = ModelBuilder()
    graph = builder.subgraph("main")
    graph.outputs(build(graph))
    return builder.build()


def _additions(count: int) -> bytes:
    def build(g: GraphBuilder) -> Any:
        x = g.input("x", (1, 4))
        c = g.constant("c", np.ones((1, 4), np.float32))
        for i in range(count):
            out = (f"t{i}", (1, 4), "float32")
            x = g.op("ADD", [x, c], out, fused_activation_function="NONE")
        return x

    return _model(build)


def _products(count: int) -> bytes:
    """Products of next to nothing, which no fusion joins."""

    def build(g: GraphBuilder) -> Any:
        x = g.input("x", (1, 4))
        w = g.constant("w", np.eye(4, dtype=np.float32))
        for i in range(count):
            x = g.op("FULLY_CONNECTED", [x, w, None], (f"t{i}", (1, 4), "float32"), **_PRODUCT)
        return x

    return _model(build)


def _negative() -> bytes:
    def build(g: GraphBuilder) -> Any:
        return g.op("NEG", [g.input("x", (1 << 20,))], ("y", (1 << 20,), "float32"))

    return _model(build)


def _exponentials() -> bytes:
    def build(g: GraphBuilder) -> Any:
        return g.op("EXP", [g.input("x", (1 << 18,))], ("y", (1 << 18,), "float32"))

    return _model(build)


def _convolution() -> bytes:
    def build(g: GraphBuilder) -> Any:
        shape = (1, 28, 28, 64)
        x, w, b = _weights(g, shape, (64, 3, 3, 64))
        return g.op("CONV_2D", [x, w, b], ("y", shape, "float32"), **_CONV)

    return _model(build)


def _depthwise() -> bytes:
    def build(g: GraphBuilder) -> Any:
        shape = (1, 56, 56, 64)
        x, w, b = _weights(g, shape, (1, 3, 3, 64))
        return g.op(
            "DEPTHWISE_CONV_2D",
            [x, w, b],
            ("y", shape, "float32"),
            **_CONV,
            depth_multiplier=1,
        )

    return _model(build)


def _weights(
    g: GraphBuilder, shape: tuple[int, ...], weights: tuple[int, ...]
) -> tuple[TensorRef, TensorRef, TensorRef]:
    x = g.input("x", shape)
    w = g.constant("w", np.full(weights, 0.01, np.float32))
    return x, w, g.constant("b", np.zeros(64, np.float32))
