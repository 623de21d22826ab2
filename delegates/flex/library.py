"""TensorFlow, imported when it is first needed, and the few of its internals that are used here.

These internals have kept their names and arguments from TensorFlow 2.16 on.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from ...kernels._memory import aligned_copy
from ...kernels.types import Array, DType

CPU = "/device:CPU:0"
# packages that add operators to TensorFlow when they are imported
EXTENSIONS = ("tensorflow_text",)
# what TensorFlow reads when it is loaded; the user's own settings stay
_SETTINGS = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
_CHATTER = (b"All log messages before absl", b" port.cc:", b" cpu_feature_guard.cc:")


def is_installed() -> bool:
    """Whether there is a TensorFlow. It is not imported."""
    if "tensorflow" in sys.modules:
        return sys.modules["tensorflow"] is not None  # None: somebody forbids it
    try:
        return find_spec("tensorflow") is not None
    except ImportError:
        return False


class Library:
    """TensorFlow, ready to run operators."""

    def __init__(self) -> None:
        with _quiet():
            self.version: str = import_module("tensorflow").__version__
            self.node_def = import_module("tensorflow.core.framework.node_def_pb2")
            self.function_def = import_module("tensorflow.core.framework.function_pb2")
            self.graph_def = import_module("tensorflow.core.framework.graph_pb2")
            self._ops = import_module("tensorflow.python.framework.ops")
            self._registry = import_module("tensorflow.python.framework.op_def_registry")
            self._importer = import_module("tensorflow.python.framework.importer")
            self._dtypes = import_module("tensorflow.python.framework.dtypes")
            self._tensors = import_module("tensorflow.python.framework.tensor_util")
            self._execute = import_module("tensorflow.python.pywrap_tfe").TFE_Py_Execute
            self.context = import_module("tensorflow.python.eager.context").context()
            self.context.ensure_initialized()
        config = import_module("tensorflow.core.protobuf.config_pb2").ConfigProto()
        # what the model says is run as it says it
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        self._call = ("executor_type", "", "config_proto", config.SerializeToString())

    def op_def(self, name: str) -> Any:
        """The definition of an operator, or None."""
        found = self._registry.get(name)
        if found is None:
            for extension in EXTENSIONS:
                if extension not in sys.modules and find_spec(extension) is not None:
                    with _quiet():
                        import_module(extension)
            found = self._registry.get(name)
        return found

    def call(self, function: str, inputs: Sequence[Any], outputs: int) -> list[Any]:
        """Runs a function that was added to `context`: tensors in, tensors out."""
        made: list[Any] = self._execute(
            self.context._handle, CPU, function, inputs, self._call, outputs
        )
        return made

    def infer(self, graph_def: Any, node: str) -> list[tuple[int, ...] | None]:
        """The shapes of a node's outputs; None where they do not follow from the graph.

        ValueError where the node does not take its inputs.
        """
        with self._ops.Graph().as_default():
            (made,) = self._importer.import_graph_def(graph_def, return_elements=[node], name="")
        shapes = [output.shape for output in made.outputs]
        return [tuple(s.as_list()) if s.is_fully_defined() else None for s in shapes]

    # -- values

    def dtype(self, dtype: DType) -> Any:
        """TensorFlow's type of that name. TypeError where this version has none."""
        return _dtype(self, dtype)

    def type_name(self, number: int) -> str:
        """The name of one of TensorFlow's types, which is `DType.label` for those in models."""
        name: str = self._dtypes.as_dtype(number).name
        return name

    def tensor(self, array: Array, dtype: DType) -> Any:
        """A tensor with a copy of the value: TensorFlow may keep it, or give its memory on."""
        kind = _dtype(self, dtype)
        if dtype is not DType.STRING:
            stored = kind.as_numpy_dtype
            if array.dtype == stored:
                array = aligned_copy(array)  # which TensorFlow takes as it is
            elif array.itemsize == np.dtype(stored).itemsize and dtype.bits == 8 * array.itemsize:
                array = array.view(stored).copy()  # bfloat16 and 8-bit floats are kept as bits
            else:
                array = array.astype(stored)
        return self._ops.EagerTensor(array, CPU, kind.as_datatype_enum)

    def proto(self, array: Array, dtype: DType) -> Any:
        return self._tensors.make_tensor_proto(array, dtype=_dtype(self, dtype))

    @staticmethod
    def array(tensor: Any, dtype: DType) -> Array:
        """The value in the storage of `kernels.types`, not copied where that is the same."""
        value = tensor._numpy()
        if not isinstance(value, np.ndarray):
            whole = np.empty((), object if dtype is DType.STRING else value.dtype)
            whole[()] = value
            value = whole
        stored = dtype.numpy
        if value.dtype == stored:
            return value
        if dtype.bits == 8 * value.itemsize and value.itemsize == stored.itemsize:
            return value.view(stored)
        return np.asarray(value.astype(stored))


@cache
def library() -> Library:
    """The one of this process. What TensorFlow raises where it cannot be loaded."""
    return Library()


@cache
def _dtype(library: Library, dtype: DType) -> Any:
    return library._dtypes.as_dtype(dtype.label)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps what TensorFlow says of itself off the terminal while it is loaded.

    Some of it is written to file descriptor 2 whatever the log level is, so that is turned to a
    file meanwhile; what is not TensorFlow's chatter is passed on.
    """
    before = {name: os.environ.get(name) for name in _SETTINGS}
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        kept = os.dup(2)
    except OSError:  # a program without a terminal
        kept = os.open(os.devnull, os.O_WRONLY)
    _flush()
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield
        finally:
            _flush()
            os.dup2(kept, 2)
            os.close(kept)
            for name, was in before.items():
                if was is None:
                    os.environ.pop(name, None)
            said.seek(0)
            _pass_on(said.read())


def _flush() -> None:
    if sys.stderr is not None:
        sys.stderr.flush()


def _pass_on(text: bytes) -> None:
    rest = []
    chatter = False
    for line in text.splitlines(keepends=True):
        if any(known in line for known in _CHATTER):
            chatter = True
        elif not (chatter and line.startswith(b"To enable the following instructions")):
            chatter = False
            rest.append(line)
    if rest:
        os.write(2, b"".join(rest))
