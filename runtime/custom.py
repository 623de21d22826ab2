"""Custom ops as plain functions on numpy arrays."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from ..kernels.api import Context, Node, NodeSpec, OpError, Registration, Shape, Tensor
from ..kernels.device import Capability, Kernel, Lowered, Map
from ..kernels.types import Array

Function = Callable[..., Any]
ShapeRule = Callable[..., Any] | str | None
Lower = Callable[..., Lowered | Map | Kernel] | None


class CustomOp:
    """A function that is also a custom op; `registration` is what resolvers take."""

    def __init__(
        self, function: Function, name: str, shape: ShapeRule = None, lower: Lower = None
    ) -> None:
        if isinstance(shape, str) and shape != "same":
            raise ValueError(f"shape is 'same', a function or None, not {shape!r}")
        self.function = function
        self.name = name
        self.shape = shape
        self.lower = lower
        self.registration = Registration(
            name=name,
            init=_init,
            prepare=self._prepare,
            invoke=self._invoke,
            lower=None if lower is None else self._lower,
            custom=True,
        )
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def _lower(self, node: NodeSpec, capability: Capability) -> Any:
        assert self.lower is not None
        keywords = _keywords(self.function, node, node.options)
        found = self.lower(node, capability, **keywords)
        return Lowered([found]) if isinstance(found, Map | Kernel) else found

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
        several = isinstance(found, Sequence) and found and isinstance(found[0], Sequence)
        if len(node.outputs) == 1 and not several:
            found = [found]
        if not isinstance(found, Sequence) or len(found) != len(node.outputs):
            gave = f"{len(found)} shapes" if isinstance(found, Sequence) else repr(found)
            raise OpError(
                f"the shape function of {self.name} gave {gave} for {len(node.outputs)} outputs"
            )
        return found  # whether each is a shape is asked where it is given to its output

    def _invoke(self, context: Context, node: Node) -> None:
        state: _State = node.user_data
        results = self.function(*map(_argument, node.inputs), **(state.keywords or {}))
        if not _are_several(results, len(node.outputs)):
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
        if out.dtype.is_integer and value.size and value.dtype != bool:
            _check_range(self.name, i, value, out)
        if out.is_dynamic:
            context.resize(out, value.shape)
        elif value.shape != out.shape:
            raise OpError(
                f"{self.name} returned the shape {list(value.shape)} for output {i} {out.name!r}; "
                f"the model declares {list(out.shape)}. custom_op(shape=...) says what it will be."
            )
        np.copyto(out.array, value, casting="same_kind")


def _are_several(results: Any, outputs: int) -> bool:
    """Whether a result is one for each output: a list can as well be the value of one."""
    if isinstance(results, list):
        return outputs != 1 or any(isinstance(r, np.ndarray) for r in results)
    return isinstance(results, tuple)


def _check_range(name: str, i: int, value: Array, out: Tensor) -> None:
    """OpError where an integer of a wider type (or in the storage of one) would wrap."""
    low, high = out.dtype.range()
    stored = np.iinfo(value.dtype)
    if low <= stored.min and stored.max <= high:
        return
    least, most = int(value.min()), int(value.max())
    if least < low or most > high:
        raise OpError(
            f"{name} returned {value.dtype} from {least} to {most} for output {i} {out.name!r}, "
            f"which is {out.dtype.label} and holds {low} to {high}; clip or reduce the values"
        )


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


def _keywords(function: Function, node: Node | NodeSpec, options: Any) -> dict[str, Any]:
    """The options that the function takes, from a FlexBuffer map; `options` is the bytes
    themselves.
    """
    named, takes_all, taken = _parameters(function, len(node.inputs))
    wanted = [p for p in named if p.name != "options"]
    takes_bytes = len(wanted) < len(named)
    values = _values(node, options, needed=bool(wanted) or takes_all)
    found = {k: v for k, v in values.items() if takes_all or any(k == p.name for p in wanted)}
    clash = sorted(found.keys() & taken)
    if clash:
        raise OpError(
            f"the option {clash[0]!r} of {node.op} has the name of a parameter that takes an "
            "input; give that parameter another name"
        )
    lacking = [p for p in wanted if p.default is p.empty and p.name not in found]
    if lacking:
        text = (
            f"the function for {node.op} needs the options "
            f"{', '.join(repr(p.name) for p in lacking)}; the model gives "
            f"{', '.join(map(repr, values)) or 'none'}"
        )
        if any(p.kind is not p.KEYWORD_ONLY for p in lacking):
            text += f" (or it takes too many inputs: the node has {len(node.inputs)})"
        raise OpError(text)
    ignored = [name for name in values if name not in found]
    if not takes_bytes and (ignored or (options and not found and not _is_empty(options))):
        what = ", ".join(f"{k!r} ({values[k]!r})" for k in ignored)
        raise OpError(
            f"the function for {node.op} does not take the options that the model gives: "
            f"{what or f'{len(options)} bytes'}. Without them its numbers would be wrong. Give it "
            "a parameter of each name, **others for those that do not matter, or `options` for "
            "the bytes as they are."
        )
    if takes_bytes:
        found["options"] = options
    return found


def _values(node: Node | NodeSpec, options: Any, *, needed: bool) -> dict[str, Any]:
    """The options by name; OpError where they have none and a name is needed."""
    try:
        values = options.flexbuffer()
    except ValueError as e:
        if needed:
            raise OpError(f"the options of {node.op} are no FlexBuffer: {e}") from e
        return {}
    if isinstance(values, dict):
        return values
    if needed:
        raise OpError(f"the options of {node.op} are no FlexBuffer map but {values!r}")
    return {}


def _is_empty(options: Any) -> bool:
    """Whether the bytes are a FlexBuffer that says nothing."""
    try:
        return options.flexbuffer() in (None, {}, [])
    except ValueError:
        return False


def _parameters(
    function: Function, inputs: int
) -> tuple[list[inspect.Parameter], bool, frozenset[str]]:
    """Parameters that can be options, whether others are taken too (**), and the names of those
    that take the inputs: the first ones.
    """
    if isinstance(function, np.ufunc):  # its `out`, `where`, `dtype` are no options of a model
        return [], False, frozenset()
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin
        return [], False, frozenset()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        before = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        return [p for p in parameters if p.kind is p.KEYWORD_ONLY], takes_all, frozenset(before)
    places = [p for p in parameters if p.kind in positional]
    if len(places) < inputs:
        raise OpError(f"the function takes {len(places)} arrays; the node has {inputs} inputs")
    taken = {p.name for p in places[:inputs]}
    named = [
        p
        for p in parameters
        if p.name not in taken and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    by_name = frozenset(p.name for p in places[:inputs] if p.kind is p.POSITIONAL_OR_KEYWORD)
    return named, takes_all, by_name


@overload
def custom_op(name: Function, /) -> CustomOp: ...
@overload
def custom_op(
    name: str | None = None, /, *, shape: ShapeRule = None, lower: Lower = None
) -> Callable[[Function], CustomOp]: ...
def custom_op(
    name: str | Function | None = None, /, *, shape: ShapeRule = None, lower: Lower = None
) -> CustomOp | Callable[[Function], CustomOp]:
    """Makes a custom op of a function on numpy arrays.

        @custom_op("Atan", shape="same")
        def atan(x, *, offset=0.0):
            return np.arctan(x + offset)

        Interpreter("model.tflite", custom_ops={"Atan": atan})

    The function is given an array for each input of the node (None for an absent one; read-only),
    and by keyword the op's FlexBuffer options; one called `options` is given the option bytes. An
    option that it does not take is an error, unless it takes `options` or `**others`. It returns an
    array, or a tuple with one for each output: floats and integers are cast to the output's float
    type, integers to its integer type where all fit.

    `shape`: "same" (as input 0), or a function of the input shapes and the options that gives the
    output's shape (a list of shapes for several). None: what the model declares, as long as no
    input is resized; else each result's own. The name is the function's where none is given.

    `lower(node, capability, **options)`: the op's form for devices, as `kernels.device` has it (one
    `Map` or `Kernel` will do): with it the op does not split a delegate's part of the graph. The
    options are those that the function is given.
    """
    if callable(name):
        return CustomOp(name, name.__name__)

    def decorate(function: Function) -> CustomOp:
        return CustomOp(function, name or function.__name__, shape, lower)

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
