"""`Interpreter`: the interface of `tf.lite.Interpreter`, and what goes beyond it."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.types import Array
from .async_run import AsyncRun
from .build import Content, build_graph, is_given, load_model, open_model
from .calls import Calls
from .delegated import give_delegates, make_rules
from .device_arrays import is_device_array, lend
from .find_delegates import check_delegates
from .guard import Guard
from .model import Model
from .named import Names, warn_of_position
from .options import flag
from .resize import check_resize
from .resolver import ChainedResolver, MutableOpResolver, OpResolver
from .rules import Pick
from .settings import CustomOps, OpResolverType, Settings, check_keep, listed, make_resolver
from .turns import Turns
from .values import get_value, readable, set_value
from .views import Views

if TYPE_CHECKING:
    from .signature_runner import SignatureRunner


class Interpreter(Calls):
    """Runs a `.tflite` model.

    The calls of `tf.lite.Interpreter` are steps that belong together (`allocate_tensors`,
    `set_tensor`, `invoke`, `get_tensor`): from one thread. Two threads inside at once are told so,
    and one whose inputs another one replaced is warned. `run` does all at once, by name, and may be
    called from several threads. From within an op its interpreter may be read, and nothing else.
    """

    _custom_op_registerers: Sequence[Any] = ()

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        model_content: Content | None = None,
        experimental_delegates: Sequence[Any] | None = None,
        num_threads: int | None = None,
        experimental_op_resolver_type: OpResolverType = OpResolverType.AUTO,
        experimental_preserve_all_tensors: bool = False,
        experimental_disable_delegate_clustering: bool = False,
        experimental_default_delegate_latest_features: bool = False,
        experimental_compress_quantization_zero_points: bool = False,
        experimental_disable_delegate_node_fusion: bool = False,
        experimental_force_delegate_node_profiling: bool = False,
        *,
        delegates: Sequence[Any] | None = None,
        on_unavailable: str | None = None,
        only: Iterable[Pick] | None = None,
        exclude: Iterable[Pick] = (),
        strict: bool = False,
        verify: bool | int = False,
        flex: bool = True,
        op_resolver: OpResolver | None = None,
        custom_ops: CustomOps | None = None,
        keep: Iterable[str | int] = (),
        quantize_inputs: bool = False,
        dequantize_outputs: bool = False,
    ) -> None:
        """The arguments up to `experimental_force_delegate_node_profiling` are those of
        `tf.lite.Interpreter`.

        * `num_threads`: threads that share the work of one node; None: all CPUs this process may
          use. See `num_threads`.
        * `experimental_preserve_all_tensors`: every intermediate can be read after invoke.
        * `experimental_compress_quantization_zero_points`: details give equal zero points as one.
        * `flex`: whether operators of TensorFlow ("Flex…") that `custom_ops` and the resolver lack
          are run by TensorFlow, where it is installed; BUILTIN_WITHOUT_DEFAULT_DELEGATES says no.
        * the other `experimental_…` choose among TensorFlow Lite's own delegates and kernels: they
          change nothing here.
        * `delegates`: delegate objects or names ("cuda", "opencl", "module:attribute"; "auto": what
          there is), in order; none: numpy. `only`, `exclude`: the nodes that they may and must not
          have, by number (in the main subgraph), operator, or output tensor's name.
        * `on_unavailable`: where a named delegate cannot be made, "error" or "fallback" (warns).
        * `strict`: DelegateError where a delegate fails or leaves nodes to numpy; else the model
          runs whatever delegates do.
        * `verify`: so many invokes (True: one) for each set of shapes are compared with numpy, node
          by node; a node whose result differs is taken from its delegate, and the invoke run again.
        * `op_resolver`: where ops come from, by default `BuiltinOpResolver()`; `custom_ops`: more
          custom ops, by name.
        * `keep`: names (or numbers) of intermediates that can be read after invoke.
        * `quantize_inputs`, `dequantize_outputs`: floats are taken for and given from quantised
          inputs and outputs.

        ValueError where no interpreter can be made.
        """
        if not isinstance(experimental_op_resolver_type, OpResolverType):
            raise ValueError(
                f"Unrecognized passed in op resolver type: {experimental_op_resolver_type}"
            )
        if num_threads is not None:
            if not isinstance(num_threads, int):
                raise ValueError("type of num_threads should be int")
            if num_threads < 1:
                raise ValueError("num_threads should >= 1")
        if model_path and is_given(model_content):
            raise ValueError("Can't both provide `model_path` and `model_content`")
        if not model_path and not is_given(model_content):
            raise ValueError("`model_path` or `model_content` must be specified.")
        if delegates is not None and experimental_delegates is not None:
            raise ValueError("give `delegates` or `experimental_delegates`, not both")
        settings = Settings(
            op_resolver=make_resolver(op_resolver, custom_ops, self._custom_op_registerers),
            num_threads=num_threads,
            delegates=check_delegates(
                delegates if delegates is not None else experimental_delegates, on_unavailable
            ),
            rules=make_rules(only, exclude, strict, verify),
            on_unavailable=on_unavailable,
            flex=flag("flex", flex)
            and experimental_op_resolver_type
            is not OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            preserve_all=experimental_preserve_all_tensors,
            keep=listed(keep),
            compress_zero_points=experimental_compress_quantization_zero_points,
            quantize_inputs=quantize_inputs,
            dequantize_outputs=dequantize_outputs,
        )
        if model_path:
            model = open_model(model_path)
        else:
            assert model_content is not None
            model = load_model(model_content)
        self._set_up(model, settings)

    @classmethod
    def from_model(
        cls,
        model: Model | None,
        *,
        op_resolver: OpResolver | None = None,
        num_threads: int | None = None,
        delegates: Sequence[Any] | None = None,
        flex: bool = True,
        experimental_preserve_all_tensors: bool = False,
        keep: Iterable[str | int] = (),
        report: Callable[[str], None] | None = None,
    ) -> Interpreter:
        """An interpreter for a model that is open already."""
        self = cls.__new__(cls)
        settings = Settings(
            op_resolver=make_resolver(op_resolver, None),
            num_threads=num_threads,
            delegates=check_delegates(delegates),
            flex=flex,
            preserve_all=experimental_preserve_all_tensors,
            keep=listed(keep),
            report=report,
        )
        self._set_up(model, settings)
        return self

    def _set_up(
        self,
        model: Model | None,
        settings: Settings,
        weights: MutableMapping[Any, Any] | None = None,
    ) -> None:
        self._settings = settings
        graph = build_graph(
            model,
            settings.op_resolver,
            threads=settings.num_threads,
            preserve_all=settings.preserve_all,
            keep=settings.keep,
            weights=weights,
            report=settings.report,
        )
        self._open = graph
        self._finalize = weakref.finalize(self, graph.close)
        self._guard = Guard()
        self._views = Views()
        self._turns = Turns()
        check_keep(graph, settings.keep)
        self._alike = Names(graph).ambiguous_inputs()
        self._owned = []
        try:
            self._owned = give_delegates(graph, settings)
        except Exception:
            self.close()
            raise

    # -- life

    def close(self) -> None:
        """Frees the ops' user data and the memory; later calls raise ValueError.

        RuntimeError, once all is freed, where an op fails at it.
        """
        with self._guard.whole("close"):
            self._open = None
            self._settings = replace(self._settings, op_resolver=ChainedResolver())
            owned, self._owned = self._owned, []
            try:
                self._finalize()
            finally:
                for delegate in owned:
                    delegate.free()

    def __enter__(self) -> Interpreter:
        _ = self._graph  # ValueError where it is closed
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __copy__(self) -> Interpreter:
        raise TypeError("an interpreter is not copied: it holds memory of its own; use clone()")

    def clone(self) -> Interpreter:
        """Another interpreter of the same model, for another thread.

        It shares the weights, packed ones included. Its ops are initialised anew; it has inputs,
        variables and memory of its own, and is not allocated yet.
        """
        graph = self._graph
        made = type(self).__new__(type(self))
        made._set_up(graph.model, self._settings, graph.weights)
        return made

    # -- steps: from one thread

    def allocate_tensors(self) -> None:
        """Prepares all ops and plans memory.

        RuntimeError where an op is unknown or does not take its inputs.
        """
        with self._guard.step("allocate_tensors"):
            main = self._graph.subgraphs[0]
            self._views.ensure_none("allocate_tensors")
            self._allocate(main)

    def resize_tensor_input(
        self, input_index: int, tensor_size: Sequence[int] | Array, strict: bool = False
    ) -> None:
        """Gives an input another shape; `allocate_tensors` must follow.

        With `strict` only dimensions that are -1 in `shape_signature` may change.
        """
        with self._guard.step("resize_tensor_input"):
            subgraph = self._graph.subgraphs[0]
            self._views.ensure_none("resize_tensor_input")
            shape = np.asarray(tensor_size, np.int32)
            if shape.ndim != 1:
                raise ValueError(f"Shape should be 1D instead of {shape.ndim}.")
            check_resize(subgraph, input_index, shape.tolist(), strict)
            subgraph.resize_tensor(input_index, shape.tolist())

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copies a value into an input (or a variable). ValueError where type or shape differ.

        An array on a device (CuPy's, torch's, PyOpenCL's …), for an input, is not copied but read
        there by each invoke, until another value is set.
        """
        with self._guard.step("set_tensor"):
            tensor = self._tensor(tensor_index)
            main = self._graph.subgraphs[0]
            delegation = self._graph.delegation
            if tensor.index in main.input_indices and is_device_array(value, delegation.delegates):
                lend(delegation, tensor, value)
                self._turns.sets(tensor_index)
                return
            if self._alike is not None and tensor in self._alike:
                warn_of_position(self._alike)
                self._alike = None
            set_value(tensor, value, quantize=self._settings.quantize_inputs)
            self._store(tensor)
            self._turns.sets(tensor_index)

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> Any:
        """A copy of a tensor's value.

        ValueError for an intermediate whose memory other tensors use, unless it is kept.
        """
        with self._guard.read("get_tensor"):
            tensor = self._tensor(tensor_index, subgraph_index)
            self._turns.goes_on("get_tensor")
            self._check_kept(tensor, self._graph.subgraphs[subgraph_index])
            self._fetch(tensor, subgraph_index)
            return get_value(tensor, dequantize=self._dequantizes(tensor_index, subgraph_index))

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        """A function that gives a live view of the tensor, to read or write without a copy.

        Keep the function, not the array: while a view is held, `invoke` and `allocate_tensors`
        raise.
        """

        def view() -> Array:
            with self._guard.read("tensor"):
                tensor = self._tensor(tensor_index)
                self._check_kept(tensor, self._graph.subgraphs[0])
                self._fetch(tensor)
                readable(tensor)
                return self._views.lend(tensor)

        return view

    def invoke(self) -> None:
        """Runs the model. RuntimeError where it is not allocated or an op fails."""
        with self._guard.step("invoke"):
            main = self._graph.subgraphs[0]
            self._views.ensure_none("invoke")
            self._turns.goes_on("invoke")
            self._turns.runs()
            self._invoke(main)

    def invoke_async(self) -> AsyncRun[None]:
        """Starts what `invoke` does and comes back; `wait()` of the result ends it and raises what
        went wrong, `done()` tells whether it would come back at once.

        Until then the interpreter is busy: other calls raise, `run` and `close` wait. A delegate
        that runs all of the model does so on its own, if it can; else a thread runs it, on which
        ops that have an asynchronous kernel use that.
        """
        with self._guard.step("invoke_async"):
            main = self._graph.subgraphs[0]
            self._views.ensure_none("invoke_async")
            self._turns.goes_on("invoke_async")
            self._turns.runs()
            run = AsyncRun(self._guard, main, lambda: self._invoke(main), lambda: None, self)
        return run.begin()

    def reset_all_variables(self) -> None:
        """Variable tensors back to their first value: zero, or the zero point of int8.

        As in TensorFlow Lite, what VAR_HANDLE names stays; `run(..., reset_variables=True)` resets
        that too.
        """
        with self._guard.step("reset_all_variables"):
            for subgraph in self._graph.subgraphs:
                subgraph.reset_variables()

    # -- other ways to run

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """A callable for a signature; None where the model has only one."""
        from .signature_runner import SignatureRunner

        if signature_key is None:
            signatures = self.get_signature_list()
            if len(signatures) != 1:
                raise ValueError(
                    f"SignatureDef signature_key is None and model has {len(signatures)} "
                    "Signatures. None is only allowed when "
                    f"the model has 1 SignatureDef ({', '.join(signatures) or 'it has none'})"
                )
            signature_key = next(iter(signatures))
        return SignatureRunner(self, signature_key)


class InterpreterWithCustomOps(Interpreter):
    """`Interpreter` with functions that add ops: each is called with a `MutableOpResolver`."""

    def __init__(
        self,
        custom_op_registerers: Sequence[Callable[[MutableOpResolver], None] | str] | None = None,
        **kwargs: Any,
    ) -> None:
        self._custom_op_registerers = custom_op_registerers or ()
        try:
            super().__init__(**kwargs)
        finally:
            self._custom_op_registerers = ()  # not to hold libraries
