"""A model made ready to run: what `run` and `benchmark` share."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

import click

from ..runtime.build import BuildError, UnknownCodeError
from ..runtime.interpreter import Interpreter
from ..runtime.steps import Steps
from . import inputs as sources
from . import show
from .failures import Unresolved

Array = sources.Array
DEFAULT_SIGNATURE = "serving_default"


class Session:
    """An interpreter, and its inputs and outputs by name.

    The names are those of the signature: the chosen one, the only one or "serving_default". Without
    any, they are the tensors'.
    """

    def __init__(
        self,
        model: Path | Callable[..., Interpreter],
        *,
        given: Sequence[str],
        shapes: Sequence[str],
        signature: str | None,
        mean: tuple[float, ...] | None,
        std: tuple[float, ...] | None,
        threads: int | None,
        quantize: bool,
        delegates: Sequence[str] = (),
        fill: str | None = None,
    ) -> None:
        """`model` is a file, or makes the interpreter from the arguments that are left.

        `fill` is the source of inputs that are not given; without it they are an error.
        """
        self._given, self._shapes, self._fill = given, shapes, fill
        self._scale = sources.ImageScale(mean, std)
        start = time.perf_counter()
        try:
            make = model if callable(model) else partial(Interpreter, model)
            self.interpreter = make(
                num_threads=threads, quantize_inputs=quantize, delegates=list(delegates)
            )
        except BuildError as error:
            if isinstance(error, UnknownCodeError) or str(error).startswith("Didn't find op"):
                raise Unresolved(str(error)) from error
            raise
        self.load_seconds = time.perf_counter() - start
        if self.interpreter.unresolved_ops is not None:
            raise Unresolved(self.interpreter.unresolved_ops)
        self.quantize = quantize
        self.signature = self._choose(signature)
        self._steps = Steps(self.interpreter, self.signature)
        self.inputs, self.outputs = self._steps.inputs, self._steps.outputs

    def _choose(self, wanted: str | None) -> str | None:
        known = list(self.interpreter.get_signature_list())
        if wanted is not None and wanted not in known:
            raise click.UsageError(
                f"the model has no signature {wanted!r}; it has {', '.join(known) or 'none'}"
            )
        if wanted is None and len(known) == 1:
            return known[0]
        return wanted or (DEFAULT_SIGNATURE if DEFAULT_SIGNATURE in known else None)

    def load_inputs(self, fill: str | None = None) -> dict[str, Array]:
        """The inputs from where the command line says; `fill` is the source of the others."""
        details = dict(self.inputs)
        for name, shape in sources.parse_shapes(self._shapes, details).items():
            details[name] = {**details[name], "shape": shape}
        chosen = sources.parse(self._given, details, fill or self._fill)
        return {
            name: sources.load(name, source, details[name], self._scale, self.quantize)
            for name, source in chosen.items()
        }

    def run(self, values: Mapping[str, Array]) -> dict[str, Array]:
        return self.interpreter.run(values, signature_key=self.signature)

    def allocate(self, values: Mapping[str, Array]) -> float:
        """Allocates for the inputs' shapes, which is timed, and fills them in."""
        start = time.perf_counter()
        with show.builds():
            self._steps.allocate({name: value.shape for name, value in values.items()})
        seconds = time.perf_counter() - start
        self._steps.fill(values)
        return seconds

    def invoke(self) -> float:
        """The seconds it took."""
        start = time.perf_counter()
        self._steps.invoke()
        return time.perf_counter() - start

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.interpreter.close()
