"""Launches that are made again and again: once one by one, then as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .device import CUDADevice
    from .trace import EventTrace

# kernel, grid, block, arguments
Call = tuple[Any, tuple[int, int, int], tuple[int, int, int], tuple[Any, ...]]
Work = Callable[[], None]


class Recording:
    """Enqueues all calls, in order, each time it is called: kernels, and work of libraries.

    What lies between two calls of libraries is a graph. CuPy makes none of cuBLAS
    (`cupy_backends/cuda/libs/cublas.pyx`, setStream).
    """

    def __init__(self, device: CUDADevice, calls: Sequence[Call | Work]) -> None:
        self._device = device
        self._parts: list[Work] = []
        kernels: list[Call] = []
        for call in calls:
            if isinstance(call, tuple):
                kernels.append(call)
                continue
            if kernels:
                self._parts.append(_Kernels(device, kernels))
                kernels = []
            self._parts.append(call)
        if kernels:
            self._parts.append(_Kernels(device, kernels))

    def __call__(self) -> None:
        with self._device.current():
            trace = self._device.tracing
            for part in self._parts:
                if trace is None:
                    part()
                elif isinstance(part, _Kernels):
                    part.traced(trace)
                else:
                    trace.around(part)


class _Kernels:
    """Launches of our kernels.

    The first time launches them one by one, which also has the driver load them: it does so on
    first use, and must not within a capture. The second time captures. Where that fails, they are
    launched one by one for good, and `device.unrecorded` has the reason.
    """

    def __init__(self, device: CUDADevice, calls: Sequence[Call]) -> None:
        self._device = device
        self._calls = calls
        self._graph: Any = None
        self._warm = False
        self._capture = device.graphs and len(calls) > 1

    def __call__(self) -> None:
        if self._graph is None and self._warm and self._capture:
            self._graph = self._captured()
        if self._graph is not None:
            self._graph.launch(self._device.stream)
            return
        self._launch(self._device.stream)
        self._warm = True

    def _launch(self, stream: Any) -> None:
        for kernel, grid, block, args in self._calls:
            kernel(grid, block, args, stream=stream)

    def traced(self, trace: EventTrace) -> None:
        """One by one, each timed."""
        stream = self._device.stream
        for kernel, grid, block, args in self._calls:
            trace.around(partial(kernel, grid, block, args, stream=stream))

    def _captured(self) -> Any:
        """The graph, or None where it cannot be had.

        On a stream of its own: what other threads enqueue meanwhile must not become part of it.
        """
        with self._device.capturing() as stream:
            try:
                stream.begin_capture()
            except Exception as e:
                self._give_up(e)
                return None
            try:
                self._launch(stream)
            except Exception as e:
                self._give_up(e)
            try:
                graph = stream.end_capture()  # whatever happened: else it stays in capture
            except Exception as e:
                self._give_up(e)
        return graph if self._capture else None

    def _give_up(self, error: Exception) -> None:
        self._capture = False
        self._device.unrecorded.append(f"{type(error).__name__}: {error}")
