"""Values into and out of tensors: checks, conversions, and what the errors say."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.api import Quantization
from ..kernels.types import Array, DType
from .details import bfloat16
from .tensor import ARENA, FOLDED, MMAP, LiveTensor

_BY_NUMPY = {
    d.numpy: d
    for d in (
        *(DType.FLOAT32, DType.FLOAT16, DType.FLOAT64, DType.BOOL),
        *(DType.INT8, DType.INT16, DType.INT32, DType.INT64),
        *(DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64),
        *(DType.COMPLEX64, DType.COMPLEX128),
    )
}


def set_value(tensor: LiveTensor, value: Any, *, quantize: bool = False) -> None:
    """Copies `value` into the tensor. ValueError where type or shape differ, or where it has no
    memory to write to.
    """
    array = convert(tensor, value, quantize=quantize)
    check_shape(tensor, array)
    np.copyto(writable(tensor), array)


def convert(tensor: LiveTensor, value: Any, *, quantize: bool = False) -> Array:
    """`value` as an array of the tensor's storage; nothing is copied that need not be.

    A numpy array must be of the tensor's type; Python numbers and lists take it where nothing is
    lost but precision. With
    `quantize`, floats for a quantised tensor are quantised.
    """
    dtype = tensor.dtype
    if dtype in (DType.RESOURCE, DType.VARIANT):
        raise ValueError(f"Cannot set tensor: {_label(tensor)} is a {dtype.label}")
    is_array = isinstance(value, np.ndarray | np.generic)
    array = np.asarray(value)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if dtype is DType.STRING:
        return _strings(tensor, array)
    if array.dtype == dtype.numpy and dtype not in (DType.INT4, DType.INT2, DType.UINT4):
        return array
    if quantize and array.dtype.kind == "f" and tensor.quant is not None:
        return quantized(array, tensor.quant, dtype)
    if dtype is DType.BFLOAT16 and array.dtype == bfloat16():
        return array.view(np.uint16)
    if dtype is DType.BFLOAT16 and not is_array and array.dtype.kind in "fiu":
        from ..kernels.types import float32_to_bfloat16

        return float32_to_bfloat16(array.astype(np.float32))
    if dtype.name.startswith("FLOAT8") and array.dtype in (np.int8, np.uint8):
        return array.view(np.int8)
    if not is_array and np.can_cast(array.dtype, dtype.numpy, "same_kind") and _fits(array, dtype):
        return array.astype(dtype.numpy)
    if array.dtype != dtype.numpy:
        raise ValueError(_type_error(tensor, array))
    if not _fits(array, dtype):
        low, high = dtype.range()
        raise ValueError(
            f"Cannot set tensor: Values for {dtype.name} input must be between {low} and {high}."
        )
    return array


def check_shape(tensor: LiveTensor, array: Array) -> None:
    if array.ndim != len(tensor.shape):
        raise ValueError(
            f"Cannot set tensor: Dimension mismatch. Got {array.ndim} but expected "
            f"{len(tensor.shape)} for input "
            f"{tensor.index}. {_label(tensor)} has the shape {list(tensor.shape)}, the value "
            f"{list(array.shape)}."
        )
    for i, (got, want) in enumerate(zip(array.shape, tensor.shape, strict=True)):
        if got != want:
            raise ValueError(
                f"Cannot set tensor: Dimension mismatch. Got {got} but expected {want} for "
                f"dimension {i} of input "
                f"{tensor.index}. {_label(tensor)} has the shape {list(tensor.shape)}, the value "
                f"{list(array.shape)}; "
                "resize_tensor_input() changes it."
            )


def writable(tensor: LiveTensor) -> Array:
    """The memory of a tensor that may be written."""
    if tensor.allocation in (MMAP, FOLDED):
        raise ValueError(f"Cannot set tensor: {_label(tensor)} is a constant of the model")
    array = tensor.array_or_none
    if array is None or array.shape != tensor.shape:
        raise ValueError(
            "Cannot set tensor: Tensor is unallocated. Try calling allocate_tensors() first: "
            f"{_label(tensor)} has no memory yet"
        )
    return array


def get_value(tensor: LiveTensor, *, dequantize: bool = False) -> Array:
    """A copy of the tensor's value; a string tensor is an object array of bytes."""
    array = readable(tensor)
    if dequantize and tensor.quant is not None and tensor.dtype.is_integer:
        return dequantized(array, tensor.quant)
    try:
        value = array.copy()
    except MemoryError as e:
        raise MemoryError(
            f"{_label(tensor)}, {tensor.dtype.label}{list(tensor.shape)}, takes {array.nbytes:,} "
            "bytes, and there is no memory for a copy of it; tensor() gives a view"
        ) from e
    if tensor.dtype is DType.BFLOAT16:
        extended = bfloat16()
        return value if extended is None else value.view(extended)
    return value


