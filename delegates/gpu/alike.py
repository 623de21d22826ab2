"""Kernels that are alike but for numbers: one function, to which they are arguments.

Shapes, strides and constants stand in the text of a kernel, where compilers make the most of them.
Where many kernels differ in nothing else, compiling each is most of what a model's start takes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

# what compilers need as it is, and numbers that may come from outside, by C type
_NUMBER = re.compile(
    r"(?P<kept>'(?:\\.|[^'\\])*'|\bsizeof\s*\([^()]*\)"
    r"|\b(?:VEC|VSPLAT|VCONVERT)\(\w+, \d+|\bV(?:LOAD|STORE)\(\d+)"
    r"|(?P<real>\b0x[0-9a-f.]+p[+-]?\d+f?\b|\b\d+\.\d*(?:e[+-]?\d+)?f?)"
    r"|(?P<u32>\b(?:0x[0-9A-Fa-f]+|\d+)u\b)"
    r"|(?P<i32>(?<![\w.])\d+(?![\w.]))"
)
_HEAD = re.compile(r"(KERNEL void KERNEL_NAME\([^)]*)\)")
# of a body's macros, those that the delegate writes, and those that are a number
_WRITTEN = re.compile(r"#define (?:STORE|STORE_VECTOR|FAULT\d+|LOAD\d+)\b")
_PLAIN = re.compile(r"#define (\w+) -?\d+$")
_WORD = re.compile(r"[A-Za-z_]\w*")
# where a name must stand for a number that the compiler knows: conditions of the preprocessor,
# sizes of arrays and of vectors, names put together
_FIXED = (
    re.compile(r"^\s*#\s*(?:if|elif|pragma)(.*)$", re.M),
    re.compile(r"[\w)]\s+\w+\[([^;{]*)"),
    re.compile(r"\b(?:VEC|VSPLAT|VCONVERT)\((\w+, \w+)"),
    re.compile(r"\b(?:VLOAD|VSTORE|STORE_VECTOR)\((\w+)"),
    re.compile(r"\b(\w+\s*##\s*\w+)"),
    re.compile(r"\bcase (\w+)"),
)
_MOST = 1 << 31
# of a double's bits those that a float lacks, and half of a float's last one; the smallest normal
_BELOW, _HALF, _SMALLEST = (1 << 29) - 1, 1 << 28, 2.0**-126


@dataclass(frozen=True, slots=True)
class Alike:
    """The text of a kernel whose last parameters are numbers of these C types, and
    their bits for one that is made of it."""

    source: str
    types: tuple[str, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Split:
    """A text without its numbers, and these: C type and text."""

    parts: tuple[str, ...]
    numbers: tuple[tuple[str, str], ...]

    @property
    def key(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.parts, tuple(kind for kind, _ in self.numbers)


def alike(sources: Sequence[str]) -> list[Alike]:
    """For each text what it is made of; those that differ in numbers alone share a source."""
    split = {source: _split(source) for source in dict.fromkeys(sources)}
    groups: dict[object, list[_Split]] = {}
    for one in split.values():
        groups.setdefault(one.key, []).append(one)
    shared = {key: _shared(group) for key, group in groups.items()}
    found = []
    for source in sources:
        one = split[source]
        text, places = shared[one.key]
        given = [one.numbers[at] for at in places]
        types = tuple(kind for kind, _ in given)
        found.append(Alike(text, types, tuple(_bits(*n) for n in given)))
    return found


def _shared(group: Sequence[_Split]) -> tuple[str, list[int]]:
    """The text with the numbers that differ as parameters, and at which places these stand."""
    first = group[0]
    columns = list(zip(*(one.numbers for one in group), strict=True))
    names: dict[object, str] = {}
    places: list[int] = []
    text = [first.parts[0]]
    for at, column in enumerate(columns):
        if len(set(column)) == 1:
            text.append(column[0][1])
        else:
            if column not in names:  # the same in each text, like a size that occurs twice
                names[column] = f"number_{len(names)}"
                places.append(at)
            text.append(names[column])
        text.append(first.parts[at + 1])
    given = "".join(
        f", const {first.numbers[at][0]} {name}"
        for at, name in zip(places, names.values(), strict=True)
    )
    return _HEAD.sub(lambda m: f"{m[1]}{given})", "".join(text)), places


def _split(source: str) -> _Split:
    if "#define" not in source:
        return _joined([(source, True)])
    lines = source.splitlines(keepends=True)
    plain = [_PLAIN.match(line.rstrip("\n")) for line in lines]
    written = [_WRITTEN.match(line) is not None for line in lines]
    rest = zip(lines, plain, written, strict=True)
    fixed = _fixed("".join(line for line, p, w in rest if not p and not w))
    free = [w or (p is not None and p[1] not in fixed) for p, w in zip(plain, written, strict=True)]
    return _joined(list(zip(lines, free, strict=True)))


def _joined(pieces: Sequence[tuple[str, bool]]) -> _Split:
    """Of pieces with or without numbers that may come from outside."""
    parts, numbers = [""], []
    for piece, free in pieces:
        at = 0
        for m in _NUMBER.finditer(piece) if free else ():
            kind = _kind(m)
            if kind is None:
                continue
            parts[-1] += piece[at : m.start()]
            parts.append("")
            numbers.append((kind, m[0]))
            at = m.end()
        parts[-1] += piece[at:]
    return _Split(tuple(parts), tuple(numbers))


def _kind(m: re.Match[str]) -> str | None:
    """C type of a number; None where it stays: its bits are not plain to see."""
    kind, text = m.lastgroup, m[0]
    if kind == "real":
        return "f32" if text.endswith("f") and _plain_real(text) else None
    if kind not in ("i32", "u32") or (text[0] == "0" and text[1:2].isdigit()):  # octal
        return None
    value = int(text.removesuffix("u"), 0)
    return kind if value < (_MOST if kind == "i32" else 2 * _MOST) else None


def _value(text: str) -> float:
    digits = text.removesuffix("f")
    return float.fromhex(digits) if digits.startswith("0x") else float(digits)


def _plain_real(text: str) -> bool:
    """Whether rounding to a double first gives the float that rounding at once gives, and it is
    finite."""
    try:
        (bits,) = struct.unpack("<Q", struct.pack("<d", _value(text)))
        struct.pack("<f", _value(text))
    except OverflowError:
        return False
    tie = bits & _BELOW == _HALF  # between two normal floats
    return not tie and (_value(text) == 0 or abs(_value(text)) >= _SMALLEST)


def _bits(kind: str, text: str) -> int:
    """The number as an i32 of the same bits."""
    if kind == "f32":
        packed = struct.pack("<f", _value(text))
    else:
        packed = struct.pack("<I", int(text.removesuffix("u"), 0))
    return int(struct.unpack("<i", packed)[0])


@lru_cache(256)  # there are fewer bodies than kernels
def _fixed(source: str) -> frozenset[str]:
    """Names of macros that must stand for numbers that the compiler knows."""
    found = {w for p in _FIXED for m in p.finditer(source) for w in _WORD.findall(m[1])}
    values = dict(re.findall(r"^#define (\w+)(?:\([^)]*\))?((?:.*\\\n)*.*)$", source, re.M))
    todo = list(found)
    while todo:
        for word in _WORD.findall(values.get(todo.pop(), "")):
            if word not in found:
                found.add(word)
                todo.append(word)
    return frozenset(found)
