"""What kernels are made of, and made to: steps with their operands, and texts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...kernels.device import Kernel, Map, Source, text
from ...kernels.types import DType

_BFLOAT16 = """
DEVICE u16 to_bfloat16(f32 v)
{
    u32 bits = AS_U32(v);
    if (v != v)
        return (u16)((bits >> 16) & 0x8000u | 0x7FC0u);
    return (u16)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}
"""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor as a kernel's argument: `key` says which, `shape` how it is indexed."""

    key: int
    dtype: DType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Mapped:
    """A `Map` with its operands; `value` is the read that comes from the step before, if any."""

    step: Map
    reads: tuple[Operand | None, ...]
    tables: tuple[Operand, ...]
    output: Operand
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bodied:
    """A `Kernel` with its operands."""

    step: Kernel
    reads: tuple[Operand, ...]
    output: Operand


@dataclass(frozen=True, slots=True)
class Step:
    """A call of function number `function` of a kernel, for each point of a grid: on tensors, with
    numbers of 32 bits."""

    function: int
    grid: int
    args: tuple[int, ...]
    numbers: tuple[int, ...]


@dataclass(slots=True)
class Text:
    """A kernel: its text with NAME for its name, and which tensors its arguments are.

    One with `steps` is given a table of these first (`merge.table`).
    """

    source: str
    args: tuple[int, ...]
    grid: tuple[int, ...]
    group: tuple[int, ...] | None
    uses: tuple[str | Source, ...]
    status: bool
    brought: bool  # whether an op brought text of its own along
    call: Any = None  # a library's, without text
    functions: tuple[tuple[str, str], ...] = ()  # that it calls, by name
    steps: tuple[Step, ...] = ()
    name: str = field(init=False)

    def __post_init__(self) -> None:
        # functions of one name may be others' in another op
        brought = (u.text for u in self.uses if isinstance(u, Source))
        self.name = "k" + hashlib.sha256("".join((self.source, *brought)).encode()).hexdigest()[:16]


def program(texts: Sequence[Text]) -> str:
    """The text of a program of all distinct kernels."""
    uses = dict.fromkeys(u for t in texts for u in t.uses)
    parts = [_BFLOAT16, *(text(u) for u in uses)]
    parts += {name: source for t in texts for name, source in t.functions}.values()
    parts += {t.name: t.source.replace("KERNEL_NAME", t.name) for t in texts}.values()
    return "\n".join(parts)
