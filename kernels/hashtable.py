"""HASHTABLE and its FIND, IMPORT and SIZE: static tables of int64 and string."""

from __future__ import annotations

from typing import Any

from ._resource import arity, check_handle, give_handle, resource
from .api import Context, Node, OpError, Registration, Tensor
from .types import Array, DType

_PAIRS = ((DType.INT64, DType.STRING), (DType.STRING, DType.INT64))


class Hashtable:
    """Keys to values. Filled by the first import; later ones change nothing."""

    def __init__(self, keys: DType, values: DType) -> None:
        self.types = (keys, values)
        self.entries: dict[Any, Any] | None = None

    def fill(self, keys: Array, values: Array) -> None:
        if self.entries is None:
            # of equal keys the first counts
            pairs = zip(keys.reshape(-1).tolist(), values.reshape(-1).tolist(), strict=True)
            self.entries = dict(reversed(list(pairs)))

    def check(self, keys: DType, values: DType) -> None:
        if (keys, values) != self.types:
            held = " to ".join(t.label for t in self.types)
            raise OpError(f"the table maps {held}, not {keys.label} to {values.label}")


def _check_pair(node: Node, keys: DType, values: DType) -> None:
    if (keys, values) not in _PAIRS:
        raise OpError(
            f"{node.op} from {keys.label} to {values.label}; "
            "taken: int64 to string, string to int64"
        )


def _tensor(node: Node, i: int) -> Tensor:
    tensor = node.inputs[i]
    if tensor is None:
        raise OpError(f"{node.op} needs input {i}, which is absent")
    return tensor


def _init(context: Context, options: Any) -> Hashtable:
    key = ("hashtable", options.table_id)
    made = Hashtable(options.key_dtype, options.value_dtype)
    table: Hashtable = context.resources.setdefault(key, made)
    return table


def _prepare(context: Context, node: Node) -> None:
    arity(node, 0, 1)
    _check_pair(node, node.options.key_dtype, node.options.value_dtype)
    if node.outputs[0].dtype is not DType.RESOURCE:
        raise OpError(f"output 0 is {node.outputs[0].dtype.label}; {node.op} gives resource")
    context.resize(node.outputs[0], (1,))


def _prepare_find(context: Context, node: Node) -> None:
    arity(node, 3, 1)
    check_handle(node)
    keys, default, output = _tensor(node, 1), _tensor(node, 2), node.outputs[0]
    _check_pair(node, keys.dtype, output.dtype)
    if default.dtype is not output.dtype or default.spec.size < 1:
        raise OpError(f"the default is {default.spec}; taken: one {output.dtype.label}")
    context.resize(output, keys.shape)


def _find(context: Context, node: Node) -> None:
    table, keys, output = resource(node, Hashtable), _tensor(node, 1), node.outputs[0]
    table.check(keys.dtype, output.dtype)
    if table.entries is None:
        raise OpError("the table is searched before it was filled; HASHTABLE_IMPORT must run first")
    get, default = table.entries.get, _tensor(node, 2).array.reshape(-1)[0]
    output.array.reshape(-1)[...] = [get(k, default) for k in keys.array.reshape(-1).tolist()]


def _prepare_import(context: Context, node: Node) -> None:
    arity(node, 3, 0)
    check_handle(node)
    keys, values = _tensor(node, 1), _tensor(node, 2)
    _check_pair(node, keys.dtype, values.dtype)
    if keys.shape != values.shape:
        raise OpError(f"{keys.spec} keys and {values.spec} values; their shapes must be equal")


def _import(context: Context, node: Node) -> None:
    table, keys, values = resource(node, Hashtable), _tensor(node, 1), _tensor(node, 2)
    table.check(keys.dtype, values.dtype)
    table.fill(keys.array, values.array)


def _prepare_size(context: Context, node: Node) -> None:
    arity(node, 1, 1)
    check_handle(node)
    if node.outputs[0].dtype is not DType.INT64:
        raise OpError(f"output 0 is {node.outputs[0].dtype.label}; {node.op} gives int64")
    context.resize(node.outputs[0], (1,))


def _size(context: Context, node: Node) -> None:
    node.outputs[0].array[0] = len(resource(node, Hashtable).entries or ())


OPS = {
    "HASHTABLE": Registration(name="HASHTABLE", init=_init, prepare=_prepare, invoke=give_handle),
    "HASHTABLE_FIND": Registration(name="HASHTABLE_FIND", prepare=_prepare_find, invoke=_find),
    "HASHTABLE_IMPORT": Registration(
        name="HASHTABLE_IMPORT", prepare=_prepare_import, invoke=_import
    ),
    "HASHTABLE_SIZE": Registration(name="HASHTABLE_SIZE", prepare=_prepare_size, invoke=_size),
}
