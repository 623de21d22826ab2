"""What a delegate is: the interface that delegates are written against.

A delegate is asked once for every subgraph of every interpreter it is given to, when the shapes are
known and constant nodes are computed, and again after a resize to shapes not seen before:
`Delegate.prepare(context)` looks at the execution plan and asks for nodes to be replaced by its own
kernels. It never changes nodes: the plan is what changes, and undo restores it. Whatever fails, the
plan is put back as it was before the delegate, the reason is recorded, and the model runs.

Most delegates derive from `SimpleDelegate` (`simple_delegate.py`), which only asks for `lower`,
node by node, and `build`, partition by partition.

In the order of calls, for one subgraph:

1. `prepare(context)`: shapes of all tensors are final, constants are in `tensor.spec.const`.
   Nothing else has memory yet.
2. `build` (through `context.replace_node_subsets_with_delegate_kernels`) makes a `Kernel` for each
   `Partition`. What can fail should fail here: compile, pack and upload weights.
3. `Kernel.attach()`: `tensor.array` of the partition's inputs and outputs are set now; the shapes
   are as before. Called again whenever memory was planned anew: arrays may be others then. Failing
   here counts as a failed build.
4. `Kernel.invoke()`: once in every invoke, in the order of the plan, as is `attach`.
5. `Kernel.free()`: once, when its plan is given up (another delegate was added, a partition failed,
   too many shapes were seen, the interpreter is closed).

A kernel may keep its outputs on the device: it has to write `tensor.array` only for
`partition.host_outputs`, and to read it only for `partition.host_inputs`. The tensors between two
partitions of one delegate pass through `partition.shared`, a mapping that the partitions of one
delegate in one plan have in common (tensor number -> buffer, or whatever the delegate likes).

Threads: all calls for one interpreter come one at a time. One delegate object may serve several
interpreters: what belongs to one of them belongs in its kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ..kernels.api import Node, Registration, Shape, Tensor, TensorSpec
from .pending import Pending

if TYPE_CHECKING:
    from .cost import CostProfile, PartitionCost

CODES = (
    "OP",  # the delegate does not know the operator
    "VERSION",
    "DTYPE",
    "QUANT",
    "SHAPE",
    "OPTION",  # an attribute of the node
    "DYNAMIC",  # a shape is known only while the model runs
    "NOT_CONSTANT",  # an input that must be a constant is not
    "DEVICE",  # this device cannot, or failed while it ran
    "POLICY",  # too small, over a limit, not worth the transfer, or the user said no
    "BUILD_FAILED",
    "UNAVAILABLE",  # the delegate could not be made
)


@dataclass(frozen=True)
class Refusal:
    """Why a delegate does not run a node: one of `CODES`, and a sentence with what was got."""

    node: int  # its number in the subgraph
    op: str
    code: str
    text: str
    delegate: str
    subgraph: int = 0

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"{self.code!r} is no code of a refusal; there are {', '.join(CODES)}")


class DelegateError(RuntimeError):
    """A delegate failed, or left nodes to numpy, and the user asked for `strict`."""


class Unavailable(RuntimeError):
    """For a delegate's constructor: there is no such device here.

    The text says what was looked for, where, and what to install or to set.
    """


class BuildError(RuntimeError):
    """For `build`: this partition cannot be built.

    `nodes` are to blame, each, in a mapping, with a text of its own; by default all of it.
    """

    def __init__(self, text: str, nodes: Sequence[int] | Mapping[int, str] = ()) -> None:
        super().__init__(text)
        self.nodes = dict(nodes) if isinstance(nodes, Mapping) else dict.fromkeys(nodes, text)


@dataclass(eq=False)
class Partition:
    """Nodes that become one node of the execution plan.

    The same nodes in the same call of `prepare` are the same object, previews included.

    `inputs`: what the nodes read and do not make, constants left out. `outputs`: what they make
    that anybody else reads, the user included. All other tensors that they make are the
    partition's own and never get memory on the host.
    """

    delegate: str
    subgraph: int
    nodes: Sequence[Node]  # in an order that runs
    registrations: Sequence[Registration]  # of the nodes
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    constants: Sequence[Tensor]  # their values are in `spec.const`
    variables: Sequence[Tensor]  # kept between invokes, read and written in place; also in `inputs`
    claims: Mapping[int, Any] = field(default_factory=dict)  # what `lower` gave, by node number
    shared: MutableMapping[Any, Any] = field(default_factory=dict)
    # numbers of the inputs that are made, and of the outputs that are read, outside of this
    # delegate: what has to cross. Previews settle them too; final once prepare has returned.
    host_inputs: frozenset[int] = frozenset()
    host_outputs: frozenset[int] = frozenset()
    # tensors that the user has put into buffers of the delegate, by number; it changes between
    # invokes. Such an input is to be read from there, such an output to be written there, and
    # neither on the host.
    handles: Mapping[int, Any] = field(default_factory=dict)
    # what it was chosen by, where the delegate knows; what it keeps of that until it builds
    cost: PartitionCost | None = None
    sketch: Any = None

    @property
    def indices(self) -> tuple[int, ...]:
        return tuple(node.index for node in self.nodes)


@dataclass(frozen=True)
class DeviceTime:
    """A kernel or a copy on a device; `start` and `end` in ns of the device's clock."""

    name: str
    kind: str  # "kernel" or "copy"
    start: int
    end: int


