"""The command line. Exit codes: see `cli/failures.py`."""

from .main import main

__all__ = ["main"]
