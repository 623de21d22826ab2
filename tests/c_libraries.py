"""Libraries of C ops for tests: built once each, skipped where there is no compiler."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import pytest

from litedelegate import Interpreter, ModelBuilder
from litedelegate.customops.build import CPP, BuildFailed, build_op_library, find_compiler, suffix

ROOT = Path(__file__).resolve().parent.parent


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="c_ops")


@functools.cache
def built(source: str, *flags: str) -> Path:
    """The library of a source, by its path in the repository."""
    path = ROOT / source
    try:
        find_compiler(path.suffix in CPP)
    except BuildFailed as e:
        pytest.skip(str(e))
    kind = "-".join(flags).replace("/", "_").replace("=", "_")
    made = Path(_folder().name) / f"{path.stem}{path.suffix[1:]}{kind}{suffix()}"
    strict = ("-Wall", "-Wextra", "-pedantic", "-Werror")
    standard = "-std=c++11" if path.suffix in CPP else "-std=c99"
    return build_op_library([path], made, flags=(standard, *strict, *flags))


def one_op(
    op: str, inputs: list[tuple[Any, ...] | None], out: tuple[Any, ...], options: Any = None
) -> bytes:
    """A model of one custom op: inputs and output are (name, shape, dtype[, Quant])."""
    builder = ModelBuilder()
    builder.metadata("note", b"hi")
    graph = builder.subgraph("main")
    given = []
    for spec in inputs:
        quant = spec[3] if spec is not None and len(spec) > 3 else None
        given.append(None if spec is None else graph.input(*spec[:3], quant=quant))
    graph.outputs(graph.custom(op, given, out, options=options))
    return builder.build()


def run(model: bytes, library: Any, **inputs: Any) -> Any:
    """The output `y`."""
    with Interpreter(model_content=model, custom_ops=library) as interpreter:
        return interpreter.run(inputs)["y"]