def readable(tensor: LiveTensor) -> Array:
    array = tensor.array_or_none
    if array is None or (tensor.allocation == ARENA and array.shape != tensor.shape):
        raise ValueError(
            f"Tensor data is null. Run allocate_tensors() first: {_label(tensor)} "
            f"{tensor.why_no_memory()}"
        )
    return array


def quantized(values: Array, quant: Quantization, dtype: DType) -> Array:
    """clamp(round(real / scale) + zero point), halves away from zero, as QUANTIZE has it."""
    scale, zero = _along_axis(quant, values.ndim)
    low, high = dtype.range()
    real = values.astype(np.float32) / scale
    with np.errstate(invalid="ignore"):
        rounded = np.trunc(real + np.copysign(np.float32(0.5), real)) + zero
        return np.asarray(np.clip(rounded, low, high).astype(dtype.numpy))


def dequantized(values: Array, quant: Quantization) -> Array:
    """scale * (stored - zero point), float32."""
    scale, zero = _along_axis(quant, values.ndim)
    return np.asarray((values.astype(np.float32) - zero.astype(np.float32)) * scale)


def _along_axis(quant: Quantization, rank: int) -> tuple[Array, Array]:
    if quant.scale.size == 1:
        return quant.scale.reshape(()), quant.zero_point.reshape(())
    if quant.block_size:
        raise ValueError("a tensor that is quantised in blocks is no input or output of floats")
    shape = [1] * rank
    shape[quant.axis] = -1
    return quant.scale.reshape(shape), quant.zero_point.reshape(shape)


def _fits(array: Array, dtype: DType) -> bool:
    """Whether all integers lie in the range of the type: numpy's storage of 4-bit and 2-bit ones
    holds more.
    """
    if array.dtype.kind not in "iu" or not dtype.is_integer or not array.size:
        return True
    low, high = dtype.range()
    return bool(array.min() >= low and array.max() <= high)


def _strings(tensor: LiveTensor, array: Array) -> Array:
    if array.dtype.kind not in "OSU":
        raise ValueError(_type_error(tensor, array))
    out = np.empty(array.shape, object)
    flat = out.reshape(-1)
    for i, item in enumerate(array.reshape(-1).tolist()):
        if isinstance(item, str):
            item = item.encode()
        if not isinstance(item, bytes):
            raise ValueError(
                f"Cannot set tensor: {_label(tensor)} takes bytes or str, not {type(item).__name__}"
            )
        flat[i] = item
    return out


def _type_error(tensor: LiveTensor, array: Array) -> str:
    if array.dtype.kind in "OSU":
        got = "STRING"
    elif array.dtype in _BY_NUMPY:
        got = _BY_NUMPY[array.dtype].name
    else:
        got = "BFLOAT16" if array.dtype == bfloat16() else f"NOTYPE ({array.dtype})"
    text = (
        f"Cannot set tensor: Got value of type {got} but expected type {tensor.dtype.name} for "
        f"input {tensor.index}, "
        f"name: {tensor.name} "
    )
    quant = tensor.quant
    if quant is not None and tensor.dtype.is_integer and quant.scale.size == 1:
        low, high = tensor.dtype.range()
        scale, zero = float(quant.scale.flat[0]), int(quant.zero_point.flat[0])
        text += (
            f"(it is quantised: scale {scale:.9g}, zero point {zero}; "
            f"stored = clip(round(real / {scale:.9g}) + {zero}, {low}, {high}), not a cast; "
            "Interpreter(..., quantize_inputs=True) does this)"
        )
    elif tensor.dtype is DType.STRING:
        text += "(that takes str or bytes, or an array of them)"
    elif array.dtype == object:
        held = {type(item).__name__ for item in array.reshape(-1)[:8].tolist()}
        text += f"(its elements are of the Python type {', '.join(sorted(held)) or 'object'})"
    else:
        text += f"(numpy.asarray(value, numpy.{tensor.dtype.numpy.name}) makes one)"
    return text


def _label(tensor: LiveTensor) -> str:
    return f"tensor {tensor.index} {tensor.name!r}"
