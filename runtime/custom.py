"""Custom ops as plain functions on numpy arrays."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from ..kernels.api import Context, Node, OpError, Registration, Shape, Tensor
from ..kernels.types import Array

Function = Callable[..., Any]
ShapeRule = Callable[..., Any] | str | None


class CustomOp:
    """A function that is also a custom op; `registration` is what resolvers take."""

    def __init__(self, function: Function, name: str, shape: ShapeRule = None) -> None:
        if isinstance(shape, str) and shape != "same":
            raise ValueError(f"shape is 'same', a function or None, not {shape!r}")
        self.function = function
        self.name = name
        self.shape = shape
        self.registration = Registration(
            name=name, init=_init, prepare=self._prepare, invoke=self._invoke, custom=True
        )
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def _prepare(self, context: Context, node: Node) -> None:
        state: _State = node.user_data
        if state.keywords is None:
            state.keywords = _keywords(self.function, node, state.options)
        shapes = self._shapes(node, state.keywords)
        for i, out in enumerate(node.outputs):
            if shapes is None:
                context.set_dynamic(out)
            else:
                context.resize(out, shapes[i])

    def _shapes(self, node: Node, keywords: Mapping[str, Any]) -> Sequence[Shape] | None:
        """Those of the outputs; None where only the function's results tell."""
        inputs = [t.shape if t is not None else None for t in node.inputs]
        if self.shape is None:
            return _declared(node)
        if self.shape == "same":
            first = inputs[0] if inputs else None
            if first is None:
                raise OpError(f"shape='same' of {self.name} needs an input 0")
            return [first] * len(node.outputs)
        assert callable(self.shape)
        found = self.shape(*inputs, **keywords)
        if len(node.outputs) == 1 and not (found and isinstance(found[0], Sequence)):
            found = [found]
        if len(found) != len(node.outputs):
            raise OpError(
                f"the shape function of {self.name} gave {len(found)} shapes for "
                f"{len(node.outputs)} outputs"
            )
        return [tuple(int(d) for d in s) for s in found]

    def _invoke(self, context: Context, node: Node) -> None:
        state: _State = node.user_data
        results = self.function(*map(_argument, node.inputs), **(state.keywords or {}))
        if not isinstance(results, tuple | list):
            results = (results,)
        if len(results) != len(node.outputs):
            raise OpError(
                f"{self.name} returned {len(results)} arrays; the node has "
                f"{len(node.outputs)} outputs"
            )
        for i, (result, out) in enumerate(zip(results, node.outputs, strict=True)):
            self._store(context, i, np.asarray(result), out)

    def _store(self, context: Context, i: int, value: Array, out: Tensor) -> None:
        if not np.can_cast(value.dtype, out.dtype.numpy, "same_kind"):
            raise OpError(
                f"{self.name} returned {value.dtype} for output {i} {out.name!r}, which is "
                f"{out.dtype.label}"
            )
        if out.is_dynamic:
            context.resize(out, value.shape)
        elif value.shape != out.shape:
            raise OpError(
                f"{self.name} returned the shape {list(value.shape)} for output {i} {out.name!r}; "
                f"the model declares {list(out.shape)}. custom_op(shape=...) says what it will be."
            )
        np.copyto(out.array, value, casting="same_kind")


class _State:
    """Of one node: its options, and those that the function takes."""

    def __init__(self, options: Any) -> None:
        self.options = options
        self.keywords: dict[str, Any] | None = None


def _init(context: Context, options: Any) -> _State:
    return _State(options)


def _declared(node: Node) -> list[Shape] | None:
    """The shapes the file gives the outputs, where they can be trusted: no input was resized, and
    all is known.
    """
    tensors = [t for t in (*node.inputs, *node.outputs) if t is not None]
    if any(t.is_dynamic or -1 in (t.shape_signature or ()) for t in tensors):
        return None
    if any(t is not None and t.shape != t.declared_shape for t in node.inputs):
        return None
    # converters write [] for a shape that they do not know
    if any(not t.declared_shape for t in node.outputs):
        return None
    return [t.declared_shape for t in node.outputs]


def _argument(tensor: Tensor | None) -> Array | None:
    if tensor is None:
        return None
    array = tensor.array.view()
    if not tensor.spec.variable:
        array.flags.writeable = False
    return array


def _keywords(function: Function, node: Node, options: Any) -> dict[str, Any]:
    """The options that the function takes, from a FlexBuffer map; `options` is the bytes
    themselves.
    """
    named, takes_all = _parameters(function, len(node.inputs))
    found: dict[str, Any] = {}
    values: Any = {}
    wanted = [p for p in named if p.name != "options"]
    if wanted or takes_all:
        try:
            values = options.flexbuffer()
        except ValueError as e:
            raise OpError(f"the options of {node.op} are no FlexBuffer: {e}") from e
        if not isinstance(values, dict):
            raise OpError(f"the options of {node.op} are no FlexBuffer map but {values!r}")
        names = values if takes_all else [p.name for p in wanted]
        found = {name: values[name] for name in names if name in values}
    if any(p.name == "options" for p in named):
        found["options"] = options
    lacking = [p.name for p in wanted if p.default is p.empty and p.name not in found]
    if lacking:
        raise OpError(
            f"the function for {node.op} needs the options {', '.join(map(repr, lacking))}; the "
            "model "
            f"gives {', '.join(map(repr, values)) or 'none'}"
        )
    return found


def _parameters(function: Function, inputs: int) -> tuple[list[inspect.Parameter], bool]:
    """Parameters that can be options, and whether all are taken: the first ones take the inputs."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a ufunc or the like
        return [], False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return [p for p in parameters if p.kind is p.KEYWORD_ONLY], takes_all
    places = [p for p in parameters if p.kind in positional]
    if len(places) < inputs:
        raise OpError(f"the function takes {len(places)} arrays; the node has {inputs} inputs")
    taken = {p.name for p in places[:inputs]}
    return [
        p
        for p in parameters
        if p.name not in taken and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ], takes_all


@overload
def custom_op(name: Function, /) -> CustomOp: ...
@overload
def custom_op(
    name: str | None = None, /, *, shape: ShapeRule = None
) -> Callable[[Function], CustomOp]: ...
def custom_op(
    name: str | Function | None = None, /, *, shape: ShapeRule = None
) -> CustomOp | Callable[[Function], CustomOp]:
    """Makes a custom op of a function on numpy arrays.

        @custom_op("Atan", shape="same")
        def atan(x, *, offset=0.0):
            return np.arctan(x + offset)

        Interpreter("model.tflite", custom_ops={"Atan": atan})

    The function is given an array for each input of the node (None for an absent one; read-only),
    and by keyword those of its other parameters that the op's FlexBuffer options have; one called
    `options` is given the option bytes. It returns an array, or a tuple with one for each output.

    `shape`: "same" (as input 0), or a function of the input shapes and the options that gives the
    output's shape (a list of shapes for several). None: what the model declares, as long as no
    input is resized; else each result's own. The name is the function's where none is given.
    """
    if callable(name):
        return CustomOp(name, name.__name__)

    def decorate(function: Function) -> CustomOp:
        return CustomOp(function, name or function.__name__, shape)

    return decorate


def as_registration(name: str, op: Any) -> Registration:
    """A registration of what `custom_ops=` takes: one already, a `custom_op`, or any function on
    arrays.
    """
    if isinstance(op, Registration):
        return op
    if isinstance(op, CustomOp):
        return op.registration
    if callable(op):
        return CustomOp(op, name).registration
    raise TypeError(
        f"custom op {name!r} is a Registration or a function on arrays, not {type(op).__name__}"
    )
