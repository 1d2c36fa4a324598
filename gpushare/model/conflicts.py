"""What containers declare that would undo their share of a GPU: one table of rules. Pure.

A variable or a mount of the pod comes after that of the device plugin: the kubelet appends it
(``pkg/kubelet/kubelet_pods.go``), the last value of a variable counts, and a later mount covers an earlier
one at the same path. Runtimes sort mounts by the depth of their path, so a mount above a file of ours comes
first and covers nothing. A device at the path of a file is not created.

What belongs here: what a pod's spec shows. What does not: variables of an image or of ``envFrom``, which only
the API server and the runtime know, and the limit itself (``gpushare.isolation``).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from posixpath import normpath
from typing import Final, NamedTuple

from gpushare.contract import (
    ANN_DEVICE_LIST,
    ENV_MPS_MEMORY,
    ENV_MPS_PERCENT,
    ENV_MPS_PIPES,
    ENV_VISIBLE_DEVICES,
    ISOLATION_GUARD,
    ISOLATION_INSIDE,
    PRELOAD,
    RESOURCE_CORE,
    RESOURCE_MEM,
    VISIBLE_BY_MOUNTS,
)
from gpushare.model.device_lists import DeviceList
from gpushare.model.options import DeviceListStrategy

_VISIBLE_BY_MOUNTS: Final = (VISIBLE_BY_MOUNTS, VISIBLE_BY_MOUNTS.removeprefix("/var"))
"""``/var/run`` is a link to ``/run`` in most images."""
_DRIVER: Final = "libcuda.so"


class Declared(NamedTuple):
    """What a container declares: its variables, and the paths of its mounts.

    The value of a variable is None if another object has it. ``user_namespace`` is whether the pod has its
    own (``hostUsers: false``).
    """

    variables: tuple[tuple[str, str | None], ...] = ()
    mounts: tuple[str, ...] = ()
    user_namespace: bool = False


class Circumstances(NamedTuple):
    """What decides whether a conflict matters.

    ``device_list`` is how the container gets its GPUs, and ``limited`` whether the isolation library limits
    it. ``mps_variables`` are those by which MPS limits it, none without MPS.
    """

    device_list: DeviceList
    limited: bool = False
    mps_variables: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ConflictRule:
    """One row: variables, mounts on or below paths, or a user namespace, of which each is a conflict.

    ``reason`` is the metric label of the rejection. ``effect`` follows "which", and ``remedy`` is an
    imperative. ``matters`` decides for the name or path that was found; ``where`` is the same in words. With
    ``in_value``, a variable is a conflict only if its value contains that.
    """

    reason: str
    effect: str
    remedy: str
    where: str
    matters: Callable[[str, Circumstances], bool]
    variables: tuple[str, ...] = ()
    in_value: str = ""
    paths: tuple[str, ...] = ()
    user_namespace: bool = False

    @property
    def declaration(self) -> str:
        """What a container must not have, in words."""
        if self.user_namespace:
            return "a user namespace of its pod (hostUsers: false)"
        if self.paths:
            return f"a mount on {' or '.join(self.paths)}"
        value = f" with {self.in_value}" if self.in_value else ""
        return f"a variable {' or '.join(self.variables)}{value}"


class Conflict(NamedTuple):
    """One conflict of a container. ``subject`` is the variable or the path, ``what`` says it in words."""

    rule: ConflictRule
    subject: str
    what: str

    @property
    def text(self) -> str:
        """What the container declares, its effect, and the remedy; follows the name of the container."""
        return f"{self.what}, which {self.rule.effect}: {self.rule.remedy}"

    def matters(self, circumstances: Circumstances) -> bool:
        """Whether it would undo the container's share."""
        return self.rule.matters(self.subject, circumstances)


_IN_LIMITING: Final = "nodes that limit containers by the library"
_BY_MOUNTS: Final = f"nodes whose GPUs are passed by `{DeviceListStrategy.MOUNTS}`"

