"""``make demo``: the stories of the source documents, each on its own real control plane.

What belongs here: what the demo prints, whether its nodes are real, and when it ends. What does not:
the stories themselves.
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
from testbed.programs import build
from testbed.pulumi import TOOLS as PULUMI_TOOLS
from testbed.stories import STORIES, Step, Story
from testbed.stories.deployed import deployed_stage
from testbed.stories.deploying import Deploy, by_kubectl, by_pulumi
from testbed.stories.play import limits, perform, pod_events, real_stage, show, show_on, stage, user_path

_TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")
_ANY = KubeletSpec("any", runtime="nvidia", services=True)
_ERA = 580
_REAL = (
    "Nodes are real kubelets with containerd and our agent. What is not real: the cards (a stub of NVML "
    "describes them) and the images (a busybox that sleeps goes by their names)."
)

_say = partial(click.secho, dim=True)


async def main() -> None:
    """Play all stories; then, for a person, keep the last cluster until Ctrl-C."""
    obstacle = _obstacle()
    await build.ensure([*_TOOLS, *([] if obstacle else _ANY.tools)])
    _say(f"# Nodes are simulated: {obstacle}" if obstacle else f"# {_REAL}")
    whole = None if obstacle else await _find_whole()
    async with AsyncExitStack() as stack:
        run = _Run(stack, real=obstacle is None, whole=whole)
        for make in STORIES:
            await stack.aclose()
            bed = await run.play(make())
        if _interactive():
            await _keep(bed)
    click.secho("\nThe demo is over; nothing is left running.", bold=True)


def _obstacle() -> str | None:
    """Why nodes with real kubelets and our agent cannot run here; None where nothing is seen."""
    try:
        needs.look()
        library(_ERA)
    except TestbedError as error:
        return str(error)
    return None


@dataclass(frozen=True)
class _Whole:
    """How our services are deployed from images, and with which words."""

    release: Images
    deploy: Deploy
    says: str


async def _find_whole() -> _Whole | None:
    """The way to deploy our services; None where they have to run as processes."""
    if os.environ.get("PULUMI") == "build":
        await build.ensure(PULUMI_TOOLS)
    try:
        images = await release.ensure()
    except TestbedError as error:
        _say(f"# Our services run as processes in all stories: {error}")
        return None
    if build.present(PULUMI_TOOLS):
        return _Whole(images, by_pulumi, "`pulumi up` deploys our services from images")
    return _Whole(
        images,
        by_kubectl,
        "`python -m components.render | kubectl apply -f -` deploys our services from images; "
        "`make demo PULUMI=build` builds Pulumi's engine and goes by it, about 10 minutes on 2 cores",
    )


class _Run:
    """One run of the demo. The cluster of the story that is played is on ``stack``."""

    def __init__(self, stack: AsyncExitStack, *, real: bool, whole: _Whole | None) -> None:
        self._stack = stack
        self._whole = whole
        self._real = real
        self._began: float | None = time.monotonic()

    async def play(self, story: Story) -> Bed:
        """Play a story on its own cluster, which stays."""
        click.secho(f"\n{story.title}\n{'=' * len(story.title)}", bold=True)
        bed, nodes = await self._stage(story)
        told: set[tuple[str, str, str]] = set()
        for step in story.steps:
            _say(f"\n# {step.says}")
            await perform(bed, step)
            self._tell_start()
            told |= await _events(bed, step, told)
        await _show_all(story.commands, partial(show, bed))
        if nodes:
            await _show_inside(story, bed, nodes[0])
        return bed

    async def _stage(self, story: Story) -> tuple[Bed, list[CardNode]]:
        if self._real and story.simulated:
            _say("# simulated nodes: this story is about numbers only")
        elif self._real:
            try:
                nodes = await self._real_nodes(story)
            except TestbedError as error:
                self._real = False
                _say(f"# Nodes are simulated from here on: {error}")
            else:
                return nodes[0].bed, nodes
        return await self._stack.enter_async_context(stage(story)), []

    async def _real_nodes(self, story: Story) -> list[CardNode]:
        if not (story.deployed and self._whole):
            return [*await self._stack.enter_async_context(real_stage(story))]
        _say(f"# {self._whole.says}")
        stage = deployed_stage(story, self._whole.release, self._whole.deploy)
        deployed = await self._stack.enter_async_context(stage)
        for name in deployed.made:
            _say(f"#   {name}")
        return deployed.nodes

    def _tell_start(self) -> None:
        if self._began is not None:
            _say(f"# the first pods run {time.monotonic() - self._began:.1f} s after the start")
            self._began = None


async def _show_inside(story: Story, bed: Bed, node: CardNode) -> None:
    """What only containers that run can show."""
    _say("\n# what each pod may use of its card")
    for pod, text in await limits(bed):
        click.echo(f"  {pod:<34} {text}")
    await _show_all(story.inside, partial(show, bed))
    if story.on_node:
        _say(f"\n# on node {node.name}, with the rights of its agent")
        await _show_all(story.on_node, partial(show_on, node))


async def _show_all(commands: Sequence[str], run: Callable[[str], Awaitable[str]]) -> None:
    for command in commands:
        click.secho(f"\n$ {command}", fg="green")
        click.echo(await run(command))


async def _events(bed: Bed, step: Step, told: set[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    """Print the placement events that are new; for pods that wait, why."""
    new = [event for event in await pod_events(bed) if event not in told]
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
    click.secho("\nThe last cluster is yours until Ctrl-C:", bold=True)
    click.echo(f"  export KUBECONFIG={bed.kubeconfig} PATH={user_path(bed)}:$PATH")
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
