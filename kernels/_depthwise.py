"""Convolution of each channel by itself.

numpy's einsum multiplies and adds in one pass where its innermost dimension is contiguous for all
operands, so rows of (width, channels) are flattened and the weights repeated along them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ._outputs import Outputs
from ._window import Block, Window, in_parallel, largest
from .api import Binding, Run
from .types import Array

# outputs of a block; elements of a repeated row; multiplications from which on two threads pay
_BLOCK = 1 << 16
_ROW = 1 << 12
_PARALLEL = 1 << 22
# fewer channels than this are too short a row for strided windows
_SHORT = 192


@dataclass(frozen=True, slots=True, eq=False)
class Taps:
    """Weights [kernel height, kernel width, units] as floats, and what stands around the input."""

    weights: Array
    pad: float


def depthwise(
    b: Binding,
    scratch: Callable[..., Array],
    x: Array,
    window: Window,
    taps: Taps,
    outputs: Callable[[int], Outputs],
) -> Run:
    """The convolution; `outputs(most)` makes a receiver of its sums (see `_outputs`)."""
    kh, kw, units = taps.weights.shape
    multiplier = units // x.shape[3]
    # [batch, height, width, channels, multiplier]; broadcasting loses the strides that windows need
    source = x[..., None]
    if multiplier > 1:
        source = np.broadcast_to(source, (*x.shape, multiplier))
    blocks = list(window.blocks(x.shape[0], window.out[1] * units, _BLOCK))
    work = x.shape[0] * window.out[0] * window.out[1] * units * kh * kw

    def steps(mine: Sequence[Block]) -> list[Run]:
        most = largest(mine)
        receiver = outputs(most[0] * most[1] * window.out[1])
        worker = _Worker(scratch, source, window, taps, most)
        made = [*receiver.setup, *worker.setup]
        for n, r in mine:
            sums, after = receiver.block(n, r)
            made += [*worker.block(n, r, sums), *after]
        return made

    return in_parallel(b, b.threads if work >= _PARALLEL else 1, blocks, steps)


def _run_length(width: int, units: int) -> int:
    """How many outputs of a row to flatten together: a divisor of the width."""
    if width * units <= 2 * _ROW:
        return width
    fits = max(d for d in range(1, width + 1) if width % d == 0 and (d * units <= _ROW or d == 1))
    # short loops cost more than weights that fill the cache
    return fits if fits * units >= _ROW // 4 else width


class _Worker:
    """The products of one thread."""

    def __init__(
        self,
        scratch: Callable[..., Array],
        x: Array,
        window: Window,
        taps: Taps,
        most: tuple[int, int],
    ) -> None:
        self._x, self._window, self._pad = x, window, taps.pad
        weights = taps.weights
        units, width = weights.shape[2], window.out[1]
        stride, dilation = window.stride[1], window.dilation[1]
        # columns taken apart by their remainder, so that windows of a remainder lie side by side
        self._phases = stride if dilation == 1 and stride > 1 and units < _SHORT else 1
        contiguous = stride == self._phases
        self._run = _run_length(width, units) if contiguous else 1
        self._weights: list[Array] = []
        self.setup: list[Run] = []
        for phase in range(min(self._phases, window.kernel[1])):
            own = weights[:, phase :: self._phases]
            if self._run > 1:
                tile = scratch((*own.shape[:2], self._run, units), own.dtype)
                self.setup.append(partial(np.copyto, tile, own[:, :, None]))
                own = tile.reshape(*own.shape[:2], -1)
            self._weights.append(own)
        images, rows = most
        shape = window.padded_shape(images, rows, units)
        copies = window.pads or x.dtype != weights.dtype or x.shape[4] > 1 or self._phases > 1
        self._padded: Array | None = None
        if copies:
            columns = -(-shape[2] // self._phases)
            self._padded = scratch((*shape[:2], self._phases, columns, units), weights.dtype)
        self._part: Array | None = None
        if len(self._weights) > 1:
            self._part = scratch((images * rows * width, units), weights.dtype)

    def block(self, n: slice, r: slice, sums: Array) -> list[Run]:
        """Steps that set sums [positions, units]."""
        window, images, rows = self._window, n.stop - n.start, r.stop - r.start
        steps: list[Run] = []
        if self._padded is None:
            top, bottom = window.span(0, r.start, r.stop)
            left, right = window.span(1, 0, window.out[1])
            region = self._x[n, top:bottom, left:right, :, 0][:, :, None]
        else:
            height = window.padded_shape(images, rows, 1)[1]
            region = self._padded[:images, :height]
            steps += self._fill(n, r, region)
        for phase, weights in enumerate(self._weights):
            out = sums if phase == 0 or self._part is None else self._part[: sums.shape[0]]
            windows = self._windows(region[:, :, phase], rows, weights.shape[1])
            target = out.reshape(images, rows, -1, windows.shape[-1])
            steps.append(partial(np.einsum, "nyabxc,abc->nyxc", windows, weights, out=target))
            if phase:
                steps.append(partial(np.add, sums, out, out=sums))
        return steps

    def _fill(self, n: slice, r: slice, region: Array) -> list[Run]:
        images, height, phases, columns, _ = region.shape
        if phases == 1:
            whole = region.reshape(images, height, columns, -1, self._x.shape[4])
            return self._window.fill(self._x, n, r, whole, self._pad)
        # the columns of the region in their order
        apart = region.swapaxes(2, 3)
        steps: list[Run] = []
        left, _ = self._window.span(1, 0, self._window.out[1])
        for phase in range(phases):
            steps += self._fill_phase(n, r, apart[:, :, :, phase], left + phase)
        return steps

    def _fill_phase(self, n: slice, r: slice, target: Array, first: int) -> list[Run]:
        window, phases = self._window, self._phases
        height, width = window.size
        top, bottom = window.span(0, r.start, r.stop)
        target = target.reshape(*target.shape[:3], -1, self._x.shape[4])
        above, below = max(0, -top), min(bottom, height) - top
        # target column i holds input column first + i * phases
        start = max(0, -(first // phases))
        stop = min(target.shape[2], -((first - width) // phases))
        stop = max(stop, start)
        edges = [target[:, :above], target[:, below:], target[:, :, :start], target[:, :, stop:]]
        steps: list[Run] = [partial(e.fill, self._pad) for e in edges if e.size]
        source = self._x[n, max(0, top) : min(bottom, height)]
        source = source[:, :, first + start * phases : first + (stop - 1) * phases + 1 : phases]
        inner = target[:, above:below, start:stop]
        if inner.size:
            steps.append(partial(np.copyto, inner, source, casting="unsafe"))
        return steps

    def _windows(self, region: Array, rows: int, taps: int) -> Array:
        """[images, rows, kernel height, taps, runs, run * units] of a region of one phase."""
        window = self._window
        n, h, w, c = region.strides
        units = region.shape[3]
        stride = window.stride[1] // self._phases
        shape = (region.shape[0], rows, window.kernel[0], taps, window.out[1] // self._run)
        strides = (n, h * window.stride[0], h * window.dilation[0], w * window.dilation[1])
        return as_strided(
            region,
            (*shape, self._run * units),
            (*strides, w * stride * self._run, c),
            writeable=False,
        )
