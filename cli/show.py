"""What the commands share in printing: tables, sizes and times in words, JSON, progress."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..delegates.gpu.build import listening
from .table import UNFOLDED, LightTable

WIDE = 160
LONGEST_NAME = 48


def console() -> Console:
    """Where results go."""
    out = Console(highlight=False)
    # in a pipe nobody folds lines: leave them whole
    return out if out.is_terminal else Console(highlight=False, width=UNFOLDED)


def progress() -> Progress:
    """A bar on stderr that vanishes when done; none where stderr is no terminal."""
    err = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )


@contextmanager
def builds() -> Iterator[None]:
    """Shows how far a delegate is with building kernels, which can take a while the first time."""
    with progress() as bar:
        task = bar.add_task("building kernels", total=None, visible=False)

        def tell(done: int, count: int) -> None:
            bar.update(task, completed=done, total=count, visible=True)

        with listening(tell):
            yield


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Group:
    """A light table under its title. Columns named ">…" are set right, empty ones left out."""
    cells = [[str(cell) for cell in row] for row in rows]
    kept = [i for i in range(len(columns)) if not cells or any(row[i] for row in cells)]
    names = [columns[i] for i in kept]
    out = LightTable(
        [n.removeprefix(">").strip() for n in names],
        ([row[i] for i in kept] for row in cells),
        right=[n.startswith(">") for n in names],
        indent=2,
    )
    heading = [f"[bold]{title.rstrip()}[/]"] if title else []
    return Group(*heading, out, "")


def facts(rows: Iterable[tuple[str, object]]) -> LightTable:
    """Names and values, without a frame."""
    return LightTable((), ([name, str(value)] for name, value in rows), styles=("dim", ""))


def print_json(value: Any) -> None:
    print(json_text(value))


def json_text(value: Any) -> str:
    """Indented, but arrays and lists of plain values stand on one line. NaN and infinities are
    strings.
    """
    lines: list[str] = []
    text = json.dumps(_lay_out(value, lines), indent=2, default=_plain, allow_nan=False)
    for i, line in enumerate(lines):
        text = text.replace(f'"<line {i}>"', line, 1)
    return text


def _lay_out(value: Any, lines: list[str]) -> Any:
    """`value` with a mark for everything that goes on a line of its own."""
    if isinstance(value, dict):
        return {str(k): _lay_out(v, lines) for k, v in value.items()}
    if isinstance(value, list | tuple) and any(isinstance(v, dict | list) for v in value):
        return [_lay_out(v, lines) for v in value]
    if isinstance(value, np.ndarray | list | tuple):
        plain = value.tolist() if isinstance(value, np.ndarray) else value
        lines.append(json.dumps(_finite(plain), default=_plain, allow_nan=False))
        return f"<line {len(lines) - 1}>"
    return _finite(value)


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become strings, which `float()` reads."""
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    if isinstance(value, float | np.floating) and not np.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def nbytes(n: int) -> str:
    """12345 -> 12.1 KB."""
    size = float(n)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            break
        size /= 1024
    return f"{n} B" if unit == "B" else f"{size:.1f} {unit}"


def seconds(s: float) -> str:
    """Three figures in the unit that fits."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if s >= scale or unit == "µs":
            break
    value = s / scale
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f} {unit}"


def shape(dims: Iterable[int]) -> str:
    """[1, 224, 224, 3] -> 1x224x224x3; a scalar is "scalar", an unknown dimension "?"."""
    return "×".join("?" if d < 0 else str(d) for d in dims) or "scalar"


def printable(name: str) -> str:
    """Names come from files: control characters are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def name(text: str) -> str:
    """A name as it stands in a table: printable, no markup, the middle of a long one left out."""
    text = printable(text)
    if len(text) > LONGEST_NAME:
        text = f"{text[:14]}…{text[15 - LONGEST_NAME :]}"
    return escape(text)


def listing(names: Sequence[str], most: int = 8) -> str:
    """The first names, and how many more there are."""
    more = f" … and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(name, names[:most])) + more


def bar(share: float, width: int = 20) -> str:
    """A share from 0 to 1 as a bar; none for NaN."""
    return "█" * round(min(max(share, 0.0), 1.0) * width) if share == share else ""


def plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
