"""Builds the kernels of a partition: in programs of a few, side by side, telling how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any

from .device import Device
from .texts import Text, program

# A program costs a compiler little by itself; smaller ones are more often known from other models.
_KERNELS = 6

Progress = Callable[[int, int], None]
_listeners: list[Progress] = []


@contextmanager
def listening(progress: Progress) -> Iterator[None]:
    """While open, `progress(done, all)` is called with numbers of kernels as they are built."""
    _listeners.append(progress)
    try:
        yield
    finally:
        _listeners.remove(progress)


def build(device: Device, texts: Sequence[Text]) -> Mapping[str, Any]:
    """The kernels by name; `BuildError` where the compiler does not take one of them."""
    texts = list({t.name: t for t in texts}.values())
    ours = [t for t in texts if not t.brought]
    parts = [ours[i : i + _KERNELS] for i in range(0, len(ours), _KERNELS)]
    parts += [[t] for t in texts if t.brought]  # names in them may clash with others'
    built: dict[str, Any] = {}
    _tell(0, len(texts))
    with device.building():
        for made in _each(device, parts):
            built |= made
            _tell(len(built), len(texts))
    return built


def _each(device: Device, parts: Sequence[Sequence[Text]]) -> Iterator[Mapping[str, Any]]:
    def one(part: Sequence[Text]) -> Mapping[str, Any]:
        return device.build(program(part), [t.name for t in part])

    threads = min(device.builders, len(parts))
    if threads <= 1:
        yield from map(one, parts)
        return
    with ThreadPoolExecutor(threads, "litedelegate-build") as pool:
        futures: list[Future[Mapping[str, Any]]] = [pool.submit(one, part) for part in parts]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            for future in futures:  # what has not begun need not
                future.cancel()
            raise


def _tell(done: int, count: int) -> None:
    for progress in list(_listeners):
        progress(done, count)
