"""From a `TfLiteRegistration` of C's, over TensorFlow Lite's own structs, to a `Registration`."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

from ..kernels.api import Context, Node, OpError, Registration
from ..runtime.capi import calls
from ..runtime.capi.nodes import Functions, NodePicture, indices
from ..runtime.capi.numbers import CUSTOM_OP, DYNAMIC_KIND, KINDS
from ..runtime.capi.picture import Picture
from ..runtime.capi.run import collect_all, point_all
from ..runtime.capi.structs import INIT_FAILED, RegistrationStruct
from ..runtime.subgraph import LiveSubgraph
from ..runtime.tensor import LiveTensor
from ._errors import OpLibraryError
from ._operator import COperator, OperatorStruct

PREFIX = "Register_"


def registering(symbols: Sequence[str]) -> dict[str, str]:
    """Functions `Register_X` without arguments among a library's symbols: name without the prefix
    -> symbol. C++ ones are found by their mangled names, in any namespace.
    """
    found = {}
    for symbol in symbols:
        name = _plain(symbol)
        if name is not None and name.startswith(PREFIX) and name != PREFIX:
            found[name.removeprefix(PREFIX)] = symbol
    return found


def _plain(symbol: str) -> str | None:
    if not symbol.startswith("_Z"):
        return symbol
    nested = re.fullmatch(r"_ZN(\w+)Ev", symbol) or re.fullmatch(r"_Z(\w+)v", symbol)
    rest, name = (nested[1], None) if nested else ("", None)
    while rest:
        length = re.match(r"[1-9]\d*", rest)
        if length is None:
            return None
        start = length.end()
        name, rest = rest[start : start + int(length[0])], rest[start + int(length[0]) :]
    return name


def classic_operator(
    address: int | None, library: Any, what: str, name: str, *, ours: bool = False
) -> ClassicOperator | COperator:
    """`name`: of an operator that has none of its own. `ours`: a `registration_external` was made
    with `litedelegate/tflite_custom_op.h`, by a library that was given its table.
    """
    if not address:
        raise OpLibraryError(f"{what} made no operator: {PREFIX}{name} gave NULL")
    struct = RegistrationStruct.from_address(address)
    if ours and struct.registration_external and not (struct.invoke or struct.prepare):
        pointer = ctypes.cast(struct.registration_external, ctypes.POINTER(OperatorStruct))
        return COperator(pointer, library, what)
    return ClassicOperator(struct, library, what, name)


class _State:
    """What belongs to one node."""

    def __init__(self, picture: Picture, options: bytes) -> None:
        self.picture = picture
        self.options = options
        self.data: int | None = None  # what init returned
        self.node: NodePicture | None = None
        self.temporaries: list[int] = []  # those of them that the runtime gives memory

    def picture_of(self, node: Node) -> NodePicture:
        if self.node is None:
            self.node = NodePicture(
                indices(node.inputs),
                indices(node.outputs),
                indices(node.intermediates),
                self.options,
            )
            self.node.struct.user_data = self.data
        return self.node


_pictures: WeakValueDictionary[int, Picture] = WeakValueDictionary()  # by subgraph


def _picture_of(context: Context) -> Picture:
    """All operators of a subgraph work on the same structs."""
    assert isinstance(context, LiveSubgraph)
    found = _pictures.get(id(context))
    if found is None or found.live[: context.own_tensors] != context.tensors[: context.own_tensors]:
        found = Picture(
            context.tensors[: context.own_tensors], context.threads, context.graph.model.metadata
        )
        calls.fill(found)
        _pictures[id(context)] = found
    return found


class ClassicOperator:
    """An operator whose functions are C's. It holds `library`, which must not be unloaded while
    they can be called.
    """

    def __init__(self, struct: RegistrationStruct, library: Any, what: str, name: str) -> None:
        """OpLibraryError for what is no operator."""
        self.functions = Functions(struct)
        self.library = library
        self.name = self.functions.name or name
        if struct.builtin_code not in (0, CUSTOM_OP) or not self.name:
            raise OpLibraryError(
                f"{what}: operator {self.name!r} has the code {struct.builtin_code}; a custom "
                "operator has a name, and kTfLiteBuiltinCustom or 0"
            )
        # who registers an operator gives it its version; it is 1 unless that is said
        self.version = max(self.functions.version, 1)
        if self.functions.invoke is None:
            raise OpLibraryError(f"{what}: {self.name} has no invoke")

    def registration(self) -> Registration:
        return Registration(
            name=self.name,
            versions=(self.version, self.version),
            init=self._init,
            free=self._free,
            prepare=self._prepare,
            invoke=self._invoke,
            custom=True,
        )

    def _init(self, context: Context, options: Any) -> _State:
        state = _State(_picture_of(context), bytes(options or b""))
        init = self.functions.init
        if init is not None:
            buffer = ctypes.create_string_buffer(state.options, len(state.options) + 1)
            state.picture.kept.append(buffer)  # some operators keep what they were given
            state.picture.begin(None)
            where = ctypes.addressof(buffer)
            state.data = init(state.picture.address, where, len(state.options))
            failed = state.data == INIT_FAILED
            if failed:
                state.data = None
            self._finish(context, state, "init", failed)
        return state

    def _free(self, context: Context, state: _State) -> None:
        free = self.functions.free
        if free is not None and state.data:
            state.picture.begin(None)
            free(state.picture.address, state.data)
            state.data = None
            self._finish(context, state, "free", False)

    def _prepare(self, context: Context, node: Node) -> None:
        state: _State = node.user_data
        picture, shown = state.picture, state.picture_of(node)
        for i in state.temporaries:
            picture.forget(i)
        state.temporaries = []
        for t in _live(node.outputs):
            picture.shut(t.index)
        for t in _live(node.inputs):
            if t.const is not None or t.variable or t.is_dynamic:
                picture.point(t.index)
            else:
                picture.show(t.index)
        prepare = self.functions.prepare
        if prepare is not None:
            picture.begin(context)
            self._finish(context, state, "prepare", prepare(picture.address, shown.address))
        for t in _live(node.outputs):
            if not t.is_dynamic and picture.struct(t.index).allocation_type == DYNAMIC_KIND:
                context.set_dynamic(t)
        for i in shown.temporaries:
            self._take_temporary(context, node, state, i)

    def _take_temporary(self, context: Context, node: Node, state: _State, index: int) -> None:
        picture = state.picture
        s = picture.struct(index)
        if picture.live[index] is not None:
            raise OpError(f"temporary {index} is a tensor of the model; AddTensors makes new ones")
        kind = KINDS.get(s.allocation_type)
        if kind is None:
            raise OpError(
                f"temporary {index} has the allocation type {s.allocation_type}; it is "
                "kTfLiteArenaRw, kTfLiteArenaRwPersistent or kTfLiteDynamic"
            )
        if s.allocation_type == DYNAMIC_KIND:
            return  # the memory is C's
        number = context.temporary(node, picture.shape(index), picture.dtype(index), kind)
        picture.adopt(index, node.temporaries[number])
        state.temporaries.append(index)

    def _invoke(self, context: Context, node: Node) -> None:
        state: _State = node.user_data
        assert isinstance(context, LiveSubgraph)
        picture, shown = state.picture, state.picture_of(node)
        outputs = _live(node.outputs)
        point_all(picture, _live(node.inputs), outputs)
        for i in state.temporaries:
            picture.point(i)
        picture.begin(context, running=True)
        status = self.functions.invoke(picture.address, shown.address)
        self._finish(context, state, "invoke", status)
        collect_all(picture, outputs, context)

    def _finish(self, context: Context, state: _State, step: str, failed: int | bool) -> None:
        text = state.picture.finish(self.name, step, bool(failed))
        if text:
            context.report(f"{self.name}: {text}")


def _live(tensors: Sequence[Any]) -> list[LiveTensor]:
    return [t for t in tensors if isinstance(t, LiveTensor)]