OWN_DEVICES: Final = ConflictRule(
    "own_devices",
    effect="overrides the value of the device plugin",
    remedy="remove it from the pod, or start the device plugin with "
    f"--device-list-strategy={DeviceListStrategy.MOUNTS}",
    where=f"nodes with `--device-list-strategy={DeviceListStrategy.ENV}`, or whose CDI specification does "
    f"not set `{ENV_VISIBLE_DEVICES}=void`",
    matters=lambda _, node: node.device_list.lets_pods_choose,
    variables=(ENV_VISIBLE_DEVICES,),
)
OWN_DEVICE_MOUNTS: Final = ConflictRule(
    "own_device_mounts",
    effect="may add a GPU to the GPU of the device plugin",
    remedy="mount the volume elsewhere",
    where=_BY_MOUNTS,
    matters=lambda _, node: node.device_list.strategy is DeviceListStrategy.MOUNTS,
    paths=_VISIBLE_BY_MOUNTS,
)
OWN_GUARANTEE: Final = ConflictRule(
    "own_guarantee",
    effect="makes drivers from release 615 on reserve memory of the GPU for this container, also memory of "
    "other pods",
    remedy=f"remove it from the pod; {RESOURCE_MEM} is its limit",
    where="all nodes",
    matters=lambda *_: True,
    # Read by the hook ``apply-cuda-memory-limits`` of NVIDIA's toolkit from 1.20.1 on; one suffices.
    variables=("NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_GPU_MEMORY_LIMIT"),
)
OWN_MPS: Final = ConflictRule(
    "own_mps",
    effect="overrides the value of the device plugin",
    remedy=f"remove it from the pod; {RESOURCE_MEM} and {RESOURCE_CORE} are its limits",
    where="nodes of mode `mps`, if the device plugin sets it",
    matters=lambda variable, node: variable in node.mps_variables,
    variables=(ENV_MPS_PIPES, ENV_MPS_PERCENT, ENV_MPS_MEMORY),
)
OWN_PRELOAD: Final = ConflictRule(
    "own_preload",
    effect="hides the file that loads the isolation library",
    remedy="exclude the pod from the webhook that adds the mount (Datadog: label "
    'admission.datadoghq.com/enabled="false"; Dynatrace: annotation oneagent.dynatrace.com/inject="false"), '
    "or give the pod a whole GPU",
    where=_IN_LIMITING,
    matters=lambda _, node: node.limited,
    paths=(PRELOAD,),
)
OWN_FILES: Final = ConflictRule(
    "own_files",
    effect="hides files of gpushare",
    remedy="mount the volume elsewhere",
    where=f"{_IN_LIMITING}, and of mode `mps`",
    matters=lambda _, node: node.limited or bool(node.mps_variables),
    paths=(ISOLATION_INSIDE, ISOLATION_GUARD),
)
PRELOADED_DRIVER: Final = ConflictRule(
    "preloaded_driver",
    effect="makes programs call the driver instead of the isolation library",
    remedy=f"remove {_DRIVER} from its value, programs find the driver without it",
    where=_IN_LIMITING,
    matters=lambda _, node: node.limited,
    variables=("LD_PRELOAD",),
    in_value=_DRIVER,
)
USER_NAMESPACE: Final = ConflictRule(
    "user_namespace",
    # The kubelet maps the IDs of every mount, and the kernel refuses that for the device /dev/null.
    effect="keeps the container from starting, because the mount that names its GPU cannot be mapped into it",
    remedy="remove hostUsers: false from the pod, or use a node whose GPUs are passed by CDI (the annotation "
    f"{ANN_DEVICE_LIST} of a node says how, and why)",
    where=_BY_MOUNTS,
    matters=lambda _, node: node.device_list.strategy is DeviceListStrategy.MOUNTS,
    user_namespace=True,
)
RULES: Final = (
    OWN_DEVICES,
    OWN_DEVICE_MOUNTS,
    OWN_GUARANTEE,
    OWN_MPS,
    OWN_PRELOAD,
    OWN_FILES,
    PRELOADED_DRIVER,
    USER_NAMESPACE,
)


def conflicts_of(declared: Declared) -> tuple[Conflict, ...]:
    """The conflicts of a container under any circumstances."""
    return tuple(conflict for rule in RULES for conflict in _found(rule, declared))


def _found(rule: ConflictRule, declared: Declared) -> Iterator[Conflict]:
    for name, value in declared.variables:
        if name in rule.variables and rule.in_value in (value or ""):
            added = f" with {rule.in_value}" if rule.in_value else " itself"
            yield Conflict(rule, name, f"sets {name}{added}")
    for path in map(_normalized, declared.mounts):
        if _is_on_or_below(path, rule.paths):
            yield Conflict(rule, path, f"has a mount on {path}")
    if rule.user_namespace and declared.user_namespace:
        yield Conflict(rule, "hostUsers", "has its own user namespace (hostUsers: false)")


def _normalized(path: str) -> str:
    """The path as runtimes resolve it: the kubelet makes it absolute, and ``..`` is allowed in it."""
    return normpath(f"/{path.lstrip('/')}")


def _is_on_or_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)
