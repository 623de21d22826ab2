"""One invoke of a node whose functions are C's."""

from __future__ import annotations

from collections.abc import Sequence

from ...kernels.types import DType
from ..tensor import LiveTensor
from .picture import Host, Picture


def point_all(
    picture: Picture, inputs: Sequence[LiveTensor], outputs: Sequence[LiveTensor]
) -> None:
    """Before it: the memory of inputs and outputs. That of outputs whose shape or strings C settles
    is its own until `collect_all`; it has the shape that prepare gave, where it gave one.
    """
    for t in inputs:
        picture.point(t.index)
    for t in outputs:
        if not settles(t):
            picture.point(t.index)
            continue
        picture.open(t.index)
        if t.array_or_none is not None and t.dtype is not DType.STRING:
            picture.reallocate(t.index, t.shape)


def collect_all(picture: Picture, outputs: Sequence[LiveTensor], host: Host) -> None:
    """After it, where it did not fail."""
    for t in outputs:
        if settles(t):
            picture.collect(t.index, host)


def settles(t: LiveTensor) -> bool:
    """Whether C settles the shape of this output, or its strings, in invoke."""
    return t.is_dynamic or t.dtype is DType.STRING
