"""Nodes and registrations as C sees them, and the functions that a registration of C's has."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import addressof
from typing import Any

from ...kernels.api import Node, Registration, Tensor
from .. import schema
from . import memory
from .numbers import CUSTOM_OP, DELEGATE_OP
from .params import builtin_data
from .picture import Picture
from .structs import (
    FREE,
    FREE_WITH_DATA,
    INIT,
    INIT_WITH_DATA,
    STEP,
    STEP_WITH_DATA,
    NodeStruct,
    OperatorStruct,
    RegistrationStruct,
    text_at,
)


class NodePicture:
    """A `TfLiteNode`."""

    def __init__(
        self,
        inputs: Sequence[int],
        outputs: Sequence[int],
        intermediates: Sequence[int] = (),
        custom_options: bytes | None = None,
        builtin: ctypes.Structure | None = None,
        delegate: int | None = None,
    ) -> None:
        self._held: list[Any] = [builtin]
        self.struct = NodeStruct(
            inputs=memory.int_array(inputs),
            outputs=memory.int_array(outputs),
            intermediates=memory.int_array(intermediates),
            temporaries=memory.int_array(()),
            builtin_data=None if builtin is None else addressof(builtin),
            delegate=delegate,
        )
        self.inputs = tuple(i for i in inputs if i >= 0)
        self.outputs = tuple(outputs)
        if custom_options is not None:
            buffer = ctypes.create_string_buffer(custom_options, len(custom_options) + 1)
            self._held.append(buffer)
            self.struct.custom_initial_data = addressof(buffer)
            self.struct.custom_initial_data_size = len(custom_options)
        self.address = addressof(self.struct)

    @property
    def temporaries(self) -> tuple[int, ...]:
        return memory.read_ints(self.struct.temporaries)

    def __del__(self) -> None:
        if hasattr(self, "struct"):
            for name in ("inputs", "outputs", "intermediates", "temporaries"):
                memory.free(getattr(self.struct, name))


def picture_of_node(node: Node, registration: Registration) -> NodePicture:
    """A node of the model, for a delegate to look at."""
    custom = registration.custom
    options = node.options
    if node.op == "DELEGATE":  # of a delegate that came before
        options, builtin, raw = None, None, None
    elif custom:
        builtin, raw = None, bytes(options or b"")
    else:
        builtin, raw = builtin_data(node.op, options), None
    return NodePicture(
        indices(node.inputs), indices(node.outputs), indices(node.intermediates), raw, builtin
    )


def indices(tensors: Sequence[Tensor | None]) -> list[int]:
    return [-1 if t is None else t.index for t in tensors]


def registration_of_node(picture: Picture, node: Node, registration: Registration) -> Any:
    """Which operator it is; its functions are not C's."""
    made = RegistrationStruct(version=node.spec.version)
    if node.op == "DELEGATE":
        made.builtin_code = DELEGATE_OP
    elif registration.custom:
        made.builtin_code = CUSTOM_OP
        made.custom_name = picture.text(node.op)
    else:
        made.builtin_code = schema.BUILTINS.index(node.op)
    return made


class Functions:
    """What C gives for an operator: `init`, `free`, `prepare` and `invoke`, or None for each."""

    def __init__(self, registration: RegistrationStruct) -> None:
        """Its own functions; where it has none, those of its `registration_external`. (What was
        built before there was that field has something else in its place.)
        """
        self.name = text_at(registration.custom_name)
        self.version = registration.version
        own = ("init", "prepare", "invoke")
        if registration.registration_external and not any(getattr(registration, n) for n in own):
            operator = OperatorStruct.from_address(registration.registration_external)
            self.name = text_at(operator.custom_name) or self.name
            self.version = operator.version
            self._take(operator)
        else:
            self._take(registration)

    def _take(self, of: ctypes.Structure) -> None:
        self.init = _function(of, "init", INIT, INIT_WITH_DATA)
        self.free = _function(of, "free", FREE, FREE_WITH_DATA)
        self.prepare = _function(of, "prepare", STEP, STEP_WITH_DATA)
        self.invoke = _function(of, "invoke", STEP, STEP_WITH_DATA)


def _function(of: Any, name: str, plain: Any, with_data: Any) -> Any:
    """The function of that name; one "with data" is given the operator's user data first."""
    found = getattr(of, name)
    if found:
        return plain(found)
    found = getattr(of, f"{name}_with_data", None)
    if not found:
        return None
    function, data = with_data(found), of.user_data
    return lambda *arguments: function(data, *arguments)
