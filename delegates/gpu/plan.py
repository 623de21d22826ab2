"""A partition on a device: memory planned, constants uploaded, kernels built, launches recorded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...kernels.api import OpError, Run
from ...kernels.types import Array
from ...runtime.delegate import BuildError, DeviceTime
from .blame import blame
from .build import build
from .device import Device, Launch
from .draft import Draft
from .fuse import Item
from .memory import allocate
from .merge import table
from .texts import Text

_MOST_RECORDINGS = 8


@dataclass(frozen=True, slots=True)
class Home:
    """Where a tensor lives that is not in the plan's arena: an address that tells it from others,
    and a buffer; `lent`: the host's memory, which the device has only while it works.
    """

    address: Hashable
    buffer: Any
    lent: bool = False


class Plan:
    """The nodes `items`, ready to run.

    `inputs` and `outputs` are the tensors that cross, by number. `bind` says where they come from
    and go to; then `invoke` takes no arguments.
    """

    def __init__(
        self,
        device: Device,
        items: Sequence[Item],
        inputs: Sequence[int],
        outputs: Sequence[int],
        fuse: bool = True,
        half: bool = False,
        draft: Draft | None = None,
    ) -> None:
        """`half`: what stays on the device in float32 is stored in 16 bits. `draft`: of the same
        arguments, where it is there already.
        """
        self._device = device
        self._nodes = [item.spec for item in items]
        made = draft or Draft(
            device.capability, items, inputs, outputs, fuse, half, device.alignment
        )
        self._roots, self._faults = made.roots, made.faults
        memory = allocate(device, items, made.fuser, set(self._roots.values()))
        self._buffers = memory.buffers
        self._tables = {
            text.steps: self._place_table(table(text.steps, text.args, memory.places))
            for text in made.launches
            if text.steps
        }
        self.arena_bytes, self.constant_bytes = memory.arena_bytes, memory.constant_bytes
        self._raised = np.zeros(max(len(self._faults), 1), np.int32)
        self.kernels, self.launch_names = made.kernels, made.launch_names
        built: Mapping[str, Any] = {}
        ours = [t for t in made.launches if t.call is None]
        if ours:
            try:
                built = build(device, ours)
            except BuildError as e:
                if fuse:  # unfused, each kernel is one node's
                    raise
                raise self._blame(ours, made, e) from e
        self._launched = [(t, built[t.name] if t.call is None else t.call) for t in made.launches]
        self._bound: dict[int, Home] = {}  # by root, as are `_given`: these count more
        self._given: dict[int, Home] = {}
        self._lent: list[Any] = []
        self._uploads: list[tuple[int, Array]] = []
        self._downloads: list[tuple[int, Array]] = []
        self._status: Any = None
        if self._faults:
            self._status = self._place_status()
        self._recorded: OrderedDict[Hashable, Run] = OrderedDict()
        self._replay: Run | None = None

    def _place_table(self, words: Array) -> Any:
        buffer = self._device.allocate(words.nbytes)
        self._device.upload(buffer, words)
        self._device.synchronise()
        return buffer

    def _place_status(self) -> Any:
        wrapped = self._device.wrap(self._raised)
        self._status_copied = wrapped is None
        if wrapped is None:
            return self._device.allocate(self._raised.nbytes)
        self._lent.append(wrapped)
        return wrapped

    def _blame(self, todo: Sequence[Text], draft: Draft, error: BuildError) -> BuildError:
        """`error` with the nodes whose kernels do not build, and what the compiler says of each."""
        guilty = blame(self._device, todo, error)
        nodes = {
            self._nodes[i].index: str(guilty[text.name])
            for text, fused in zip(draft.texts, draft.fuser.kernels, strict=True)
            for i in fused.items
            if text.name in guilty
        }
        return BuildError(str(error), nodes)

    def _record(self) -> Run:
        """The launches on the buffers that count now; those of buffers seen before are kept."""
        homes = self._bound | self._given
        key = frozenset((root, home.address) for root, home in homes.items())
        found = self._recorded.pop(key, None)
        if found is None:
            buffers = {**self._buffers, **{root: home.buffer for root, home in homes.items()}}
            found = self._device.record([self._launch(t, k, buffers) for t, k in self._launched])
        self._recorded[key] = found
        if len(self._recorded) > _MOST_RECORDINGS:
            self._recorded.popitem(last=False)
        return found

    def _launch(self, text: Text, kernel: Any, buffers: Mapping[int, Any]) -> Launch:
        args = [self._tables[text.steps]] if text.steps else []
        args += [buffers[key] for key in text.args]
        if text.status:
            args.append(self._status)
        return Launch(kernel, tuple(args), text.grid, text.group)

    # -- where tensors are

    def bind(
        self,
        inputs: Mapping[int, Array],
        outputs: Mapping[int, Array],
        shared: Mapping[int, Home] | None = None,
    ) -> None:
        """From now on inputs and outputs are these arrays of the host, contiguous and of the
        tensors' shapes and types, and `shared` inputs those of other plans.

        Arrays that the device can use in place are; the others are copied.
        """
        homes = {self._roots[key]: home for key, home in (shared or {}).items()}
        uploads, downloads = [], []
        arrays: dict[int, Array] = {}
        for key, array in inputs.items():
            home = self._wrap(array)
            if home is not None:
                homes[self._roots[key]] = home
                arrays[self._roots[key]] = array
            elif array.size:
                uploads.append((key, array))
        for key, array in outputs.items():
            root = self._roots[key]
            if arrays.get(root) is array:  # a variable, changed in place
                continue
            # of two outputs that are one tensor, the second is copied
            home = self._wrap(array) if root not in homes else None
            if home is not None:
                homes[root] = home
            elif array.size:
                downloads.append((key, array))
        self._bound, self._uploads, self._downloads = homes, uploads, downloads
        self._lent = [home.buffer for home in homes.values() if home.lent]
        if self._status is not None and not self._status_copied:
            self._lent.append(self._status)
        self._replay = None

    def _wrap(self, array: Array) -> Home | None:
        buffer = self._device.wrap(array) if array.size else None
        if buffer is None:
            return None
        return Home((array.ctypes.data, array.nbytes), buffer, lent=True)

    def place(self, given: Mapping[int, tuple[Hashable, Any]]) -> None:
        """From the next `enqueue` on, these inputs and outputs live in buffers that the user has
        given, each with its address, and no others do."""
        homes = {self._roots[key]: Home(*buffer) for key, buffer in given.items()}
        if {r: h.address for r, h in homes.items()} != {
            r: h.address for r, h in self._given.items()
        }:
            self._given = homes
            self._replay = None

    def home(self, key: int) -> Home:
        """Where output `key` is, for other plans to read."""
        root = self._roots[key]
        buffer = self._buffers.get(root)
        return self._bound.get(root) or Home((id(self), root), buffer)

    # -- running

    def upload(self, key: int, array: Array) -> None:
        """Fills input `key`; `array` must stay until `synchronise`."""
        if array.size:
            self._device.upload(self._buffers[self._roots[key]], array)

    def download(self, key: int, array: Array) -> None:
        """Output `key` into `array`, which holds it after `synchronise`."""
        if array.size:
            root = self._roots[key]
            home = self._bound.get(root)
            self._device.download(self._buffers[root] if home is None else home.buffer, array)

    def enqueue(self) -> None:
        """All launches; faults of the values show in `synchronise`."""
        if self._replay is None:
            self._replay = self._record()
        if self._status is None:
            self._replay()
            return
        if self._status_copied:
            self._device.upload(self._status, self._raised)
        self._replay()
        if self._status_copied:
            self._device.download(self._status, self._raised)

    def synchronise(self) -> None:
        """Waits. OpError where a value is not to be had: an index out of range, a divisor 0."""
        self._device.synchronise()
        if self._status is not None and self._raised.any():
            text, item = self._faults[int(np.flatnonzero(self._raised)[0])]
            self._raised[:] = 0
            node = self._nodes[item]
            raise OpError(f"{text} (node {node.index}, {node.op})")

    def invoke(self) -> None:
        self.start()
        self.synchronise()

    def start(self) -> None:
        """Enqueues all of an invoke."""
        if self._lent:
            self._device.lend(self._lent)
        for key, array in self._copied(self._uploads):
            self.upload(key, array)
        self.enqueue()
        for key, array in self._copied(self._downloads):
            self.download(key, array)
        if self._lent:
            self._device.give_back(self._lent)

    def _copied(self, arrays: list[tuple[int, Array]]) -> list[tuple[int, Array]]:
        """Those whose tensors are not in the user's buffers."""
        if not self._given:
            return arrays
        return [(k, a) for k, a in arrays if self._roots[k] not in self._given]

    def invoke_timed(self) -> list[DeviceTime]:
        """As `invoke`: the times of all copies and kernels, none where the device has no clock."""
        trace = self._device.trace()
        if trace is None:
            self.invoke()
            return []
        with trace as open_trace:
            self.invoke()
        copied = self._status is not None and self._status_copied
        names = [
            *(("to the device", "copy") for _ in self._copied(self._uploads)),
            *[("to the device", "copy")] * copied,
            *((name, "kernel") for name in self.launch_names),
            *[("to the host", "copy")] * copied,
            *(("to the host", "copy") for _ in self._copied(self._downloads)),
        ]
        spans = open_trace.spans()
        return [
            DeviceTime(name, kind, span.start, span.end)
            for (name, kind), span in zip(names, spans, strict=True)
        ]

    def run(self, inputs: Mapping[int, Array], outputs: Mapping[int, Array]) -> None:
        """`bind` and `invoke`."""
        self.bind(inputs, outputs)
        self.invoke()
