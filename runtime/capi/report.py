"""`ReportError`: text and arguments as C's printf takes them, without a compiler.

A function of ctypes has no variable arguments. One that is declared with all registers and some of
the stack has them all the same; which those are is fixed by each system's calling convention.
"""

from __future__ import annotations

import ctypes
import platform
import re
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from ctypes import c_double, c_uint64, c_void_p
from typing import Any

_STACK = 24  # arguments beyond the registers that are looked at: the callers' frames hold as many
_DIRECTIVE = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?"
    r"(?P<length>hh|h|ll|l|j|z|t|L|q)?(?P<kind>[diouxXeEfFgGaAcspn%])"
)
_BITS = {"hh": 8, "h": 16, None: 32, "l": 32 if sys.platform == "win32" else 64}


def _convention() -> tuple[int, int] | None:
    """Registers for integers and for doubles that variable arguments come in, after two arguments
    that are always there. None: not known here.
    """
    machine = platform.machine().lower()
    if sys.platform == "win32":
        return (2, 0) if machine in ("amd64", "x86_64") else None
    if machine in ("x86_64", "amd64"):
        return 4, 8
    if machine in ("arm64", "aarch64"):
        return 6, 8
    return None


_REGISTERS = _convention()
# Apple's arm64 puts them on the stack; registers are passed over
_ON_STACK = sys.platform == "darwin" and platform.machine() == "arm64"


class _Arguments:
    def __init__(self, whole: list[int], real: list[float], stack: list[int]) -> None:
        self._whole: Iterator[int] = iter(whole)
        self._real: Iterator[float] = iter(real)
        self._stack: Iterator[int] = iter(stack)

    def whole(self) -> int:
        for value in self._whole:
            return value
        return next(self._stack)

    def real(self) -> float:
        for value in self._real:
            return value
        bits = next(self._stack) if sys.platform != "win32" else self.whole()
        found: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
        return found


def _text(address: int, most: int | None) -> str:
    if not address:
        return "(null)"
    if most is None:
        return ctypes.string_at(address).decode("utf-8", "replace")
    found = bytearray()  # no NUL need end it
    while len(found) < most and (byte := ctypes.c_ubyte.from_address(address + len(found)).value):
        found.append(byte)
    return found.decode("utf-8", "replace")


def expand(text: str, arguments: _Arguments) -> str:
    """printf's text. What cannot be told is left as it stands."""

    def one(found: re.Match[str]) -> str:
        kind, length = found["kind"], found["length"]
        if kind == "%":
            return "%"
        width = str(_signed(arguments.whole(), 32)) if found["width"] == "*" else found["width"]
        precision = found["precision"]
        if precision == "*":
            given = _signed(arguments.whole(), 32)
            precision = None if given < 0 else str(given)
        shown = f"%{found['flags']}{width or ''}" + ("" if precision is None else f".{precision}")
        if kind in "eEfFgGaA":
            if length == "L":
                raise StopIteration
            value = arguments.real()
            return f"{shown}{kind}" % value if kind not in "aA" else value.hex()
        if kind == "s":
            most = None if precision is None else int(precision or 0)
            return f"{shown}s" % _text(arguments.whole(), most)
        bits = _BITS.get(length, 64)
        if kind in "di":
            return f"{shown}d" % _signed(arguments.whole(), bits)
        if kind == "c":
            return f"%{found['flags']}{width or ''}c" % chr(arguments.whole() & 0xFF)
        if kind == "p":
            return f"{arguments.whole():#x}"
        if kind == "n":
            raise StopIteration
        value = arguments.whole() & ((1 << bits) - 1)
        return f"{shown}{'d' if kind == 'u' else kind}" % value

    done, at = [], 0
    with suppress(StopIteration):  # an argument that cannot be had: the rest stands as it is
        for match in _DIRECTIVE.finditer(text):
            made = one(match)
            done += [text[at : match.start()], made]
            at = match.end()
    return "".join([*done, text[at:]])


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def report_function(report: Callable[[int, str], None]) -> Any:
    """A C function `void (void*, const char*, ...)` that hands over what the text says."""
    if _REGISTERS is None:

        def plain(context: int, text: int) -> None:
            report(context, _text(text, None))

        return ctypes.CFUNCTYPE(None, c_void_p, c_void_p)(plain)
    whole, real = _REGISTERS

    def formatted(context: int, text: int, *values: Any) -> None:
        first, then = list(values[:whole]), list(values[whole : whole + real])
        if _ON_STACK:
            first, then = [], []
        rest = list(values[whole + real :])
        report(context, expand(_text(text, None), _Arguments(first, then, rest)))

    kinds = [c_uint64] * whole + [c_double] * real + [c_uint64] * _STACK
    return ctypes.CFUNCTYPE(None, c_void_p, c_void_p, *kinds)(formatted)
