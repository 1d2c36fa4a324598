"""``make demo``: the workloads of the ACK documentation, each scenario on its own real control plane.

What belongs here: the output of the demo, the choice between real and simulated nodes, and the end of the
demo. What does not: the scenarios (``testbed.stories``).
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

import click

import release
from gpushare.contract import EVENT_PLACED
from gpushare.errors import GpuShareError
from release import Images
from testbed.control_plane.bed import Bed
from testbed.daemons.agent import CardNode
from testbed.errors import TestbedError
from testbed.kubelets import KubeletSpec, needs
from testbed.nvml.build import library
from testbed.nvml.eras import NEWEST
from testbed.programs import build
from testbed.pulumi import TOOLS as PULUMI_TOOLS
from testbed.stories import STORIES, Step, Story
from testbed.stories.deployed import Deploy, by_kubectl, by_pulumi, deployed_cluster
from testbed.stories.play import (
    kubelet_cluster,
    limits,
    perform,
    pod_events,
    show,
    show_on,
    simulated_cluster,
    user_path,
)
from testbed.system.folders import writable_cache

_TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")
_ANY = KubeletSpec("any", runtime="nvidia", services=True)
_REAL = (
    "Nodes are real kubelets with containerd and our node agent. Not real: the GPUs (a stub of NVML "
    "simulates them) and the images of the workloads (a busybox that sleeps replaces them)."
)

_print = partial(click.secho, dim=True)


async def main() -> None:
    """Play all scenarios; if the terminal is interactive, keep the last cluster until Ctrl-C."""
    writable_cache()
    missing = _missing_for_kubelets()
    await build.ensure([*_TOOLS, *([] if missing else _ANY.tools)])
    _print(f"# Nodes are simulated: {missing}" if missing else f"# {_REAL}")
    deployment = None if missing else await _find_deployment()
    async with AsyncExitStack() as stack:
        run = _Run(stack, real=missing is None, deployment=deployment)
        for make in STORIES:
            await stack.aclose()
            bed = await run.play(make())
        if _interactive():
            await _keep(bed)
    click.secho("\nThe demo has ended; no process is left running.", bold=True)


def _missing_for_kubelets() -> str | None:
    """Return why real kubelets with our agent cannot run on this machine; None if they can."""
    try:
        needs.look()
        library(NEWEST)
    except TestbedError as error:
        return str(error)
    return None


@dataclass(frozen=True)
class _Deployment:
    """How our services are deployed from images; ``description`` is printed."""

    images: Images
    deploy: Deploy
    description: str


async def _find_deployment() -> _Deployment | None:
    """Return how to deploy our services; None if images cannot be built, so that they run as processes."""
    if os.environ.get("PULUMI") == "build":
        await build.ensure(PULUMI_TOOLS)
    try:
        images = await release.ensure()
    except TestbedError as error:
        _print(f"# Our services run as processes in all scenarios: {error}")
        return None
    if build.present(PULUMI_TOOLS):
        return _Deployment(images, by_pulumi, "`pulumi up` deploys our services from images")
    return _Deployment(
        images,
        by_kubectl,
        "`python -m components.render | kubectl apply -f -` deploys our services from images; "
        "`make demo PULUMI=build` builds the Pulumi engine and uses it; about 10 minutes on 2 cores",
    )


class _Run:
    """One run of the demo; ``stack`` closes the cluster of the current scenario."""

    def __init__(self, stack: AsyncExitStack, *, real: bool, deployment: _Deployment | None) -> None:
        self._stack = stack
        self._deployment = deployment
        self._real = real
        self._began: float | None = time.monotonic()

    async def play(self, story: Story) -> Bed:
        """Play a scenario on its own cluster, and leave the cluster running."""
        click.secho(f"\n{story.title}\n{'=' * len(story.title)}", bold=True)
        bed, nodes = await self._cluster(story)
        printed: set[tuple[str, str, str]] = set()
        for step in story.steps:
            _print(f"\n# {step.description}")
            await perform(bed, step)
            self._print_start()
            printed |= await _print_events(bed, step, printed)
        await _show_all(story.commands, partial(show, bed))
        if nodes:
            await _show_inside(story, bed, nodes[0])
        return bed

    async def _cluster(self, story: Story) -> tuple[Bed, list[CardNode]]:
        if self._real and story.simulated:
            _print("# Nodes are simulated: this scenario shows placement only")
        elif self._real:
            try:
                nodes = await self._real_nodes(story)
            except TestbedError as error:
                self._real = False
                _print(f"# Nodes are simulated from now on: {error}")
            else:
                return nodes[0].bed, nodes
        return await self._stack.enter_async_context(simulated_cluster(story)), []

    async def _real_nodes(self, story: Story) -> list[CardNode]:
        if not (story.deployed and self._deployment):
            return [*await self._stack.enter_async_context(kubelet_cluster(story))]
        _print(f"# {self._deployment.description}")
        cluster = deployed_cluster(story, self._deployment.images, self._deployment.deploy)
        deployed = await self._stack.enter_async_context(cluster)
        for name in deployed.objects:
            _print(f"#   {name}")
        return deployed.nodes

    def _print_start(self) -> None:
        if self._began is not None:
            _print(f"# the first pods run {time.monotonic() - self._began:.1f} s after the start")
            self._began = None


async def _show_inside(story: Story, bed: Bed, node: CardNode) -> None:
    """Print what only running containers can show."""
    _print("\n# GPU memory limit of each pod")
    for pod, text in await limits(bed):
        click.echo(f"  {pod:<34} {text}")
    await _show_all(story.inside, partial(show, bed))
    if story.on_node:
        _print(f"\n# on node {node.name}, with the service account of its agent")
        await _show_all(story.on_node, partial(show_on, node))


async def _show_all(commands: Sequence[str], run: Callable[[str], Awaitable[str]]) -> None:
    for command in commands:
        click.secho(f"\n$ {command}", fg="green")
        click.echo(await run(command))


async def _print_events(
    bed: Bed, step: Step, printed: set[tuple[str, str, str]]
) -> set[tuple[str, str, str]]:
    """Print and return the new placement events, and those that say why a pod waits."""
    new = [event for event in await pod_events(bed) if event not in printed]
    for pod, reason, message in new:
        if reason == EVENT_PLACED or any(pod.startswith(prefix) for prefix in step.waiting):
            click.echo(f"  {reason:<16} {pod:<34} {message}")
    return set(new)


def _interactive() -> bool:
    once = os.environ.get("DEMO_ONCE") == "1" or os.environ.get("CI") == "true"
    return sys.stdin.isatty() and not once


async def _keep(bed: Bed) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    click.secho("\nThe last cluster keeps running until Ctrl-C:", bold=True)
    click.echo(f"  export KUBECONFIG={bed.kubeconfig} PATH={user_path(bed)}:$PATH")
    click.echo("  kubectl get nodes,pods -o wide\n  kubectl inspect gpushare -d")
    await stop.wait()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except GpuShareError as error:
        click.echo(f"demo: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
