"""Files packed behind a model: TensorFlow Lite's metadata appends label lists as a zip archive."""

from __future__ import annotations

import zipfile
from pathlib import Path

import click

MOST_BYTES = 1 << 22


def packed_files(model: Path) -> dict[str, int]:
    """Names and sizes."""
    try:
        with zipfile.ZipFile(model) as archive:
            return {entry.filename: entry.file_size for entry in archive.infolist()}
    except (zipfile.BadZipFile, OSError):
        return {}


def packed_labels(model: Path) -> list[str] | None:
    """The lines of the only text file in a model, if there is one."""
    texts = [
        n for n, size in packed_files(model).items() if n.endswith(".txt") and size < MOST_BYTES
    ]
    if len(texts) != 1:
        return None
    try:
        with zipfile.ZipFile(model) as archive, archive.open(texts[0]) as file:
            content = file.read(MOST_BYTES)
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError) as e:
        # encrypted, damaged or packed in a way unknown here: the model runs without
        click.echo(f"the labels {texts[0]!r} packed in {model} cannot be read: {e}", err=True)
        return None
    return content.decode("utf-8", "replace").splitlines()
