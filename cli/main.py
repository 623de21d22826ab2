"""The command group, and the options that commands share."""

from __future__ import annotations

import io
import sys
from typing import Any

import click

from .. import __version__
from .failures import EXIT_CODES


class Commands(click.Group):
    """Commands in the order of use, each imported when it is asked for."""

    NAMES = (
        *("run", "inspect", "benchmark", "coverage", "verify", "devices"),
        *("op", "resolver", "bundle"),
    )

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.NAMES:
            return None
        from importlib import import_module

        command: click.Command = import_module(f".{cmd_name}", __package__).command
        return command


EXAMPLES = """\b
Examples:
  litedelegate inspect model.tflite
  litedelegate run model.tflite --input photo.jpg --labels labels.txt
  litedelegate benchmark model.tflite --profile
  litedelegate coverage model.tflite --delegate opencl"""


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"{EXAMPLES}\n\n{EXIT_CODES}",
)
@click.version_option(__version__, "-V", "--version", prog_name="litedelegate")
def main(**_: Any) -> None:
    """Run, look into and measure TensorFlow Lite models."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a terminal that lacks a character shows "?" for it
            stream.reconfigure(errors="replace")
