"""From a model file to a runnable graph: the checks of TensorFlow Lite's InterpreterBuilder, in its
order and with its words.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, MutableMapping
from mmap import mmap
from typing import Any

from ..kernels.types import Array
from .errors import NodeError
from .graph import Graph, resolve
from .model import InvalidModelError, Model
from .resolver import OpResolver
from .schema import VERSION
from .unresolved import describe_builtins

# what a model in memory is given as: anything of bytes
Content = bytes | bytearray | memoryview | mmap | Array


class BuildError(ValueError):
    """A model that no interpreter can be built from."""


class UnusableModelError(BuildError, InvalidModelError):
    """A well-formed file that lacks what a model must have, or is of another schema version."""


class UnknownCodeError(BuildError):
    """A model with an operator code that the schema of this version does not have."""


def open_model(path: str | os.PathLike[str]) -> Model:
    """Maps and verifies a file. ValueError where it cannot be read, InvalidModelError where it is
    no model.
    """
    try:
        return Model.from_file(path)
    except OSError as e:
        raise BuildError(
            f"Could not open '{os.fsdecode(path)}'. The model allocation is null/empty: "
            f"{e.strerror or e}"
        ) from e
    except InvalidModelError as e:
        raise _invalid(e) from e


def load_model(content: Content) -> Model:
    """Verifies a model in memory, which is not copied where it lies in one piece."""
    try:
        source: Any = content  # the buffer interface has a type from Python 3.12 on
        view = memoryview(source)
    except (TypeError, ValueError, BufferError) as e:
        raise TypeError(f"a model's content is bytes, not {type(content).__name__}") from e
    if not view.nbytes or not view.c_contiguous:
        view = memoryview(view.tobytes())
    try:
        return Model.from_buffer(view.cast("B"))
    except InvalidModelError as e:
        raise _invalid(e) from e


def _invalid(error: InvalidModelError) -> InvalidModelError:
    return InvalidModelError(f"The model is not a valid Flatbuffer buffer. {error}")


def is_given(content: Any) -> bool:
    """Whether there is any: None and no bytes at all mean the same, as in TensorFlow Lite."""
    try:
        return content is not None and len(content) > 0
    except TypeError:  # what this is not, `load_model` says
        return True


def build_graph(
    model: Model | None,
    resolver: OpResolver,
    *,
    threads: int | None = None,
    preserve_all: bool = False,
    keep: Iterable[str | int] = (),
    weights: MutableMapping[Any, Any] | None = None,
    report: Callable[[str], None] | None = None,
) -> Graph:
    """The graph, or a BuildError."""
    if model is None:
        raise BuildError("Null pointer passed in as model.")
    _check_version(model)
    _check_codes(model)
    resolved = resolve(model, resolver)
    builtins = [m for m in resolved[1] if not m.custom]
    if builtins:
        raise BuildError(describe_builtins(builtins, [m for m in resolved[1] if m.custom]))
    _check_parts(model)
    try:
        return Graph(
            model,
            resolver,
            threads=threads,
            preserve_all=preserve_all,
            keep=keep,
            weights=weights,
            report=report,
            resolved=resolved,
        )
    except NodeError as e:
        raise BuildError(f"Failed to initialize kernel. {e}") from e


def problem(model: Model) -> str | None:
    """Why no interpreter takes this model, whatever ops it knows; None if nothing is wrong."""
    try:
        _check_version(model)
        _check_parts(model)
    except UnusableModelError as error:
        return str(error)
    return None


def _check_version(model: Model) -> None:
    if model.version != VERSION:
        raise UnusableModelError(
            f"Model provided is schema version {model.version} not equal to supported version "
            f"{VERSION}."
        )


def _check_parts(model: Model) -> None:
    if not model.subgraphs:
        raise UnusableModelError("No subgraph in the model.")
    if "buffers" in model.missing:
        raise UnusableModelError("No buffers in the model.")
    for subgraph in model.subgraphs:
        if "tensors" in subgraph.missing:
            raise UnusableModelError(f"Did not get tensors in subgraph {subgraph.index}.")


def _check_codes(model: Model) -> None:
    for code in model.operator_codes:
        if code.builtin.startswith("UNKNOWN_"):
            raise UnknownCodeError(
                f"Op builtin_code out of range: {code.builtin_code}. Are you using old TFLite "
                "binary with newer model?\n"
                "Registration failed."
            )
        if code.is_custom and code.custom is None:
            raise UnusableModelError(
                "Operator with CUSTOM builtin_code has no custom_code.\nRegistration failed."
            )
