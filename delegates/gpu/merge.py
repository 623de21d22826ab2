"""Small kernels in a row as one launch: for CPUs, where a launch takes longer than they do.

A kernel of a single work-item gains nothing from the other cores, so the same work-item may go on
with the next one. Each becomes a function: within it its pointers still reach no common memory, and
between functions writes come before reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...kernels.device import Capability
from .render import Text

# bounds on the text of one kernel, and on its arguments (OpenCL: 1 KiB, 8 bytes each)
_MOST, _POINTERS = 32, 64
# functions in all of them: each use is compiled, where kernels that are alike are compiled once
_BODIES = 512
_HEAD = re.compile(r"KERNEL void KERNEL_NAME\(([^)]*)\)")
_PARAMETER = re.compile(r"((?:GLOBAL|CONST_ARG) \w+\*)")


def merged(texts: Sequence[Text], capability: Capability) -> list[tuple[Text, int]]:
    """What is launched, and of how many of `texts` each launch is."""
    if capability.kind != "cpu":
        return [(t, 1) for t in texts]
    found: list[tuple[Text, int]] = []
    known: set[str] = set()
    bodies = 0
    for row in _rows(texts):
        if len(row) == 1:
            found.append((row[0], 1))
            continue
        joined = _joined(row)
        if joined.name not in known:
            bodies += len(row)
            known.add(joined.name)
        found += [(joined, len(row))] if bodies <= _BODIES else [(t, 1) for t in row]
    return found


def _rows(texts: Sequence[Text]) -> Iterator[list[Text]]:
    row: list[Text] = []
    for text in texts:
        fits = row and _small(text) and _small(row[-1]) and len(row) < _MOST
        if not fits or len({k for t in (*row, text) for k in t.args}) > _POINTERS:
            if row:
                yield row
            row = []
        row.append(text)
    if row:
        yield row


def _small(text: Text) -> bool:
    """Whether it is one work-item, of ours."""
    return (
        text.call is None
        and not text.brought
        and text.group is None
        and set(text.grid) == {1}
        and len(_HEAD.findall(text.source)) == 1
    )


def _joined(row: Sequence[Text]) -> Text:
    keys = list(dict.fromkeys(k for t in row for k in t.args))
    names = {key: f"ptr_{i}" for i, key in enumerate(keys)}
    functions: dict[str, str] = {}
    calls = []
    for text in row:
        (parameters,) = _HEAD.findall(text.source)
        name = f"f{text.name}"
        functions[name] = text.source.replace("KERNEL void KERNEL_NAME", f"DEVICE void {name}")
        given = [names[k] for k in text.args] + ["status"] * text.status
        types = _PARAMETER.findall(parameters)
        calls.append(
            f"{name}({', '.join(f'({t}){g}' for t, g in zip(types, given, strict=True))});"
        )
    status = any(t.status for t in row)
    parameters = [f"GLOBAL u8* {n}" for n in names.values()] + ["GLOBAL i32* status"] * status
    body = "\n    ".join(calls)
    return Text(
        f"KERNEL void KERNEL_NAME({', '.join(parameters)})\n{{\n    {body}\n}}\n",
        tuple(keys),
        (1,),
        None,
        tuple(dict.fromkeys(u for t in row for u in t.uses)),
        status,
        False,
        functions=tuple(functions.items()),
    )
