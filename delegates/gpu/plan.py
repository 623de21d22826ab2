"""A partition on a device: memory planned, constants uploaded, kernels built, launches recorded."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ...kernels.api import OpError, Run, TensorSpec
from ...kernels.types import Array, DType
from ...runtime.delegate import BuildError
from ...runtime.memory import Block, plan
from .blame import blame, build
from .device import Device, Launch
from .fuse import Fuser, Item
from .render import Text, render

_MOST_RECORDINGS = 8


class Plan:
    """The nodes `items`, ready to run.

    `inputs` and `outputs` are the tensors that cross, by number. `run` takes and gives arrays of
    the host, contiguous and of the tensors' shapes and types.
    """

    def __init__(
        self,
        device: Device,
        items: Sequence[Item],
        inputs: Sequence[int],
        outputs: Sequence[int],
        fuse: bool = True,
    ) -> None:
        self._device = device
        self._nodes = [item.spec for item in items]
        fuser = Fuser(items, inputs, outputs, fuse)
        self._roots = {key: fuser.root(key) for key in (*inputs, *outputs)}
        self._faults: list[tuple[str, int]] = []
        texts: list[Text] = []
        for fused in fuser.kernels:
            slots = range(len(self._faults), len(self._faults) + len(fused.faults))
            self._faults += fused.faults
            texts.append(render(fused.first, fused.rest, device.capability, slots))
        specs = _specs(items, fuser)
        self._buffers = self._allocate(fuser, specs)
        self._status: Any = None
        self._raised = np.zeros(len(self._faults), np.int32)
        if self._faults:
            self._status = device.allocate(self._raised.nbytes)
        self.kernels = [
            "+".join(dict.fromkeys(items[i].spec.op for i in fused.items))
            for fused in fuser.kernels
        ]
        # what has no element needs no launch
        todo = [t for t, f in zip(texts, fuser.kernels, strict=True) if math.prod(f.output.shape)]
        built: Mapping[str, Any] = {}
        ours = [t for t in todo if t.call is None]
        if ours:
            try:
                built = build(device, todo)
            except BuildError as e:
                if fuse:  # unfused, each kernel is one node's
                    raise
                raise self._blame(ours, texts, fuser, e) from e
        self._launched = [(t, built[t.name] if t.call is None else t.call) for t in todo]
        self._given: dict[int, tuple[Hashable, Any]] = {}
        self._recorded: OrderedDict[Hashable, Run] = OrderedDict()
        self._replay = self._record()

    def _blame(
        self, todo: Sequence[Text], texts: Sequence[Text], fuser: Fuser, error: BuildError
    ) -> BuildError:
        """`error` with the nodes whose kernels do not build, and what the compiler says of each."""
        guilty = blame(self._device, todo, error)
        nodes = {
            self._nodes[i].index: str(guilty[text.name])
            for text, fused in zip(texts, fuser.kernels, strict=True)
            for i in fused.items
            if text.name in guilty
        }
        return BuildError(str(error), nodes)

    def _record(self) -> Run:
        """The launches on the buffers that count now; those of buffers seen before are kept."""
        key = frozenset((root, address) for root, (address, _) in self._given.items())
        found = self._recorded.pop(key, None)
        if found is None:
            buffers = self._buffers | {root: buffer for root, (_, buffer) in self._given.items()}
            found = self._device.record([self._launch(t, k, buffers) for t, k in self._launched])
        self._recorded[key] = found
        if len(self._recorded) > _MOST_RECORDINGS:
            self._recorded.popitem(last=False)
        return found

    def _launch(self, text: Text, kernel: Any, buffers: Mapping[int, Any]) -> Launch:
        args = [buffers[key] for key in text.args]
        if text.status:
            args.append(self._status)
        return Launch(kernel, tuple(args), text.grid, text.group)

    def _allocate(self, fuser: Fuser, specs: Mapping[int, tuple[int, DType]]) -> dict[int, Any]:
        """Buffers of tensors, parts of one arena, and of constants, parts of one block."""
        device, unit = self._device, max(self._device.alignment, 64)
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        end = len(fuser.kernels)
        for root in self._roots.values():
            if root not in fuser.constants:
                first[root], last[root] = -1, end
        for at, fused in enumerate(fuser.kernels):
            for key in (fused.output.key, *(o.key for o in fused.reads)):
                if key in fuser.constants:
                    continue
                first.setdefault(key, at)
                last[key] = max(last.get(key, at), at)
        blocks = {}
        for key in first:
            size, dtype = specs[key]
            nbytes = max(size * dtype.numpy.itemsize, 1)
            blocks[key] = Block(-(-nbytes // unit) * unit, first[key], last[key])
        self.arena_bytes = plan(list(blocks.values())) if blocks else 0
        buffers: dict[int, Any] = {}
        if blocks:
            arena = device.allocate(self.arena_bytes)
            for key, block in blocks.items():
                buffers[key] = device.view(arena, block.offset, block.size)
        buffers.update(self._upload(fuser.constants, unit))
        return buffers

    def _upload(self, constants: Mapping[int, Array], unit: int) -> dict[int, Any]:
        """All constants in one buffer, copied once."""
        offsets, top = {}, 0
        for key, array in constants.items():
            offsets[key] = top
            top += -(-max(array.nbytes, 1) // unit) * unit
        self.constant_bytes = top
        if not top:
            return {}
        packed = np.zeros(top, np.uint8)
        for key, array in constants.items():
            raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            packed[offsets[key] : offsets[key] + raw.size] = raw
        buffer = self._device.allocate(top)
        self._device.upload(buffer, packed)
        self._device.synchronise()
        return {
            key: self._device.view(buffer, offsets[key], max(array.nbytes, 1))
            for key, array in constants.items()
        }

    def place(self, given: Mapping[int, tuple[Hashable, Any]]) -> None:
        """From the next `enqueue` on, these inputs and outputs live in buffers that the user has
        given, each with its address, and no others do."""
        placed = {self._roots[key]: buffer for key, buffer in given.items()}
        if {r: a for r, (a, _) in placed.items()} != {r: a for r, (a, _) in self._given.items()}:
            self._given = placed
            self._replay = self._record()

    def upload(self, key: int, array: Array) -> None:
        """Fills input `key`; `array` must stay until `synchronise`."""
        if array.size:
            self._device.upload(self._buffers[self._roots[key]], array)

    def download(self, key: int, array: Array) -> None:
        """Output `key` into `array`, which holds it after `synchronise`."""
        if array.size:
            self._device.download(self._buffers[self._roots[key]], array)

    def enqueue(self) -> None:
        """All launches; faults of the values show in `synchronise`."""
        if self._status is not None:
            self._raised[:] = 0
            self._device.upload(self._status, self._raised)
        self._replay()
        if self._status is not None:
            self._device.download(self._status, self._raised)

    def synchronise(self) -> None:
        """Waits. OpError where a value is not to be had: an index out of range, a divisor 0."""
        self._device.synchronise()
        if self._raised.any():
            text, item = self._faults[int(np.flatnonzero(self._raised)[0])]
            node = self._nodes[item]
            raise OpError(f"{text} (node {node.index}, {node.op})")

    def run(self, inputs: Mapping[int, Array], outputs: Mapping[int, Array]) -> None:
        for key, array in inputs.items():
            self.upload(key, array)
        self.enqueue()
        for key, array in outputs.items():
            self.download(key, array)
        self.synchronise()


def _specs(items: Sequence[Item], fuser: Fuser) -> dict[int, tuple[int, DType]]:
    """Size and type of every tensor."""
    found: dict[int, tuple[int, DType]] = {}

    def note(key: int, spec: TensorSpec | None) -> None:
        if spec is not None:
            found.setdefault(key, (spec.size, spec.dtype))

    for item in items:
        for keys, tensors in ((item.inputs, item.spec.inputs), (item.outputs, item.spec.outputs)):
            for key, spec in zip(keys, tensors, strict=True):
                note(key, spec)
    for fused in fuser.kernels:
        for operand in (fused.output, *fused.reads):
            found.setdefault(operand.key, (math.prod(operand.shape), operand.dtype))
    return found
