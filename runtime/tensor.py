"""A live tensor: its spec, and the array it lives in."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels._memory import aligned
from ..kernels.api import Quantization, Shape, TensorSpec
from ..kernels.types import Array, DType

# Where a tensor's memory comes from; the names TensorFlow Lite has for it.
MMAP = "mmap_ro"  # a view of the model file
FOLDED = "persistent_ro"  # computed at allocation, constant since
ARENA = "arena_rw"
PERSISTENT = "arena_rw_persistent"  # kept between invokes: variables
DYNAMIC = "dynamic"
UNUSED = "none"  # nobody writes it and it has no value


class LiveTensor:
    """Implements `kernels.api.Tensor`."""

    __slots__ = (
        "_quant",
        "_source",
        "_spec",
        "allocation",
        "array_or_none",
        "const",
        "declared_shape",
        "dtype",
        "index",
        "made",
        "name",
        "shape",
        "shape_signature",
        "sparsity",
        "variable",
    )

    def __init__(
        self,
        index: int,
        name: str,
        shape: Shape,
        dtype: DType,
        *,
        source: Any = None,
        const: Array | None = None,
        variable: bool = False,
        allocation: str = UNUSED,
    ) -> None:
        self.index = index
        self.name = name
        self.shape = shape
        self.declared_shape = shape  # the model file's
        self.dtype = dtype
        self.const = const
        self.variable = variable
        self.allocation = allocation
        self.array_or_none: Array | None = const
        self.shape_signature: Shape | None = source.shape_signature if source is not None else None
        self.sparsity: Any = source.sparsity if source is not None and const is not None else None
        self._source = source  # until its quantisation is asked for
        self._quant: Quantization | None = None
        self._spec: TensorSpec | None = None
        self.made = True  # a node makes it, or the user gives it

    @property
    def quant(self) -> Quantization | None:
        if self._source is not None:
            self._quant = self._source.quantization
            self._source = None
        return self._quant

    @property
    def spec(self) -> TensorSpec:
        spec = self._spec
        if spec is None:
            spec = TensorSpec(
                self.shape,
                self.dtype,
                self.quant,
                self.const,
                self.name,
                self.variable,
                self.sparsity,
            )
            self._spec = spec
        return spec

    def spec_with_value(self) -> TensorSpec:
        """The spec with the present value as constant: for a shape rule that is asked at invoke."""
        return TensorSpec(
            self.shape,
            self.dtype,
            self.quant,
            self.array_or_none,
            self.name,
            self.variable,
            self.sparsity,
        )

    def set_shape(self, shape: Shape) -> None:
        if shape != self.shape:
            self.shape = shape
            self._spec = None

    def set_const(self, value: Array | None) -> None:
        self.const = value
        self._spec = None

    @property
    def is_dynamic(self) -> bool:
        return self.allocation == DYNAMIC

    @property
    def nbytes(self) -> int:
        n = self.dtype.numpy.itemsize
        for d in self.shape:
            n *= d
        return n

    @property
    def array(self) -> Array:
        if self.array_or_none is None:
            raise RuntimeError(
                f"tensor {self.index} {self.name!r} has no memory: {self.why_no_memory()}"
            )
        return self.array_or_none

    def why_no_memory(self) -> str:
        if self.allocation == DYNAMIC:
            return "its shape is known once the node that makes it has run; invoke first"
        if self.allocation == UNUSED and not self.made:
            return "no node makes it and the model gives it no value"
        return "allocate_tensors() has not been called"

    def __repr__(self) -> str:
        kind = f"{self.dtype.label}{list(self.shape)} {self.allocation}"
        return f"<tensor {self.index} {self.name!r} {kind}>"


def new_array(shape: Shape, dtype: DType) -> Array:
    """An array of its own for a tensor; strings begin empty, numbers unset and aligned."""
    if dtype is DType.STRING:
        return np.full(shape, b"", object)
    if dtype.numpy.hasobject:
        return np.empty(shape, dtype.numpy)
    return aligned(size_in_bytes(shape, dtype)).view(dtype.numpy).reshape(shape)


def size_in_bytes(shape: Shape, dtype: DType) -> int:
    n = dtype.numpy.itemsize
    for d in shape:
        n *= d
    return n


def zeros(tensor: LiveTensor) -> Array:
    """The value of a variable that was never written: zero bytes, for int8 the zero point's."""
    if tensor.dtype.numpy.hasobject:
        return new_array(tensor.shape, tensor.dtype)
    zero = tensor.spec.zero_point if tensor.dtype is DType.INT8 else 0
    return np.full(tensor.shape, zero, tensor.dtype.numpy)
