"""What an external delegate does with one subgraph: it looks at a picture of it, asks for nodes,
and its kernels run on the same picture.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Sequence
from ctypes import addressof
from typing import TYPE_CHECKING, Any

from ..kernels._memory import aligned
from ..kernels.api import OpError
from ..kernels.types import Array
from .capi import calls
from .capi.nodes import (
    Functions,
    NodePicture,
    indices,
    picture_of_node,
    registration_of_node,
)
from .capi.numbers import DYNAMIC_KIND, KINDS
from .capi.picture import Picture, address
from .capi.run import collect_all, point_all, settles
from .capi.structs import INIT_FAILED, DelegateParams, OpaqueDelegateParams
from .delegate import DelegateContext, Kernel, Partition
from .tensor import LiveTensor

if TYPE_CHECKING:
    from .delegate_context import PlanningContext
    from .external import ExternalDelegate


class Planner:
    """The calls of TensorFlow Lite that only a delegate's Prepare may make."""

    def __init__(
        self, delegate: ExternalDelegate, context: PlanningContext, picture: Picture
    ) -> None:
        self._delegate = delegate
        self._context = context
        self._picture = picture
        self._plan: Any = None
        self._nodes: dict[int, tuple[NodePicture, Any]] = {}
        self._previews: list[Any] = []
        self.looked_at: dict[int, Picture] = {}  # other subgraphs
        self._acquired: Counter[int] = Counter()

    def execution_plan(self) -> int:
        """What may be asked for, in order. Good until the next call."""
        self._plan = _ints(self._context.candidates())
        return addressof(self._plan)

    def node(self, index: int) -> tuple[int, int]:
        if index not in self._nodes:
            if index < 0:
                raise OpError(f"there is no node {index}")
            try:
                node, registration = self._context.get_node_and_registration(index)
            except IndexError as e:
                raise OpError(f"there is no node {index}") from e
            self._nodes[index] = (
                picture_of_node(node, registration),
                registration_of_node(self._picture, node, registration),
            )
        node_picture, struct = self._nodes[index]
        return node_picture.address, addressof(struct)

    def preview(self, nodes: Sequence[int]) -> tuple[int | None, int]:
        """An array of TfLiteDelegateParams, good until the next call, and its length."""
        partitions = self._context.preview_delegate_partitioning(nodes)
        params = (DelegateParams * max(len(partitions), 1))()
        self._previews = [params]
        for made, p in zip(params, partitions, strict=False):
            self._previews += _describe(made, p)
        return addressof(params), len(partitions)

    def acquire(self, index: int) -> int:
        """The address of another subgraph's context, to be looked at until Prepare returns."""
        if index == self._context.subgraph_index:
            return self._picture.address
        if index not in self.looked_at:
            seen = self._context.look(index)
            picture = picture_of(seen)
            picture.planner = Looker(self._delegate, seen, picture)
            self.looked_at[index] = picture
        self._acquired[index] += 1
        return self.looked_at[index].address

    def release(self, index: int) -> None:
        if index == self._context.subgraph_index:
            return
        if not self._acquired[index]:
            raise OpError(f"subgraph {index} is released and was not acquired")
        self._acquired[index] -= 1

    def replace(self, registration: Any, nodes: Sequence[int], delegate: int | None) -> None:
        functions = Functions(registration)
        if functions.invoke is None:
            raise OpError("the registration of the delegate's kernel has no invoke")
        if not nodes:
            return

        def build(partition: Partition) -> Kernel:
            return ExternalKernel(
                self._delegate, self._context, self._picture, functions, partition
            )

        try:
            self._context.replace_node_subsets_with_delegate_kernels(nodes, build)
        except Exception as e:
            for i in nodes:
                if i in self._context.candidates():
                    self._context.refuse(i, "BUILD_FAILED", str(e))
            raise


class Looker(Planner):
    """The same for a subgraph that Prepare has acquired beside its own: it may be looked at."""

    def execution_plan(self) -> int:
        self._plan = _ints(self._context.get_execution_plan())
        return addressof(self._plan)

    def replace(self, registration: Any, nodes: Sequence[int], delegate: int | None) -> None:
        raise OpError(
            f"nodes of subgraph {self._context.subgraph_index}, which was acquired, are asked for; "
            "it can be looked at, and a delegate is asked for each subgraph on its own"
        )


def picture_of(context: PlanningContext) -> Picture:
    """The structs of a subgraph that a delegate is to see."""
    tensors = [context.tensor(i) for i in range(context.num_tensors)]
    picture = Picture(
        [t for t in tensors if isinstance(t, LiveTensor)], context.threads, context.metadata
    )
    calls.fill(picture)
    return picture


