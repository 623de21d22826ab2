"""The text in front of every program: a backend's own spelling, and what all spell alike."""

from __future__ import annotations

from importlib.resources import files


def prelude(package: str) -> str:
    """The text for the backend in `package`: its `prelude.h`, and `functions.h`."""
    own = files(package).joinpath("prelude.h").read_text("utf-8")
    return own + files(__package__).joinpath("functions.h").read_text("utf-8")
