"""Cases as data: what goes into an op, and what must come out or how it is refused.

Each module here has a list `CASES`. `test_ops.py` runs all of them on the numpy kernels; other
backends can run the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from litedelegate.kernels.api import Quantization, TensorSpec
from litedelegate.kernels.types import Array, DType, float32_to_bfloat16

_FROM_NUMPY = {
    d.numpy: d
    for d in reversed(DType)
    if d.name not in {"INT4", "INT2", "UINT4", "BFLOAT16", "FLOAT8_E4M3FN", "FLOAT8_E5M2"}
    and d not in (DType.RESOURCE, DType.VARIANT)
}


@dataclass(frozen=True, slots=True, eq=False)
class T:
    """A tensor of a case: its value, and what else its spec says.

    Without `dtype`, Python floats are float32, Python ints int32, bytes strings, and numpy arrays
    what they are. A bfloat16 value is given as its real numbers. As an expected output, `scale` and
    `zero_point` are what the model file declares.
    """

    value: Any
    dtype: DType | None = None
    scale: float | Sequence[float] = 0.0
    zero_point: int | Sequence[int] = 0
    axis: int = 0
    block_size: int = 0
    const: bool = False
    variable: bool = False
    shape: tuple[int, ...] | None = None  # of a sparse constant, with its sparsity
    sparsity: Any = None

    @property
    def type(self) -> DType:
        return self.dtype if self.dtype is not None else _FROM_NUMPY[_plain(self.value).dtype]

    @property
    def array(self) -> Array:
        if self.dtype is DType.BFLOAT16:
            return float32_to_bfloat16(np.asarray(self.value, np.float32))
        plain = _plain(self.value)
        return np.array(plain, plain.dtype if self.dtype is None else self.dtype.numpy, order="C")

    @property
    def quant(self) -> Quantization | None:
        scale = np.atleast_1d(np.asarray(self.scale, np.float32))
        if not scale.any():
            return None
        zero = np.broadcast_to(np.asarray(self.zero_point, np.int64), scale.shape).copy()
        return Quantization(scale, zero, self.axis, self.block_size)

    def spec(self, name: str, const: bool | None = None) -> TensorSpec:
        array = self.array
        known = self.const if const is None else const
        return TensorSpec(
            array.shape if self.shape is None else self.shape,
            self.type,
            self.quant,
            array if known else None,
            name,
            self.variable,
            self.sparsity,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One node and what it must do.

    * `inputs`: arrays, nested lists, `T`, or None for an absent optional input.
    * `options`: the schema's fields that this op reads, all of them (enums by name); of a custom
      op, its bytes.
    * `want`: the expected outputs, in order. A `T` where the output is quantised or of a type that
      numpy lacks.
    * `refused`: instead of `want`, a text that the `OpError` must contain; `outputs` then declares
      the outputs (`T` of any value).
    * `tolerance`: for floats, of the largest expected absolute value; 0 asks for equality, the sign
      of a negative zero included. `step`: for integers that derive from floats.
    * `updated`: expected contents of variable inputs after the call, by input number.
    * `intermediates`: tensors (`T` of any value) whose quantisation the op reads.
    """

    op: str
    inputs: Sequence[Any]
    options: Mapping[str, Any] | bytes = field(default_factory=dict)
    want: Sequence[Any] | None = None
    refused: str | None = None
    outputs: Sequence[T] = ()
    version: int = 1
    tolerance: float = 1e-5
    step: int = 0
    updated: Mapping[int, Any] = field(default_factory=dict)
    custom: bool = False
    name: str = ""
    intermediates: Sequence[T] = ()

    def __post_init__(self) -> None:
        if (self.want is None) == (self.refused is None):
            raise ValueError(f"{self.op}: give either want or refused")
        if self.refused is not None and not self.outputs:
            raise ValueError(f"{self.op}: a refused case must declare its outputs")

    @property
    def tensors(self) -> list[T | None]:
        return [_tensor(v) for v in self.inputs]

    @property
    def wanted(self) -> list[T]:
        return [t for t in map(_tensor, self.want or ()) if t is not None]

    @property
    def declared(self) -> list[T]:
        return list(self.outputs) or self.wanted


def _tensor(value: Any) -> T | None:
    return value if value is None or isinstance(value, T) else T(value)


def _plain(value: Any) -> Array:
    """`value` as an array of a type that TensorFlow Lite has."""
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind not in "SU":
        return np.asarray(value)
    array = np.asarray(value)
    if array.dtype.kind in "SU":
        return np.asarray(value, object)
    if array.dtype == np.int64:
        return array.astype(np.int32)
    if array.dtype == np.float64:
        return array.astype(np.float32)
    return array
