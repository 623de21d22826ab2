"""Expressions of maps on vectors of float32, for CPUs whose compilers do not make them of loops.

Operators work on vectors as on numbers, except that comparisons give -1 for true: they are taken as
conditions alone, and both results of a condition on vectors are vectors. What is not known to mean
the same is left to the loop over single values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# macros whose functions take vectors
_FUNCTIONS = {
    **dict.fromkeys(("F_EXP", "F_LOG", "F_SQRT", "F_TANH", "F_ABS", "F_FLOOR", "F_CEIL"), 1),
    **dict.fromkeys(("F_RINT", "F_TRUNC", "F_SIN", "F_COS", "F_ERFC", "F_EXPM1"), 1),
    **dict.fromkeys(("F_MIN", "F_MAX"), 2),
}
_TOKEN = re.compile(
    r"\s*(?:(?P<number>0x[0-9a-fA-F.]+p[+-]?\d+f|0x[0-9a-fA-F]+u|\d+\.?\d*(?:e[+-]?\d+)?f?)"
    r"|(?P<name>[A-Za-z_]\w*)|\$(?P<read>\d+)|(?P<sign>&&|\|\||[<>=!]=|[-+*/()<>?:!,]))"
)


@dataclass(frozen=True, slots=True)
class Value:
    """C text of a number or a condition, of one or of a vector."""

    text: str
    vector: bool
    condition: bool = False


class _Unknown(Exception):
    """Not an expression that is known to work on vectors."""


def on_vectors(expression: str, reads: Sequence[Value]) -> Value | None:
    """`expression` of `$0`, `$1` … on the values `reads`; None where it must stay on numbers.

    Vectors have W lanes, a macro's parameter.
    """
    try:
        return _Parser(expression, reads).whole()
    except _Unknown:
        return None


class _Parser:
    def __init__(self, expression: str, reads: Sequence[Value]) -> None:
        self._reads = reads
        self._tokens: list[tuple[str, str]] = []
        at, end = 0, len(expression.rstrip())
        while at < end:
            found = _TOKEN.match(expression, at)
            if found is None:
                raise _Unknown
            assert found.lastgroup is not None
            self._tokens.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()
        self._tokens.append(("end", ""))

    def whole(self) -> Value:
        value = _number(self._choice())
        if self._tokens[0][0] != "end":
            raise _Unknown
        return value

    def _next(self) -> tuple[str, str]:
        return self._tokens.pop(0)

    def _sign(self, *signs: str) -> str | None:
        """The next token, taken, if it is one of `signs`."""
        kind, text = self._tokens[0]
        return self._next()[1] if kind == "sign" and text in signs else None

    def _expect(self, sign: str) -> None:
        if self._sign(sign) is None:
            raise _Unknown

    def _choice(self) -> Value:
        value = self._joined(0)
        if self._sign("?") is None:
            return value
        yes = _number(self._choice())
        self._expect(":")
        no = _number(self._choice())
        if not value.condition:
            raise _Unknown
        return _choose(value, yes, no)

    def _joined(self, level: int) -> Value:
        """Operators that bind from the left, loosest first."""
        if level == len(_LEVELS):
            return self._single()
        value = self._joined(level + 1)
        while sign := self._sign(*_LEVELS[level]):
            other = self._joined(level + 1)
            wanted = level < 2  # && and || join conditions
            if value.condition != wanted or other.condition != wanted:
                raise _Unknown
            if wanted and value.vector != other.vector:
                raise _Unknown
            vector = value.vector or other.vector
            if vector:
                value, other = _real(value), _real(other)
            text = f"({value.text} {sign} {other.text})"
            value = Value(text, vector, level < _ARITHMETIC)
        return value

    def _single(self) -> Value:
        if self._sign("-"):
            value = _number(self._single())
            return Value(f"(-{value.text})", value.vector)
        if self._sign("!"):
            value = self._single()
            if not value.condition:
                raise _Unknown
            return Value(f"(!{value.text})", value.vector, True)
        if self._sign("("):
            if self._tokens[0] == ("name", "f32"):  # a cast of what is one
                self._next()
                self._expect(")")
                return _real(_number(self._single()))
            value = self._choice()
            self._expect(")")
            return value
        kind, text = self._next()
        match kind:
            case "number":
                return Value(text, False)
            case "read":
                return self._reads[int(text)]
            case "name":
                return self._call(text)
        raise _Unknown

    def _call(self, name: str) -> Value:
        self._expect("(")
        given = [_number(self._choice())]
        while self._sign(","):
            given.append(_number(self._choice()))
        self._expect(")")
        texts = ", ".join(v.text for v in given)
        if name == "AS_F32" and not given[0].vector:
            return Value(f"AS_F32({texts})", False)
        if name == "clamp_f32" and len(given) == 3:
            value, low, high = given
            below = Value(f"({value.text} < {low.text})", value.vector or low.vector, True)
            above = Value(f"({value.text} > {high.text})", value.vector or high.vector, True)
            return _choose(below, low, _choose(above, high, value))
        if _FUNCTIONS.get(name) != len(given):
            raise _Unknown
        if not any(v.vector for v in given):
            return Value(f"{name}({texts})", False)
        return Value(f"{name}({', '.join(_spread(v) for v in given)})", True)


_LEVELS = (("||",), ("&&",), ("==", "!="), ("<", ">", "<=", ">="), ("+", "-"), ("*", "/"))
_ARITHMETIC = 4  # the first level whose results are numbers


def _number(value: Value) -> Value:
    if value.condition:
        raise _Unknown
    return value


def _real(value: Value) -> Value:
    """A number beside a vector: no integer."""
    if value.vector or value.condition:
        return value
    return Value(f"((f32){value.text})", False)


def _spread(value: Value) -> str:
    return value.text if value.vector else f"VSPLAT(f32, W, {value.text})"


def _choose(condition: Value, yes: Value, no: Value) -> Value:
    vector = condition.vector or yes.vector or no.vector
    if vector:
        return Value(f"({condition.text} ? {_spread(yes)} : {_spread(no)})", True)
    return Value(f"({condition.text} ? {yes.text} : {no.text})", False)
