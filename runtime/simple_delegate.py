"""The easy way to a delegate: say of each node whether it is taken, and build what is taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..kernels.api import Node, Registration, Unsupported
from .cost import NUMPY, CostProfile, PartitionCost, partition_cost
from .delegate import BuildError, Delegate, DelegateContext, Kernel, Partition, Refusal
from .options import whole

NO_CLAIM = (
    "lower returned None; it returns what `build` is to have of the node (True, if nothing), or "
    "raises Unsupported"
)


# of what the host takes: estimates of small partitions err by as much, and a device that shares the
# CPUs loses more than numpy where they are busy
LEAST_SAVED = 0.25


class SimpleDelegate(Delegate):
    """A delegate that gives `lower` and `build`; partitioning and failures are dealt with here.

    A claim is a promise: what is claimed is built before anything runs. A partition that does not
    build is tried unfused, if `build_unfused` is there; then its nodes are refused with
    BUILD_FAILED, and the graph is partitioned again without them.

    * `max_delegated_partitions`: the partitions that save most are kept; 0 or less: no limit.
    * `min_nodes_per_partition`: smaller ones are left alone.
    * `profile`: with it, partitions that cost more than they save are left alone: the work on the
      device and the bytes that cross, against `host_profile`.
    """

    max_delegated_partitions: int = 0
    min_nodes_per_partition: int = 1
    host_profile: CostProfile = NUMPY

    def lower(self, node: Node, registration: Registration) -> Any:
        """The claim: what `build` finds in `partition.claims[node.index]`.

        Refuses by raising `Unsupported(code, "got …; takes …")`, or by returning `refuse(…)`.
        Must be cheap and need no memory on a device. Any other exception refuses too, and so does
        None, which may be a forgotten `return`.
        """
        raise NotImplementedError

    def claim(self, context: DelegateContext, node: Node, registration: Registration) -> Any:
        """`lower`, for delegates that need to see more than the node."""
        return self.lower(node, registration)

    def build(self, partition: Partition) -> Kernel:
        """The kernel; raises (`BuildError` can name the nodes) where it cannot be had."""
        raise NotImplementedError

    def build_unfused(self, partition: Partition) -> Kernel | None:
        """The plain form, tried where `build` failed. None: there is none."""
        return None

    def cost(self, partition: Partition) -> PartitionCost | None:
        """What a partition takes, here and on the host; None without a `profile`.

        `partition.claims` are there, and nothing is built yet.
        """
        if self.profile is None:
            return None
        return partition_cost(partition, self.profile, self.host_profile)

    def refuse(self, node: Node, code: str, text: str) -> Refusal:
        return Refusal(node.index, node.op, code, text, self.name)

    def prepare(self, context: DelegateContext) -> None:
        for limit in ("max_delegated_partitions", "min_nodes_per_partition"):
            whole(limit, getattr(self, limit))
        claims = self._claims(context)
        built: dict[tuple[int, ...], Kernel] = {}  # by the nodes of the partition
        try:
            while True:
                wanted = self._choose(context, claims)
                if not wanted:
                    return
                failed: set[int] = set()
                for partition in context.preview_delegate_partitioning(wanted):
                    if partition.indices not in built:
                        failed |= self._build(context, partition, built)
                if not failed:
                    break
                claims = {i: claim for i, claim in claims.items() if i not in failed}
            context.replace_node_subsets_with_delegate_kernels(
                wanted, lambda partition: built.pop(partition.indices)
            )
        finally:
            for kernel in built.values():  # of partitions that others took the place of
                kernel.free()

    def _claims(self, context: DelegateContext) -> dict[int, Any]:
        claims: dict[int, Any] = {}
        for i in context.candidates():
            node, registration = context.get_node_and_registration(i)
            try:
                claim = self.claim(context, node, registration)
            except Unsupported as e:
                context.refuse(i, e.code, e.text)
                continue
            except Exception as e:
                context.refuse(i, "BUILD_FAILED", f"lower raised {type(e).__name__}: {e}")
                continue
            if isinstance(claim, Refusal):
                context.refuse(i, claim.code, claim.text)
            elif claim is None:
                context.refuse(i, "BUILD_FAILED", NO_CLAIM)
            else:
                claims[i] = claim
        return claims

    def _choose(self, context: DelegateContext, claims: Mapping[int, Any]) -> list[int]:
        """What is left of the claimed nodes without partitions that do not pay or are over limits.

        Without one partition others may join, so it is partitioned again each time.
        """
        nodes = list(claims)
        while nodes:
            partitions = context.preview_delegate_partitioning(nodes)
            for p in partitions:
                p.claims = claims
                p.cost = self.cost(p)
            dropped = {
                id(p): text for p in partitions if (text := self._not_worth_it(p)) is not None
            }
            most = self.max_delegated_partitions
            if not dropped and 0 < most < len(partitions):
                best = sorted(partitions, key=self._worth, reverse=True)
                text = f"{len(partitions)} partitions; {self.name} takes {most} at most"
                dropped = {id(p): text for p in best[most:]}
            if not dropped:
                return nodes
            gone = {
                n.index: dropped[id(p)] for p in partitions if id(p) in dropped for n in p.nodes
            }
            for i, text in gone.items():
                context.refuse(i, "POLICY", text)
            nodes = [i for i in nodes if i not in gone]
        return nodes

    def _not_worth_it(self, partition: Partition) -> str | None:
        count, least = len(partition.nodes), self.min_nodes_per_partition
        if count < least:
            return f"a partition of {count} node{'s' * (count > 1)}; at least {least} are asked for"
        cost = partition.cost
        if cost is None or self.profile is None or cost.saved > LEAST_SAVED * cost.host:
            return None
        return (
            f"a partition of {count} node{'s' * (count > 1)} does not pay: "
            f"{cost.device * 1e6:.1f} µs on {self.profile.name} and {cost.transfer * 1e6:.1f} µs "
            f"to move data, {cost.host * 1e6:.1f} µs on {self.host_profile.name}"
        )

    def _worth(self, partition: Partition) -> float:
        return len(partition.nodes) if partition.cost is None else partition.cost.saved

    def _build(
        self,
        context: DelegateContext,
        partition: Partition,
        built: dict[tuple[int, ...], Kernel],
    ) -> set[int]:
        """Puts the kernel in `built`; the nodes that are to blame, refused, if there is none."""
        try:
            plain = context.wants_plain(partition.indices) and self.build_unfused(partition)
            built[partition.indices] = plain or self.build(partition)
            return set()
        except Exception as e:
            error = e
        try:
            kernel = self.build_unfused(partition)
        except Exception as e:
            kernel, error = None, e
        if kernel is not None:
            built[partition.indices] = kernel
            context.report(
                f"{self.name}: a partition is built unfused, for the fused form gave {error}"
            )
            return set()
        blamed = error.nodes if isinstance(error, BuildError) else {}
        nodes = set(blamed) & set(partition.indices) or set(partition.indices)
        for i in sorted(nodes):
            context.refuse(i, "BUILD_FAILED", f"{type(error).__name__}: {blamed.get(i, error)}")
        return nodes
