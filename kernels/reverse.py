"""REVERSE_V2 and REVERSE_SEQUENCE."""

from __future__ import annotations

import numpy as np

from ._lower import check, indices, moved
from ._rows_lower import coordinates, dot, rows, strides_of
from ._shape import INDEX, axis_of, copies, copy, integers, known, like, rank_is, settled, size_of
from .api import Binding, NodeSpec, OpError, Registration, Run, Shape, op, take
from .device import Capability, Lowered


def _reverse(node: NodeSpec) -> list[Shape | None]:
    x, axes = node.input(0), node.input(1)
    like(node, x, node.outputs[0])
    take(node, "axes", axes, *INDEX)
    rank_is(node, "axes", axes, 0, 1)
    for axis in known(axes) or ():
        axis_of(node, axis, x.rank)
    return [x.shape]


def _bind_reverse(b: Binding) -> Run | None:
    x = b.xi(0)

    def make() -> Run:
        axes = {axis_of(b, a, x.ndim) for a in integers(b, 1)}
        return copy(b.y[0], np.flip(x, tuple(axes)))

    return settled(b, (1,), make)


def _lower_reverse(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x = node.input(0)
    axes = {axis_of(node, a, x.rank) for a in indices(node.input(1))}
    return Lowered([moved(x.shape, lambda a: np.flip(a, tuple(axes)))])


def _reverse_sequence(node: NodeSpec) -> list[Shape | None]:
    x, lengths, o = node.input(0), node.input(1), node.options
    like(node, x, node.outputs[0])
    take(node, "seq_lengths", lengths, *INDEX)
    rank_is(node, "seq_lengths", lengths, 1)
    for dim in (o.seq_dim, o.batch_dim):
        if not 0 <= dim < x.rank or o.seq_dim == o.batch_dim:
            raise OpError(
                f"REVERSE_SEQUENCE takes two different dimensions of {x.name!r}, shape "
                f"{list(x.shape)}; got seq_dim {o.seq_dim}, batch_dim {o.batch_dim}"
            )
    if lengths.size != x.shape[o.batch_dim]:
        raise OpError(
            f"REVERSE_SEQUENCE takes {x.shape[o.batch_dim]} lengths, as dimension {o.batch_dim} "
            f"of {x.name!r}; got {lengths.size}"
        )
    return [x.shape]


def _bind_reverse_sequence(b: Binding) -> Run | None:
    dims = (b.options.batch_dim, b.options.seq_dim)
    x, y = np.moveaxis(b.xi(0), dims, (0, 1)), np.moveaxis(b.y[0], dims, (0, 1))

    def make() -> Run:
        steps = []
        for row, n in enumerate(integers(b, 1)):
            if not 0 <= n <= x.shape[1]:
                raise OpError(
                    f"REVERSE_SEQUENCE: length {n} of row {row}; taken: 0 to {x.shape[1]}"
                )
            steps += [(y[row, :n], x[row, :n][::-1]), (y[row, n:], x[row, n:])]
        return copies(steps)

    return settled(b, (1,), make)


def _lower_reverse_sequence(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, lengths, o = node.input(0), node.input(1), node.options
    outer = x.shape[: max(o.seq_dim, o.batch_dim) + 1]
    at, size = coordinates("r", outer), x.shape[o.seq_dim]
    inner = x.size // max(size_of(outer), 1)
    strides = [s * inner for s in strides_of(outer)]
    place = (
        f"const i64 n = LOAD1({at[o.batch_dim]}); i32 place = {at[o.seq_dim]}; "
        f"if (n < 0 || n > {size}) bad = 1; "
        f"else if (place < n) place = (i32)n - 1 - place; "
        f"from = {dot([*at[: o.seq_dim], 'place', *at[o.seq_dim + 1 :]], strides)};"
    )
    fault = f"REVERSE_SEQUENCE: length in {lengths.name!r}; taken: 0 to {size}"
    return Lowered([rows(capability, size_of(outer), inner, place, (0, 1), [fault])])


OPS: dict[str, Registration] = {
    "REVERSE_V2": op("REVERSE_V2", _reverse, _bind_reverse, versions=(1, 4), lower=_lower_reverse),
    "REVERSE_SEQUENCE": op(
        "REVERSE_SEQUENCE",
        _reverse_sequence,
        _bind_reverse_sequence,
        lower=_lower_reverse_sequence,
    ),
}
