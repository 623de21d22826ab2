"""`litedelegate resolver`: a module with just the operators that some models use."""

from __future__ import annotations

from pathlib import Path

import click

from .. import __version__
from ..runtime.model import Model
from ..runtime.selective import all_families, families, left_out, module_text, used_ops
from . import show
from .failures import EXIT_CODES, Unresolved, reported, written

EPILOG = f"""\b
Examples:
  litedelegate resolver model.tflite -o my_ops.py
  litedelegate resolver *.tflite -o my_ops.py --strict

The module has a function resolver(), for Interpreter(model, op_resolver=resolver()). Importing it
imports the kernels of these operators and no others, so that the others need not be installed.

{EXIT_CODES}"""


@click.command("resolver", epilog=EPILOG, short_help="Write a resolver of just the ops in use.")
@click.argument(
    "models",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="MODEL...",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The module. [default: printed]",
)
@click.option("--strict", is_flag=True, help="End with 4, and write nothing, if an op is left out.")
def command(models: tuple[Path, ...], output: Path | None, strict: bool) -> None:
    """Write a Python module with an op resolver for the operators of all MODELs.

    It has their versions, those of all subgraphs, and custom ops that come with litedelegate. What
    is left out is said, in the module too.
    """
    with reported():
        ops = used_ops([Model.from_file(path) for path in models])
    lacking = left_out(ops)
    unusable = [o for o in ops if not o.family and not o.custom]
    if unusable or (strict and lacking):
        told = "\n".join(f"  {op}: {why}" for op, why in lacking.items())
        raise Unresolved(f"operators that are not known here:\n{told}")
    text = module_text(ops, [path.name for path in models], __version__)
    if output is None:
        click.echo(text, nl=False)
    else:
        written(output, text)
    taken, every = families(ops), all_families()
    count = len({(o.op, o.custom) for o in ops if o.family})
    click.echo(
        f"{show.plural(count, 'operator')} from {len(taken)} of {len(every)} kernel families: "
        f"{', '.join(taken) or 'none'}",
        err=True,
    )
    click.echo(f"not imported: {', '.join(f for f in every if f not in taken)}", err=True)
    for op, why in lacking.items():
        click.echo(f"left out: {op}: {why}", err=True)
