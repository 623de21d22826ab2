"""What an interpreter does with delegates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .build import BuildError
from .delegate import Delegate, Unavailable
from .described import Described
from .device_arrays import take
from .errors import NodeError
from .find_delegates import check_delegate, find_delegates, make_delegate
from .graph import Graph
from .options import flag
from .rules import Pick, Rules, check_picks, listed_picks
from .self_check import Difference
from .settings import Settings
from .tensor import LiveTensor
from .unresolved import FLEX, printable

if TYPE_CHECKING:
    from .coverage import Coverage


def make_rules(
    only: Iterable[Pick] | None, exclude: Iterable[Pick], strict: bool, verify: bool | int
) -> Rules:
    if not isinstance(verify, int):
        raise TypeError(f"verify is a number of invokes, or True for one, not {verify!r}")
    if verify < 0:
        raise ValueError(f"verify is a number of invokes, not {verify}")
    return Rules(
        only=None if only is None else listed_picks("only", only),
        exclude=listed_picks("exclude", exclude),
        strict=flag("strict", strict),
        verify=int(verify),
    )


def give_delegates(graph: Graph, settings: Settings) -> list[Delegate]:
    """Hands the delegates over; those made here, from names, which are to be freed."""
    delegation = graph.delegation
    delegation.rules = settings.rules
    check_picks(graph, settings.rules)
    found = find_delegates(settings.delegates, settings.on_unavailable, _census(graph))
    delegation.missing = found.missing
    try:
        for delegate in found.delegates:
            delegation.add(delegate)
        if _flex(graph):
            found.owned += _add_flex(graph, settings.flex)
    except NodeError as e:
        raise BuildError(f"Failed to initialize kernel. {e}") from e
    except Unavailable as e:
        raise BuildError(str(e)) from e
    return found.owned


def _census(graph: Graph) -> str:
    """How many nodes of which operators there are: a few of them by name."""
    ops = Counter(n.op for s in graph.subgraphs for n in s.nodes).most_common()
    named = [f"{count} {printable(op)}" for op, count in ops[:5]] + ["…"] * (len(ops) > 5)
    return f"{sum(count for _, count in ops)} nodes ({', '.join(named)})"


def _flex(graph: Graph) -> list[str]:
    return [m.op for m in graph.unresolved if m.custom and m.op.startswith(FLEX)]


def _add_flex(graph: Graph, wanted: bool) -> list[Delegate]:
    """Adds the Flex delegate, last, or notes why it does not apply."""
    delegation = graph.delegation
    made: list[Delegate] = []
    if not any(d.name == "flex" for d in delegation.delegates):
        if not wanted:
            graph.no_flex = (
                "it is turned off, by flex=False or BUILTIN_WITHOUT_DEFAULT_DELEGATES; leave that "
                "out."
            )
            return []
        try:
            made.append(make_delegate("flex"))
            delegation.add(made[0])
        except (ValueError, Unavailable) as e:
            graph.no_flex = str(e.__cause__) if isinstance(e.__cause__, Unavailable) else str(e)
            return []
    unknown = _flex(graph)
    if unknown:
        graph.no_flex = (
            f"the TensorFlow that is installed does not have {', '.join(unknown)}; import the "
            "package that adds them (such as tensorflow_text) first."
        )
    return made


class Delegated(Described):
    """The part of `Interpreter` that deals with delegates."""

    _owned: list[Delegate]

    @property
    def delegates(self) -> tuple[Delegate, ...]:
        """Those in use, in order."""
        return tuple(self._graph.delegation.delegates)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What `verify` found: results of delegates that were not numpy's, in the order found."""
        return tuple(self._graph.delegation.differences)

    @property
    def unchecked(self) -> dict[tuple[int, int], str]:
        """Nodes that `verify` cannot compare: (subgraph, node) -> operator."""
        return dict(self._graph.delegation.unchecked)

    def modify_graph_with_delegate(self, delegate: str | Delegate) -> None:
        """Adds a delegate after those that are there: it gets what they left.

        Allocated subgraphs are planned anew; inputs and variables keep their values. ValueError
        for a name that cannot be had; DelegateError only with `strict`.
        """
        check_delegate(delegate)
        with self._guard.step("modify_graph_with_delegate"):
            self._views.ensure_none("modify_graph_with_delegate")
            nodes = _census(self._graph)
            found = find_delegates([delegate], self._settings.on_unavailable, nodes)
            delegation = self._graph.delegation
            delegation.missing.update(found.missing)
            self._owned += found.owned
            try:
                for added in found.delegates:
                    delegation.add(added)
                delegation.settle()
            except Exception:
                for added in found.delegates:
                    delegation.remove(added)
                delegation.settle()
                raise

    def set_buffer_handle(self, tensor_index: int, handle: Any, delegate: Delegate) -> None:
        """Puts an input or output of the main subgraph into a buffer of a delegate in use: a CuPy
        array for "cuda", a PyOpenCL array or buffer for "opencl".

        From then on the delegate reads or writes it there, and the host copies it when asked to.
        A handle of None takes it back; after a resize another one is due. ValueError where the
        buffer does not fit.
        """
        with self._guard.step("set_buffer_handle"):
            tensor, main = self._tensor(tensor_index), self._graph.subgraphs[0]
            if tensor.index not in (*main.input_indices, *main.output_indices):
                raise ValueError(f"tensor {tensor.index} {tensor.name!r} is no input or output")
            if delegate not in self._graph.delegation.delegates:
                raise ValueError(f"{delegate!r} is none of this interpreter's delegates")
            if not delegate.has_buffer_handles:
                raise ValueError(f"{delegate.name} has no buffer handles")
            handles = self._graph.delegation.handles
            if handle is None:
                handles.drop(tensor)
                return
            given = tensor.index in main.input_indices
            if main.stale and not given:
                raise ValueError(
                    f"the shape of {tensor.name!r} is not known after a resize: call "
                    "allocate_tensors() first"
                )
            handles.put(tensor, take(delegate, handle, tensor), delegate, given)

    def delegate_coverage(self) -> Coverage:
        """Where each node runs, and what each delegate said of it.

        Allocates what is not: the main subgraph, and those of signatures.
        """
        from .coverage import coverage

        with self._guard.step("delegate_coverage"):
            graph = self._graph
            for index in sorted({0, *(s.subgraph for s in graph.model.signatures)}):
                if not graph.subgraphs[index].allocated:
                    self._views.ensure_none("delegate_coverage")
                    graph.subgraphs[index].allocate()
            return coverage(graph)

    def _fetch(self, tensor: LiveTensor, subgraph_index: int = 0) -> None:
        """Before the user reads."""
        if subgraph_index == 0:
            self._graph.delegation.handles.fetch(tensor)

    def _store(self, tensor: LiveTensor, subgraph_index: int = 0) -> None:
        """After the user wrote."""
        if subgraph_index == 0:
            self._graph.delegation.handles.store(tensor)
