"""Names that users meet on objects: who writes each, with which values, and what its absence means.

What belongs here: resources, labels, annotations, variables of containers, events. ``generate`` writes the
page from these tables, and a test compares them with ``gpushare.contract``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from gpushare import contract
from gpushare.model.modes import Mode
from gpushare.scheduling.placement import DEFAULT, POLICIES

_BOOLEAN: Final = "`true`, `false`"
_NOTHING: Final = "not set"
_AGENT: Final = "node agent"
_ADMIN: Final = "administrator"
_ROLE: Final = "administrator, role `node_labels`"
_USER: Final = "user"
_EXTENDER: Final = "extender, in the bind"
_BOTH: Final = "extender, in the bind; node agent, if it allocates another GPU"


class Name(NamedTuple):
    """A row. ``constant`` is the name in ``gpushare.contract``; ``absent`` is the default."""

    constant: str
    writer: str
    values: str
    absent: str
    example: str
    meaning: str


class EventRow(NamedTuple):
    """A row: ``objects`` with the event, who records it, when, and the beginning of a message."""

    constant: str
    objects: str
    kind: str
    writer: str
    when: str
    example: str


def _choices(values: Sequence[str]) -> str:
    return ", ".join(f"`{each}`" for each in values)


RESOURCES: Final = (
    Name(
        "RESOURCE_MEM",
        "user, as a limit; node agent, for the node",
        "units",
        "no GPU",
        "`4`",
        "units of GPU memory: GiB, or MiB with `--memory-unit=MiB`",
    ),
    Name(
        "RESOURCE_CORE",
        "user, as a limit; node agent, for nodes of mode `core_mem` or `mps`",
        f"percent, in steps of {contract.CORE_STEP}; {contract.CORE_PER_CARD} per GPU",
        "no compute limit",
        "`30`",
        "compute share; only together with memory",
    ),
    Name(
        "RESOURCE_COUNT",
        "node agent, for the node only",
        "number of GPUs",
        _NOTHING,
        "`2`",
        "shared GPUs of a node; pods cannot request it",
    ),
    Name(
        "RESOURCE_WHOLE_GPU",
        "user; NVIDIA's device plugin",
        "number of GPUs",
        "no GPU",
        "`1`",
        "whole GPUs, on nodes that do not share",
    ),
    Name(
        "RESOURCE_TIME_SLICED_GPU",
        "user; NVIDIA's device plugin",
        "number of replicas",
        "no GPU",
        "`1`",
        "time-sliced GPUs of NVIDIA's plugin; a node that offers them does not share",
    ),
    Name(
        "RESOURCE_MIG_PREFIX",
        "user; NVIDIA's device plugin",
        "number of MIG devices",
        "no GPU",
        "`nvidia.com/mig-1g.10gb: 1`",
        "prefix; GPUs in MIG mode are not shared",
    ),
)
NODE_LABELS: Final = (
    Name(
        "LABEL_MODE",
        _ROLE,
        _choices(list(Mode)),
        f"`{Mode.CGPU}` with `cgpu=true`, else `{Mode.SHARE}`",
        f"`{Mode.CORE_MEM}`",
        "sharing mode; `default` and `topology`: the node does not share",
    ),
    Name(
        "LABEL_GPUSHARE",
        _ROLE,
        _BOOLEAN,
        "the other labels decide",
        "`true`",
        "`true` selects the node for the DaemonSets of the example stack; `false`: the node does not share",
    ),
    Name(
        "LABEL_CGPU",
        _ROLE,
        _BOOLEAN,
        "mode `share`",
        "`true`",
        "`true`: mode `cgpu`; `false`: the node does not share",
    ),
    Name(
        "LABEL_PLACEMENT",
        _ROLE,
        _choices(sorted(POLICIES)),
        f"`{DEFAULT}`",
        "`spread`",
        "placement policy of the node",
    ),
    Name(
        "LABEL_NO_ISOLATION",
        _ADMIN,
        "`true`",
        "the mode decides",
        "`true`",
        "containers of the node have no limit, in every mode",
    ),
    Name("LABEL_CARD_MODEL", _AGENT, "text", _NOTHING, "`Tesla-T4`", "model of the first GPU"),
    Name("LABEL_CARD_MIB", _AGENT, "MiB with unit", _NOTHING, "`15079MiB`", "memory of the first GPU"),
    Name("LABEL_CARD_COUNT", _AGENT, "number", _NOTHING, "`2`", "GPUs of the node, with excluded ones"),
    Name(
        "LABEL_UNLISTED",
        _AGENT,
        "text",
        "all models are listed",
        "`NVIDIA-TITAN-Xp`",
        "a GPU outside the table of data-center models",
    ),
    Name(
        "LABEL_GPU_PRESENT",
        "GPU Feature Discovery, GPU Operator, administrator",
        "`true`",
        _NOTHING,
        "`true`",
        "the node has NVIDIA GPUs; the exporter runs there",
    ),
    Name(
        "LABELS_PCI_PRESENT",
        "Node Feature Discovery",
        "`true`",
        _NOTHING,
        "`true`",
        "the node has PCI devices of NVIDIA; the exporter runs there",
    ),
    Name(
        "LABEL_OPERATOR_PLUGIN",
        "GPU Operator; role `node_labels`",
        _BOOLEAN,
        "no GPU Operator",
        "`false`",
        "`false` keeps NVIDIA's device plugin off the node",
    ),
)
NODE_TAINTS: Final = (
    Name(
        "STARTUP_TAINTS",
        "administrator, where a group defines its nodes",
        "effect `NoSchedule`",
        "the node takes pods as soon as it has units",
        "`gpushare.io/starting:NoSchedule`",
        "the node is starting: the node agent removes the taint once the units are there, if it may "
        "([startup taint](../how-to/autoscale-nodes.md#the-startup-taint))",
    ),
)
NODE_ANNOTATIONS: Final = (
    Name(
        "ANN_CARDS",
        _AGENT,
        "JSON list",
        "capacity divided by the number of GPUs",
        '`[{"index": 0, "units": 14, …}]`',
        "every shared GPU: index, UUID, model, MiB, units, health, links",
    ),
    Name(
        "ANN_ASSIGNED_NODE",
        _AGENT,
        "JSON: pod UID → container → GPU index → units",
        "annotations of pods count",
        '`{"8f0c…": {"notebook": {"0": 4}}}`',
        "allocations of the node; they override annotations of pods",
    ),
    Name(
        "ANN_CLOSED",
        _AGENT,
        "text",
        "the node takes pods",
        "`its node agent cannot write its record: …`",
        "why the node takes no new pods",
    ),
    Name(
        "ANN_OPENED",
        _AGENT,
        "time of RFC 3339",
        "the node has taken no pods yet",
        "`2026-11-28T03:24:05.512034Z`",
        "when the node began to take pods, or on more GPUs: kube-scheduler looks at waiting pods again",
    ),
    Name(
        "ANN_DEVICE_LIST",
        _AGENT,
        "strategy, a colon, and why",
        "the agent has not decided yet",
        "`cdi: /var/run/cdi/nvidia.yaml names all GPUs as nvidia.com/gpu, …`",
        "how containers get their GPUs",
    ),
    Name(
        "ANN_CORDONED_CARDS",
        _ADMIN,
        "GPU indices, with commas",
        "none",
        "`0,2`",
        "GPUs that take no new pods",
    ),
    Name(
        "ANN_MPS_MULTI_USER",
        _ADMIN,
        "`true`",
        "one Unix user per GPU",
        "`true`",
        "MPS servers of the node serve several users at once",
    ),
    Name(
        "ANN_OPERATOR_PLUGIN",
        "role `node_labels`",
        "a label's value, or empty",
        "the node was not switched",
        "`true`",
        "the label `nvidia.com/gpu.deploy.device-plugin` before the node was shared",
    ),
)
POD_METADATA: Final = (
    Name(
        "LABEL_CARDS_PER_POD",
        f"{_USER}, label",
        "number of GPUs",
        "`1`",
        "`2`",
        "spreads the units evenly over that many GPUs of one node",
    ),
    Name(
        "ANN_PLACEMENT",
        f"{_USER}, annotation",
        _choices(sorted(POLICIES)),
        "the policy of the node",
        "`spread`",
        "placement policy of the pod",
    ),
    Name(
        "ANN_USE_MODELS",
        f"{_USER}, annotation",
        "models, with commas",
        "any model",
        "`A100, H100`",
        "the pod gets a GPU of one of these models: [certain GPUs](../concepts/request.md#certain-gpus)",
    ),
    Name(
        "ANN_AVOID_MODELS",
        f"{_USER}, annotation",
        "models, with commas",
        "any model",
        "`T4`",
        "the pod gets a GPU of another model",
    ),
    Name(
        "ANN_USE_UUIDS",
        f"{_USER}, annotation",
        "UUIDs, with commas",
        "any GPU",
        "`GPU-8f6c…`",
        "the pod gets one of these GPUs",
    ),
    Name(
        "ANN_AVOID_UUIDS",
        f"{_USER}, annotation",
        "UUIDs, with commas",
        "any GPU",
        "`GPU-8f6c…`",
        "the pod gets another GPU",
    ),
    Name(
        "ANN_SAME_GPU",
        f"{_USER}, annotation",
        "name of a pod, or labels",
        "any GPU",
        "`trainer-0`",
        "the pod gets a GPU that such a pod of its namespace uses",
    ),
    Name(
        "ANN_OTHER_GPU",
        f"{_USER}, annotation",
        "name of a pod, or labels",
        "any GPU",
        "`app=web`",
        "the pod gets a GPU that no such pod of its namespace uses",
    ),
    Name("ANN_IDX", _BOTH, "GPU index", "not bound by an extender", "`0`", "the GPU, the lowest of several"),
    Name("ANN_DEV", _BOTH, "units", _NOTHING, "`14`", "all units of that GPU"),
    Name("ANN_POD", _BOTH, "units", _NOTHING, "`4`", "units of the pod"),
    Name(
        "ANN_ASSIGNED",
        "extender (`false`), node agent (`true`)",
        _BOOLEAN,
        _NOTHING,
        "`true`",
        "whether all containers are allocated",
    ),
    Name(
        "ANN_ASSUME_TIME",
        "extender, in the bind; node agent",
        "nanoseconds since 1970",
        _NOTHING,
        "`1764038400000000000`",
        "when the pod was bound",
    ),
    Name(
        "ANN_ALLOCATION",
        _BOTH,
        "JSON: container index → GPU index → units",
        _NOTHING,
        '`{"0": {"0": 4}}`',
        "units by container; authoritative for several GPUs",
    ),
    Name(
        "ANN_CORE_ALLOCATION",
        _BOTH,
        "the same in percent",
        "no compute share",
        '`{"0": {"0": 30}}`',
        "compute shares by container",
    ),
    Name(
        "ANN_SEAL",
        _EXTENDER,
        "text",
        "annotations are not trusted",
        "",
        "signature of the placement: [seals](../concepts/ledger.md#seals)",
    ),
    Name(
        "ANN_SAFE_TO_EVICT",
        f"{_USER}, annotation",
        _choices(("true", "false")),
        "that of Cluster Autoscaler",
        "`false`",
        "`false`: [compaction](../how-to/make-room.md) does not move the pod; `true`: it may be evicted "
        "although no controller replaces it",
    ),
    Name(
        "ANN_SAFE_TO_EVICT_AUTOSCALER",
        f"{_USER}, annotation",
        _choices(("true", "false")),
        _NOTHING,
        "`false`",
        "as `gpushare.io/safe-to-evict`, which comes first",
    ),
    Name(
        "ANN_MODE",
        _EXTENDER,
        "a sharing mode",
        "unknown",
        "`cgpu`",
        "mode of the node at the bind, for information",
    ),
)
VARIABLES: Final = (
    Name("ENV_IDX", _AGENT, "GPU index", _NOTHING, "`0`", "the GPU of the container, the lowest of several"),
    Name("ENV_POD", _AGENT, "units", _NOTHING, "`4`", "units of the pod"),
    Name("ENV_CONTAINER", _AGENT, "units", _NOTHING, "`4`", "units of the container"),
    Name("ENV_DEV", _AGENT, "units", _NOTHING, "`14`", "all units of that GPU"),
    Name(
        "ENV_NO_ISOLATION",
        _AGENT,
        "`true`",
        "the container may be limited",
        "`true`",
        "the node has disabled limits; set in a pod it changes nothing",
    ),
    Name(
        "ENV_VISIBLE_DEVICES",
        _AGENT,
        "depends on `--device-list-strategy`",
        _NOTHING,
        f"`{contract.VISIBLE_BY_MOUNTS}`",
        "which GPUs NVIDIA's runtime adds to the container",
    ),
    Name(
        "ENV_MPS_PIPES",
        "node agent, in mode `mps`",
        "path",
        "no MPS",
        f"`{contract.MPS_INSIDE}`",
        "pipes of the MPS control daemon",
    ),
    Name("ENV_MPS_PERCENT", "node agent, in mode `mps`", "percent", "100", "`30`", "compute share"),
    Name(
        "ENV_MPS_MEMORY",
        "node agent, in mode `mps`",
        "GPU=MiB",
        "no limit by MPS",
        "`0=4308M`",
        "memory limit of each process",
    ),
    Name(
        "ENV_MPS_LOGS", "MPS daemon, for its control daemons only", "path", _NOTHING, "", "folder of the logs"
    ),
)
EVENTS: Final = (
    EventRow(
        "EVENT_PLACED",
        "pod",
        "Normal",
        "extender",
        "the pod is bound",
        "`placed on node gpu-1: 4 units on GPU 0 (2 of 14 left)`",
    ),
    EventRow(
        "EVENT_EVICTED",
        "pod",
        "Normal",
        "extender",
        "the pod was evicted to [make room](../how-to/make-room.md) for another one",
        "`evicted from node gpu-1 to make room on its GPUs for a pod of another namespace of priority 1000; "
        "the priority of this pod is 0`",
    ),
    EventRow(
        "EVENT_ROOM",
        "pod",
        "Normal; Warning for a refusal",
        "extender",
        "pods were evicted for this pod, or why not",
        "`evicted pod trainer-7 of lower priority on node gpu-1 to make room for this pod`",
    ),
    EventRow(
        "EVENT_REFUSED",
        "pod",
        "Warning",
        "extender, node agent",
        "the pod fits on no node, or its node has no room for it",
        "`Insufficient GPU Memory in one device: asked 8, at most 6 of 14 free on GPU 0`",
    ),
    EventRow(
        "EVENT_MALFORMED",
        "pod, node",
        "Warning",
        "extender, node agent",
        "a request, the annotation of cordoned GPUs or a ConfigMap of unhealthy GPUs cannot be read, or the "
        "label of a node names no placement policy",
        "`ConfigMap kube-system/unhealthy-gpu-gpu-1: 'x' is not a GPU index; write gpus: 0,2`",
    ),
    EventRow(
        "EVENT_OVERCOMMIT",
        "node",
        "Warning",
        "extender",
        "a GPU has more units reserved than it has",
        "`GPU 0 is over-committed; no more pods are placed on it`",
    ),
    EventRow(
        "EVENT_ASSIGNED",
        "pod",
        "Normal; Warning for the total of another pod",
        "node agent",
        "a container got another GPU than its annotations named",
        "`allocated 4 on GPU 1; its annotations had reserved GPU 0`",
    ),
    EventRow(
        "EVENT_CARD_UNHEALTHY",
        "node",
        "Warning",
        "node agent",
        "a GPU becomes unhealthy",
        "`GPU 0 (GPU-5c1f…): the driver asks for a reset of the GPU (recovery action 1)`",
    ),
    EventRow(
        "EVENT_CARD_RECOVERED",
        "node",
        "Warning",
        "node agent",
        "a GPU is healthy again",
        "`GPU 0 (GPU-5c1f…): ` and the reason that has ended",
    ),
    EventRow(
        "EVENT_CARDS_CHANGED",
        "node",
        "Warning",
        "node agent",
        "GPUs were added, removed, replaced or changed their size",
        "`GPU 1 (Tesla T4) is gone`",
    ),
    EventRow(
        "EVENT_CARD_IN_USE",
        "node",
        "Warning",
        "node agent",
        "a container has a whole GPU that is shared now",
        "`GPU 0 until default/app-3g-v1-0 is gone, which has a whole GPU`",
    ),
    EventRow(
        "EVENT_CARD_FREE",
        "node",
        "Warning",
        "node agent",
        "that container is gone",
        "`GPU 0 is no longer in use as a whole GPU`",
    ),
    EventRow(
        "EVENT_NOT_SERVING",
        "node",
        "Warning",
        "node agent",
        "the node may not share its GPUs",
        "`another device plugin still offers 2 of nvidia.com/gpu on this node; …`",
    ),
    EventRow(
        "EVENT_NOT_HELD",
        "pod, node",
        "Warning",
        "node agent",
        "a process without a limit uses a GPU with limited containers",
        "`GPU 0 has 1 process of no pod without a limit, beside limited containers: …`",
    ),
    EventRow(
        "EVENT_UNCOUNTED",
        "pod",
        "Warning",
        "node agent",
        "a limited container uses clearly more memory than the library has counted",
        "`container app, limited to 4308 MiB of GPU 0, uses 900 MiB that isolation has not counted: …`",
    ),
    EventRow(
        "EVENT_REGION",
        "pod",
        "Warning",
        "node agent",
        "a container has changed the size of its region",
        "`container app has made /.gpushare/region 9000000 bytes large. …`",
    ),
)
SECTIONS: Final[Mapping[str, Sequence[Name]]] = {
    "Resources": RESOURCES,
    "Labels of nodes": NODE_LABELS,
    "Taints of nodes": NODE_TAINTS,
    "Annotations of nodes": NODE_ANNOTATIONS,
    "Labels and annotations of pods": POD_METADATA,
    "Variables of containers": VARIABLES,
}


def page() -> str:
    """The page, in Markdown."""
    lines = [
        "# Labels, annotations, variables and events",
        "",
        "Users and administrators set or read these names. The extender and the node agent write",
        "annotations too: read them, but do not edit them. Edits [have no",
        "effect](../concepts/ledger.md#seals).",
    ]
    for title, table in SECTIONS.items():
        lines += ["", f"## {title}", "", "| name | meaning | values | if absent | written by |"]
        lines += ["|---|---|---|---|---|", *map(_row, table)]
    lines += ["", "## Events", "", "| reason | when | object | type | recorded by |"]
    lines += ["|---|---|---|---|---|", *map(_event_row, EVENTS)]
    return "\n".join(lines) + "\n"


def _row(name: Name) -> str:
    """The example stands below the meaning."""
    meaning = f"{name.meaning}<br>Example: {name.example}" if name.example else name.meaning
    return f"| {_text(name.constant)} | {meaning} | {name.values} | {name.absent} | {name.writer} |"


def _event_row(event: EventRow) -> str:
    """The message stands below what it is about."""
    cells = (f"{event.when}<br>{event.example}", event.objects, event.kind, event.writer)
    return f"| {_text(event.constant)} | {' | '.join(cells)} |"


def _text(constant: str) -> str:
    value = getattr(contract, constant)
    return _choices(value) if isinstance(value, tuple) else f"`{value}`"


def rows() -> Iterator[Name | EventRow]:
    """All rows."""
    for names in SECTIONS.values():
        yield from names
    yield from EVENTS
