"""The functions of a `TfLiteContext`: what C calls back.

Each finds the picture that its context is of, and turns an exception into an error status; the
exception is kept for when C returns.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from ctypes import c_void_p, cast
from typing import Any

from ...kernels.api import OpError
from . import memory
from .numbers import DYNAMIC_KIND
from .picture import Picture, picture_at
from .report import report_function
from .structs import CONTEXT_FUNCTIONS

_OK, _ERROR = 0, 1
_ONLY_IN_PREPARE = "is called outside of a delegate's Prepare"


def fill(picture: Picture) -> None:
    """Gives a context its functions."""
    for name, function in _functions.items():
        setattr(picture.context, name, cast(function, c_void_p).value)


def _guarded(function: Callable[..., Any], failed: Any) -> Callable[..., Any]:
    def call(context: int, *arguments: Any) -> Any:
        try:
            picture = picture_at(context)
        except OpError as e:
            warnings.warn(f"in a library of C's: {e}", stacklevel=2)
            return failed
        try:
            return function(picture, *arguments)
        except BaseException as e:
            picture.note(e)
            return failed

    return call


# -- tensors


def _resize(picture: Picture, tensor: int, size: int | None) -> int:
    if not size:
        raise OpError("ResizeTensor is given NULL for a shape")
    try:
        shape = memory.read_ints(size)
    finally:
        memory.free(size)
    return _resize_to(picture, tensor, shape)


def _resize_explicit(picture: Picture, tensor: int, rank: int, dims: Any) -> int:
    return _resize_to(picture, tensor, tuple(dims[i] for i in range(rank)))


def _resize_to(picture: Picture, tensor: int, shape: tuple[int, ...]) -> int:
    index = picture.index_of(tensor)
    if min(shape, default=0) < 0:
        raise OpError(f"a tensor cannot be resized to {list(shape)}")
    live = picture.live[index]
    if picture.owns(index):
        picture.reallocate(index, shape)
        return _OK
    if live is None:
        added = picture.struct(index)
        if added.allocation_type == DYNAMIC_KIND and picture.running:
            picture.reallocate(index, shape)
        else:
            picture.set_shape(index, shape)
        return _OK
    if picture.host is None:
        raise OpError(f"tensor {live.name!r} cannot be resized now")
    picture.host.resize(live, shape)
    picture.show(index)
    return _OK


def _add_tensors(picture: Picture, count: int, first: Any) -> int:
    if picture.running:
        raise OpError("AddTensors is called in invoke")
    made = picture.add(count)
    if first:
        first[0] = made
    return _OK


def _get_tensor(picture: Picture, index: int) -> int:
    return picture.address_of(index)


# -- what is around


def _get_external(picture: Picture, kind: int) -> int | None:
    return picture.external.get(kind)


def _set_external(picture: Picture, kind: int, given: int | None) -> None:
    picture.external[kind] = given or 0


def _metadata(picture: Picture, name: bytes, data: Any, size: Any) -> int:
    found = picture.metadata.get(name.decode("utf-8", "replace"))
    if found is None:
        return _ERROR  # as TensorFlow Lite: to ask is no fault
    picture.kept.append(found)
    data[0], size[0] = found.ctypes.data, found.nbytes
    return _OK


# -- what only a delegate's Prepare may call


def _planner(picture: Picture, call: str) -> Any:
    if picture.planner is None:
        raise OpError(f"{call} {_ONLY_IN_PREPARE}")
    return picture.planner


def _execution_plan(picture: Picture, plan: Any) -> int:
    plan[0] = _planner(picture, "GetExecutionPlan").execution_plan()
    return _OK


def _node(picture: Picture, index: int, node: Any, registration: Any) -> int:
    node[0], registration[0] = _planner(picture, "GetNodeAndRegistration").node(index)
    return _OK


def _preview(picture: Picture, nodes: int, params: Any, count: Any) -> int:
    planner = _planner(picture, "PreviewDelegatePartitioning")
    params[0], count[0] = planner.preview(memory.read_ints(nodes))
    return _OK


def _replace(picture: Picture, registration: Any, nodes: int, delegate: int) -> int:
    planner = _planner(picture, "ReplaceNodeSubsetsWithDelegateKernels")
    planner.replace(registration, memory.read_ints(nodes), delegate)
    return _OK


def _acquire(picture: Picture, index: int, acquired: Any) -> int:
    acquired[0] = _planner(picture, "AcquireSubgraphContext").acquire(index)
    return _OK


def _release(picture: Picture, index: int) -> int:
    _planner(picture, "ReleaseSubgraphContext").release(index)
    return _OK


def _report(context: int, text: str) -> None:
    try:
        picture_at(context).reported.append(text)
    except OpError:  # said before a context was there, or after it was gone
        warnings.warn(f"a library of C's says: {text}", stacklevel=2)


_IMPLEMENTED: dict[str, tuple[Callable[..., Any], Any]] = {
    "get_execution_plan": (_execution_plan, _ERROR),
    "resize_tensor": (_resize, _ERROR),
    "add_tensors": (_add_tensors, _ERROR),
    "get_node_and_registration": (_node, _ERROR),
    "replace_node_subsets_with_delegate_kernels": (_replace, _ERROR),
    "get_external_context": (_get_external, None),
    "set_external_context": (_set_external, None),
    "resize_tensor_explicit": (_resize_explicit, _ERROR),
    "preview_delegate_partitioning": (_preview, _ERROR),
    "get_tensor": (_get_tensor, None),
    "get_model_metadata": (_metadata, _ERROR),
    "acquire_subgraph_context": (_acquire, _ERROR),
    "release_subgraph_context": (_release, _ERROR),
}
_functions: dict[str, Any] = {
    name: CONTEXT_FUNCTIONS[name](_guarded(function, failed))
    for name, (function, failed) in _IMPLEMENTED.items()
}
_functions["report_error"] = report_function(_report)
_functions["int_array_create"] = CONTEXT_FUNCTIONS["int_array_create"](
    lambda size: memory.int_array([0] * size) if size >= 0 else None
)
_functions["int_array_free"] = ctypes.CFUNCTYPE(None, c_void_p)(lambda array: memory.free(array))
