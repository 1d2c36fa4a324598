"""Counts the units in use on a GPU node without the agent's code, and compares them with all other state.

The count uses no state of our components: it reads the OCI specs of the containers with live processes. The
annotations of pods and node, the agent's record and the extender's books must agree with it.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from devkit.waiting import meanwhile
from gpushare import contract
from testbed import DevkitError, until
from testbed.control_plane.api import Object, read_text
from testbed.daemons.agent import CardNode, GpuNode
from testbed.daemons.extender import ExtenderSpec
from tests.support.fixtures.gpu_nodes import GpuBed, container, has_ended, node_object, pod, running

BUNDLES = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"
RECORD = f"{contract.DEVICE_PLUGIN_FOLDER}/gpushare/allocations.json"
CHECKPOINT = f"{contract.DEVICE_PLUGIN_FOLDER}/{contract.KUBELET_CHECKPOINT}"


@dataclass(frozen=True)
class Live:
    """A running container with the values of its OCI spec: the GPU by UUID and by index."""

    uid: str
    pod: str
    container: str
    pid: int
    uuid: str
    index: int
    units: int


def live(node: GpuNode) -> list[Live]:
    """All running containers with GPU units."""
    return [_live(node, spec, pid) for spec, pid in running_specs(node)]


def running_specs(node: GpuNode) -> Iterator[tuple[Object, int]]:
    """Yield OCI spec and PID of each running container with GPU units."""
    for folder in node.kubelet.path(BUNDLES).glob("*"):
        if found := _running_spec(node, folder.name):
            yield found


def _running_spec(node: GpuNode, bundle: str) -> tuple[Object, int] | None:
    folder = node.kubelet.path(f"{BUNDLES}/{bundle}")
    try:
        spec = json.loads((folder / "config.json").read_text())
        pid = int((folder / "init.pid").read_text())
        state = node.kubelet.path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ValueError):
        return None
    return None if state == "Z" or contract.ENV_CONTAINER not in env_of(spec) else (spec, pid)


def env_of(spec: Object) -> dict[str, str]:
    """The environment of a container in its OCI spec."""
    return dict(entry.split("=", 1) for entry in spec["process"].get("env", ()))


def _live(node: GpuNode, spec: Object, pid: int) -> Live:
    notes, env = spec.get("annotations", {}), env_of(spec)
    return Live(
        notes["io.kubernetes.cri.sandbox-uid"],
        f"{notes['io.kubernetes.cri.sandbox-namespace']}/{notes['io.kubernetes.cri.sandbox-name']}",
        notes["io.kubernetes.cri.container-name"],
        pid,
        _card(node, spec, env),
        int(env[contract.ENV_IDX]),
        int(env[contract.ENV_CONTAINER]),
    )


def _card(node: GpuNode, spec: Object, env: Mapping[str, str]) -> str:
    """The UUID of the one visible GPU of the container; the Aliyun plugin sets its index instead."""
    name, *more = visible(spec) or [env[contract.ENV_VISIBLE_DEVICES]]
    assert not more, (name, more)
    return node.stub.uuid(int(name)) if name.isdigit() else name


def visible(spec: Object) -> list[str]:
    """The names of the GPUs that a container gets by mounts."""
    folder = f"{contract.VISIBLE_BY_MOUNTS}/"
    return [m["destination"].removeprefix(folder) for m in spec["mounts"] if folder in m["destination"]]


def cards_of(node: GpuNode) -> dict[str, int]:
    """Name of a pod → index of the GPU of its container."""
    return {each.pod.partition("/")[2]: each.index for each in live(node)}


def pid_of(node: CardNode, name: str) -> int:
    """PID on the node of the first process of a container, as containerd recorded it."""
    for folder in node.kubelet.path(BUNDLES).glob("*"):
        notes = json.loads((folder / "config.json").read_text())["annotations"]
        if (
            notes["io.kubernetes.cri.sandbox-name"] == name
            and notes["io.kubernetes.cri.container-type"] == "container"
        ):
            return int((folder / "init.pid").read_text())
    raise AssertionError(name)


async def one_pod(gpus: GpuBed, node: GpuNode) -> list[Live]:
    """Start a pod ``on-card-0`` of 4 units, and wait until it runs."""
    await gpus.bed.create_pods([pod("on-card-0", container(4))])
    await running(gpus.bed, "on-card-0")
    return live(node)


async def two_pods(gpus: GpuBed, node: GpuNode) -> list[Live]:
    """Start pods ``a`` and ``b`` of 10 units, one on each GPU, and wait until all state agrees."""
    await gpus.bed.create_pods([pod("a", container(10)), pod("b", container(10))])
    for name in ("a", "b"):
        await running(gpus.bed, name)
    await until_agreed(node, gpus.extender)
    return by_name(node)


def by_name(node: GpuNode) -> list[Live]:
    """All running containers with GPU units, in the order of the names of their pods."""
    return sorted(live(node), key=lambda each: each.pod)


def used(node: GpuNode) -> dict[int, int]:
    """GPU → units of the containers that run on it."""
    return _sums(live(node))


def _sums(containers: Iterable[Live]) -> dict[int, int]:
    total: Counter[int] = Counter()
    for each in containers:
        total[each.index] += each.units
    return dict(total)


@asynccontextmanager
async def never_overcommitted(node: GpuNode, size: int) -> AsyncIterator[None]:
    """Recount all the time; fail at the end if a GPU was over-committed at some moment."""
    over: list[str] = []

    async def recount() -> None:
        while True:
            containers = live(node)
            full = {index for index, units in _sums(containers).items() if units > size}
            if full:
                names = [f"{e.pod} ({e.uid}): {e.units} of card {e.index}" for e in containers]
                over.append(f"{time.time():.1f}: cards {full}; {', '.join(sorted(names))}")
            await asyncio.sleep(0.2)

    async with meanwhile(recount()):
        yield
    assert not over, over


# --- all other state ----------------------------------------------------------------------------


def annotated_units(found: Object, assigned: Mapping[str, Any]) -> dict[int, int]:
    """GPU → units of a pod: the node annotation if it has the pod, else the pod's annotations.

    Empty where a user's annotations cannot be read: the agent replaces them a moment after the start.
    """
    notes = found["metadata"].get("annotations", {})
    total: Counter[int] = Counter()
    try:
        text = assigned.get(found["metadata"]["uid"]) or json.loads(notes.get(contract.ANN_ALLOCATION, "{}"))
        for cards in text.values():
            for index, units in cards.items():
                total[int(index)] += units
        if not total and contract.ANN_IDX in notes:
            total[int(notes[contract.ANN_IDX])] = int(notes[contract.ANN_POD])
    except ValueError:
        return {}
    return dict(total)


def recorded(node: GpuNode) -> dict[str, dict[str, int]]:
    """The agent's record: pod UID → GPU by UUID → units."""
    return units_in(node.kubelet.path(RECORD).read_text())


