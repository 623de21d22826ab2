"""A light table: rows on one line each where they fit, nothing behind the last column.

rich's own tables pad every line to full width and take seconds for some thousand rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

GAP = 3
NARROWEST = 8
UNFOLDED = 100_000  # a console as wide as this folds nothing: its output goes to a file or a pipe
WIDEST = 60  # there, a longer cell moves the rest of its own line alone

Cell = Text | str


class LightTable:
    """Rows of markup under a head. A narrow terminal folds words and then shortens them."""

    def __init__(
        self,
        head: Sequence[str],
        rows: Iterable[Sequence[str]],
        *,
        right: Sequence[bool] = (),
        styles: Sequence[str] = (),
        indent: int = 0,
    ) -> None:
        """`right` and `styles` are those of the columns; without a head there is no rule."""
        self.head: list[Cell] = list(head)
        self.rows: list[list[Cell]] = [[_cell(text) for text in row] for row in rows]
        columns = len(self.rows[0]) if self.rows else len(self.head)
        self.right = [*right, *[False] * (columns - len(right))]
        self.styles = [*styles, *[""] * (columns - len(styles))]
        self.indent = indent

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        pipe = options.max_width >= UNFOLDED
        room = UNFOLDED if pipe else options.max_width - self.indent
        widths = self._widths(room)
        lines = []
        if self.head:
            lines.append(self._line(self.head, widths, ["dim"] * len(widths)))
            rule = "─" * (sum(widths) + GAP * (len(widths) - 1))
            lines.append(Text(" " * self.indent + rule))
        for row in self.rows:
            for part in [row] if room >= UNFOLDED else _folded(console, row, widths):
                lines.append(self._line(part, widths, self.styles))
        yield Text("\n", no_wrap=True, overflow="ignore").join(lines)

    def _widths(self, room: int) -> list[int]:
        """What each column needs; the widest ones give way where there is no room."""
        cells = [r for r in (self.head, *self.rows) if r]
        widths = [max(_width(row[i]) for row in cells) for i in range(len(self.right))]
        if room >= UNFOLDED:
            return [min(w, WIDEST) for w in widths]
        over = sum(widths) + GAP * (len(widths) - 1) - room
        while over > 0:
            left = [i for i, right in enumerate(self.right) if not right and widths[i] > NARROWEST]
            if not left:
                break
            widest = max(left, key=widths.__getitem__)
            widths[widest] -= 1
            over -= 1
        return widths

    def _line(self, cells: Sequence[Cell], widths: Sequence[int], styles: Sequence[str]) -> Text:
        line = Text(" " * self.indent)
        for i, (cell, width, style) in enumerate(zip(cells, widths, styles, strict=True)):
            space = " " * (width - _width(cell))
            line.append(space if self.right[i] else "")
            line.append(cell, style) if isinstance(cell, str) else line.append_text(cell)
            line.append("" if self.right[i] else space)
            line.append(" " * GAP if i < len(cells) - 1 else "")
        line.rstrip()
        return line


def _cell(markup: str) -> Cell:
    """Plain text where there is no style in it, which is faster."""
    if "[" not in markup:
        return markup
    text = Text.from_markup(markup)
    return text if text.spans else text.plain


def _width(cell: Cell) -> int:
    return cell_len(cell) if isinstance(cell, str) else cell.cell_len


def _folded(console: Console, row: Sequence[Cell], widths: Sequence[int]) -> Iterator[list[Cell]]:
    """The lines of a row: one, unless a cell is wider than its column."""
    if all(_width(cell) <= width for cell, width in zip(row, widths, strict=True)):
        yield list(row)
        return
    parts: list[list[Text]] = []
    for cell, width in zip(row, widths, strict=True):
        text = Text(_shortened(cell, width)) if isinstance(cell, str) else cell
        parts.append(list(text.wrap(console, width, overflow="ellipsis")) if text else [])
    for i in range(max(map(len, parts))):
        yield [part[i] if i < len(part) else "" for part in parts]


def _shortened(text: str, width: int) -> str:
    """Words that are longer than `width` lose their middle: the end of a name tells it apart."""

    def shorten(word: re.Match[str]) -> str:
        kept = word[0]
        head = (width - 1) // 3
        return f"{kept[:head]}…{kept[head + 1 - width :]}" if len(kept) > width else kept

    return re.sub(r"\S+", shorten, text)
