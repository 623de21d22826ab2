"""Custom operators that come from outside the package."""

from __future__ import annotations

from pathlib import Path


def include_dir() -> Path:
    """The folder for a C compiler's -I: it holds `litedelegate/tflite_custom_op.h`."""
    return Path(__file__).resolve().parent / "include"
