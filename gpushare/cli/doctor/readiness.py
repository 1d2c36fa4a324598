"""How many nodes with shared GPUs are not ready, and whether those are too many. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct, field

from gpushare.cli.doctor.installation import is_sharing
from gpushare.cli.doctor.verdict import Check, CheckVerdict, failed, ok
from gpushare.cli.lib.flag_types import Allowance
from gpushare.contract import AGENT_NAME, RESOURCE_MEM, SYSTEM_NAMESPACE
from gpushare.overview.objects import ClusterNode
from gpushare.overview.system_pods import SystemPod
from gpushare.overview.words import counted, listed

_AGENTS = f"kubectl get pods -n {SYSTEM_NAMESPACE} -l component={AGENT_NAME} -o wide"


class _RolloutMeta(Struct):
    name: str = ""
    generation: int = 0


class _RolloutStatus(Struct, rename="camel"):
    observed_generation: int = 0
    desired_number_scheduled: int = 0
    updated_number_scheduled: int = 0


class Rollout(Struct):
    """A DaemonSet of the agent."""

    metadata: _RolloutMeta = field(default_factory=_RolloutMeta)
    status: _RolloutStatus = field(default_factory=_RolloutStatus)

    @property
    def outdated(self) -> int:
        """Nodes without a pod of its current template; all until its controller has seen the template."""
        seen = self.status.observed_generation >= self.metadata.generation
        return self.status.desired_number_scheduled - (self.status.updated_number_scheduled if seen else 0)


@dataclass(frozen=True, slots=True)
class Fleet:
    """One reading: all nodes, the pods of the agent, and its DaemonSets."""

    nodes: Sequence[ClusterNode]
    agents: Sequence[SystemPod]
    rollouts: Sequence[Rollout]

    @property
    def sharing(self) -> list[ClusterNode]:
        """The nodes that offer units, that a label selects for it, or that have an agent."""
        placed = {pod.spec.node_name for pod in self.agents}
        return [node for node in self.nodes if is_sharing(node) or node.name in placed]


def readiness(allowance: Allowance) -> Check[Fleet]:
    """The check that no more nodes than allowed are not ready, or have an agent of an earlier version."""
    return Check("ready-nodes", "Ready nodes", lambda fleet: _judged(fleet, allowance))


def _judged(fleet: Fleet, allowance: Allowance) -> CheckVerdict:
    total = len(fleet.sharing)
    if not total:
        return failed("no node shares its GPUs, and none has a node agent", _AGENTS)
    unready = list(_unready(fleet))
    outdated = sum(each.outdated for each in fleet.rollouts)
    among, most = f"of {counted(total, 'node')}", f"more than {allowance.text}"
    names = f": {listed(unready)}" if unready else ""
    if len(unready) > allowance.of(total):
        return failed(f"{len(unready)} {among} not ready, {most}{names}", _AGENTS)
    if outdated > allowance.of(total):
        return failed(f"{outdated} {among} without the new agent yet, {most}", _AGENTS)
    return ok(f"{len(unready)} {among} not ready, not {most}{names}")


def _unready(fleet: Fleet) -> Iterator[str]:
    """The nodes that are not ready, each with the reason."""
    # An agent that is being replaced is there twice.
    agents = {pod.spec.node_name: pod.ready for pod in sorted(fleet.agents, key=lambda each: each.ready)}
    for node in sorted(fleet.sharing, key=lambda each: each.name):
        if problem := _problem(node, agents):
            yield f"{node.name} ({problem})"


def _problem(node: ClusterNode, agents: Mapping[str, bool]) -> str:
    """Why the node takes no pods with units; empty if it does."""
    if not node.ready:
        return "not ready"
    if node.name not in agents:
        return "no agent"
    if not agents[node.name]:
        return f"the agent is not ready{f': {node.closed_by_agent}' if node.closed_by_agent else ''}"
    return "" if node.allocatable(RESOURCE_MEM) else "offers no units"
