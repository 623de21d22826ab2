"""A subgraph as C sees it: a `TfLiteContext`, its tensors, and what C says while it is called."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import addressof, sizeof
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np

from ...kernels.api import OpError, Shape, Tensor
from ...kernels.types import Array, DType, pack_bits
from ..encoding import decode_strings, encode_strings
from ..flatbuffer import InvalidModelError
from ..tensor import MMAP, LiveTensor
from . import memory
from .numbers import ALLOCATIONS, DYNAMIC_KIND, NO_HANDLE, TYPE_NUMBERS, dtype_of_number
from .structs import (
    AffineQuantization,
    ContextStruct,
    DimensionMetadata,
    Params,
    Quantization,
    Sparsity,
    TensorStruct,
)

_HEADROOM = 32  # tensors that can be added without moving the others
_SIZE = sizeof(TensorStruct)


class Host(Protocol):
    """Where a resize of a live tensor goes, and a shape that C found."""

    def resize(self, tensor: Tensor, shape: Shape) -> None: ...


class Picture:
    """The structs of one subgraph, kept like its live tensors while C looks at them.

    What belongs to TensorFlow Lite's runtime there comes from malloc, for C frees it and puts
    others in its place. One call of C at a time.
    """

    def __init__(
        self,
        tensors: Sequence[LiveTensor],
        threads: int = 1,
        metadata: Mapping[str, Array] | None = None,
    ) -> None:
        self.live: list[LiveTensor | None] = list(tensors)  # None: C has added it
        self.metadata = metadata or {}
        self.kept: list[Any] = []  # memory that C was shown and does not free
        self.external: dict[int, int] = {}  # external contexts, by type
        self.host: Host | None = None  # of the call that is on
        self.running = False
        self.planner: Any = None  # `external.Planner` while a delegate prepares
        self.reported: list[str] = []
        self.failure: BaseException | None = None
        self._outer: list[Any] = []  # of calls that this one came from: Prepare calls init
        self._names: dict[str, Any] = {}
        self._shown: list[Array | None] = [None] * len(self.live)
        self._owned: set[int] = set()  # tensors whose data C may free
        self._copies: dict[int, Array] = {}  # of what C cannot read where it lies
        self._old: list[Any] = []  # structs from before they were moved
        room = len(self.live) + _HEADROOM
        self.structs: Any = (TensorStruct * room)()
        self.context = ContextStruct(tensors_size=len(self.live), recommended_num_threads=threads)
        self.context.tensors = addressof(self.structs)
        self.address = addressof(self.context)
        _pictures[self.address] = self
        for i, t in enumerate(self.live):
            self.structs[i].buffer_handle = NO_HANDLE
            if t is not None:
                self.show(i)
                if t.const is not None:
                    self.point(i)

    def __del__(self) -> None:
        for i in range(len(getattr(self, "live", ()))):
            self._drop(i)

    # -- calls into C

    def begin(self, host: Host | None, *, running: bool = False) -> None:
        """Before a call; `running`: of an invoke."""
        self._outer.append((self.host, self.running, self.reported, self.failure))
        self.host, self.running = host, running
        self.reported, self.failure = [], None

    def finish(self, name: str, step: str, failed: bool) -> str:
        """After a call: raises what went wrong; else what was only reported."""
        failure, text = self.failure, "\n".join(self.reported)
        self.host, self.running, self.reported, self.failure = self._outer.pop()
        if failure is not None and not isinstance(failure, Exception):
            raise failure
        if failed:
            raise OpError(text or f"{name} failed in {step} and gave no reason") from failure
        return text

    def note(self, error: BaseException) -> None:
        """Of a function of the context that C called: C knows no exceptions."""
        self.failure = self.failure or error
        plain = type(error) in (OpError, ValueError, RuntimeError)
        self.reported.append(str(error) if plain else f"{type(error).__name__}: {error}")

    # -- tensors

    def struct(self, index: int) -> TensorStruct:
        if not 0 <= index < len(self.live):
            raise OpError(f"there is no tensor {index}; there are {len(self.live)}")
        found: TensorStruct = self.structs[index]
        return found

    def index_of(self, address: int | None) -> int:
        """The number of the tensor whose struct is there."""
        for structs in (self.structs, *self._old):
            offset = (address or 0) - addressof(structs)
            if 0 <= offset < len(self.live) * _SIZE and offset % _SIZE == 0:
                return offset // _SIZE
        raise OpError("a tensor was given that is none of this context's")

    def address_of(self, index: int) -> int:
        return addressof(self.struct(index))

    def add(self, count: int) -> int:
        """New tensors without type and shape; the number of the first."""
        first = len(self.live)
        if count < 0:
            raise OpError(f"{count} tensors cannot be added")
        self.live += [None] * count
        self._shown += [None] * count
        if len(self.live) > len(self.structs):
            moved = (TensorStruct * (2 * len(self.live)))()
            ctypes.memmove(moved, self.structs, first * _SIZE)
            self._old.append(self.structs)
            self.structs = moved
            self.context.tensors = addressof(moved)
        for i in range(first, len(self.live)):
            self.structs[i].buffer_handle = NO_HANDLE
        self.context.tensors_size = len(self.live)
        return first

    def shape(self, index: int) -> Shape:
        return memory.read_ints(self.struct(index).dims)

    def dtype(self, index: int) -> DType:
        return dtype_of_number(self.struct(index).type)

    def set_shape(self, index: int, shape: Shape) -> None:
        s = self.struct(index)
        if not s.dims or memory.read_ints(s.dims) != shape:
            memory.free(s.dims)
            s.dims = memory.int_array(shape)
        live = self.live[index]
        dtype = live.dtype if live is not None else self.dtype(index)
        s.bytes = size_of(shape, dtype)

    def show(self, index: int) -> None:
        """All but the data of a live tensor."""
        t, s = self.live[index], self.structs[index]
        if t is None:
            return
        spec = t.spec
        if not s.type:  # what does not change
            s.type = TYPE_NUMBERS[t.dtype]
            s.name = self.text(t.name)
            s.is_variable = t.variable
            s.params = Params(spec.scale, spec.zero_point) if _whole(t) else Params()
            s.quantization = _quantization(t)
            if t.shape_signature is not None:
                s.dims_signature = memory.int_array(t.shape_signature)
            s.sparsity = _sparsity(t.sparsity)
        if index not in self._owned:
            # what was computed at allocation is a constant like others: delegates ask for this kind
            kind = t.allocation if t.const is None else MMAP
            s.allocation_type = ALLOCATIONS[kind]
        self.set_shape(index, t.shape)

    def text(self, text: str) -> int:
        """A C string that stays."""
        made = self._names.get(text)
        if made is None:
            made = self._names[text] = ctypes.create_string_buffer(text.encode())
        return addressof(made)

    def point(self, index: int) -> None:
        """The data of a live tensor, as it is now, for C to read (or to write, where it is an
        output of a known shape).
        """
        t = self.live[index]
        if t is None:
            return
        array = t.const if t.const is not None else t.array_or_none
        s = self.structs[index]
        if array is not None and array is self._shown[index] and t.dtype is not DType.STRING:
            return
        self.show(index)
        self._let_go(index)
        self._shown[index] = array
        if array is None or t.dtype in (DType.RESOURCE, DType.VARIANT):
            return
        if t.dtype is DType.STRING:
            raw = encode_strings(array.reshape(-1).tolist())
            s.data, s.bytes = memory.copy_of(raw), len(raw)
            self._owned.add(index)
            return
        if t.dtype.bits < 8:
            if t.const is None:
                raise OpError(
                    f"tensor {t.name!r} is {t.dtype.label} and no constant: such tensors are not "
                    "handed to C"
                )
            array = self._copies[index] = pack_bits(array, t.dtype)
        elif not (array.flags.c_contiguous and array.flags.aligned):
            array = self._copies[index] = np.array(array, order="C")
        s.data, s.bytes = address(array), array.nbytes

    def open(self, index: int) -> None:
        """Of an output whose shape (or strings) C settles in invoke: the memory is C's."""
        self._let_go(index)
        self._owned.add(index)
        s = self.structs[index]
        s.allocation_type = DYNAMIC_KIND
        self.show(index)
        s.bytes = 0

    def collect(self, index: int, host: Host) -> None:
        """What C made of such an output goes to the live tensor."""
        t, s = self.live[index], self.structs[index]
        assert t is not None
        shape = memory.read_ints(s.dims)
        if t.dtype is DType.STRING:
            raw = ctypes.string_at(s.data, s.bytes) if s.data else b"\0\0\0\0\x08\0\0\0"
            try:
                strings = decode_strings(np.frombuffer(raw, np.uint8))
            except InvalidModelError as e:
                raise OpError(f"output {t.name!r}: {e}") from e
            if strings.size != np.prod(shape, dtype=np.int64):
                raise OpError(
                    f"output {t.name!r} has {strings.size} strings and the shape {list(shape)}"
                )
            host.resize(t, shape)
            np.copyto(t.array, strings.reshape(shape))
        else:
            size = size_of(shape, t.dtype)
            if size and (not s.data or s.bytes < size):
                raise OpError(
                    f"output {t.name!r} has no memory for the shape {list(shape)}: "
                    "ResizeTensor was not called"
                )
            host.resize(t, shape)
            if size:
                ctypes.memmove(address(t.array), s.data, size)
        self._let_go(index)

    def reallocate(self, index: int, shape: Shape) -> None:
        """New memory of C's own, for a dynamic tensor."""
        self.set_shape(index, shape)
        s = self.struct(index)
        size = s.bytes
        self._let_go(index)
        self._owned.add(index)
        s.bytes, s.data = size, memory.block(size)

    def adopt(self, index: int, tensor: Tensor) -> None:
        """Memory of the runtime's for a tensor that C has added."""
        assert isinstance(tensor, LiveTensor)
        self.live[index] = tensor

    def forget(self, index: int) -> None:
        """C has it again, without memory."""
        self.live[index] = None
        self._shown[index] = None
        self.structs[index].data = None

    def shut(self, index: int) -> None:
        """An output before prepare: without memory, as the runtime knows it."""
        self._let_go(index)
        self.show(index)

    def owns(self, index: int) -> bool:
        return index in self._owned

    def _let_go(self, index: int) -> None:
        s = self.structs[index]
        if index in self._owned:
            memory.free(s.data)
            self._owned.discard(index)
        s.data, s.bytes = None, 0
        self._shown[index] = None

    def _drop(self, index: int) -> None:
        s = self.structs[index]
        self._let_go(index)
        for array in (s.dims, s.dims_signature):
            memory.free(array)
        if s.quantization.params:
            affine = AffineQuantization.from_address(s.quantization.params)
            memory.free(affine.scale)
            memory.free(affine.zero_point)
            memory.free(s.quantization.params)
        if s.sparsity:
            sparsity = Sparsity.from_address(s.sparsity)
            for i in range(sparsity.dim_metadata_size):
                found = DimensionMetadata.from_address(
                    sparsity.dim_metadata + i * sizeof(DimensionMetadata)
                )
                memory.free(found.array_segments)
                memory.free(found.array_indices)
            for part in (sparsity.traversal_order, sparsity.block_map, sparsity.dim_metadata):
                memory.free(part)
            memory.free(s.sparsity)