class ExternalKernel(Kernel):
    """One partition, run by functions of a library."""

    def __init__(
        self,
        delegate: ExternalDelegate,
        context: DelegateContext,
        picture: Picture,
        functions: Functions,
        partition: Partition,
    ) -> None:
        self.launches = (functions.name or delegate.name,)
        self._delegate = delegate  # not to be destroyed before its kernels
        self._context = context
        self._picture = picture
        self._functions = functions
        self._partition = partition
        self._user_data: int | None = None
        self._memory: dict[int, Array] = {}  # of temporaries
        self._shapes: list[Any] = []  # of the inputs, when it was prepared
        self._inputs = _live(partition.inputs)
        self._outputs = _live(partition.outputs)
        self._params: Any = (
            OpaqueDelegateParams(delegate.pointer, delegate.data)
            if delegate.opaque
            else DelegateParams(delegate.pointer)
        )
        self._arrays = _describe(self._params, partition)
        reads = indices([*partition.inputs, *partition.constants])
        self._node = NodePicture(reads, indices(partition.outputs), delegate=delegate.pointer)
        self._node.struct.builtin_data = addressof(self._params)
        self._start()

    def _start(self) -> None:
        init = self._functions.init
        if init is not None:
            self._picture.begin(None)
            self._user_data = init(self._picture.address, addressof(self._params), 0)
            failed = self._user_data == INIT_FAILED
            if failed:
                self._user_data = None
            self._finish("init", failed)
            self._node.struct.user_data = self._user_data
        try:
            self._prepare()
        except Exception:
            self.free()
            raise

    def _prepare(self) -> None:
        self._shapes = [t.shape for t in self._inputs]
        prepare = self._functions.prepare
        if prepare is None:
            return
        for t in self._inputs:
            self._picture.show(t.index)
        for t in self._outputs:
            self._picture.shut(t.index)
        self._picture.begin(self)
        self._finish("prepare", prepare(self._picture.address, self._node.address))
        for i in self._node.temporaries:
            s = self._picture.struct(i)
            if self._picture.live[i] is not None or s.allocation_type == DYNAMIC_KIND:
                continue
            held = self._memory.get(i)
            if s.allocation_type in KINDS and (held is None or held.nbytes != s.bytes):
                self._memory[i] = held = aligned(s.bytes)
                held[:] = 0
                s.data = address(held)

    def resize(self, tensor: Any, shape: tuple[int, ...]) -> None:
        """`capi.picture.Host`: the shapes of what is not dynamic are settled."""
        if tensor.is_dynamic:
            self._context.resize(tensor, shape)
        elif tensor.shape != shape:
            raise OpError(
                f"tensor {tensor.name!r} has the shape {list(tensor.shape)} and cannot become "
                f"{list(shape)}: only dynamic tensors are resized"
            )

    def attach(self) -> None:
        for t in (*self._inputs, *self._outputs):
            if not settles(t):
                self._picture.point(t.index)

    def invoke(self) -> None:
        picture = self._picture
        if any(t.is_dynamic for t in self._inputs) and self._shapes != [
            t.shape for t in self._inputs
        ]:
            self._prepare()
        point_all(picture, self._inputs, self._outputs)
        handles = dict(self._partition.handles)
        self._mark(handles)
        picture.begin(self, running=True)
        self._finish("invoke", self._functions.invoke(picture.address, self._node.address))
        collect_all(picture, self._outputs, self)
        if handles:
            self._settle(handles)

    def _mark(self, handles: dict[int, Any]) -> None:
        """Tells the kernel which inputs and outputs are in buffers of its delegate's."""
        for t in (*self._inputs, *self._outputs):
            s = self._picture.struct(t.index)
            handle = handles.get(t.index)
            s.buffer_handle = -1 if handle is None else handle
            s.delegate = None if handle is None else self._delegate.pointer
            s.data_is_stale = False

    def _settle(self, handles: dict[int, Any]) -> None:
        """An output that the kernel wrote to the host has to be in its buffer too."""
        for t in self._outputs:
            if t.index in handles and not self._picture.struct(t.index).data_is_stale:
                self._delegate.copy_to_buffer_handle(handles[t.index], t)

    def free(self) -> None:
        data, self._user_data = self._user_data, None
        self._node.struct.user_data = None
        free = self._functions.free
        if free is not None and data:
            self._picture.begin(None)
            free(self._picture.address, data)
            self._finish("free", 0)

    def _finish(self, step: str, failed: int | bool) -> None:
        """Not as OpError: that would say that the values are at fault, and numpy's too."""
        try:
            text = self._picture.finish(self._delegate.name, step, bool(failed))
        except OpError as e:
            raise RuntimeError(str(e)) from e
        if text:
            self._context.report(f"{self._delegate.name}: {text}")


def _live(tensors: Sequence[Any]) -> list[LiveTensor]:
    return [t for t in tensors if isinstance(t, LiveTensor)]


def _describe(params: Any, partition: Partition) -> list[Any]:
    """Fills TfLiteDelegateParams; what it points to."""
    reads = [*partition.inputs, *partition.constants]
    arrays = [
        _ints(partition.indices),
        _ints(indices(reads)),
        _ints(indices(partition.outputs)),
    ]
    params.nodes_to_replace, params.input_tensors, params.output_tensors = map(addressof, arrays)
    return arrays


def _ints(values: Sequence[int]) -> Any:
    """A TfLiteIntArray in memory of Python's, for C to read."""
    return (ctypes.c_int * (len(values) + 1))(len(values), *values)
