"""The delegates of one interpreter: plans made and kept, failures dealt with."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from ..kernels.api import OpError
from .delegate import Delegate, DelegateError, Refusal
from .delegate_context import PlanningContext
from .handles import Handles
from .labels import Labels
from .node import LiveNode
from .pending import Pending
from .plan import Placed, Plan, check_whole, count_left, cpu_plan, plan_key
from .rules import Rules
from .self_check import Difference, SelfCheckError
from .started import Started
from .state import State

if TYPE_CHECKING:
    from .graph import Graph
    from .subgraph import LiveSubgraph

MOST_PLANS = 8  # kept for each subgraph, by shapes
RESHAPED = "the subgraph got new shapes while the model ran"


class Delegation:
    """Puts delegates to work on the subgraphs of a graph. Used by `LiveSubgraph`."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.delegates: list[Delegate] = []
        self.missing: dict[str, str] = {}  # asked for by name, and why they could not be made
        self.rules = Rules()
        self.plans: dict[int, Plan] = {}  # in use, by subgraph
        self.handles = Handles()
        self.faults: dict[str, str] = {}  # delegates taken off because they failed while running
        self._labels = Labels()
        self._kept: dict[int, OrderedDict[Hashable, Plan]] = {}
        # nodes that a delegate, by its label, must not have again: the refusal's code and text
        self._barred: dict[tuple[int, int, str], tuple[str, str]] = {}
        self.differences: list[Difference] = []  # found by the self-check, in order
        # nodes, as in `_barred`, that are to be built unfused
        self.plain: set[tuple[int, int, str]] = set()
        # operators of nodes that it cannot compare, by subgraph and number
        self.unchecked: dict[tuple[int, int], str] = {}
        # with `verify` a plan is made and run with all tensors in sight first: whether it is now,
        # which plans are of that kind, and which were right so
        self.open = False
        self._opened: set[tuple[int, Hashable]] = set()
        self._right: set[tuple[int, Hashable]] = set()
        self._suspect: SelfCheckError | None = None  # a plan that was right so, and is not now
        self._fault: tuple[Delegate, Exception] | None = None
        self._recovering = False
        self._started: Started | None = None  # the last asynchronous invoke
        # room to save it in, by the subgraph that is invoked, while memory stays as it is
        self._states: dict[int, State] = {}

    @property
    def asked(self) -> bool:
        return bool(self.delegates or self.missing)

    def add(self, delegate: Delegate) -> None:
        """Plans that were made are given up."""
        if self._graph.unresolved:
            self._graph.fill(delegate.find_op)
        self._labels.add(delegate, self.missing)
        self.delegates.append(delegate)
        self._forget()

    def label(self, delegate: Delegate) -> str:
        """What reports call one of `delegates`."""
        return self._labels.of(delegate)

    def remove(self, delegate: Delegate) -> None:
        self.delegates.remove(delegate)
        if delegate not in self.delegates:  # which can hold it twice
            self._labels.drop(delegate, again=True)
        self._forget()

    def close(self) -> None:
        if self._started is not None:
            self._started.abandon(self._graph.report)
        self._forget()
        self.handles.close(self._graph.report)
        self.delegates = []

    def _forget(self) -> None:
        plans = {id(p): p for kept in self._kept.values() for p in kept.values()}
        for plan in plans.values():
            plan.free(self._graph.report)
        for subgraph in self._graph.subgraphs:
            if subgraph.index in self.plans:
                subgraph.use_plan(None)
        self.plans, self._kept = {}, {}
        self._opened.clear()

    # -- planning

    def apply(self, subgraph: LiveSubgraph) -> None:
        """Gives a subgraph whose nodes are prepared the plan for its shapes."""
        self._states.clear()
        if not self.delegates:
            if self.rules.strict and self.missing:
                self._refuse_all(subgraph)
            return
        kept = self._kept.setdefault(subgraph.index, OrderedDict())
        key = plan_key(subgraph)
        plan = kept.get(key)
        if plan is None and self._graph.calm and not self._recovering:
            # building takes time, and a loop can have other shapes at each turn
            plan = cpu_plan(subgraph, [self.label(d) for d in self.delegates], RESHAPED)
            subgraph.use_plan(plan)
            self.plans[subgraph.index] = plan
            return
        if plan is None:
            subgraph.use_plan(None)
            self.open = bool(self.rules.verify) and (subgraph.index, key) not in self._right
            if self.open:
                self._opened.add((subgraph.index, key))
            plan = kept[key] = self._make(subgraph)
        kept.move_to_end(key)
        subgraph.use_plan(plan)
        self.plans[subgraph.index] = plan
        while len(kept) > MOST_PLANS:
            kept.popitem(last=False)[1].free(self._graph.report)

    def _refuse_all(self, subgraph: LiveSubgraph) -> None:
        """`strict` where none of the delegates that were asked for is to be had."""
        left = [n for n in subgraph.nodes if not n.folded and not self.rules.bar(n, subgraph.index)]
        if left:
            why = "\n".join(f"{name}: UNAVAILABLE: {text}" for name, text in self.missing.items())
            raise DelegateError(f"strict: {count_left(len(left), subgraph)}\n{why}")

    def _make(self, subgraph: LiveSubgraph) -> Plan:
        plan = Plan(list(range(len(subgraph.nodes))), len(subgraph.nodes))
        try:
            for delegate in self.delegates:
                self._prepare(subgraph, delegate, plan)
            self._explain_rest(subgraph, plan)
            if self.rules.strict:
                check_whole(subgraph, plan)
        except Exception:
            plan.free(self._graph.report)
            raise
        return plan

    def _prepare(self, subgraph: LiveSubgraph, delegate: Delegate, plan: Plan) -> None:
        name = self.label(delegate)

        def bar(node: LiveNode) -> tuple[str, str] | None:
            text = self.rules.bar(node, subgraph.index)
            if text is not None:
                return "POLICY", text
            return self._barred.get((subgraph.index, node.index, name))

        handles = {} if subgraph.index else self.handles.of(delegate)
        context = PlanningContext(subgraph, delegate, plan, bar, self._failed, handles)
        try:
            context.candidates()  # so that what it must not have is on record
            delegate.prepare(context)
        except Exception as e:
            context.undo()
            text = f"prepare raised {type(e).__name__}: {e}"
            if self.rules.strict:
                raise DelegateError(f"the delegate {name}: {text}") from e
            plan.failures[name] = text
            self._graph.report(
                f"the delegate {name} is not used for subgraph {subgraph.index}: {text}"
            )

    def _explain_rest(self, subgraph: LiveSubgraph, plan: Plan) -> None:
        """No node is left on the host without a word from each delegate."""
        delegated = plan.delegated
        for node in subgraph.nodes:
            if node.index in delegated or node.folded:
                continue
            for name in map(self.label, self.delegates):
                if (node.index, name) in plan.refusals:
                    continue
                failure = plan.failures.get(name)
                code = "POLICY" if failure is None else "BUILD_FAILED"
                text = failure or f"{name} did not ask for it and gave no reason"
                plan.refuse(Refusal(node.index, node.op, code, text, name, subgraph.index))

    def partitions(self, subgraph: LiveSubgraph) -> Sequence[Placed]:
        """Those of the plan in use, in order."""
        plan = self.plans.get(subgraph.index)
        return plan.placed if plan is not None else ()

    def attach(self, subgraph: LiveSubgraph) -> bool:
        """Memory is planned. False where a kernel cannot use it: the plan is another one now."""
        for placed in self.partitions(subgraph):
            try:
                placed.kernel.attach()
            except Exception as e:
                self._give_up(subgraph, placed, e)
                return False
        return True

    def _give_up(self, subgraph: LiveSubgraph, placed: Placed, error: Exception) -> None:
        name, text = placed.partition.delegate, f"attach raised {type(error).__name__}: {error}"
        if self.rules.strict:
            raise DelegateError(f"the delegate {name}: {text}") from error
        for i in placed.partition.indices:
            self._barred[subgraph.index, i, name] = "BUILD_FAILED", text
        for plan in self._kept.pop(subgraph.index).values():
            plan.free(self._graph.report)
        self.apply(subgraph)

    # -- running

    def _tell(self, text: str) -> None:
        """The user, and a profile that is being taken."""
        profiler = self._graph.profiler
        if profiler is not None:
            profiler.note(time.perf_counter_ns(), text)
        self._graph.report(text)

    def _failed(self, delegate: Delegate, error: Exception) -> None:
        self._fault = delegate, error

    def run(self, subgraph: LiveSubgraph) -> None:
        """Invokes; after a fault of a delegate once more, without it and from the same state.

        What the self-check finds is a fault of nodes: the delegate keeps the others.
        """
        while any(plan.placed for plan in self.plans.values()):
            state = self._save(subgraph)
            self._fault = None
            try:
                self._run(subgraph)
                if not self._opened:
                    return
                self._close()
            except Exception:
                fault = self._fault
                if fault is None:
                    raise
                if self.rules.strict:
                    raise
                if isinstance(fault[1], SelfCheckError):
                    self._differs(fault[1])
                else:
                    self._take_off(*fault)
            self._restore(state)
        self._run(subgraph)

    def start(self, subgraph: LiveSubgraph) -> Pending | None:
        """Starts an invoke that is one kernel and nothing else; None where that cannot be."""
        placed = self.partitions(subgraph)
        if len(placed) != 1 or self._opened:
            return None
        (only,) = placed
        state = self._save(subgraph)
        if subgraph.index == 0 and self.handles:
            self.handles.before(subgraph, self.plans[0])
        try:
            pending = only.kernel.invoke_async()
        except OpError as e:
            subgraph.fail(only.node, "invoke", e)
        except Exception as e:
            if self.rules.strict:
                subgraph.fail(only.node, "invoke", e)
            self.recover(only.delegate, e, state)
            return None
        if pending is None:
            return None
        self._started = Started(self, subgraph, only, pending, state)
        return self._started

    def recover(self, delegate: Delegate, error: Exception, state: State) -> None:
        """A delegate has failed: it is taken off, and the invoke can be run again."""
        self._take_off(delegate, error)
        self._restore(state)

    def settle_handles(self, subgraph: LiveSubgraph) -> None:
        if subgraph.index == 0 and self.handles:
            self.handles.after(subgraph, self.plans[0])

    def _save(self, subgraph: LiveSubgraph) -> State:
        state = self._states.get(subgraph.index)
        if state is None:
            state = self._states[subgraph.index] = State(self._graph, subgraph)
        if state:
            state.save()
        return state

    def _restore(self, state: State) -> None:
        state.restore()
        self._recovering = True
        try:
            self.settle()
        finally:
            self._recovering = False

    def _run(self, subgraph: LiveSubgraph) -> None:
        if subgraph.index == 0 and self.handles:
            self.handles.before(subgraph, self.plans[0])
        subgraph.run()
        self.settle_handles(subgraph)

    def _close(self) -> None:
        """Each node is right by itself: now as they are to run."""
        right = set(self._opened)
        self._forget()
        if self._suspect is not None:
            self._blame(self._suspect, joined=True)
        self._right |= right

    def _differs(self, error: SelfCheckError) -> None:
        """Refuses the nodes that are to blame, or plans so that they can be found."""
        if error.exact or self._opened:
            self._blame(error, joined=not error.exact)
            return
        self._suspect = error
        self._right.clear()
        self._forget()

    def _blame(self, error: SelfCheckError, joined: bool) -> None:
        """`joined`: each node is right by itself, and the partition as a whole is not: it is built
        unfused then, and refused where that is no better.
        """
        p = error.partition
        keys = {(p.subgraph, i, p.delegate) for i in p.indices}
        if joined and not keys <= self.plain:
            self.plain |= keys
            self.differences += error.differences
            self._suspect = None
            self._forget()
            self._tell(
                f"{p.delegate}: a partition is built unfused, for its results differ from "
                f"numpy's, and those of each node by itself do not. {error}"
            )
            return
        texts = {d.node: f"self-check: {d}" for d in error.differences}
        if joined:
            text = f"{error}; each node by itself is right"
            texts = {i: texts.get(i, text) for i in p.indices}
        for i, text in texts.items():
            self._barred[p.subgraph, i, p.delegate] = "DEVICE", text
        self.differences += error.differences
        self._suspect = None
        self._forget()
        self._tell(
            f"the delegate {p.delegate} loses {len(texts)} node{'s' * (len(texts) != 1)}, for its "
            f"results differ from numpy's. {error}. The invoke is run again."
        )

    def settle(self) -> None:
        """Plans anew what is allocated: callees first, whose arrays their callers may hold."""
        for subgraph in reversed(self._graph.subgraphs):
            if subgraph.allocated:
                subgraph.settle()

    def _take_off(self, delegate: Delegate, error: Exception) -> None:
        text = f"it failed while the model ran: {type(error).__name__}: {error}"
        self.handles.take_off(self._graph.subgraphs[0], delegate)
        name = self.label(delegate)
        self.faults[name] = text
        self.delegates = [d for d in self.delegates if d is not delegate]
        self._labels.drop(delegate, again=False)
        self._forget()
        self._tell(f"the delegate {name} is taken off, {text}. The invoke is run again without.")

    def words(self, node: LiveNode, subgraph: int) -> list[Refusal]:
        """What all delegates said of a node that none of them runs, in order."""
        plan = self.plans.get(subgraph)
        found = [
            Refusal(node.index, node.op, "UNAVAILABLE", text, name, subgraph)
            for name, text in self.missing.items()
        ]
        found += [
            Refusal(node.index, node.op, "DEVICE", text, name, subgraph)
            for name, text in self.faults.items()
        ]
        if plan is not None:
            named = map(self.label, self.delegates)
            found += [r for n in named if (r := plan.refusals.get((node.index, n))) is not None]
        return found