_pictures: WeakValueDictionary[int, Picture] = WeakValueDictionary()


def picture_at(context: int | None) -> Picture:
    """Of a context that C hands back."""
    found = _pictures.get(context or 0)
    if found is None:
        raise OpError("a context was given that is none, or is no longer one")
    return found


def address(array: Array) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


def size_of(shape: Shape, dtype: DType) -> int:
    """Bytes of a tensor as TensorFlow Lite stores it; 0 for strings, whose size depends on them."""
    count = 1
    for d in shape:
        count *= d
    return -(-count * dtype.bits // 8)


def _whole(t: LiveTensor) -> bool:
    quant = t.quant
    return quant is not None and not quant.per_axis and not quant.block_size


def _quantization(t: LiveTensor) -> Quantization:
    quant = t.quant
    if quant is None or not quant.scale.size or quant.block_size:
        return Quantization()
    made = AffineQuantization(
        memory.float_array(quant.scale.reshape(-1).tolist()),
        memory.int_array(quant.zero_point.reshape(-1).tolist()),
        quant.axis,
    )
    return Quantization(1, memory.copy_of(bytes(made)))


def _sparsity(found: Any) -> int | None:
    if found is None:
        return None

    def ints(values: Any) -> int | None:
        return None if values is None else memory.int_array(np.asarray(values).tolist())

    parts = (DimensionMetadata * len(found.dim_metadata))()
    for part, d in zip(parts, found.dim_metadata, strict=True):
        part.dense_size = d.dense_size
        if d.format != "DENSE":
            part.format = 1
            part.array_segments = ints(d.array_segments)
            part.array_indices = ints(d.array_indices)
    made = Sparsity(
        ints(found.traversal_order), ints(found.block_map), memory.copy_of(bytes(parts)), len(parts)
    )
    return memory.copy_of(bytes(made))
