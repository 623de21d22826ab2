"""How an interpreter is asked to be."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np

from ..kernels.api import Registration
from .delegate import Delegate
from .graph import Graph
from .registerers import NAMED_REGISTERERS
from .resolver import BuiltinOpResolver, ChainedResolver, MutableOpResolver, OpResolver
from .rules import Rules

CustomOps = Mapping[str, Registration | Callable[..., Any]]


@enum.unique
class OpResolverType(enum.Enum):
    """TensorFlow Lite's choices of kernels. There is one set here, with the reference kernels'
    numbers; WITHOUT_DEFAULT_DELEGATES leaves out the Flex delegate, which applies by itself.
    """

    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How an interpreter was asked to be; a clone is made with the same."""

    op_resolver: OpResolver
    num_threads: int | None = None
    delegates: Sequence[str | Delegate] = ()
    rules: Rules = field(default_factory=Rules)
    on_unavailable: str | None = None
    flex: bool = True  # whether Flex ops that no resolver has are TensorFlow's
    preserve_all: bool = False
    keep: tuple[str | int, ...] = ()
    compress_zero_points: bool = False
    quantize_inputs: bool = False
    dequantize_outputs: bool = False
    report: Callable[[str], None] | None = field(default=None, repr=False)


def make_resolver(
    base: OpResolver | None, custom_ops: CustomOps | None, registerers: Sequence[Any] = ()
) -> OpResolver:
    """`base`, by default all ops of this package, with `custom_ops` and what `registerers` add
    before it.
    """
    if base is not None and not (hasattr(base, "find_op") and hasattr(base, "versions")):
        raise TypeError(f"op_resolver has find_op and versions, as BuiltinOpResolver; got {base!r}")
    if custom_ops is not None and not (
        isinstance(custom_ops, Mapping) and all(isinstance(name, str) for name in custom_ops)
    ):
        raise TypeError(f"custom_ops is {{name: function or Registration}}; got {custom_ops!r}")
    resolver: OpResolver = BuiltinOpResolver() if base is None else base
    if not custom_ops and not registerers:
        return resolver
    added = MutableOpResolver()
    for registerer in registerers:
        if isinstance(registerer, str):
            registerer = _named(registerer)
        try:
            registerer(added)
        except Exception as e:
            raise ValueError(
                f"the registerer {getattr(registerer, '__name__', registerer)!r} of custom ops "
                f"failed: {type(e).__name__}: {e}"
            ) from e
    if custom_ops:
        from .custom import as_registration

        for name, op in custom_ops.items():
            added.add_custom(name, as_registration(name, op))
    return ChainedResolver(added, resolver)


def _named(name: str) -> Callable[[MutableOpResolver], None]:
    found = NAMED_REGISTERERS.get(name)
    if found is None:
        known = ", ".join(sorted(NAMED_REGISTERERS)) or "none"
        raise ValueError(
            f"Looking up symbol '{name}' failed with error 'no shared library that is loaded has "
            f"an op of that name' (there are: {known}). "
            "Load one with load_op_library(path), or give a function that takes a "
            "MutableOpResolver and adds ops to it."
        )
    return found


def listed(keep: Iterable[str | int]) -> tuple[str | int, ...]:
    """What is to be kept. TypeError for what is no list of names and numbers."""
    if isinstance(keep, str | bytes):
        raise TypeError(f"keep is a list of tensor names and numbers: [{keep!r}]")
    items = tuple(keep)
    for item in items:
        if isinstance(item, bool) or not isinstance(item, str | int | np.integer):
            raise TypeError(f"keep: {item!r} is neither the name nor the number of a tensor")
    return items


def check_keep(graph: Graph, keep: Sequence[str | int]) -> None:
    """ValueError for what is no tensor: a name of any subgraph, or a number of the main one."""
    known = {t.name for s in graph.subgraphs for t in s.tensors}
    count = len(graph.subgraphs[0].tensors)
    for item in keep:
        if isinstance(item, str) and item not in known:
            close = get_close_matches(item, known, 3)
            hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
            raise ValueError(f"keep: the model has no tensor named {item!r}.{hint}")
        if not isinstance(item, str) and not 0 <= item < count:
            raise ValueError(f"keep: {item} is no tensor; there are {count}")
