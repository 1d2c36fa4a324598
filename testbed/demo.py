"""``make demo``: the stories of the source documents, each on its own real control plane.

What belongs here: what the demo prints, and when it ends. What does not: the stories themselves.
"""

import asyncio
import os
import signal
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import click

from gpushare.contract import EVENT_PLACED
from gpushare.errors import GpuShareError
from testbed import build
from testbed.bed import Bed
from testbed.errors import TestbedError
from testbed.play import perform, pod_events, show, stage
from testbed.stories import STORIES, Step, Story

_TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")


async def main() -> None:
    """Play all stories; then, for a person, keep the last cluster until Ctrl-C."""
    await build.ensure(_TOOLS)
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        for make in STORIES:
            await stack.aclose()
            bed = await _play(make(), stack, began)
        if _interactive():
            await _keep(bed)
    click.secho("\nThe demo is over; nothing is left running.", bold=True)


async def _play(story: Story, stack: AsyncExitStack, began: float) -> Bed:
    _title(story.title)
    bed = await stack.enter_async_context(stage(story))
    told: set[tuple[str, str, str]] = set()
    for number, step in enumerate(story.steps):
        click.secho(f"\n# {step.says}", dim=True)
        await perform(bed, step)
        if story.name == "s0" and number == 0:
            click.secho(f"# the first pods run {time.monotonic() - began:.1f} s after the start", dim=True)
        told |= await _events(bed, step, told)
    for command in story.commands:
        click.secho(f"\n$ {command}", fg="green")
        click.echo(await show(bed, command))
    return bed


async def _events(bed: Bed, step: Step, told: set[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    """Print the placement events that are new; for pods that wait, why."""
    new = [event for event in await pod_events(bed) if event not in told]
    for pod, reason, message in new:
        if reason == EVENT_PLACED or any(pod.startswith(prefix) for prefix in step.waiting):
            click.echo(f"  {reason:<16} {pod:<34} {message}")
    return set(new)


def _title(text: str) -> None:
    click.secho(f"\n{text}\n{'=' * len(text)}", bold=True)


def _interactive() -> bool:
    once = os.environ.get("DEMO_ONCE") == "1" or os.environ.get("CI") == "true"
    return sys.stdin.isatty() and not once


async def _keep(bed: Bed) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    bin_folder = Path(sys.executable).parent
    kubectl = bed.components.tools["kubectl"].path.parent
    click.secho("\nThe last cluster is yours until Ctrl-C:", bold=True)
    click.echo(f"  export KUBECONFIG={bed.kubeconfig} PATH={bin_folder}:{kubectl}:$PATH")
    click.echo("  kubectl get nodes,pods -o wide\n  kubectl inspect gpushare -d")
    await stop.wait()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except (GpuShareError, TestbedError) as error:
        click.echo(f"demo: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
