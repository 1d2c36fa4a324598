"""Actions of a soak as values, and the names of the things that they act on.

What belongs here: the vocabulary of a schedule. What does not: when each action happens
(``tests.soak.schedule``), and what it does to a cluster (``tests.soak.performing``).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SIZE: Final = 14
"""Units of each GPU: a T4, in GiB."""
HOST_KERNEL: Final = {"real-0": 2, "real-1": 2}
"""Nodes with a real kubelet on the kernel and the cgroups of the machine → number of GPUs."""
OWN_KERNEL: Final = {"v2-0": 2}
"""Nodes with a real kubelet, their own kernel, cgroup v2 and the systemd driver → number of GPUs."""
REAL: Final = {**HOST_KERNEL, **OWN_KERNEL}
SIMULATED: Final = {"sim-0": 2, "sim-1": 2, "sim-2": 2}
"""Nodes whose kubelet kwok simulates → number of GPUs."""
NODES: Final = {**REAL, **SIMULATED}
CAPACITY: Final = SIZE * sum(NODES.values())

API_SERVER: Final = "kube-apiserver"
SCHEDULER: Final = "kube-scheduler"
EXTENDERS: Final = ("extender-0", "extender-1")
AGENTS: Final = tuple(f"{node}.device-plugin" for node in REAL)
KUBELETS: Final = tuple(f"{node}.kubelet" for node in REAL)
RUNTIMES: Final = tuple(f"{node}.containerd" for node in REAL)
PROCESSES: Final = (API_SERVER, SCHEDULER, *EXTENDERS, *AGENTS, *KUBELETS, *RUNTIMES)
UNITS: Final = tuple(name for name in PROCESSES if name.partition(".")[0] in OWN_KERNEL)
"""The processes that run as units of systemd on nodes with their own kernel."""
LINKS: Final = tuple(f"link of {name}" for name in (*EXTENDERS, *AGENTS))
"""Connections to the API server, each through a proxy."""
CLOCKS: Final = tuple(f"clock of {name}" for name in (*EXTENDERS, *AGENTS))


class Verb(StrEnum):
    """What an action does to its target. ``Action.value`` is the number in parentheses."""

    CREATE = "create"
    """Create a pod."""
    FINISH = "finish"
    """Let the containers of a pod end with success."""
    DELETE = "delete"
    """Delete a pod (grace period in seconds)."""
    KILL = "kill"
    """SIGKILL to a process, which stays down until START."""
    STOP = "stop"
    """SIGTERM, as KILL."""
    START = "start"
    FREEZE = "freeze"
    """SIGSTOP, until CONTINUE."""
    CONTINUE = "continue"
    REFUSE = "refuse"
    """Answer requests of a link with errors of the API server (their share), until REPAIR."""
    CUT = "cut"
    """Break the watches of a link and hold its requests, until REPAIR."""
    HOLD_WATCHES = "hold watches"
    """Let the watches of a link deliver nothing, until REPAIR."""
    LOSE_ANSWERS = "lose answers"
    """Pass bind requests on and reset their connections, until REPAIR."""
    DELAY_BINDS = "delay binds"
    """Pass bind requests on late (seconds), and do not answer them, until REPAIR."""
    REPAIR = "repair"
    DROP_WATCHES = "drop watches"
    """Break the watches of a link once."""
    STEP_CLOCK = "step clock"
    """Move the time of day of a process (hours), until SET_CLOCK."""
    SET_CLOCK = "set clock"
    DELETE_NODE = "delete node"
    """Delete a Node object, until CREATE_NODE."""
    CREATE_NODE = "create node"
    REBOOT = "reboot"
    """Cut the power of a node with its own kernel, and start it again."""
    CHECK = "check"
    """Wait until the cluster is at rest, and compare all records. No fault is active."""


ENDS: Final = {
    Verb.KILL: Verb.START,
    Verb.STOP: Verb.START,
    Verb.FREEZE: Verb.CONTINUE,
    Verb.REFUSE: Verb.REPAIR,
    Verb.CUT: Verb.REPAIR,
    Verb.HOLD_WATCHES: Verb.REPAIR,
    Verb.LOSE_ANSWERS: Verb.REPAIR,
    Verb.DELAY_BINDS: Verb.REPAIR,
    Verb.STEP_CLOCK: Verb.SET_CLOCK,
    Verb.DELETE_NODE: Verb.CREATE_NODE,
}
"""Each fault that lasts, and the action that ends it."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The request of a pod: the units of each container, spread evenly over a number of GPUs."""

    containers: tuple[int, ...]
    gpus: int = 1

    @property
    def units(self) -> int:
        """Units of the pod, on all its GPUs."""
        return sum(self.containers)

    @property
    def per_gpu(self) -> int:
        """Units of the pod on each of its GPUs."""
        return self.units // self.gpus

    def __str__(self) -> str:
        """Return the units, such as ``3+4`` or ``8 on 2 GPUs``."""
        units = "+".join(map(str, self.containers))
        return units if self.gpus == 1 else f"{units} on {self.gpus} GPUs"


@dataclass(frozen=True, slots=True)
class Action:
    """One action, ``at_s`` seconds of load after the start; checks do not count as load."""

    at_s: float
    verb: Verb
    target: str
    shape: Shape | None = None
    value: float = 0

    def __str__(self) -> str:
        """Return one line of a schedule."""
        detail = f" {self.shape}" if self.shape else f" {self.value:g}" if self.value else ""
        return f"{self.at_s:8.2f} s  {self.verb} {self.target}{detail}"


def kind_of(node: str) -> str:
    """Return the kind of a node, for counts."""
    return "simulated" if node in SIMULATED else "cgroup v2" if node in OWN_KERNEL else "real"


def machine_of(target: str) -> str:
    """Return the node with its own kernel that has to be on for an action on this target, or the target."""
    name = target.removeprefix("clock of ").partition(".")[0]
    return name if name in OWN_KERNEL else target


def active_faults(actions: Iterable[Action]) -> dict[str, Verb]:
    """Target → fault that no action has ended yet.

    Raises ValueError for a fault of a target that has one already, and for an end without a fault.
    """
    active: dict[str, Verb] = {}
    for each in actions:
        if each.verb in ENDS:
            if each.target in active:
                raise ValueError(f"{each}: {active[each.target]} has not ended")
            active[each.target] = each.verb
        elif each.verb in ENDS.values() and ENDS.get(active.pop(each.target, each.verb)) is not each.verb:
            raise ValueError(f"{each}: there is nothing to end")
    return active
