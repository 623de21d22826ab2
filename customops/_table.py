"""The functions that C operators call: entries of `LiteDelegateHost` of the header.

Each entry checks its handles, works on the live objects, and turns an exception into an error
status; the exception is kept for when the operator returns.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_float, c_int, c_int32, c_int64, c_uint64, c_void_p
from typing import Any

import numpy as np

from ..kernels.api import OpError, Tensor
from ..kernels.types import DType
from ..runtime.capi.numbers import ALLOCATIONS, KINDS, TYPE_NUMBERS, dtype_of_number
from ..runtime.encoding import decode_strings
from ..runtime.flatbuffer import InvalidModelError
from ..runtime.subgraph import LiveSubgraph
from ._call import ADDED, Added, Call, find
from ._entries import entry

ABI = 1  # LITEDELEGATE_ABI of the header
_OK = 0
_LISTS = (c_void_p, c_int32, POINTER(POINTER(c_int)), POINTER(c_int))


# -- the context


@entry(None, c_void_p, c_char_p, failed=None)
def report(context: int, text: bytes) -> None:
    call, _ = find(context, "context")
    call.reported.append(text.decode("utf-8", "replace"))


@entry(c_int32, c_void_p, c_void_p, POINTER(c_int), c_int32)
def resize(context: int, tensor: int, dims: Any, rank: int) -> int:
    call, _ = find(context, "context")
    _, live = find(tensor, "tensor")
    shape = tuple(dims[i] for i in range(max(rank, 0)))
    if rank < 0 or min(shape, default=0) < 0:
        raise OpError(f"a tensor cannot be resized to {list(shape) if rank >= 0 else 'NULL'}")
    if isinstance(live, Added):
        live.shape = shape
    else:
        call.context.resize(live, shape)
        call.changed(live)
    return _OK


@entry(c_int32, c_void_p, c_int32, c_int32, c_float, c_int32, POINTER(c_int))
def add_tensor(
    context: int, type_: int, allocation: int, scale: float, zero_point: int, index: Any
) -> int:
    call, _ = find(context, "context")
    if call.step not in ("init", "prepare"):
        raise OpError(f"a tensor can be added in init and prepare, not in {call.step}")
    kind = KINDS.get(allocation)
    if kind is None:
        raise OpError(
            f"Invalid allocation type '{allocation}': an added tensor is kTfLiteArenaRw, "
            "kTfLiteArenaRwPersistent or kTfLiteDynamic"
        )
    added = call.state.added
    added.append(Added(dtype_of_number(type_), kind, scale, zero_point))
    index[0] = ADDED + len(added) - 1
    return _OK


@entry(c_void_p, c_void_p, c_int32, failed=None)
def tensor_at(context: int, index: int) -> int:
    call, live = find(context, "context")
    if ADDED <= index < ADDED + len(call.state.added):
        return call.give("tensor", call.state.temporary(call.node, index))
    tensors = _subgraph(live).tensors
    if not 0 <= index < len(tensors):
        raise OpError(f"there is no tensor {index}; there are {len(tensors)}")
    return call.give("tensor", tensors[index])


@entry(c_int32, *_LISTS)
def context_list(context: int, which: int, items: Any, count: Any) -> int:
    call, live = find(context, "context")
    subgraph = _subgraph(live)
    if which == 2:
        found: Sequence[int] = [t.index for t in subgraph.tensors if t.variable]
    else:
        found = subgraph.output_indices if which else subgraph.input_indices
    return _give_list(call, found, items, count)


@entry(c_int64, c_void_p, c_int32, failed=0)
def context_count(context: int, which: int) -> int:
    subgraph = _subgraph(find(context, "context")[1])
    return len(subgraph.nodes if which else subgraph.tensors)


@entry(c_void_p, c_void_p, failed=None)
def context_name(context: int) -> int:
    call, live = find(context, "context")
    return _text(call, _subgraph(live).name)


@entry(c_int32, c_void_p, c_int32, POINTER(c_uint64))
def type_size(context: int, type_: int, size: Any) -> int:
    find(context, "context")
    dtype = dtype_of_number(type_)
    if dtype.numpy.hasobject:
        raise OpError(f"elements of {dtype.label} have no fixed size")
    size[0] = dtype.numpy.itemsize
    return _OK


@entry(c_int32, c_void_p, c_char_p, POINTER(c_void_p), POINTER(c_uint64))
def metadata(context: int, name: bytes, data: Any, size: Any) -> int:
    call, live = find(context, "context")
    found = _subgraph(live).graph.model.metadata.get(name.decode("utf-8", "replace"))
    if found is None:
        raise OpError(f"the model has no metadata {name!r}")
    call.kept.append(found)
    data[0] = found.ctypes.data
    size[0] = found.nbytes
    return _OK


# -- the node


@entry(c_void_p, c_void_p, c_void_p, c_int32, c_int32, failed=None)
def node_tensor(context: int, node: int, which: int, index: int) -> int | None:
    find(context, "context")
    call, live = find(node, "node")
    if which == 2:
        chosen = call.state.temporaries
        if not 0 <= index < len(chosen):
            raise OpError(f"there is no temporary {index}; there are {len(chosen)}")
        return call.give("tensor", call.state.temporary(live, ADDED + chosen[index]))
    tensors = live.outputs if which else live.inputs
    if not 0 <= index < len(tensors):
        side = "output" if which else "input"
        raise OpError(f"there is no {side} {index}; the node has {len(tensors)}")
    tensor = tensors[index]
    return None if tensor is None else call.give("tensor", tensor)


@entry(c_int32, *_LISTS)
def node_list(node: int, which: int, items: Any, count: Any) -> int:
    call, live = find(node, "node")
    if which == 2:
        return _give_list(call, [ADDED + i for i in call.state.temporaries], items, count)
    tensors = live.outputs if which else live.inputs
    return _give_list(call, [-1 if t is None else t.index for t in tensors], items, count)


@entry(c_int32, c_void_p, POINTER(c_int), c_int32)
def set_temporaries(node: int, items: Any, count: int) -> int:
    call, _ = find(node, "node")
    if call.step != "prepare":
        raise OpError(f"temporaries are set in prepare, not in {call.step}")
    chosen = [items[i] - ADDED for i in range(count)]
    known = len(call.state.added)
    if any(not 0 <= i < known for i in chosen) or len(set(chosen)) < len(chosen):
        raise OpError("temporaries are distinct tensors that this node added with AddTensor")
    call.state.temporaries = chosen
    return _OK


@entry(c_void_p, c_void_p, failed=None)
def user_data(node: int) -> int | None:
    return find(node, "node")[0].state.data


@entry(c_int32, c_void_p, POINTER(c_void_p), POINTER(c_int))
def initial_data(node: int, data: Any, size: Any) -> int:
    state = find(node, "node")[0].state
    data[0] = ctypes.addressof(state.buffer)
    size[0] = len(state.options)
    return _OK


# -- tensors


@entry(c_int32, c_void_p, failed=0)
def tensor_type(tensor: int) -> int:
    return TYPE_NUMBERS[find(tensor, "tensor")[1].dtype]


@entry(c_int32, c_void_p, c_int32, POINTER(POINTER(c_int)), failed=-1)
def tensor_shape(tensor: int, which: int, dims: Any) -> int:
    call, live = find(tensor, "tensor")
    shape = live.shape
    if which:
        shape = None if isinstance(live, Added) else live.shape_signature
    if shape is None:
        return -1
    dims[0] = call.ints(shape)
    return len(shape)


@entry(c_int32, c_void_p, failed=0)
def tensor_allocation(tensor: int) -> int:
    _, live = find(tensor, "tensor")
    kind = live.kind if isinstance(live, Added) else live.allocation
    return ALLOCATIONS[kind]


@entry(c_int32, c_void_p, failed=0)
def tensor_is_variable(tensor: int) -> int:
    _, live = find(tensor, "tensor")
    return int(not isinstance(live, Added) and live.spec.variable)


@entry(c_uint64, c_void_p, failed=0)
def tensor_bytes(tensor: int) -> int:
    call, live = find(tensor, "tensor")
    if live.dtype is DType.STRING:
        array = call.memory(live)
        return 0 if array is None else array.nbytes
    size = int(live.dtype.numpy.itemsize)
    for d in live.shape:
        size *= d
    return size


@entry(c_void_p, c_void_p, failed=None)
def tensor_data(tensor: int) -> int | None:
    call, live = find(tensor, "tensor")
    array = call.memory(live)
    return None if array is None else array.ctypes.data


@entry(c_void_p, c_void_p, failed=None)
def tensor_name(tensor: int) -> int:
    call, live = find(tensor, "tensor")
    return _text(call, "" if isinstance(live, Added) else live.name)


@entry(c_int32, c_void_p, POINTER(c_float), POINTER(c_int32))
def tensor_quantization(tensor: int, scale: Any, zero_point: Any) -> int:
    _, live = find(tensor, "tensor")
    if isinstance(live, Added):
        scale[0], zero_point[0] = live.scale, live.zero_point
    elif live.spec.quant is not None and not live.spec.quant.per_axis:
        scale[0], zero_point[0] = live.spec.scale, live.spec.zero_point
    return _OK


class _Affine(ctypes.Structure):
    _fields_ = [("scale", c_void_p), ("zero_point", c_void_p), ("axis", c_int32)]


@entry(c_void_p, c_void_p, failed=None)
def tensor_channels(tensor: int) -> int | None:
    call, live = find(tensor, "tensor")
    quant = None if isinstance(live, Added) else live.spec.quant
    if quant is None or not quant.scale.size or quant.block_size:
        return None
    parts = []
    for values, kind in ((quant.scale, np.float32), (quant.zero_point, np.int32)):
        flat = values.reshape(-1).astype(kind)
        parts.append(np.concatenate([np.array([flat.size], np.int32), flat.view(np.int32)]))
    made = _Affine(parts[0].ctypes.data, parts[1].ctypes.data, quant.axis)
    call.kept += [*parts, made]
    return ctypes.addressof(made)


@entry(c_int32, c_void_p, POINTER(c_void_p), c_int32, POINTER(c_int))
def write_strings(tensor: int, strings: Any, count: int, lengths: Any) -> int:
    call, live = find(tensor, "tensor")
    values = [
        ctypes.string_at(strings[i], lengths[i]) if lengths[i] > 0 else b"" for i in range(count)
    ]
    _store(call, live, values)
    return _OK


@entry(c_int32, c_void_p, c_void_p, c_uint64)
def write_buffer(tensor: int, data: int, size: int) -> int:
    call, live = find(tensor, "tensor")
    raw = ctypes.string_at(data, size) if size else b""
    if live.dtype is DType.STRING:
        try:
            values = decode_strings(np.frombuffer(raw, np.uint8)).tolist()
        except InvalidModelError as e:
            raise OpError(f"output {live.name!r}: {e}") from e
        _store(call, live, values)
        return _OK
    array = call.memory(live)
    if array is None or array.nbytes != size:
        have = "no memory" if array is None else f"{array.nbytes} bytes"
        raise OpError(f"{size} bytes are copied to a tensor that has {have}")
    if not array.flags.writeable:
        raise OpError(f"tensor {live.name!r} is a constant")
    array.reshape(-1).view(np.uint8)[:] = np.frombuffer(raw, np.uint8)
    return _OK


@entry(c_int32, c_void_p)
def set_dynamic(tensor: int) -> int:
    call, live = find(tensor, "tensor")
    if call.step != "prepare":
        raise OpError(f"a tensor is made dynamic in prepare, not in {call.step}")
    if isinstance(live, Added):
        live.kind = "dynamic"
    else:
        call.context.set_dynamic(live)
    return _OK


# -- helpers


def _subgraph(context: Any) -> LiveSubgraph:
    if not isinstance(context, LiveSubgraph):
        raise OpError("this context is no subgraph of an interpreter")
    return context


def _give_list(call: Call, values: Sequence[int], items: Any, count: Any) -> int:
    items[0] = call.ints(values)
    count[0] = len(values)
    return _OK


def _text(call: Call, text: str) -> int:
    buffer = ctypes.create_string_buffer(text.encode())
    call.kept.append(buffer)
    return ctypes.addressof(buffer)


def _store(call: Call, tensor: Tensor | Added, values: list[bytes]) -> None:
    if isinstance(tensor, Added) or tensor.dtype is not DType.STRING:
        raise OpError(f"strings are written to a tensor of {tensor.dtype.label}")
    if call.step != "invoke":
        raise OpError(f"strings are written in invoke, not in {call.step}")
    if tensor.spec.const is not None:
        raise OpError(f"tensor {tensor.name!r} is a constant")
    if tensor.is_dynamic and tensor.spec.size != len(values):
        call.context.resize(tensor, (len(values),))
    if tensor.spec.size != len(values):
        raise OpError(
            f"{len(values)} strings are written to {tensor.name!r}, which has the shape "
            f"{list(tensor.shape)}; make it dynamic in prepare"
        )
    flat = np.empty(len(values), object)
    flat[:] = values
    if tensor.is_dynamic:
        call.context.resize(tensor, tensor.shape)  # memory, where it has none yet
    np.copyto(tensor.array, flat.reshape(tensor.shape))
    call.changed(tensor)
