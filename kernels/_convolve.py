"""Convolution as matrix products of window columns with packed weights, in cache-sized blocks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from ._outputs import Outputs
from ._window import Block, Window, in_parallel, largest
from .api import Binding, Run
from .types import Array

# elements of a block of columns, and of a block of results
COLUMNS = 1 << 18
RESULTS = 1 << 17

# From so many multiplications on two threads pay, if the depth is such that most of the time goes
# into products: between numpy's short calls threads wait for each other.
_PARALLEL = 1 << 24
_DEEP = 96

# integers of this size and below are exact in float32
EXACT = 1 << 24

# so few rows are a matrix product faster when it is turned over, with weights in Fortran's order
FEW = 8
_MANY = 1 << 16

Order = Literal["C", "F"]


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Weights as BLAS takes them: one [depth, units] matrix for each group, float32 or float64.

    `cuts`: slices of the depth within which float32 adds integer products up without rounding; just
    one where all of it does, or where rounding is allowed. `bounds` [units]: the largest absolute
    sums.
    """

    groups: tuple[Array, ...]
    cuts: tuple[slice, ...]
    bounds: Array

    @property
    def units(self) -> int:
        return sum(g.shape[1] for g in self.groups)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.groups[0].dtype

    @property
    def sum_dtype(self) -> Any:
        """Type that holds the sums of all cuts."""
        return np.float32 if self.dtype == np.float32 and len(self.cuts) == 1 else np.float64


