"""cuBLAS for products of float32 matrices: tried before the shared device forms.

Matrices are stored by rows here and by columns there, where each is its own transpose; so that
C = A B is asked for as C' = B' A'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ...kernels.api import NodeSpec, Shape, TensorSpec, Unsupported
from ...kernels.device import Lowered, Map, Read
from ...kernels.types import DType
from ..gpu.library import library

if TYPE_CHECKING:
    from .device import CUDADevice

_PLAIN, _TRANSPOSED = 0, 1  # cublasOperation_t
_DEFAULT_MATH, _TF32_MATH = 0, 3  # cublasMath_t
_ACTIVATED = {  # of a sum `$0`; NaN stays
    "NONE": "$0",
    "RELU": "($0 < 0.0f ? 0.0f : $0)",
    "RELU6": "clamp_f32($0, 0.0f, 6.0f)",
    "RELU_N1_TO_1": "clamp_f32($0, -1.0f, 1.0f)",
}
_ONE, _ZERO = np.ones((), np.float32), np.zeros((), np.float32)


@dataclass(frozen=True)
class Product:
    """`batch` products C = A B of matrices of rows: [rows, depth] and [depth, columns], each
    transposed in memory where that is said. Steps are those from one product's operand to the
    next one's, in elements."""

    rows: int
    columns: int
    depth: int
    transposed_a: bool = False
    transposed_b: bool = False
    batch: int = 1
    step_a: int = 0
    step_b: int = 0


class Cublas:
    """`tf32`: inputs are rounded to ten bits for tensor cores. `least`: smaller products, in
    multiplications and additions, are left to our kernels, in which maps ride."""

    def __init__(self, device: CUDADevice, tf32: bool, least: int) -> None:
        self._device = device
        self._mode = _TF32_MATH if tf32 else _DEFAULT_MATH
        self._least = least
        self._loaded: Any = None

    def lower(self, node: NodeSpec) -> Lowered:
        """Raises `Unsupported` for all that is not its."""
        find = _PRODUCTS.get(node.op)
        if find is None:
            _refuse(node.op)
        tensors = [t for t in (*node.inputs, *node.outputs) if t is not None]
        if any(t.dtype is not DType.FLOAT32 or t.sparsity is not None for t in tensors):
            _refuse("types other than float32")
        product = find(node)
        if not min(product.rows, product.columns, product.depth, product.batch):
            _refuse("no elements")
        work = 2 * product.batch * product.rows * product.columns * product.depth
        if work < self._least:
            _refuse(f"{work} operations")
        if max(t.size for t in tensors) >= 1 << 31:
            _refuse("more than 32 bits can count")
        self._load()
        y = node.outputs[0]
        bias = node.optional(2) if node.op != "BATCH_MATMUL" else None
        activation = getattr(node.options, "fused_activation_function", "NONE")
        if activation not in _ACTIVATED:
            _refuse(f"the activation {activation}")
        call = self._call(product)
        if bias is None and activation == "NONE":
            return Lowered([library((0, 1), 0, call)])
        sums = Read(len(node.inputs))
        text = _ACTIVATED[activation]
        finish = Map(text, (sums,), uses=("arithmetic",))
        if bias is not None:
            text = text.replace("$0", "($0 + $1)")
            finish = Map(text, (sums, Read(2)), uses=("arithmetic",))
        return Lowered([library((0, 1), 1, call), finish], scratch=[(y.shape, DType.FLOAT32)])

    def _load(self) -> Any:
        """CuPy's module; once it is there and a handle can be had."""
        if self._loaded is None:
            try:
                with self._device.current():
                    self._loaded = self._device.cupy.cuda.cublas
                    self._handle()
            except Exception as e:  # the loader's error, in CuPy's words
                self._loaded = f"cuBLAS: {type(e).__name__}: {e}"
        if isinstance(self._loaded, str):
            _refuse(self._loaded)
        return self._loaded

    def _handle(self) -> int:
        """CuPy keeps one for each thread and device."""
        return int(self._device.cupy.cuda.get_cublas_handle())

    def _call(self, p: Product) -> Callable[[Sequence[Any]], None]:
        one, zero = _ONE.ctypes.data, _ZERO.ctypes.data
        op_a = _TRANSPOSED if p.transposed_a else _PLAIN
        op_b = _TRANSPOSED if p.transposed_b else _PLAIN
        wide_a = p.rows if p.transposed_a else p.depth
        wide_b = p.depth if p.transposed_b else p.columns
        sizes = op_b, op_a, p.columns, p.rows, p.depth

        def call(buffers: Sequence[Any]) -> None:
            a, b, c = (buffer.ptr for buffer in buffers)
            cublas, handle = self._load(), self._handle()
            before = cublas.getMathMode(handle)  # the handle is the user's, too
            cublas.setMathMode(handle, self._mode)
            try:
                if p.batch == 1:
                    cublas.sgemm(handle, *sizes, one, b, wide_b, a, wide_a, zero, c, p.columns)
                    return
                cublas.sgemmStridedBatched(
                    handle,
                    *sizes,
                    one,
                    b,
                    wide_b,
                    p.step_b,
                    a,
                    wide_a,
                    p.step_a,
                    zero,
                    c,
                    p.columns,
                    p.rows * p.columns,
                    p.batch,
                )
            finally:
                cublas.setMathMode(handle, before)

        return call


def _fully_connected(node: NodeSpec) -> Product:
    x, weights = node.input(0), node.input(1)
    units, depth = weights.shape
    if not depth:
        _refuse("no depth")
    return Product(x.size // depth, units, depth, transposed_b=True)


def _convolution(node: NodeSpec) -> Product:
    """A convolution that looks at one pixel at a time is a product."""
    x, weights, o = node.input(0), node.input(1), node.options
    units, height, width, depth = weights.shape
    if (height, width, depth) != (1, 1, x.shape[-1]) or (o.stride_h, o.stride_w) != (1, 1):
        _refuse("a window of more than a pixel, strides or groups")
    return Product(math.prod(x.shape[:-1]), units, depth, transposed_b=True)


def _batch_matmul(node: NodeSpec) -> Product:
    x, y, o = node.input(0), node.input(1), node.options
    rows, columns = node.outputs[0].shape[-2:]
    depth = x.shape[-2 if o.adj_x else -1]
    batches = math.prod(x.shape[:-2]), math.prod(y.shape[:-2])
    if batches[1] == 1 and not o.adj_x:  # one matrix of more rows
        return Product(batches[0] * rows, columns, depth, transposed_b=o.adj_y)
    if 1 not in batches and _batch(x) != _batch(y):
        _refuse("batches that broadcast one dimension at a time")
    steps = [
        0 if n == 1 else t.shape[-1] * t.shape[-2] for n, t in zip(batches, (x, y), strict=True)
    ]
    return Product(rows, columns, depth, o.adj_x, o.adj_y, max(batches), *steps)


def _batch(spec: TensorSpec) -> Shape:
    """Its batch dimensions, without leading ones."""
    dims = list(spec.shape[:-2])
    while dims and dims[0] == 1:
        del dims[0]
    return tuple(dims)


_PRODUCTS: dict[str, Callable[[NodeSpec], Product]] = {
    "FULLY_CONNECTED": _fully_connected,
    "CONV_2D": _convolution,
    "BATCH_MATMUL": _batch_matmul,
}


def _refuse(got: str) -> NoReturn:
    raise Unsupported("OPTION", f"got {got}; cuBLAS takes products of float32 matrices")