class Kernel:
    """A partition made ready to run."""

    launches: Sequence[str] = ()  # what the device runs, after fusion: for the coverage report

    def attach(self) -> None:
        """Memory is planned: see the module's text. Nothing, by default."""

    def invoke(self) -> None:
        """Computes the outputs.

        An `OpError` says that the *values* are not to be had (an index out of range): the user
        gets it, as from numpy. Any other exception is a fault of the delegate: the delegate is
        taken off, state is put back, and the whole invoke is run again without it.
        """
        raise NotImplementedError

    def invoke_async(self) -> Pending | None:
        """Starts what `invoke` does and comes back; its errors may come here or from `wait`.

        Called for a plan that is nothing but this kernel, when the user asked for an asynchronous
        invoke. Until `wait` has returned nobody touches inputs and outputs. None, by default: it
        cannot, and is invoked on another thread instead.
        """
        return None

    def invoke_timed(self) -> Sequence[DeviceTime]:
        """As `invoke`, while a profile is taken: what the device did, if it has a clock."""
        self.invoke()
        return ()

    def free(self) -> None:
        """Lets go of what the kernel holds. Nothing, by default."""


@dataclass(frozen=True, eq=False)
class Called:
    """The subgraph that a node calls, prepared for the shapes that it was last called with.

    `nodes` in an order that runs, those that were folded left out.
    """

    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    nodes: Sequence[tuple[Node, Registration]]


BuildKernel = Callable[[Partition], Kernel]


class DelegateContext(Protocol):
    """One subgraph, as `Delegate.prepare` sees it. Names are TensorFlow Lite's.

    Node numbers are those of the model file; greater ones stand for partitions of delegates that
    came before.
    """

    @property
    def subgraph_index(self) -> int: ...

    def get_execution_plan(self) -> Sequence[int]:
        """Node numbers in the order in which they run, nodes that were folded left out."""
        ...

    def get_node_and_registration(self, index: int) -> tuple[Node, Registration]:
        """`node.spec` has shapes, types, constants and options."""
        ...

    def candidates(self) -> Sequence[int]:
        """The part of the execution plan that this delegate may ask for.

        Left out, each with its refusal on record: nodes of other delegates, nodes that `only` and
        `exclude` keep off, nodes that failed here before, and nodes with dynamic tensors (unless
        the delegate allows them).
        """
        ...

    def tensor(self, index: int) -> Tensor: ...

    def variable(self, node: Node) -> Any:
        """What the handle at input 0 stands for (`kernels.variables.Variable`); None where no
        VAR_HANDLE of this subgraph makes it.
        """
        ...

    def called(self, node: Node) -> Called | None:
        """What a CALL or STABLEHLO_COMPOSITE runs, whatever is in the node's place; else None."""
        ...

    @property
    def num_tensors(self) -> int: ...

    def preview_delegate_partitioning(self, nodes: Sequence[int]) -> Sequence[Partition]:
        """The partitions that replacing these nodes would give. Nothing changes.

        ValueError for numbers that are no candidates.
        """
        ...

    def replace_node_subsets_with_delegate_kernels(
        self, nodes: Sequence[int], build: BuildKernel
    ) -> Sequence[Partition]:
        """Puts `build(partition)` in place of each partition of these nodes. To be called once.

        The partitions are the objects that the preview of the same nodes gave. All kernels are
        made before the plan changes; where a build raises, those that were made are freed, the
        plan is as before, and the exception goes on.
        """
        ...

    def add_tensors(self, specs: Sequence[TensorSpec]) -> Sequence[int]:
        """New tensors for the delegate's own use; their numbers. Undo removes them.

        They get memory on the host with all others.
        """
        ...

    def resize(self, tensor: Tensor, shape: Shape) -> None:
        """In `Kernel.invoke`, for a dynamic output."""
        ...

    def refuse(self, index: int, code: str, text: str) -> None:
        """Records why the delegate leaves node `index` to others."""
        ...

    def wants_plain(self, nodes: Sequence[int]) -> bool:
        """Whether a kernel of some of these was right node by node and wrong as a whole: it is to
        be built unfused, where that can be done.
        """
        ...

    def report(self, text: str) -> None:
        """To the user: a warning."""
        ...


