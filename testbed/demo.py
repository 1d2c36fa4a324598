"""``make demo``: the workloads of the ACK documentation, each scenario on its own real control plane.

What belongs here: the output of the demo, the choice between real and simulated nodes, and the end of the
demo. What does not: the scenarios (``testbed.stories``).
"""

import argparse
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
from devkit.errors import DevkitError
from devkit.folders import writable_cache
from devkit.progress import Held, told_to
from devkit.waiting import meanwhile
from gpushare.contract import EVENT_PLACED
from gpushare.errors import ConfigError, GpuShareError
from release import Images
from testbed.control_plane.bed import Bed
from testbed.daemons.agent import CardNode
from testbed.kubelets import KubeletSpec, needs
from testbed.nvml.build import library
from testbed.nvml.eras import NEWEST
from testbed.programs import build
from testbed.pulumi import TOOLS as PULUMI_TOOLS
from testbed.stories import (
    Story,
    StoryStep,
    autoscaling,
    isolation,
    notebooks,
    pictures,
    replicas,
    sample,
    tour,
)
from testbed.stories.autoscaling import autoscaled_cluster
from testbed.stories.deployed import Deploy, by_kubectl, by_pulumi, deployed_cluster
from testbed.stories.play import (
    board_of,
    kubelet_cluster,
    perform,
    pod_events,
    show,
    show_on,
    simulated_cluster,
    user_path,
)

_TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
_SIMULATION = ("kwok",)
_ANY = KubeletSpec("any", runtime="nvidia", services=True)
_REAL = (
    "Nodes are real kubelets with containerd and our node agent. Not real: the GPUs (stubs of NVML and of "
    "the CUDA driver simulate them) and the images of tf-notebook and binpack-1 (a busybox that sleeps)."
)

_BOARD = "board"
_TRY = {
    "kubectl gpushare explain fine-tune": "why it is pending, and what helps",
    "kubectl gpushare limits": "limits, peaks, and how often a program was refused",
    "kubectl gpushare recommend": "requests that fit what the programs use",
    "kubectl inspect gpushare -d": "each GPU with its pods",
    "kubectl gpushare doctor": "a check of the whole installation",
}
_EVENTS = "kubectl get events --field-selector reason=SuccessfulRescale -o custom-columns=MESSAGE:.message"

_print = partial(click.secho, dim=True)


async def main() -> None:
    """Play all scenarios; if the terminal is interactive, keep the last cluster until Ctrl-C.

    ``DEMO=board`` plays the last scenario only and opens the board. What the first scenarios do not need is
    built meanwhile: images, and kwok if nodes are real.
    """
    only_board = _only_board()
    writable_cache()
    missing = _missing_for_kubelets()
    later = Held()
    wanted = [*_TOOLS, *(_SIMULATION if missing else _ANY.tools)]
    async with AsyncExitStack() as work, AsyncExitStack() as stack:
        tools = await work.enter_async_context(meanwhile(build.ensure(wanted)))
        with told_to(later):
            simulation = await work.enter_async_context(meanwhile(_build_simulation(tools)))
            finding = _find_deployment(tools, real=missing is None)
            deployment = await work.enter_async_context(meanwhile(finding))
        await tools
        _print(f"# Nodes are simulated: {missing}" if missing else f"# {_REAL}")
        run = _Run(stack, real=missing is None)
        if not only_board:
            await run.play(notebooks())
        with later.awaited():
            await simulation
            run.deployment = await deployment
        if not only_board:
            await _play_documents(run)
        bed = await run.play(tour(_limits(run.deployment)))
        if _interactive() or (only_board and not _once()):
            await _keep(bed, opened=only_board)
    click.secho("\nThe demo has ended; no process is left running.", bold=True)


async def _play_documents(run: "_Run") -> None:
    await run.play(pictures())
    await run.play(sample())
    if run.deployment:
        await run.autoscale(run.deployment)


def _only_board() -> bool:
    """Return whether the variable DEMO asks for the board. Raises ConfigError for any other value."""
    wanted = os.environ.get("DEMO", "")
    if wanted not in ("", _BOARD):
        raise ConfigError(f"DEMO={wanted}: use DEMO={_BOARD}, or leave it out for all scenarios")
    return bool(wanted)


async def _build_simulation(tools: Awaitable[object]) -> None:
    """A scenario that needs it earlier waits for this build."""
    await tools
    await build.ensure(_SIMULATION)


def _missing_for_kubelets() -> str | None:
    """Return why real kubelets with our agent cannot run on this machine; None if they can."""
    try:
        needs.look()
        library(NEWEST)
    except DevkitError as error:
        return str(error)
    return None


@dataclass(frozen=True)
class _Deployment:
    """How our services are deployed from images; ``description`` is printed."""

    images: Images
    deploy: Deploy
    description: str


