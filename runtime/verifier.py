"""Checks that a model is sound before anything else touches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .flatbuffer import Rows

if TYPE_CHECKING:
    from .model import Model


def verify(model: Model) -> None:
    """Raises InvalidModelError where the model is broken."""
    check_layout(model.root)


def check_layout(rows: Rows) -> None:
    """Follows every offset of the tables and of all below them."""
    if not len(rows):
        return
    for field in rows.table.fields:
        if field.kind == "scalar":
            rows.scalar(field.name)
        elif field.kind in ("string", "vector"):
            rows.vector(field.name)
        elif field.kind == "union":
            for members in rows.members(field.name).values():
                check_layout(members)
        else:
            check_layout(rows.children(field.name))
