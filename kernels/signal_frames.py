"""Signal ops of TensorFlow Lite Micro that cut, delay and join streams: SignalFramer,
SignalOverlapAdd, SignalStacker, SignalDelay.

What is left of one call goes on in the next, until the variables are reset. Outer dimensions are
streams of their own. A frame that is not complete yet is zero (in the reference, what was in
memory).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._check import option_map
from ._signal import arity, last, number, stateful, typed
from .api import NodeSpec, Shape, require, take
from .types import Array, DType

_INT16, _BOOL = DType.INT16, DType.BOOL


# -- SignalFramer: samples [.., n] to overlapping frames [.., n / step, size], and whether all of
# them are complete


def _infer_framer(node: NodeSpec) -> list[Shape]:
    typed(node, [_INT16], [_INT16, _BOOL])
    outer, n = last(node, 0)
    size, step = _framing(node)
    require(n % step == 0, f"input 0 is {node.input(0)}; taken: multiples of frame_step, {step}")
    return [(*outer, n // step, size), ()]


def _framing(node: NodeSpec) -> tuple[int, int]:
    size = number(node.options, "frame_size", 1)
    return size, number(node.options, "frame_step", 1, size)


class _Framer:
    def __init__(self) -> None:
        self.buffer = np.zeros((0, 0), np.int16)
        self.size = self.step = self.n = self.waiting = 0
        self.prefill = False

    def prepare(self, node: NodeSpec) -> None:
        self.size, self.step = _framing(node)
        outer, self.n = last(node, 0)
        self.prefill = bool(option_map(node.options).get("prefill", False))
        # as many samples as can wait, and the new ones
        longest = -(-self.size // self.step) * self.step - self.step
        shape = (int(np.prod(outer, dtype=np.int64)), max(longest, self.size) + self.n)
        if self.buffer.shape != shape:
            self.buffer = np.zeros(shape, np.int16)
            self.reset()

    def reset(self) -> None:
        self.buffer.fill(0)
        self.waiting = self.size - self.step if self.prefill else 0

    def run(self, x: Sequence[Array], y: Sequence[Array]) -> None:
        buffer, step, held = self.buffer, self.step, self.waiting + self.n
        buffer[:, self.waiting : held] = x[0].reshape(len(buffer), -1)
        frames = y[0].reshape(len(buffer), -1, self.size)
        count = frames.shape[1]
        early = min(count, max(0, -(-(self.size - self.waiting) // step) - 1))
        frames[:, :early] = 0
        if early < count:
            windows = np.lib.stride_tricks.sliding_window_view(buffer, self.size, axis=1)
            frames[:, early:] = windows[:, : (count - early) * step : step]
        y[1][()] = early == 0
        used = (count - early) * step
        self.waiting = held - used
        buffer[:, : self.waiting] = buffer[:, used:held].copy()


# -- SignalOverlapAdd: frames [.., count, size] to samples [.., count * step]; int16 sums saturate


def _infer_overlap_add(node: NodeSpec) -> list[Shape]:
    arity(node, 1, 1)
    x = node.input(0)
    take(node, "input 0", x, DType.FLOAT32, _INT16)
    take(node, "output 0", node.outputs[0], x.dtype)
    require(x.rank >= 2 and x.size > 0, f"input 0 is {x}; taken: [.., frames, size], none of 0")
    step = number(node.options, "frame_step", 1, x.shape[-1])
    return [(*x.shape[:-2], x.shape[-2] * step)]


class _OverlapAdd:
    def __init__(self) -> None:
        self.sums = np.zeros((0, 0), np.float32)

    def prepare(self, node: NodeSpec) -> None:
        x = node.input(0)
        self.frames, size = x.shape[-2:]
        self.step = number(node.options, "frame_step")
        shape = (x.size // (self.frames * size), size)
        if self.sums.shape != shape or self.sums.dtype != x.dtype.numpy:
            self.sums = np.zeros(shape, x.dtype.numpy)
            # a frame can be int16, its sum with another cannot
            self.wide = np.zeros(shape, np.int32 if x.dtype is _INT16 else np.float32)

    def reset(self) -> None:
        self.sums.fill(0)

    def run(self, x: Sequence[Array], y: Sequence[Array]) -> None:
        sums, step = self.sums, self.step
        frames = x[0].reshape(len(sums), self.frames, -1)
        out = y[0].reshape(len(sums), self.frames, step)
        for i in range(self.frames):
            np.add(sums, frames[:, i], out=self.wide, dtype=self.wide.dtype)
            if sums.dtype == np.int16:
                np.clip(self.wide, -32768, 32767, out=self.wide)
            out[:, i] = self.wide[:, :step]
            sums[:, :-step] = self.wide[:, step:]
            sums[:, -step:] = 0


# -- SignalStacker: one frame [channels] to the frames around it in a row, and whether all are there


def _stacking(node: NodeSpec) -> tuple[int, int, int, int]:
    """Channels, frames before and after the one in the middle, frames from one row to the next."""
    channels = number(node.options, "num_channels", 1)
    left, right = (number(node.options, f"stacker_{k}_context", 0) for k in ("left", "right"))
    return channels, left, right, number(node.options, "stacker_step", 1, left + right + 1)


def _infer_stacker(node: NodeSpec) -> list[Shape]:
    typed(node, [_INT16], [_INT16, _BOOL])
    channels, left, right, _ = _stacking(node)
    x = node.input(0)
    require(x.shape == (channels,), f"input 0 is {x}; taken: [num_channels], {channels}")
    return [(channels * (left + right + 1),), ()]


class _Stacker:
    def __init__(self) -> None:
        self.rows = np.zeros((0, 0), np.int16)
        self.count, self.first = 0, True

    def prepare(self, node: NodeSpec) -> None:
        channels, self.left, right, self.step = _stacking(node)
        shape = (self.left + right + 1, channels)
        if self.rows.shape != shape:
            self.rows = np.zeros(shape, np.int16)
            self.reset()

    def reset(self) -> None:
        self.count, self.first = 0, True

    def run(self, x: Sequence[Array], y: Sequence[Array]) -> None:
        copies = 1 + self.left if self.first else 1  # what is before the first frame is like it
        self.first = False
        self.rows[self.count : self.count + copies] = x[0]
        self.count += copies
        full = self.count == len(self.rows)
        y[1][()] = full
        if not full:
            y[0].fill(0)
            return
        y[0][...] = self.rows.reshape(-1)
        self.rows[: -self.step] = self.rows[self.step :].copy()
        self.count -= self.step


# -- SignalDelay: samples [.., n], delay_length samples later


def _infer_delay(node: NodeSpec) -> list[Shape]:
    typed(node, [_INT16], [_INT16])
    last(node, 0)
    number(node.options, "delay_length", 0)
    return [node.input(0).shape]


class _Delay:
    def __init__(self) -> None:
        self.line = np.zeros((0, 0), np.int16)

    def prepare(self, node: NodeSpec) -> None:
        outer, n = last(node, 0)
        self.delay = number(node.options, "delay_length")
        shape = (int(np.prod(outer, dtype=np.int64)), self.delay + n)
        if self.line.shape != shape:
            self.line = np.zeros(shape, np.int16)

    def reset(self) -> None:
        self.line.fill(0)

    def run(self, x: Sequence[Array], y: Sequence[Array]) -> None:
        line = self.line
        n = line.shape[1] - self.delay
        line[:, self.delay :] = x[0].reshape(-1, n)
        y[0].reshape(-1, n)[...] = line[:, :n]
        line[:, : self.delay] = line[:, n:].copy()


OPS = {
    "SignalFramer": stateful("SignalFramer", _infer_framer, _Framer),
    "SignalOverlapAdd": stateful("SignalOverlapAdd", _infer_overlap_add, _OverlapAdd),
    "SignalStacker": stateful("SignalStacker", _infer_stacker, _Stacker),
    "SignalDelay": stateful("SignalDelay", _infer_delay, _Delay),
}