async def _find_deployment(tools: Awaitable[object], *, real: bool) -> _Deployment | None:
    """Return how to deploy our services; None if they run as processes, because images cannot be built.

    The Pulumi engine is built after ``tools``.
    """
    if not real:
        return None
    try:
        images = await release.ensure()
    except DevkitError as error:
        _print(f"# Our services run as processes in all scenarios: {error}")
        return None
    await tools
    if os.environ.get("PULUMI") == "build":
        await build.ensure(PULUMI_TOOLS)
    if build.present(PULUMI_TOOLS):
        return _Deployment(images, by_pulumi, "`pulumi up` deploys our services from images")
    return _Deployment(
        images,
        by_kubectl,
        "`python -m components.render | kubectl apply -f -` deploys our services from images; "
        "`make demo PULUMI=build` builds the Pulumi engine and uses it; about 10 minutes on 2 cores",
    )


class _Run:
    """One run of the demo; ``stack`` closes the cluster of the current scenario.

    ``deployment`` is how our services are deployed; None where they run as processes, or nodes are simulated.
    """

    def __init__(self, stack: AsyncExitStack, *, real: bool) -> None:
        self._stack = stack
        self.real = real
        self.deployment: _Deployment | None = None
        self._began: float | None = time.monotonic()

    async def play(self, story: Story) -> Bed:
        """Play a scenario on its own cluster, and leave the cluster running until the next one."""
        await self._stack.aclose()
        _print_title(story.title)
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
        if self.real and story.simulated:
            _print("# Nodes are simulated: this scenario shows placement only")
        elif self.real:
            try:
                nodes = await self._real_nodes(story)
            except DevkitError as error:
                self.real, self.deployment = False, None
                _print(f"# Nodes are simulated from now on: {error}")
            else:
                return nodes[0].bed, nodes
        return await self._stack.enter_async_context(simulated_cluster(story)), []

    async def _real_nodes(self, story: Story) -> list[CardNode]:
        if not (story.deployed and self.deployment):
            return [*await self._stack.enter_async_context(kubelet_cluster(story))]
        cluster = deployed_cluster(story, self.deployment.images, self.deployment.deploy)
        deployed = await self._stack.enter_async_context(cluster)
        _print_deployment(self.deployment, deployed.objects)
        return [*deployed.nodes]

    async def autoscale(self, deployment: _Deployment) -> None:
        """Play the scenario of the HPA on its own cluster."""
        await self._stack.aclose()
        _print_title(autoscaling.TITLE)
        images = deployment.images
        cluster = autoscaled_cluster(images, deployment.deploy)
        running = await self._stack.enter_async_context(cluster)
        _print_deployment(deployment, running.objects)
        _print("# Here the HPA decides every second, and removes replicas after 3 seconds, not 5 minutes")
        async for step in autoscaling.steps(running, images):
            _print(f"\n# {step}")
            await _show_all(["kubectl get hpa", "kubectl gpushare top pod"], partial(show, running.bed))
        await _show_all([_EVENTS], partial(show, running.bed))

    def _print_start(self) -> None:
        if self._began is not None:
            _print(f"# the first pods run {time.monotonic() - self._began:.1f} s after the start")
            self._began = None


def _limits(deployment: _Deployment | None) -> Story:
    """Return the scenario of two replicas; their programs use GPU memory if they run from our images."""
    return isolation(deployment.images.references["samples"]) if deployment else replicas()


def _print_title(title: str) -> None:
    click.secho(f"\n{title}\n{'=' * len(title)}", bold=True)


def _print_deployment(deployment: _Deployment, objects: Sequence[str]) -> None:
    _print(f"# {deployment.description}: {len(objects)} objects")


async def _show_inside(story: Story, bed: Bed, node: CardNode) -> None:
    """Print what only running containers can show."""
    await _show_all(story.inside, partial(show, bed))
    if story.on_node:
        _print(f"\n# on node {node.name}, with the service account of its agent")
        await _show_all(story.on_node, partial(show_on, node))


async def _show_all(commands: Sequence[str], run: Callable[[str], Awaitable[str]]) -> None:
    for command in commands:
        click.secho(f"\n$ {command}", fg="green")
        click.echo(await run(command))


async def _print_events(
    bed: Bed, step: StoryStep, printed: set[tuple[str, str, str]]
) -> set[tuple[str, str, str]]:
    """Print and return the new placement events, and those that say why a pod waits."""
    new = [event for event in await pod_events(bed) if event not in printed]
    for pod, reason, message in new:
        if reason == EVENT_PLACED or any(pod.startswith(prefix) for prefix in step.waiting):
            click.echo(f"  {reason:<16} {pod:<34} {message}")
    return set(new)


def _interactive() -> bool:
    return sys.stdin.isatty() and not _once()


def _once() -> bool:
    return os.environ.get("DEMO_ONCE") == "1" or os.environ.get("CI") == "true"


async def _keep(bed: Bed, *, opened: bool) -> None:
    """Serve the board of the cluster until Ctrl-C; ``opened``: also open it in a browser."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    flag = "--open" if opened else ""
    async with board_of(bed, flag) as url:
        click.secho(f"\nThis cluster keeps running until Ctrl-C. Its board: {url}", bold=True)
        click.echo("In another terminal:")
        click.echo(f"  export KUBECONFIG={bed.kubeconfig} PATH={user_path(bed)}:$PATH")
        for command, shows in _TRY.items():
            click.echo(f"  {command:<42} # {shows}")
        await stop.wait()


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m testbed.demo", description=main.__doc__).parse_args()
    try:
        asyncio.run(main())
    except GpuShareError as error:
        click.echo(f"demo: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
