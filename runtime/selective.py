"""Selective registration: the text of a module with a resolver of just the ops that models use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..kernels.builtins import BUILTINS, CUSTOM_FAMILIES, CUSTOMS, FAMILIES, TABLES
from .model import Model
from .resolver import BuiltinOpResolver
from .unresolved import FLEX, printable


@dataclass(frozen=True)
class UsedOp:
    """An operator code of a model. `family`: the module of `kernels` that has it, "" for none."""

    op: str
    custom: bool
    version: int
    family: str

    @property
    def flex(self) -> bool:
        return self.custom and self.op.startswith(FLEX) and not self.family


def used_ops(models: Sequence[Model]) -> list[UsedOp]:
    """Those of all subgraphs of all models, by name and version. What has no node counts too: an
    interpreter asks for it.
    """
    resolver = BuiltinOpResolver()
    found: set[tuple[str, bool, int]] = set()
    for model in models:
        for code in model.operator_codes:
            custom = code.builtin == "CUSTOM"
            found.add(((code.custom or "") if custom else code.builtin, custom, code.version))
    made = []
    for op, custom, version in sorted(found):
        known = resolver.find_op(op, version, custom=custom) is not None
        family = (CUSTOMS if custom else BUILTINS)[op] if known else ""
        made.append(UsedOp(op, custom, version, family))
    return made


def families(ops: Sequence[UsedOp]) -> list[str]:
    return sorted({o.family for o in ops if o.family})


def all_families() -> list[str]:
    return sorted({*FAMILIES, *CUSTOM_FAMILIES, *TABLES})


def left_out(ops: Sequence[UsedOp]) -> dict[str, str]:
    """What the models use and the module lacks, with the reason."""
    reasons: dict[str, str] = {}
    for o in ops:
        if o.family:
            continue
        label = f"{printable(o.op)} version {o.version}"
        if o.flex:
            reasons[label] = "TensorFlow's; the Flex delegate runs it where TensorFlow is installed"
        elif o.custom:
            reasons[label] = f"not known here; give Interpreter(custom_ops={{{o.op!a}: …}})"
        else:
            has = BuiltinOpResolver().versions(o.op, custom=False)
            reasons[label] = (
                f"supported are versions {has[0]} to {has[1]}" if has else "unsupported"
            )
    return reasons


def module_text(ops: Sequence[UsedOp], names: Sequence[str], version: str) -> str:
    """A Python module whose `resolver()` has `ops`. `names`: of the models, for its docstring."""
    lines = [
        f'"""The operators of {_quoted(", ".join(names))}, and no others.',
        "",
        f"Made by `litedelegate resolver` {version}. Used as",
        "",
        "    Interpreter(model, op_resolver=resolver())",
        "",
        *_told("Left out of what the models use:", left_out(ops)),
        '"""',
        "",
        "from litedelegate import MutableOpResolver",
    ]
    wanted = families(ops)
    if wanted:
        lines.append("from litedelegate.kernels import (")
        lines += [f"    {family}," for family in wanted]
        lines.append(")")
    lines += [
        "",
        "",
        "def resolver() -> MutableOpResolver:",
        '    """A new one, to which others can be added."""',
        "    made = MutableOpResolver()",
    ]
    for o in ops:
        if o.family:
            add = "add_custom" if o.custom else "add_builtin"
            name = ascii(o.op).replace("'", '"')
            taken = f"{o.family}.OPS[{name}]"
            lines.append(f"    made.{add}({name}, {taken}, {o.version}, {o.version})")
    return "\n".join([*lines, "    return made", ""])


def _told(title: str, reasons: Mapping[str, str]) -> list[str]:
    if not reasons:
        return ["Nothing that the models use is left out."]
    return [title, "", *(f"* {_quoted(op)}: {_quoted(why)}" for op, why in reasons.items())]


def _quoted(text: str) -> str:
    """As it can stand in a docstring."""
    return text.encode("unicode_escape").decode("ascii").replace('"', "'").replace("\\u2026", "...")
