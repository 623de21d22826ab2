"""The disk cache of built programs."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

VARIABLE = "LITEDELEGATE_CACHE"
FORMAT = "2"  # of files: those of another one have other names
_DIGEST = hashlib.sha256().digest_size


class ProgramCache:
    """Built programs by what they were built from: one file for each, written whole or not at all.

    A file is the SHA-256 of what is kept, and that: drivers run what they are given, so what a disk
    has damaged must not reach them, and is as if it were not there.
    The folder is `folder`, else that of the environment's LITEDELEGATE_CACHE, else
    `litedelegate/programs` in the user's cache folder; an empty one of the first two turns it off.
    `hits` and `misses` count this process's look-ups.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        if folder is None:
            self.folder = _default_folder()
        else:
            self.folder = Path(folder) if os.fspath(folder) else None
        self.hits = self.misses = 0

    def keeps(self) -> bool:
        """Whether something can be kept, by trying to."""
        if self.folder is not None:
            self.put(("written",), b"")
        return self.folder is not None

    def path(self, parts: Sequence[str]) -> Path | None:
        """Where a program of these parts is kept: source, options, device, versions."""
        if self.folder is None:
            return None
        # lengths keep two lists of parts apart that join to one text
        text = "".join(f"{len(p)}:{p}" for p in (FORMAT, *parts))
        return self.folder / hashlib.sha256(text.encode()).hexdigest()

    def get(self, parts: Sequence[str]) -> bytes | None:
        path = self.path(parts)
        try:
            found = _intact(path.read_bytes()) if path is not None else None
        except OSError:
            found = None
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
        return found

    def put(self, parts: Sequence[str], binary: bytes) -> None:
        """Keeps a program; where the folder cannot be written, it is built anew next time."""
        path = self.path(parts)
        if path is None:
            return
        name = ""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(binary).digest() + binary)
            os.replace(name, path)
        except OSError:
            self.folder = None
            if name:  # a part of it would fill a full disk further
                Path(name).unlink(missing_ok=True)


def _intact(kept: bytes) -> bytes | None:
    binary = kept[_DIGEST:]
    return binary if hashlib.sha256(binary).digest() == kept[:_DIGEST] else None


def _default_folder() -> Path | None:
    given = os.environ.get(VARIABLE)
    if given is not None:
        return _at_home(given) if given else None
    base = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
    home = _at_home(base or "~/.cache")
    return home and home / "litedelegate" / "programs"


def _at_home(folder: str) -> Path | None:
    """`folder` with its ~ filled in; None where nobody knows what the user's home is."""
    try:
        return Path(folder).expanduser()
    except RuntimeError:
        return None
