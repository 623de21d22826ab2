"""cuBLAS of the stand-in: numpy, with the checks of its arguments that cuBLAS makes or should."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from litedelegate.kernels.types import Array

from .machine import Machine, bytes_at


class Cublas:
    """`cupy_backends/cuda/libs/cublas.pyx`: the functions of that module."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._modes: Counter[int] = Counter()
        self.calls: list[tuple[str, int]] = []  # function and math mode

    def getMathMode(self, handle: int) -> int:
        return self._modes[handle]

    def setMathMode(self, handle: int, mode: int) -> None:
        if mode not in (0, 3):
            raise ValueError(f"CUBLAS_STATUS_INVALID_VALUE: mode {mode}")
        self._modes[handle] = mode

    def sgemm(self, handle: int, *args: Any) -> None:
        transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc = args
        self.calls.append(("sgemm", self._modes[handle]))
        self._product(
            handle, transa, transb, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1
        )

    def sgemmStridedBatched(self, handle: int, *args: Any) -> None:
        self.calls.append(("sgemmStridedBatched", self._modes[handle]))
        self._product(handle, *args)

    def _product(
        self,
        handle: int,
        transa: int,
        transb: int,
        m: int,
        n: int,
        k: int,
        alpha: int,
        a: int,
        lda: int,
        step_a: int,
        b: int,
        ldb: int,
        step_b: int,
        beta: int,
        c: int,
        ldc: int,
        step_c: int,
        batch: int,
    ) -> None:
        """C = alpha op(A) op(B) + beta C, all by columns: cuBLAS's documentation of gemm."""
        queue = self._machine.current_queue
        # setStream: "calling cuBLAS API during stream capture is currently unsupported"
        if queue.capture is not None:
            raise NotImplementedError("calling cuBLAS API during stream capture")
        if handle != 1 + self._machine.current or queue.device != self._machine.current:
            raise RuntimeError("CUBLAS_STATUS_NOT_INITIALIZED: another device's handle or stream")
        if transa not in (0, 1) or transb not in (0, 1) or min(m, n, k, batch) < 1:
            raise ValueError("CUBLAS_STATUS_INVALID_VALUE")
        if lda < (k if transa else m) or ldb < (n if transb else k) or ldc < m:
            raise ValueError("CUBLAS_STATUS_INVALID_VALUE: a leading dimension is too small")
        scale, keep = (bytes_at(p, 4).view(np.float32)[0] for p in (alpha, beta))

        def matrices(address: int, rows: int, columns: int, lead: int, step: int) -> Array:
            size = 4 * (step * (batch - 1) + lead * (columns - 1) + rows)
            self._machine.device_memory(address, size, queue.device)
            flat = bytes_at(address, size).view(np.float32)
            return as_strided(flat, (batch, rows, columns), (4 * step, 4, 4 * lead))

        left = matrices(a, *((k, m) if transa else (m, k)), lda, step_a)
        right = matrices(b, *((n, k) if transb else (k, n)), ldb, step_b)
        out = matrices(c, m, n, ldc, step_c)
        if transa:
            left = left.transpose(0, 2, 1)
        if transb:
            right = right.transpose(0, 2, 1)

        def run() -> None:
            made = scale * (left @ right)
            out[...] = made if keep == 0 else made + keep * out

        queue.put(run)
