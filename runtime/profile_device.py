"""What devices did while a profile was taken: kernels and copies, by the device's clock."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .delegate import DeviceTime


@dataclass(frozen=True)
class Work:
    """A kernel or a copy of a partition, over all calls; nanoseconds."""

    subgraph: int
    partition: int  # the number of its node
    name: str
    kind: str  # "kernel" or "copy"
    calls: int
    total: int


@dataclass(frozen=True)
class _Call:
    subgraph: int
    partition: int
    times: Sequence[DeviceTime]
    ended: int  # by time.perf_counter_ns


class DeviceProfile:
    """All calls of partitions whose devices have a clock."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    def record(self, subgraph: int, partition: int, times: Sequence[DeviceTime]) -> None:
        """Of a call that has just ended."""
        if times:
            self._calls.append(_Call(subgraph, partition, times, time.perf_counter_ns()))

    def work(self) -> list[Work]:
        """The slowest first."""
        groups: dict[tuple[int, int, int], list[DeviceTime]] = {}
        for call in self._calls:
            for place, each in enumerate(call.times):
                groups.setdefault((call.subgraph, call.partition, place), []).append(each)
        found = [
            Work(
                subgraph,
                partition,
                times[0].name,
                times[0].kind,
                len(times),
                sum(t.end - t.start for t in times),
            )
            for (subgraph, partition, _), times in groups.items()
        ]
        return sorted(found, key=lambda w: -w.total)

    def totals(self) -> dict[str, int]:
        """Nanoseconds by kind, kernels and copies apart."""
        totals = {"kernel": 0, "copy": 0}
        for work in self.work():
            totals[work.kind] += work.total
        return totals

    def events(self, first: int) -> Iterator[dict[str, Any]]:
        """For a Chrome trace that begins at `first`. The device's clock is another than the host's:
        what ended last is set to when the call returned.
        """
        for call in self._calls:
            shift = call.ended - max(t.end for t in call.times) - first
            for each in call.times:
                yield {
                    "name": each.name,
                    "cat": each.kind,
                    "ph": "X",
                    "ts": (each.start + shift) / 1e3,
                    "dur": (each.end - each.start) / 1e3,
                    "pid": 0,
                    "tid": 1,
                    "args": {"subgraph": call.subgraph, "partition": call.partition},
                }
