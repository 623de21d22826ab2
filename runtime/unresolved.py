"""The text of the error for operators that no resolver knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

FLEX = "Flex"  # what the names of TensorFlow's own operators begin with
FLEX_INSTALL = "pip install 'litedelegate[flex]' has what it needs."


class Missing(Protocol):
    op: str
    custom: bool
    version: int
    supported: tuple[int, int] | None
    nodes: list[tuple[int, int, int]]


def printable(name: str) -> str:
    """The name, or an escaped form: the names of an encrypted model are noise."""
    if name and name.isprintable():
        return name
    escaped = (
        name.encode("utf-8", "backslashreplace")
        .decode("latin-1")
        .encode("unicode_escape")
        .decode("ascii")
    )
    return escaped or "(empty)"


def _remark(name: str) -> str:
    if name and name.isprintable():
        return ""
    return " (not a printable name; is the model encrypted or damaged?)"


def describe(missing: Sequence[Missing], page: str, no_flex: str = "") -> str:
    """Every unresolved operator: version, nodes, size of its options, and what to do about it.

    `no_flex`: why the Flex delegate does not run the Flex ops, and the way to have it.
    """
    custom = [m for m in missing if m.custom]
    flex = [m for m in custom if m.op.startswith(FLEX)]
    plain = [m for m in custom if m not in flex]
    lines: list[str] = []
    if plain:
        name = plain[0].op
        lines.append(f"Encountered unresolved custom op: {printable(name)}.{_remark(name)}")
        lines.append(f"See instructions: {page}")
    elif flex:
        # TensorFlow Lite says the one or the other, by what noticed it
        lines.append(
            "Select TensorFlow op(s), included in the given model, is(are) not supported by this "
            "interpreter. "
            "Make sure you apply/link the Flex delegate before inference. "
            "See instructions: https://www.tensorflow.org/lite/guide/ops_select"
        )
        lines.append("Regular TensorFlow ops are not supported by this interpreter.")
    first = (plain or flex or list(missing))[0]
    lines.append(f"{len(missing)} unresolved in all:" if len(missing) > 1 else "It is:")
    lines += [f"  {_line(m)}" for m in missing]
    if plain:
        lines.append(
            f"Register each: Interpreter(..., custom_ops={{{_key(plain[0].op)}: function or "
            "Registration}), or MutableOpResolver.add_custom(name, registration)."
        )
    if flex:
        lines.append(
            "Flex ops are run by TensorFlow, through the Flex delegate: "
            f"{no_flex or FLEX_INSTALL} "
            "Or give each in Python, under its name in the model: "
            f"Interpreter(..., custom_ops={{{_key(flex[0].op)}: function}}). The function takes "
            "the arrays and `options`, whose .flexbuffer(raw=True) is [name, serialised NodeDef]."
        )
    if first.nodes:
        lines.append(f"Node number {first.nodes[0][1]} ({printable(first.op)}) failed to prepare.")
    return "\n".join(lines)


def _key(name: str) -> str:
    """As it would be written in a program."""
    return ascii(name)


def describe_builtins(missing: Sequence[Missing], others: Sequence[Missing] = ()) -> str:
    """The text for builtin operators that are unknown or too new: a line for each, needed and
    supported versions. `others`: custom ones that will be missed next.
    """
    first = missing[0]
    lines = [
        f"Didn't find op for builtin opcode '{first.op}' version '{first.version}'. An older "
        "version of this builtin might "
        "be supported. Are you using an old TFLite binary with a newer model?"
    ]
    lines += [f"  {_line(m)}" for m in missing]
    if others:
        lines.append("Custom ops that are unresolved too:")
        lines += [f"  {_line(m)}" for m in others]
    lines.append("Registration failed.")
    return "\n".join(lines)


def _line(m: Missing) -> str:
    where = ", ".join(str(n) if s == 0 else f"{n} of subgraph {s}" for s, n, _ in m.nodes[:8])
    if len(m.nodes) > 8:
        where += f" and {len(m.nodes) - 8} more"
    parts = [f"{printable(m.op)} version {m.version}"]
    if m.supported is not None:
        parts.append(
            "supported: "
            + (
                f"{m.supported[0]} to {m.supported[1]}"
                if m.supported[1] > m.supported[0]
                else f"{m.supported[0]}"
            )
        )
    elif not m.custom:
        parts.append("supported: none")
    parts.append(f"node {where}" if where else "no node uses it")
    if m.custom and m.nodes:
        sizes = sorted({size for _, _, size in m.nodes})
        parts.append(
            f"{sizes[0]} bytes of options"
            if len(sizes) == 1
            else f"{sizes[0]} to {sizes[-1]} bytes of options"
        )
    return "; ".join(parts)
