"""`litedelegate op`: build, try and measure one custom op."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.markup import escape

from ..customops import include_dir
from ..customops.build import BuildFailed, build_op_library
from ..customops.library import OpLibrary, load_op_library
from ..customops.platforms import TARGETS
from ..kernels.api import Registration
from ..runtime.builder import ModelBuilder, dtype_of
from ..runtime.interpreter import Interpreter
from . import show
from .failures import EXIT_CODES, Failure, reported
from .inputs import random_array

SECONDS = 1.0

EPILOG = f"""\b
LIBRARY is a shared library of ops, or MODULE:ATTRIBUTE for an op in Python.

\b
Examples:
  litedelegate op build atan.c -o atan.so
  litedelegate op test atan.so -i float32:5 --options '{{"offset": 1.0}}' --reference ref:atan
  litedelegate op profile atan.so -i float32:1x224x224x3 -i weights.npy -o float32:1000

{EXIT_CODES}"""


@click.group("op", epilog=EPILOG, short_help="Build, test and profile a custom op.")
def command() -> None:
    """Build a custom op from C or C++, and run it alone, without a model."""


@command.command("include", short_help="Print the folder of the C header.")
def include() -> None:
    """Print the folder for a C compiler's -I."""
    click.echo(include_dir())


@command.command("build", short_help="Compile a library of ops.")
@click.argument(
    "sources", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SRC..."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The library. [default: the first source's name]",
)
@click.option(
    "--target",
    metavar="PLATFORM",
    help="Another platform, built by zig (pip install 'litedelegate[build]'): "
    f"{', '.join(TARGETS)}. "
    "[default: this machine, by CC, CXX or the system's compiler]",
)
@click.option(
    "--flag",
    "flags",
    multiple=True,
    metavar="FLAG",
    help="For the compiler, as --flag=-O3. Can be given several times.",
)
def build(
    sources: tuple[Path, ...], output: Path | None, target: str | None, flags: tuple[str, ...]
) -> None:
    """Compile C and C++ sources that use litedelegate/tflite_custom_op.h."""
    try:
        made = build_op_library(sources, output, target=target, flags=flags)
    except BuildFailed as e:
        raise Failure(str(e)) from e
    click.echo(f"{made} ({show.nbytes(made.stat().st_size)})")


def _one_op(function: Callable[..., None]) -> Callable[..., None]:
    """The arguments that say which op is run on what."""
    for decorate in reversed([
        click.argument("library", metavar="LIBRARY"),
        click.option("--op", metavar="NAME", help="Which one, where the library has several."),
        click.option("-i", "--input", "given", multiple=True, required=True, metavar="SPEC",
                     help="An input: TYPE:SHAPE as float32:1x5, filled at random, or a .npy file."),
        click.option("-o", "--output", "outputs", multiple=True, metavar="SPEC",
                     help="An output, TYPE:SHAPE. [default: one, like the first input]"),
        click.option("--options", metavar="JSON", help="The op's options, for a FlexBuffer."),
        click.option("--reference", metavar="MODULE:FUNCTION",
                     help="A function on arrays (the options by keyword) to compare with."),
        click.option("--tolerance", type=click.FloatRange(0), default=1e-5, show_default=True,
                     help="Of the reference's largest value."),
        click.option("--seed", type=int, default=0, show_default=True),
        click.option("-d", "--delegate", "delegates", multiple=True, metavar="NAME",
                     help="Where it runs, as in `litedelegate run`. [default: the CPU]"),
        click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else."),
    ]):  # fmt: skip
        function = decorate(function)
    return function


@command.command("test", short_help="Run an op once, and compare it.")
@_one_op
def test(as_json: bool, tolerance: float, reference: str | None, **given: Any) -> None:
    """Run one op and show its outputs; with --reference, fail where they differ."""
    with reported():
        alone = _Alone(**given)
        outputs = alone.run()
        result = alone.facts() | {"outputs": [_summary(v) for v in outputs]}
        compared = alone.compare(reference, outputs, tolerance) if reference else []
    result["reference"] = compared
    if as_json:
        show.print_json(result)
    else:
        _print(alone, outputs, compared)
    wrong = [c for c in compared if not c["agrees"]]
    if wrong:
        raise Failure(f"{alone.name} and {reference} differ: {wrong[0]['text']}")


