"""Options that commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

model_argument = click.argument(
    "model", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="MODEL"
)


def input_options(delegate: str = "numpy") -> Callable[[Command], Command]:
    """The options that say what goes into a model, and how it runs; `delegate` is the default."""
    options = [
        click.option("--input", "-i", "given", multiple=True, metavar="[NAME=]SOURCE",
                     help="Where an input comes from, see below. Can be given several times."),
        click.option("--shape", "-s", "shapes", multiple=True, metavar="[NAME=]1,224,224,3",
                     help="Another shape for an input."),
        click.option("--signature", metavar="KEY", help="Run this signature."),
        click.option("--mean", metavar="M[,M,M]", callback=_floats,
                     help="For images: a pixel p becomes (p - mean) / std. [default: 0]"),
        click.option("--std", metavar="S[,S,S]", callback=_floats,
                     help="See --mean. [default: 1 with --mean, else 255]"),
        click.option("--threads", type=click.IntRange(1), metavar="N",
                     help="Threads to use. [default: all cores]"),
        click.option("--delegate", "-d", "delegates", multiple=True, metavar="NAME",
                     callback=from_here,
                     help="opencl, cuda, auto or MODULE:ATTRIBUTE; in order. "
                     f"[default: {delegate}]"),
        click.option("--quantize", is_flag=True,
                     help="Take floats for quantised inputs and quantise them."),
    ]  # fmt: skip

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def from_here(
    ctx: click.Context, param: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    """`names`, of which MODULE:ATTRIBUTE may be in the current folder: behind what is installed."""
    if any(":" in name for name in names) and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return names


def _floats(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[float, ...] | None:
    if value is None:
        return None
    try:
        numbers = tuple(float(v) for v in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is no number or list of numbers") from None
    if len(numbers) not in (1, 3):
        raise click.BadParameter("give one number, or one for each of three channels")
    return numbers