def pack(weights: Array, groups: int, dtype: Any, order: Order = "C") -> Packed:
    """Packs float weights [units, ..., channels of a group]."""
    matrices = weights.reshape(groups, weights.shape[0] // groups, -1).swapaxes(1, 2)
    packed = tuple(np.array(m, dtype, order=order) for m in matrices)
    return Packed(packed, (slice(None),), np.zeros(weights.shape[0], np.int64))


def pack_integers(weights: Array, groups: int, low: int, high: int, order: Order = "C") -> Packed:
    """Packs integer weights for products with integers from low to high."""
    matrices = weights.reshape(groups, weights.shape[0] // groups, -1).swapaxes(1, 2)
    bounds = largest_sums(matrices, low, high).reshape(-1)
    depth = matrices.shape[1]
    for parts in range(1, 9):
        edges = [depth * i // parts for i in range(parts + 1)]
        cuts = tuple(slice(a, b) for a, b in itertools.pairwise(edges))
        if all(largest_sums(matrices[:, c], low, high).max() <= EXACT for c in cuts):
            dtype: Any = np.float32
            break
    else:
        cuts, dtype = (slice(None),), np.float64
    return Packed(tuple(np.array(m, dtype, order=order) for m in matrices), cuts, bounds)


def largest_sums(matrices: Array, low: int, high: int) -> Array:
    """Largest absolute value that any part of a sum of products with integers from low to high can
    reach: [groups, units] of matrices [groups, depth, units]."""
    above = np.maximum(matrices, 0).sum(axis=1, dtype=np.int64)
    below = np.minimum(matrices, 0).sum(axis=1, dtype=np.int64)
    most = np.maximum(high, 0) * above + np.minimum(low, 0) * below
    least = np.minimum(low, 0) * above + np.maximum(high, 0) * below
    return np.asarray(np.maximum(most, -least))


def convolve(
    b: Binding,
    scratch: Callable[..., Array],
    x: Array,
    window: Window,
    packed: Packed,
    pad: float,
    outputs: Callable[[int], Outputs],
) -> Run:
    """A convolution of x [batch, height, width, channels], with `pad` standing around it.

    `outputs(most)` makes a receiver of the sums, in blocks of at most so many positions.
    """
    depth = window.kernel[0] * window.kernel[1] * x.shape[3]
    limit = RESULTS
    if not _Columns(x, window, packed).in_order:
        limit = min(limit, COLUMNS * packed.units // depth)
    results = x.shape[0] * window.out[0] * window.out[1] * packed.units
    work, deep = results * depth // len(packed.groups), depth >= _DEEP
    threads = b.threads if work >= (_PARALLEL if deep else 2 * _PARALLEL) else 1
    if threads > 1:
        limit = min(limit, -(-results // threads))
    blocks = list(window.blocks(x.shape[0], window.out[1] * packed.units, limit))
    return in_parallel(
        b, threads, blocks, lambda mine: _steps(scratch, x, window, packed, pad, outputs, mine)
    )


def cuttable(x: Array, y: Array, window: Window) -> tuple[Array, Array, Window]:
    """The same images, but a single row that is too long for a block as a column."""
    depth = window.kernel[0] * window.kernel[1] * x.shape[3]
    if window.size[0] > 1 or window.kernel[0] > 1 or window.out[1] * depth <= 4 * COLUMNS:
        return x, y, window
    return x.swapaxes(1, 2), y.swapaxes(1, 2), window.turned()


def _steps(
    scratch: Callable[..., Array],
    x: Array,
    window: Window,
    packed: Packed,
    pad: float,
    outputs: Callable[[int], Outputs],
    blocks: Sequence[Block],
) -> list[Run]:
    """The steps of one thread."""
    columns = _Columns(x, window, packed)
    positions = columns.allocate(scratch, *largest(blocks))
    units = packed.groups[0].shape[1]
    part = scratch((positions, units), packed.dtype) if len(packed.cuts) > 1 else None
    receiver = outputs(positions)
    steps = list(receiver.setup)
    for n, r in blocks:
        matrices, before = columns.block(n, r, pad)
        sums, after = receiver.block(n, r)
        steps += before
        for g, (matrix, weights) in enumerate(zip(matrices, packed.groups, strict=True)):
            out = sums if len(packed.groups) == 1 else sums[:, g * units : (g + 1) * units]
            steps += product(matrix, weights, out, packed.cuts, part, scratch)
        steps += after
    return steps


def order_for(rows: int) -> Order:
    """The order of weights that products of so many rows are fastest with."""
    return "F" if rows <= FEW else "C"


def product(
    columns: Array,
    weights: Array,
    out: Array,
    cuts: Sequence[slice],
    part: Array | None,
    scratch: Callable[..., Array],
) -> list[Run]:
    """Steps that set out = columns @ weights; with `part`, cut by cut through it."""
    rows = len(columns)
    if part is None and 1 < rows <= FEW and weights.size >= _MANY and weights.flags.f_contiguous:
        turned = scratch(out.shape[::-1], out.dtype)
        return [
            partial(np.matmul, weights.T, columns.T, out=turned),
            partial(np.copyto, out, turned.T),
        ]
    if part is None:
        return [partial(np.matmul, columns, weights, out=out)]
    part = part[: out.shape[0]]
    steps: list[Run] = []
    for cut in cuts:
        steps.append(partial(np.matmul, columns[:, cut], weights[cut], out=part))
        first = len(steps) == 1
        steps.append(partial(np.copyto, out, part) if first else partial(np.add, out, part, out))
    return steps


class _Columns:
    """Matrices [positions, depth] of the input values that the outputs of a block see."""

    def __init__(self, x: Array, window: Window, packed: Packed) -> None:
        self._x, self._window = x, window
        self._groups, self._dtype = len(packed.groups), packed.dtype
        self.depth = window.kernel[0] * window.kernel[1] * x.shape[3]
        self._copied = not window.pointwise and (x.dtype != packed.dtype or window.pads)
        # the matrix is the input (or the copy of it) as it lies
        single = window.out == (1, 1) and window.dilation == (1, 1)
        whole = single and (self._copied or window.size == window.kernel)
        plain = window.pointwise and window.stride == (1, 1) and x.dtype == packed.dtype
        self.in_order = self._groups == 1 and (whole or plain)
        self._padded: Array | None = None
        self._columns: Array | None = None

    def allocate(self, scratch: Callable[..., Array], images: int, rows: int) -> int:
        """Takes working memory for the largest block; its number of positions."""
        positions = images * rows * self._window.out[1]
        if self._copied:
            shape = self._window.padded_shape(images, rows, self._x.shape[3])
            self._padded = scratch(shape, self._dtype)
        if not self.in_order:
            shape3 = (self._groups, positions, self.depth // self._groups)
            self._columns = scratch(shape3, self._dtype)
        return positions

    def block(self, n: slice, r: slice, pad: float) -> tuple[Sequence[Array], list[Run]]:
        """The matrices of a block, one for each group, and the steps that fill them."""
        window, images, rows = self._window, n.stop - n.start, r.stop - r.start
        steps: list[Run] = []
        if self._padded is not None:
            height = window.padded_shape(images, rows, 1)[1]
            region = self._padded[:images, :height]
            steps += window.fill(self._x, n, r, region, pad)
        else:
            region = self._x[
                (
                    n,
                    *(
                        slice(*window.span(a, s.start, s.stop))
                        for a, s in ((0, r), (1, slice(0, window.out[1])))
                    ),
                )
            ]
        positions = images * rows * window.out[1]
        if self._columns is None:
            return [region.reshape(positions, self.depth)], steps
        columns = [c[:positions] for c in self._columns]
        whole = self._x if self._padded is None else self._padded
        if self._groups == 1 and window.dilation[1] == 1 and whole.dtype == self._dtype:
            runs = window.runs(whole, region, rows)
            target = columns[0].reshape(*runs.shape, -1).view(runs.dtype)[..., 0]
            return columns, [*steps, partial(np.copyto, target, runs)]
        parts = np.split(window.view(region, rows), self._groups, axis=-1)
        for c, part in zip(columns, parts, strict=True):
            steps.append(partial(np.copyto, c.reshape(part.shape), part, casting="unsafe"))
        return columns, steps