@command.command("profile", short_help="Measure an op.")
@click.option(
    "--runs",
    type=click.IntRange(1),
    metavar="N",
    help="Invokes to measure. [default: as many as fit in 1 s, 5 to 10000]",
)
@_one_op
def profile(
    as_json: bool, tolerance: float, reference: str | None, runs: int | None, **given: Any
) -> None:
    """Measure an invoke of one op; with --reference, compare values and times."""
    with reported():
        alone = _Alone(**given)
        outputs = alone.run()
        times = _measure(alone.interpreter.invoke, runs)
        compared = alone.compare(reference, outputs, tolerance) if reference else []
        result = alone.facts() | {"invoke_seconds": times, "reference": compared}
        if reference:
            function = _load(reference)
            result["reference_seconds"] = _measure(
                lambda: function(*alone.arrays, **alone.options), runs
            )
    if as_json:
        show.print_json(result)
        return
    out = show.console()
    rows: list[tuple[str, object]] = [("op", show.name(alone.name))]
    rows.append(("runs on", escape(alone.place)))
    for title, key in (("invoke", "invoke_seconds"), ("reference", "reference_seconds")):
        if key in result:
            t = result[key]
            rows.append((
                title,
                f"[bold]{show.seconds(t['median'])}[/] median, {show.seconds(t['p90'])} p90, "
                f"{show.seconds(t['min'])} min, of {show.plural(t['runs'], 'run')}",
            ))  # fmt: skip
    rows += [("values", c["text"]) for c in compared]
    out.print(show.facts(rows))


class _Alone:
    """One op in a model of its own, with inputs."""

    def __init__(
        self,
        library: str,
        op: str | None,
        given: Sequence[str],
        outputs: Sequence[str],
        options: str | None,
        seed: int,
        delegates: Sequence[str],
    ) -> None:
        ops = _ops(library, op)
        self.name = _choose(ops, op)
        self.options = _parse_options(options)
        rng = np.random.default_rng(seed)
        self.arrays = [_input(spec, rng) for spec in given]
        builder = ModelBuilder()
        graph = builder.subgraph("main")
        inputs = [
            graph.input(f"input{i}", a.shape, dtype_of(a.dtype)) for i, a in enumerate(self.arrays)
        ]
        specs = [_spec(o) for o in outputs] or [(self.arrays[0].dtype, self.arrays[0].shape)]
        made = graph.custom(
            self.name,
            inputs,
            [(f"output{i}", shape, dtype_of(dtype)) for i, (dtype, shape) in enumerate(specs)],
            options=self.options or None,
        )
        graph.outputs(*made)
        self.interpreter = Interpreter(
            model_content=builder.build(), custom_ops=dict(ops), delegates=list(delegates)
        )

    def run(self) -> list[Any]:
        interpreter = self.interpreter
        interpreter.allocate_tensors()
        for detail, array in zip(interpreter.get_input_details(), self.arrays, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]

    @property
    def place(self) -> str:
        """Where the node runs, and why it does not where it was meant to."""
        node = self.interpreter.delegate_coverage().nodes[0]
        why = "; ".join(f"{r.delegate}: {r.text}" for r in node.refusals)
        return f"{node.placed_on} ({why})" if why else node.placed_on

    def facts(self) -> dict[str, Any]:
        return {
            "op": self.name,
            "runs_on": self.place,
            "options": self.options,
            "inputs": [_summary(a) for a in self.arrays],
        }

    def compare(
        self, reference: str, outputs: Sequence[Any], tolerance: float
    ) -> list[dict[str, Any]]:
        wanted = _load(reference)(*self.arrays, **self.options)
        wanted = wanted if isinstance(wanted, tuple | list) else (wanted,)
        if len(wanted) != len(outputs):
            raise Failure(f"{reference} gives {len(wanted)} arrays, the op {len(outputs)}")
        return [
            _difference(g, np.asarray(w), tolerance) for g, w in zip(outputs, wanted, strict=True)
        ]


