"""The functions of the table that asynchronous kernels call: tasks and attribute maps."""

from __future__ import annotations

import ctypes
from ctypes import c_bool, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_void_p
from typing import Any

from ..kernels.api import OpError
from ..runtime.async_kernel import AttributeMap, ExecutionTask, IoType
from . import _table  # whose entries come first
from ._call import find_lasting, lend, take_back
from ._entries import entry

_OK = 0
_PLACE = (c_void_p, c_int32, c_char_p, c_int32)  # task, IoType, name, tensor
_ATTRIBUTE = (c_void_p, c_int32, c_uint32, c_char_p, c_void_p)
_KINDS: tuple[tuple[Any, type[Any]], ...] = (
    (c_int, int),
    (c_size_t, int),
    (c_char_p, str),
    (c_bool, bool),
)


def _tensor(task: ExecutionTask, io: int, name: bytes | None, index: int) -> int:
    if index < 0:
        text = (name or b"").decode("utf-8", "replace")
        found = task.names.get((IoType(io), text)) if 0 <= io <= 2 else None
        if found is None:
            raise OpError(f"the task has no tensor {text!r}")
        index = found
    if index not in task.buffers:
        raise OpError(f"the task has no tensor {index}; there are {sorted(task.buffers)}")
    return index


@entry(c_int32, *_PLACE, failed=-1)
def task_buffer(task: int, io: int, name: bytes | None, index: int) -> int:
    found: ExecutionTask = find_lasting(task, "task")
    return found.buffers[_tensor(found, io, name, index)]


@entry(c_int32, *_PLACE, c_int32)
def task_set_buffer(task: int, io: int, name: bytes | None, index: int, handle: int) -> int:
    found: ExecutionTask = find_lasting(task, "task")
    found.buffers[_tensor(found, io, name, index)] = handle
    return _OK


@entry(c_void_p, *_PLACE, failed=None)
def task_sync(task: int, io: int, name: bytes | None, index: int) -> int | None:
    found: ExecutionTask = find_lasting(task, "task")
    return found.syncs.get(_tensor(found, io, name, index))


@entry(c_int32, *_PLACE, c_void_p)
def task_set_sync(task: int, io: int, name: bytes | None, index: int, sync: int | None) -> int:
    found: ExecutionTask = find_lasting(task, "task")
    found.syncs[_tensor(found, io, name, index)] = sync
    return _OK


@entry(c_void_p, c_void_p, failed=None)
def task_data(task: int) -> Any:
    return find_lasting(task, "task").data


@entry(None, c_void_p, c_void_p, failed=None)
def task_set_data(task: int, data: int | None) -> None:
    find_lasting(task, "task").data = data


@entry(c_int32, c_void_p)
def task_status(task: int) -> int:
    status: int = find_lasting(task, "task").status
    return status


@entry(None, c_void_p, c_int32, failed=None)
def task_set_status(task: int, status: int) -> None:
    find_lasting(task, "task").status = status


# -- attributes


class LentMap:
    """An attribute map as C knows it, with the strings that it was shown."""

    def __init__(self, values: AttributeMap) -> None:
        self.values = values
        self.shown: dict[Any, Any] = {}


@entry(c_void_p, c_int32, failed=None)
def map_create(kind: int) -> int:
    if kind not in (AttributeMap.BUFFER, AttributeMap.SYNC):
        raise OpError(f"there is no TfLiteAttrMapType {kind}")
    return lend("map", LentMap(AttributeMap(kind)))


@entry(None, c_void_p, failed=None)
def map_delete(handle: int | None) -> None:
    if handle:
        find_lasting(handle, "map")
        take_back(handle)


@entry(c_int32, c_void_p, failed=0)
def map_type(handle: int) -> int:
    kind: int = find_lasting(handle, "map").values.kind
    return kind


@entry(c_int32, c_void_p, c_void_p)
def map_copy(source: int, target: int) -> int:
    found: LentMap = find_lasting(target, "map")
    values = find_lasting(source, "map").values
    found.values.clear()
    found.values.update(values)
    found.values.kind = values.kind
    return _OK


@entry(c_int32, *_ATTRIBUTE, failed=0)
def map_get(handle: int, kind: int, key: int, custom: bytes | None, value: int) -> int:
    """1 where there is one of that kind."""
    found: LentMap = find_lasting(handle, "map")
    name = _key(key, custom)
    held = found.values.get(name)
    c_type, wanted = _KINDS[kind]
    if held is None or isinstance(held, bool) != (wanted is bool) or not isinstance(held, wanted):
        return 0
    if isinstance(held, str):
        buffer = found.shown[name] = ctypes.create_string_buffer(held.encode())
        c_void_p.from_address(value).value = ctypes.addressof(buffer)
    else:
        c_type.from_address(value).value = held
    return 1


@entry(c_int32, *_ATTRIBUTE)
def map_set(handle: int, kind: int, key: int, custom: bytes | None, value: int) -> int:
    found: LentMap = find_lasting(handle, "map")
    given = _KINDS[kind][0].from_address(value).value
    if isinstance(given, bytes):
        given = given.decode("utf-8", "replace")
    found.values[_key(key, custom)] = "" if given is None else given
    return _OK


def _key(key: int, custom: bytes | None) -> int | str:
    return key if custom is None else custom.decode("utf-8", "replace")


__all__ = ["LentMap", "_table"]
