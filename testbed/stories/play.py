"""Plays a scenario on its own cluster: creates the objects of each step and waits for its result.

What belongs here: running steps and commands. What does not: the scenarios (``testbed.stories``), and
printing (``testbed.demo``).
"""

import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from devkit.errors import DevkitError
from devkit.process import Command, Process, run_text
from devkit.waiting import together, until
from gpushare.contract import EVENT_PLACED, EVENT_REFUSED, LABEL_NO_ISOLATION
from testbed.control_plane.bed import Bed
from testbed.control_plane.nodes import SimNode
from testbed.control_plane.scheduler import SchedulerSpec
from testbed.control_plane.start import Testbed
from testbed.daemons.agent import ACCOUNT, CardNode, GpuNode, add_gpu_node, grant_agent
from testbed.daemons.extender import ExtenderSpec, component_config, grant, start_extender
from testbed.kubelets import KubeletSpec
from testbed.nvml import PROFILES, NvmlGpu
from testbed.stories import Story, StoryStep

_SETTLE_S = 60.0


@asynccontextmanager
async def simulated_cluster(story: Story) -> AsyncIterator[Bed]:
    """Run the cluster of a scenario with simulated nodes, scheduler and extender; no pod is placed yet."""
    extender = ExtenderSpec()
    async with Testbed(scheduler=SchedulerSpec(extenders=[component_config(extender.url)])) as bed:
        await grant(bed)
        await start_extender(bed, extender)
        await bed.add_nodes(story.nodes)
        yield bed


@asynccontextmanager
async def kubelet_cluster(story: Story) -> AsyncIterator[list[GpuNode]]:
    """Run it with real kubelets, our agent on each, and GPUs of the same models in a stub of NVML."""
    extender = ExtenderSpec()
    scheduler = SchedulerSpec(extenders=[component_config(extender.url)])
    async with Testbed(kwok=False, scheduler=scheduler) as bed:
        await together([grant(bed), grant_agent(bed)])
        nodes: list[GpuNode] = []
        await together([start_extender(bed, extender), _add_real_nodes(bed, story, nodes)])
        yield nodes


async def _add_real_nodes(bed: Bed, story: Story, into: list[GpuNode]) -> None:
    into += await together(_real_node(bed, node, story) for node in story.nodes)


async def _real_node(bed: Bed, node: SimNode, story: Story) -> GpuNode:
    # Without the isolation library, the agent would reject the pods of a node with cgpu=true.
    labels = {**node.labels, LABEL_NO_ISOLATION: "true"}
    real = await add_gpu_node(bed, KubeletSpec(node.name, labels=labels), stub_cards(node))
    await real.kubelet.stand_in(*story.images)
    return real


def stub_cards(node: SimNode) -> list[NvmlGpu]:
    """Return the GPUs of a simulated node as its driver would describe them."""
    by_model = {profile.name: profile for profile in PROFILES.values()}
    return [by_model[card.model] for card in node.cards]


async def perform(bed: Bed, step: StoryStep) -> None:
    """Create the objects of a step, its pods one by one, and wait until they run."""
    if step.manifest:
        await bed.apply(step.manifest)
    running = step.running - len(step.pods)
    for pod in step.pods:
        running += 1
        await bed.create_pods([pod])
        await until_running(bed, running)
    await until_running(bed, step.running)
    for prefix in step.waiting:
        await until(partial(_refused, bed, prefix), f"an event that explains why {prefix}… waits", _SETTLE_S)
    for name in step.crashing:
        await _until_crashing(bed, name)


async def until_running(bed: Bed, number: int) -> None:
    """Wait until ``number`` pods run and have their events."""

    async def enough() -> bool:
        pods = (await bed.api.get("/api/v1/namespaces/default/pods"))["items"]
        running = [pod["status"].get("phase") for pod in pods].count("Running")
        placed = [reason for _, reason, _ in await pod_events(bed)].count(EVENT_PLACED)
        return min(running, placed) >= number

    await until(enough, f"{number} running pods", _SETTLE_S)


async def _refused(bed: Bed, prefix: str) -> bool:
    return any(
        reason == EVENT_REFUSED for name, reason, _ in await pod_events(bed) if name.startswith(prefix)
    )


async def _until_crashing(bed: Bed, name: str) -> None:
    """Wait until the pod is in CrashLoopBackOff. Raises DevkitError with its state and its log."""
    try:
        await until(partial(_crashes, bed, name), f"{name} to be in CrashLoopBackOff", _SETTLE_S)
    except DevkitError as error:
        state = await show(bed, f"kubectl describe pod {name}; kubectl logs {name} 2>&1 || true")
        raise DevkitError(f"{error}\n{state}") from error


async def _crashes(bed: Bed, name: str) -> bool:
    status = (await bed.api.get(f"/api/v1/namespaces/default/pods/{name}"))["status"]
    states = [each["state"] for each in status.get("containerStatuses", ())]
    return [each.get("waiting", {}).get("reason") for each in states] == ["CrashLoopBackOff"]


async def pod_events(bed: Bed) -> list[tuple[str, str, str]]:
    """Return (pod, reason, message) of the events of gpushare, sorted by pod name."""
    events = (await bed.api.get("/api/v1/namespaces/default/events"))["items"]
    found = [
        (event["involvedObject"]["name"], event["reason"], event["message"])
        for event in events
        if event["reason"].startswith("GPUShare")
    ]
    return sorted(found)


async def show(bed: Bed, command: str, timeout_s: float = _SETTLE_S) -> str:
    """Run a command line as a user of the cluster; return its unfiltered output."""
    return await run_text(_shell(bed, bed.kubeconfig, command), timeout_s)


async def show_on(node: CardNode, command: str) -> str:
    """Run a command line on a node with the service account of its agent; return its unfiltered output."""
    argv = _shell(node.bed, node.bed.kubeconfig_for(ACCOUNT), command)
    return await node.kubelet.run_text(argv, _SETTLE_S)


@asynccontextmanager
async def board_of(bed: Bed, flags: str = "") -> AsyncIterator[str]:
    """Serve the board of the cluster and yield its URL; the flag ``--open`` also opens a browser."""
    argv = _shell(bed, bed.kubeconfig, f"exec kubectl gpushare board {flags}")
    command = Command("board", argv, bed.folder)
    command.log.unlink(missing_ok=True)
    board = Process(command)
    await board.start()

    async def announced() -> str | None:
        lines = command.log.read_text().splitlines()
        return next((line for line in lines if line.startswith("http")), None)

    try:
        yield await until(announced, "the URL of the board", _SETTLE_S)
    finally:
        await board.stop()


def user_path(bed: Bed) -> str:
    """Return a PATH with ``kubectl`` and our plugins."""
    folder = bed.folder / "bin"
    folder.mkdir(exist_ok=True)
    if not (folder / "kubectl").exists():
        (folder / "kubectl").symlink_to(bed.components.tools["kubectl"].path)
    return f"{folder}:{Path(sys.executable).parent}"


def _shell(bed: Bed, kubeconfig: Path, command: str) -> list[str]:
    path = f"PATH={user_path(bed)}:{os.environ['PATH']}"
    cache = f"KUBECACHEDIR={bed.folder / 'kubectl-cache'}"
    return [shutil.which("env") or "env", f"KUBECONFIG={kubeconfig}", path, cache, "sh", "-c", command]
