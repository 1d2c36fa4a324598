"""``make bench PART=pulumi``: the overhead of the engine, with the official host and provider.

The full example stack on a real API server, its Deployment on simulated nodes; beside it the same objects
by ``kubectl apply``, and what importing the program's modules costs.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import click

from components.manifests import everything
from components.render import as_yaml
from components.stack import from_file, load
from testbed import SimGpu, SimNode, Testbed
from testbed.pulumi import PulumiStack, old_tokens
from tests.support.builders.stacks import ROOT, STACKS
from tests.support.fixtures.clusters import CONTROL_PLANE
from tests.support.machine import machine

_IMPORTS = "import pulumi, pulumi_kubernetes, components.engine, components.resources, components.stack"
_OTHER_IMAGE = f"example.com/extender@sha256:{'3' * 64}"


@click.command()
@click.option("--rounds", default=5, show_default=True, help="How often the imports are timed.")
def main(rounds: int) -> None:
    """Print the results as Markdown."""
    click.echo(f"{machine()}\n")
    click.echo("| what | seconds |\n|---|---|")
    imports = min(_python(_IMPORTS) for _ in range(rounds)) - min(_python("") for _ in range(rounds))
    _print_row("importing what `__main__.py` imports", imports)
    asyncio.run(_engine())


def _python(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)  # noqa: S603 - our own code
    return time.perf_counter() - started


async def _engine() -> None:
    config = from_file(STACKS["node-port"])
    objects = everything(load(config))
    async with Testbed() as bed:
        await bed.add_nodes([*CONTROL_PLANE, SimNode("gpu", [SimGpu(), SimGpu()])])
        await old_tokens(bed)
        stack = await PulumiStack.create(bed, config)
        await _timed(f"preview, {len(objects)} objects to create", stack.preview)
        await _timed("up, all created and the Deployment available", stack.up)
        await _timed("up again, nothing to do", stack.up)
        stack.configure({**config, "extender": {**_extender(config), "image": _OTHER_IMAGE}})
        await _timed("up, another image of the extender rolled out", stack.up)
        await _timed("refresh", stack.refresh)
        await _timed("destroy", stack.destroy)
        await _timed(
            "for comparison, `kubectl apply` of the same objects", lambda: bed.apply(as_yaml(objects))
        )


def _extender(config: dict[str, object]) -> dict[str, object]:
    extender = config["extender"]
    return extender if isinstance(extender, dict) else {}


async def _timed(what: str, work: Callable[[], Awaitable[object]]) -> None:
    started = time.perf_counter()
    await work()
    _print_row(what, time.perf_counter() - started)


def _print_row(what: str, seconds: float) -> None:
    click.echo(f"| {what} | {seconds:.1f} |")


if __name__ == "__main__":
    main()
