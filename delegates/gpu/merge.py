"""Small kernels in a row as one launch: for CPUs, where a launch takes longer than they do.

A kernel of a few work-items gains next to nothing from the other cores, so one work-item may do
them all, and go on with the next kernel. Each becomes a function: within it its pointers still
reach no common memory, and between functions writes come before reads. Which functions a launch
calls, on what and how often, is data, a table of steps; so kernels that are alike but for numbers
are one function (`alike.py`), and launches of the same functions one kernel, however many there
are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...kernels.device import Capability
from ...kernels.types import Array
from .alike import alike
from .memory import ARENA, CONSTANTS
from .texts import Step, Text

# bounds on the arguments of one kernel (OpenCL: 1 KiB, 8 bytes each), and on its functions, which
# one thread compiles
_POINTERS, _FUNCTIONS = 64, 40
UNIT = 64  # bytes, of offsets
_HEAD = re.compile(r"KERNEL void KERNEL_NAME\(([^)]*)\)")
_PARAMETER = re.compile(r"((?:GLOBAL|CONST_ARG) \w+\*)")
_POSITION = re.compile(r"\bGID0\b")
_NOWHERE = re.compile(r"\bGID[12]\b")
_ENDS = re.compile(r"IN_GRID\([^)]*\)")


@dataclass(frozen=True, slots=True)
class _Call:
    """A text as a call of a function, by name."""

    text: Text
    name: str
    source: str
    types: tuple[str, ...]
    numbers: tuple[int, ...]


def merged(
    texts: Sequence[Text],
    capability: Capability,
    apart: Collection[int] = (),
    constants: Collection[int] = (),
    light: Collection[int] = (),
) -> list[tuple[Text, int]]:
    """What is launched, and of how many of `texts` each launch is.

    `apart`: tensors that may be anywhere, and not in the memory of the plan. `light`: numbers of
    texts of several work-items that take one core no longer than a launch does.
    """
    if capability.kind != "cpu":
        return [(t, 1) for t in texts]
    small = [i for i, t in enumerate(texts) if _small(t, i in light)]
    calls = dict(zip(small, _calls([texts[i] for i in small]), strict=True))
    rows = _rows(len(texts), calls, apart)
    kernels = _kernels([[calls[i] for i in row] for row in rows if len(row) > 1])
    base = {key: CONSTANTS for key in constants} | {key: key for key in apart}
    joined = iter(_launches(kernels, base))
    return [(next(joined), len(row)) if len(row) > 1 else (texts[row[0]], 1) for row in rows]


def table(
    steps: Sequence[Step], args: Sequence[int], places: Mapping[int, tuple[int, int]]
) -> Array:
    """The table of a launch with the arguments `args`. `places`: in what tensors are, and at which
    byte of it, where they are no arguments themselves.
    """
    words: list[int] = []
    for step in steps:
        words += step.function, step.grid
        for key in step.args:
            base, offset = (key, 0) if key in args else places[key]
            words += args.index(base), offset // UNIT
        words += step.numbers
    return np.array([*words, -1], np.int32)


def _small(text: Text, light: bool) -> bool:
    """Whether one work-item may do it, and it is ours."""
    return (
        text.call is None
        and not text.brought
        and text.group is None
        and (light or set(text.grid) == {1})
        and set(text.grid[1:]) <= {1}
        and len(_HEAD.findall(text.source)) == 1
    )


def _calls(texts: Sequence[Text]) -> list[_Call]:
    open_ended = {source: _ENDS.sub("", source) for source in {t.source for t in texts}}
    found = []
    for text, one in zip(texts, alike([open_ended[t.source] for t in texts]), strict=True):
        # named as a kernel of that text would be
        named = replace(text, source=one.source)
        found.append(_Call(text, f"f{named.name}", one.source, one.types, one.numbers))
    return found


def _rows(count: int, calls: Mapping[int, _Call], apart: Collection[int]) -> list[list[int]]:
    """Neighbours that fit into one launch."""
    rows: list[list[int]] = []
    open_row, names, keys = False, set[str](), set[int]()
    for i in range(count):
        call = calls.get(i)
        if call is None:
            rows.append([i])
            open_row = False
            continue
        more_names = names | {call.name}
        more_keys = keys | {k for k in call.text.args if k in apart}
        fits = len(more_names) <= _FUNCTIONS and len(more_keys) + 3 <= _POINTERS
        if open_row and fits:
            rows[-1].append(i)
            names, keys = more_names, more_keys
        else:
            rows.append([i])
            names, keys = {call.name}, {k for k in call.text.args if k in apart}
        open_row = True
    return rows


def _kernels(rows: Sequence[Sequence[_Call]]) -> list[list[Sequence[_Call]]]:
    """Rows gathered by the kernel that does them."""
    found: list[list[Sequence[_Call]]] = []
    names: set[str] = set()
    for row in rows:
        more = names | {c.name for c in row}
        if not found or len(more) > _FUNCTIONS:
            found.append([])
            more = {c.name for c in row}
        found[-1].append(row)
        names = more
    return found


def _launches(kernels: Sequence[Sequence[Sequence[_Call]]], base: Mapping[int, int]) -> list[Text]:
    found = []
    for rows in kernels:
        first = {c.name: c for row in rows for c in reversed(row)}
        number = {name: i for i, name in enumerate(first)}
        # more than one work-item
        wide = {c.name for row in rows for c in row if c.text.grid != (1,) * len(c.text.grid)}
        given = [
            list(dict.fromkeys(base.get(k, ARENA) for c in row for k in c.text.args))
            for row in rows
        ]
        most = max(map(len, given))
        status = any(c.text.status for c in first.values())
        source = _kernel(first.values(), wide, most, status)
        uses = tuple(dict.fromkeys(u for c in first.values() for u in c.text.uses))
        functions = tuple((c.name, _function(c)) for c in first.values())
        for row, args in zip(rows, given, strict=True):
            steps = tuple(Step(number[c.name], c.text.grid[0], c.text.args, c.numbers) for c in row)
            padded = (*args, *args[:1] * (most - len(args)))
            found.append(
                Text(source, padded, (1,), None, uses, status, False, None, functions, steps)
            )
    return found


def _function(call: _Call) -> str:
    source = _NOWHERE.sub("0", _POSITION.sub("gid", call.source))
    head = rf"DEVICE void {call.name}(\1, const i32 gid)"
    return _HEAD.sub(head, source)


def _kernel(calls: Collection[_Call], wide: Collection[str], pointers: int, status: bool) -> str:
    cases = []
    for i, call in enumerate(calls):
        (parameters,) = _HEAD.findall(call.source)
        given, at = [], 2
        for pointer in _PARAMETER.findall(parameters)[: len(call.text.args)]:
            given.append(f"({pointer})(bases[s[{at}]] + (i64)s[{at + 1}] * {UNIT})")
            at += 2
        given += ["status"] * call.text.status
        for kind in call.types:
            given.append(f"AS_F32(s[{at}])" if kind == "f32" else f"({kind})s[{at}]")
            at += 1
        loop = "for (i32 g = 0; g < s[1]; g++) " if call.name in wide else ""
        given.append("g" if loop else "0")
        cases.append(f"case {i}: {loop}{call.name}({', '.join(given)}); s += {at}; break;")
    names = [f"base_{i}" for i in range(pointers)]
    parameters = ", ".join(
        ["CONST_ARG i32* steps", *(f"GLOBAL u8* {n}" for n in names)]
        + ["GLOBAL i32* status"] * status
    )
    text = "\n        ".join(cases)
    return f"""\
KERNEL void KERNEL_NAME({parameters})
{{
    GLOBAL u8* const bases[] = {{{", ".join(names)}}};
    CONST_ARG i32* s = steps;
    for (;;) {{
        switch (s[0]) {{
        {text}
        default: return;
        }}
    }}
}}
"""