class Delegate:
    """The base of all delegates.

    `name` stands in reports. Shapes are always propagated before `prepare` (TensorFlow Lite has a
    flag for that), and the delegate is asked anew for new shapes. `profile`: how fast the device
    is, where that is known: the report's costs, and what `SimpleDelegate` decides by. `uses_blas`:
    whether its kernels call numpy's BLAS, which is to keep to one thread then. `tolerance`: what
    its storage of floats may be off by, of a tensor's largest value (halves), for `verify`.
    """

    name: str = "delegate"
    allows_dynamic_tensors: bool = False
    profile: CostProfile | None = None
    uses_blas: bool = True
    tolerance: float = 0.0

    def prepare(self, context: DelegateContext) -> None:
        """Looks at the plan and replaces nodes. Whatever it raises, the plan is restored."""
        raise NotImplementedError

    def describe(self) -> Mapping[str, str]:
        """For the report: the device, what was built and what was found built."""
        return {}

    def find_op(self, op: str, version: int) -> Registration | None:
        """For a custom op that no resolver knows and this delegate runs: its `prepare`, which gives
        its outputs their shapes, and an `invoke` for nodes that end up in no partition.
        """
        return None

    @property
    def has_buffer_handles(self) -> bool:
        """Whether users can hand buffers in: it has `copy_from_buffer_handle`."""
        return type(self).copy_from_buffer_handle is not Delegate.copy_from_buffer_handle

    def copy_from_buffer_handle(self, handle: Any, tensor: Tensor) -> None:
        """From the buffer into `tensor.array`. For delegates that let users hand buffers in."""
        raise NotImplementedError(f"{self.name} has no buffer handles")

    def copy_to_buffer_handle(self, handle: Any, tensor: Tensor) -> None:
        """From `tensor.array` into the buffer."""
        raise NotImplementedError(f"{self.name} has no buffer handles")

    def is_buffer(self, value: Any) -> bool:
        """Whether `value` is an array or buffer of a device that `take_array` knows, and that has
        neither DLPack nor `__cuda_array_interface__` to tell so (PyOpenCL's)."""
        return False

    def take_array(self, value: Any, tensor: Tensor) -> Any | None:
        """A handle for another library's array on a device, an input or output, without a copy.

        None where the delegate does not reach that device; ValueError where the array does not fit.
        Without this method, whatever the user hands in is a handle.
        """
        return None

    @property
    def takes_arrays(self) -> bool:
        """Whether it has `take_array`."""
        return type(self).take_array is not Delegate.take_array

    def new_buffer(self, tensor: Tensor) -> Any | None:
        """A handle of a new buffer for an output. None, by default: there are none."""
        return None

    def array_of(self, handle: Any) -> Any:
        """What `run(on_device=True)` gives for an output that `new_buffer` made."""
        raise NotImplementedError(f"{self.name} has no buffer handles")

    def free_buffer_handle(self, handle: Any) -> None:
        """The interpreter lets go of the handle. The buffer is the user's: nothing, by default."""

    def free(self) -> None:
        """Called by an interpreter that made the delegate from its name, when it is closed."""

    def __repr__(self) -> str:
        return f"<delegate {self.name}>"