def _difference(got: Any, want: Any, tolerance: float) -> dict[str, Any]:
    if got.shape != want.shape:
        text = f"shape {list(got.shape)}, the reference has {list(want.shape)}"
        return {"agrees": False, "text": text}
    if got.dtype == object or want.dtype.kind in "OSU":
        equal = [_bytes(g) == _bytes(w) for g, w in zip(got.flat, want.flat, strict=True)]
        return {"agrees": all(equal), "text": f"{equal.count(False)} of {got.size} strings differ"}
    if not got.size:
        return {"agrees": True, "text": "no elements"}
    wide = np.complex128 if "c" in (got.dtype.kind, want.dtype.kind) else np.float64
    a, b = got.astype(wide), want.astype(wide)
    with np.errstate(all="ignore"):
        # equal infinities and two NaN are no difference
        same = (a == b) | ((a != a) & (b != b))
        gap = float(np.max(np.where(same, 0, np.abs(a - b))))
        finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size else 0.0
    return {
        "agrees": bool(gap <= tolerance * scale),
        "greatest_difference": gap,
        "text": f"differ by at most {gap:.3g}, where the largest value is {scale:.3g}",
    }


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _ops(library: str, op: str | None) -> Mapping[str, Any]:
    module, colon, attribute = library.partition(":")
    if Path(library).is_file() or not colon or len(module) == 1:  # C:\ops.dll
        found: OpLibrary = load_op_library(library)
        return found
    value = _load(library)
    registration = getattr(value, "registration", value)
    if isinstance(registration, Registration):
        return {op or registration.name or attribute: registration}
    return {op or attribute: value}


def _choose(ops: Mapping[str, Any], op: str | None) -> str:
    if op is None and len(ops) == 1:
        return next(iter(ops))
    if op is None or op not in ops:
        raise click.UsageError(f"--op is one of {', '.join(ops)}")
    return op


def _load(name: str) -> Any:
    module, _, attribute = name.partition(":")
    if not attribute:
        raise click.UsageError(f"{name!r} is no MODULE:ATTRIBUTE")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as e:
        raise click.UsageError(f"{name} cannot be had: {e}") from e


def _parse_options(text: str | None) -> dict[str, Any]:
    try:
        options = json.loads(text or "{}")
    except ValueError as e:
        raise click.UsageError(f"--options {text!r} is no JSON: {e}") from None
    if not isinstance(options, dict):
        raise click.UsageError(f"--options is a JSON object, not {text!r}")
    return options


def _spec(text: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    name, _, shape = text.partition(":")
    try:
        dims = tuple(int(d) for d in shape.replace(",", "x").split("x") if d)
        dtype = np.dtype(object) if name == "string" else np.dtype(name)
        dtype_of(dtype)
    except (TypeError, ValueError):
        dims, dtype = (-1,), np.dtype(np.float32)
    if min(dims, default=0) < 0:
        raise click.UsageError(f"{text!r} is no TYPE:SHAPE like float32:1x5 and no .npy file")
    return dtype, dims


def _input(text: str, rng: np.random.Generator) -> Any:
    if text.endswith(".npy"):
        try:
            return np.load(text, allow_pickle=False)
        except (OSError, ValueError) as e:
            raise click.UsageError(f"{text} cannot be read: {e}") from None
    dtype, shape = _spec(text)
    if dtype.kind == "O":
        made = np.empty(shape, object)
        made.reshape(-1)[:] = [b"string %d" % i for i in range(made.size)]
        return made
    return random_array(shape, dtype, rng)


def _measure(call: Callable[[], Any], runs: int | None) -> dict[str, Any]:
    clock = time.perf_counter
    start = clock()
    call()
    first = clock() - start
    times = []
    for _ in range(runs or max(5, min(10_000, int(SECONDS / max(first, 1e-6))))):
        start = clock()
        call()
        times.append(clock() - start)
    median, p90 = np.percentile(times, (50, 90))
    return {"runs": len(times), "median": float(median), "p90": float(p90), "min": min(times)}


def _summary(value: Any) -> dict[str, Any]:
    facts = {"dtype": "string" if value.dtype == object else str(value.dtype)}
    return facts | {"shape": list(value.shape), "values": value.reshape(-1)[:8].tolist()}


def _print(alone: _Alone, outputs: Sequence[Any], compared: Sequence[dict[str, Any]]) -> None:
    rows: list[tuple[str, object]] = [("op", show.name(alone.name))]
    rows.append(("runs on", escape(alone.place)))
    for title, values in (("input", alone.arrays), ("output", outputs)):
        for i, value in enumerate(values):
            told = _summary(value)
            more = " …" if value.size > 8 else ""
            shown = " ".join(
                f"{v:.7g}" if isinstance(v, float) else show.printable(str(v))
                for v in told["values"]
            )
            text = f"{told['dtype']} {show.shape(value.shape)}: {shown}{more}"
            rows.append((f"{title} {i}", escape(text)))
    rows += [("reference", c["text"]) for c in compared]
    show.console().print(show.facts(rows))
