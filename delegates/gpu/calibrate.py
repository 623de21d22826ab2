"""How fast a device is, and numpy beside it: measured once, kept on disk.

Small models, one for each kind of work, run through the interpreter as users' models do. The
figures are for choosing what runs where (`runtime.cost`), not for predicting.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from ...kernels._memory import aligned
from ...runtime.builder import ModelBuilder
from ...runtime.builder_graph import GraphBuilder, Quant
from ...runtime.cost import NUMPY, PROFILES, Cost, CostProfile, rates
from ...runtime.delegate import Delegate
from ...runtime.interpreter import Interpreter
from ...runtime.simple_delegate import SimpleDelegate
from .cache import ProgramCache
from .device import Device

VARIABLE = "LITEDELEGATE_COSTS"
FORMAT = "9"  # of what is kept: another one is measured anew
_SECONDS = 0.025  # for each model
_TRIES = 5
_LEAST = 0.4  # of an invoke, whatever is measured apart seems to take of it
_BATCH, _MOST_TIMES = 7, 300
_CHAIN = 16
# values of each addition on a device: enough for threads to stay awake from one to the next
_ADDED = 1 << 14
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
# what the speed of a device is told by: launches, operations of each kind, bytes; about those of a
# small detector
_LAUNCHES = 50
_WORK = {"CONV_2D": 1e8, "CONV_2D int8": 1e8, "DEPTHWISE_CONV_2D": 1e7, "EXP": 1e6}
_BYTES = 1e7


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
    return (
        device_profile(device, programs, make),
        _kept(programs, _numpy_identity(), partial(_measure, "numpy", None, None)),
    )


def device_profile(
    device: Device, programs: ProgramCache, make: Callable[[], Delegate]
) -> CostProfile:
    own = partial(_measure, device.name, make, device)
    return _kept(programs, device.identity(), own)


def _kept(
    programs: ProgramCache, identity: Sequence[str], measure: Callable[[], CostProfile]
) -> CostProfile:
    parts = ["costs", FORMAT, *identity]
    kept = programs.get(parts)
    profile = _read(kept) if kept is not None else None
    if profile is None:
        profile = _settled(measure)
        programs.put(parts, json.dumps(asdict(profile)).encode())
    return profile


def _settled(measure: Callable[[], CostProfile]) -> CostProfile:
    """Of a few tries the second best rate of each kind, and of the times the middle ones: a machine
    that is busy stalls some of all.
    """
    tries = [measure() for _ in range(_TRIES)]
    figures = [asdict(t) for t in tries]
    rates = [f.pop("by_op") for f in figures]
    names = [f.pop("name") for f in figures]
    bests = ("operations", "bytes", "copied")
    settled = {key: median(f[key] for f in figures) for key in figures[0] if key not in bests}
    settled |= {key: _second(f[key] for f in figures) for key in bests}
    by_op = {key: _second(r[key] for r in rates) for key in rates[0]}
    return CostProfile(names[0], **settled, by_op=by_op)


def _second(figures: Iterable[float]) -> float:
    return sorted(figures)[-2:][0]


def _read(kept: bytes) -> CostProfile | None:
    """None for what is damaged."""
    try:
        return CostProfile(**json.loads(kept))
    except (ValueError, TypeError):
        return None


def _numpy_identity() -> list[str]:
    from platform import machine, processor

    return ["numpy", np.__version__, machine(), processor(), str(os.cpu_count())]


def speed(profile: CostProfile) -> float:
    """Seconds of a typical model by a profile: the less the better."""
    work = [profile.arithmetic(key, Cost(int(count))) for key, count in _WORK.items()]
    launches = profile.per_partition + _LAUNCHES * profile.per_node
    return launches + sum(work) + _BYTES / profile.bytes


def _measure(name: str, make: Callable[[], Delegate] | None, device: Device | None) -> CostProfile:
    if make is None or device is None:
        return _measure_host(name)
    one, each = _chain(_ADDED, [_unfused(make())])
    beside, call = _chain(4)
    transfer, copied = _copies(device)
    rate = _rates([make()])
    moved = rate(_negative(), _NEGATED)
    return CostProfile(
        name,
        operations=rate(_convolution("float32"), _OPERATIONS),
        bytes=moved,
        per_node=each,
        # what an invoke of numpy has beside its nodes is there on both sides
        per_partition=max((one - each) - (beside - call), 0.0),
        per_transfer=transfer,
        transfer_bytes=copied,
        by_op=rates(
            rate(_depthwise(), _DEPTHWISE),
            rate(_exponentials(), _EXPONENTIALS),
            rate(_hybrid(), _HYBRID),
            rate(_convolution("int8"), _OPERATIONS),
        ),
    )


def _measure_host(name: str) -> CostProfile:
    _, each = _chain(4)
    rate = _rates([])
    moved = rate(_negative(), _NEGATED)
    return CostProfile(
        name,
        operations=rate(_convolution("float32"), _OPERATIONS),
        bytes=moved,
        per_node=0.0,
        per_call=each / _CALLS_OF_ADD,
        copied=moved,
        by_op=rates(
            rate(_depthwise(), _DEPTHWISE),
            rate(_exponentials(), _EXPONENTIALS),
            rate(_hybrid(), _HYBRID),
        ),
    )


def _unfused(delegate: Delegate) -> Delegate:
    """The delegate, made to launch each small kernel on its own."""
    if isinstance(delegate, SimpleDelegate):
        delegate.build = delegate.build_unfused  # type: ignore[method-assign,assignment]
    return delegate


def _chain(size: int, delegates: Sequence[Delegate] = ()) -> tuple[float, float]:
    """Seconds of an invoke of one addition of so many values, and of each that is added to it.

    The middle one of the best batch: the shortest can have found the device's threads awake, and
    on a busy machine most have found them without a core.
    """
    one, many = (_typical(_times(delegates, _additions(n, size))) for n in (1, _CHAIN + 1))
    return one, max(many - one, _LEAST * many) / _CHAIN


def _typical(times: Sequence[float]) -> float:
    return min(median(times[i : i + _BATCH]) for i in range(0, len(times) - _BATCH + 1, _BATCH))


def _rates(delegates: Sequence[Delegate]) -> Callable[[bytes, float], float]:
    """What tells how many of something a model does in a second, by its shortest invoke: whatever
    else runs only adds.
    """

    def shortest(model: bytes) -> float:
        return min(_times(delegates, model))

    one = shortest(_additions(1, 4))

    def rate(model: bytes, count: float) -> float:
        whole = shortest(model)
        return count / max(whole - one, _LEAST * whole)

    return rate


def _times(delegates: Sequence[Delegate], model: bytes) -> list[float]:
    """Seconds of invokes."""
    with Interpreter(model_content=model, delegates=delegates) as interpreter:
        interpreter.allocate_tensors()
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], np.ones(detail["shape"], detail["dtype"]))
        interpreter.invoke()
        times: list[float] = []
        end = time.perf_counter() + _SECONDS
        while len(times) < _BATCH or (time.perf_counter() < end and len(times) < _MOST_TIMES):
            start = time.perf_counter()
            interpreter.invoke()
            times.append(time.perf_counter() - start)
    return times


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


_PIXELS, _SIDE, _CHANNELS, _UNITS = 28 * 28, 56, 96, 96
_OPERATIONS = 2 * _PIXELS * _CHANNELS * _UNITS
_DEPTHWISE = 2 * _SIDE * _SIDE * 64 * 9
_NEGATED = 2 * 4 * (1 << 20)  # bytes
_EXPONENTIALS = 16 * (1 << 18)  # as `runtime.cost` counts them
_HYBRID = 2 * 512 * 512
_CALLS_OF_ADD = 2


def _additions(count: int, size: int) -> bytes:
    def build(g: GraphBuilder) -> Any:
        x = g.input("x", (1, size))
        c = g.constant("c", np.ones((1, 1), np.float32))
        for i in range(count):
            out = (f"t{i}", (1, size), "float32")
            x = g.op("ADD", [x, c], out, fused_activation_function="NONE")
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


def _convolution(kind: str) -> bytes:
    """Of single pixels: a product of matrices."""

    def scaled(scale: float) -> Quant | None:
        return Quant(scale, 0) if kind == "int8" else None

    def build(g: GraphBuilder) -> Any:
        x = g.input("x", (1, 28, 28, _CHANNELS), kind, quant=scaled(0.05))
        w = g.constant("w", np.ones((_UNITS, 1, 1, _CHANNELS), kind), quant=scaled(0.05))
        sums = "int32" if kind == "int8" else kind
        b = g.constant("b", np.zeros(_UNITS, sums), quant=scaled(0.0025))
        y = g.tensor("y", (1, 28, 28, _UNITS), kind, quant=scaled(2.0))
        return g.op("CONV_2D", [x, w, b], y, **_CONV)

    return _model(build)


def _hybrid() -> bytes:
    """A row of floats by integer weights."""

    def build(g: GraphBuilder) -> Any:
        weights = np.ones((512, 512), np.int8)
        x, w = g.input("x", (1, 512)), g.constant("w", weights, quant=Quant(0.05, 0))
        bias = g.constant("b", np.zeros(512, np.float32))
        y = ("y", (1, 512), "float32")
        return g.op("FULLY_CONNECTED", [x, w, bias], y, **_PRODUCT)

    return _model(build)


def _depthwise() -> bytes:
    shape = (1, _SIDE, _SIDE, 64)

    def build(g: GraphBuilder) -> Any:
        x = g.input("x", shape)
        w = g.constant("w", np.full((1, 3, 3, 64), 0.01, np.float32))
        b = g.constant("b", np.zeros(64, np.float32))
        y = ("y", shape, "float32")
        return g.op("DEPTHWISE_CONV_2D", [x, w, b], y, **_CONV, depth_multiplier=1)

    return _model(build)
