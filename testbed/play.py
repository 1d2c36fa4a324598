"""Plays a story on its own cluster: creates what it says and waits for what it promises.

What belongs here: performing steps. What does not: what a story is (``testbed.stories``), and what
is printed (``testbed.demo``).
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from gpushare.contract import EVENT_PLACED, EVENT_REFUSED
from testbed.bed import Bed
from testbed.extender import ExtenderSpec, component_config, grant, start_extender
from testbed.process import run_text
from testbed.scheduler import SchedulerSpec
from testbed.start import Testbed
from testbed.stories import Step, Story
from testbed.waiting import until

_SETTLE_S = 60.0


@asynccontextmanager
async def stage(
    story: Story, *, extender: ExtenderSpec | None = None, scheduler: SchedulerSpec | None = None
) -> AsyncIterator[Bed]:
    """The story's cluster: nodes, scheduler and extender run, nothing is placed yet."""
    extender = extender or ExtenderSpec()
    current = SchedulerSpec(extenders=[component_config(extender.url)])
    async with Testbed(scheduler=scheduler or current) as bed:
        await grant(bed)
        await start_extender(bed, extender)
        await bed.add_nodes(story.nodes)
        yield bed


async def perform(bed: Bed, step: Step) -> None:
    """Create what the step creates, pods one after the other, and wait until its pods run."""
    if step.manifest:
        await bed.apply(step.manifest)
    running = step.running - len(step.pods)
    for pod in step.pods:
        running += 1
        await bed.create_pods([pod])
        await until_running(bed, running)
    await until_running(bed, step.running)
    for prefix in step.waiting:
        await until(partial(_refused, bed, prefix), f"an event that says why {prefix}… waits", _SETTLE_S)


async def until_running(bed: Bed, number: int) -> None:
    """Wait until that many pods run, and their events are written."""

    async def enough() -> bool:
        pods = (await bed.api.get("/api/v1/namespaces/default/pods"))["items"]
        running = [pod["status"].get("phase") for pod in pods].count("Running")
        told = [reason for _, reason, _ in await pod_events(bed)].count(EVENT_PLACED)
        return min(running, told) >= number

    await until(enough, f"{number} running pods", _SETTLE_S)


async def _refused(bed: Bed, prefix: str) -> bool:
    return any(
        reason == EVENT_REFUSED for name, reason, _ in await pod_events(bed) if name.startswith(prefix)
    )


async def pod_events(bed: Bed) -> list[tuple[str, str, str]]:
    """(pod, reason, message) of the extender's events, by pod name."""
    events = (await bed.api.get("/api/v1/namespaces/default/events"))["items"]
    found = [
        (event["involvedObject"]["name"], event["reason"], event["message"])
        for event in events
        if event["reason"].startswith("GPUShare")
    ]
    return sorted(found)


async def show(bed: Bed, command: str) -> str:
    """Run a kubectl plugin command as a user would, against the bed; returns its unfiltered output."""
    first, plugin, *rest = command.split()
    name = f"{first}-{plugin}"
    if plugin == "inspect":
        name, rest = f"{name}-{rest[0]}", rest[1:]
    program = Path(sys.executable).with_name(name)
    return await run_text(["env", f"KUBECONFIG={bed.kubeconfig}", str(program), *rest], _SETTLE_S)