def units_in(record: str | bytes) -> dict[str, dict[str, int]]:
    """A record of an agent: pod UID → GPU by UUID → units."""
    found: dict[str, Counter[str]] = {}
    for each in json.loads(record)["allocations"]:
        for uuid, units in each["cards"]:
            found.setdefault(each["uid"], Counter())[uuid] += units
    return {uid: dict(cards) for uid, cards in found.items()}


async def until_agreed(node: GpuNode, extender: ExtenderSpec, timeout_s: float = 15) -> None:
    """Wait until all state of the node agrees with its containers; for pods without init containers."""
    problems: list[str] = []

    async def agreed() -> bool:
        problems[:] = await disagreements(node, extender)
        return not problems

    try:
        await until(agreed, "all state to agree", timeout_s, 0.2)
    except DevkitError:
        raise AssertionError(problems) from None


async def disagreements(node: GpuNode, extender: ExtenderSpec) -> list[str]:
    """Differences between the state of the node and its containers."""
    containers = live(node)
    there = _by_pod(containers)
    annotations = (await node_object(node))["metadata"].get("annotations", {})
    assigned = json.loads(annotations.get(contract.ANN_ASSIGNED_NODE, "{}"))
    pods = {p["metadata"]["uid"]: p for p in await node.bed.api.items("/api/v1/pods") if _has_units(p, node)}
    record = recorded(node)
    return [
        *(f"{e.pod} has {e.uuid} as card {e.index}" for e in containers if e.uuid != node.stub.uuid(e.index)),
        *_at_odds("runs and is recorded", {uid: by_uuid for uid, (by_uuid, _) in there.items()}, record),
        *_at_odds(
            "runs and is annotated",
            {uid: by_index for uid, (_, by_index) in there.items()},
            {uid: annotated_units(found, assigned) for uid, found in pods.items()},
        ),
        *_at_odds("runs and is booked", used(node), await booked(node, extender)),
        *(f"{p['metadata']['name']} is not marked as assigned" for p in pods.values() if not _is_assigned(p)),
    ]


def _by_pod(containers: Iterable[Live]) -> dict[str, tuple[Counter[str], Counter[int]]]:
    """Pod UID → units by UUID and by index of the GPU."""
    found: dict[str, tuple[Counter[str], Counter[int]]] = {}
    for each in containers:
        by_uuid, by_index = found.setdefault(each.uid, (Counter(), Counter()))
        by_uuid[each.uuid] += each.units
        by_index[each.index] += each.units
    return found


def _has_units(found: Object, node: GpuNode) -> bool:
    wants = any(
        contract.RESOURCE_MEM in each.get("resources", {}).get("limits", {})
        for each in found["spec"]["containers"]
    )
    return wants and not has_ended(found) and found["spec"].get("nodeName") == node.name


def _is_assigned(found: Object) -> bool:
    notes: Mapping[str, str] = found["metadata"].get("annotations", {})
    return notes.get(contract.ANN_ASSIGNED) == "true"


def _at_odds(what: str, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> list[str]:
    odd = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    return [f"{what}: {key}: {one.get(key)} != {other.get(key)}" for key in odd]


async def booked(node: GpuNode, extender: ExtenderSpec) -> dict[int, int]:
    """GPU → units that the extender counts; GPUs without any are omitted."""
    found = json.loads(await read_text(f"{extender.url}/inspect/{node.name}"))
    devices = found["nodes"][0]["devs"] if found["nodes"] else []
    return {device["id"]: device["usedGPU"] for device in devices if device["usedGPU"]}
