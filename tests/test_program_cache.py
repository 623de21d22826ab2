"""The disk cache of built programs: what is damaged, full or nowhere is as if it were not there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from litedelegate.delegates.gpu.cache import VARIABLE, ProgramCache

PARTS = ["source", "device"]


def kept(folder: Path) -> ProgramCache:
    cache = ProgramCache(folder)
    cache.put(PARTS, b"a program")
    assert cache.get(PARTS) == b"a program"
    return cache


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"",
        lambda whole: whole[:-1],
        lambda whole: whole[:10],
        lambda whole: whole + b"\0",
        lambda whole: whole[:-1] + bytes([whole[-1] ^ 1]),
        lambda whole: bytes([whole[0] ^ 1]) + whole[1:],
    ],
)
def test_what_is_damaged_is_built_anew(tmp_path: Path, damage: Any) -> None:
    cache = kept(tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert cache.get(PARTS) is None
    cache.put(PARTS, b"another")
    assert cache.get(PARTS) == b"another"
    assert (cache.hits, cache.misses) == (2, 1)


def test_an_empty_program_is_kept(tmp_path: Path) -> None:
    """As the word that a device has no fault is."""
    ProgramCache(tmp_path).put(PARTS, b"")
    assert ProgramCache(tmp_path).get(PARTS) == b""


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Any, target: Any) -> None:
        raise OSError(28, "No space left on device")

    cache = ProgramCache(tmp_path)
    monkeypatch.setattr(os, "replace", full)
    cache.put(PARTS, b"a program")
    assert cache.folder is None and list(tmp_path.iterdir()) == []


def test_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A ~ is the user's home, as in a shell; where that is unknown nothing is kept."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv(VARIABLE, "~/programs")
    assert ProgramCache().folder == tmp_path / "programs"

    def unknown(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", unknown)
    assert ProgramCache().folder is None
    monkeypatch.delenv(VARIABLE)
    for base in ("LOCALAPPDATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(base, raising=False)
    assert ProgramCache().folder is None
