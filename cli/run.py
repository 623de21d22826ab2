"""`litedelegate run`: one inference on inputs from files."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from . import inputs as sources
from . import show
from .failures import EXIT_CODES, reported
from .options import Command, input_options, model_argument
from .packed import packed_labels
from .session import Session

Array = sources.Array
MOST_JSON_VALUES = 10_000
MOST_LINES = 16

EPILOG = f"""{sources.SOURCES}

\b
Examples:
  litedelegate run model.tflite --input photo.jpg --labels labels.txt --top 3
  litedelegate run model.tflite -i x=data.npy -i mask=ones --output y=out.npy
  litedelegate run model.tflite --signature encode -i text:hello --json

{EXIT_CODES}"""


def output_options(command: Command) -> Command:
    """The options of what runs a model once and shows what comes out: those of `run_session`."""
    options = [
        click.option(
            "--fill",
            type=click.Choice(["random", "zeros", "ones"]),
            help="Where inputs come from that are not given.",
        ),
        click.option(
            "--labels",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Names of the classes, one a line; shows the best ones.",
        ),
        click.option(
            "--top",
            type=click.IntRange(1),
            metavar="K",
            help="Show the K greatest values of each output, with the labels packed in the model "
            "if there are no others. [default with --labels: 5]",
        ),
        click.option(
            "--output",
            "saves",
            multiple=True,
            metavar="[NAME=]FILE.npy",
            help="Write an output to a file. Can be given several times.",
        ),
        click.option(
            "--repeat",
            type=click.IntRange(1),
            default=1,
            metavar="N",
            show_default=True,
            help="Invoke N times in a row (state carries over) and show the last.",
        ),
        click.option(
            "--json",
            "as_json",
            is_flag=True,
            help="Print JSON and nothing else. NaN and the infinities are the strings NaN, "
            "Infinity and -Infinity.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command("run", epilog=EPILOG, short_help="Run a model once on files or made-up inputs.")
@model_argument
@input_options()
@output_options
def command(model: Path, top: int | None, **options: Any) -> None:
    """Run MODEL once and show what comes out."""
    names = packed_labels(model) if top else None
    run_session(str(model), partial(Session, model), names=names, top=top, **options)


def run_session(
    title: str,
    start_session: Callable[..., Session],
    *,
    labels: Path | None,
    top: int | None,
    saves: tuple[str, ...],
    repeat: int,
    as_json: bool,
    names: list[str] | None = None,
    **options: Any,
) -> None:
    """One inference and what comes out; `names` are labels for want of a file."""
    if labels:
        names = labels.read_text(encoding="utf-8", errors="replace").splitlines()
    top = top or (5 if labels else None)
    with reported(), start_session(**options) as session:
        values = session.load_inputs()
        targets = _targets(saves, list(session.outputs))
        session.allocate(values)
        start = time.perf_counter()
        with show.progress() as bar:
            once = repeat == 1  # nothing to show the progress of
            for _ in range(1) if once else bar.track(range(repeat), description="invoke"):
                results = session.run(values)
        elapsed = (time.perf_counter() - start) / repeat
    if labels and names and all(v.shape[-1:] != (len(names),) for v in results.values()):
        click.echo(f"note: {labels} has {len(names)} lines, no output has as many values", err=True)
    for name, path in targets.items():
        np.save(path, results[name], allow_pickle=False)
    if as_json:
        show.print_json(
            {
                "model": title,
                "signature": session.signature,
                "invoke_seconds": elapsed,
                "outputs": {
                    name: _json_output(value, session.outputs[name], names, top)
                    for name, value in results.items()
                },
                "saved": {name: str(path) for name, path in targets.items()},
            }
        )
        return
    out = show.console()
    for name, value in results.items():
        _print_output(out, name, value, session.outputs[name], names, top)
    for name, path in targets.items():
        out.print(f"[dim]{show.name(name)} written to[/] {path}")
    out.print(
        f"[dim]invoke: {show.seconds(elapsed)}{f', mean of {repeat}' if repeat > 1 else ''}[/]"
    )


def _targets(saves: tuple[str, ...], outputs: list[str]) -> dict[str, Path]:
    """output name -> file."""
    targets = {}
    for save in saves:
        fits = [name for name in outputs if save.startswith(f"{name}=")]
        if fits:
            name = max(fits, key=len)
            path = save[len(name) + 1 :]
        elif len(outputs) == 1 and "=" not in save:
            name, path = outputs[0], save
        else:
            known = ", ".join(map(repr, outputs))
            raise click.UsageError(
                f"--output {save!r} names no output of the model. It has {known}."
            )
        if Path(path).suffix != ".npy":
            raise click.UsageError(f"--output {save!r}: the file's name must end in .npy")
        if not Path(path).absolute().parent.is_dir():
            raise click.UsageError(f"--output {save!r}: there is no such folder")
        targets[name] = Path(path)
    return targets


def real_values(value: Array, detail: Mapping[str, Any]) -> Array:
    """What a quantised output stands for; other outputs as they are."""
    parameters = detail["quantization_parameters"]
    scale, zero = np.asarray(parameters["scales"]), np.asarray(parameters["zero_points"])
    if value.dtype.kind not in "iu" or scale.size != 1:
        return value
    return (value.astype(np.float32) - np.float32(zero[0])) * np.float32(scale[0])


def best(value: Array, names: list[str] | None, top: int) -> list[tuple[int, str, float]]:
    """(index, label, value) of the greatest elements of the first row; ties by index.

    Labels go with rows of their own length alone: an output may be something else than scores.
    """
    row = value.reshape(-1, value.shape[-1])[0] if value.ndim else value.reshape(1)
    order = np.argsort(-row.astype(np.float64), kind="stable")[:top]
    known = names if names is not None and len(names) == row.size else [""] * row.size
    return [(int(i), known[i], float(row[i])) for i in order]


def _json_output(
    value: Array, detail: Mapping[str, Any], names: list[str] | None, top: int | None
) -> dict[str, Any]:
    out: dict[str, Any] = {"dtype": str(value.dtype), "shape": list(value.shape)}
    if value.dtype != object and value.size:
        real = real_values(value, detail)
        if top and value.dtype.kind in "iuf":
            out["top"] = [
                {"index": i, "label": label or None, "value": v}
                for i, label, v in best(real, names, top)
            ]
        if value.dtype.kind in "iuf":
            out |= {"min": value.min(), "max": value.max(), "mean": value.mean(dtype=np.float64)}
    out["values"] = value if value.size <= MOST_JSON_VALUES else None
    return out


def _print_output(
    out: Console,
    name: str,
    value: Array,
    detail: Mapping[str, Any],
    names: list[str] | None,
    top: int | None,
) -> None:
    dtype = "string" if value.dtype == object else str(value.dtype)
    out.print(f"[bold]{show.name(name)}[/]  {dtype} {show.shape(value.shape)}")
    if not value.size:
        out.print("  empty\n")
        return
    if top and value.dtype.kind in "iuf":
        real = real_values(value, detail)
        found = best(real, names, top)
        finite = [v for _, _, v in found if np.isfinite(v)]
        low, high = min([0.0, *finite]), max([1e-30, *finite])
        rows = [
            (rank, show.name(label) or f"#{i}", f"{v:.4f}", show.bar((v - low) / (high - low)))
            for rank, (i, label, v) in enumerate(found, 1)
        ]
        out.print(show.table("", ["> ", "label", ">value", ""], rows))
        return
    if value.dtype.kind in "iuf":
        out.print(
            f"  [dim]min[/] {value.min():.6g}  [dim]max[/] {value.max():.6g}  "
            f"[dim]mean[/] {value.mean(dtype=np.float64):.6g}"
        )
    out.print(*(f"  {line}" for line in _lines(value, out.width)), "", markup=False, sep="\n")


def _lines(value: Array, width: int) -> list[str]:
    """The values as numpy writes them, in not more than MOST_LINES lines."""
    lines: list[str] = []
    for edge in (3, 2, 1):
        text = np.array2string(
            value,
            threshold=64,
            edgeitems=edge,
            max_line_width=min(width, show.WIDE) - 4,
            precision=6,
        )
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) <= MOST_LINES:
            return lines
    return [*lines[: MOST_LINES - 1], "… (--output writes all of it to a file)"]
