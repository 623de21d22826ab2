"""What can go wrong, as one sentence on stderr and an exit code that a script can act on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from ..runtime.model import InvalidModelError
from ..runtime.rules import NoSuchNode

FAILED = 1
USAGE = 2  # click's own
INVALID_MODEL = 3
UNRESOLVED = 4
LEFT_ON_CPU = 5
DIFFERS = 6

EXIT_CODES = """\b
Exit codes:
  0  done
  1  the model failed to run
  2  wrong usage: an option, a missing file, an input that does not fit
  3  the file is no valid model
  4  the model has operators that are not known here
  5  coverage --strict: a node is left on the CPU
  6  verify: a delegate's result is not numpy's"""


class Failure(click.ClickException):
    """An error that ends the command with one of the exit codes above."""

    exit_code = FAILED

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(click.style("error: ", fg="red", bold=True) + self.message, file, err=True)


class InvalidModel(Failure):
    exit_code = INVALID_MODEL


class Unresolved(Failure):
    exit_code = UNRESOLVED


class LeftOnCpu(Failure):
    exit_code = LEFT_ON_CPU


class Differs(Failure):
    exit_code = DIFFERS


def written(path: Path, text: str) -> None:
    """Writes a file that was asked for."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as e:
        raise Failure(f"{path} cannot be written: {e.strerror}") from e


@contextmanager
def reported() -> Iterator[None]:
    """Turns the runtime's exceptions into failures; a fault of this package keeps its traceback."""
    try:
        yield
    except InvalidModelError as error:
        raise InvalidModel(str(error)) from error
    except NoSuchNode as error:
        raise click.UsageError(str(error)) from error
    except (RuntimeError, ValueError, MemoryError) as error:
        raise Failure(str(error) or type(error).__name__) from error
