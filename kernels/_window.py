"""Sliding windows over the height and width of [batch, height, width, channels] tensors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .api import Binding, OpError, Run
from .types import Array

Pair = tuple[int, int]
Pads = tuple[Pair, Pair]  # before and behind, of height and of width
Block = tuple[slice, slice]  # images, output rows

NO_PADS: Pads = ((0, 0), (0, 0))


def output_size(padding: str, size: int, kernel: int, stride: int, dilation: int) -> int:
    """Positions of a window along one dimension (TensorFlow's rule)."""
    if padding == "SAME":
        return -(-size // stride)
    if padding == "VALID":
        return (size + stride - ((kernel - 1) * dilation + 1)) // stride
    raise OpError(f"padding {padding}; taken: SAME, VALID")


def padding_before(size: int, kernel: int, stride: int, dilation: int, out: int) -> int:
    """Padding in front of one dimension; never below zero, whatever the stride."""
    return max((out - 1) * stride + (kernel - 1) * dilation + 1 - size, 0) // 2


@dataclass(frozen=True, slots=True)
class Window:
    """A window that slides over (height, width); all pairs in that order."""

    size: Pair
    kernel: Pair
    stride: Pair
    dilation: Pair
    before: Pair
    out: Pair

    @staticmethod
    def of(
        padding: str,
        size: Pair,
        kernel: Pair,
        stride: Pair,
        dilation: Pair = (1, 1),
        pads: Pads = NO_PADS,
    ) -> Window:
        """The window of these options. OpError where a number is not positive or nothing fits.

        `pads`: of a PAD in front that the window stands for too; `size` is without them.
        """
        if pads != NO_PADS:
            (top, bottom), (left, right) = pads
            outer = (size[0] + top + bottom, size[1] + left + right)
            window = Window.of(padding, outer, kernel, stride, dilation)
            shifted = (window.before[0] + top, window.before[1] + left)
            return replace(window, size=size, before=shifted)
        for name, pair in (("size", size), ("kernel", kernel), ("stride", stride)):
            if min(pair) < 1:
                raise OpError(f"{name} {pair[0]}x{pair[1]} (height x width); taken: 1 or more")
        if min(dilation) < 1:
            raise OpError(f"dilation {dilation[0]}x{dilation[1]}; taken: 1 or more")
        out = [output_size(padding, *p) for p in zip(size, kernel, stride, dilation, strict=True)]
        if min(out) < 0:
            raise OpError(
                f"a window of {kernel[0]}x{kernel[1]} with dilation {dilation[0]}x{dilation[1]} "
                f"does not fit into {size[0]}x{size[1]}; use SAME padding or a larger input"
            )
        before = [padding_before(*p) for p in zip(size, kernel, stride, dilation, out, strict=True)]
        return Window(size, kernel, stride, dilation, (before[0], before[1]), (out[0], out[1]))

    def turned(self) -> Window:
        """The same over (width, height)."""
        pairs = (self.size, self.kernel, self.stride, self.dilation, self.before, self.out)
        return Window(*((b, a) for a, b in pairs))

    def span(self, axis: int, start: int, stop: int) -> Pair:
        """First input index and one past the last that outputs start:stop see; may lie outside."""
        first = start * self.stride[axis] - self.before[axis]
        last = (stop - 1) * self.stride[axis] - self.before[axis]
        return first, last + (self.kernel[axis] - 1) * self.dilation[axis] + 1

    @property
    def pads(self) -> bool:
        """Whether any window reaches outside the input."""
        spans = (self.span(a, 0, self.out[a]) for a in (0, 1))
        return any(lo < 0 or hi > n for (lo, hi), n in zip(spans, self.size, strict=True))

    @property
    def pointwise(self) -> bool:
        return self.kernel == (1, 1) and not self.pads

    def blocks(self, batch: int, per_row: int, limit: int) -> Iterator[Block]:
        """Cuts [batch, out rows] into blocks of at most `limit` elements, `per_row` in a row.

        A block is a run of rows of one image, or of whole images.
        """
        rows = max(1, limit // max(per_row, 1))
        height = self.out[0]
        if rows >= height:
            images = max(1, rows // max(height, 1))
            for n in range(0, batch, images):
                yield slice(n, min(n + images, batch)), slice(0, height)
            return
        # blocks of equal size rather than a small one at the end
        rows = math.ceil(height / math.ceil(height / rows))
        for n in range(batch):
            for r in range(0, height, rows):
                yield slice(n, n + 1), slice(r, min(r + rows, height))

    def padded_shape(self, images: int, rows: int, channels: int) -> tuple[int, int, int, int]:
        """Shape of the input region that `rows` output rows see."""
        height = (rows - 1) * self.stride[0] + (self.kernel[0] - 1) * self.dilation[0] + 1
        low, high = self.span(1, 0, self.out[1])
        return images, height, high - low, channels

    def fill(self, x: Array, images: slice, rows: slice, padded: Array, value: Any) -> list[Run]:
        """Steps that copy what output rows `rows` see into `padded`, with `value` around it."""
        top, bottom = self.span(0, rows.start, rows.stop)
        left, right = self.span(1, 0, self.out[1])
        height, width = self.size
        inner = padded[
            :,
            max(0, -top) : min(bottom, height) - top,
            max(0, -left) : min(right, width) - left,
        ]
        source = x[images, max(0, top) : max(0, min(bottom, height))]
        source = source[:, :, max(0, left) : min(right, width)]
        edges = [
            padded[:, : max(0, -top)],
            padded[:, min(bottom, height) - top :],
            padded[:, :, : max(0, -left)],
            padded[:, :, min(right, width) - left :],
        ]
        steps: list[Run] = [partial(e.fill, value) for e in edges if e.size]
        if inner.size:
            steps.append(partial(np.copyto, inner, source, casting="unsafe"))
        return steps

    def view(self, padded: Array, rows: int) -> Array:
        """[images, rows, out width, kernel height, kernel width, channels] of a padded region."""
        n, h, w, c = padded.strides
        shape = (padded.shape[0], rows, self.out[1], *self.kernel, padded.shape[3])
        (sh, sw), (dh, dw) = self.stride, self.dilation
        return as_strided(padded, shape, (n, sh * h, sw * w, dh * h, dw * w, c), writeable=False)

    def runs(self, whole: Array, region: Array, rows: int) -> Array:
        """`view` of a region of the contiguous array `whole`, its last two dimensions, which must
        lie side by side, as one opaque item: numpy copies these faster than short rows.
        """
        view = self.view(region, rows)
        item = np.dtype((np.void, self.kernel[1] * region.shape[3] * region.itemsize))
        offset = region.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        return np.ndarray(view.shape[:4], item, whole, offset, view.strides[:4])


def largest(blocks: Sequence[Block]) -> tuple[int, int]:
    """Most images and most rows of any block: the first of a thread's may be the end of an image,
    smaller than those behind it."""
    images, rows = zip(*((n.stop - n.start, r.stop - r.start) for n, r in blocks), strict=True)
    return max(images), max(rows)


def in_parallel(
    b: Binding, threads: int, blocks: Sequence[Block], steps: Callable[[Sequence[Block]], list[Run]]
) -> Run:
    """One callable for all blocks, a run of them on each of at most `threads` threads.

    `steps(blocks)` makes the steps of one thread; they must not share working memory.
    """
    threads = max(1, min(threads, len(blocks)))
    cuts = [len(blocks) * i // threads for i in range(threads + 1)]
    tasks = [sequence(steps(blocks[a:z])) for a, z in itertools.pairwise(cuts)]
    return tasks[0] if threads == 1 else b.parallel(tasks)


def sequence(steps: Sequence[Run]) -> Run:
    """One callable for all steps."""
    if len(steps) == 1:
        return steps[0]
    flat = tuple(steps)

    def run() -> None:
        for step in flat:
            step()

    return run
