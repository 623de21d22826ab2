"""`FlatBufferModel`, `ErrorReporter`, `InterpreterBuilder`, as TensorFlow Lite's C++ has them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..kernels.types import Array
from .build import BuildError, Content, load_model, open_model
from .interpreter import Interpreter
from .model import Model
from .resolver import OpResolver


class ErrorReporter:
    """Takes error messages. This one keeps them in `messages`; override `report` for another."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def report(self, text: str) -> None:
        self.messages.append(text)


class StderrReporter(ErrorReporter):
    """Writes messages to the standard error stream, and keeps them."""

    def report(self, text: str) -> None:
        super().report(text)
        print(text, file=sys.stderr)


class FlatBufferModel:
    """A model file, mapped and verified.

    The `build_from_…` functions return None where there is no valid model, and say why to the error
    reporter (by default the standard error stream), as in TensorFlow Lite. The verifier always
    runs; `verify_and_build_from_…` takes one more.
    """

    def __init__(self, model: Model, error_reporter: ErrorReporter | None = None) -> None:
        self.model = model
        self.error_reporter = error_reporter or StderrReporter()

    @classmethod
    def build_from_file(
        cls, path: str | os.PathLike[str], error_reporter: ErrorReporter | None = None
    ) -> FlatBufferModel | None:
        return cls._build(lambda: open_model(path), error_reporter)

    @classmethod
    def build_from_buffer(
        cls, content: Content, error_reporter: ErrorReporter | None = None
    ) -> FlatBufferModel | None:
        """The content is not copied and must not change."""
        return cls._build(lambda: load_model(content), error_reporter)

    @classmethod
    def verify_and_build_from_file(
        cls,
        path: str | os.PathLike[str],
        extra_verifier: Callable[[Array], bool] | None = None,
        error_reporter: ErrorReporter | None = None,
    ) -> FlatBufferModel | None:
        """`extra_verifier(bytes as uint8[n])` may refuse the file by returning False or by raising
        ValueError.
        """
        return cls._build(lambda: _passed(open_model(path), extra_verifier), error_reporter)

    @classmethod
    def verify_and_build_from_buffer(
        cls,
        content: Content,
        extra_verifier: Callable[[Array], bool] | None = None,
        error_reporter: ErrorReporter | None = None,
    ) -> FlatBufferModel | None:
        return cls._build(lambda: _passed(load_model(content), extra_verifier), error_reporter)

    @classmethod
    def _build(
        cls, make: Callable[[], Model], error_reporter: ErrorReporter | None
    ) -> FlatBufferModel | None:
        reporter = error_reporter or StderrReporter()
        try:
            return cls(make(), reporter)
        except ValueError as e:
            reporter.report(str(e))
            return None

    @property
    def metadata(self) -> Mapping[str, Array]:
        """The metadata buffers by name, uint8[n]."""
        return self.model.metadata

    @property
    def minimum_runtime(self) -> str:
        """The least TensorFlow Lite version, as the converter wrote it; empty where it did not."""
        return self.model.min_runtime_version


def _passed(model: Model, verifier: Callable[[Array], bool] | None) -> Model:
    if verifier is not None and not verifier(model.data):
        raise BuildError(
            "The model is not a valid Flatbuffer buffer. The extra verifier refused it."
        )
    return model


class InterpreterBuilder:
    """Builds interpreters: `InterpreterBuilder(model, resolver)()` gives one, or raises ValueError.

    What is wrong is told to the model's error reporter too. In order: a null model, the schema
    version, a registration for every operator code, absent parts, then threads, tensors, nodes and
    variables; delegates come last.
    """

    def __init__(
        self,
        model: FlatBufferModel | Model | None,
        resolver: OpResolver,
        *,
        error_reporter: ErrorReporter | None = None,
    ) -> None:
        self.model = model.model if isinstance(model, FlatBufferModel) else model
        self.resolver = resolver
        if error_reporter is None:
            error_reporter = (
                model.error_reporter if isinstance(model, FlatBufferModel) else ErrorReporter()
            )
        self.error_reporter = error_reporter
        self._threads: int | None = None
        self._delegates: list[Any] = []

    def set_num_threads(self, num_threads: int) -> None:
        """-1: the runtime's choice, all CPUs. ValueError for less; 0 counts as 1."""
        if num_threads < -1:
            text = (
                "num_threads should be >= 0 or just -1 to let TFLite runtime set the value; "
                f"got {num_threads}"
            )
            self.error_reporter.report(text)
            raise BuildError(text)
        self._threads = None if num_threads == -1 else max(1, num_threads)

    def add_delegate(self, delegate: Any) -> None:
        self._delegates.append(delegate)

    def __call__(
        self,
        num_threads: int | None = None,
        *,
        preserve_all_tensors: bool = False,
        keep: Iterable[str | int] = (),
    ) -> Interpreter:
        if num_threads is not None:
            self.set_num_threads(num_threads)
        try:
            return Interpreter.from_model(
                self.model,
                op_resolver=self.resolver,
                num_threads=self._threads,
                delegates=self._delegates,
                experimental_preserve_all_tensors=preserve_all_tensors,
                keep=keep,
                report=self.error_reporter.report,
            )
        except ValueError as e:
            self.error_reporter.report(str(e))
            raise
