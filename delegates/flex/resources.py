"""What TensorFlow's operators keep between invokes: variables and tables."""

from __future__ import annotations

from collections.abc import Hashable, MutableMapping
from itertools import count
from typing import Any

from ...kernels.api import Tensor
from ...kernels.types import Array, DType
from .function import Function
from .library import Library

RESOURCE = 20  # DT_RESOURCE
_BOOL = 10  # DT_BOOL
_KEY = ("tensorflow",)
_numbers = count()


class Resources:
    """The resources of one interpreter.

    TensorFlow finds them by container and name, in one table for the whole process: each
    interpreter has a container of its own.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._container = f"litedelegate{next(_numbers)}"
        self._makers: dict[tuple[str, bytes, bytes], Any] = {}  # NodeDefs, by operator and name
        self._variables: dict[tuple[str, bytes, bytes], _Variable] = {}
        self._users = 0
        self.handles: dict[Tensor, Any] = {}  # what makes them, where it takes no inputs
        # kept while the interpreter lives: a plan for other shapes has the same functions
        self.functions: dict[Hashable, Function] = {}
        self._constants: dict[Tensor, tuple[Array, Any]] = {}

    @classmethod
    def of(cls, resources: MutableMapping[Any, Any], library: Library) -> Resources:
        """Those of the interpreter whose mapping this is."""
        found = resources.get(_KEY)
        if not isinstance(found, cls):
            found = resources[_KEY] = cls(library)
        return found

    def constant(self, tensor: Tensor, value: Array) -> Any:
        """TensorFlow's copy of it, made once."""
        kept = self._constants.get(tensor)
        if kept is None or kept[0] is not value:
            kept = self._constants[tensor] = value, self._library.tensor(value, tensor.dtype)
        return kept[1]

    def adopt(self, node_def: Any) -> None:
        """Puts what the node makes, if it makes a resource, into this container."""
        self._users += 1
        attr = node_def.attr
        if "container" not in attr or "shared_name" not in attr:
            return
        # nodes of one name in several subgraphs mean the same
        name = attr["shared_name"].s or node_def.name.encode()
        container = f"{self._container}/".encode() + attr["container"].s
        attr["container"].s, attr["shared_name"].s = container, name
        self._makers[node_def.op, container, name] = node_def

    def release(self) -> None:
        """One node less; with the last one all that is kept goes."""
        self._users -= 1
        if self._users:
            return
        for maker in self._makers.values():
            self._destroy(maker)
        for variable in self._variables.values():
            variable.free()
        for function in self.functions.values():
            function.free()
        for kept in (self._makers, self.handles, self._variables, self.functions, self._constants):
            kept.clear()

    @property
    def value(self) -> dict[Any, Any]:
        """The values of the variables that have one."""
        found = {}
        for key, maker in self._makers.items():
            if maker.op == "VarHandleOp":
                variable = self._variables.get(key)
                if variable is None:
                    variable = self._variables[key] = _Variable(self._library, maker)
                if variable.is_set():
                    found[key] = variable.read()
        return found

    @value.setter
    def value(self, values: dict[Any, Any] | None) -> None:
        """Variables that are left out have no value afterwards."""
        for key, maker in self._makers.items():
            if values and key in values:
                self._variables[key].assign(values[key])
            elif maker.op == "VarHandleOp":
                self._destroy(maker)

    def named_values(self) -> dict[str, Array]:
        """Copies of the variables, by name."""
        found = {}
        for key, tensor in self.value.items():
            kind = self._library.type_name(self._makers[key].attr["dtype"].type).upper()
            if kind in DType.__members__:
                value = self._library.array(tensor, DType[kind])
                found[key[2].decode("utf-8", "backslashreplace")] = value.copy()
        return found

    def _destroy(self, maker: Any) -> None:
        destroy = _node(self._library, "destroy", "DestroyResourceOp", ["handle"], maker)
        destroy.attr["ignore_lookup_error"].b = True
        function = Function(self._library, [_handle(maker), destroy], (), (), "destroy")
        function()
        function.free()


class _Variable:
    """What its maker's handle refers to."""

    def __init__(self, library: Library, maker: Any) -> None:
        kind = maker.attr["dtype"].type
        handle = _handle(maker)
        known = _node(library, "known", "VarIsInitializedOp", ["handle"], maker)
        read = _node(library, "read", "ReadVariableOp", ["handle"], maker)
        read.attr["dtype"].type = kind
        assign = _node(library, "assign", "AssignVariableOp", ["handle", "x0"], maker)
        assign.attr["dtype"].type = kind
        assign.attr["validate_shape"].b = False
        self._known = Function(
            library, [handle, known], (), [("known:is_initialized:0", _BOOL)], "known"
        )
        self._read = Function(library, [handle, read], (), [("read:value:0", kind)], "read")
        self._assign = Function(library, [handle, assign], [kind], (), "assign")

    def is_set(self) -> bool:
        return bool(self._known()[0]._numpy())

    def read(self) -> Any:
        return self._read()[0]

    def assign(self, value: Any) -> None:
        self._assign([value])

    def free(self) -> None:
        for function in (self._known, self._read, self._assign):
            function.free()


def _handle(maker: Any) -> Any:
    made = type(maker)()
    made.CopyFrom(maker)
    made.name = "handle"
    made.ClearField("input")
    return made


def _node(library: Library, name: str, op: str, inputs: list[str], maker: Any) -> Any:
    """A node on what `maker` makes, its inputs the outputs of "handle" or arguments."""
    output = library.op_def(maker.op).output_arg[0].name
    sources = [f"handle:{output}:0" if i == "handle" else i for i in inputs]
    return library.node_def.NodeDef(name=name, op=op, input=sources, device=maker.device)
