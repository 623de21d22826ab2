"""float16 and bfloat16 nodes in float32: inputs are widened, outputs rounded to nearest even."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ._elementwise import sequence
from .api import Bind, Binding, Run, TensorSpec
from .types import Array, DType, bfloat16_to_float32

HALVES = (DType.FLOAT16, DType.BFLOAT16)
FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64)


def in_float32(bind: Bind) -> Bind:
    """A bind function that takes float16 and bfloat16 too, by way of one that takes float32."""

    def widened(b: Binding) -> Run | None:
        specs = [*(s for s in b.inputs if s is not None), *b.outputs]
        if not any(s.dtype in HALVES for s in specs):
            return bind(b)
        wide = _Widened(b)
        run = bind(wide)
        return sequence(*wide.loads, run, *wide.stores)

    return widened


def load(x: Array, dtype: DType, wide: Array) -> Run:
    """wide (float32) = x, of a 16-bit float type."""
    if dtype is DType.FLOAT16:
        return lambda: np.copyto(wide, x)
    bits, sixteen = wide.view(np.uint32), np.array(16, np.uint32)
    return lambda: np.left_shift(x, sixteen, out=bits, dtype=np.uint32)


def store(wide: Array, dtype: DType, y: Array, work: Array) -> Run:
    """y, of a 16-bit float type, = wide (float32); `work` is uint32 scratch of its shape."""
    if dtype is DType.FLOAT16:
        return lambda: np.copyto(y, wide, casting="unsafe")
    bits = wide.view(np.uint32)
    sixteen, one, half = (np.array(v, np.uint32) for v in (16, 1, 0x7FFF))
    quiet = np.array(0x7FC00000, np.uint32)

    def run() -> None:
        nan = np.isnan(wide)
        np.right_shift(bits, sixteen, out=work)
        np.bitwise_and(work, one, out=work)
        np.add(work, half, out=work)
        np.add(work, bits, out=work)
        if nan.any():
            work[nan] = bits[nan] & np.uint32(0x80000000) | quiet
        np.right_shift(work, sixteen, out=work)
        np.copyto(y, work, casting="unsafe")

    return run


class _Widened:
    """A binding in which every 16-bit float tensor is float32."""

    def __init__(self, b: Binding) -> None:
        self.inner = b
        self.op, self.options, self.version, self.index = b.op, b.options, b.version, b.index
        self.threads, self.intermediates = b.threads, b.intermediates
        self.loads: list[Run] = []
        self.stores: list[Run] = []
        pairs = [self._input(spec, x) for spec, x in zip(b.inputs, b.x, strict=True)]
        self.inputs: Sequence[TensorSpec | None] = [spec for spec, _ in pairs]
        self.x: Sequence[Array | None] = [x for _, x in pairs]
        self.outputs: Sequence[TensorSpec] = [
            replace(s, dtype=DType.FLOAT32) if s.dtype in HALVES else s for s in b.outputs
        ]
        self.y: Sequence[Array] = [self._output(s, y) for s, y in zip(b.outputs, b.y, strict=True)]

    def _input(
        self, spec: TensorSpec | None, x: Array | None
    ) -> tuple[TensorSpec | None, Array | None]:
        if spec is None or x is None or spec.dtype not in HALVES:
            return spec, x
        if spec.const is not None:
            half = spec.const
            wide = (
                half.astype(np.float32)
                if spec.dtype is DType.FLOAT16
                else bfloat16_to_float32(half)
            )
            return replace(spec, dtype=DType.FLOAT32, const=wide), wide
        wide = self.inner.scratch(x.shape, np.float32)
        self.loads.append(load(x, spec.dtype, wide))
        return replace(spec, dtype=DType.FLOAT32), wide

    def _output(self, spec: TensorSpec, y: Array) -> Array:
        if spec.dtype not in HALVES:
            return y
        wide = self.inner.scratch(y.shape, np.float32)
        work = self.inner.scratch(y.shape if spec.dtype is DType.BFLOAT16 else (0,), np.uint32)
        self.stores.append(store(wide, spec.dtype, y, work))
        return wide

    def input(self, i: int) -> TensorSpec:
        spec = self.inputs[i]
        assert spec is not None
        return spec

    def optional(self, i: int) -> TensorSpec | None:
        return self.inputs[i] if i < len(self.inputs) else None

    def xi(self, i: int) -> Array:
        array = self.x[i]
        assert array is not None
        return array

    def scratch(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> Array:
        return self.inner.scratch(shape, dtype)

    def once(self, key: str, make: Callable[[], Any]) -> Any:
        return self.inner.once(key, make)

    def parallel(self, tasks: Sequence[Run]) -> Run:
        return self.inner.parallel(tasks)
